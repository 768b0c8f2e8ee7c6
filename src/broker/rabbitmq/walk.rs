//! Walking a queue from its head on while everything passed stays in hand, and giving it back by closing.
//!
//! A consumer's prefetch is the window that the client buffers: it keeps in memory whatever the broker
//! sends. So a walk is a chain of consumers on one channel: one that has all that its prefetch allows is
//! cancelled, which leaves its messages with the channel, and the next begins behind them. Only the window
//! of the last one is ever in memory here. What is settled of it makes room, so that a walk that settles as
//! it goes needs no second one. Cancelling with messages in hand hands a single-active queue over
//! (docs/rabbitmq.md, *Cancelling a consumer*), to our own next consumer: the caller holds the lease or the queue is
//! nobody's.
//!
//! Quorum queues return what they get back consumer by consumer, by name, as long as the consumers are
//! few: there the windows are larger and their number is bounded. They put it behind what they got back before: a walk
//! that keeps their order takes all of that before it gives anything back, also where its caller drops it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::dialer::Dialer;
use super::failure::{CallError, Ended, call_error};
use super::feed::{Came, Feed, Tap};
use super::frames::ShortString;
use super::held::Held;
use super::message;
use crate::ambient;
use crate::broker::{BrokerError, DeliveryTag, Look, Returns, Walk, WalkOptions, Walked};

const WALK: &str = "walk";
/// The first window, at most: what comes is not known yet, and taken for large.
const FIRST: u16 = 64;
const FIRST_BYTES_EACH: usize = 1 << 20;
/// How much a window may grow from one to the next.
const GROWTH: u32 = 8;
/// Consumers of one walk of a quorum queue: it keeps them ordered as long as they are so few.
const QUORUM_CONSUMERS_MAX: u32 = 30;
/// Messages that are taken at once of those that nobody wants to see.
const PASSED: usize = 2_000;
/// How long a walk of a quorum queue goes on to give back in order.
const IN_ORDER_WITHIN: Duration = Duration::from_secs(20);
/// How long a consumer with room may be silent before the queue is looked at.
pub(super) const SILENT: Duration = Duration::from_millis(30);
/// Silent times before a queue that is not empty counts as ended: others hold what is there. After each one the broker
/// has answered twice, so that they are as long as it is slow.
pub(super) const SILENCES: u32 = 40;

/// A walk of `queue`; `None` when there is no such queue.
pub(super) async fn walk(
    dialer: &Arc<Dialer>,
    queue: &ShortString,
    options: WalkOptions,
) -> Result<Option<Box<dyn Walk>>, BrokerError> {
    let source = Source {
        dialer: Arc::clone(dialer),
        feed: Feed::open(dialer, WALK).await?,
        queue: queue.clone(),
    };
    let (looks, tap) = match source.begin().await {
        Ok(channels) => channels,
        Err(error) => {
            source.feed.close().await;
            if error.says_missing(queue.as_str()) {
                return Ok(None);
            }
            return Err(source.worded(&error));
        }
    };
    Ok(Some(Box::new(Open(Some(Walking {
        source,
        options,
        tap,
        looks,
        chain: Chain::new(&options),
        held: Held::default(),
        position: 0,
        again: 0,
        has_returned: false,
    })))))
}

/// What is walked over, and the connection for that.
struct Source {
    dialer: Arc<Dialer>,
    feed: Arc<Feed>,
    queue: ShortString,
}

impl Source {
    /// A channel for looks, and one that consumes later.
    async fn begin(&self) -> Result<(Tap, Tap), CallError> {
        let queue = self.queue.as_str();
        let looks = self.feed.channel(queue).await?;
        looks.look(&self.queue).await?;
        Ok((looks, self.feed.channel(queue).await?))
    }

    fn worded(&self, error: &CallError) -> BrokerError {
        match error.ended() {
            Some(Ended::Undecodable(detail)) => BrokerError::Undecodable {
                queue: self.queue.as_str().to_owned(),
                detail,
            },
            _ => call_error(WALK, &self.dialer.address, &self.dialer.vhost, error),
        }
    }
}

