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
//! few: there the windows are larger and their number is bounded.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, QueueDeclareOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Consumer};

use super::failure::{CallError, Ended, call_error};
use super::held::Held;
use super::line::{CLOSE, Dialer, Line};
use super::message;
use crate::ambient;
use crate::broker::{BrokerError, DeliveryTag, Walk, WalkOptions, Walked};

const WALK: &str = "walk";
/// The first window, at most: what comes is not known yet, and taken for large.
const FIRST: u16 = 64;
const FIRST_BYTES_EACH: usize = 1 << 20;
/// How much a window may grow from one to the next.
const GROWTH: u32 = 8;
/// Consumers of one walk of a quorum queue: it keeps them ordered as long as they are so few.
const QUORUM_CONSUMERS_MAX: u32 = 30;
/// How long a consumer with room may be silent before the queue is looked at.
const SILENT: Duration = Duration::from_millis(30);
/// Silent times before a queue that is not empty counts as ended: others hold what is there. After each one the broker
/// has answered twice, so that they are as long as it is slow.
const SILENCES: u32 = 40;
/// Acks that are sent side by side.
const ACKS: usize = 512;

/// A walk of `queue`; `None` when there is no such queue.
pub(super) async fn walk(
    dialer: &Arc<Dialer>,
    queue: &ShortString,
    options: WalkOptions,
) -> Result<Option<Box<dyn Walk>>, BrokerError> {
    let line = dialer.open(WALK).await?;
    let worded = |error: &CallError| call_error(WALK, &dialer.address, &dialer.vhost, error);
    let opening = async {
        let looks = line.channel().await?;
        ready(&line, &looks, queue).await?;
        let channel = line.channel().await?;
        Ok::<_, CallError>((looks, channel))
    };
    match opening.await {
        Ok((looks, channel)) => {
            let walking = Walking::new(Arc::clone(dialer), line, channel, looks, queue.clone(), options);
            Ok(Some(Box::new(walking)))
        }
        Err(error) => {
            line.close().await;
            if error.says_missing(queue.as_str()) {
                return Ok(None);
            }
            Err(worded(&error))
        }
    }
}

/// Messages ready, by a look on a channel that nothing is consumed on.
async fn ready(line: &Line, looks: &Channel, queue: &ShortString) -> Result<u32, CallError> {
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let found = line
        .call(looks.queue_declare(queue.clone(), passive, FieldTable::default()))
        .await?;
    Ok(found.message_count())
}

struct Walking {
    dialer: Arc<Dialer>,
    line: Arc<Line>,
    channel: Arc<Channel>,
    looks: Channel,
    queue: ShortString,
    options: WalkOptions,
    window: Window,
    /// The last of the chain.
    consumer: Option<Consumer>,
    consumers: u32,
    /// The first tag of the last consumer; what is unsettled from there on fills its window.
    first: u64,
    /// Came while the consumer before was cancelled.
    ahead: VecDeque<Delivery>,
    held: Held,
    last_tag: u64,
    position: u64,
    /// Of those that were taken, how many were delivered before.
    again: u64,
    cut: bool,
    closed: bool,
}

impl Walking {
    fn new(
        dialer: Arc<Dialer>,
        line: Arc<Line>,
        channel: Channel,
        looks: Channel,
        queue: ShortString,
        options: WalkOptions,
    ) -> Self {
        Self {
            window: Window::new(&options),
            dialer,
            line,
            channel: Arc::new(channel),
            looks,
            queue,
            options,
            consumer: None,
            consumers: 0,
            first: 1,
            ahead: VecDeque::new(),
            held: Held::default(),
            last_tag: 0,
            position: 0,
            again: 0,
            cut: false,
            closed: false,
        }
    }

