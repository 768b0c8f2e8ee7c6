//! Executing a planned run, and what a person does to one.

use super::Runs;
use super::plan::Document;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::run::{RunState, RunWish, Target};
use crate::engine::EngineError;
use crate::engine::command::{Command, Done, Plan, RunPlan, WriteGrant, simple};
use crate::engine::dead::Exchanges;
use crate::engine::death::Watched;
use crate::engine::operation::{About, Friction, NAMED_MAX, Operation, Subject, named};
use crate::store::{ItemQuery, NewAudit, RunRecord};

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
        let (run, next) = self.next(runs).await?;
        let effect = match wish {
            RunWish::Pause => "stops after the window in flight",
            RunWish::Resume if next == run.state => "continues: the process that worked on it is dead",
            RunWish::Resume => "continues",
            RunWish::Cancel => "ends after the window in flight; what is done stays done",
        };
        let title = format!("{} run {id}", wish.as_str());
        let mut plan = simple(title, format!("run {id}"), format!("{}: {effect}", next.as_str()));
        run.state.as_str().clone_into(&mut plan.lines[0].now);
        plan.messages = Some(run.total.saturating_sub(run.counts.settled()));
        if wish == RunWish::Cancel
            && let Some(left) = self.left_in_hand(runs).await?
        {
            plan.warnings.push(format!(
                "{left}; `redrive run resume {id}` finds out and takes them from there, and after a cancel a new run may \
                 send them a second time"
            ));
        }
        Ok(plan)
    }

    async fn perform(&self, runs: &Arc<Runs>, _: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        let (id, wish) = (self.id, self.wish);
        let (run, next) = self.next(runs).await?;
        let note = match wish {
            RunWish::Resume => None,
            RunWish::Pause | RunWish::Cancel => Some(match grant.reason() {
                Some(reason) => format!("{} by {}: {reason}", next.as_str(), grant.actor()),
                None => format!("{} by {}", next.as_str(), grant.actor()),
            }),
        };
        let left = match wish {
            RunWish::Cancel => self.left_in_hand(runs).await?,
            RunWish::Pause | RunWish::Resume => None,
        };
        let note = match (note, left) {
            (Some(note), Some(left)) => Some(format!("{note}; {left}")),
            (note, _) => note,
        };
        let changed = next == run.state || runs.store.run_change(id, &[run.state], next, note.as_deref()).await?;
        if !changed {
            return Err(stale("the run moved on meanwhile"));
        }
        if next == RunState::Running {
            runs.see_to_run(id).await;
        }
        Ok(Done::Run(Box::new(runs.run_reader.run_view(id).await?)))
    }
}

impl ChangeRun<'_> {
    /// The run, and what becomes of it. One that runs continues here where nobody alive works on it, and no daemon would.
    async fn next(&self, runs: &Arc<Runs>) -> Result<(RunRecord, RunState), EngineError> {
        let run = runs.run_reader.run_record(self.id).await?;
        if let Some(next) = run.state.after(self.wish) {
            return Ok((run, next));
        }
        if (run.state, self.wish) == (RunState::Running, RunWish::Resume) && !*runs.news.delivering.borrow() {
            // Who is dead by the evidence is marked so first: it owns nothing then.
            let others_deliver = runs.others_deliver(&mut Watched::default()).await;
            if !others_deliver && runs.run_reader.run_view(self.id).await?.owner.is_none() {
                return Ok((run, RunState::Running));
            }
        }
        let possible: Vec<&str> = self.wish.possible_from().into_iter().map(RunState::as_str).collect();
        Err(EngineError::Refused {
            why: format!(
                "run {} is {}: {} is possible when it is {}",
                self.id,
                run.state.as_str(),
                self.wish.as_str(),
                possible.join(", ")
            ),
        })
    }

    /// What is known of messages that nobody has in hand any more, and that have no outcome.
    async fn left_in_hand(&self, runs: &Arc<Runs>) -> Result<Option<String>, EngineError> {
        runs.others_deliver(&mut Watched::default()).await;
        if runs.run_reader.run_view(self.id).await?.owner.is_some() {
            return Ok(None);
        }
        let count = runs.store.run_in_hand(self.id).await?;
        Ok((count > 0).then(|| {
            format!(
                "{count} of its messages were being sent when the process that worked on it ended: they may be at their \
                 target, and still be where they were as well"
            )
        }))
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
        let what = format!("{}{}", document.title, self.names(&run, &document).await?);
        self.audit_run(&run, grant, "planned", &what).await?;
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

    /// What it takes and where that goes, for the audit: its queues, its targets, and as many of its messages as a line has.
    async fn names(&self, run: &RunRecord, document: &Document) -> Result<String, EngineError> {
        let mut names: BTreeSet<String> = document.sources.clone();
        let targets = document.targets.keys().filter_map(|target| Target::decode(target));
        names.extend(targets.map(|target| target.to_string()));
        let query = ItemQuery {
            run: run.id.clone(),
            limit: u32::try_from(NAMED_MAX).unwrap_or(u32::MAX),
            ..ItemQuery::default()
        };
        let messages = self
            .store
            .run_items(&query)
            .await?
            .into_iter()
            .map(|one| one.item.letter);
        let total = names
            .len()
            .saturating_add(usize::try_from(run.total).unwrap_or(usize::MAX));
        let names: Vec<String> = names.into_iter().chain(messages).collect();
        Ok(named(&names, total))
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
