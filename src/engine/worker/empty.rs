//! A queue from which nothing comes: whether that is because it is empty, and what is done then.
//!
//! That nothing comes proves nothing: a first delivery may take longer than anybody lingers (a deeply nested header
//! takes RabbitMQ 4.x seconds). So a worker that got nothing closes its channel, which puts everything back in its
//! place, and looks. A queue that is not empty is attached again, with more patience each time. One that is empty has
//! no head: what the store knows of one is forgotten, or it would be due for ever.
//!
//! The companion of a queue (docs/protocols.md 22) is what was put back before its head. It is emptied and deleted
//! before the queue itself is consumed, and filled only under the lease that the worker holds.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Attaching, End, Hold, Worker, guarded};
use crate::ambient;
use crate::broker::{Attached, BrokerError, Deleted, Look, Next, QueuePart};
use crate::domain::id::QueueName;
use crate::domain::queue::{Closing, Head};
use crate::store::QueueMark;

/// How long nothing comes from a companion that has nothing.
const QUIET: Duration = Duration::from_millis(500);
/// The least patience with an empty queue when somebody else waits.
const HURRY: Duration = Duration::from_millis(10);
/// As many times as long as the broker took for what it sent before, at most [`QUIET`]: one that is busy with many queues
/// sends the next message later than [`HURRY`], and a queue that is let go too early has to be attached again.
const HURRY_FACTOR: u32 = 2;
/// The most patience with a queue that has something and delivers nothing.
const PATIENCE_MAX: Duration = Duration::from_secs(45);
/// Attachments that bring nothing, in a row, until others have a turn.
const IN_VAIN_MAX: u32 = 8;
/// A quorum queue notices the end of a channel a moment after the channel.
const NOTICE: Duration = Duration::from_millis(100);
/// How often it is asked.
const NOTICES: u32 = 10;

/// How long nothing may come after so many attachments that brought nothing.
fn patience_after(in_vain: u32) -> Duration {
    match in_vain {
        0 => Duration::ZERO,
        more => PATIENCE_MAX.min(QUIET * 2_u32.saturating_pow(more)),
    }
}

impl Attaching {
    /// The broker took so long to attach, or to send a message.
    pub(super) fn broker_took(&mut self, took: Duration) {
        // After more than that the queue had been empty.
        if took < QUIET {
            self.slow = self.slow.max(took);
        }
    }

    /// How long nothing may come while others wait.
    fn hurry(&self) -> Duration {
        (self.slow * HURRY_FACTOR).clamp(HURRY, QUIET)
    }
}

impl Worker {
    /// The next message; lingers on an empty queue, and not when others wait.
    pub(super) async fn next(&mut self, attached: &mut dyn Attached) -> Result<Next, End> {
        let asked = self.hold.engine.clock.uptime();
        if let Some(first) = self.looked_for(attached).await {
            return Ok(first);
        }
        let room = self.room.bytes();
        let came = loop {
            tokio::select! {
                biased;
                next = attached.next_within(room) => break Ok(next),
                () = self.hold.stops.drain.cancelled() => break Err(End::Stopping),
                () = self.hold.stops.generation.cancelled() => break Err(End::Fenced),
                () = self.hold.control.wake.notified() => {
                    if self.hold.control.let_go.load(Ordering::SeqCst) {
                        break Err(End::LetGo);
                    }
                    self.quiet = Box::pin(ambient::sleep(self.patience()));
                }
                () = self.quiet.as_mut() => {
                    // It was set for an earlier message: messages do not pay for a timer each.
                    let waited = self.hold.engine.clock.uptime().saturating_sub(asked);
                    let left = self.patience().saturating_sub(waited);
                    if left.is_zero() {
                        break Err(self.nothing_came());
                    }
                    self.quiet = Box::pin(ambient::sleep(left));
                }
            }
        };
        if came.is_ok() {
            let took = self.hold.engine.clock.uptime().saturating_sub(asked);
            self.attaching.broker_took(took);
        }
        came
    }

    /// How long nothing may come.
    fn patience(&self) -> Duration {
        let linger = self.hold.engine.settings.linger;
        let patience = if self.hold.record.has_companion {
            QUIET
        } else if self.hold.control.others_wait.load(Ordering::SeqCst) {
            self.attaching.hurry().min(linger)
        } else {
            linger
        };
        patience.max(patience_after(self.attaching.in_vain))
    }

    /// An ended queue that is empty goes on ending (a crash left it so), and so does one that nobody used
    /// for long.
    fn nothing_came(&self) -> End {
        let idle = self.hold.engine.store_time.now().since(self.hold.record.active_at);
        let unused = self.sequence == 0 && idle >= self.hold.engine.settings.idle_queue_ttl;
        if self.hold.record.closing == Closing::Ended || unused {
            End::Ended
        } else {
            End::Idle
        }
    }

    /// Nothing came for long enough, and the channel is closed. Goes on where there is something.
    pub(super) async fn after_the_last(&mut self, end: End) -> Result<(), End> {
        let knows_a_head = self.hold.record.head.is_some() || self.hold.record.decision.is_some();
        let is_usual = end == End::Idle && self.attaching.received > 0 && !knows_a_head && !self.settled.is_asking();
        if is_usual && !self.hold.record.has_companion {
            return Err(end);
        }
        match self.look_when_left().await {
            Ok(Look::Missing) if self.hold.record.has_companion => self.hold.forget_companion().await,
            Ok(Look::Missing) => Err(End::Gone),
            Ok(Look::Present { ready: 0, .. }) if self.hold.record.has_companion => self.end_companion().await,
            Ok(Look::Present { ready: 0, consumers }) => {
                if consumers == 0 {
                    self.settled.nothing_waits();
                }
                if consumers == 0 && knows_a_head {
                    tracing::info!(queue = ?self.hold.queue, "its head is gone: what was known of it is forgotten");
                    self.forget_head().await?;
                }
                Err(end)
            }
            Ok(Look::Present { .. }) => self.go_on(),
            Err(_) => Err(End::Trouble(Duration::from_secs(1))),
        }
    }

