//! What a worker does with one message: finds out what it is, and which head or decision it is about.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{End, Flow, Hold, Step, Worker, guarded};
use crate::broker::{Attached, Delivery, DeliveryTag, Look};
use crate::domain::fingerprint::{Fingerprint, content_digest};
use crate::domain::id::{NotificationId, QueueName};
use crate::domain::message::{HeaderValue, Message};
use crate::domain::naming::hex;
use crate::domain::notification::{Decoded, Notification, decode_from};
use crate::domain::queue::{Closing, Decision, Head};
use crate::domain::url::EndpointUrl;
use crate::domain::verdict::DeadReason;
use crate::engine::dead_letter::{LastAttempt, dead_letter};
use crate::engine::endpoints::LiveEndpoint;
use crate::engine::error::chain;
use crate::engine::tell::Tell;
use crate::store::{LearnedQueue, QueueMark};
use crate::telemetry::{LoggedAt, names};

/// A publisher that gives no ids gives none to all of its messages.
static WITHOUT_ID: LoggedAt = LoggedAt::never();
static NOT_BURIED: LoggedAt = LoggedAt::never();

/// Before it is looked again whether dead letters last.
const LETTERS_WAIT: Duration = Duration::from_secs(2);

impl Worker {
    pub(super) async fn message(&mut self, attached: &mut dyn Attached, delivery: Delivery) -> Flow {
        let fingerprint = Fingerprint::of(&delivery.message);
        let came_again = self.settled.came_again(&delivery, fingerprint);
        let message = delivery.message;
        let decoded = self.hold.decode(&message);
        let belongs_to = self.hold.belongs_to(&decoded, delivery.addressed_to.as_deref());
        let id = match &decoded {
            Decoded::Notification(notification) => notification.id.clone(),
            Decoded::End | Decoded::Foreign(_) => fallback_id(&message),
        };
        if came_again {
            return self.acked_before(attached, delivery.tag, (&id, fingerprint)).await;
        }
        if let Err(end) = self.meet_head(&id, fingerprint).await {
            return Flow::Stop(end);
        }
        if let Some(decision) = self.hold.record.decision.clone()
            && decision.is_about(&id, fingerprint)
        {
            return self.carry_out(attached, delivery.tag, &message, &decision, None).await;
        }
        if let Some(other) = belongs_to {
            match self
                .hold
                .is_copy_of(&other, &message, delivery.addressed_to.as_deref())
                .await
            {
                Ok(true) => {
                    tracing::warn!(queue = ?self.hold.queue, of = ?other, message = ?id, "a copy of a message of another queue (CC or BCC): settled, and not sent");
                    metrics::counter!(names::COPIES).increment(1);
                    return self.ack(attached, delivery.tag, fingerprint).await;
                }
                Ok(false) if matches!(decoded, Decoded::End) => {}
                Ok(false) => {
                    let why = "execution and url belong to another queue";
                    return self.foreign(attached, delivery.tag, &message, id, why).await;
                }
                Err(end) => return Flow::Stop(end),
            }
        }
        match decoded {
            Decoded::Notification(notification) => {
                self.tell_of_missing_id(&message);
                self.notification(attached, delivery.tag, (*notification, fingerprint), message)
                    .await
            }
            Decoded::End => self.end_mark(attached, delivery.tag, fingerprint).await,
            Decoded::Foreign(why) => self.foreign(attached, delivery.tag, &message, id, &why).await,
        }
    }

    fn tell_of_missing_id(&self, message: &Message) {
        if message.message_id.is_none() && WITHOUT_ID.is_due(self.hold.engine.clock.uptime()) {
            tracing::warn!(
                queue = ?self.hold.queue,
                "a message has no message_id: its id is made of what it says, so a receiver takes two that say the same \
                 for one; its publisher should give each message a message_id"
            );
        }
    }

    /// It was acked, and came again: acked once more, and what was known of it is forgotten.
    async fn acked_before(
        &mut self,
        attached: &mut dyn Attached,
        tag: DeliveryTag,
        (id, fingerprint): (&NotificationId, Fingerprint),
    ) -> Flow {
        tracing::info!(queue = ?self.hold.queue, message = ?id, "its ack was lost: acked again, and not sent");
        let flow = self.ack_again(attached, tag).await;
        if !matches!(flow, Flow::Continue) {
            return flow;
        }
        let decided = self.hold.record.decision.as_ref();
        let failed = self.hold.record.head.as_ref();
        let is_known = decided.is_some_and(|decision| decision.is_about(id, fingerprint))
            || failed.is_some_and(|head| head.is_about(id, fingerprint));
        if is_known && let Err(end) = self.forget_head().await {
            return Flow::Stop(end);
        }
        Flow::Continue
    }

