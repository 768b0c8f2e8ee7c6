//! Has every delivery queue follow from what it is judged by, whether a worker can have it or not: a paused queue and
//! one whose URL is parked are the ones in which something waits, and that is what a policy destroys
//! (docs/protocols.md 33).
//!
//! Marked and unbound, or bound and unmarked, under a managing lease; where this process delivers a queue, under the
//! lease that it has, and the request in hand goes on. The binding comes first and the mark after it: what a crash
//! leaves between differs from what is judged, and is done again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::ambient;
use crate::broker::{BrokerError, Look};
use crate::domain::broker_rules::Judgement;
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::queue::{Closing, QueueRecord};
use crate::engine::rules::PolicyGuard;
use crate::engine::tell::Tell;
use crate::engine::{EngineError, Event};
use crate::store::{Lease, LeaseOutcome, Purpose, QueueMark, QueuesOnly};

/// Queues that are read, whose leases are taken, and that are settled at once.
const AT_ONCE: usize = 250;
/// So many times that: while one waits for the broker, the other one is in the store.
const PARTS: usize = 2;
/// How long something else that this process does with a queue that it holds is waited for.
const TURN: Duration = Duration::from_millis(200);

impl PolicyGuard {
    /// The queues that differ, of all that the store knows.
    pub(super) async fn find_unsettled(&self) -> Result<Vec<QueueRecord>, EngineError> {
        let mut unsettled = Vec::new();
        let mut pages = self.queue_pages(QueuesOnly::All);
        while let Some(rows) = pages.next().await? {
            self.keep_differing(rows, &mut unsettled).await;
        }
        Ok(unsettled)
    }

    /// Those of some that still do.
    pub(super) async fn still_unsettled(&self, queues: &[QueueName]) -> Result<Vec<QueueRecord>, EngineError> {
        let mut unsettled = Vec::new();
        for part in queues.chunks(AT_ONCE) {
            let rows = self.store.queues_get(part).await?;
            self.keep_differing(rows, &mut unsettled).await;
        }
        Ok(unsettled)
    }

    async fn keep_differing(&self, rows: Vec<QueueRecord>, unsettled: &mut Vec<QueueRecord>) {
        for row in rows {
            if self.differs(&row).await.is_some() {
                unsettled.push(row);
            }
        }
    }