struct Walking {
    source: Source,
    options: WalkOptions,
    /// The channel that consumes.
    tap: Tap,
    /// A channel that nothing is consumed on, for looks.
    looks: Tap,
    chain: Chain,
    held: Held,
    /// Messages that were taken, and of those, how many were delivered before.
    position: u64,
    again: u64,
    /// All that was given back before is in hand: the end was met, or a message that never was given back.
    has_returned: bool,
}

/// The consumers of a walk, one after the other.
struct Chain {
    window: Window,
    /// So many there were; a quorum queue gives back in the order of their tags.
    consumers: u32,
    /// Whether the last one is not cancelled.
    is_open: bool,
    /// The first delivery tag of the last consumer; what is unsettled from there on fills its window.
    first: u64,
    last_tag: u64,
    /// It ended because no more consumers may begin.
    cut: bool,
}

impl Chain {
    fn new(options: &WalkOptions) -> Self {
        Self {
            window: Window::new(options),
            consumers: 0,
            is_open: false,
            first: 1,
            last_tag: 0,
            cut: false,
        }
    }

    fn tag(consumer: u32) -> String {
        format!("redrive-walk-{consumer:08}")
    }

    /// The tag of the consumer that may be sent something.
    fn last(&self) -> Option<String> {
        self.is_open.then(|| Self::tag(self.consumers.saturating_sub(1)))
    }
}

impl Walking {
    /// Makes sure that the last consumer has room; false when no more may be held.
    async fn has_room(&mut self) -> Result<bool, CallError> {
        let full = self.held.count_from(self.chain.first) >= u64::from(self.chain.window.size);
        if self.chain.is_open && !full {
            return Ok(true);
        }
        if !self.chain.is_open && self.held.count_from(0) == 0 {
            // Consumers that hold nothing change no order.
            self.chain.consumers = 0;
        }
        let left = self.options.at_most.map(|most| most.saturating_sub(self.position));
        if left == Some(0) {
            return Ok(false);
        }
        if self.options.returns.is_quorum() && self.chain.consumers >= QUORUM_CONSUMERS_MAX {
            self.chain.cut = true;
            return Ok(false);
        }
        self.chain.window.next();
        if let Some(left) = left {
            let left = u16::try_from(left).unwrap_or(u16::MAX);
            self.chain.window.size = self.chain.window.size.min(left);
        }
        let consumers = self.chain.consumers;
        let before = self.chain.last();
        // Who gives up waiting for the answer has asked all the same.
        self.chain.consumers += 1;
        self.chain.is_open = true;
        self.chain.first = self.chain.last_tag + 1;
        // What an ack let through to the consumer before comes first, and counts as of this one's window.
        self.tap
            .succeed(
                before.as_deref(),
                self.source.queue.as_str(),
                &Chain::tag(consumers),
                self.chain.window.size,
            )
            .await?;
        Ok(true)
    }

    fn take(&mut self, came: Came, taken: &mut Vec<Came>) {
        self.chain.window.saw(came.body.len());
        self.position += 1;
        self.again += u64::from(came.redelivered);
        self.has_returned |= !came.redelivered;
        self.chain.last_tag = came.tag;
        self.held.add(came.tag);
        taken.push(came);
    }

    /// What is there already, as far as `limit` and the window's bytes go.
    fn gather(&mut self, limit: usize, taken: &mut Vec<Came>) -> Result<(), CallError> {
        let mut bytes = 0;
        while taken.len() < limit && bytes <= self.options.window_bytes {
            let Some(came) = self.tap.next().now_or_never() else {
                return Ok(());
            };
            let came = came?;
            bytes += came.body.len();
            self.take(came, taken);
        }
        Ok(())
    }

    /// The next ones as messages.
    async fn read(&mut self, limit: usize) -> Result<Vec<Walked>, CallError> {
        let positions = self.position + 1..;
        let taken = self.batch(limit).await?;
        let queue = self.source.queue.as_str();
        let walked = taken.into_iter().zip(positions);
        let walked = walked.map(|(came, position)| message::walked(came, queue, position));
        let walked: Result<Vec<Walked>, String> = walked.collect();
        walked.map_err(|why| CallError::Ended(Ended::Undecodable(why)))
    }

