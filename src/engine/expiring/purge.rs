//! Deleting queues that nobody uses, each looked at again at the last moment (docs/protocols.md 8 and 20).
//!
//! One that got a consumer or a message since it was planned is left. What is in it is saved first, unless the plan
//! says that it is lost. A job's queue is unbound a moment before, so that whoever publishes is told; the others
//! are deleted only while they are empty and unused, as far as their kind lets the broker do it in one step.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};

use super::act::{Who, failed};
use super::order::{ExpiringOutcome, ExpiringResult, Keep, PlannedQueue};
use crate::ambient;
use crate::broker::{Deleted, DeliveryTag, Look, WalkOptions};
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::naming::QueueType;
use crate::domain::queue::QueueKind;
use crate::engine::EngineError;
use crate::engine::error::chain;
use crate::engine::expiring::Saves;
use crate::telemetry::names;

/// Between unbinding and the last look: what was on its way has arrived then (docs/protocols.md 8).
const SETTLE: Duration = Duration::from_secs(1);
/// Queues that are unbound at once.
const CHUNK: usize = 500;
/// Messages that are taken out at once, of those that are to be lost.
const WINDOW: usize = 1_000;
/// Queues that are worked on side by side.
const SIDE_BY_SIDE: usize = 8;

/// What a purge left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// The queue, which may have messages.
    Queue,
    /// Nothing: it is gone.
    Nothing,
}

impl Saves {
    pub(super) async fn purge_planned(
        &self,
        queues: &[PlannedQueue],
        keep: Keep,
        who: &Who,
    ) -> Result<Vec<ExpiringOutcome>, EngineError> {
        self.as_somebody("purge", |me| async move {
            let mut outcomes = Vec::with_capacity(queues.len());
            for chunk in queues.chunks(CHUNK) {
                outcomes.extend(self.purge_chunk(me, chunk, keep, who).await?);
            }
            Ok(outcomes)
        })
        .await
    }

    async fn purge_chunk(
        &self,
        me: IncarnationId,
        chunk: &[PlannedQueue],
        keep: Keep,
        who: &Who,
    ) -> Result<Vec<ExpiringOutcome>, EngineError> {
        let mut unbound = Vec::with_capacity(chunk.len());
        for some in chunk.chunks(SIDE_BY_SIDE) {
            let looks: Vec<BoxFuture<'_, _>> = some.iter().map(|queue| self.unbind_unused(me, queue).boxed()).collect();
            unbound.extend(join_all(looks).await);
        }
        ambient::sleep(SETTLE).await;
        let mut purges: Vec<BoxFuture<'_, Result<ExpiringOutcome, EngineError>>> = Vec::with_capacity(chunk.len());
        for (queue, unbound) in chunk.iter().zip(unbound) {
            purges.push(self.purge_unbound(me, queue, unbound, keep, who).boxed());
        }
        let mut outcomes = Vec::with_capacity(chunk.len());
        while !purges.is_empty() {
            let some = purges.split_off(purges.len().saturating_sub(SIDE_BY_SIDE));
            outcomes.extend(join_all(some).await.into_iter().rev());
        }
        outcomes.reverse();
        outcomes.into_iter().collect()
    }

    async fn purge_unbound(
        &self,
        me: IncarnationId,
        queue: &PlannedQueue,
        unbound: Result<Option<String>, EngineError>,
        keep: Keep,
        who: &Who,
    ) -> Result<ExpiringOutcome, EngineError> {
        let purged = match unbound {
            Ok(Some(why)) => return Ok(ExpiringOutcome::left(&queue.name, why)),
            Ok(None) => self.purge_one(me, queue, keep, who).await,
            Err(error) => Err(error),
        };
        if self.kind_of(&queue.name) == QueueKind::Job {
            let left = match &purged {
                Ok(outcome) if outcome.result == ExpiringResult::Purged => Left::Nothing,
                Ok(_) | Err(_) => Left::Queue,
            };
            self.end_unbinding(&queue.name, left).await;
        }
        purged.or_else(|error| failed(&queue.name, error))
    }

    /// Why a queue is left; else nobody can publish to it any more, where it is one of ours.
    async fn unbind_unused(&self, me: IncarnationId, queue: &PlannedQueue) -> Result<Option<String>, EngineError> {
        if let Some(why) = self.is_as_planned(queue).await? {
            return Ok(Some(why));
        }
        if self.kind_of(&queue.name) == QueueKind::Job {
            self.store.unbinding_note(&queue.name, me).await?;
            self.broker.unbind(&queue.name).await?;
        }
        Ok(None)
    }

    /// What is different from the plan. The look counts as use, and the queue is about to go.
    async fn is_as_planned(&self, queue: &PlannedQueue) -> Result<Option<String>, EngineError> {
        // Not by AMQP where it may be in use: that would renew what is left.
        let Some(listed) = self.broker.queue_detail(&queue.name).await? else {
            return Ok(Some("it is gone already".to_owned()));
        };
        if listed.consumers.unwrap_or(0) > 0 {
            return Ok(Some("it got a consumer".to_owned()));
        }
        Ok(match self.broker.look(&queue.name).await? {
            Look::Missing => Some("it is gone already".to_owned()),
            Look::Present { consumers, .. } if consumers > 0 => Some("it got a consumer".to_owned()),
            Look::Present { ready, .. } => {
                let planned = queue.messages.unwrap_or(0);
                (ready != planned).then(|| format!("it has {ready} messages now, {planned} when this was planned"))
            }
        })
    }

