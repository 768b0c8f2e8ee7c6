//! What a worker does with one message: finds out what it is, and which head or decision it is about.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{End, Flow, Worker, guarded};
use crate::broker::{Attached, Delivery, DeliveryTag, Look, Published};
use crate::domain::id::NotificationId;
use crate::domain::message::Message;
use crate::domain::naming::hex;
use crate::domain::notification::{Decoded, Notification, decode_from};
use crate::domain::queue::{Closing, Decision, Head};
use crate::domain::url::EndpointUrl;
use crate::domain::verdict::DeadReason;
use crate::engine::dead_letter::{LastAttempt, dead_letter};
use crate::engine::dispatch::Tell;
use crate::engine::endpoints::LiveEndpoint;
use crate::engine::settled::fingerprint;
use crate::store::{LearnedQueue, QueueMark};
use crate::telemetry::names;

impl Worker {
    pub(super) async fn message(&mut self, attached: &mut dyn Attached, delivery: Delivery) -> Flow {
        if self.settled.came_again(&delivery.message, delivery.redelivered) {
            return self.ack(attached, delivery.tag).await;
        }
        let message = delivery.message;
        let decoded = self.decode(&message);
        let id = match &decoded {
            Decoded::Notification(notification) => notification.id.clone(),
            Decoded::End | Decoded::Foreign(_) => fallback_id(&message),
        };
        if let Err(end) = self.meet_head(&id).await {
            return Flow::Stop(end);
        }
        if let Some(decision) = self.record.decision.clone() {
            return self.carry_out(attached, delivery.tag, &message, &decision, None).await;
        }
        match decoded {
            Decoded::Notification(notification) => {
                self.notification(attached, delivery.tag, *notification, message).await
            }
            Decoded::End => self.end_mark(attached, delivery.tag).await,
            Decoded::Foreign(why) => self.foreign(attached, delivery.tag, &message, id, &why).await,
        }
    }

    fn decode(&self, message: &Message) -> Decoded {
        let decoded = decode_from(message, self.record.url.as_ref(), &|| fallback_id(message));
        let Decoded::Notification(notification) = &decoded else {
            return decoded;
        };
        let known = self.record.url.as_ref() == Some(&notification.url)
            && self.record.execution.as_ref() == Some(&notification.execution);
        if known
            || self
                .engine
                .settings
                .naming
                .delivery_queue(&notification.execution, &notification.url)
                == self.queue
        {
            return decoded;
        }
        Decoded::Foreign("execution and url belong to another queue".to_owned())
    }

    /// The stored head is about this message, or is forgotten together with a decision about it.
    async fn meet_head(&mut self, id: &NotificationId) -> Result<(), End> {
        if self
            .record
            .decision
            .as_ref()
            .is_some_and(|decision| decision.message != *id)
        {
            let decision = self
                .record
                .decision
                .take()
                .map(|decision| decision.id)
                .unwrap_or_default();
            let (engine, queue, epoch) = (Arc::clone(&self.engine), self.queue.clone(), self.epoch);
            let closed = engine
                .insist(self.incarnation, || {
                    engine.store.decision_close(&queue, epoch, &decision)
                })
                .await;
            guarded(closed)?;
            self.record.head = None;
        }
        if self.record.head.as_ref().is_some_and(|head| head.message != *id) {
            self.record.head = None;
            self.mark(QueueMark::HeadGone).await?;
        }
        if self.record.closing != Closing::Open {
            self.record.closing = Closing::Open;
            self.mark(QueueMark::Closing(Closing::Open)).await?;
        }
        Ok(())
    }

    /// Records execution and URL the first time they are seen, and finds the endpoint.
    pub(super) async fn learn(&mut self, notification: &Notification) -> Result<Arc<LiveEndpoint>, End> {
        if let Some(endpoint) = &self.endpoint
            && endpoint.url == notification.url
        {
            return Ok(Arc::clone(endpoint));
        }
        let learned = LearnedQueue {
            name: self.queue.clone(),
            execution: notification.execution.clone(),
            url: notification.url.clone(),
        };
        self.mark(QueueMark::Learned(learned)).await?;
        self.record.url = Some(notification.url.clone());
        self.record.execution = Some(notification.execution.clone());
        let (engine, url) = (Arc::clone(&self.engine), notification.url.clone());
        let stored = engine
            .insist(self.incarnation, || engine.store.endpoint_get(&url))
            .await
            .map_err(|()| End::Fenced)?;
        let endpoint = match stored {
            Some(stored) => engine.endpoints.update(&stored),
            None => engine.endpoints.get(&url),
        };
        let had_slot = self.endpoint.replace(Arc::clone(&endpoint)).is_some();
        if !had_slot {
            self.ask_for_slot(&notification.url).await?;
        }
        Ok(endpoint)
    }

