//! Attempts of one notification, and what is done after each: the verdict carried out.
//!
//! On the hot path (a 2xx) there is nothing but an in-memory fence check, the endpoint's cached epoch,
//! the request and the ack; a failure is recorded in the store before anything follows from it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{End, Flow, Worker};
use crate::broker::{Attached, DeliveryTag};
use crate::delivery::{Method, Origin, Request, Sent};
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::{EndpointChange, EndpointState};
use crate::domain::id::EndpointEpoch;
use crate::domain::message::Message;
use crate::domain::notification::Notification;
use crate::domain::outcome::{FailureKind, Outcome, OutcomeClass};
use crate::domain::signature::SigningSecret;
use crate::engine::endpoints::{Answered, LiveEndpoint, NEAR};
use crate::store::{Changed, ProbeNext, Success};

/// Bytes of an error that are kept.
const ERROR_MAX: usize = 1024;

/// One notification in hand.
pub(super) struct InHand {
    pub(super) tag: DeliveryTag,
    pub(super) notification: Notification,
    pub(super) message: Message,
    pub(super) endpoint: Arc<LiveEndpoint>,
}

/// What one attempt was.
pub(super) struct Tried {
    pub(super) sent: Sent,
    pub(super) attempt: Attempt,
    /// The endpoint's epoch that it began with.
    pub(super) epoch: EndpointEpoch,
}

impl Worker {
    /// Sends a notification until it is settled or there is a reason to let go.
    pub(super) async fn notification(
        &mut self,
        attached: &mut dyn Attached,
        tag: DeliveryTag,
        notification: Notification,
        message: Message,
    ) -> Flow {
        let endpoint = match self.learn(&notification).await {
            Ok(endpoint) => endpoint,
            Err(end) => return Flow::Stop(end),
        };
        let mut hand = InHand {
            tag,
            notification,
            message,
            endpoint,
        };
        loop {
            if let Err(end) = self.may_start(&hand).await {
                return Flow::Stop(end);
            }
            let engine = Arc::clone(&self.engine);
            let signing = engine.insist(self.incarnation, || engine.secrets_of(&hand.notification));
            let Ok(secrets) = signing.await else {
                return Flow::Stop(End::Fenced);
            };
            let Some(tried) = self.attempt(&hand, secrets).await else {
                return Flow::Stop(End::Stopping);
            };
            let step = match tried.attempt.class {
                OutcomeClass::Delivered => self.delivered(attached, &mut hand, tried).await,
                OutcomeClass::Interrupted => Step::Stop(self.interrupted(tried).await),
                OutcomeClass::Failed | OutcomeClass::Refused | OutcomeClass::Gone => {
                    self.failed(attached, &mut hand, tried).await
                }
            };
            match step {
                Step::Again => {}
                Step::Settled(flow) => return flow,
                Step::Stop(end) => return Flow::Stop(end),
            }
        }
    }

    /// Fence, endpoint and rate: everything that may forbid an attempt.
    async fn may_start(&self, hand: &InHand) -> Result<(), End> {
        self.wait_for_turn(&hand.endpoint).await?;
        if self.stops.drain.is_cancelled() {
            return Err(End::Stopping);
        }
        if !self.engine.fence.permits(self.incarnation) {
            return Err(End::Fenced);
        }
        if self.probe.is_none() && !hand.endpoint.is_available() {
            return Err(End::EndpointClosed);
        }
        Ok(())
    }

    /// By the rate of the URL. A turn that is far is not waited for with a worker that others could use.
    async fn wait_for_turn(&self, endpoint: &LiveEndpoint) -> Result<(), End> {
        while let Err(wait) = endpoint.take_turn(self.engine.clock.now()) {
            if wait > NEAR && self.probe.is_none() && self.control.others_wait.load(Ordering::SeqCst) {
                return Err(End::Paced(wait));
            }
            tokio::select! {
                () = tokio::time::sleep(wait.min(NEAR)) => {}
                () = self.stops.drain.cancelled() => return Err(End::Stopping),
            }
        }
        Ok(())
    }

    /// One request; `None` when it was abandoned by a stop before it ended.
    async fn attempt(&mut self, hand: &InHand, secrets: Vec<SigningSecret>) -> Option<Tried> {
        self.sequence += 1;
        let epoch = hand.endpoint.epoch();
        let number = self.failures_of(hand) + 1;
        let request = Request {
            url: hand.notification.url.clone(),
            headers: hand.notification.headers.clone(),
            content_type: hand.notification.content_type.clone(),
            body: hand.notification.body.clone(),
            id: hand.notification.id.clone(),
            origin: Some(Origin {
                queue: self.queue.clone(),
                epoch: self.epoch,
                sequence: self.sequence,
            }),
            secrets,
            method: Method::Post,
        };
        let started_at = self.engine.clock.now();
        let sent = tokio::select! {
            biased;
            sent = self.engine.sender.send(request) => sent,
            () = self.stops.abandon.cancelled() => Sent {
                outcome: Outcome::Failure(FailureKind::Stopped),
                retry_after: None,
                error: Some("interrupted by a stop".to_owned()),
                response: None,
                started_at,
                duration: self.engine.clock.now().since(started_at),
            },
        };
        let attempt = self.attempt_row(hand, &sent, number);
        tracing::trace!(queue = ?self.queue, message = ?attempt.message_id, outcome = ?sent.outcome, took = ?sent.duration, "attempted");
        self.engine.meters.attempted(attempt.class, sent.duration);
        Some(Tried { sent, attempt, epoch })
    }

