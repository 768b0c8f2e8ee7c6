//! Reading one intake queue: lease, attach, take, commit, ack; and what follows when one of them fails.

use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use tokio_util::sync::CancellationToken;

use super::super::EventTable;
use super::super::IntakeSettings;
use super::batch::{Batch, batch_of};
use super::mapping::unreadable;
use super::window::Window;
use crate::ambient;
use crate::broker::{Acked, BrokerError, Intake, IntakeQueue, Lost};
use crate::domain::id::{IncarnationId, QueueName};
use crate::engine::insist::Pause;
use crate::store::{EventBatch, NamedLease, PushOutcome};
use crate::telemetry::names;

/// Messages of one transaction.
const BATCH: usize = 500;
/// Between two looks whether the lease is free, or the store is back.
const AGAIN: Duration = Duration::from_secs(1);
/// Between two looks whether exchange and bindings are still there.
const BIND_AGAIN: Duration = Duration::from_mins(1);
/// The longest wait for a broker that refuses.
const REFUSED_MAX: Duration = Duration::from_secs(30);

/// The consumer of one intake queue in one incarnation.
struct Consumer {
    engine: Arc<EventTable>,
    me: IncarnationId,
    intake: IntakeSettings,
    queue: IntakeQueue,
    stop: CancellationToken,
}

/// Why reading ended.
#[derive(Debug)]
enum Left {
    /// This process stops.
    Stopped,
    /// Somebody else has the lease.
    Fenced,
    /// The store did not answer for too long.
    StoreAway,
    /// The queue cannot be attached.
    Refused(BrokerError),
    /// The attachment ended.
    Lost(Lost),
    /// Another prefetch is better.
    Resized,
}

impl EventTable {
    /// Reads an intake queue until `stop`, whenever this process has its lease.
    pub(in crate::engine::events) async fn take_in(
        self: Arc<Self>,
        me: IncarnationId,
        intake: IntakeSettings,
        stop: CancellationToken,
    ) {
        let Ok(name) = QueueName::parse(&intake.queue) else {
            tracing::error!(queue = ?intake.queue, "no queue can have this name");
            return;
        };
        let queue = IntakeQueue {
            vhost: intake.vhost.clone(),
            name,
            exchange: intake.exchange.clone(),
            bindings: intake.bindings.clone(),
        };
        let consumer = Consumer {
            engine: self,
            me,
            intake,
            queue,
            stop,
        };
        consumer.run().await;
    }
}

impl Consumer {
    async fn run(&self) {
        let (mut guard, mut window, mut refusals) = (None, Window::default(), 0);
        while !self.stop.is_cancelled() {
            if guard.is_none() {
                guard = self.lease().await;
            }
            let Some(held) = &guard else {
                self.wait(AGAIN).await;
                continue;
            };
            let left = self.read(held, &mut window, &mut refusals).await;
            tracing::debug!(queue = ?self.intake.queue, left = ?left, "an intake queue is let go");
            match left {
                Left::Stopped | Left::Resized => {}
                Left::Fenced => guard = None,
                Left::StoreAway => self.until_the_store_answers().await,
                Left::Refused(BrokerError::Undecodable { detail, .. }) => {
                    self.recover(held, &mut window, Lost::Undecodable(detail)).await;
                }
                Left::Refused(error) => {
                    refusals += 1;
                    tracing::warn!(queue = ?self.intake.queue, error = ?error, "an intake queue cannot be read");
                    let longest = REFUSED_MAX.min(AGAIN * (1 << refusals.min(8)));
                    self.wait(longest).await;
                }
                Left::Lost(lost) => self.recover(held, &mut window, lost).await,
            }
        }
        if let Some(held) = guard {
            // Else it is free with the incarnation.
            let _ = self.engine.store.named_lease_free(&held.name, held.epoch).await;
        }
    }

    /// The lease on the queue, unless somebody else who lives has it.
    async fn lease(&self) -> Option<NamedLease> {
        let name = format!("intake {} {}", self.intake.vhost, self.intake.queue);
        match self.engine.store.named_lease_take(&name, self.me).await {
            Ok(epoch) => epoch.map(|epoch| NamedLease { name, epoch }),
            Err(error) => {
                tracing::debug!(error = ?error, "an intake waits for the store");
                None
            }
        }
    }

    /// Attaches and reads until something ends it.
    async fn read(&self, guard: &NamedLease, window: &mut Window, refusals: &mut u32) -> Left {
        let mut attached = match self.engine.broker.intake(&self.queue, window.prefetch()).await {
            Ok(attached) => attached,
            Err(error) => return Left::Refused(error),
        };
        if *refusals > 0 {
            tracing::info!(queue = ?self.intake.queue, "an intake queue is read again");
        }
        *refusals = 0;
        let left = self.take(&mut *attached, guard, window).await;
        attached.close().await;
        left
    }

