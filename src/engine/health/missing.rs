//! Queues that are there without what was in them: somebody deleted and made them again, alone or with the whole vhost, or
//! emptied them.
//!
//! Nobody says so but the numbers. A queue that nobody used when it was listed, that has fewer messages now, and that no
//! process of redrive leased since, has lost them to somebody else. Whoever leases one hides that, so it is looked at
//! before it is bound.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::bind::{tell_of_losses, to_bind};
use super::losses::{EMPTIED, Loss, emptied, untold};
use crate::ambient;
use crate::broker::Look;
use crate::domain::id::QueueName;
use crate::domain::queue::QueueRecord;
use crate::engine::EngineError;
use crate::engine::health::Healing;
use crate::engine::manage::Manager;
use crate::store::{HeadScope, LearnedQueue, Lease, LeaseOutcome, Purpose, QueuesOnly};

/// Queues that are looked at side by side.
const BESIDE: usize = 16;
/// Within that a publisher that makes a queue again has told of the loss.
const PUBLISHER: Duration = Duration::from_secs(3);
/// How long signals wait for the row of a queue that was deleted.
const ROW: Duration = Duration::from_secs(1);

/// Looks for losses in all queues, in a task of its own, unless one is at it. Where not all could be looked at it is
/// done again.
pub(super) fn begin_looking(engine: &Arc<Healing>) {
    let Some(looking) = engine.health.losses.begin_looking() else {
        return;
    };
    let engine = Arc::clone(engine);
    drop(ambient::spawn("look for losses", async move {
        if let Err(error) = look_at_all(&engine).await {
            tracing::debug!(error = ?error, "not every queue is compared with what it had");
            engine.health.losses.something_was_gone();
        }
        drop(looking);
    }));
}

async fn look_at_all(engine: &Healing) -> Result<(), EngineError> {
    let (mut pages, mut all) = (engine.queue_pages(QueuesOnly::All), Ok(()));
    while let Some(rows) = pages.next().await? {
        all = all.and(look_at_these(engine, &rows).await);
    }
    all
}

/// The broker says that somebody deleted a queue. Asked before anything of ours leases it because of that.
pub(in crate::engine) async fn was_deleted(engine: &Healing, queue: &QueueName) {
    if !engine.health.losses.knows(queue) {
        return;
    }
    if let Ok(Ok(Some(row))) = ambient::timeout(ROW, engine.store.queue_get(queue)).await {
        engine.health.losses.deleted(&row);
    }
}

/// Another queue of that name may be there: whether messages were in the one before.
pub(in crate::engine) async fn look_at_one(engine: &Healing, queue: &QueueName) {
    let looked = match engine.store.queue_get(queue).await {
        Ok(row) => look_at_these(engine, row.as_slice()).await,
        Err(error) => Err(error.into()),
    };
    if let Err(error) = looked {
        tracing::debug!(queue = ?queue, error = ?error, "what is in it is not compared with what it had");
    }
}

/// The broker says that there is a queue of this name now. One that somebody deleted a moment before is looked at, when
/// whoever published to it has had the time to tell that it was gone.
pub(in crate::engine) fn was_made(engine: &Arc<Healing>, queue: &QueueName) {
    if !engine.health.losses.is_deleted(queue) {
        return;
    }
    let engine = Arc::clone(engine);
    drop(ambient::spawn("look for a loss soon", async move {
        ambient::wait(&engine.health.over, PUBLISHER).await;
        engine.health.losses.something_was_gone();
    }));
}

/// One that cannot be looked at keeps no other from it.
pub(super) async fn look_at_these(engine: &Healing, rows: &[QueueRecord]) -> Result<(), EngineError> {
    let may_lack = rows.iter().filter(|row| may_lack(engine, row));
    let may_lack: Vec<QueueName> = may_lack.map(|row| row.name.clone()).collect();
    if may_lack.is_empty() {
        return Ok(());
    }
    let found = stream::iter(may_lack).map(|queue| look_for_loss(engine, queue));
    let found: Vec<_> = found.buffer_unordered(BESIDE).collect().await;
    let (mut losses, mut all) = (Vec::new(), Ok(()));
    for looked in found {
        match looked {
            Ok(loss) => losses.extend(loss),
            Err(error) => all = Err(error),
        }
    }
    if losses.is_empty() {
        return all;
    }
    let queues: Vec<QueueName> = losses.iter().map(|loss| loss.queue.clone()).collect();
    let manager = engine.begin_managing("losses").await?;
    let told = tell_under_lease(engine, &manager, losses).await;
    manager.end().await;
    for queue in &queues {
        engine.broker.nudge(queue).await;
    }
    told.and(all)
}

/// What is in a companion is counted with its queue.
fn may_lack(engine: &Healing, row: &QueueRecord) -> bool {
    to_bind(row) && !row.has_companion && engine.health.losses.may_lack(row)
}

/// Compares what is in a queue with what it had.
async fn look_for_loss(engine: &Healing, queue: QueueName) -> Result<Option<Loss>, EngineError> {
    match engine.broker.look(&queue).await? {
        Look::Present { ready, consumers: 0 } => {
            // Read after that: a lease that was taken meanwhile stands in it.
            let row = engine.store.queue_get(&queue).await?;
            Ok(row.and_then(|row| engine.health.losses.compare(&row, ready)))
        }
        Look::Present { .. } | Look::Missing => Ok(None),
    }
}

/// Tells of them at once: what is known of them ends with the lease, which ends with the manager.
async fn tell_under_lease(engine: &Healing, manager: &Manager, losses: Vec<Loss>) -> Result<(), EngineError> {
    let queues: Vec<QueueName> = losses.iter().map(|loss| loss.queue.clone()).collect();
    let leases = engine.store.leases_take(manager.id(), Purpose::Manage, &queues).await?;
    let (mut lost, mut all) = (Vec::new(), Ok(()));
    for (loss, outcome) in losses.into_iter().zip(leases) {
        let LeaseOutcome::Taken(lease) = outcome else {
            continue;
        };
        match begins_again(engine, &loss, &lease).await {
            Ok(true) => lost.push(loss),
            Ok(false) => {}
            Err(error) => all = Err(error),
        }
    }
    for loss in &lost {
        engine.health.losses.told(&loss.queue);
    }
    let lost = untold(&engine.store, lost).await;
    if !lost.is_empty() {
        tell_of_losses(engine, EMPTIED, &lost, emptied(&lost, engine.store_time.now())).await;
    }
    all
}

/// What is known of a head that is missing (its attempts, that it is parked) holds up what comes after it, so the row of
/// its queue is made again. Answers `false` where another daemon did that, and tells of the loss.
async fn begins_again(engine: &Healing, loss: &Loss, lease: &Lease) -> Result<bool, EngineError> {
    let (row, store) = (&lease.record, &engine.store);
    if row.decision.is_some() || !loss.is_about(row) {
        return Ok(true);
    }
    if row.pause.is_some() {
        // What a person paused stays so.
        let scope = HeadScope::Queue(row.name.clone(), lease.epoch);
        return Ok(store.heads_reset(&scope).await.map(|_| true)?);
    }
    if !store.queue_forget(&row.name, lease.epoch).await? {
        return Ok(false);
    }
    if let (Some(execution), Some(url)) = (&row.execution, &row.url) {
        let learned = LearnedQueue {
            name: row.name.clone(),
            execution: execution.clone(),
            url: url.clone(),
        };
        if let Err(error) = store.queues_learn(&[learned]).await {
            tracing::debug!(queue = ?row.name, error = ?error, "its first message tells whose it is");
        }
    }
    Ok(true)
}