    /// The stored head is about this message, or is forgotten together with a decision about it. A decision about
    /// the head of the queue stays while its companion is emptied.
    async fn meet_head(&mut self, id: &NotificationId, fingerprint: Fingerprint) -> Result<(), End> {
        let decision = self.hold.record.decision.as_ref();
        let is_decided = decision.is_some_and(|decision| decision.is_about(id, fingerprint));
        let is_of_another = decision.is_some() && !is_decided;
        if is_of_another && !self.hold.record.has_companion {
            self.hold.close_decision().await?;
        }
        let failed = self.hold.record.head.as_ref();
        let waits_behind = is_of_another && self.hold.record.has_companion;
        if !waits_behind && failed.is_some_and(|head| !head.is_about(id, fingerprint)) {
            self.hold.record.head = None;
            self.hold.mark(QueueMark::HeadGone).await?;
        }
        if self.hold.record.closing != Closing::Open {
            self.hold.record.closing = Closing::Open;
            self.hold.mark(QueueMark::Closing(Closing::Open)).await?;
        }
        Ok(())
    }

    /// Records execution and URL the first time they are seen, and finds the endpoint.
    pub(super) async fn learn(&mut self, notification: &Notification) -> Result<Arc<LiveEndpoint>, End> {
        // A store that failed over may have forgotten whose the queue is: then nobody finds it by its URL.
        if let Some(endpoint) = &self.endpoint
            && endpoint.url == notification.url
            && self.hold.record.url.as_ref() == Some(&notification.url)
        {
            return Ok(Arc::clone(endpoint));
        }
        let learned = LearnedQueue {
            name: self.hold.queue.clone(),
            execution: notification.execution.clone(),
            url: notification.url.clone(),
        };
        self.hold.mark(QueueMark::Learned(learned)).await?;
        self.hold.record.url = Some(notification.url.clone());
        self.hold.record.execution = Some(notification.execution.clone());
        let (engine, url) = (Arc::clone(&self.hold.engine), notification.url.clone());
        let stored = engine
            .insist(self.hold.incarnation, || engine.store.endpoint_get(&url))
            .await
            .map_err(|()| End::Fenced)?;
        let endpoint = match stored {
            Some(stored) => engine.endpoints.update(&stored),
            None => engine.endpoints.get(&url),
        };
        let had_slot = self.endpoint.replace(Arc::clone(&endpoint)).is_some();
        if !had_slot {
            self.hold.ask_for_slot(&notification.url).await?;
        }
        Ok(endpoint)
    }

    /// docs/protocols.md 11: record *ended*, ack the mark; the channel is closed next.
    async fn end_mark(&mut self, attached: &mut dyn Attached, tag: DeliveryTag, what: Fingerprint) -> Flow {
        if let Err(end) = self.hold.mark(QueueMark::Closing(Closing::Ended)).await {
            return Flow::Stop(end);
        }
        self.hold.record.closing = Closing::Ended;
        match self.ack(attached, tag, what).await {
            Flow::Continue => Flow::Stop(End::Ended),
            lost @ (Flow::Reattach | Flow::Stop(_)) => lost,
        }
    }

    /// A message that is not ours: kept among the dead letters, with the reason.
    async fn foreign(
        &mut self,
        attached: &mut dyn Attached,
        tag: DeliveryTag,
        message: &Message,
        id: NotificationId,
        why: &str,
    ) -> Flow {
        tracing::warn!(queue = ?self.hold.queue, why = ?why, "message is not a notification: moved to the dead letters");
        let decision = self
            .hold
            .new_decision(id, Fingerprint::of(message), DeadReason::Undecodable);
        let (engine, queue) = (Arc::clone(&self.hold.engine), self.hold.queue.clone());
        let opened = engine
            .insist(self.hold.incarnation, || engine.store.decision_open(&queue, &decision))
            .await;
        if let Err(end) = guarded(opened) {
            return Flow::Stop(end);
        }
        let last = LastAttempt {
            error: Some(why.to_owned()),
            ..Default::default()
        };
        self.carry_out(attached, tag, message, &decision, Some(last)).await
    }