    /// Settles what can be settled now; answers the rest, which somebody holds.
    pub(super) async fn settle(
        self: &Arc<Self>,
        rows: Vec<QueueRecord>,
        tell: &mpsc::Sender<Tell>,
        stop: &CancellationToken,
    ) -> Result<Vec<QueueName>, EngineError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let incarnations = self.store.incarnations_living().await?;
        let (me, count) = (self.fence.incarnation(), rows.len());
        let (mut free, mut mine, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let is_held = row
                .owner
                .is_some_and(|owner| incarnations.iter().any(|one| one.id == owner));
            match row.owner {
                Some(owner) if is_held && owner == me => mine.push(row.name),
                // Another daemon sees the policy itself, and a command is soon done.
                Some(_) if is_held => rest.push(row.name),
                // A crash left it being deleted: whoever takes it judges it.
                Some(_) | None if row.closing == Closing::Closing => {}
                Some(_) | None => free.push(row.name),
            }
        }
        let mut held = stream::iter(mine)
            .map(|queue| self.settle_held(queue, me, tell))
            .buffer_unordered(AT_ONCE);
        while let Some(left) = held.next().await {
            rest.extend(left);
        }
        if !free.is_empty() {
            rest.extend(self.settle_free(&free, tell, stop).await?);
        }
        tracing::info!(queues = count, left = rest.len(), "queues follow the broker's policies");
        Ok(rest)
    }

    async fn settle_free(
        self: &Arc<Self>,
        free: &[QueueName],
        tell: &mpsc::Sender<Tell>,
        stop: &CancellationToken,
    ) -> Result<Vec<QueueName>, EngineError> {
        let manager = self.begin_managing("policies").await?;
        let me = manager.id();
        let mut parts = stream::iter(free.chunks(AT_ONCE).map(<[QueueName]>::to_vec))
            .map(|part| async move {
                if stop.is_cancelled() {
                    return Vec::new();
                }
                self.settle_some(me, &part, tell).await.unwrap_or_else(|error| {
                    tracing::warn!(error = ?error, "queues wait for what follows from a broker policy");
                    part
                })
            })
            .buffer_unordered(PARTS);
        let mut rest = Vec::new();
        while let Some(left) = parts.next().await {
            rest.extend(left);
        }
        drop(parts);
        manager.end().await;
        Ok(rest)
    }

    /// A queue that this process delivers, under the lease that it has: whoever works on it goes on. Answers the queue
    /// where that could not be done now.
    async fn settle_held(&self, queue: QueueName, me: IncarnationId, tell: &mpsc::Sender<Tell>) -> Option<QueueName> {
        let settled = self.under_held_lease(&queue, me, async |row: &QueueRecord| {
            let stops = self
                .differs(row)
                .await
                .is_some_and(|judged| judged.breaks_order.is_some());
            let settled = self.settle_one(row).await;
            if stops {
                let _ = tell.send(Tell::LetGo(queue.clone())).await;
            }
            settled
        });
        match settled.await {
            Ok(Some(true)) => None,
            Ok(Some(false) | None) => Some(queue),
            Err(error) => {
                tracing::warn!(queue = ?queue, error = ?error, "a queue waits for what follows from a broker policy");
                Some(queue)
            }
        }
    }

    /// Does something to the binding of a queue that the present incarnation of this process holds, and nothing else of
    /// this process does at the same time; `None`: it does not hold it, or is not soon done with it.
    pub(in crate::engine) async fn under_held_lease<T>(
        &self,
        queue: &QueueName,
        me: IncarnationId,
        work: impl AsyncFnOnce(&QueueRecord) -> Result<T, EngineError>,
    ) -> Result<Option<T>, EngineError> {
        let place = self.bindings.line_up(queue);
        let Ok(_turn) = ambient::timeout(TURN, place.turn()).await else {
            return Ok(None);
        };
        let row = self.store.queue_get(queue).await?;
        let held = row.filter(|row| row.owner == Some(me) && row.closing != Closing::Closing);
        match held.filter(|_| self.fence.permits(me)) {
            Some(row) => work(&row).await.map(Some),
            None => Ok(None),
        }
    }

    async fn settle_some(
        &self,
        me: IncarnationId,
        queues: &[QueueName],
        tell: &mpsc::Sender<Tell>,
    ) -> Result<Vec<QueueName>, EngineError> {
        let outcomes = self.store.leases_take(me, Purpose::Manage, queues).await?;
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for (queue, outcome) in queues.iter().zip(outcomes) {
            match outcome {
                LeaseOutcome::Taken(lease) => {
                    let judged = self.differs(&lease.record).await;
                    taken.push((lease, judged));
                }
                LeaseOutcome::Held(_) | LeaseOutcome::Reserved(_) | LeaseOutcome::Locked | LeaseOutcome::Disowned => {
                    left.push(queue.clone());
                }
            }
        }
        let destroyed = taken
            .iter()
            .filter(|(_, judged)| judged.as_ref().is_some_and(is_destroyed));
        let destroyed: Vec<QueueName> = destroyed.map(|(lease, _)| lease.record.name.clone()).collect();
        self.broker.unbind_all(&destroyed).await?;
        let settling = taken
            .into_iter()
            .map(|(lease, judged)| self.settle_taken(*lease, judged, tell));
        left.extend(join_all(settling).await.into_iter().flatten());
        Ok(left)
    }

    /// The queue where it is not as it is judged now; its lease is free after it.
    async fn settle_taken(
        &self,
        lease: Lease,
        judged: Option<Judgement>,
        tell: &mpsc::Sender<Tell>,
    ) -> Option<QueueName> {
        let (record, epoch) = (lease.record, lease.epoch);
        let settled = match judged {
            Some(judged) => self.settle_marks(&record, judged).await,
            None => Ok(true),
        };
        let queue = record.name;
        if let Err(error) = self.store.lease_free(&queue, epoch).await {
            tracing::debug!(error = ?error, "the lease is freed with its incarnation");
        }
        let _ = tell.send(Tell::Candidate(queue.clone())).await;
        let settled = settled.unwrap_or_else(|error| {
            tracing::warn!(queue = ?queue, error = ?error, "a queue waits for what follows from a broker policy");
            false
        });
        (!settled).then_some(queue)
    }

    /// Under the lease that the row tells of. False when it was lost meanwhile.
    async fn settle_one(&self, record: &QueueRecord) -> Result<bool, EngineError> {
        let Some(judged) = self.differs(record).await else {
            return Ok(true);
        };
        if is_destroyed(&judged) {
            self.broker.unbind(&record.name).await?;
        }
        self.settle_marks(record, judged).await
    }

    /// The same for a queue that is unbound where it is judged so.
    async fn settle_marks(&self, record: &QueueRecord, judged: Judgement) -> Result<bool, EngineError> {
        let queue = &record.name;
        match &judged.destroys {
            Some(reason) => {
                tracing::error!(queue = ?queue, reason = ?reason, "queue takes no more publishes: a broker policy destroys what waits");
            }
            None if record.refusing.is_some() => self.bind_again(queue).await?,
            None => {}
        }
        if judged.destroys != record.refusing {
            let mark = QueueMark::Refusing(judged.destroys.clone());
            if !self.store.queue_mark(queue, record.epoch, mark).await? {
                return Ok(false);
            }
            if let Some(why) = &judged.destroys {
                self.tell(Event::refusing(queue, why));
            }
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
        Ok(self.store.queue_mark(queue, record.epoch, mark).await?)
    }

    async fn bind_again(&self, queue: &QueueName) -> Result<(), BrokerError> {
        match self.broker.bind(queue).await? {
            Look::Present { .. } => tracing::info!(queue = ?queue, "queue takes publishes again"),
            Look::Missing => tracing::debug!(queue = ?queue, "a queue that took no publishes is gone"),
        }
        Ok(())
    }

    /// What a queue is judged to be, where its row says something else. A mark is taken away only by who knows the
    /// queue's arguments: they may be what it was marked for.
    async fn differs(&self, row: &QueueRecord) -> Option<Judgement> {
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

const fn is_destroyed(judged: &Judgement) -> bool {
    judged.destroys.is_some()
}
