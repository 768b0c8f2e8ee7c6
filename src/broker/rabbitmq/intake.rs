//! Taking in a queue of others: a connection of its own, a window of messages in hand, acks for many at once.
//!
//! What exists is taken as it is: exchange and queue are looked at first and made only where they are missing.
//! Given back is by closing, never by `nack` (a quorum queue with a limit drops what comes back too often). A quorum queue puts
//! what comes back behind what came back before: so all of that is in hand before anything of it is handed out, however small
//! the window is, and what is given back next keeps its order.

use std::collections::VecDeque;
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
use super::walk::{SILENCES, SILENT};
use crate::ambient;
use crate::broker::{Acked, BrokerError, DeliveryTag, Intake, IntakeQueue, Look, Lost, Walked};
use crate::domain::death::COUNTING_HEADERS;
use crate::domain::naming::{Argument, QueueType, queue_arguments};

const INTAKE: &str = "intake";
/// Bytes of bodies of one batch, about.
const BATCH_BYTES: usize = 8 << 20;
/// Bytes of what came back that are taken at once, about. One hand had them before, so that there are mostly far fewer.
const CAME_BACK_BYTES: usize = 256 << 20;

/// Makes what is missing and consumes.
pub(super) async fn intake(
    dialer: &Dialer,
    queue_type: QueueType,
    queue: &IntakeQueue,
    prefetch: u16,
) -> Result<Box<dyn Intake>, BrokerError> {
    let source = Source {
        there: Arc::new(dialer.to(&queue.vhost)),
        queue_type,
        wanted: queue.clone(),
        name: short(queue.name.as_str())?,
    };
    source.make().await?;
    let feed = Feed::open(&source.there, INTAKE).await?;
    match Taking::begin(&feed, &source, prefetch.max(1)).await {
        Ok(taking) => Ok(Box::new(taking)),
        Err(error) => {
            feed.close().await;
            Err(source.worded(&error))
        }
    }
}

/// What is taken in.
#[derive(Clone)]
struct Source {
    there: Arc<Dialer>,
    queue_type: QueueType,
    wanted: IntakeQueue,
    name: ShortString,
}

impl Source {
    /// Makes what is missing.
    async fn make(&self) -> Result<(), BrokerError> {
        let spare = Spare::new(Arc::clone(&self.there), INTAKE);
        let made = make(&spare, &self.name, self.queue_type, &self.wanted).await;
        spare.close().await;
        made.map_err(|error| self.worded(&error))
    }

    fn worded(&self, error: &CallError) -> BrokerError {
        call_error(INTAKE, &self.there.address, &self.there.vhost, error)
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

/// The tag of a consumer. A quorum queue gives back what several of a channel had in the order of these.
fn tag(consumer: u32) -> String {
    format!("redrive-intake-{consumer:08}")
}

/// Whether a quorum queue got it back: only those count. What cannot be read may be among them, so nothing is decoded.
fn came_back(came: &Came) -> bool {
    let names = |name: &&str| came.properties.windows(name.len()).any(|part| part == name.as_bytes());
    came.redelivered && COUNTING_HEADERS.iter().any(names)
}

/// An intake at work. Dropping it closes its channel, and then its connection.
struct Taking {
    feed: Arc<Feed>,
    tap: Tap,
    source: Source,
    /// The number of the last consumer.
    consumer: u32,
    /// What came and is not handed out yet.
    ahead: VecDeque<Came>,
    held: Held,
    position: u64,
    /// Its last consumer is cancelled.
    has_ceased: bool,
    lost: Option<Lost>,
}

impl Taking {
    async fn begin(feed: &Arc<Feed>, source: &Source, prefetch: u16) -> Result<Self, CallError> {
        let queue = &source.name;
        let tap = feed.channel(queue.as_str()).await?;
        tap.succeed(None, queue.as_str(), &tag(0), prefetch).await?;
        let mut taking = Self {
            feed: Arc::clone(feed),
            tap,
            source: source.clone(),
            consumer: 0,
            ahead: VecDeque::new(),
            held: Held::default(),
            position: 0,
            has_ceased: false,
            lost: None,
        };
        taking.take_what_came_back(prefetch).await?;
        Ok(taking)
    }

    /// Takes all that a quorum queue got back, by consumers with more and more room (docs/rabbitmq.md, *Where a returned message
    /// goes*).
    async fn take_what_came_back(&mut self, prefetch: u16) -> Result<(), CallError> {
        self.fill(1).await?;
        if !self.ahead.front().is_some_and(came_back) {
            return Ok(());
        }
        let (mut window, mut room) = (prefetch, usize::from(prefetch));
        self.fill(room).await?;
        while self.ahead.len() >= room && self.ahead.iter().all(|came| came.redelivered) {
            if self.ahead.iter().map(|came| came.body.len()).sum::<usize>() > CAME_BACK_BYTES {
                tracing::warn!(queue = ?self.source.name.as_str(), "an intake queue got more back than is taken at once: its order may change");
                break;
            }
            window = window.saturating_mul(2);
            room += usize::from(window);
            self.succeed(window).await?;
            self.fill(room).await?;
        }
        // What follows comes as it was asked for.
        if self.consumer > 0 {
            self.succeed(prefetch).await?;
        }
        Ok(())
    }

    /// Another consumer with so much room; the one before leaves in hand what it got.
    async fn succeed(&mut self, window: u16) -> Result<(), CallError> {
        let before = tag(self.consumer);
        self.consumer += 1;
        let (queue, tag) = (self.source.name.as_str(), tag(self.consumer));
        self.tap.succeed(Some(&before), queue, &tag, window).await
    }

    /// Waits until so many have come, or no more are there.
    async fn fill(&mut self, count: usize) -> Result<(), CallError> {
        let mut silences = 0;
        while self.ahead.len() < count && silences < SILENCES {
            if let Ok(came) = ambient::timeout(SILENT, self.tap.next()).await {
                self.ahead.push_back(came?);
                silences = 0;
                continue;
            }
            silences += 1;
            let look = self.tap.look(&self.source.name).await?;
            if silences > 1 && matches!(look, Look::Present { ready: 0, .. }) {
                break;
            }
        }
        Ok(())
    }

    /// The next one of those that came ahead, as long as they are in hand.
    fn next_ahead(&mut self) -> Option<Came> {
        self.tap.is_on(&self.feed).then(|| self.ahead.pop_front()).flatten()
    }

    fn take(&mut self, came: Came) -> Result<Walked, Lost> {
        let tag = came.tag;
        self.position += 1;
        let walked = message::walked(came, self.source.name.as_str(), self.position).map_err(Lost::Undecodable)?;
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
            let next = match self.next_ahead() {
                Some(came) => Some(Ok(came)),
                None if taken.is_empty() && !self.has_ceased => Some(self.tap.next().await),
                None => self.tap.next().now_or_never(),
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

    async fn bind_again(&mut self) -> Result<(), BrokerError> {
        self.source.make().await
    }

    async fn cease(&mut self) {
        self.has_ceased = true;
        let ceased = async {
            self.tap.cancel(&tag(self.consumer)).await?;
            // What a quorum queue sends for an ack may come after the answer to the cancel.
            self.tap.answered(1).await
        };
        if let Err(error) = ceased.await {
            self.lost.get_or_insert_with(|| Lost::Connection(format!("{error:?}")));
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
