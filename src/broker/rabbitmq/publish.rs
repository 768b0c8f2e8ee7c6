//! Publishing with confirms, on a connection of its own (an alarm blocks only those that publish, docs/rabbitmq.md,
//! *Alarms*).
//!
//! Each publish in flight has a channel to itself. On a shared one the client hands a returned message
//! to whichever confirm it settles next: of 20,000 publishes on one channel, eight in flight and half of
//! them without a queue, 310 that were *lost* looked accepted (lapin 4.12.3). With a channel per publish
//! an answer can only be its own. Channels are kept and used again.
//! An answer that does not come is *unknown*, never *refused*, and its channel is not used again. *Refused* is only
//! what the same message will always be answered: it does not fit into a frame, or the broker closed the channel over
//! it with 311 or 406 (too large, or a property that it does not allow). A nack is none of that.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lapin::message::BasicReturnMessage;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation};
use tokio::sync::{Semaphore, broadcast};

use super::failure::{CallError, Ended, rights};
use super::line::{Dialer, Line, Notice, Slot};
use super::message;
use crate::ambient;
use crate::broker::{BrokerError, Published, Signal};
use crate::domain::message::Message;

pub(super) const PUBLISH: &str = "publish";

/// Publishes in flight at once, unless the broker allows fewer channels.
const WINDOW: usize = 128;

/// The publishing side of the driver.
#[derive(Debug)]
pub(super) struct Publisher {
    dialer: Arc<Dialer>,
    slot: Slot<Line>,
    exchange: ShortString,
    timeout: Duration,
    window: Semaphore,
    idle: Mutex<Idle>,
    alarm: Arc<Alarm>,
}

