//! One worker on one delivery queue: takes messages in order, one at a time, until there is nothing to
//! do, or a reason to let go.
//!
//! Promises: n+1 is not sent before n is settled; an attempt starts only while the fence permits it;
//! whatever is not settled when the worker ends is back in its place, because the channel is closed and
//! nothing else is ever done to give it back.

mod attempt;
mod empty;
mod failure;
mod message;
mod room;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use self::room::Room;
use super::endpoints::LiveEndpoint;
use super::insist::Pause;
use super::settled::LastSettled;
use super::tell::{End, Tell, WorkerEnd};
use super::unattached::Step;
use crate::ambient;
use crate::broker::{Acked, AttachOptions, AttachOutcome, Attached, BrokerError, DeliveryTag, Look, Lost, Next};
use crate::budget::Share;
use crate::domain::fingerprint::Fingerprint;
use crate::domain::id::{Epoch, IncarnationId, QueueName};
use crate::domain::queue::QueueRecord;
use crate::engine::delivery::Delivery;
use crate::engine::series::Meter;
use crate::store::{Lease, QueueMark, StoreError};
use crate::telemetry::names;

/// Messages after which a worker lets others have a turn, when others wait.
const TURN_MESSAGES: u64 = 500;
/// Time after which a worker lets others have a turn, when others wait.
const TURN_TIME: Duration = Duration::from_secs(5);

/// How the dispatcher and a worker speak to each other.
#[derive(Debug)]
pub(super) struct Control {
    tell: mpsc::Sender<Tell>,
    /// A person paused the queue, or somebody wants it: let go after the attempt in hand.
    let_go: AtomicBool,
    /// Somebody waits for a worker or a slot: do not linger, and take turns.
    others_wait: AtomicBool,
    /// Its turn is over: there are more workers than there may be.
    turn_over: AtomicBool,
    /// Since which uptime a request is open, in microseconds; [`NO_REQUEST`] when there is none.
    open_since_us: AtomicU64,
    /// Bytes that the open request holds.
    open_bytes: AtomicUsize,
    wake: Notify,
}

/// No request is open.
const NO_REQUEST: u64 = u64::MAX;

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenRequest {
    pub(super) since_us: u64,
    pub(super) bytes: usize,
}

impl Control {
    pub(super) fn new(tell: mpsc::Sender<Tell>) -> Self {
        Self {
            tell,
            let_go: AtomicBool::new(false),
            others_wait: AtomicBool::new(false),
            turn_over: AtomicBool::new(false),
            open_since_us: AtomicU64::new(NO_REQUEST),
            open_bytes: AtomicUsize::new(0),
            wake: Notify::new(),
        }
    }

