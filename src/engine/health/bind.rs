//! Every queue that the store knows, bound again to an exchange that is new, each under a lease: a queue that is being
//! deleted, or that refuses, must not be bound. What the broker does not have any more is listed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::task::JoinHandle;

use super::losses::{GONE, Loss, QUEUES, listed, messages};
use super::missing::look_at_these;
use crate::ambient;
use crate::broker::{BrokerError, Look};
use crate::domain::id::{Epoch, QueueName, StoreId};
use crate::domain::queue::{Closing, QueueRecord};
use crate::domain::turn::{Turn, TurnKind};
use crate::domain::words::plural;
use crate::engine::expiring::Gone;
use crate::engine::health::Healing;
use crate::engine::manage::Manager;
use crate::engine::{EngineError, Event};
use crate::store::{Lease, LeaseOutcome, Purpose, QueueQuery, QueuesOnly};

/// The result of a line of the audit that tells of no loss.
pub(in crate::engine) const BOUND: &str = "bound";

/// The lease of the work as a whole.
const WORK: &str = "bind every queue";
/// How long a daemon that begins waits for it.
const BEFORE_DELIVERY: Duration = Duration::from_secs(2);
/// Between two passes.
const PAUSE: Duration = Duration::from_secs(1);
/// Queues whose leases are taken at once.
const AT_ONCE: usize = 100;
/// Queues that are bound side by side.
const BESIDE: usize = 16;
/// Queues that others hold, and that are waited for side by side.
const WAITING: usize = 64;

/// What came of it.
#[derive(Debug, Default)]
struct Tally {
    bound: u64,
    /// Not bound, and why the last one was not.
    failed: u64,
    why: String,
}

impl Tally {
    fn add(&mut self, outcome: Result<bool, String>) {
        match outcome {
            Ok(bound) => self.bound += u64::from(bound),
            Err(why) => {
                self.failed += 1;
                self.why = why;
            }
        }
    }
}

impl Healing {
    /// Binds every queue where the exchange is new, and does not wait for long: nobody works on them yet.
    pub(in crate::engine) async fn bind_before_delivery(self: &Arc<Self>, store: &StoreId) {
        let is_new = matches!(self.broker.check(store).await, Ok(standing) if !standing.is_bound);
        if is_new && let Some(binding) = self.begin_binding() {
            // What is left is bound beside delivery.
            let _ = ambient::timeout(BEFORE_DELIVERY, binding).await;
        }
    }

    /// Binds every queue in a task of its own, unless one is at it.
    pub(super) fn begin_binding(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        if self.health.binding.swap(true, Ordering::SeqCst) {
            return None;
        }
        let engine = Arc::clone(self);
        Some(ambient::spawn("bind every queue", async move {
            engine.bind_every_queue().await;
            ambient::spawn("pause of binding", async move {
                ambient::wait(&engine.health.over, PAUSE).await;
                engine.health.binding.store(false, Ordering::SeqCst);
            });
        }))
    }

    /// Binds every queue, unless another daemon does it already.
    async fn bind_every_queue(self: &Arc<Self>) {
        let began = self.clock.uptime();
        if matches!(self.store.queues_page(&QueueQuery::first(1)).await, Ok(rows) if rows.is_empty()) {
            if let Err(error) = self.broker.mark_bound().await {
                tracing::warn!(error = ?error, "that there is no queue to bind is not said on the broker yet");
            }
            return;
        }
        match self.bind_as_manager().await {
            Ok(None) => {}
            Ok(Some(tally)) if tally.failed > 0 => {
                tracing::error!(bound = tally.bound, failed = tally.failed, why = ?tally.why, "not every queue is bound to the exchange yet");
            }
            Ok(Some(tally)) => {
                if let Err(error) = self.broker.mark_bound().await {
                    return tracing::warn!(error = ?error, "that every queue is bound is not said on the broker yet");
                }
                let took = self.clock.uptime().saturating_sub(began);
                tracing::info!(queues = tally.bound, took = ?took, "every queue is bound to the exchange");
                self.audit_losses(Some(tally.bound)).await;
                self.sweep_now.notify_one();
            }
            Err(error) => tracing::warn!(error = ?error, "binding the queues waits"),
        }
    }

