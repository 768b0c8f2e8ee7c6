//! Work on queues that is not delivery: browsing, purging, deleting, rescuing, runs (docs/protocols.md 1).
//!
//! Whoever takes or moves messages holds the lease, a command too: it is an incarnation of its own for
//! as long as it takes, and asks the worker that holds the queue to let go.
//!
//! Promises: nothing that matters is left behind, however the work ends. A wish and a lease count while their
//! incarnation lives (docs/protocols.md 30), and that ends with the work: in order, or when the work panicked or was
//! given up. What is held is settled only while nobody can have taken its holder for dead (docs/protocols.md 4).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::fence::Fence;
use super::insist::Pause;
use super::process::Part;
use super::{EngineError, core::Core};
use crate::ambient::{self, Clock};
use crate::broker::{BrokerError, DeliveryTag, Look, Walk, WalkOptions, Walked};
use crate::domain::id::{Epoch, IncarnationId, QueueName};
use crate::domain::queue::QueueRecord;
use crate::store::{Beat, Lease, LeaseOutcome, Purpose, StoreError, StoreHandle};

/// Between two tries to get a lease.
const TRY: Duration = Duration::from_millis(200);
/// Between two heartbeats.
const BEAT: Duration = Duration::from_secs(1);
/// How long a store that is away is told again what was given up.
const TELL_MAX: Duration = Duration::from_secs(10);
/// What a manager is told that others may have taken for dead.
const TAKEN_FOR_DEAD: &str = "this process was away from its store for so long that others may have taken it for dead";

/// An incarnation of this process that manages queues. It ends with this value.
pub(super) struct Manager {
    id: IncarnationId,
    store: StoreHandle,
    clock: Clock,
    fence: Arc<Fence>,
    /// How long it waits for a worker to let go.
    patience: Duration,
    /// Until the end is under way.
    beats: Option<JoinHandle<()>>,
    over: CancellationToken,
}

/// A queue that is held for managing.
pub(super) struct ManagedLease {
    /// Who holds it.
    pub(super) me: IncarnationId,
    /// The fencing number.
    pub(super) epoch: Epoch,
    /// The queue's row as it was when it was taken.
    pub(super) record: QueueRecord,
}

impl Core {
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
        W: FnOnce(ManagedLease) -> F,
    {
        // A lease makes a row, and daemons deliver from what has one.
        if !self.settings.naming.is_delivery_queue(queue.as_str()) {
            return Err(EngineError::Refused {
                why: format!("queue {:?} is not a delivery queue", queue.as_str()),
            });
        }
        let manager = self.begin_managing(what).await?;
        let result = match manager.lease(queue).await {
            Ok(Lease { epoch, record, .. }) => {
                let (me, is_bare) = (manager.id, is_bare(&record));
                let result = work(ManagedLease { me, epoch, record }).await;
                if is_bare && matches!(self.broker.look(queue).await, Ok(Look::Missing)) {
                    manager
                        .told("a queue that is not there is forgotten later", || {
                            self.store.queue_forget(queue, epoch)
                        })
                        .await;
                }
                result
            }
            Err(error) => Err(error),
        };
        // Its lease is free with it. A queue that is gone has nothing to deliver, and a look would make it a row.
        manager.end().await;
        if !matches!(self.store.queue_get(queue).await, Ok(None)) {
            self.broker.nudge(queue).await;
        }
        result
    }

    /// An incarnation for a command or a run.
    pub(super) async fn begin_managing(&self, what: &str) -> Result<Manager, EngineError> {
        let name = format!("{what}-{}-{:08x}", std::process::id(), ambient::random() & 0xffff_ffff);
        self.begin_managing_as(&name).await
    }

    /// [`Core::begin_managing`] under a name of its own.
    pub(super) async fn begin_managing_as(&self, name: &str) -> Result<Manager, EngineError> {
        let sent = self.clock.uptime();
        let id = self.begin_incarnation(name, Part::Manages).await?;
        self.fence.managing_begin(id, sent);
        let over = CancellationToken::new();
        let (store, clock, fence) = (Arc::clone(&self.store), self.clock.clone(), Arc::clone(&self.fence));
        let beating = beat(id, Arc::clone(&store), clock.clone(), Arc::clone(&fence), over.clone());
        Ok(Manager {
            id,
            store,
            clock,
            fence,
            patience: self.settings.request_timeout + Duration::from_secs(5),
            beats: Some(ambient::spawn("command heartbeat", beating)),
            over,
        })
    }

