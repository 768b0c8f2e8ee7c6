//! Nudges and signs of life between the publishers, daemons and commands that share the file.
//!
//! Inside a process a nudge is a message on a channel. Between processes nothing is written for it:
//! whoever listens reads what was added to the tables since it last looked, when the file says that
//! another process committed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use super::tables::{self, Seen};
use crate::broker::Signal;
use crate::domain::id::QueueName;

/// Signals that a slow receiver may be behind before it misses some.
const BEHIND_MAX: usize = 1024;
/// At most one nudge of a queue in this time.
const NUDGE_PAUSE: Duration = Duration::from_secs(1);
/// Queues whose last nudge is remembered.
const NUDGED_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct Signals {
    sender: broadcast::Sender<Signal>,
    /// Somebody wants to hear what other processes do.
    tells_of_others: AtomicBool,
    nudged: Mutex<HashMap<QueueName, Duration>>,
}

impl Signals {
    pub(super) fn new() -> Self {
        Self {
            sender: broadcast::channel(BEHIND_MAX).0,
            tells_of_others: AtomicBool::new(false),
            nudged: Mutex::default(),
        }
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Signal> {
        self.sender.subscribe()
    }

    /// From now on what other processes do is told too.
    pub(super) fn begin_telling_of_others(&self) {
        self.tells_of_others.store(true, Ordering::Release);
    }

    pub(super) fn send(&self, signal: Signal) {
        // Nobody listens: signals are lossy.
        let _ = self.sender.send(signal);
    }

    /// Nudges, unless that was done within the last second.
    pub(super) fn nudge(&self, queue: &QueueName, uptime: Duration) {
        let mut nudged = self.nudged.lock().unwrap_or_else(PoisonError::into_inner);
        if nudged
            .get(queue)
            .is_some_and(|last| uptime.saturating_sub(*last) < NUDGE_PAUSE)
        {
            return;
        }
        if nudged.len() >= NUDGED_MAX {
            nudged.retain(|_, last| uptime.saturating_sub(*last) < NUDGE_PAUSE);
        }
        if nudged.len() < NUDGED_MAX {
            nudged.insert(queue.clone(), uptime);
        }
        drop(nudged);
        self.send(Signal::Nudged(queue.clone()));
    }
}

/// Passes on what other processes did: wakes attachments, and signals it when somebody listens. Ends
/// with the broker.
pub(super) async fn listen(
    shared: Weak<Shared>,
    closed: CancellationToken,
    mut seen: Seen,
    mut elsewhere: watch::Receiver<u64>,
) {
    loop {
        tokio::select! {
            () = closed.cancelled() => return,
            raised = elsewhere.changed() => if raised.is_err() { return },
        }
        let Some(shared) = shared.upgrade() else { return };
        match report(&shared, &mut seen).await {
            Ok(()) => {}
            // The file was closed meanwhile, and with it the broker.
            Err(sqlx::Error::PoolClosed) => return,
            Err(error) => {
                tracing::warn!(error = ?error, "cannot read what other processes changed");
                shared.registry.wake_all();
            }
        }
    }
}

/// One look at what was added since `seen`. What this process did itself may be reported once more.
async fn report(shared: &Shared, seen: &mut Seen) -> Result<(), sqlx::Error> {
    let readers = shared.file.readers();
    for (id, name) in tables::queues_since(readers, seen.queue).await? {
        seen.queue = id;
        signal(shared, &name, Signal::QueueCreated);
    }
    for deletion in tables::deletions_since(readers, seen.deletion).await? {
        seen.deletion = deletion.id;
        shared.registry.deleted(deletion.queue);
        let by = Some(deletion.deleted_by).filter(|by| by != tables::NOBODY);
        signal(shared, &deletion.name, |queue| Signal::QueueDeleted { queue, by });
    }
    let last = tables::seen(readers).await?.message;
    if last > seen.message {
        let grown = tables::queues_grown(readers, seen.message, last).await?;
        if grown.len() >= tables::GROWN_MAX {
            shared.registry.wake_all();
        }
        for (id, name) in grown {
            shared.registry.wake(id);
            signal(shared, &name, Signal::Nudged);
        }
        seen.message = last;
    }
    Ok(())
}

fn signal(shared: &Shared, name: &str, make: impl FnOnce(QueueName) -> Signal) {
    if !shared.signals.tells_of_others.load(Ordering::Acquire) {
        return;
    }
    if let Ok(queue) = QueueName::parse(name) {
        shared.signals.send(make(queue));
    }
}
