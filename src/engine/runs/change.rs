//! Executing a planned run, and what a person does to one.

use super::plan::Document;
use super::{RunDetail, RunReader, RunView, Runs};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::domain::run::{Phase, RunState, RunWish, Speed, Target, eta};
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::engine::command::{Command, Danger, Done, Plan, PlanLine, RunPlan, WriteGrant};
use crate::engine::dead::Exchanges;
use crate::store::{ItemQuery, NewAudit, RunQuery, RunRecord};

/// Runs whose speed is known, at most.
const SPEEDS_MAX: usize = 200;
/// A plan that is older than this is stale.
const PLAN_MAX: std::time::Duration = std::time::Duration::from_mins(15);

impl Runs {
    /// Starts a planned run, if the world is still as it was planned for: its targets above all. Messages that are
    /// gone meanwhile are skipped when it comes to them.
    pub(in crate::engine) async fn execute_run(
        self: &std::sync::Arc<Self>,
        plan: &Plan,
        planned: &RunPlan,
        grant: &WriteGrant,
    ) -> Result<Done, EngineError> {
        let run = self.run_reader.run_record(&planned.id).await?;
        let document = Document::read(&run.plan).map_err(|why| EngineError::Refused { why })?;
        if run.state != RunState::Planned || run.hash != plan.hash {
            return Err(stale("it was executed already, or it is another plan"));
        }
        if self.store.now().await?.since(run.created_at) > PLAN_MAX {
            return Err(stale("it is older than 15 minutes"));
        }
        let mut exchanges = Exchanges::new();
        for (target, existed) in &document.targets {
            let Some(target) = Target::decode(target) else { continue };
            if self.planner.takes(&target, &mut exchanges).await? != *existed {
                let now = if *existed {
                    "does not exist any more"
                } else {
                    "exists now"
                };
                return Err(stale(&format!("{target} {now}")));
            }
        }
        if let Some(change) = self.planner.receivers_changed(&document.receivers).await? {
            return Err(stale(&change));
        }
        self.audit_run(&run, grant, "planned", &document.title).await?;
        if !self
            .store
            .run_start(&run.id, &plan.hash, grant.actor(), grant.reason())
            .await?
        {
            return Err(stale("it was executed meanwhile"));
        }
        self.see_to_run(&run.id).await;
        Ok(Done::Run(Box::new(self.run_reader.run_view(&run.id).await?)))
    }

    /// What a person's wish would do to a run.
    pub(in crate::engine) async fn plan_run_change(&self, id: &str, wish: RunWish) -> Result<Plan, EngineError> {
        let run = self.run_reader.run_record(id).await?;
        let Some(next) = run.state.after(wish) else {
            let possible: Vec<&str> = wish.possible_from().into_iter().map(RunState::as_str).collect();
            return Err(EngineError::Refused {
                why: format!(
                    "run {id} is {}: {} is possible when it is {}",
                    run.state.as_str(),
                    wish.as_str(),
                    possible.join(", ")
                ),
            });
        };
        let effect = match wish {
            RunWish::Pause => "stops after the window in hand",
            RunWish::Resume => "goes on",
            RunWish::Cancel => "ends after the window in hand; what is done stays done",
        };
        Ok(Plan {
            command: Command::ChangeRun {
                id: id.to_owned(),
                wish,
            },
            title: format!("{} run {id}", wish.as_str()),
            lines: vec![PlanLine {
                target: format!("run {id}"),
                now: run.state.as_str().to_owned(),
                effect: format!("{}: {effect}", next.as_str()),
            }],
            warnings: Vec::new(),
            messages: Some(run.total.saturating_sub(run.counts.settled())),
            danger: Danger::Reversible,
            hash: String::new(),
            run: None,
        })
    }

    pub(in crate::engine) async fn change_run(
        self: &std::sync::Arc<Self>,
        id: &str,
        wish: RunWish,
        grant: &WriteGrant,
    ) -> Result<Done, EngineError> {
        let run = self.run_reader.run_record(id).await?;
        let next = run.state.after(wish).ok_or_else(|| EngineError::Refused {
            why: format!("run {id} is {}", run.state.as_str()),
        })?;
        let note = match wish {
            RunWish::Resume => None,
            RunWish::Pause | RunWish::Cancel => Some(match grant.reason() {
                Some(reason) => format!("{} by {}: {reason}", next.as_str(), grant.actor()),
                None => format!("{} by {}", next.as_str(), grant.actor()),
            }),
        };
        let changed = self.store.run_change(id, &[run.state], next, note.as_deref()).await?;
        if !changed {
            return Err(stale("the run moved on meanwhile"));
        }
        if next == RunState::Running {
            self.see_to_run(id).await;
        }
        Ok(Done::Run(Box::new(self.run_reader.run_view(id).await?)))
    }