    /// Whether `me` may still change something: nobody can have taken it for dead.
    pub(super) fn may_manage(&self, me: IncarnationId) -> Result<(), EngineError> {
        if self.fence.permits(me) {
            return Ok(());
        }
        Err(EngineError::Refused {
            why: format!("{TAKEN_FOR_DEAD}; run the command again"),
        })
    }

    /// Walks a queue as `me`, which settles nothing once its fence is closed.
    pub(super) async fn walk_as(
        &self,
        me: IncarnationId,
        queue: &QueueName,
        options: WalkOptions,
    ) -> Result<Option<Box<dyn Walk>>, BrokerError> {
        let walk = self.walk_letters(queue, options).await?;
        let fence = Arc::clone(&self.fence);
        Ok(walk.map(|walk| -> Box<dyn Walk> { Box::new(FencedWalk { walk, fence, me }) }))
    }
}

/// A row that says nothing but a name: the lease made it, and for as long as it is there the queue seems to be there.
fn is_bare(record: &QueueRecord) -> bool {
    let bare = QueueRecord {
        epoch: record.epoch,
        owner: record.owner,
        active_at: record.active_at,
        ..QueueRecord::new(&record.name, record.created_at)
    };
    *record == bare
}

/// Beats until it is over, or the incarnation is disowned.
async fn beat(id: IncarnationId, store: StoreHandle, clock: Clock, fence: Arc<Fence>, over: CancellationToken) {
    loop {
        ambient::wait(&over, BEAT).await;
        if over.is_cancelled() {
            return;
        }
        let sent = clock.uptime();
        match store.heartbeat(id).await {
            Ok(Beat::Alive) => fence.managing_beat(id, sent),
            Ok(Beat::Disowned) => return disown(id, &fence, &over),
            Err(error) => tracing::debug!(incarnation = id.0, error = ?error, "a command's heartbeat failed"),
        }
    }
}

fn disown(id: IncarnationId, fence: &Fence, over: &CancellationToken) {
    tracing::warn!(incarnation = id.0, "disowned: taken for dead");
    fence.managing_end(id);
    over.cancel();
}

impl Manager {
    pub(super) fn id(&self) -> IncarnationId {
        self.id
    }

