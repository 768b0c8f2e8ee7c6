//! Doing what was planned, queue by queue: what one comes to hinders no other.

use std::sync::Arc;

use super::order::{ExpiringOrder, ExpiringOutcome, ExpiringResult, PlannedQueue, Which};
use crate::domain::id::IncarnationId;
use crate::engine::expiring::{Expiring, Saves};
use crate::engine::operation::{About, Friction, Operation, Subject};
use crate::engine::{Done, EngineError, Plan, WriteGrant};
use crate::store::SaveCause;

/// Who does it, and why.
#[derive(Clone, Debug)]
pub(super) struct Who {
    pub(super) actor: String,
    pub(super) reason: Option<String>,
    pub(super) cause: SaveCause,
}

impl Operation<Expiring> for ExpiringOrder {
    fn about(&self) -> About {
        About {
            name: match self {
                Self::Save(_) => "expiring save",
                Self::Purge { .. } => "expiring purge",
                Self::Restore { .. } => "expiring restore",
                Self::Extend { .. } => "expiring extend",
            },
            subject: match self.queues().as_slice() {
                [one] => Subject::Name(one.as_str().to_owned()),
                many => Subject::Several(many.len(), "queue"),
            },
            friction: Friction::LinesOrMessages("number of queues or saves"),
            undo: Err("saved messages are in the store: `redrive expiring restore` puts them back"),
        }
    }

    /// They are looked at again one by one, and those that changed are left.
    fn is_planned_again(&self) -> bool {
        false
    }

    async fn plan(&self, expiring: &Arc<Expiring>) -> Result<Plan, EngineError> {
        expiring.plan(self).await
    }

    async fn perform(&self, expiring: &Arc<Expiring>, _: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        Ok(Done::Expiring(expiring.perform(self, grant).await?))
    }
}

impl Expiring {
    async fn perform(
        self: &Arc<Self>,
        order: &ExpiringOrder,
        grant: &WriteGrant,
    ) -> Result<Vec<ExpiringOutcome>, EngineError> {
        let who = |cause| Who {
            actor: grant.actor().to_owned(),
            reason: grant.reason().map(ToOwned::to_owned),
            cause,
        };
        match order {
            ExpiringOrder::Save(which) => self.save_planned(planned(which)?, &who(SaveCause::Asked)).await,
            ExpiringOrder::Purge { which, keep } => {
                self.saves
                    .purge_planned(planned(which)?, *keep, &who(SaveCause::Purge))
                    .await
            }
            ExpiringOrder::Restore { saves, to } => self.saves.restore_saves(saves, to.as_ref()).await,
            ExpiringOrder::Extend { which, lifetime } => self.extend_planned(planned(which)?, *lifetime).await,
        }
    }

    async fn save_planned(&self, queues: &[PlannedQueue], who: &Who) -> Result<Vec<ExpiringOutcome>, EngineError> {
        self.saves
            .as_somebody("save", |me| async move {
                let mut outcomes = Vec::with_capacity(queues.len());
                for queue in queues {
                    outcomes.push(match self.saves.save_queue(me, &queue.name, who).await {
                        Ok(outcome) => outcome,
                        Err(error) => failed(&queue.name, error)?,
                    });
                }
                Ok(outcomes)
            })
            .await
    }
}

/// What failed for one queue is told with it; what fails for all is an error.
pub(super) fn failed(queue: &crate::domain::id::QueueName, error: EngineError) -> Result<ExpiringOutcome, EngineError> {
    if error.is_unreachable() {
        return Err(error);
    }
    let why = crate::engine::error::chain(&error);
    Ok(ExpiringOutcome::of(queue.clone(), ExpiringResult::Left(why)))
}

fn planned(which: &Which) -> Result<&[PlannedQueue], EngineError> {
    match which {
        Which::Planned(planned) => Ok(planned),
        Which::Queues(_) | Which::Expired => Err(EngineError::Refused {
            why: "this was not planned".to_owned(),
        }),
    }
}

impl Saves {
    /// Runs `work` as an incarnation of its own: whoever takes messages is alive or found dead.
    pub(in crate::engine) async fn as_somebody<T, F, W>(&self, what: &'static str, work: W) -> Result<T, EngineError>
    where
        F: Future<Output = Result<T, EngineError>>,
        W: FnOnce(IncarnationId) -> F,
    {
        let manager = self.begin_managing(what).await?;
        let result = work(manager.id()).await;
        manager.end().await;
        result
    }
}