    /// Makes sure that the last consumer has room; false when no more may be held.
    async fn has_room(&mut self) -> Result<bool, CallError> {
        let full = self.held.count_from(self.first) >= u64::from(self.window.size);
        if self.consumer.is_some() && !full {
            return Ok(true);
        }
        if self.options.quorum && self.consumers >= QUORUM_CONSUMERS_MAX {
            self.cut = true;
            return Ok(false);
        }
        if let Some(consumer) = self.consumer.take() {
            self.cancel(consumer).await?;
            if !self.ahead.is_empty() {
                return Ok(true);
            }
        }
        self.window.next();
        // Before consume: that is when a consumer gets it.
        self.line
            .call(self.channel.basic_qos(self.window.size, BasicQosOptions::default()))
            .await?;
        // A quorum queue gives back in the order of these names.
        let tag = ShortString::from(format!("redrive-walk-{:08}", self.consumers));
        let options = BasicConsumeOptions::default();
        let consuming = self
            .channel
            .basic_consume(self.queue.clone(), tag, options, FieldTable::default());
        self.consumer = Some(self.line.call(consuming).await?);
        self.consumers += 1;
        self.first = self.last_tag + 1;
        Ok(true)
    }

    /// Ends a consumer whose window is full; what an ack let through meanwhile is kept.
    async fn cancel(&mut self, mut consumer: Consumer) -> Result<(), CallError> {
        let cancelling = self.channel.basic_cancel(consumer.tag(), BasicCancelOptions::default());
        self.line.call(cancelling).await?;
        while let Some(delivery) = consumer.next().await {
            self.ahead.push_back(delivery?);
        }
        Ok(())
    }

    fn take(&mut self, delivery: Delivery) -> Walked {
        self.window.saw(delivery.data.len());
        self.position += 1;
        self.again += u64::from(delivery.redelivered);
        self.last_tag = delivery.delivery_tag;
        self.held.add(delivery.delivery_tag);
        message::walked(delivery, self.position)
    }

    /// What is there already, as far as `limit` and the window's bytes go.
    async fn gather(&mut self, limit: usize, walked: &mut Vec<Walked>) -> Result<(), CallError> {
        let mut bytes = 0;
        while walked.len() < limit && bytes <= self.options.window_bytes {
            let delivery = match self.ahead.pop_front() {
                Some(delivery) => delivery,
                None => match self
                    .consumer
                    .as_mut()
                    .and_then(|consumer| consumer.next().now_or_never())
                {
                    None => return Ok(()),
                    Some(Some(delivery)) => delivery?,
                    Some(None) => return Err(self.ended().await),
                },
            };
            bytes += delivery.data.len();
            walked.push(self.take(delivery));
        }
        Ok(())
    }

    async fn ended(&self) -> CallError {
        if self.line.is_open() {
            return CallError::Ended(Ended::Lost("the queue was deleted, or its node went away".to_owned()));
        }
        CallError::Ended(self.line.reason().await)
    }

    async fn batch(&mut self, limit: usize) -> Result<Vec<Walked>, CallError> {
        let mut walked = Vec::new();
        let mut silences = 0;
        self.gather(limit, &mut walked).await?;
        while walked.is_empty() {
            if !self.has_room().await? {
                break;
            }
            self.wait(&mut walked).await?;
            self.gather(limit, &mut walked).await?;
            if !walked.is_empty() {
                break;
            }
            silences += 1;
            let left = ready(&self.line, &self.looks, &self.queue).await?;
            // A busy broker counts what is still on its way to this consumer as gone.
            self.answered().await?;
            self.gather(limit, &mut walked).await?;
            if silences >= SILENCES || (left == 0 && silences > 1) {
                break;
            }
        }
        Ok(walked)
    }

    /// Until the broker has answered on the consumer's own channel: what it had sent there before is here then. The
    /// question changes nothing.
    async fn answered(&self) -> Result<(), CallError> {
        let qos = self.channel.basic_qos(self.window.size, BasicQosOptions::default());
        self.line.call(qos).await
    }

