//! Working on a run: its lease, its sources one after the other, and what becomes of it in the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Runs;
use super::flight::Flight;
use super::hold::SourceHold;
use super::journal::Journal;
use super::order::{OrderKind, WINDOW};
use super::plan::Document;
use super::taken::{Halt, PAUSE, TakenRun};
use super::window::Outcomes;
use crate::ambient;
use crate::domain::run::{Pace, RunCounts, RunState, Target};
use crate::engine::manage::Manager;
use crate::store::{NewAudit, RunRecord, RunStop, RunTaken, StoreError};

/// Who works on a run.
pub(super) struct Driver<'a> {
    pub(super) run: TakenRun<'a>,
    pub(super) journal: Journal,
    pub(super) hold: SourceHold,
    pub(super) pace: Option<Pace>,
    /// When the endpoints, and when the dead letters were looked at last (uptime), where the run watches itself.
    pub(super) looked_at: (Duration, Duration),
    /// Sent and not confirmed yet.
    pub(super) flight: Option<Flight>,
    /// Confirmed, and neither recorded nor settled at its source yet.
    pub(super) landed: Outcomes,
    pub(super) care: Care,
}

/// Windows that fail.
#[derive(Default)]
pub(super) struct Care {
    /// Outcomes when a window failed last.
    stuck_at: Option<u64>,
    /// So many messages go alone: a window failed, and nobody knows which of its messages is to blame.
    pub(super) careful: usize,
    /// Targets that take nothing, and why.
    pub(super) refusing: BTreeMap<Target, String>,
}

impl Care {
    /// Where two windows in a row came to nothing, one of their messages may be to blame: each goes alone then.
    fn failed_at(&mut self, outcomes: u64) {
        if self.stuck_at == Some(outcomes) {
            self.careful = WINDOW;
        }
        self.stuck_at = Some(outcomes);
    }
}

impl Runs {
    /// Works on a run until it is over, a person stops it, somebody else has it, or `stop`.
    pub(super) async fn drive_run(self: Arc<Self>, id: String, stop: CancellationToken) {
        let manager = match self.begin_managing("run").await {
            Ok(manager) => manager,
            Err(error) => {
                tracing::warn!(run = ?id, error = ?error, "a run cannot be worked on yet");
                return;
            }
        };
        let engine = Arc::clone(&self);
        // Work that panicked is over as well: the run is free with its incarnation, and whoever looks goes on with it.
        let work = ambient::spawn("work on a run", async move {
            engine.take_and_drive(id, &manager, stop).await;
            manager.end().await;
        });
        let _ = work.await;
        self.news.moved.send_replace(());
    }

    async fn take_and_drive(self: &Arc<Self>, id: String, manager: &Manager, stop: CancellationToken) {
        match self.store.run_take(&id, manager.id()).await {
            Ok(RunTaken::Taken(run)) => self.drive_taken(*run, manager, &stop).await,
            Ok(other) => tracing::debug!(run = ?id, ?other, "a run is not to be had"),
            Err(error) => tracing::warn!(run = ?id, error = ?error, "a run cannot be taken yet"),
        }
    }

    async fn drive_taken(self: &Arc<Self>, run: RunRecord, manager: &Manager, stop: &CancellationToken) {
        tracing::info!(run = ?run.id, command = ?run.command, "working on a run");
        if self.events.drive_events(&run, stop).await {
            return;
        }
        let document = match Document::read(&run.plan) {
            Ok(document) => document,
            Err(reason) => {
                let stop = ended(RunState::Failed, run.counts, Some(reason));
                let _ = self.store.run_stop(&run.id, run.epoch, &stop).await;
                return;
            }
        };
        let now = self.clock.uptime();
        let mut driver = Driver {
            pace: run.rate.map(|rate| Pace::new(rate, now)),
            journal: Journal::new(run.counts),
            run: TakenRun::new(self, (run, document), manager, stop),
            hold: SourceHold::default(),
            looked_at: (now, now),
            flight: None,
            landed: Outcomes::default(),
            care: Care::default(),
        };
        driver.run_to_end().await;
    }
}