    /// PROTOCOLS.md 16: a queue whose URL was not known is attached to learn it; nothing is sent from it
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

    /// PROTOCOLS.md 11: record *ended*, ack the mark; the channel is closed next.
    async fn end_mark(&mut self, attached: &mut dyn Attached, tag: DeliveryTag) -> Flow {
        if let Err(end) = self.mark(QueueMark::Closing(Closing::Ended)).await {
            return Flow::Stop(end);
        }
        self.record.closing = Closing::Ended;
        match self.ack(attached, tag).await {
            Flow::Continue => Flow::Stop(End::Ended),
            lost @ (Flow::Reattach | Flow::Stop(_)) => lost,
        }
    }

    /// Something behind the end mark means a rerun: the mark is ignored.
    pub(super) async fn is_rerun(&mut self) -> Result<bool, End> {
        match self.engine.broker.look(&self.queue).await {
            Ok(Look::Present { ready: 0, .. }) => Ok(false),
            Ok(Look::Present { .. }) => {
                self.record.closing = Closing::Open;
                self.mark(QueueMark::Closing(Closing::Open)).await?;
                Ok(true)
            }
            Ok(Look::Missing) => Err(End::Gone),
            Err(_) => Err(End::Trouble(Duration::from_secs(1))),
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
        tracing::warn!(queue = ?self.queue, why = ?why, "message is not a notification: moved to the dead letters");
        let decision = self.new_decision(id, DeadReason::Undecodable);
        let (engine, queue) = (Arc::clone(&self.engine), self.queue.clone());
        let opened = engine
            .insist(self.incarnation, || engine.store.decision_open(&queue, &decision))
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

    pub(super) fn new_decision(&self, message: NotificationId, reason: DeadReason) -> Decision {
        Decision {
            id: crate::ambient::new_id(),
            message,
            reason: reason.as_str().to_owned(),
            epoch: self.epoch,
        }
    }

    /// PROTOCOLS.md 17: the decision is committed; publish with confirm, ack, close it.
    pub(super) async fn carry_out(
        &mut self,
        attached: &mut dyn Attached,
        tag: DeliveryTag,
        message: &Message,
        decision: &Decision,
        last: Option<LastAttempt>,
    ) -> Flow {
        self.record.decision = Some(decision.clone());
        let last = last.unwrap_or_else(|| known_of(self.record.head.as_ref()));
        let head = self.record.head.as_ref();
        let letter = dead_letter(message, &self.queue, decision, head, &last, self.engine.clock.now());
        match self.engine.broker.publish_dead(&letter).await {
            Ok(Published::Accepted) => {}
            Ok(Published::Returned | Published::Refused(_)) | Err(_) => {
                tracing::warn!(queue = ?self.queue, "dead letter is not confirmed, trying again");
                return Flow::Stop(End::Trouble(Duration::from_secs(1)));
            }
        }
        let flow = self.ack(attached, tag).await;
        if !matches!(flow, Flow::Continue) {
            return flow;
        }
        let (engine, queue, epoch) = (Arc::clone(&self.engine), self.queue.clone(), self.epoch);
        let closed = engine
            .insist(self.incarnation, || {
                engine.store.decision_close(&queue, epoch, &decision.id)
            })
            .await;
        if let Err(end) = guarded(closed) {
            return Flow::Stop(end);
        }
        self.record.decision = None;
        self.record.head = None;
        metrics::counter!(names::DEAD_LETTERS, "reason" => decision.reason.clone()).increment(1);
        self.engine.tell(crate::engine::Event::DeadLettered {
            queue: self.queue.clone(),
            reason: decision.reason.clone(),
        });
        Flow::Continue
    }
}

fn known_of(head: Option<&Head>) -> LastAttempt {
    LastAttempt {
        status: head.and_then(|head| head.last_status),
        error: head.and_then(|head| head.last_error.clone()),
        ..Default::default()
    }
}

/// The id of a message that came without one: the same at every redelivery.
#[expect(clippy::expect_used, reason = "a prefix and hex digits are visible ASCII")]
fn fallback_id(message: &Message) -> NotificationId {
    match message.message_id.as_deref().map(NotificationId::parse) {
        Some(Ok(id)) => id,
        _ => NotificationId::parse(&format!("sha256:{}", hex(&fingerprint(message)))).expect("hex is visible ASCII"),
    }
}