    /// What is in hand when this ends by choice is committed first: a quorum queue counts what it gets back, and drops it at its
    /// delivery limit.
    async fn take(&self, attached: &mut dyn Intake, guard: &NamedLease, window: &mut Window) -> Left {
        let mut chosen = None;
        let mut bound = Box::pin(ambient::sleep(BIND_AGAIN));
        loop {
            let taken = tokio::select! {
                biased;
                () = self.stop.cancelled(), if chosen.is_none() => {
                    attached.cease().await;
                    chosen = Some(Left::Stopped);
                    continue;
                }
                () = &mut bound, if chosen.is_none() => {
                    if let Err(error) = attached.bind_again().await {
                        tracing::warn!(queue = ?self.intake.queue, error = ?error, "an intake queue cannot be bound again");
                    }
                    bound = Box::pin(ambient::sleep(BIND_AGAIN));
                    continue;
                }
                taken = attached.next(BATCH) => taken,
            };
            let taken = match taken {
                Ok(taken) => taken,
                Err(lost) => return Left::Lost(lost),
            };
            if taken.is_empty() {
                return chosen.unwrap_or(Left::Resized);
            }
            let mut batch = batch_of(&self.intake, guard, &taken, self.engine.clock.now());
            if let Err(left) = self.commit(&mut batch.events).await {
                return left;
            }
            self.count(&batch);
            // Before the acks, for which a quorum queue would send more: what comes after the cancel is not handed out.
            if chosen.is_none() && window.saw(&taken) {
                attached.cease().await;
                chosen = Some(Left::Resized);
            }
            if attached.settle(&batch.tags).await == Acked::Lost {
                let why = "the ack of what is committed was not sent";
                return Left::Lost(Lost::Connection(why.to_owned()));
            }
        }
    }

    /// Commits, and tries again while the store is away: a commit whose answer was lost is done again, and finds
    /// its own rows.
    async fn commit(&self, batch: &mut EventBatch) -> Result<(), Left> {
        let (since, mut pause) = (self.engine.clock.uptime(), Pause::default());
        loop {
            // The fence of a process that stops is closed: the guard of the transaction tells whether the lease is still ours.
            if !self.stop.is_cancelled() && !self.engine.fence.permits(self.me) {
                return Err(Left::StoreAway);
            }
            match self.engine.store.events_push(batch).await {
                Ok(PushOutcome::Pushed(pushed)) => {
                    self.engine.note_pushed(&batch.events, &pushed);
                    return Ok(());
                }
                Ok(PushOutcome::Fenced) => return Err(Left::Fenced),
                Err(error) => {
                    tracing::warn!(queue = ?self.intake.queue, error = ?error, "a batch waits for the store");
                    batch
                        .undecodable
                        .iter_mut()
                        .for_each(|message| message.comes_again = true);
                }
            }
            if self.stop.is_cancelled()
                || self.engine.clock.uptime() > since + self.engine.rules.longest_hold(&self.queue.name)
            {
                return Err(Left::StoreAway);
            }
            self.stop.run_until_cancelled(pause.wait()).await;
        }
    }

    fn count(&self, batch: &Batch) {
        batch.log_undecodable(&self.intake);
        let undecodable = batch.events.undecodable.len() as u64;
        counter!(names::INTAKE_MESSAGES, "result" => "event").increment(batch.events.events.len() as u64);
        counter!(names::INTAKE_MESSAGES, "result" => "coalesced").increment(batch.folded.len() as u64);
        counter!(names::INTAKE_MESSAGES, "result" => "undecodable").increment(undecodable);
        self.engine.meters.folded(&batch.folded);
    }

    /// 1. A connection that could not read what came: from now on one message at a time.
    /// 2. The same again: the message at the head is the one, and is taken out byte for byte.
    /// 3. Anything else mends itself by attaching again.
    async fn recover(&self, guard: &NamedLease, window: &mut Window, lost: Lost) {
        match lost {
            Lost::Undecodable(why) if window.is_narrow() => {
                match self.rescue(guard, &why).await {
                    // The ones behind it are as good as others.
                    Ok(()) => *window = Window::default(),
                    Err(left) => {
                        tracing::warn!(queue = ?self.intake.queue, left = ?left, "an unreadable message stays");
                        self.wait(REFUSED_MAX).await;
                    }
                }
            }
            Lost::Undecodable(why) => {
                tracing::warn!(queue = ?self.intake.queue, why = ?why, "something in an intake queue ends connections");
                window.narrow();
            }
            Lost::Connection(why) => {
                tracing::warn!(queue = ?self.intake.queue, why = ?why, "an intake queue is attached again");
                self.wait(AGAIN).await;
            }
            Lost::Cancelled => {
                tracing::warn!(queue = ?self.intake.queue, "an intake queue was deleted: it is made again");
                self.wait(AGAIN).await;
            }
        }
    }

    /// Keeps the first message as a dead letter, and takes it out.
    async fn rescue(&self, guard: &NamedLease, why: &str) -> Result<(), Left> {
        let found = self.engine.broker.intake_rescue(&self.queue).await;
        let Some(rescued) = found.map_err(Left::Refused)? else {
            return Ok(());
        };
        let kept = unreadable(&self.intake, rescued.header_frame(), rescued.body(), why);
        let mut batch = Batch {
            events: EventBatch {
                guard: Some(guard.clone()),
                events: Vec::new(),
                undecodable: vec![kept],
            },
            tags: Vec::new(),
            folded: Vec::new(),
        };
        if let Err(left) = self.commit(&mut batch.events).await {
            rescued.release().await;
            return Err(left);
        }
        self.count(&batch);
        rescued.settle().await.map_err(Left::Refused)
    }

    /// And this process may work again: it may be fenced for a while although the store is there.
    async fn until_the_store_answers(&self) {
        while !self.stop.is_cancelled() {
            self.wait(AGAIN).await;
            if self.engine.fence.permits(self.me) && self.engine.store.now().await.is_ok() {
                return;
            }
        }
    }

    async fn wait(&self, span: Duration) {
        ambient::wait(&self.stop, span).await;
    }
}