    async fn purge_one(
        &self,
        me: IncarnationId,
        queue: &PlannedQueue,
        keep: Keep,
        who: &Who,
    ) -> Result<ExpiringOutcome, EngineError> {
        if let Some(why) = self.is_as_planned(queue).await? {
            return Ok(ExpiringOutcome::left(&queue.name, why));
        }
        let messages = queue.messages.unwrap_or(0);
        let drops = messages > 0 && keep == Keep::Dropped;
        let is_job = self.kind_of(&queue.name) == QueueKind::Job;
        let mut outcome = ExpiringOutcome::of(queue.name.clone(), ExpiringResult::Purged);
        if messages > 0 && keep == Keep::Saved {
            let saved = self.save_queue(me, &queue.name, who).await?;
            if saved.result != ExpiringResult::Saved {
                return Ok(saved);
            }
            (outcome.save, outcome.messages, outcome.bytes) = (saved.save, saved.messages, saved.bytes);
        }
        if drops && !is_job {
            let (dropped, problem) = self.drop_messages(me, &queue.name, messages).await?;
            outcome.messages = dropped;
            if let Some(why) = problem {
                outcome.result = ExpiringResult::Left(why);
                return Ok(outcome);
            }
        }
        // What is known of it is forgotten first: the janitor tells of what it did not do itself.
        let known = self.store.lifetime_forget(&queue.name).await?;
        let deleted = if drops && is_job {
            if !self.store.unbinding_holds(&queue.name, me).await? {
                let why = "this process was taken for dead: run the command again";
                return Ok(ExpiringOutcome::left(&queue.name, why));
            }
            outcome.messages = messages;
            self.broker.delete_whole(&queue.name).await?
        } else {
            let quorum = known.is_some_and(|known| known.quorum) || self.is_quorum_queue(&queue.name).await?;
            let queue_type = if quorum { QueueType::Quorum } else { QueueType::Classic };
            self.broker.delete_unused(&queue.name, queue_type).await?
        };
        if drops {
            outcome.bytes = queue.bytes.unwrap_or(0);
        }
        if deleted == Deleted::InUse {
            let saved = outcome.save.as_ref().map_or_else(String::new, |save| {
                format!("; what was in it before is save {save}: `expiring restore {save}` puts it behind that")
            });
            outcome.result = ExpiringResult::Left(format!("it got a consumer or a message meanwhile{saved}"));
            return Ok(outcome);
        }
        let kept = if outcome.save.is_some() {
            "saved"
        } else if outcome.messages > 0 {
            "dropped"
        } else {
            "none"
        };
        metrics::counter!(names::QUEUES_PURGED, "messages" => kept).increment(1);
        tracing::info!(queue = ?queue.name, messages = outcome.messages, save = ?outcome.save, "a queue is purged");
        Ok(outcome)
    }

    async fn is_quorum_queue(&self, queue: &QueueName) -> Result<bool, EngineError> {
        let listed = self.broker.queue_detail(queue).await?;
        Ok(listed.as_ref().is_some_and(super::is_quorum))
    }

    /// Takes as many messages out of a queue as were planned, as `me`: how many, and why not all.
    pub(in crate::engine) async fn drop_messages(
        &self,
        me: IncarnationId,
        queue: &QueueName,
        planned: u64,
    ) -> Result<(u64, Option<String>), EngineError> {
        // What came after the plan stays where it is: given back, it would be behind others that a worker gives back in turn.
        let options = WalkOptions {
            at_most: Some(planned),
            ..self.looks.cost_of(queue).await?.walk()
        };
        let Some(mut walk) = self.walk_as(me, queue, options).await? else {
            return Ok((0, Some("it is gone already".to_owned())));
        };
        let (mut dropped, mut problem) = (0, None);
        while dropped < planned && problem.is_none() {
            let left = usize::try_from(planned - dropped).unwrap_or(usize::MAX);
            let tags: Vec<DeliveryTag> = match walk.next(left.min(WINDOW)).await {
                Ok(walked) if walked.is_empty() => break,
                Ok(walked) => walked.iter().map(|one| one.tag).collect(),
                Err(error) => {
                    problem = Some(error);
                    break;
                }
            };
            problem = walk.settle(&tags).await.err();
            dropped += tags.len() as u64;
        }
        let problem = walk.close().await.err().or(problem);
        Ok((dropped, problem.map(|error| chain(&error))))
    }

    /// A queue that is still there takes messages again.
    pub(super) async fn end_unbinding(&self, queue: &QueueName, left: Left) {
        let bound = async {
            if left == Left::Queue {
                self.broker.bind(queue).await?;
            }
            self.store.unbinding_forget(queue).await?;
            Ok::<(), EngineError>(())
        };
        if let Err(error) = bound.await {
            tracing::warn!(queue = ?queue, error = ?error, "a queue that was unbound is bound again by the janitor");
        }
    }
}