    async fn bind_as_manager(self: &Arc<Self>) -> Result<Option<Tally>, EngineError> {
        let manager = self.begin_managing("bind").await?;
        let done = self.bind_as(&manager).await;
        manager.end().await;
        done
    }

    async fn bind_as(self: &Arc<Self>, manager: &Manager) -> Result<Option<Tally>, EngineError> {
        let Some(epoch) = self.store.named_lease_take(WORK, manager.id()).await? else {
            return Ok(None);
        };
        // Whoever had the work before may have done it since this was asked for.
        let store = self.store_identity().await?;
        let done = match self.broker.check(&store).await {
            Ok(standing) if standing.is_bound => Ok(None),
            Ok(_) | Err(_) => self.bind_pages(manager).await.map(Some),
        };
        self.store.named_lease_free(WORK, epoch).await?;
        done
    }

    async fn bind_pages(self: &Arc<Self>, manager: &Manager) -> Result<Tally, EngineError> {
        let me = manager.id();
        let (mut tally, mut others) = (Tally::default(), Vec::new());
        let mut pages = self.queue_pages(QueuesOnly::All);
        while let Some(rows) = pages.next().await? {
            // Before publishers put into them what hides that something is missing, and before a lease is taken.
            if let Err(error) = look_at_these(self, &rows).await {
                tracing::debug!(error = ?error, "what is in every queue is not compared with what it had");
            }
            let names: Vec<QueueName> = rows.into_iter().filter(to_bind).map(|row| row.name).collect();
            for names in names.chunks(AT_ONCE) {
                let leases = self.store.leases_take(me, Purpose::Manage, names).await?;
                let mut taken = Vec::new();
                for (name, outcome) in names.iter().zip(leases) {
                    match outcome {
                        LeaseOutcome::Taken(lease) => taken.push(*lease),
                        LeaseOutcome::Held(_) | LeaseOutcome::Reserved(_) | LeaseOutcome::Locked => {
                            others.push(name.clone());
                        }
                        LeaseOutcome::Disowned => {
                            return Err(EngineError::Refused {
                                why: "this process was taken for dead".to_owned(),
                            });
                        }
                    }
                }
                let mut outcomes = stream::iter(taken)
                    .map(|lease| self.bind_one(lease))
                    .buffer_unordered(BESIDE);
                while let Some(outcome) = outcomes.next().await {
                    tally.add(outcome);
                }
            }
        }
        let mut outcomes = stream::iter(others)
            .map(|name| self.bind_held(manager, name))
            .buffer_unordered(WAITING);
        while let Some(outcome) = outcomes.next().await {
            tally.add(outcome);
        }
        Ok(tally)
    }

    /// A queue that somebody works on. Where it is this process it is bound under the lease that there is, and whoever
    /// works on it goes on; of others it is asked for, and given back to whoever delivers it.
    pub(super) async fn bind_held(self: &Arc<Self>, manager: &Manager, queue: QueueName) -> Result<bool, String> {
        let me = self.fence.incarnation();
        let held = self
            .policy_guard
            .under_held_lease(&queue, me, async |row: &QueueRecord| Ok(self.bind_row(row).await?));
        match held.await {
            // One that is gone is found out by its worker.
            Ok(Some(look)) => return Ok(look.is_some_and(|look| look != Look::Missing)),
            Ok(None) => {}
            Err(error) => return Err(crate::engine::error::chain(&error)),
        }
        let outcome = match manager.lease(&queue).await {
            Ok(lease) => self.bind_one(lease).await,
            Err(error) => Err(crate::engine::error::chain(&error)),
        };
        self.broker.nudge(&queue).await;
        outcome
    }