    async fn audit_run(
        &self,
        run: &RunRecord,
        grant: &WriteGrant,
        result: &str,
        detail: &str,
    ) -> Result<(), EngineError> {
        let entry = NewAudit {
            actor: grant.actor().to_owned(),
            command: run.command.clone(),
            target: format!("run {}", run.id),
            reason: grant.reason().map(ToOwned::to_owned),
            plan: Some(run.hash.clone()),
            result: result.to_owned(),
            detail: detail.to_owned(),
        };
        self.store.audit_append(&entry).await?;
        Ok(())
    }
}

impl RunReader {
    async fn run_record(&self, id: &str) -> Result<RunRecord, EngineError> {
        self.store.run_get(id).await?.ok_or_else(|| EngineError::NotFound {
            what: format!("run {id:?}"),
        })
    }

    /// A run as people see it.
    pub(in crate::engine) async fn run_view(&self, id: &str) -> Result<RunView, EngineError> {
        let record = self.run_record(id).await?;
        let owners = self.store.incarnations_living().await?;
        let now = self.store.now().await?;
        Ok(self.view_of_run(record, &owners, now))
    }

    /// Runs, newest first.
    pub(in crate::engine) async fn run_views(&self, query: &RunQuery) -> Result<Vec<RunView>, EngineError> {
        let records = self.store.runs(query).await?;
        let owners = self.store.incarnations_living().await?;
        let now = self.store.now().await?;
        let views = records.into_iter().map(|record| self.view_of_run(record, &owners, now));
        Ok(views.collect())
    }

    fn view_of_run(&self, record: RunRecord, owners: &[crate::store::Incarnation], now: Timestamp) -> RunView {
        let recent = self.speeds.note(&record, now);
        view(record, recent, owners, now)
    }

    /// A run with a page of its items.
    pub(in crate::engine) async fn run_detail(
        &self,
        id: &str,
        after: Option<u64>,
        limit: u32,
    ) -> Result<RunDetail, EngineError> {
        let run = self.run_view(id).await?;
        let query = ItemQuery {
            run: id.to_owned(),
            after,
            limit,
            ..ItemQuery::default()
        };
        let items = self.store.run_items(&query).await?;
        let full = items.len() == usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(RunDetail {
            next_after: items.last().filter(|_| full).map(|last| last.item.ordinal),
            run,
            items,
        })
    }
}

/// How fast the runs go that this process was asked about.
#[derive(Debug, Default)]
pub(in crate::engine) struct Speeds(Mutex<BTreeMap<String, Speed>>);

impl Speeds {
    /// How many this run settled in the last seconds, where that is known.
    fn note(&self, record: &RunRecord, now: Timestamp) -> Option<(u64, Duration)> {
        let mut speeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if record.state != RunState::Running {
            speeds.remove(&record.id);
            return None;
        }
        while speeds.len() >= SPEEDS_MAX && !speeds.contains_key(&record.id) {
            // The oldest: ids are in the order of time.
            speeds.pop_first();
        }
        let speed = speeds.entry(record.id.clone()).or_default();
        speed.note(now, record.counts.settled());
        speed.recent()
    }
}

fn view(
    record: RunRecord,
    recent: Option<(u64, Duration)>,
    owners: &[crate::store::Incarnation],
    now: Timestamp,
) -> RunView {
    let left = record.total.saturating_sub(record.counts.settled());
    let since_start = || record.started_at.map(|started| now.since(started)).unwrap_or_default();
    let (done, spent) = recent.unwrap_or_else(|| (record.counts.settled(), since_start()));
    let ago = now.since(record.updated_at);
    // While it watches or waits nobody knows how long that takes.
    let running = Phase::of(record.state, record.note.as_deref(), ago) == Phase::Running;
    let owner = record
        .owner
        .and_then(|owner| owners.iter().find(|one| one.id == owner))
        .map(|one| one.name.clone());
    RunView {
        eta: running.then(|| eta(left, record.rate, done, spent)).flatten(),
        owner,
        taken_at: now,
        record,
    }
}

fn stale(why: &str) -> EngineError {
    EngineError::Refused {
        why: format!("the plan is stale: {why}; plan again"),
    }
}
