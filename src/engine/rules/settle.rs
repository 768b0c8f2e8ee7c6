//! Has every delivery queue follow from what it is judged by, whether a worker can have it or not: a paused queue and
//! one whose URL is parked are the ones in which something waits, and that is what a policy destroys
//! (PROTOCOLS.md 33).
//!
//! Marked and unbound, or bound and unmarked, under a managing lease. The binding comes first and the mark after it:
//! what a crash leaves between differs from what is judged, and is done again.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::broker::{BrokerError, Look};
use crate::domain::broker_rules::Judgement;
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::queue::{Closing, QueueRecord};
use crate::engine::dispatch::Tell;
use crate::engine::{EngineError, Event, Inner};
use crate::store::{Lease, LeaseOutcome, Purpose, QueueMark};

/// Leases taken at once.
const AT_ONCE: usize = 32;

impl Inner {
    /// The queues that differ, of all that the store knows.
    pub(super) async fn find_unsettled(&self) -> Result<Vec<QueueName>, EngineError> {
        let mut unsettled = Vec::new();
        let mut pages = self.queue_pages(None);
        while let Some(rows) = pages.next().await? {
            for row in rows {
                if self.differs(&row).await.is_some() {
                    unsettled.push(row.name);
                }
            }
        }
        Ok(unsettled)
    }

    /// Settles what can be settled now; answers the rest, which somebody holds.
    pub(super) async fn settle(
        self: &Arc<Self>,
        queues: Vec<QueueName>,
        tell: &mpsc::Sender<Tell>,
        stop: &CancellationToken,
    ) -> Result<Vec<QueueName>, EngineError> {
        let (free, mut rest) = self.ask_for(queues, tell).await?;
        if free.is_empty() {
            return Ok(rest);
        }
        let manager = self.begin_managing("policies").await?;
        let count = free.len();
        let mut settled = 0;
        for part in free.chunks(AT_ONCE) {
            if stop.is_cancelled() {
                break;
            }
            match self.settle_some(manager.id(), part, tell).await {
                Ok(left) => {
                    settled += part.len() - left.len();
                    rest.extend(left);
                }
                Err(error) => {
                    tracing::warn!(error = ?error, "queues wait for what follows from a broker policy");
                    rest.extend_from_slice(part);
                }
            }
        }
        manager.end().await;
        tracing::info!(queues = count, settled, "queues follow the broker's policies");
        Ok(rest)
    }

    /// Tells those that are free from those that somebody alive holds; what is held here is asked for.
    async fn ask_for(
        &self,
        queues: Vec<QueueName>,
        tell: &mpsc::Sender<Tell>,
    ) -> Result<(Vec<QueueName>, Vec<QueueName>), EngineError> {
        let incarnations = self.store.incarnations_living().await?;
        let (mut free, mut held) = (Vec::new(), Vec::new());
        for queue in queues {
            let Some(row) = self.store.queue_get(&queue).await? else {
                continue;
            };
            if self.differs(&row).await.is_none() {
                continue;
            }
            let owner = row
                .owner
                .filter(|owner| incarnations.iter().any(|one| one.id == *owner));
            if owner.is_some() {
                // Its worker judges it when it attaches again; another daemon sees the policy itself.
                let _ = tell.send(Tell::LetGo(queue.clone())).await;
                held.push(queue);
            } else {
                free.push(queue);
            }
        }
        Ok((free, held))
    }

    async fn settle_some(
        &self,
        me: IncarnationId,
        queues: &[QueueName],
        tell: &mpsc::Sender<Tell>,
    ) -> Result<Vec<QueueName>, EngineError> {
        let outcomes = self.store.leases_take(me, Purpose::Manage, queues).await?;
        let settling = queues.iter().zip(outcomes);
        let settled = join_all(settling.map(|(queue, outcome)| self.settle_taken(queue, outcome, tell))).await;
        let left = queues.iter().zip(settled).filter(|(_, settled)| !settled);
        Ok(left.map(|(queue, _)| queue.clone()).collect())
    }

    /// Whether the queue is now as it is judged; its lease is free after it.
    async fn settle_taken(&self, queue: &QueueName, outcome: LeaseOutcome, tell: &mpsc::Sender<Tell>) -> bool {
        let lease = match outcome {
            LeaseOutcome::Taken(lease) => lease,
            LeaseOutcome::Held(_) | LeaseOutcome::Reserved(_) | LeaseOutcome::Locked | LeaseOutcome::Disowned => {
                return false;
            }
        };
        let settled = self.settle_one(&lease).await;
        if let Err(error) = self.store.lease_free(queue, lease.epoch).await {
            tracing::debug!(error = ?error, "the lease is freed with its incarnation");
        }
        let _ = tell.send(Tell::Candidate(queue.clone())).await;
        settled.unwrap_or_else(|error| {
            tracing::warn!(queue = ?queue, error = ?error, "a queue waits for what follows from a broker policy");
            false
        })
    }

    /// False when the lease was lost meanwhile.
    async fn settle_one(&self, lease: &Lease) -> Result<bool, EngineError> {
        let record = &lease.record;
        let Some(judged) = self.differs(record).await else {
            return Ok(true);
        };
        let queue = &record.name;
        match &judged.destroys {
            Some(reason) => {
                tracing::error!(queue = ?queue, reason = ?reason, "queue takes no more publishes: a broker policy destroys what waits");
                self.broker.unbind(queue).await?;
            }
            None if record.refusing.is_some() => self.bind_again(queue).await?,
            None => {}
        }
        if judged.destroys != record.refusing
            && !self
                .store
                .queue_mark(queue, lease.epoch, QueueMark::Refusing(judged.destroys))
                .await?
        {
            return Ok(false);
        }
        if judged.breaks_order == record.refused {
            return Ok(true);
        }
        if let Some(reason) = judged.breaks_order.clone() {
            tracing::error!(queue = ?queue, reason = ?reason, "queue is not delivered: its order cannot be kept");
            self.tell(Event::QueueRefused {
                queue: queue.clone(),
                reason,
            });
        }
        let mark = QueueMark::Refused(judged.breaks_order);
        Ok(self.store.queue_mark(queue, lease.epoch, mark).await?)
    }

    async fn bind_again(&self, queue: &QueueName) -> Result<(), BrokerError> {
        match self.broker.bind(queue).await? {
            Look::Present { .. } => tracing::info!(queue = ?queue, "queue takes publishes again"),
            Look::Missing => tracing::debug!(queue = ?queue, "a queue that took no publishes is gone"),
        }
        Ok(())
    }

    /// What a queue is judged to be, where its row says something else. A mark is taken away only by who knows the
    /// queue's arguments: they may be what it was marked for. A queue that is being deleted is left alone.
    async fn differs(&self, row: &QueueRecord) -> Option<Judgement> {
        if row.closing == Closing::Closing {
            return None;
        }
        let differs = |judged: &Judgement| judged.destroys != row.refusing || judged.breaks_order != row.refused;
        if row.refusing.is_none() && row.refused.is_none() {
            let arguments = self.rules.arguments_of(&row.name);
            let judged = self.judged(&row.name, arguments.as_ref().map(|known| known.as_slice()));
            return Some(judged).filter(differs);
        }
        let judged = self.judge_queue(&row.name).await;
        let known = self.rules.arguments_of(&row.name).is_some();
        Some(judged).filter(|judged| known && differs(judged))
    }
}
