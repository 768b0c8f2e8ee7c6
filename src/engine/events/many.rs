//! Changes of many events, as a run: frozen as a plan, started by a person, carried on by whoever is alive.
//!
//! Each window changes its events and journals what came of each in one transaction, under the run's lease: a process
//! that dies in between has done a window wholly or not at all, and nothing is done twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::EventOperations;
use super::look::EventPages;
use super::{EventCommand, EventSelection};
use crate::ambient;
use crate::domain::event::Event;
use crate::domain::id::QueueName;
use crate::domain::naming::hex;
use crate::domain::run::{ItemState, Pace, RunCounts, RunState, eta};
use crate::domain::time::Timestamp;
use crate::domain::words::plural;
use crate::engine::EngineError;
use crate::engine::command::{Command, Danger, Plan, PlanLine, RunPlan};
use crate::engine::error::chain;
use crate::engine::operation::Operation;
use crate::store::{
    EventAct, EventItem, EventsChange, EventsChanged, Frozen, ItemQuery, NewAudit, NewItem, NewRun, RunRecord, RunStop,
    StoreError,
};

/// Events of one run, at most.
const ITEMS_MAX: u64 = 1_000_000;
/// Events of one window.
const WINDOW: u32 = 500;
/// Events that a plan names for people.
const SAMPLES_MAX: usize = 5;
/// Between two tries of a store that is away.
const PAUSE: Duration = Duration::from_secs(1);
/// As fast as windows go, for an estimate.
const UNPACED: u32 = 5_000;

/// What is done with each event; kept with the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Act {
    Retry,
    Reschedule { at_us: i64 },
    Cancel,
}

impl Act {
    const fn of(command: &EventCommand) -> Option<Self> {
        match command {
            EventCommand::Retry(_) => Some(Self::Retry),
            EventCommand::Reschedule(_, at) => Some(Self::Reschedule { at_us: at.micros() }),
            EventCommand::Cancel(_) => Some(Self::Cancel),
            EventCommand::SetType { .. } | EventCommand::Subscribe { .. } | EventCommand::Unsubscribe { .. } => None,
        }
    }

    const fn on_store(self) -> EventAct {
        match self {
            Self::Retry => EventAct::Retry,
            Self::Reschedule { at_us } => EventAct::Reschedule(Timestamp::from_micros(at_us)),
            Self::Cancel => EventAct::Cancel,
        }
    }
}

/// What is read of the document of a run; it is one of the other runs' too.
#[derive(Deserialize)]
struct Document {
    events: Act,
}

/// What is gathered while events are frozen.
#[derive(Default)]
struct Gathered {
    total: u64,
    bytes: u64,
    oldest: Option<Timestamp>,
    newest: Option<Timestamp>,
    kinds: BTreeMap<(String, &'static str), u64>,
    samples: Vec<String>,
    digest: Sha256,
}

impl Gathered {
    fn take(&mut self, event: &Event) -> Result<NewItem, EngineError> {
        let item = NewItem {
            ordinal: self.total,
            letter: format!("{}.{}", event.id, event.revision),
            source: QueueName::parse(event.event_type.as_str())
                .map_err(|error| EngineError::Refused { why: error.to_string() })?,
            target: None,
            bytes: event.payload.as_ref().map_or(0, |payload| payload.len() as u64),
            state: ItemState::Planned,
            reason: None,
        };
        self.total += 1;
        self.bytes += item.bytes;
        self.oldest = self.oldest.into_iter().chain([event.created_at]).min();
        self.newest = self.newest.into_iter().chain([event.created_at]).max();
        *self
            .kinds
            .entry((event.shown_type(), event.state.as_str()))
            .or_default() += 1;
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(format!("{}: {}", event.id, event.reference.as_str()));
        }
        self.digest.update(item.letter.as_bytes());
        self.digest.update([0]);
        Ok(item)
    }
}