fn ended(state: RunState, counts: RunCounts, note: Option<String>) -> RunStop {
    RunStop { state, counts, note }
}

impl Driver<'_> {
    async fn run_to_end(&mut self) {
        let mut told = String::new();
        loop {
            let halt = match self.work().await {
                Ok(()) => return self.end(RunState::Done, None).await,
                Err(halt) => halt,
            };
            // What it waits for is asked again each second.
            let why = format!("{halt:?}");
            if why != told {
                tracing::info!(run = ?self.run.record.id, ?halt, "a run halts");
                told = why;
            }
            match halt {
                Halt::Waits(why) => {
                    self.care.failed_at(self.journal.counts.settled());
                    if let Err(halt) = self.journal.wait(&self.run, why).await {
                        tracing::debug!(run = ?self.run.record.id, ?halt, "a run is given back");
                        return self.run.give_back().await;
                    }
                }
                Halt::Canary | Halt::Look => match self.looked(&halt).await {
                    Ok(None) => {}
                    Ok(Some(note)) => return self.end(RunState::Canary, Some(note)).await,
                    Err(halt) => {
                        tracing::debug!(run = ?self.run.record.id, ?halt, "a run is given back");
                        return self.run.give_back().await;
                    }
                },
                Halt::Trouble(note) => return self.end(RunState::Canary, Some(note)).await,
                Halt::Broken(why) => return self.end(RunState::Failed, Some(why)).await,
                Halt::Lost | Halt::Asked(_) | Halt::Stopped => return self.run.give_back().await,
            }
        }
    }

    async fn end(&mut self, state: RunState, note: Option<String>) {
        self.run.index_is_old().await;
        let stop = ended(state, self.journal.counts, note.clone());
        let store = &self.run.engine.store;
        let stopped = loop {
            match store.run_stop(&self.run.record.id, self.run.record.epoch, &stop).await {
                Err(StoreError::Unreachable { .. } | StoreError::NotWritable { .. })
                    if !self.run.stop.is_cancelled() =>
                {
                    ambient::sleep(PAUSE).await;
                }
                other => break other,
            }
        };
        if !matches!(stopped, Ok(true)) {
            return self.run.give_back().await;
        }
        if state.is_over() {
            let entry = NewAudit {
                actor: self.run.record.actor.clone(),
                command: self.run.record.command.clone(),
                target: format!("run {}", self.run.record.id),
                reason: self.run.record.reason.clone(),
                plan: Some(self.run.record.hash.clone()),
                result: state.as_str().to_owned(),
                detail: outcome(self.journal.counts, self.run.record.total, note.as_deref()),
            };
            if let Err(error) = store.audit_append(&entry).await {
                tracing::warn!(error = ?error, "the end of a run is not in the audit");
            }
        }
        tracing::info!(run = ?self.run.record.id, state = state.as_str(), done = self.journal.counts.done, failed = self.journal.counts.failed, skipped = self.journal.counts.skipped, "a run stopped");
    }

    /// One pass over everything that has no outcome yet.
    async fn work(&mut self) -> Result<(), Halt> {
        self.journal.counts = self.run.engine.store.run_counts(&self.run.record.id).await?;
        if self.is_canary_done() {
            return Err(Halt::Canary);
        }
        self.run.has_edits = self.run.has_edits().await?;
        self.hold.begin();
        for (source, open) in self.run.open_items().await? {
            if self.run.document.kind == OrderKind::Restore {
                self.put_back_to(&source, open).await?;
            } else {
                self.take_source(&source, open).await?;
            }
        }
        Ok(())
    }
}

/// One line about what came of it.
fn outcome(counts: RunCounts, total: u64, note: Option<&str>) -> String {
    let mut text = format!(
        "{} of {total} done, {} failed, {} skipped",
        counts.done, counts.failed, counts.skipped
    );
    if let Some(note) = note {
        text.push_str("; ");
        text.push_str(note);
    }
    text
}
