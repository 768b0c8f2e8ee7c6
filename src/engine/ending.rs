//! Deleting a delivery queue without losing what races with it (docs/protocols.md 8).
//!
//! RabbitMQ confirms messages into a queue that is being deleted. So: mark it closing, unbind, wait a
//! second without holding a worker, look again under fence and lease; something in it: bind and go on;
//! nothing: delete, and only if it is empty and unused. A crash in between leaves a row that says so.

use std::sync::Arc;
use std::time::Duration;

use super::Event;
use super::tell::Ending;
use crate::ambient;
use crate::broker::{BrokerError, Deleted, Look};
use crate::domain::id::{Epoch, IncarnationId, QueueName};
use crate::domain::queue::Closing;
use crate::engine::delivery::Delivery;
use crate::store::QueueMark;

/// How long publishers that passed the binding before it went have to arrive.
const SETTLE: Duration = Duration::from_secs(1);

/// How long a delete without an answer has to happen.
const UNKNOWN_DELETE: Duration = Duration::from_secs(5);

/// A lease under which a queue is deleted.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) queue: QueueName,
    pub(super) epoch: Epoch,
    pub(super) incarnation: IncarnationId,
}

impl Delivery {
    /// Deletes the queue if nothing comes. The lease is freed in any case but `Lost`: the comparison frees that one.
    pub(super) async fn end_queue(self: &Arc<Self>, held: &Held) -> Ending {
        // Whoever would bind it meanwhile waits, and then finds out what became of it.
        let place = self.policy_guard.bindings.line_up(&held.queue);
        let _turn = place.turn().await;
        let ending = match self.try_end(held).await {
            Ok(ending) => ending,
            Err(()) => self.rebind(held).await,
        };
        match ending {
            Ending::Deleted => {
                self.publisher.forget(&held.queue);
                self.policy_guard.rules.forget(&held.queue);
                self.settled.forget(&held.queue);
            }
            Ending::GoesOn => {
                if let Err(error) = self.store.lease_free(&held.queue, held.epoch).await {
                    tracing::warn!(queue = ?held.queue, error = ?error, "lease is freed by the next comparison only");
                }
            }
            Ending::Lost => {}
        }
        ending
    }

    async fn try_end(self: &Arc<Self>, held: &Held) -> Result<Ending, ()> {
        if !self.mark(held, QueueMark::Closing(Closing::Closing)).await? {
            return Ok(Ending::Lost);
        }
        self.broker
            .unbind(&held.queue)
            .await
            .map_err(|error| self.note(held, "unbind", &error))?;
        ambient::sleep(SETTLE).await;
        // Fence and lease again: a process that slept longer than it thought must not delete.
        if !self.fence.permits(held.incarnation) || !self.mark(held, QueueMark::Closing(Closing::Closing)).await? {
            return Ok(Ending::Lost);
        }
        match self
            .broker
            .look(&held.queue)
            .await
            .map_err(|error| self.note(held, "look", &error))?
        {
            Look::Missing => return self.forget(held).await,
            Look::Present { ready: 0, .. } => {}
            Look::Present { .. } => return Ok(self.rebind(held).await),
        }
        match self.broker.delete_empty(&held.queue).await {
            Ok(Deleted::Deleted | Deleted::Missing) => self.forget(held).await,
            Ok(Deleted::InUse) => Ok(self.rebind(held).await),
            Err(error) => {
                self.note(held, "delete", &error);
                self.await_unknown_delete(held).await
            }
        }
    }

    /// The delete was sent, and no answer came: it may still happen, so nobody binds until it had its time.
    async fn await_unknown_delete(&self, held: &Held) -> Result<Ending, ()> {
        ambient::sleep(UNKNOWN_DELETE).await;
        match self.broker.look(&held.queue).await {
            Ok(Look::Missing) => self.forget(held).await,
            Ok(Look::Present { .. }) | Err(_) => Ok(self.rebind(held).await),
        }
    }

    async fn forget(&self, held: &Held) -> Result<Ending, ()> {
        self.insist(held.incarnation, || self.store.queue_forget(&held.queue, held.epoch))
            .await?;
        self.tell(Event::QueueEnded(held.queue.clone()));
        Ok(Ending::Deleted)
    }

    /// Something came, or a step failed: publishers must be able to reach it again, unless it is refusing
    /// (docs/protocols.md 23).
    async fn rebind(&self, held: &Held) -> Ending {
        let mut pause = super::insist::Pause::default();
        while self.fence.permits(held.incarnation) {
            match self.reachable(held).await {
                Ok(Look::Missing) => return self.forget(held).await.unwrap_or(Ending::Lost),
                Ok(Look::Present { .. }) => {
                    // Still ended: a message opens it again, and without one it is tried once more.
                    return match self.mark(held, QueueMark::Closing(Closing::Ended)).await {
                        Ok(true) => Ending::GoesOn,
                        Ok(false) | Err(()) => Ending::Lost,
                    };
                }
                Err(error) => {
                    self.note(held, "bind", &error);
                    pause.wait().await;
                }
            }
        }
        Ending::Lost
    }

    /// Binds it, unless it takes no publishes: then the look is all.
    async fn reachable(&self, held: &Held) -> Result<Look, BrokerError> {
        let row = self.store.queue_get(&held.queue).await;
        if row.is_ok_and(|row| row.is_some_and(|row| row.refusing.is_some())) {
            return self.broker.look(&held.queue).await;
        }
        self.broker.bind(&held.queue).await
    }

    async fn mark(&self, held: &Held, mark: QueueMark) -> Result<bool, ()> {
        self.insist(held.incarnation, || {
            self.store.queue_mark(&held.queue, held.epoch, mark.clone())
        })
        .await
    }

    fn note(&self, held: &Held, step: &'static str, error: &crate::broker::BrokerError) {
        tracing::warn!(queue = ?held.queue, step, error = ?error, fenced = !self.fence.is_open(), "ending a queue is interrupted");
    }
}