    async fn batch(&mut self, limit: usize) -> Result<Vec<Came>, CallError> {
        let mut taken = Vec::new();
        let mut silences = 0;
        self.gather(limit, &mut taken)?;
        while taken.is_empty() {
            if !self.has_room().await? {
                break;
            }
            self.wait(&mut taken).await?;
            self.gather(limit, &mut taken)?;
            if !taken.is_empty() {
                break;
            }
            silences += 1;
            let look = self.looks.look(&self.source.queue).await?;
            // A busy broker counts what is still on its way to this consumer as gone.
            self.tap.answered(self.chain.window.size).await?;
            self.gather(limit, &mut taken)?;
            if silences >= SILENCES || (matches!(look, Look::Present { ready: 0, .. }) && silences > 1) {
                break;
            }
        }
        // The broker sends the next window while the caller works on this one. The few consumers of a quorum queue are
        // kept for what is certain to be asked for.
        if self.options.whole && !self.options.returns.is_quorum() && !taken.is_empty() {
            self.has_room().await?;
        }
        Ok(taken)
    }

    /// Waits a moment for the next one.
    async fn wait(&mut self, taken: &mut Vec<Came>) -> Result<(), CallError> {
        if let Ok(came) = ambient::timeout(SILENT, self.tap.next()).await {
            self.take(came?, taken);
        }
        Ok(())
    }

    /// Takes what a quorum queue would put before, or behind, what is given back: the rest of what was given back before, and
    /// what is on its way (docs/rabbitmq.md, *Where a returned message goes*).
    async fn take_the_rest(&mut self) -> Result<(), CallError> {
        if !self.options.returns.is_quorum() || self.holds_nothing() {
            return Ok(());
        }
        self.options.at_most = None;
        if self.options.returns == Returns::InTurn {
            self.chain.window.messages_max = u32::from(u16::MAX);
            self.chain.cut = false;
            while !self.has_returned {
                // What they say is not read.
                let is_end = self.batch(PASSED).await?.is_empty();
                self.has_returned |= is_end;
            }
            if self.chain.cut {
                self.warn("may be held at once");
            }
        }
        self.cancel().await
    }

    /// Nothing of what the broker sent, or will send, is left to give back.
    fn holds_nothing(&self) -> bool {
        let has_all = self.options.at_most.is_some_and(|most| self.position >= most);
        let has_none = self.position == 0;
        !self.chain.is_open && (has_none || (has_all && self.held.count_from(0) == 0))
    }

    /// Nothing more is sent to the last consumer.
    async fn cancel(&mut self) -> Result<(), CallError> {
        if let Some(last) = self.chain.last() {
            self.tap.cancel(&last).await?;
        }
        self.chain.is_open = false;
        Ok(())
    }

    fn warn(&self, bound: &'static str) {
        tracing::warn!(queue = ?self.source.queue.as_str(), bound, "a quorum queue has more that was given back before than that: its order changes");
    }

    /// Gives everything back, however far this came; answers how many of its messages were delivered before.
    async fn give_back(mut self) -> Result<u64, BrokerError> {
        match ambient::timeout(IN_ORDER_WITHIN, self.take_the_rest()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(error = ?error, "a walk ends before all that was given back"),
            Err(_) => self.warn("can be taken in time"),
        }
        let Self { source, tap, again, .. } = self;
        let closed = tap.close().await;
        source.feed.close().await;
        closed
            .map(|unread| again + unread)
            .map_err(|error| source.worded(&error))
    }

    async fn acked(&mut self, tags: &[DeliveryTag]) -> Result<(), CallError> {
        if self.options.at_most.is_some() {
            self.cancel().await?;
        }
        let acks = self.held.settle(tags.iter().map(|tag| tag.0).collect());
        if !self.tap.settled(&acks).await {
            return Err(self.tap.stopped());
        }
        Ok(())
    }
}

/// A walk until it is closed, or dropped: either way a task gives back what it holds in its order, which nobody gives up
/// before that is done.
struct Open(Option<Walking>);

impl Open {
    fn walking(&mut self) -> Result<&mut Walking, BrokerError> {
        self.0.as_mut().ok_or_else(closed)
    }

