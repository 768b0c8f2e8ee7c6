//! Consuming a queue: a channel of its own on a pooled connection, prefetch before consume.
//!
//! Promises: `next` may be dropped at any point; whatever ends is ended by closing the *channel*, never by
//! `basic.cancel` (docs/rabbitmq.md, *Cancelling a consumer*); a stream that ends and an ack that was not sent say
//! *lost* (docs/rabbitmq.md, *Recovery by the client*).
//!
//! Acks are sent on the channel and not through the client's `Acker`: that one spawns a task for each ack and
//! wakes two more, which costs as much as the rest of a message.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueBindOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Consumer};

use super::admin::ASTRAY_TRIES;
use super::failure::{CallError, Ended, call_error, ended};
use super::line::{CLOSE, Dialer, Line};
use super::message;
use super::pool::{Place, Pool};
use crate::ambient;
use crate::broker::{Acked, AttachOutcome, Attached, BrokerError, Delivery, DeliveryTag, Lost, Next};

const ATTACH: &str = "attach";

/// Rounds of one attach: halving gets 2^16 queues apart.
const ROUNDS: u32 = 16;
/// A suspect that lives this long is none.
const SURVIVED: Duration = Duration::from_secs(5);

/// Headers that quorum queues add and raise at each return: with them a message that comes again would
/// not be recognised as the one that was sent (docs/protocols.md 6). A browse shows them.
const COUNTED: [&str; 2] = ["x-delivery-count", "x-acquired-count"];

/// What to consume and how.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) queue: ShortString,
    pub(super) prefetch: u16,
    /// The exchange to bind to first.
    pub(super) bind: Option<ShortString>,
}

/// Attaches, going on with the hunt for a poisonous queue as long as connections die under it.
pub(super) async fn attach(dialer: &Dialer, pool: &Arc<Pool>, wanted: &Wanted) -> Result<AttachOutcome, BrokerError> {
    let mut lost_before = false;
    let mut astray = 0;
    let mut last = CallError::Ended(Ended::Lost("connections keep ending".to_owned()));
    for _ in 0..ROUNDS + ASTRAY_TRIES {
        let place = match pool.reserve(wanted.queue.as_str()) {
            Ok(place) => place,
            Err(reason) => return Ok(AttachOutcome::Poison(reason)),
        };
        let line = Arc::clone(place.line().get_or_try_init(|| opened(dialer, &place)).await?);
        let room = usize::from(line.limits().0);
        if room > 0 {
            place.limit(room);
        }
        match consume(&line, wanted).await {
            Ok(Some((channel, consumer))) => {
                return Ok(AttachOutcome::Attached(Box::new(Consuming::new(
                    place, line, channel, consumer,
                ))));
            }
            Ok(None) => return Ok(AttachOutcome::Missing),
            // The client handed us somebody else's answer: asked again, on a connection that did not.
            Err(error) if error.is_astray(&[wanted.queue.as_str()]) && astray < ASTRAY_TRIES => {
                tracing::debug!(queue = ?wanted.queue.as_str(), "an answer went astray: asked again");
                place.retire();
                astray += 1;
                last = error;
            }
            Err(error) => {
                last = error;
                match died(&line, &last).await {
                    Some(ended @ Ended::Undecodable(_)) => place.died(&ended),
                    // The group's connection was found dead: its successor gets one try.
                    Some(ended @ Ended::Lost(_)) if !lost_before => {
                        lost_before = true;
                        place.died(&ended);
                    }
                    Some(ended @ Ended::Lost(_)) => {
                        place.died(&ended);
                        break;
                    }
                    None => break,
                }
            }
        }
    }
    Err(call_error(ATTACH, &dialer.address, &dialer.vhost, &last))
}

/// Opens a group's connection. Those who waited for it give up with the first failure: else each would
/// wait for its own in turn.
async fn opened(dialer: &Dialer, place: &Place) -> Result<Arc<Line>, BrokerError> {
    if place.is_dead() {
        return Err(BrokerError::Unreachable {
            operation: ATTACH,
            detail: "the connection could not be opened".to_owned(),
        });
    }
    let opened = dialer.open("consume").await;
    if let Err(error) = &opened {
        place.died(&Ended::Lost(error.to_string()));
    }
    opened
}

