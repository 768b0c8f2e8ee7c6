//! Publishing with confirms, on a connection of its own (an alarm blocks only those that publish, docs/rabbitmq.md,
//! *Alarms*).
//!
//! Publishes that no broker refuses share a channel: it answers many of them at once. Where a broker may close the
//! channel over the message ([`may_be_refused`]), the publish has one to itself, so that nobody else's answer is lost
//! with it; so has each one once a broker has closed the shared channel over a message all the same. Such channels are
//! kept and used again.
//! An answer that does not come is *unknown*, never *refused*, and its channel is not used again. *Refused* is only
//! what the same message will always be answered: it does not fit into a frame, or the broker closed the channel over
//! it with 311 or 406 (too large, or a property that it does not allow). A nack is none of that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, broadcast};

use super::dialer::{Dialer, Slot};
use super::failure::{CallError, right_of, rights};
use super::feed::{Confirmed, Content, Feed, Notice, Tap, Verdict};
use super::message;
use crate::ambient;
use crate::broker::{BrokerError, Published, Signal};
use crate::domain::message::Message;

pub(super) const PUBLISH: &str = "publish";

/// Publishes in flight at once, unless the broker allows fewer channels.
const WINDOW: usize = 128;
/// Bodies up to this size share a channel: no broker in use allows less than that (`max_message_size`).
const SHARED_BYTES_MAX: usize = 64 * 1024;

/// The publishing side of the driver.
#[derive(Debug)]
pub(super) struct Publisher {
    dialer: Arc<Dialer>,
    slot: Slot<Feed>,
    /// The channel of those that share one.
    shared: Slot<Tap>,
    exchange: Arc<str>,
    timeout: Duration,
    window: Semaphore,
    own: Mutex<Own>,
    alarm: Arc<Alarm>,
}

/// Channels of those that have one to themselves.
#[derive(Debug, Default)]
struct Own {
    /// Without a publish in flight.
    idle: Vec<Tap>,
    /// The connection on which the broker closed the shared channel over a message.
    choosy: Weak<Feed>,
}

/// The channel of a publish.
enum Channel {
    Shared(Arc<Tap>),
    Own(Tap),
}

impl Channel {
    fn tap(&self) -> &Tap {
        match self {
            Self::Shared(tap) => tap,
            Self::Own(tap) => tap,
        }
    }
}

/// Whether a broker may close the channel over this message: over its size, or over a property that it checks.
fn may_be_refused(message: &Message) -> bool {
    let is_checked = |(name, _): &(String, _)| matches!(name.as_str(), "CC" | "BCC");
    message.body.len() > SHARED_BYTES_MAX
        || message.user_id.is_some()
        || message.expiration.is_some()
        || message.headers.iter().any(is_checked)
}

/// Whether the broker blocks us, and who is told.
#[derive(Debug)]
struct Alarm {
    reason: Mutex<Option<String>>,
    signals: broadcast::Sender<Signal>,
}

impl Alarm {
    fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, reason: Option<String>) {
        let before = std::mem::replace(
            &mut *self.reason.lock().unwrap_or_else(PoisonError::into_inner),
            reason.clone(),
        );
        let signal = match (before, reason) {
            (None, Some(reason)) => Signal::Blocked(reason),
            (Some(_), None) => Signal::Unblocked,
            (None, None) | (Some(_), Some(_)) => return,
        };
        // Nobody listens: nobody needs to know.
        let _ = self.signals.send(signal);
    }

    fn heed(&self, notice: Notice) {
        match notice {
            Notice::Blocked(reason) => self.set(Some(reason)),
            // A new connection is told again when the alarm still holds.
            Notice::Unblocked | Notice::Ended => self.set(None),
        }
    }
}

/// Whether a publish was sent at all decides between an error and *unknown*.
enum Failure {
    /// Nothing was sent; another channel may do.
    Unsent(CallError),
    /// It was sent, and this came instead of an answer.
    Sent(CallError),
}

impl Publisher {
    /// `signals` hear of alarms.
    pub(super) fn new(
        dialer: Arc<Dialer>,
        exchange: &str,
        timeout: Duration,
        signals: broadcast::Sender<Signal>,
    ) -> Self {
        Self {
            dialer,
            slot: Slot::new(),
            shared: Slot::new(),
            exchange: exchange.into(),
            timeout,
            window: Semaphore::new(WINDOW),
            own: Mutex::default(),
            alarm: Arc::new(Alarm {
                reason: Mutex::default(),
                signals,
            }),
        }
    }