    async fn bind_one(self: &Arc<Self>, lease: Lease) -> Result<bool, String> {
        let queue = lease.record.name.clone();
        let outcome = match self.bind_row(&lease.record).await {
            Ok(Some(Look::Present { .. })) => Ok(true),
            Ok(Some(Look::Missing)) => {
                self.forget_gone(&queue, lease.epoch).await;
                Ok(false)
            }
            Ok(None) => Ok(false),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = self.store.lease_free(&queue, lease.epoch).await {
            tracing::debug!(queue = ?queue, error = ?error, "the lease is freed with its incarnation");
        }
        outcome
    }

    /// `None`: publishers should not reach it.
    async fn bind_row(&self, row: &QueueRecord) -> Result<Option<Look>, BrokerError> {
        if !to_bind(row) {
            return Ok(None);
        }
        self.broker.bind(&row.name).await.map(Some)
    }

    /// The broker has no such queue, and nothing of ours deleted it: its row goes, and what is known of it is kept for
    /// the audit.
    pub(in crate::engine) async fn forget_gone(&self, queue: &QueueName, epoch: Epoch) {
        let row = self.store.queue_get(queue).await.ok().flatten();
        if let Some(row) = &row
            && self.has_more_in_companion(row).await
        {
            // Its worker empties that first, and finds then that the queue is gone.
            self.broker.nudge(queue).await;
            return;
        }
        match self.store.queue_forget(queue, epoch).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(queue = ?queue, error = ?error, "a deleted queue is still in the store");
                return;
            }
        }
        self.publisher.forget(queue);
        self.policy_guard.rules.forget(queue);
        self.settled.forget(queue);
        // One that was about to be deleted by us is no loss, nor one whose row the lease made a moment ago: a nudge that
        // is older than the end of its queue leads there.
        if let Some(row) = row.filter(|row| row.closing == Closing::Open && row.url.is_some()) {
            self.health.losses.note(&row);
        }
    }

    /// Whether messages wait in the companion of a queue; unknown counts as yes.
    async fn has_more_in_companion(&self, row: &QueueRecord) -> bool {
        for part in self.parts(row).iter().filter(|part| **part != row.name) {
            match self.broker.look(part).await {
                Ok(Look::Missing | Look::Present { ready: 0, .. }) => {}
                Ok(Look::Present { .. }) | Err(_) => return true,
            }
        }
        false
    }
}

impl Healing {
    /// One line for all queues that are gone since the last one, with `bound` also for what was bound.
    pub(super) async fn audit_losses(&self, bound: Option<u64>) {
        let (losses, now) = (self.health.losses.take(), self.store_time.now());
        let bound = bound.filter(|bound| *bound > 0);
        if losses.is_empty() && bound.is_none() {
            return;
        }
        for loss in &losses {
            self.tell(Event::QueueGone {
                queue: loss.queue.clone(),
                how: Gone::Unknown,
                messages: loss.last_known.map(|(messages, _)| messages),
                seen_at: loss.last_known.map_or(loss.active_at, |(_, at)| at),
            });
        }
        let mut detail = bound.map_or_else(String::new, |bound| {
            format!("{} bound; ", plural(bound, "queue is", "queues are"))
        });
        detail.push_str(&listed(&losses, now));
        if losses.is_empty() {
            self.audit_heal(QUEUES, BOUND, detail).await;
        } else {
            tell_of_losses(self, GONE, &losses, detail).await;
        }
    }
}

/// To whoever looks, and to whoever is told.
pub(super) async fn tell_of_losses(engine: &Healing, result: &str, losses: &[Loss], detail: String) {
    engine.tell_turn(Turn {
        kind: TurnKind::MessagesLost,
        subject: QUEUES.to_owned(),
        text: format!("{QUEUES} {result}: {detail}"),
        count: messages(losses),
        at: engine.clock.now(),
    });
    engine.audit_heal(QUEUES, result, detail).await;
}

/// Whether publishers should reach it.
pub(super) fn to_bind(row: &QueueRecord) -> bool {
    row.closing == Closing::Open && row.refusing.is_none()
}