impl EventOperations {
    /// Freezes everything that a filter finds.
    pub(super) async fn plan_many(
        &self,
        (verb, effect): (&str, &str),
        (filter, rate): (&str, Option<u32>),
        command: EventCommand,
    ) -> Result<Plan, EngineError> {
        let Some(act) = Act::of(&command) else {
            return Err(EngineError::Refused {
                why: format!("{} is not done with many", command.about().name),
            });
        };
        let new = NewRun {
            id: ambient::new_id(),
            command: command.about().name.to_owned(),
            rate,
            canary: None,
        };
        self.store.run_create(&new).await?;
        let gathered = self.freeze_events(&new.id, filter).await?;
        let paced = rate.map_or_else(String::new, |rate| format!(", {rate} a second"));
        let title = format!("{verb} {}{paced}", plural(gathered.total, "event", "events"));
        let mut digest = gathered.digest.clone();
        digest.update(format!("{command:?}\n{rate:?}"));
        let hash = hex(&digest.finalize());
        let document = serde_json::json!({
            "kind": "redrive", "head": false, "targets": {}, "title": title, "bytes": gathered.bytes, "refused": 0,
            "warnings": [], "events": act,
        });
        let frozen = Frozen {
            total: gathered.total,
            counts: RunCounts::default(),
            plan: document.to_string(),
            hash: hash.clone(),
        };
        self.store.run_freeze(&new.id, &frozen).await?;
        let lines = gathered.kinds.iter().map(|((name, state), count)| PlanLine {
            target: name.clone(),
            now: format!("{count} {state}"),
            effect: effect.to_owned(),
        });
        Ok(Plan {
            title,
            lines: lines.collect(),
            warnings: vec![
                "an event that is pushed again, or taken to be handled, before its turn is left alone".to_owned(),
            ],
            messages: Some(gathered.total),
            danger: if act == Act::Cancel {
                Danger::Destroys
            } else {
                Danger::Reversible
            },
            hash,
            run: Some(RunPlan {
                id: new.id,
                total: gathered.total,
                refused: 0,
                bytes: gathered.bytes,
                oldest: gathered.oldest,
                newest: gathered.newest,
                dropped: Vec::new(),
                samples: gathered.samples,
                estimated: eta(gathered.total, rate.or(Some(UNPACED)), 0, Duration::ZERO),
                receivers: Vec::new(),
            }),
            ends_reason: None,
            names: Vec::new(),
            command: Command::Events(command),
        })
    }

    async fn freeze_events(&self, run: &str, filter: &str) -> Result<Gathered, EngineError> {
        let mut gathered = Gathered::default();
        let mut pages = EventPages::of(filter);
        while let Some(page) = self.events_next(&mut pages).await? {
            let items: Vec<NewItem> = page
                .iter()
                .map(|event| gathered.take(event))
                .collect::<Result<_, _>>()?;
            if gathered.total > ITEMS_MAX {
                return Err(EngineError::Refused {
                    why: format!("more than {ITEMS_MAX} events: narrow the filter"),
                });
            }
            if !items.is_empty() {
                self.store.run_items_add(run, &items).await?;
            }
        }
        if gathered.total == 0 {
            return Err(EngineError::NotFound {
                what: "an event that matches".to_owned(),
            });
        }
        Ok(gathered)
    }

    /// Works on a run over events until it is over, a person stops it, somebody else has it, or `stop`; false when it
    /// is a run over something else.
    pub(in crate::engine) async fn drive_events(self: &Arc<Self>, run: &RunRecord, stop: &CancellationToken) -> bool {
        let Ok(document) = serde_json::from_str::<Document>(&run.plan) else {
            return false;
        };
        let ended = self.work_on_events(run, document.events, stop).await;
        self.table.wake_all();
        let stopped = match ended {
            Ok(Some(stop)) => self
                .store
                .run_stop(&run.id, run.epoch, &stop)
                .await
                .map(|held| (held, stop)),
            Ok(None) | Err(StoreError::Unreachable { .. } | StoreError::NotWritable { .. }) => {
                let _ = self.store.run_free(&run.id, run.epoch).await;
                return true;
            }
            Err(error) => {
                let counts = self.store.run_counts(&run.id).await.unwrap_or(run.counts);
                let stop = RunStop {
                    state: RunState::Failed,
                    counts,
                    note: Some(chain(&error)),
                };
                self.store
                    .run_stop(&run.id, run.epoch, &stop)
                    .await
                    .map(|held| (held, stop))
            }
        };
        match stopped {
            Ok((true, stop)) => self.audit_end(run, &stop).await,
            other => tracing::debug!(run = ?run.id, ?other, "a run over events is given back"),
        }
        true
    }

