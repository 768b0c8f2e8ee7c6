//! Consuming a queue: a channel of its own on a pooled connection, prefetch before consume.
//!
//! Promises: `next` may be dropped at any point; whatever ends is ended by closing the *channel*, never by
//! `basic.cancel` (docs/rabbitmq.md, *Cancelling a consumer*); a stream that ends and an ack that was not sent say
//! *lost*.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::dialer::Dialer;
use super::failure::{CallError, Ended, call_error, limit};
use super::feed::{Came, Feed, Stopped, Tap};
use super::frames::ShortString;
use super::message;
use super::pool::{NoPlace, Place, Pool};
use crate::ambient;
use crate::broker::{Acked, AttachOutcome, Attached, BrokerError, Delivery, DeliveryTag, Lost, Next};

const ATTACH: &str = "attach";
/// The role of a connection on which delivery queues are read.
pub(super) const CONSUME: &str = "consume";

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
    /// The exchange to bind to, once it is consumed.
    pub(super) bind: Option<ShortString>,
}

/// Attaches, going on with the hunt for a poisonous queue as long as connections die under it.
pub(super) async fn attach(dialer: &Dialer, pool: &Arc<Pool>, wanted: &Wanted) -> Result<AttachOutcome, BrokerError> {
    let mut lost_before = false;
    let mut last = CallError::Ended(Ended::Lost("connections keep ending".to_owned()));
    for _ in 0..ROUNDS {
        let place = match pool.reserve(wanted.queue.as_str()) {
            Ok(place) => place,
            Err(NoPlace::Convicted(reason)) => return Ok(AttachOutcome::Poison(reason)),
            Err(NoPlace::Full(said)) => return Err(limit(ATTACH, &dialer.address.user, said)),
        };
        let feed = Arc::clone(place.feed().get_or_try_init(|| opened(dialer, &place)).await?);
        let room = usize::from(feed.channel_max());
        if room > 0 {
            place.limit(room);
        }
        match feed.consume(wanted).await {
            Ok(Some(tap)) => {
                place.opened();
                return Ok(AttachOutcome::Attached(Box::new(Consuming::new(place, &feed, tap))));
            }
            Ok(None) => return Ok(AttachOutcome::Missing),
            Err(error) => {
                last = error;
                match died(&feed, &last) {
                    Some(ended @ Ended::Undecodable(_)) => {
                        place.died(&ended);
                        // Nothing is left to be halved: whether it is the queue shows later.
                        if place.is_apart {
                            break;
                        }
                    }
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
async fn opened(dialer: &Dialer, place: &Place) -> Result<Arc<Feed>, BrokerError> {
    if place.is_dead() {
        return Err(BrokerError::Unreachable {
            operation: ATTACH,
            detail: "the connection could not be opened".to_owned(),
        });
    }
    let opened = Feed::open(dialer, CONSUME).await;
    if let Err(error) = &opened {
        place.died(&Ended::Lost(error.to_string()));
    }
    opened
}

/// How the connection ended, if the error means that it did.
fn died(feed: &Feed, error: &CallError) -> Option<Ended> {
    match error.ended() {
        Some(ended @ Ended::Undecodable(_)) => Some(ended),
        ended => feed.ended().or(ended),
    }
}

impl From<Stopped> for Lost {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Cancelled => Self::Cancelled,
            Stopped::Closed(code, text) => Self::Connection(format!("channel closed by the broker: {code} {text}")),
            Stopped::Ended(Ended::Undecodable(reason)) => Self::Undecodable(reason),
            Stopped::Ended(Ended::Lost(reason)) => Self::Connection(reason),
        }
    }
}

/// An attachment.
struct Consuming {
    place: Arc<Place>,
    /// Taken out at the end.
    tap: Option<Tap>,
    /// In the order in which they came; there are no more of them than the prefetch.
    unsettled: VecDeque<u64>,
    /// Up to where the socket has to take bytes until the last ack is on its way.
    sending: Option<u64>,
    lost: Option<Lost>,
    proven: bool,
}

impl Consuming {
    fn new(place: Place, feed: &Arc<Feed>, tap: Tap) -> Self {
        let place = Arc::new(place);
        if place.suspect {
            let (waiting, watched) = (Arc::downgrade(&place), Arc::downgrade(feed));
            ambient::spawn("suspect-survives", async move {
                ambient::sleep(SURVIVED).await;
                if let (Some(place), Some(feed)) = (waiting.upgrade(), watched.upgrade())
                    && feed.is_open()
                {
                    place.cleared();
                }
            });
        }
        Self {
            place,
            tap: Some(tap),
            unsettled: VecDeque::new(),
            sending: None,
            lost: None,
            proven: false,
        }
    }

    fn delivered(&mut self, came: Came) -> Next {
        let mut message = match message::came(&came.properties, came.body) {
            Ok(message) => message,
            Err(why) => return Next::Lost(self.undecodable(&why)),
        };
        if !self.proven {
            self.proven = true;
            self.place.cleared();
        }
        self.unsettled.push_back(came.tag);
        message.headers.retain(|(name, _)| !COUNTED.contains(&name.as_str()));
        Next::Message(Box::new(Delivery {
            tag: DeliveryTag(came.tag),
            redelivered: came.redelivered,
            addressed_to: came.addressed_to,
            message,
        }))
    }

    /// Every client that decodes it is ended by it: no connection of ours, but the queue is told from the others.
    fn undecodable(&mut self, why: &str) -> Lost {
        self.place.convict(why);
        let lost = Lost::Undecodable(why.to_owned());
        self.lost = Some(lost.clone());
        lost
    }

    /// Why nothing more comes: a cancel by the broker leaves the channel open.
    fn end(&mut self, stopped: Stopped) -> Lost {
        if let Stopped::Ended(ended) = &stopped {
            self.place.died(ended);
        }
        let lost = Lost::from(stopped);
        self.lost = Some(lost.clone());
        lost
    }

    /// Gives an ack to the connection, once the one before is on its way; false when it is lost.
    async fn hand_over(&mut self, tag: DeliveryTag) -> bool {
        let Some(at) = self.unsettled.iter().position(|unsettled| *unsettled == tag.0) else {
            return false;
        };
        self.unsettled.remove(at);
        if self.lost.is_some() || !self.handed_over().await {
            return false;
        }
        self.sending = self.tap.as_ref().and_then(|tap| tap.ack(tag.0));
        self.sending.is_some()
    }

    /// Waits until the last ack was written to the socket; false when it was not.
    async fn handed_over(&mut self) -> bool {
        match (self.sending.take(), &self.tap) {
            (Some(until), Some(tap)) => tap.written(until).await,
            (until, _) => until.is_none(),
        }
    }
}

#[async_trait]
impl Attached for Consuming {
    async fn next(&mut self) -> Next {
        if let Some(lost) = &self.lost {
            return Next::Lost(lost.clone());
        }
        let Some(tap) = &self.tap else {
            return Next::Lost(Lost::Connection("closed".to_owned()));
        };
        // Only this await can be given up while a delivery comes, and it takes nothing before it is ready.
        match tap.next().await {
            Ok(came) => self.delivered(came),
            Err(stopped) => Next::Lost(self.end(stopped)),
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
        if let Some(tap) = self.tap.take() {
            // An error means that the channel is gone, which is as good.
            drop(tap.close().await);
        }
    }
}