    fn attempt_row(&self, hand: &InHand, sent: &Sent, number: u32) -> Attempt {
        Attempt {
            message_id: hand.notification.id.clone(),
            queue: self.queue.clone(),
            url: hand.notification.url.clone(),
            number,
            epoch: self.epoch,
            started_at: sent.started_at,
            duration_ms: u64::try_from(sent.duration.as_millis()).unwrap_or(u64::MAX),
            class: sent.outcome.class(),
            status: match sent.outcome {
                Outcome::Status(status) => Some(status),
                Outcome::Failure(_) => None,
            },
            error: sent.error.as_deref().map(bounded),
            response: sent.response.clone(),
            counted: true,
        }
    }

    pub(super) fn failures_of(&self, hand: &InHand) -> u32 {
        self.record
            .head
            .as_ref()
            .filter(|head| head.message == hand.notification.id)
            .map_or(0, |head| head.failures)
    }

    async fn interrupted(&self, tried: Tried) -> End {
        let attempt = Attempt {
            counted: false,
            ..tried.attempt
        };
        if let Err(error) = self.engine.store.attempt_record(&attempt).await {
            tracing::warn!(error = ?error, "an interrupted attempt is not in the log");
        }
        End::Stopping
    }

    /// A 2xx: open the endpoint if this was its probe, ack, record with the next flush.
    async fn delivered(&mut self, attached: &mut dyn Attached, hand: &mut InHand, tried: Tried) -> Step {
        hand.endpoint.answered(Answered::Success, self.engine.clock.now());
        if self.probe.is_some()
            && let Err(end) = self.open_endpoint(hand, tried.epoch).await
        {
            return Step::Stop(end);
        }
        self.settle(attached, hand, tried.attempt).await
    }

    pub(super) async fn settle(&mut self, attached: &mut dyn Attached, hand: &mut InHand, attempt: Attempt) -> Step {
        let settles_head = self.record.head.take().is_some() || self.record.refusals_in_row > 0;
        self.record.refusals_in_row = 0;
        if let Some(created) = hand.notification.created_at {
            self.engine.meters.delivered(self.engine.clock.now().since(created));
        }
        self.settled.push(&hand.message);
        let flow = self.ack_delivered(attached, hand.tag).await;
        self.engine.tell_attempt(&attempt);
        self.engine.recorder.push(Success { attempt, settles_head });
        Step::Settled(flow)
    }

    async fn open_endpoint(&mut self, hand: &InHand, epoch: EndpointEpoch) -> Result<(), End> {
        self.probe = None;
        let (engine, url) = (Arc::clone(&self.engine), &hand.notification.url);
        let changed = engine
            .insist(self.incarnation, || {
                engine.store.endpoint_change(url, Some(epoch), &EndpointChange::Open)
            })
            .await;
        match changed.map_err(|()| End::Fenced)? {
            Changed::Done { now, .. } | Changed::Stale(now) => engine.endpoint_moved(&now),
            Changed::Unknown => {}
        }
        Ok(())
    }

    /// Gives an unused probe back.
    pub(in crate::engine) async fn release_probe(
        engine: &crate::engine::Inner,
        endpoint: &LiveEndpoint,
        token: i64,
        next: ProbeNext,
    ) {
        if let Err(error) = engine.store.probe_release(&endpoint.url, token, next).await {
            tracing::warn!(error = ?error, "a probe is given back by its timeout only");
        }
        if let Ok(Some(now)) = engine.store.endpoint_get(&endpoint.url).await {
            engine.endpoint_moved(&now);
        }
    }
}

/// What follows after an attempt.
pub(super) enum Step {
    /// The same message again, at once.
    Again,
    /// The message is settled (or has to be found out by attaching again).
    Settled(Flow),
    /// Let go of the queue.
    Stop(End),
}

fn bounded(text: &str) -> String {
    text.chars().take(ERROR_MAX).collect()
}

impl crate::engine::Inner {
    /// Takes over a new state of an endpoint and tells whoever listens.
    pub(in crate::engine) fn endpoint_moved(&self, endpoint: &crate::domain::endpoint::Endpoint) {
        let live = self.endpoints.get(&endpoint.url);
        let was = live.is_available();
        live.update(endpoint);
        if was != live.is_available() || endpoint.state != EndpointState::Available {
            self.tell(crate::engine::Event::EndpointChanged {
                url: endpoint.url.clone(),
                state: endpoint.state,
            });
        }
        self.endpoints_moved.notify_one();
    }

    pub(super) fn tell_attempt(&self, attempt: &Attempt) {
        if self.events.receiver_count() > 0 {
            self.tell(crate::engine::Event::Attempted(Box::new(attempt.clone())));
        }
    }
}