/// Channels without a publish in flight, and the line that they belong to.
#[derive(Debug, Default)]
struct Idle {
    line: Weak<Line>,
    channels: Vec<Channel>,
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
            Notice::Unblocked | Notice::Ended(_) => self.set(None),
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
        exchange: ShortString,
        timeout: Duration,
        signals: broadcast::Sender<Signal>,
    ) -> Self {
        Self {
            dialer,
            slot: Slot::new(),
            exchange,
            timeout,
            window: Semaphore::new(WINDOW),
            idle: Mutex::default(),
            alarm: Arc::new(Alarm {
                reason: Mutex::default(),
                signals,
            }),
        }
    }

    /// Publishes through our exchange with `key`: persistent, mandatory, confirmed.
    pub(super) async fn publish(&self, key: &str, message: &Message) -> Result<Published, BrokerError> {
        let key = ShortString::try_new(key).map_err(|error| failed(error.to_string()))?;
        let _place = self.place().await?;
        // Nothing is sent into an alarm: it would arrive whenever that ends.
        if let Some(detail) = self.alarm.reason() {
            return Err(BrokerError::Blocked { detail });
        }
        let mut refreshed = false;
        loop {
            let (line, channel) = self.channel().await?;
            let properties = match message::published(message, line.limits().1 as usize) {
                Ok(properties) => properties,
                Err(reason) => return Ok(Published::Refused(reason)),
            };
            match self.attempt(&line, &channel, &key, message, properties).await {
                Ok(confirmation) => {
                    self.keep(&line, channel);
                    return answer(confirmation);
                }
                // A channel that was closed while it lay idle: once again with a new one.
                Err(Failure::Unsent(_)) if !refreshed => refreshed = true,
                Err(failure) => return self.failure(&failure),
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

    /// A channel in confirm mode that nothing else uses.
    pub(super) async fn channel(&self) -> Result<(Arc<Line>, Channel), BrokerError> {
        let alarm = Arc::clone(&self.alarm);
        let opening = self
            .dialer
            .open_vhost(PUBLISH, &self.dialer.vhost, move |notice| alarm.heed(notice));
        let line = self.slot.get(opening).await?;
        while let Some(channel) = self.idle_channel(&line) {
            if channel.status().connected() {
                return Ok((line, channel));
            }
        }
        let opening = async {
            let channel = line.channel().await?;
            line.call(channel.confirm_select(ConfirmSelectOptions::default()))
                .await?;
            Ok(channel)
        };
        let channel = opening.await.map_err(|error: CallError| BrokerError::Unreachable {
            operation: PUBLISH,
            detail: error.text(),
        })?;
        Ok((line, channel))
    }

    fn idle_channel(&self, line: &Arc<Line>) -> Option<Channel> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::ptr::eq(idle.line.as_ptr(), Arc::as_ptr(line)) {
            idle.channels.clear();
            idle.line = Arc::downgrade(line);
        }
        idle.channels.pop()
    }

    pub(super) fn keep(&self, line: &Arc<Line>, channel: Channel) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if std::ptr::eq(idle.line.as_ptr(), Arc::as_ptr(line)) && idle.channels.len() < WINDOW {
            idle.channels.push(channel);
        }
    }

    async fn attempt(
        &self,
        line: &Line,
        channel: &Channel,
        key: &ShortString,
        message: &Message,
        properties: BasicProperties,
    ) -> Result<Confirmation, Failure> {
        let options = BasicPublishOptions {
            mandatory: true,
            immediate: false,
        };
        if !channel.status().connected() {
            return Err(Failure::Unsent(CallError::Ended(Ended::Lost(
                "channel closed".to_owned(),
            ))));
        }
        let published = async {
            let sent = channel.basic_publish(self.exchange.clone(), key.clone(), options, &message.body, properties);
            sent.await?.await
        };
        // Silence is no fault of the connection while an alarm holds it.
        let bound = ambient::timeout(self.timeout, line.call_within(self.timeout * 2, published));
        match bound.await {
            Ok(Ok(confirmation)) => Ok(confirmation),
            Ok(Err(error)) => Err(Failure::Sent(error)),
            Err(_) => Err(Failure::Sent(CallError::Silent(self.timeout))),
        }
    }

    fn failure(&self, failure: &Failure) -> Result<Published, BrokerError> {
        let (Failure::Sent(error) | Failure::Unsent(error)) = failure;
        let detail = error.text();
        if error.says_missing_exchange(self.exchange.as_str()) {
            return Err(BrokerError::NoExchange {
                exchange: self.exchange.as_str().to_owned(),
            });
        }
        match (error.code(), failure) {
            (Some(403), _) => Err(rights(PUBLISH, &detail, &self.dialer.vhost, &self.dialer.address.user)),
            // Too large for the broker, or otherwise not to its taste: this message, not the connection.
            (Some(311 | 406), _) => Ok(Published::Refused(detail)),
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

    /// What an error after sending so many messages means. Of several nobody knows whose message the broker did not
    /// like; of one alone it is that one.
    pub(super) fn unsettled(&self, error: CallError, sent: usize) -> Result<Published, BrokerError> {
        if sent > 1 && matches!(error.code(), Some(311 | 406)) {
            return Err(BrokerError::Unknown {
                operation: PUBLISH,
                detail: error.text(),
            });
        }
        self.failure(&Failure::Sent(error))
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
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .channels
            .clear();
        self.slot.close().await;
    }
}

/// Only an ack without a returned message means that it is stored (docs/rabbitmq.md, *Confirms and returned messages*).
fn answer(confirmation: Confirmation) -> Result<Published, BrokerError> {
    match confirmation {
        Confirmation::Ack(None) => Ok(Published::Accepted),
        Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned)) => Ok(returned_as(&returned)),
        Confirmation::Nack(None) => Ok(nacked()),
        Confirmation::NotRequested => Err(failed("the channel is not in confirm mode".to_owned())),
    }
}

/// A queue is full and rejects what comes, or its node failed.
pub(super) fn nacked() -> Published {
    Published::NotNow("the broker answered nack: its queue is full, or failed".to_owned())
}

/// 312 is *no route*; anything else says in the broker's words why nothing took it this time.
pub(super) fn returned_as(returned: &BasicReturnMessage) -> Published {
    match returned.reply_code {
        312 => Published::Returned,
        code => Published::NotNow(format!("{code} {}", returned.reply_text.as_str())),
    }
}

pub(super) fn failed(detail: String) -> BrokerError {
    BrokerError::Failed {
        operation: PUBLISH,
        detail,
    }
}