    /// Publishes through our exchange with `key`: persistent, mandatory, confirmed.
    pub(super) async fn publish(&self, key: &str, message: &Message) -> Result<Published, BrokerError> {
        message::fits("routing key", key).map_err(failed)?;
        let _place = self.place().await?;
        // Nothing is sent into an alarm: it would arrive whenever that ends.
        if let Some(detail) = self.alarm.reason() {
            return Err(BrokerError::Blocked { detail });
        }
        let mut refreshed = false;
        loop {
            let channel = self.channel_for(message).await?;
            let properties = match message::published(message, channel.tap().feed().frame_max()) {
                Ok(properties) => properties,
                Err(reason) => return Ok(Published::Refused(reason)),
            };
            let content = Content {
                exchange: Arc::clone(&self.exchange),
                key: key.to_owned(),
                properties,
                body: message.body.clone(),
            };
            match self.attempt(channel.tap(), content).await {
                Ok(confirmed) => {
                    if let Channel::Own(tap) = channel {
                        self.keep(tap);
                    }
                    return Ok(published(confirmed));
                }
                // A channel that was closed while it lay idle: once again with a new one.
                Err(Failure::Unsent(_)) if !refreshed => refreshed = true,
                Err(Failure::Unsent(error)) => return self.failure(&Failure::Unsent(error), &self.exchange),
                Err(Failure::Sent(error)) => {
                    self.judge(&channel, &error);
                    return self.unsettled(error, channel.tap(), &self.exchange);
                }
            }
        }
    }

    /// A place in the window.
    async fn place(&self) -> Result<tokio::sync::SemaphorePermit<'_>, BrokerError> {
        match ambient::timeout(self.timeout, self.window.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) => Err(failed("closed".to_owned())),
            Err(_) => Err(match self.alarm.reason() {
                Some(detail) => BrokerError::Blocked { detail },
                None => BrokerError::Unreachable {
                    operation: PUBLISH,
                    detail: format!("{WINDOW} publishes are waiting for their confirms"),
                },
            }),
        }
    }

    /// Where this message is published.
    async fn channel_for(&self, message: &Message) -> Result<Channel, BrokerError> {
        let feed = self.feed().await?;
        if may_be_refused(message) || self.is_choosy(&feed) {
            return self.own_on(&feed).await.map(Channel::Own);
        }
        let opening = async { feed.confirming().await.map(Arc::new).map_err(|error| unopened(&error)) };
        self.shared.get(opening).await.map(Channel::Shared)
    }

    /// A channel in confirm mode that nothing else uses.
    pub(super) async fn channel(&self) -> Result<Tap, BrokerError> {
        let feed = self.feed().await?;
        self.own_on(&feed).await
    }

    async fn feed(&self) -> Result<Arc<Feed>, BrokerError> {
        let alarm = Arc::clone(&self.alarm);
        let opening = async {
            let hears = Box::new(move |notice| alarm.heed(notice));
            Feed::open_heard(&self.dialer, PUBLISH, hears).await
        };
        self.slot.get(opening).await
    }

    async fn own_on(&self, feed: &Arc<Feed>) -> Result<Tap, BrokerError> {
        loop {
            let kept = self.own().idle.pop();
            let Some(tap) = kept else {
                return feed.confirming().await.map_err(|error| unopened(&error));
            };
            if tap.is_on(feed) {
                return Ok(tap);
            }
        }
    }

    /// Whether the broker closed the shared channel of this connection over a message.
    fn is_choosy(&self, feed: &Arc<Feed>) -> bool {
        std::ptr::eq(self.own().choosy.as_ptr(), Arc::as_ptr(feed))
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a channel whose publishes have their answers.
    pub(super) fn keep(&self, tap: Tap) {
        let mut own = self.own();
        if own.idle.len() < WINDOW {
            own.idle.push(tap);
        }
    }

    async fn attempt(&self, tap: &Tap, content: Content) -> Result<Confirmed, Failure> {
        let mut sent = tap.publish(vec![content]).map_err(Failure::Unsent)?;
        let Some(confirming) = sent.pop() else {
            return Err(Failure::Unsent(tap.stopped()));
        };
        // Silence is no fault of the connection while an alarm holds it.
        match ambient::timeout(self.timeout, confirming).await {
            Ok(Ok(confirmed)) => Ok(confirmed),
            Ok(Err(_)) => Err(Failure::Sent(tap.stopped())),
            Err(_) => Err(Failure::Sent(CallError::Silent(self.timeout))),
        }
    }

    /// What the end of a publish says of its channel for those to come.
    fn judge(&self, channel: &Channel, error: &CallError) {
        let Channel::Shared(tap) = channel else { return };
        tap.retire();
        if is_of_the_message(error) {
            self.own().choosy = Arc::downgrade(tap.feed());
        }
    }

    fn failure(&self, failure: &Failure, exchange: &str) -> Result<Published, BrokerError> {
        let (Failure::Sent(error) | Failure::Unsent(error)) = failure;
        let detail = error.text();
        if error.says_missing_exchange(exchange) {
            return Err(BrokerError::NoExchange {
                exchange: exchange.to_owned(),
            });
        }
        match (error.code(), failure) {
            (Some(403), _) => Err(rights(
                PUBLISH,
                &writing(right_of(&detail)),
                &self.dialer.vhost,
                &self.dialer.address.user,
            )),
            // Too large for the broker, or otherwise not to its taste: this message, not the connection.
            (_, Failure::Sent(_)) if is_of_the_message(error) => Ok(Published::Refused(detail)),
            (_, Failure::Unsent(_)) => Err(BrokerError::Unreachable {
                operation: PUBLISH,
                detail,
            }),
            (_, Failure::Sent(_)) => Err(BrokerError::Unknown {
                operation: PUBLISH,
                detail: self.alarm.reason().unwrap_or(detail),
            }),
        }
    }

    pub(super) fn alarm_reason(&self) -> Option<String> {
        self.alarm.reason()
    }

    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// What an error after sending to `exchange` means. Of several that were not answered nobody knows over whose message the broker
    /// closed the channel, or whether it was there yet; of one alone it is that one.
    pub(super) fn unsettled(&self, error: CallError, tap: &Tap, exchange: &str) -> Result<Published, BrokerError> {
        if tap.unanswered() > 1 && error.code().is_some() {
            return Err(BrokerError::Unknown {
                operation: PUBLISH,
                detail: error.text(),
            });
        }
        self.failure(&Failure::Sent(error), exchange)
    }

    /// Sends without waiting for anything; for nudges, which may be lost.
    pub(super) async fn fling(&self, key: &str, body: &[u8]) {
        if self.alarm.reason().is_some() || self.window.available_permits() == 0 {
            return;
        }
        let message = Message {
            body: bytes::Bytes::copy_from_slice(body),
            ..Message::default()
        };
        // With a confirm, so that its channel can be used again; not mandatory would save nothing.
        if let Err(error) = self.publish(key, &message).await {
            tracing::debug!(error = ?error.to_string(), "nudge was not sent");
        }
    }

    pub(super) async fn close(&self) {
        self.slot.close().await;
        self.shared.close().await;
        self.own().idle.clear();
    }
}

