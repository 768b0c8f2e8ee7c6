//! Executing a planned run, and what a person does to one.

use super::Runs;
use super::plan::Document;
use std::sync::Arc;

use crate::domain::run::{RunState, RunWish, Target};
use crate::engine::EngineError;
use crate::engine::command::{Command, Done, Plan, RunPlan, WriteGrant, simple};
use crate::engine::dead::Exchanges;
use crate::engine::operation::{About, Friction, Operation, Subject};
use crate::store::{NewAudit, RunRecord};

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
            let dead = if run.state == RunState::Running && wish == RunWish::Resume {
                "; where the process that worked on it is dead and no daemon is alive, pause it first"
            } else {
                ""
            };
            return Err(EngineError::Refused {
                why: format!(
                    "run {id} is {}: {} is possible when it is {}{dead}",
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

fn stale(why: &str) -> EngineError {
    EngineError::Refused {
        why: format!("the plan is stale: {why}; plan again"),
    }
}