    /// Looks until the queue has noticed that nobody consumes it any more: until then it may still count what was on
    /// its way to us as delivered.
    async fn look_when_left(&self) -> Result<Look, BrokerError> {
        for _ in 0..NOTICES {
            match self.hold.look().await? {
                Look::Present { ready: 0, consumers } if consumers > 0 => ambient::sleep(NOTICE).await,
                told @ (Look::Present { .. } | Look::Missing) => return Ok(told),
            }
        }
        self.hold.look().await
    }

    /// It is not empty. What ended stays so until a message is delivered that was not acked before: what is there may be
    /// the end mark itself, whose ack was lost.
    fn go_on(&mut self) -> Result<(), End> {
        if self.attaching.received > 0 {
            return Ok(());
        }
        self.attaching.in_vain += 1;
        if self.attaching.in_vain > IN_VAIN_MAX {
            tracing::warn!(queue = ?self.hold.queue, "it has messages, and the broker delivers none: others have a turn");
            return Err(End::Trouble(Duration::from_secs(5)));
        }
        Ok(())
    }

    /// Forgets what is known of the head, and a decision about it.
    pub(super) async fn forget_head(&mut self) -> Result<(), End> {
        self.hold.close_decision().await?;
        if self.hold.record.head.take().is_some() {
            self.hold.mark(QueueMark::HeadGone).await?;
        }
        Ok(())
    }

    /// The companion is empty: it goes, unless something came into it.
    async fn end_companion(&mut self) -> Result<(), End> {
        let companion = self.hold.part_name()?;
        let deleting = async {
            self.hold.engine.broker.unbind(&companion).await?;
            self.hold.engine.broker.delete_empty(&companion).await
        };
        match deleting.await {
            Ok(Deleted::Deleted | Deleted::Missing) => self.hold.forget_companion().await,
            Ok(Deleted::InUse) => self.go_on(),
            Err(error) => {
                tracing::warn!(queue = ?self.hold.queue, error = ?error, "a companion is not deleted yet");
                Err(End::Trouble(Duration::from_secs(1)))
            }
        }
    }
}

impl Hold {
    /// What is consumed next.
    pub(super) const fn part(&self) -> QueuePart {
        if self.record.has_companion {
            QueuePart::Companion
        } else {
            QueuePart::Queue
        }
    }

    /// The queue that is consumed next, by its name on the broker.
    fn part_name(&self) -> Result<QueueName, End> {
        match self.part() {
            QueuePart::Queue => Ok(self.queue.clone()),
            QueuePart::Companion => {
                let name = self.engine.settings.naming.companion(&self.queue);
                QueueName::parse(&name).map_err(|_| End::Refused)
            }
        }
    }

    /// An exact look at the queue that is consumed.
    pub(super) async fn look(&self) -> Result<Look, BrokerError> {
        match self.part_name() {
            Ok(name) => self.engine.broker.look(&name).await,
            Err(_) => Ok(Look::Missing),
        }
    }

    /// An open decision is done, with the head that it was about.
    pub(super) async fn close_decision(&mut self) -> Result<(), End> {
        let Some(decision) = self.record.decision.take() else {
            return Ok(());
        };
        let (engine, queue, epoch) = (Arc::clone(&self.engine), self.queue.clone(), self.epoch);
        let closed = engine
            .insist(self.incarnation, || {
                engine.store.decision_close(&queue, epoch, &decision.id)
            })
            .await;
        guarded(closed)?;
        let was_about = |head: &Head| head.message == decision.message && (head.fingerprint == decision.fingerprint);
        if self.record.head.as_ref().is_some_and(was_about) {
            self.record.head = None;
        }
        Ok(())
    }

    pub(super) async fn forget_companion(&mut self) -> Result<(), End> {
        self.mark(QueueMark::Companion(false)).await?;
        self.record.has_companion = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_grows_with_each_attachment_in_vain_and_is_bounded() {
        assert_eq!(patience_after(0), Duration::ZERO);
        assert_eq!(patience_after(1), Duration::from_secs(1));
        assert_eq!(
            patience_after(3),
            Duration::from_secs(4),
            "a first delivery may take seconds"
        );
        assert_eq!(patience_after(IN_VAIN_MAX), PATIENCE_MAX);
        assert_eq!(patience_after(u32::MAX), PATIENCE_MAX);
    }

    #[test]
    fn a_queue_is_held_longer_where_others_wait_while_the_broker_is_slow() {
        let mut attaching = Attaching::default();
        assert_eq!(attaching.hurry(), HURRY);
        let ms = Duration::from_millis;
        for (took, patience) in [(40, 80), (20, 80), (100, 200), (400, 500), (3_000, 500)] {
            attaching.broker_took(ms(took));
            assert_eq!(attaching.hurry(), ms(patience), "after {took} ms");
        }
        let mut rested = Attaching::default();
        rested.broker_took(ms(3_000));
        assert_eq!(
            rested.hurry(),
            HURRY,
            "it had been empty, and says nothing of the broker"
        );
    }
}
