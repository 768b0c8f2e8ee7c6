//! Work on a queue that is not delivery: browsing, purging, deleting, rescuing (PROTOCOLS.md 1).
//!
//! Whoever takes or moves messages holds the lease, a command too: it is an incarnation of its own for
//! as long as it takes, and asks the worker that holds the queue to let go.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::incarnation::Part;
use super::{EngineError, Inner};
use crate::ambient;
use crate::domain::id::{IncarnationId, QueueName};
use crate::store::{Beat, Lease, LeaseOutcome, Purpose};

/// Between two tries to get a lease.
const TRY: Duration = Duration::from_millis(200);
/// Between two heartbeats.
const BEAT: Duration = Duration::from_secs(1);

/// The heartbeats of an incarnation. They stop with it: work that panicked or was given up is found dead.
pub(super) struct Beats {
    task: JoinHandle<()>,
    done: DropGuard,
}

impl Beats {
    /// The work is over; waits until the last one is told.
    pub(super) async fn end(self) {
        drop(self.done);
        let _ = self.task.await;
    }
}

impl Inner {
    /// Runs `work` under the lease of `queue`. Waits for the worker that holds it to finish the attempt in
    /// hand; refuses when somebody else keeps it.
    pub(super) async fn under_lease<T, F, W>(
        &self,
        queue: &QueueName,
        what: &'static str,
        work: W,
    ) -> Result<T, EngineError>
    where
        F: Future<Output = Result<T, EngineError>>,
        W: FnOnce(Lease) -> F,
    {
        let name = format!("{what}-{}-{:08x}", std::process::id(), ambient::random() & 0xffff_ffff);
        let me = self.begin_incarnation(&name, Part::Manages).await?;
        let beats = self.beats_of(me);
        let lease = self.wait_for_lease(me, queue, &name).await;
        let result = match lease {
            Ok(lease) => {
                let epoch = lease.epoch;
                let result = work(lease).await;
                if let Err(error) = self.store.lease_free(queue, epoch).await {
                    tracing::debug!(error = ?error, "the lease is freed with its incarnation");
                }
                result
            }
            Err(error) => Err(error),
        };
        beats.end().await;
        if let Err(error) = self.store.queue_want(queue, None).await {
            tracing::debug!(error = ?error, "a wish is left behind");
        }
        self.store.incarnation_end(me).await?;
        self.broker.nudge(queue).await;
        result
    }

    /// Keeps an incarnation alive until its work ends, in whatever way.
    pub(super) fn beats_of(&self, me: IncarnationId) -> Beats {
        let (store, done) = (Arc::clone(&self.store), CancellationToken::new());
        let ended = done.clone();
        let task = ambient::spawn("command heartbeat", async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(BEAT) => {}
                    () = ended.cancelled() => return,
                }
                if matches!(store.heartbeat(me).await, Ok(Beat::Disowned)) {
                    return;
                }
            }
        });
        Beats {
            task,
            done: done.drop_guard(),
        }
    }

    pub(super) async fn wait_for_lease(
        &self,
        me: IncarnationId,
        queue: &QueueName,
        name: &str,
    ) -> Result<Lease, EngineError> {
        let patience = self.settings.request_timeout + Duration::from_secs(5);
        let deadline = self.clock.uptime() + patience;
        let queues = [queue.clone()];
        loop {
            match self.store.leases_take(me, Purpose::Manage, &queues).await?.pop() {
                Some(LeaseOutcome::Taken(lease)) => return Ok(*lease),
                Some(LeaseOutcome::Disowned) | None => {
                    return Err(EngineError::Refused {
                        why: "this process was taken for dead; run the command again".to_owned(),
                    });
                }
                Some(LeaseOutcome::Held(_) | LeaseOutcome::Reserved(_)) => {}
            }
            if self.clock.uptime() >= deadline {
                return Err(EngineError::Refused {
                    why: format!(
                        "queue {:?} is held by another process for more than {} s; pause it and try again",
                        queue.as_str(),
                        patience.as_secs()
                    ),
                });
            }
            self.store.queue_want(queue, Some(name)).await?;
            tokio::time::sleep(TRY).await;
        }
    }
}
