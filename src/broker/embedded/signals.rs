//! Nudges and signs of life between the publishers, daemons and commands that share the file.
//!
//! Inside a process a nudge is a message on a channel. Between processes nothing is written for it:
//! whoever listens reads what was added to the tables since it last looked, when the file says that
//! another process committed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{broadcast, watch};

use super::Shared;
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
    nudged: Mutex<HashMap<QueueName, Duration>>,
}

impl Signals {
    pub(super) fn new() -> Self {
        Self {
            sender: broadcast::channel(BEHIND_MAX).0,
            nudged: Mutex::default(),
        }
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Signal> {
        self.sender.subscribe()
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

/// Signals what other processes did, until the broker is closed.
pub(super) async fn listen(shared: Arc<Shared>, mut seen: Seen, mut elsewhere: watch::Receiver<u64>) {
    loop {
        tokio::select! {
            () = shared.closed.cancelled() => return,
            raised = elsewhere.changed() => if raised.is_err() { return },
        }
        if let Err(error) = report(&shared, &mut seen).await {
            tracing::warn!(error = ?error, "cannot read what other processes changed");
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
    for (id, name, by) in tables::deletions_since(readers, seen.deletion).await? {
        seen.deletion = id;
        signal(shared, &name, |queue| Signal::QueueDeleted { queue, by: Some(by) });
    }
    let last = tables::seen(readers).await?.message;
    if last > seen.message {
        for name in tables::queues_grown(readers, seen.message, last).await? {
            signal(shared, &name, Signal::Nudged);
        }
        seen.message = last;
    }
    Ok(())
}

fn signal(shared: &Shared, name: &str, make: impl FnOnce(QueueName) -> Signal) {
    if let Ok(queue) = QueueName::parse(name) {
        shared.signals.send(make(queue));
    }
}