    fn give_back(&mut self) -> Option<JoinHandle<Result<u64, BrokerError>>> {
        let walking = self.0.take()?;
        // Where nothing runs any more, the connection's end gives everything back.
        Handle::try_current().ok()?;
        Some(ambient::spawn("walk gives back", walking.give_back()))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.give_back();
    }
}

fn closed() -> BrokerError {
    BrokerError::Failed {
        operation: WALK,
        detail: "it is closed".to_owned(),
    }
}

#[async_trait]
impl Walk for Open {
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, BrokerError> {
        let walking = self.walking()?;
        walking.chain.cut = false;
        let walked = walking.read(limit.max(1)).await;
        walking.has_returned |= walked.as_ref().is_ok_and(Vec::is_empty) && !walking.chain.cut;
        walked.map_err(|error| walking.source.worded(&error))
    }

    fn is_cut(&self) -> bool {
        self.0.as_ref().is_some_and(|walking| walking.chain.cut)
    }

    async fn settle(&mut self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        let walking = self.walking()?;
        let acked = walking.acked(tags).await;
        acked.map_err(|error| walking.source.worded(&error))
    }

    async fn close(mut self: Box<Self>) -> Result<u64, BrokerError> {
        let giving = self.give_back().ok_or_else(closed)?;
        giving.await.unwrap_or_else(|_| Err(closed()))
    }
}

/// How many messages the next consumer may send ahead, after what came so far.
#[derive(Debug)]
struct Window {
    size: u16,
    messages_max: u32,
    bytes_max: usize,
    seen: usize,
    bytes: usize,
    largest: usize,
}

impl Window {
    fn new(options: &WalkOptions) -> Self {
        // A quorum queue's consumers are few, so that each has to reach further.
        let messages_max = if options.returns.is_quorum() && options.window_messages > 1 {
            u32::from(u16::MAX)
        } else {
            options.window_messages.clamp(1, u32::from(u16::MAX))
        };
        Self {
            size: 0,
            messages_max,
            bytes_max: options.window_bytes,
            seen: 0,
            bytes: 0,
            largest: 0,
        }
    }

    fn saw(&mut self, bytes: usize) {
        self.seen += 1;
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
    }

    /// The next window: as many as fit into its bytes when they are like the last ones, the largest of
    /// which counts for some; growing step by step, so that a change of kind is noticed early.
    fn next(&mut self) {
        let Some(average) = self.bytes.checked_div(self.seen) else {
            let fit = u16::try_from(self.bytes_max / FIRST_BYTES_EACH)
                .unwrap_or(FIRST)
                .clamp(1, FIRST);
            self.size = fit.min(u16::try_from(self.messages_max).unwrap_or(FIRST));
            return;
        };
        let fit = self.bytes_max / average.max(self.largest / 8).max(1);
        let grown = u32::from(self.size) * GROWTH;
        let size = u32::try_from(fit).unwrap_or(u32::MAX).min(grown).min(self.messages_max);
        self.size = u16::try_from(size.max(1)).unwrap_or(u16::MAX);
        (self.seen, self.bytes, self.largest) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(options: WalkOptions, bytes: usize, count: usize) -> Vec<u16> {
        let mut window = Window::new(&options);
        let mut sizes = Vec::new();
        for _ in 0..count {
            window.next();
            sizes.push(window.size);
            for _ in 0..window.size {
                window.saw(bytes);
            }
        }
        sizes
    }

    #[test]
    fn windows_grow_to_what_fits() {
        let options = WalkOptions::new(Returns::InPlace);
        assert_eq!(windows(options, 512, 4), [8, 64, 512, 2000]);
        assert_eq!(windows(options, 1 << 20, 3), [8, 8, 8]);
        assert_eq!(windows(options, 64 << 20, 3), [8, 1, 1]);
        let quorum = WalkOptions {
            returns: Returns::InTurn,
            ..options
        };
        assert_eq!(windows(quorum, 512, 4), [8, 64, 512, 4096]);
    }

    #[test]
    fn one_large_message_among_small_ones_makes_the_window_smaller() {
        let mut window = Window::new(&WalkOptions::new(Returns::InPlace));
        window.next();
        window.saw(8 << 20);
        (0..63).for_each(|_| window.saw(10));
        window.next();
        assert!(window.size <= 64, "{}", window.size);
    }
}