    /// docs/protocols.md 17: the decision is committed; publish with confirm, ack, close it.
    pub(super) async fn carry_out(
        &mut self,
        attached: &mut dyn Attached,
        tag: DeliveryTag,
        message: &Message,
        decision: &Decision,
        last: Option<LastAttempt>,
    ) -> Flow {
        self.hold.record.decision = Some(decision.clone());
        if let Some(reason) = self.hold.engine.policy_guard.rules.letters_at_risk() {
            tracing::warn!(queue = ?self.hold.queue, reason = ?reason, "a dead letter waits: it would not last");
            return Flow::Stop(End::Trouble(LETTERS_WAIT));
        }
        let is_repeat = last.is_none();
        let last = last.unwrap_or_else(|| known_of(self.hold.record.head.as_ref()));
        let head = self.hold.record.head.as_ref();
        let letter = dead_letter(
            message,
            &self.hold.queue,
            decision,
            head,
            &last,
            self.hold.engine.clock.now(),
        );
        let buried = if is_repeat {
            self.hold.engine.publisher.bury_again(&letter).await
        } else {
            self.hold.engine.publisher.bury(&letter).await
        };
        if let Err(error) = buried {
            let (engine, why) = (&self.hold.engine, chain(&error));
            // Each queue tries again every second.
            if NOT_BURIED.is_due(engine.clock.uptime()) {
                tracing::warn!(queue = ?self.hold.queue, why = ?why, "dead letter is not confirmed, trying again");
            }
            let now = engine.clock.now();
            engine
                .seen
                .unattached
                .note(&self.hold.queue, Step::DeadLetter, why, now);
            return Flow::Stop(End::Trouble(Duration::from_secs(1)));
        }
        let flow = self.ack(attached, tag, Fingerprint::of(message)).await;
        if !matches!(flow, Flow::Continue) {
            return flow;
        }
        if let Err(end) = self.hold.close_decision().await {
            return Flow::Stop(end);
        }
        self.hold.record.head = None;
        self.hold.engine.seen.unattached.forget(&self.hold.queue);
        metrics::counter!(names::DEAD_LETTERS, "reason" => decision.reason.clone()).increment(1);
        self.hold.engine.tell(crate::engine::Event::DeadLettered {
            queue: self.hold.queue.clone(),
            reason: decision.reason.clone(),
        });
        Flow::Continue
    }
}

impl Hold {
    fn decode(&self, message: &Message) -> Decoded {
        decode_from(message, self.record.url.as_ref(), &|| fallback_id(message))
    }

    /// The delivery queue that a message belongs to, where that is not this one. An end mark names no URL: it belongs
    /// to the queue that it was published to.
    fn belongs_to(&self, decoded: &Decoded, addressed_to: Option<&str>) -> Option<QueueName> {
        let naming = &self.engine.settings.naming;
        match decoded {
            Decoded::Notification(notification) => {
                let known = self.record.url.as_ref() == Some(&notification.url)
                    && self.record.execution.as_ref() == Some(&notification.execution);
                if known {
                    return None;
                }
                let queue = naming.delivery_queue(&notification.execution, &notification.url);
                (queue != self.queue).then_some(queue)
            }
            Decoded::End => {
                let key = addressed_to.filter(|key| naming.is_delivery_queue(key))?;
                QueueName::parse(key).ok()
            }
            Decoded::Foreign(_) => None,
        }
    }

    /// Whether the broker put a message of `other` here because its publisher copied it to further keys: then it is
    /// there, too, and is sent from there. A queue that is gone may never have got it.
    async fn is_copy_of(&self, other: &QueueName, message: &Message, addressed_to: Option<&str>) -> Result<bool, End> {
        if addressed_to != Some(other.as_str()) && !is_copied_to(message, self.queue.as_str()) {
            return Ok(false);
        }
        match self.engine.broker.look(other).await {
            Ok(look) => Ok(look != Look::Missing),
            Err(error) => {
                tracing::warn!(queue = ?self.queue, error = ?error, "whether a message is a copy is not known yet");
                Err(End::Trouble(Duration::from_secs(1)))
            }
        }
    }

    /// docs/protocols.md 16: a queue whose URL was not known is attached to learn it; nothing is sent from it
    /// without a slot of that URL.
    async fn ask_for_slot(&self, url: &EndpointUrl) -> Result<(), End> {
        let (granted, answer) = oneshot::channel();
        let asked = Tell::Slot {
            queue: self.queue.clone(),
            url: url.clone(),
            granted,
        };
        if self.control.tell.send(asked).await.is_err() {
            return Err(End::Stopping);
        }
        match answer.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(End::Yielded),
            Err(_) => Err(End::Stopping),
        }
    }

    pub(super) fn new_decision(
        &self,
        message: NotificationId,
        fingerprint: Fingerprint,
        reason: DeadReason,
    ) -> Decision {
        Decision {
            id: crate::ambient::new_id(),
            message,
            fingerprint: Some(fingerprint),
            reason: reason.as_str().to_owned(),
            epoch: self.epoch,
        }
    }
}

fn known_of(head: Option<&Head>) -> LastAttempt {
    LastAttempt {
        status: head.and_then(|head| head.last_status),
        error: head.and_then(|head| head.last_error.clone()),
        ..Default::default()
    }
}

/// Whether its publisher copied it to this key. The broker takes `BCC` off before it delivers.
fn is_copied_to(message: &Message, key: &str) -> bool {
    let Some(HeaderValue::Array(keys)) = message.header("CC") else {
        return false;
    };
    let is_key = |value: &HeaderValue| matches!(value, HeaderValue::Text(text) if text.as_ref() == key.as_bytes());
    keys.iter().any(is_key)
}

/// The id of a message that came without one: the same at every redelivery.
#[expect(clippy::expect_used, reason = "a prefix and hex digits are visible ASCII")]
fn fallback_id(message: &Message) -> NotificationId {
    match message.message_id.as_deref().map(NotificationId::parse) {
        Some(Ok(id)) => id,
        _ => NotificationId::parse(&format!("sha256:{}", hex(&content_digest(message)))).expect("hex is visible ASCII"),
    }
}
