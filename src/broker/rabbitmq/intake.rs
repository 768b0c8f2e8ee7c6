//! Taking in a queue of others: a connection of its own, a window of messages in hand, acks for many at once.
//!
//! What exists is taken as it is: exchange and queue are looked at first and made only where they are missing.
//! Given back is by closing, never by `nack` (a quorum queue with a limit drops what comes back too often).

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;

use super::asks::{self, flags};
use super::dialer::Dialer;
use super::failure::{CallError, Ended, call_error};
use super::feed::{Came, Feed, Tap};
use super::frames::ShortString;
use super::held::Held;
use super::message;
use super::prepare::short;
use super::spare::Spare;
use crate::ambient;
use crate::broker::{Acked, BrokerError, DeliveryTag, Intake, IntakeQueue, Look, Lost, Walked};
use crate::domain::naming::{Argument, QueueType, queue_arguments};

const INTAKE: &str = "intake";
/// Bytes of bodies of one batch, about.
const BATCH_BYTES: usize = 8 << 20;

/// Makes what is missing and consumes.
pub(super) async fn intake(
    dialer: &Dialer,
    queue_type: QueueType,
    queue: &IntakeQueue,
    prefetch: u16,
) -> Result<Box<dyn Intake>, BrokerError> {
    let name = short(queue.name.as_str())?;
    let there = Arc::new(dialer.to(&queue.vhost));
    let spare = Spare::new(Arc::clone(&there), INTAKE);
    let made = make(&spare, &name, queue_type, queue).await;
    spare.close().await;
    made.map_err(|error| call_error(INTAKE, &there.address, &there.vhost, &error))?;
    let feed = Feed::open(&there, INTAKE).await?;
    match consume(&feed, &name, prefetch).await {
        Ok(tap) => Ok(Box::new(Taking {
            feed,
            tap,
            queue: name.as_str().to_owned(),
            held: Held::default(),
            position: 0,
            lost: None,
        })),
        Err(error) => {
            feed.close().await;
            Err(call_error(INTAKE, &there.address, &there.vhost, &error))
        }
    }
}

/// The queue, with a single active consumer where it is ours to say so; and the exchange with the bindings to it.
async fn make(spare: &Spare, name: &ShortString, queue_type: QueueType, queue: &IntakeQueue) -> Result<(), CallError> {
    if spare.look(name).await? == Look::Missing {
        let mut arguments = queue_arguments(queue_type);
        arguments.push(("x-single-active-consumer", Argument::Flag(true)));
        spare.ask(&[asks::declare(name, flags::DURABLE, &arguments)]).await?;
    }
    let Some(exchange) = &queue.exchange else {
        return Ok(());
    };
    let exchange = named(exchange)?;
    if !spare.exchange_stands(&exchange).await? {
        let topic = asks::exchange(&exchange, "topic", flags::DURABLE, &[]);
        spare.ask(&[topic]).await?;
    }
    let mut bindings = Vec::new();
    for key in queue.keys() {
        bindings.push(asks::bind(name, &exchange, &named(key)?));
    }
    spare.ask(&bindings).await.map(drop)
}

fn named(text: &str) -> Result<ShortString, CallError> {
    ShortString::new(text).map_err(|error| CallError::Ended(Ended::Lost(format!("{text:?}: {error}"))))
}

async fn consume(feed: &Arc<Feed>, queue: &ShortString, prefetch: u16) -> Result<Tap, CallError> {
    let tap = feed.channel(queue.as_str()).await?;
    let tag = format!("redrive-{:016x}", ambient::random());
    tap.succeed(None, queue.as_str(), &tag, prefetch.max(1)).await?;
    Ok(tap)
}

/// An intake at work. Dropping it closes its channel, and then its connection.
struct Taking {
    feed: Arc<Feed>,
    tap: Tap,
    queue: String,
    held: Held,
    position: u64,
    lost: Option<Lost>,
}

impl Taking {
    fn take(&mut self, came: Came) -> Result<Walked, Lost> {
        let tag = came.tag;
        self.position += 1;
        let walked = message::walked(came, &self.queue, self.position).map_err(Lost::Undecodable)?;
        self.held.add(tag);
        Ok(walked)
    }

    async fn acked(&mut self, tags: &[DeliveryTag]) -> bool {
        let acks = self.held.settle(tags.iter().map(|tag| tag.0).collect());
        self.tap.settled(&acks).await
    }
}

#[async_trait]
impl Intake for Taking {
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, Lost> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while self.lost.is_none() && taken.len() < limit.max(1) && bytes < BATCH_BYTES {
            // Only a wait with nothing in hand can be given up.
            let next = if taken.is_empty() {
                Some(self.tap.next().await)
            } else {
                self.tap.next().now_or_never()
            };
            let Some(next) = next else { break };
            match next.map_err(Lost::from).and_then(|came| self.take(came)) {
                Ok(walked) => {
                    bytes += walked.message.body.len();
                    taken.push(walked);
                }
                Err(lost) => self.lost = Some(lost),
            }
        }
        match &self.lost {
            Some(lost) if taken.is_empty() => Err(lost.clone()),
            _ => Ok(taken),
        }
    }

    async fn settle(&mut self, tags: &[DeliveryTag]) -> Acked {
        let is_sent = match &self.lost {
            // What is in hand is settled as before.
            None | Some(Lost::Undecodable(_)) => self.acked(tags).await,
            Some(Lost::Cancelled | Lost::Connection(_)) => false,
        };
        if is_sent {
            return Acked::Sent;
        }
        self.lost
            .get_or_insert_with(|| Lost::Connection("the connection was lost".to_owned()));
        Acked::Lost
    }

    /// The channel first: then everything unsettled is back in its place, whatever becomes of the connection.
    async fn close(self: Box<Self>) {
        let Self { feed, tap, .. } = *self;
        // An error means that the channel is gone, which is as good.
        drop(tap.close().await);
        feed.close().await;
    }
}