    pub(super) fn let_go(&self) {
        self.let_go.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    pub(super) fn others_wait(&self) {
        if !self.others_wait.swap(true, Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }

    /// Let go after the message in hand, whatever is left of the turn.
    pub(super) fn end_turn(&self) {
        self.turn_over.store(true, Ordering::SeqCst);
        self.others_wait();
    }

    /// The request that waits for its answer, if there is one: the dispatcher looks how old it is.
    pub(super) fn open_request(&self) -> Option<OpenRequest> {
        let since_us = self.open_since_us.load(Ordering::Relaxed);
        (since_us != NO_REQUEST).then(|| OpenRequest {
            since_us,
            bytes: self.open_bytes.load(Ordering::Relaxed),
        })
    }

    fn request_begins(&self, request: OpenRequest) {
        self.open_bytes.store(request.bytes, Ordering::Relaxed);
        self.open_since_us.store(request.since_us, Ordering::Relaxed);
    }

    fn request_ended(&self) {
        self.open_since_us.store(NO_REQUEST, Ordering::Relaxed);
    }
}

/// When to stop.
#[derive(Clone, Debug)]
pub(super) struct Stops {
    /// Start nothing more.
    pub(super) drain: CancellationToken,
    /// Give up what is in flight: it was interrupted, not failed.
    pub(super) abandon: CancellationToken,
    /// The incarnation ended.
    pub(super) generation: CancellationToken,
}

impl Stops {
    /// For one worker: asking costs a lock, and all workers ask for every message. A child has its own.
    pub(super) fn for_worker(&self) -> Self {
        Self {
            drain: self.drain.child_token(),
            abandon: self.abandon.child_token(),
            generation: self.generation.child_token(),
        }
    }
}

/// What to do with the queue after one message.
pub(super) enum Flow {
    Continue,
    /// Open the channel again, under the same lease.
    Reattach,
    Stop(End),
}

/// A queue under a lease: whose it is, what is known of it, and what is asked and recorded of it as long as it is.
pub(super) struct Hold {
    pub(super) engine: Arc<Delivery>,
    pub(super) queue: QueueName,
    pub(super) epoch: Epoch,
    pub(super) incarnation: IncarnationId,
    pub(super) record: QueueRecord,
    pub(super) probe: Option<i64>,
    pub(super) control: Arc<Control>,
    pub(super) stops: Stops,
}

/// A worker: what comes from the queue that it holds, and what becomes of it.
pub(super) struct Worker {
    pub(super) hold: Hold,
    pub(super) endpoint: Option<Arc<LiveEndpoint>>,
    sequence: u64,
    settled: LastSettled,
    prefetch: u16,
    room: Room,
    /// Fires when the queue may have been empty for long enough.
    quiet: Pin<Box<ambient::Sleep>>,
    attaching: Attaching,
    /// What its attempts are counted by: for its queue, and for the endpoint.
    moves: Option<[Arc<Meter>; 2]>,
}

/// What is known of the attachment and of those before it.
#[derive(Debug, Default)]
struct Attaching {
    /// Connections to the broker that were lost when it began.
    losses: u64,
    /// Messages that came.
    received: u64,
    /// Something was acked.
    acked: bool,
    /// It was lost, and not closed by us: an ack may be, too.
    lost: bool,
    /// The longest that the broker took to attach or to send a message.
    slow: Duration,
    /// Attachments in a row that brought nothing although there was something.
    in_vain: u32,
    /// Between attachments that end without an ack.
    pause: Pause,
}

impl Worker {
    pub(super) fn new(
        engine: Arc<Delivery>,
        (lease, share): (Lease, Option<Share>),
        incarnation: IncarnationId,
        endpoint: Option<Arc<LiveEndpoint>>,
        probe: Option<i64>,
        control: Arc<Control>,
        stops: Stops,
    ) -> Self {
        let prefetch = engine.settings.prefetch.max(1);
        let settled = engine.settled.take(&lease.record.name);
        let room = Room::new(engine.settings.memory.clone(), share);
        Self {
            hold: Hold {
                queue: lease.record.name.clone(),
                epoch: lease.epoch,
                record: lease.record,
                engine,
                incarnation,
                probe,
                control,
                stops,
            },
            endpoint,
            sequence: 0,
            settled,
            prefetch,
            room,
            quiet: Box::pin(ambient::sleep(Duration::ZERO)),
            attaching: Attaching::default(),
            moves: None,
        }
    }

    /// Works until there is a reason to let go.
    pub(super) async fn run(mut self) -> WorkerEnd {
        let end = loop {
            let mut attached = match self.attach().await {
                Ok(attached) => attached,
                Err(end) => break end,
            };
            let flow = self.deliver(attached.as_mut()).await;
            attached.close().await;
            let went_on = match flow {
                Flow::Continue => Ok(()),
                Flow::Reattach => self.pause_before_next().await,
                Flow::Stop(end) => {
                    if !self.attaching.lost {
                        self.settled.closed_in_order(self.attaching.losses);
                    }
                    if matches!(end, End::Idle | End::Ended) {
                        self.after_the_last(end).await
                    } else {
                        Err(end)
                    }
                }
            };
            if let Err(end) = went_on {
                break end;
            }
        };
        if matches!(end, End::Idle | End::Ended | End::Gone) {
            self.hold.engine.seen.published.forget(&self.hold.queue);
        }
        self.hold.engine.settled.put(&self.hold.queue, self.settled);
        WorkerEnd {
            queue: self.hold.queue,
            epoch: self.hold.epoch,
            endpoint: self.endpoint,
            end,
            unused_probe: self.hold.probe,
            bytes: self.room.last(),
        }
    }

    /// An attachment was lost: the next one begins at once if this one got something done, else after a pause that
    /// grows (a full disk, a broker that closes each channel).
    async fn pause_before_next(&mut self) -> Result<(), End> {
        if self.attaching.acked {
            self.attaching.pause = Pause::default();
            return Ok(());
        }
        tokio::select! {
            biased;
            () = self.hold.stops.drain.cancelled() => {}
            () = self.hold.stops.generation.cancelled() => {}
            () = self.attaching.pause.wait() => {}
        }
        Ok(())
    }

    /// Consumes the queue; waits out a broker that is away while the lease is ours.
    async fn attach(&mut self) -> Result<Box<dyn Attached>, End> {
        if self.hold.record.quarantined.is_some() {
            return Err(End::Refused);
        }
        tracing::debug!(queue = ?self.hold.queue, "leased");
        // A policy that appears between the judgement and the binding is followed after both.
        let engine = Arc::clone(&self.hold.engine);
        let place = engine.policy_guard.bindings.line_up(&self.hold.queue);
        let _turn = place.turn().await;
        self.hold.follow_rules().await?;
        tracing::debug!(queue = ?self.hold.queue, "judged");
        let mut options = AttachOptions {
            prefetch: self.room.prefetch(self.prefetch),
            bind: self.hold.record.refusing.is_none(),
            part: self.hold.part(),
        };
        let mut pause = Pause::default();
        let mut is_late = self.attaching.lost;
        loop {
            self.hold.may_go_on()?;
            self.look_out().await?;
            let asked = engine.clock.uptime();
            match engine.broker.attach(&self.hold.queue, options).await {
                Ok(AttachOutcome::Attached(attached)) => {
                    tracing::debug!(queue = ?self.hold.queue, "attached");
                    if self.hold.record.decision.is_none() {
                        engine.seen.unattached.forget(&self.hold.queue);
                    }
                    self.attaching.slow = Duration::ZERO;
                    self.attaching.broker_took(engine.clock.uptime().saturating_sub(asked));
                    self.attaching.losses = self.hold.engine.broker.losses();
                    self.attaching.received = 0;
                    self.attaching.acked = false;
                    self.attaching.lost = false;
                    self.settled.expect_again(self.attaching.losses);
                    if is_late && self.hold.lost_its_lease().await {
                        attached.close().await;
                        return Err(End::Fenced);
                    }
                    return Ok(attached);
                }
                Ok(AttachOutcome::Missing) if self.hold.record.has_companion => {
                    self.hold.forget_companion().await?;
                    options.part = self.hold.part();
                }
                Ok(AttachOutcome::Missing) => return Err(End::Gone),
                Ok(AttachOutcome::Poison(why)) => return Err(self.hold.quarantine(&why).await),
                Err(error @ (BrokerError::Unreachable { .. } | BrokerError::Unknown { .. })) => {
                    tracing::debug!(queue = ?self.hold.queue, error = ?error, "attach waits for the broker");
                }
                Err(error) => {
                    tracing::warn!(queue = ?self.hold.queue, error = ?error, "queue cannot be attached");
                    let why = error.to_string();
                    let now = engine.clock.now();
                    engine.seen.unattached.note(&self.hold.queue, Step::Attach, why, now);
                    return Err(End::Trouble(Duration::from_secs(5)));
                }
            }
            self.room.look_over();
            tokio::select! {
                biased;
                () = self.hold.stops.drain.cancelled() => {}
                () = self.hold.stops.generation.cancelled() => {}
                () = pause.wait() => {}
            }
            is_late = true;
        }
    }

    async fn deliver(&mut self, attached: &mut dyn Attached) -> Flow {
        let started = self.hold.engine.clock.uptime();
        let mut messages: u64 = 0;
        loop {
            if let Err(end) = self.hold.may_go_on() {
                return Flow::Stop(end);
            }
            let turn_is_over =
                messages >= TURN_MESSAGES || self.hold.engine.clock.uptime().saturating_sub(started) >= TURN_TIME;
            let others_wait = turn_is_over && self.hold.control.others_wait.load(Ordering::SeqCst);
            if others_wait || self.hold.control.turn_over.load(Ordering::SeqCst) {
                return Flow::Stop(End::Yielded);
            }
            let next = match self.next(attached).await {
                Ok(next) => next,
                Err(end) => return Flow::Stop(end),
            };
            messages += 1;
            let flow = match next {
                // It goes back, and comes again when there is room.
                Next::Message(delivery) if !self.room.fits(delivery.message.body.len(), self.prefetch) => {
                    tracing::debug!(queue = ?self.hold.queue, bytes = delivery.message.body.len(), "waits for memory");
                    return Flow::Stop(End::Yielded);
                }
                Next::Larger(bytes) if !self.room.fits(bytes, 1) => {
                    tracing::debug!(queue = ?self.hold.queue, bytes, "waits for memory");
                    return Flow::Stop(End::Yielded);
                }
                Next::Larger(_) => Flow::Continue,
                Next::Message(delivery) => {
                    self.attaching.received += 1;
                    self.attaching.in_vain = 0;
                    self.message(attached, *delivery).await
                }
                Next::Lost(lost) => self.lost(&lost).await,
            };
            if !matches!(flow, Flow::Continue) {
                return flow;
            }
        }
    }

    async fn lost(&mut self, lost: &Lost) -> Flow {
        self.attaching.lost = true;
        match lost {
            Lost::Connection(why) | Lost::Undecodable(why) => {
                tracing::info!(queue = ?self.hold.queue, why = ?why, "connection lost, attaching again");
                Flow::Reattach
            }
            Lost::Cancelled => match self.hold.look().await {
                Ok(Look::Missing) if self.hold.record.has_companion => match self.hold.forget_companion().await {
                    Ok(()) => Flow::Reattach,
                    Err(end) => Flow::Stop(end),
                },
                Ok(Look::Missing) => Flow::Stop(End::Gone),
                Ok(Look::Present { .. }) => Flow::Reattach,
                Err(_) => Flow::Stop(End::Trouble(Duration::from_secs(1))),
            },
        }
    }

    /// Settles what is dealt with: it is remembered, in case that the ack gets lost.
    pub(super) async fn ack(&mut self, attached: &mut dyn Attached, tag: DeliveryTag, what: Fingerprint) -> Flow {
        self.settled.push(what);
        let acked = attached.ack(tag).await;
        self.after(acked)
    }

    /// The ack of what was delivered: nothing follows from it that would have to wait for the socket.
    pub(super) async fn ack_delivered(
        &mut self,
        attached: &mut dyn Attached,
        tag: DeliveryTag,
        what: Fingerprint,
    ) -> Flow {
        self.settled.push(what);
        let acked = attached.ack_soon(tag).await;
        self.after(acked)
    }

    /// The ack of what was acked before, and is remembered.
    pub(super) async fn ack_again(&mut self, attached: &mut dyn Attached, tag: DeliveryTag) -> Flow {
        let acked = attached.ack(tag).await;
        self.after(acked)
    }

    const fn after(&mut self, acked: Acked) -> Flow {
        match acked {
            Acked::Sent => {
                self.attaching.acked = true;
                Flow::Continue
            }
            Acked::Lost => {
                self.attaching.lost = true;
                Flow::Reattach
            }
        }
    }
}

impl Hold {
    /// While a channel is open the broker keeps everybody else from the queue's messages. Whoever had none for a while
    /// asks: a store that failed over may have forgotten the lease, and given the queue to another one, and a store
    /// that failed over twice may remember the lease again (docs/protocols.md 34). A store that does not answer took
    /// nothing away.
    async fn lost_its_lease(&self) -> bool {
        match self.is_leased_to_us().await {
            Ok(ours) => !ours,
            Err(error) => {
                tracing::debug!(queue = ?self.queue, error = ?error, "whose the queue is cannot be asked now");
                false
            }
        }
    }

    async fn is_leased_to_us(&self) -> Result<bool, StoreError> {
        let (store, health) = (&self.engine.store, &self.engine.healing.health);
        // Remembered before it is asked: what is seen meanwhile may be newer than the answer.
        let before = health.numbers();
        let has_it = |record: QueueRecord| record.epoch == self.epoch && record.owner == Some(self.incarnation);
        let is_noted = store.queue_get(&self.queue).await?.is_some_and(has_it);
        Ok(
            is_noted
                && store.numbers().await?.fell_below(before).is_none()
                && !health.is_from_before_a_fall(self.epoch),
        )
    }

    /// docs/protocols.md 23: a queue whose order a policy breaks is not delivered; one whose messages a policy
    /// destroys takes no more, and is delivered as far as it is filled.
    async fn follow_rules(&mut self) -> Result<(), End> {
        let judgement = self.engine.policy_guard.judge_queue(&self.queue).await;
        if judgement.breaks_order != self.record.refused {
            self.mark(QueueMark::Refused(judgement.breaks_order.clone())).await?;
            self.record.refused.clone_from(&judgement.breaks_order);
        }
        if let Some(reason) = judgement.breaks_order {
            tracing::error!(queue = ?self.queue, reason = ?reason, "queue is not delivered: its order cannot be kept");
            self.engine.tell(super::Event::QueueRefused {
                queue: self.queue.clone(),
                reason,
            });
            return Err(End::Refused);
        }
        // Unbound before it is marked: what is marked counts as unbound.
        if let Some(reason) = &judgement.destroys {
            tracing::error!(queue = ?self.queue, reason = ?reason, "queue takes no more publishes: a broker policy destroys what waits");
            if let Err(error) = self.engine.broker.unbind(&self.queue).await {
                tracing::warn!(queue = ?self.queue, error = ?error, "unbinding failed");
                return Err(End::Trouble(Duration::from_secs(1)));
            }
        }
        if judgement.destroys != self.record.refusing {
            self.mark(QueueMark::Refusing(judgement.destroys.clone())).await?;
            if let Some(why) = &judgement.destroys {
                self.engine.tell(super::Event::refusing(&self.queue, why));
            }
            self.record.refusing.clone_from(&judgement.destroys);
        }
        Ok(())
    }

    /// Whether this worker may still do something for its queue.
    pub(super) fn may_go_on(&self) -> Result<(), End> {
        if self.stops.drain.is_cancelled() {
            return Err(End::Stopping);
        }
        if !self.engine.fence.permits(self.incarnation) {
            return Err(End::Fenced);
        }
        if self.control.let_go.load(Ordering::SeqCst) {
            return Err(End::LetGo);
        }
        Ok(())
    }

    async fn quarantine(&mut self, why: &str) -> End {
        let reason = format!("its head kills every client that reads it: {why}");
        tracing::error!(queue = ?self.queue, reason = ?reason, "queue quarantined");
        match self.mark(QueueMark::Quarantined(Some(reason.clone()))).await {
            Ok(()) => {
                metrics::counter!(names::QUARANTINES).increment(1);
                self.engine.tell(super::Event::QueueRefused {
                    queue: self.queue.clone(),
                    reason,
                });
                End::Refused
            }
            Err(end) => end,
        }
    }

    pub(super) async fn mark(&self, mark: QueueMark) -> Result<(), End> {
        let (engine, queue, epoch) = (&self.engine, &self.queue, self.epoch);
        guarded(
            engine
                .insist(self.incarnation, || engine.store.queue_mark(queue, epoch, mark.clone()))
                .await,
        )
    }
}

/// A guarded change that did not happen means that the lease is not ours any more.
fn guarded(result: Result<bool, ()>) -> Result<(), End> {
    match result {
        Ok(true) => Ok(()),
        Ok(false) | Err(()) => Err(End::Fenced),
    }
}
