//! Nudges that are sent to other daemons: few a queue, and lossy. A sweep finds what was missed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::prepare::WAKE;
use super::publish::Publisher;
use crate::ambient;
use crate::domain::id::QueueName;

/// Queues whose last nudge is remembered.
const QUEUES_MAX: usize = 10_000;
/// At most one nudge in this time and queue (docs/protocols.md 24).
const EVERY: Duration = Duration::from_secs(1);
/// How long a close waits for nudges under way.
const CLOSED: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Nudges {
    /// When (uptime) a queue is nudged last.
    last: Mutex<HashMap<QueueName, Duration>>,
    /// Those under way; a command that ends at once waits for its own.
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Nudges {
    /// Sends one now or shortly, unless one is to come already; `now` is uptime.
    pub(super) fn send(&self, publisher: &Arc<Publisher>, queue: &QueueName, now: Duration) {
        if let Some(wait) = self.wait_for(queue, now) {
            let (publisher, queue, closing) = (Arc::clone(publisher), queue.clone(), self.closing.clone());
            let nudge = async move {
                tokio::select! {
                    () = ambient::sleep(wait) => {}
                    () = closing.cancelled() => {}
                }
                publisher.fling(WAKE, queue.as_str().as_bytes()).await;
            };
            ambient::spawn("nudge", self.tasks.track_future(nudge));
        }
    }

    /// How long to wait before the next nudge of `queue`, and remembers it; `None` when one is to come
    /// already. A nudge too early is sent late and not dropped: the worker that the one before woke may
    /// have let go in between.
    fn wait_for(&self, queue: &QueueName, now: Duration) -> Option<Duration> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() >= QUEUES_MAX {
            last.retain(|_, at| *at + EVERY > now);
        }
        let at = match last.get(queue) {
            Some(last) if *last > now => return None,
            Some(last) => now.max(*last + EVERY),
            None if last.len() >= QUEUES_MAX => return None,
            None => now,
        };
        last.insert(queue.clone(), at);
        Some(at.saturating_sub(now))
    }

    /// Sends those that wait, and waits for them within a bound.
    pub(super) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        // One that does not get through is found by the sweep.
        let _ = ambient::timeout(CLOSED, self.tasks.wait()).await;
    }
}