/// How the line ended, if the error means that it did.
async fn died(line: &Line, error: &CallError) -> Option<Ended> {
    match error.ended() {
        Some(ended @ Ended::Undecodable(_)) => Some(ended),
        _ if !line.is_open() => Some(line.reason().await),
        ended => ended,
    }
}

/// A channel that consumes the queue; `None` when there is no such queue.
async fn consume(line: &Line, wanted: &Wanted) -> Result<Option<(Channel, Consumer)>, CallError> {
    let channel = line.channel().await?;
    let consuming = async {
        if let Some(exchange) = &wanted.bind {
            let queue = wanted.queue.clone();
            let options = QueueBindOptions::default();
            let binding = channel.queue_bind(queue.clone(), exchange.clone(), queue, options, FieldTable::default());
            line.call(binding).await?;
        }
        // Before consume, or the first consumer has no limit (docs/rabbitmq.md, *Prefetch*).
        line.call(channel.basic_qos(wanted.prefetch, BasicQosOptions::default()))
            .await?;
        let tag = ShortString::from(format!("redrive-{:016x}", ambient::random()));
        let options = BasicConsumeOptions::default();
        line.call(channel.basic_consume(wanted.queue.clone(), tag, options, FieldTable::default()))
            .await
    };
    match consuming.await {
        Ok(consumer) => Ok(Some((channel, consumer))),
        Err(error) if error.says_missing(wanted.queue.as_str()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// An attachment.
struct Consuming {
    place: Arc<Place>,
    line: Arc<Line>,
    channel: Arc<Channel>,
    /// Taken out only at the end: dropping it would send `basic.cancel` on an open channel.
    consumer: Option<Consumer>,
    /// Deliveries that came while an ack looked whether the attachment still stands.
    early: VecDeque<lapin::message::Delivery>,
    /// Tags in the order of their deliveries.
    unsettled: VecDeque<u64>,
    /// The last ack, until it is known to be on its way.
    sending: Option<BoxFuture<'static, lapin::Result<()>>>,
    lost: Option<Lost>,
    proven: bool,
}

impl Consuming {
    fn new(place: Place, line: Arc<Line>, channel: Channel, consumer: Consumer) -> Self {
        let place = Arc::new(place);
        if place.suspect {
            let (waiting, watched) = (Arc::downgrade(&place), Arc::downgrade(&line));
            ambient::spawn("suspect-survives", async move {
                ambient::sleep(SURVIVED).await;
                if let (Some(place), Some(line)) = (waiting.upgrade(), watched.upgrade())
                    && line.is_open()
                {
                    place.cleared();
                }
            });
        }
        Self {
            place,
            line,
            channel: Arc::new(channel),
            consumer: Some(consumer),
            early: VecDeque::new(),
            unsettled: VecDeque::new(),
            sending: None,
            lost: None,
            proven: false,
        }
    }

    fn delivered(&mut self, delivery: lapin::message::Delivery) -> Next {
        if !self.proven {
            self.proven = true;
            self.place.cleared();
        }
        let tag = delivery.delivery_tag;
        self.unsettled.push_back(tag);
        let key = delivery.routing_key.as_str();
        let addressed_to = (key != self.place.queue()).then(|| key.to_owned());
        let mut message = message::received(delivery.properties, delivery.data);
        message.headers.retain(|(name, _)| !COUNTED.contains(&name.as_str()));
        Next::Message(Box::new(Delivery {
            tag: DeliveryTag(tag),
            redelivered: delivery.redelivered,
            addressed_to,
            message,
        }))
    }

    /// Why the stream ended: a cancel by the broker leaves the channel open.
    async fn end(&mut self, error: Option<lapin::Error>) -> Lost {
        let known = error.as_ref().and_then(ended);
        if let Some(ended) = &known {
            self.line.note(ended.clone());
        }
        let lost = if matches!(known, Some(Ended::Undecodable(_))) || !self.line.is_open() {
            let ended = self.line.reason().await;
            self.place.died(&ended);
            match ended {
                Ended::Undecodable(reason) => Lost::Undecodable(reason),
                Ended::Lost(reason) => Lost::Connection(reason),
            }
        } else if self.channel.status().connected() && error.is_none() {
            Lost::Cancelled
        } else {
            Lost::Connection(error.map_or_else(|| "channel closed by the broker".to_owned(), |error| error.to_string()))
        };
        self.lost = Some(lost.clone());
        lost
    }

    /// Gives an ack to the connection, once the one before is on its way; false when it is lost.
    async fn hand_over(&mut self, tag: DeliveryTag) -> bool {
        let Some(at) = self.unsettled.iter().position(|unsettled| *unsettled == tag.0) else {
            return false;
        };
        self.unsettled.remove(at);
        // A stream that has ended means that the broker gave the message to somebody else.
        self.glance().await;
        if self.lost.is_some() || !self.handed_over().await || !self.channel.status().connected() {
            return false;
        }
        let channel = Arc::clone(&self.channel);
        let mut sending = async move { channel.basic_ack(tag.0, BasicAckOptions::default()).await }.boxed();
        // The first poll puts it in line before whatever is sent after it; the rest is the socket's.
        if let Some(sent) = (&mut sending).now_or_never() {
            return sent.is_ok();
        }
        self.sending = Some(sending);
        true
    }

    /// Waits until the last ack was written to the socket; false when it was not.
    async fn handed_over(&mut self) -> bool {
        match self.sending.take() {
            Some(sending) => self.line.call(sending).await.is_ok(),
            None => true,
        }
    }

    /// Looks without waiting whether the stream has ended.
    async fn glance(&mut self) {
        while self.lost.is_none() {
            let Some(consumer) = self.consumer.as_mut() else { return };
            match consumer.next().now_or_never() {
                None => return,
                Some(Some(Ok(delivery))) => self.early.push_back(delivery),
                Some(Some(Err(error))) => {
                    self.end(Some(error)).await;
                }
                Some(None) => {
                    self.end(None).await;
                }
            }
        }
    }
}

#[async_trait]
impl Attached for Consuming {
    async fn next(&mut self) -> Next {
        if let Some(delivery) = self.early.pop_front() {
            return self.delivered(delivery);
        }
        if let Some(lost) = &self.lost {
            return Next::Lost(lost.clone());
        }
        let Some(consumer) = self.consumer.as_mut() else {
            return Next::Lost(Lost::Connection("closed".to_owned()));
        };
        // Only this await can be given up while a delivery comes, and it takes nothing before it is ready.
        match consumer.next().await {
            Some(Ok(delivery)) => self.delivered(delivery),
            Some(Err(error)) => Next::Lost(self.end(Some(error)).await),
            None => Next::Lost(self.end(None).await),
        }
    }

    async fn ack(&mut self, tag: DeliveryTag) -> Acked {
        if self.hand_over(tag).await && self.handed_over().await {
            Acked::Sent
        } else {
            Acked::Lost
        }
    }

    async fn ack_soon(&mut self, tag: DeliveryTag) -> Acked {
        if self.hand_over(tag).await {
            Acked::Sent
        } else {
            Acked::Lost
        }
    }

    async fn close(mut self: Box<Self>) {
        let consumer = self.consumer.take();
        close(&self.line, &self.channel).await;
        drop(consumer);
    }
}

impl Drop for Consuming {
    fn drop(&mut self) {
        let Some(consumer) = self.consumer.take() else { return };
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (line, channel, place) = (
            Arc::clone(&self.line),
            Arc::clone(&self.channel),
            Arc::clone(&self.place),
        );
        ambient::spawn("detach", async move {
            close(&line, &channel).await;
            drop((consumer, place));
        });
    }
}

/// Closes the channel and waits for the broker: then everything unsettled is back in its place.
async fn close(line: &Line, channel: &Channel) {
    if channel.status().connected() && line.is_open() {
        let closing = channel.close(200, "done".into());
        // An error means that the channel is gone, which is as good.
        let _ = line.call_within(CLOSE, closing).await;
    }
}
