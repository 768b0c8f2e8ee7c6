//! Executing a planned run, and what a person does to one.

use super::plan::Document;
use super::{RunDetail, RunReader, RunView, Runs};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::domain::run::{Phase, RunState, RunWish, Speed, Target, eta};
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::engine::command::{Command, Done, Plan, RunPlan, WriteGrant};
use crate::engine::dead::Exchanges;
use crate::engine::operation::{About, Friction, Operation, Subject};
use crate::engine::plans::simple;
use crate::engine::view::Page;
use crate::store::{ItemQuery, NewAudit, RunQuery, RunRecord};

/// Runs whose speed is known, at most.
const SPEEDS_MAX: usize = 200;
/// A plan that is older than this is stale.
const PLAN_MAX: std::time::Duration = std::time::Duration::from_mins(15);

/// A run is paused, resumed or cancelled.
pub(in crate::engine) struct ChangeRun<'a> {
    pub(in crate::engine) id: &'a str,
    pub(in crate::engine) wish: RunWish,
}

impl Operation<Runs> for ChangeRun<'_> {
    fn about(&self) -> About {
        let back = |wish| {
            Ok(Command::ChangeRun {
                id: self.id.to_owned(),
                wish,
            })
        };
        About {
            name: match self.wish {
                RunWish::Pause => "run pause",
                RunWish::Resume => "run resume",
                RunWish::Cancel => "run cancel",
            },
            subject: Subject::Name(self.id.to_owned()),
            friction: Friction::Lines("number of runs"),
            undo: match self.wish {
                RunWish::Pause => back(RunWish::Resume),
                RunWish::Resume => back(RunWish::Pause),
                RunWish::Cancel => Err("a run that was cancelled stays so: plan it again"),
            },
        }
    }

    async fn plan(&self, runs: &Arc<Runs>) -> Result<Plan, EngineError> {
        let (id, wish) = (self.id, self.wish);
        let run = runs.run_reader.run_record(id).await?;
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
            RunWish::Pause => "stops after the window in flight",
            RunWish::Resume => "continues",
            RunWish::Cancel => "ends after the window in flight; what is done stays done",
        };
        let title = format!("{} run {id}", wish.as_str());
        let mut plan = simple(title, format!("run {id}"), format!("{}: {effect}", next.as_str()));
        run.state.as_str().clone_into(&mut plan.lines[0].now);
        plan.messages = Some(run.total.saturating_sub(run.counts.settled()));
        Ok(plan)
    }

    async fn perform(&self, runs: &Arc<Runs>, _: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        let (id, wish) = (self.id, self.wish);
        let run = runs.run_reader.run_record(id).await?;
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
        let changed = runs.store.run_change(id, &[run.state], next, note.as_deref()).await?;
        if !changed {
            return Err(stale("the run moved on meanwhile"));
        }
        if next == RunState::Running {
            runs.see_to_run(id).await;
        }
        Ok(Done::Run(Box::new(runs.run_reader.run_view(id).await?)))
    }
}

impl Runs {
    /// Starts a planned run, if the world is still as it was planned for: its targets above all. Messages that are
    /// gone meanwhile are skipped when it comes to them.
    pub(in crate::engine) async fn execute_run(
        self: &Arc<Self>,
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

    /// A page of runs, newest first, before one of them.
    pub(in crate::engine) async fn run_page(
        &self,
        before: Option<String>,
        limit: u32,
    ) -> Result<Page<RunView>, EngineError> {
        let query = RunQuery {
            before,
            limit,
            ..RunQuery::default()
        };
        let items = self.run_views(&query).await?;
        let full = items.len() == usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(Page {
            problems: Vec::new(),
            next_cursor: items.last().filter(|_| full).map(|last| last.record.id.clone()),
            taken_at: self.clock.now(),
            items,
        })
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
