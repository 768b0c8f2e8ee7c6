//! Queues that are there without what was in them: somebody deleted and made them again, alone or with the whole vhost, or
//! emptied them.
//!
//! Nobody says so but the numbers. A queue that nobody used when it was listed, that has fewer messages now, and that no
//! process of redrive leased since, has lost them to somebody else. Whoever leases one hides that, so it is looked at
//! before it is bound.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::bind::to_bind;
use super::losses::Loss;
use crate::ambient;
use crate::broker::Look;
use crate::domain::id::QueueName;
use crate::domain::queue::QueueRecord;
use crate::engine::EngineError;
use crate::engine::health::Healing;
use crate::engine::manage::Manager;
use crate::store::{LeaseOutcome, Purpose, QueuesOnly};

/// Queues that are looked at side by side.
const BESIDE: usize = 16;
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
    let mut pages = engine.queue_pages(QueuesOnly::All);
    while let Some(rows) = pages.next().await? {
        look_at_these(engine, &rows).await?;
    }
    Ok(())
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

pub(super) async fn look_at_these(engine: &Healing, rows: &[QueueRecord]) -> Result<(), EngineError> {
    let may_lack = rows.iter().filter(|row| may_lack(engine, row));
    let may_lack: Vec<QueueName> = may_lack.map(|row| row.name.clone()).collect();
    if may_lack.is_empty() {
        return Ok(());
    }
    let found: Vec<_> = stream::iter(may_lack)
        .map(|queue| look_for_loss(engine, queue))
        .buffer_unordered(BESIDE)
        .try_collect()
        .await?;
    let losses: Vec<Loss> = found.into_iter().flatten().collect();
    if losses.is_empty() {
        return Ok(());
    }
    let manager = engine.begin_managing("losses").await?;
    let told = keep_losses(engine, &manager, losses).await;
    manager.end().await;
    told
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

/// To be told by this process. Under a lease, which ends with the manager, and by which others see that somebody tells
/// of it.
async fn keep_losses(engine: &Healing, manager: &Manager, losses: Vec<Loss>) -> Result<(), EngineError> {
    let queues: Vec<QueueName> = losses.iter().map(|loss| loss.queue.clone()).collect();
    let leases = engine.store.leases_take(manager.id(), Purpose::Manage, &queues).await?;
    for (loss, outcome) in losses.into_iter().zip(leases) {
        if matches!(outcome, LeaseOutcome::Taken(_)) {
            engine.health.losses.keep(loss);
        }
    }
    Ok(())
}