    /// Waits a moment for the next one.
    async fn wait(&mut self, walked: &mut Vec<Walked>) -> Result<(), CallError> {
        let Some(consumer) = self.consumer.as_mut() else {
            return Ok(());
        };
        let delivery = match ambient::timeout(SILENT, consumer.next()).await {
            Err(_) => return Ok(()),
            Ok(Some(delivery)) => delivery?,
            Ok(None) => return Err(self.ended().await),
        };
        let taken = self.take(delivery);
        walked.push(taken);
        Ok(())
    }

    async fn worded(&self, error: CallError) -> BrokerError {
        let ended = match error.ended() {
            Some(Ended::Lost(_)) if !self.line.is_open() => Some(self.line.reason().await),
            ended => ended,
        };
        match ended {
            Some(Ended::Undecodable(detail)) => BrokerError::Undecodable {
                queue: self.queue.as_str().to_owned(),
                detail,
            },
            _ => call_error(WALK, &self.dialer.address, &self.dialer.vhost, &error),
        }
    }

    async fn acked(&mut self, tags: &[DeliveryTag]) -> Result<(), CallError> {
        let acks = self.held.settle(tags.iter().map(|tag| tag.0).collect());
        for acks in acks.chunks(ACKS) {
            let sending = acks.iter().map(|ack| {
                let options = BasicAckOptions { multiple: ack.multiple };
                self.channel.basic_ack(ack.tag, options)
            });
            let sending = async { join_all(sending).await.into_iter().collect::<lapin::Result<()>>() };
            self.line.call(sending).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Walk for Walking {
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, BrokerError> {
        self.cut = false;
        match self.batch(limit.max(1)).await {
            Ok(walked) => Ok(walked),
            Err(error) => Err(self.worded(error).await),
        }
    }

    fn is_cut(&self) -> bool {
        self.cut
    }

    async fn settle(&mut self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        match self.acked(tags).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.worded(error).await),
        }
    }

    async fn close(mut self: Box<Self>) -> Result<u64, BrokerError> {
        self.closed = true;
        let consumer = self.consumer.take();
        let closed = self
            .line
            .call_within(CLOSE, self.channel.close(200, "walked".into()))
            .await;
        self.line.close().await;
        let ahead = self.ahead.drain(..).filter(|delivery| delivery.redelivered).count() as u64;
        let again = self.again + ahead + consumer.map_or(0, again_unread);
        match closed {
            Ok(()) => Ok(again),
            Err(error) => Err(self.worded(error).await),
        }
    }
}

/// Of what came to a consumer and nobody took, how many were delivered before.
fn again_unread(mut consumer: Consumer) -> u64 {
    let mut again = 0;
    while let Some(Some(Ok(delivery))) = consumer.next().now_or_never() {
        again += u64::from(delivery.redelivered);
    }
    again
}

impl Drop for Walking {
    fn drop(&mut self) {
        if self.closed || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (line, consumer) = (Arc::clone(&self.line), self.consumer.take());
        ambient::spawn("walk-close", async move {
            line.close().await;
            drop(consumer);
        });
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
        let messages_max = if options.quorum {
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
        let options = WalkOptions::default();
        assert_eq!(windows(options, 512, 4), [8, 64, 512, 2000]);
        assert_eq!(windows(options, 1 << 20, 3), [8, 8, 8]);
        assert_eq!(windows(options, 64 << 20, 3), [8, 1, 1]);
        let quorum = WalkOptions {
            quorum: true,
            ..options
        };
        assert_eq!(windows(quorum, 512, 4), [8, 64, 512, 4096]);
    }

    #[test]
    fn one_large_message_among_small_ones_makes_the_window_smaller() {
        let mut window = Window::new(&WalkOptions::default());
        window.next();
        window.saw(8 << 20);
        (0..63).for_each(|_| window.saw(10));
        window.next();
        assert!(window.size <= 64, "{}", window.size);
    }
}