/// Which right a publish lacks: newer brokers say that it is *write*, older ones only what it is on.
fn writing(right: &str) -> String {
    if right.starts_with("access") {
        format!("write {right}")
    } else {
        right.to_owned()
    }
}

/// Whether the broker closed the channel over the message itself: too large, or a property that it does not allow.
fn is_of_the_message(error: &CallError) -> bool {
    matches!(error.code(), Some(311 | 406))
}

/// Only an ack without a returned message means that it is stored (docs/rabbitmq.md, *Confirms and returned messages*).
pub(super) fn published(confirmed: Confirmed) -> Published {
    match (confirmed.returned, confirmed.verdict) {
        // No route; anything else says in the broker's words why nothing took it this time.
        (Some((312, _)), _) => Published::Returned,
        (Some((code, text)), _) => Published::NotNow(format!("{code} {text}")),
        (None, Verdict::Ack) => Published::Accepted,
        // A queue is full and rejects what comes, or its node failed.
        (None, Verdict::Nack) => Published::NotNow("the broker answered nack: its queue is full, or failed".to_owned()),
    }
}

fn unopened(error: &CallError) -> BrokerError {
    BrokerError::Unreachable {
        operation: PUBLISH,
        detail: error.text(),
    }
}

fn failed(detail: String) -> BrokerError {
    BrokerError::Failed {
        operation: PUBLISH,
        detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::rabbitmq::address::Address;

    #[test]
    fn only_what_was_sent_is_refused_by_the_broker() {
        let address = Address::parse("amqp://u:p@h").unwrap();
        let dialer = Dialer::new(address, "v".to_owned(), None, "n".to_owned());
        let (signals, _) = broadcast::channel(1);
        let publisher = Publisher::new(Arc::new(dialer), "x", Duration::from_secs(1), signals);
        let refusal = || CallError::Refused(406, "PRECONDITION_FAILED - too large".to_owned());
        assert!(matches!(
            publisher.failure(&Failure::Sent(refusal()), "x"),
            Ok(Published::Refused(_))
        ));
        // The channel was closed over somebody else's message.
        assert!(matches!(
            publisher.failure(&Failure::Unsent(refusal()), "x"),
            Err(BrokerError::Unreachable { .. })
        ));
    }

    #[test]
    fn what_a_broker_may_refuse_shares_no_channel() {
        let with = |change: fn(&mut Message)| {
            let mut message = Message::default();
            change(&mut message);
            may_be_refused(&message)
        };
        assert!(!with(|_| ()));
        assert!(!with(|message| message.body = vec![0; SHARED_BYTES_MAX].into()));
        assert!(with(|message| message.body = vec![0; SHARED_BYTES_MAX + 1].into()));
        assert!(with(|message| message.expiration = Some("5".to_owned())));
        assert!(with(|message| message.user_id = Some("u".to_owned())));
        assert!(with(
            |message| message.headers = vec![("BCC".to_owned(), crate::domain::message::HeaderValue::Void)]
        ));
    }
}