    /// How it ended; `None` when somebody else goes on with it, or nobody does.
    async fn work_on_events(
        &self,
        run: &RunRecord,
        act: Act,
        stop: &CancellationToken,
    ) -> Result<Option<RunStop>, StoreError> {
        let mut pace = run.rate.map(|rate| Pace::new(rate, self.clock.uptime()));
        let mut counts = self.store.run_counts(&run.id).await?;
        loop {
            let limit = run.rate.map_or(WINDOW, |rate| (rate / 4).clamp(1, WINDOW));
            let query = ItemQuery {
                run: run.id.clone(),
                open: true,
                limit,
                ..ItemQuery::default()
            };
            let items = match self.store.run_items(&query).await {
                Ok(items) => items,
                Err(StoreError::Unreachable { .. } | StoreError::NotWritable { .. }) if wait(stop, PAUSE).await => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            if items.is_empty() {
                return Ok(Some(RunStop {
                    state: RunState::Done,
                    counts,
                    note: None,
                }));
            }
            for _ in &items {
                let Some(pace) = &mut pace else { break };
                if !wait(stop, pace.wait(self.clock.uptime())).await {
                    return Ok(None);
                }
                pace.take(self.clock.uptime());
            }
            let items = items.iter().filter_map(|record| {
                let (id, revision) = record.item.letter.split_once('.')?;
                Some(EventItem {
                    ordinal: record.item.ordinal,
                    id: id.parse().ok()?,
                    revision: revision.parse().ok()?,
                })
            });
            let change = EventsChange {
                run: run.id.clone(),
                epoch: run.epoch,
                counts,
                act: act.on_store(),
                items: items.collect(),
            };
            match self.store.events_change(&change).await {
                Ok(EventsChanged::Changed(now)) => counts = now,
                Ok(EventsChanged::Lost | EventsChanged::Asked(_)) => return Ok(None),
                // It may have happened: what is left is read anew.
                Err(StoreError::Unreachable { .. } | StoreError::NotWritable { .. }) if wait(stop, PAUSE).await => {
                    counts = self.store.run_counts(&run.id).await.unwrap_or(counts);
                }
                Err(error) => return Err(error),
            }
            if stop.is_cancelled() {
                return Ok(None);
            }
        }
    }

    async fn audit_end(&self, run: &RunRecord, stop: &RunStop) {
        let RunCounts { done, failed, skipped } = stop.counts;
        let note = stop.note.as_ref().map_or_else(String::new, |note| format!("; {note}"));
        let entry = NewAudit {
            actor: run.actor.clone(),
            command: run.command.clone(),
            target: format!("run {}", run.id),
            reason: run.reason.clone(),
            plan: Some(run.hash.clone()),
            result: stop.state.as_str().to_owned(),
            detail: format!("{done} of {} done, {failed} failed, {skipped} skipped{note}", run.total),
        };
        if let Err(error) = self.store.audit_append(&entry).await {
            tracing::warn!(error = ?error, "the end of a run is not in the audit");
        }
    }
}

impl EventSelection {
    /// What a filter finds, and how many of it a second; only that can be many.
    pub(super) fn many(&self) -> Option<(&str, Option<u32>)> {
        match self {
            Self::Filter(filter) => Some((filter, None)),
            Self::Paced(filter, rate) => Some((filter, Some(*rate))),
            Self::Ids(_) | Self::Rows(_) | Self::Reference(..) => None,
        }
    }
}

/// False when it is time to stop.
async fn wait(stop: &CancellationToken, span: Duration) -> bool {
    if span.is_zero() {
        return !stop.is_cancelled();
    }
    stop.run_until_cancelled(ambient::sleep(span)).await.is_some()
}