    /// Whether others took it for dead: nothing can be done under it any more.
    pub(super) fn is_disowned(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Takes the lease of `queue`, which nothing of this incarnation works on: one that it has all the same is left
    /// over from an answer that was lost, and taken anew. Waits for the worker that holds it to finish the attempt in
    /// hand; refuses when somebody else keeps it.
    pub(super) async fn lease(&self, queue: &QueueName) -> Result<Lease, EngineError> {
        let taken = self.wait_for_lease(queue).await;
        if taken.is_err() {
            self.told("a wish ends with its incarnation", || {
                self.store.queue_unwant(queue, self.id)
            })
            .await;
        }
        taken
    }

    async fn wait_for_lease(&self, queue: &QueueName) -> Result<Lease, EngineError> {
        let deadline = self.clock.uptime() + self.patience;
        let queues = [queue.clone()];
        loop {
            match self.store.leases_take(self.id, Purpose::Manage, &queues).await?.pop() {
                Some(LeaseOutcome::Taken(lease)) => return Ok(*lease),
                Some(LeaseOutcome::Disowned) | None => {
                    disown(self.id, &self.fence, &self.over);
                    return Err(EngineError::Refused {
                        why: "this process was taken for dead; run the command again".to_owned(),
                    });
                }
                Some(LeaseOutcome::Held(_) | LeaseOutcome::Reserved(_) | LeaseOutcome::Locked) => {}
            }
            if self.clock.uptime() >= deadline {
                return Err(EngineError::Refused {
                    why: format!(
                        "queue {:?} is held by another process for more than {} s; pause it and try again",
                        queue.as_str(),
                        self.patience.as_secs()
                    ),
                });
            }
            self.store.queue_want(queue, self.id).await?;
            ambient::sleep(TRY).await;
        }
    }

    /// Gives a lease back before the incarnation ends.
    pub(super) async fn free(&self, queue: &QueueName, epoch: Epoch) {
        self.told("a lease is free with its incarnation", || {
            self.store.lease_free(queue, epoch)
        })
        .await;
    }

    async fn told<T, F>(&self, otherwise: &'static str, tell: impl FnMut() -> F)
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        if let Err(error) = tell_again(&self.clock, tell).await {
            tracing::debug!(incarnation = self.id.0, error = ?error, "{otherwise}");
        }
    }

    /// Its work is over. What it holds is free when this returns, or others find it dead.
    pub(super) async fn end(mut self) {
        if let Some(ending) = self.ending() {
            // Whoever waits for it may go away.
            let _ = ambient::spawn("end of a command", ending).await;
        }
    }

    fn ending(&mut self) -> Option<impl Future<Output = ()> + use<>> {
        let beats = self.beats.take()?;
        self.over.cancel();
        self.fence.managing_end(self.id);
        let (id, store, clock) = (self.id, Arc::clone(&self.store), self.clock.clone());
        Some(async move {
            // The last one is told first: it would take up the evidence of life again.
            let _ = beats.await;
            if let Err(error) = tell_again(&clock, || store.incarnation_end(id)).await {
                tracing::debug!(incarnation = id.0, error = ?error, "an incarnation that ended is found dead later");
            }
        })
    }
}

/// The work panicked, or was given up.
impl Drop for Manager {
    fn drop(&mut self) {
        if let Some(ending) = self.ending()
            && Handle::try_current().is_ok()
        {
            drop(ambient::spawn("end of a command", ending));
        }
    }
}

/// Repeats what a store that is away has to know, for a while.
async fn tell_again<T, F>(clock: &Clock, mut tell: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let (until, mut pause) = (clock.uptime() + TELL_MAX, Pause::default());
    loop {
        match tell().await {
            Err(StoreError::Unreachable { .. } | StoreError::NotWritable { .. }) if clock.uptime() < until => {
                pause.wait().await;
            }
            told => return told,
        }
    }
}

/// A walk whose holder may be taken for dead: what it settles then may be another one's by now.
struct FencedWalk {
    walk: Box<dyn Walk>,
    fence: Arc<Fence>,
    me: IncarnationId,
}

#[async_trait]
impl Walk for FencedWalk {
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, BrokerError> {
        self.walk.next(limit).await
    }

    fn is_cut(&self) -> bool {
        self.walk.is_cut()
    }

    async fn settle(&mut self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        if !self.fence.permits(self.me) {
            return Err(BrokerError::Failed {
                operation: "settle",
                detail: TAKEN_FOR_DEAD.to_owned(),
            });
        }
        self.walk.settle(tags).await
    }

    async fn close(self: Box<Self>) -> Result<u64, BrokerError> {
        self.walk.close().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::domain::time::Timestamp;

    /// Counts what it is told to settle.
    struct Counting(Arc<AtomicUsize>);

    #[async_trait]
    impl Walk for Counting {
        async fn next(&mut self, _limit: usize) -> Result<Vec<Walked>, BrokerError> {
            Ok(Vec::new())
        }

        fn is_cut(&self) -> bool {
            false
        }

        async fn settle(&mut self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
            self.0.fetch_add(tags.len(), Ordering::SeqCst);
            Ok(())
        }

        async fn close(self: Box<Self>) -> Result<u64, BrokerError> {
            Ok(0)
        }
    }

    #[tokio::test]
    async fn nothing_is_settled_by_one_that_woke_up_behind_its_fence() {
        let clock = Clock::manual(Timestamp::from_seconds(1_000));
        let fence = Arc::new(Fence::new(
            clock.clone(),
            Duration::from_secs(60),
            Duration::from_secs(15),
        ));
        let me = IncarnationId(7);
        fence.managing_begin(me, clock.uptime());
        let settled = Arc::new(AtomicUsize::new(0));
        let mut walk = FencedWalk {
            walk: Box::new(Counting(Arc::clone(&settled))),
            fence,
            me,
        };
        let tags = [DeliveryTag(1)];
        walk.settle(&tags).await.unwrap();
        clock.advance(Duration::from_secs(30));
        let refused = walk.settle(&tags).await;
        assert!(matches!(refused, Err(BrokerError::Failed { .. })), "{refused:?}");
        assert_eq!(settled.load(Ordering::SeqCst), 1);
    }
}
