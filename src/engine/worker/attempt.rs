//! Attempts of one notification, and what is done after each: the verdict carried out.
//!
//! On the hot path (a 2xx) there is nothing but an in-memory fence check, the endpoint's cached epoch,
//! the request and the ack; a failure is recorded in the store before anything follows from it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{End, Flow, Hold, OpenRequest, Worker};
use crate::ambient;
use crate::broker::{Attached, DeliveryTag};
use crate::delivery::{Method, Origin, Request, Sent};
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::{EndpointChange, EndpointState};
use crate::domain::fingerprint::Fingerprint;
use crate::domain::id::EndpointEpoch;
use crate::domain::message::Message;
use crate::domain::notification::Notification;
use crate::domain::outcome::{FailureKind, Outcome, OutcomeClass};
use crate::domain::pace::PaceChange;
use crate::domain::queue::Head;
use crate::domain::signature::SigningSecret;
use crate::domain::url::EndpointUrl;
use crate::engine::endpoints::{Answered, HELD, InFlight, LiveEndpoint, NEAR};
use crate::engine::traces;
use crate::store::{Changed, PaceChanged, ProbeNext, StoreError, Success};
use crate::telemetry::LoggedAt;

/// Before another request where this process could open no connection for one: others have to end first.
const OWN_LIMIT: Duration = Duration::from_secs(5);

/// All queues meet that limit at once.
static NOT_BEGUN: LoggedAt = LoggedAt::never();

/// Bytes of an error that are kept.
const ERROR_MAX: usize = 1024;

/// One notification in hand.
pub(super) struct InHand {
    pub(super) tag: DeliveryTag,
    pub(super) notification: Notification,
    pub(super) message: Message,
    pub(super) fingerprint: Fingerprint,
    pub(super) endpoint: Arc<LiveEndpoint>,
    /// Its attempt is one of a canary's, and was counted before it began.
    pub(super) of_canary: bool,
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
        (notification, fingerprint): (Notification, Fingerprint),
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
            fingerprint,
            endpoint,
            of_canary: false,
        };
        loop {
            let in_flight = match self.hold.may_start(&mut hand).await {
                Ok(in_flight) => in_flight,
                Err(end) => return Flow::Stop(end),
            };
            let engine = Arc::clone(&self.hold.engine);
            let signing = engine.insist(self.hold.incarnation, || {
                engine.event_table.secrets_of(&hand.notification)
            });
            let Ok(secrets) = signing.await else {
                return Flow::Stop(End::Fenced);
            };
            // The store may have answered late: by then the fence may be closed.
            if let Err(end) = self.hold.may_go_on() {
                self.hold.give_back_of_canary(&hand).await;
                return Flow::Stop(end);
            }
            let Some(tried) = self.attempt(&hand, secrets, in_flight).await else {
                return Flow::Stop(End::Stopping);
            };
            if tried.attempt.class != OutcomeClass::Delivered {
                self.settled.take_out(fingerprint);
            }
            let step = match tried.attempt.class {
                OutcomeClass::Delivered => self.delivered(attached, &mut hand, tried).await,
                OutcomeClass::Interrupted => Step::Stop(self.hold.interrupted(&hand, tried).await),
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

    /// One request; `None` when it was abandoned by a stop before it ended.
    async fn attempt(
        &mut self,
        hand: &InHand,
        secrets: Vec<SigningSecret>,
        in_flight: Option<InFlight>,
    ) -> Option<Tried> {
        self.sequence += 1;
        let epoch = hand.endpoint.epoch();
        let number = self.hold.failures_of(hand) + 1;
        let request = Request {
            url: hand.notification.url.clone(),
            headers: hand.notification.headers.clone(),
            content_type: hand.notification.content_type.clone(),
            body: hand.notification.body.clone(),
            id: hand.notification.id.clone(),
            origin: Some(Origin {
                queue: self.hold.queue.clone(),
                epoch: self.hold.epoch,
                sequence: self.sequence,
            }),
            secrets,
            method: Method::Post,
        };
        let started_at = self.hold.engine.clock.now();
        self.hold.control.request_begins(OpenRequest {
            since_us: u64::try_from(self.hold.engine.clock.uptime().as_micros()).unwrap_or(0),
            bytes: hand.message.body.len(),
        });
        let counted = self.hold.engine.meters.begin();
        let sent = tokio::select! {
            biased;
            sent = self.hold.engine.sender.send(request) => sent,
            () = self.hold.stops.abandon.cancelled() => Sent {
                outcome: Outcome::Failure(FailureKind::Stopped),
                retry_after: None,
                error: Some("interrupted by a stop".to_owned()),
                response: None,
                started_at,
                duration: self.hold.engine.clock.now().since(started_at),
            },
        };
        drop((in_flight, counted));
        self.hold.control.request_ended();
        let attempt = self.hold.attempt_row(hand, &sent, number);
        tracing::trace!(queue = ?self.hold.queue, message = ?attempt.message_id, outcome = ?sent.outcome, took = ?sent.duration, "attempted");
        self.hold.engine.meters.attempted(attempt.class, sent.duration);
        self.count(attempt.class, sent.duration);
        traces::attempted(&hand.notification, &attempt, &sent);
        Some(Tried { sent, attempt, epoch })
    }

    /// In the series of its queue and its endpoint: both are looked up once.
    fn count(&mut self, class: OutcomeClass, took: Duration) {
        let Some(has_failed) = class.has_failed() else {
            return;
        };
        let (engine, queue) = (&self.hold.engine, &self.hold.queue);
        let moves = self.moves.get_or_insert_with(|| engine.seen.series.of(queue));
        for meter in moves {
            if has_failed {
                meter.failed(took);
            } else {
                meter.delivered(took);
            }
        }
    }

    /// A 2xx.
    async fn delivered(&mut self, attached: &mut dyn Attached, hand: &mut InHand, tried: Tried) -> Step {
        let answered = (Answered::Success, tried.sent.duration);
        self.hold.engine.answered(&hand.endpoint, answered);
        self.accepted(attached, hand, tried).await
    }

    /// What counts as delivered: ack, record with the next flush, and open the endpoint if this was its probe. The ack comes
    /// first: a store that is away must not have the message sent again. Until the store is told, the URL stays closed,
    /// and the next probe opens it.
    pub(super) async fn accepted(&mut self, attached: &mut dyn Attached, hand: &mut InHand, tried: Tried) -> Step {
        let settled = self.settle(attached, hand, tried.attempt).await;
        if hand.of_canary {
            self.hold.engine.canary_ended(&hand.endpoint).await;
        }
        if self.hold.probe.is_some()
            && let Err(end) = self.hold.open_endpoint(hand, tried.epoch).await
        {
            return Step::Stop(end);
        }
        settled
    }

    async fn settle(&mut self, attached: &mut dyn Attached, hand: &mut InHand, attempt: Attempt) -> Step {
        let failed = self.hold.record.head.take().is_some() || self.hold.record.refusals_in_row > 0;
        let settles_head = failed.then_some(hand.fingerprint);
        self.hold.record.refusals_in_row = 0;
        if let Some(created) = hand.notification.created_at {
            self.hold
                .engine
                .meters
                .delivered(self.hold.engine.clock.now().since(created));
        }
        let flow = self.ack_delivered(attached, hand.tag, hand.fingerprint).await;
        self.hold.engine.tell_attempt(&attempt);
        self.hold.engine.recorder.push(Success {
            attempt,
            settles_head,
            counted: 0,
        });
        Step::Settled(flow)
    }
}

impl Hold {
    /// Fence, pause, wish, endpoint and rate: everything that may forbid an attempt, the next one of the same
    /// message too (docs/protocols.md 30). What it answers is held while the request is in flight.
    async fn may_start(&self, hand: &mut InHand) -> Result<Option<InFlight>, End> {
        let in_flight = self.wait_for_request(&hand.endpoint).await?;
        self.wait_for_turn(&hand.endpoint).await?;
        self.may_go_on()?;
        if self.probe.is_none() && !hand.endpoint.is_available() {
            return Err(End::EndpointClosed);
        }
        hand.of_canary = false;
        if self.probe.is_none() && hand.endpoint.throttle.is_canary() {
            self.take_of_canary(&hand.endpoint).await?;
            hand.of_canary = true;
            // The store may have answered late.
            if let Err(end) = self.may_go_on() {
                self.give_back_of_canary(hand).await;
                return Err(end);
            }
        }
        Ok(in_flight)
    }

    /// One of the requests that may be in flight to the URL: more of its queues are at work than that while it is swift
    /// (docs/protocols.md 16). One that is not free soon is not waited for with a worker that others could use. A probe is
    /// the only request that begins, whatever is still open from before.
    async fn wait_for_request(&self, endpoint: &LiveEndpoint) -> Result<Option<InFlight>, End> {
        if self.probe.is_some() {
            return Ok(None);
        }
        if let Some(free) = endpoint.requests.try_begin() {
            return Ok(Some(free));
        }
        let mut free = std::pin::pin!(endpoint.requests.begin());
        loop {
            let soon = ambient::timeout(NEAR, &mut free);
            match self.stops.drain.run_until_cancelled(soon).await {
                Some(Ok(free)) => return Ok(free),
                None => return Err(End::Stopping),
                Some(Err(_)) => endpoint.requests.waited(NEAR),
            }
            self.may_go_on()?;
            if !endpoint.is_available() {
                return Err(End::EndpointClosed);
            }
            if self.control.others_wait.load(Ordering::SeqCst) {
                return Err(End::Paced(NEAR));
            }
        }
    }

    /// One more request of a canary, over all daemons: the store counts them.
    async fn take_of_canary(&self, endpoint: &LiveEndpoint) -> Result<(), End> {
        let (engine, url) = (Arc::clone(&self.engine), &endpoint.url);
        let taken = engine
            .insist(self.incarnation, || {
                engine.store.endpoint_pace(url, None, &PaceChange::Take)
            })
            .await;
        match taken.map_err(|()| End::Fenced)? {
            PaceChanged::Done(now) => {
                engine.endpoint_moved(&now);
                Ok(())
            }
            // It is sent, or over: what this process knows now says which.
            PaceChanged::Refused(_, now) => {
                engine.endpoint_moved(&now);
                Err(End::Paced(NEAR))
            }
            PaceChanged::Unknown => Ok(()),
        }
    }

    /// The request that was counted is not begun. A store that is away does not hold the message up: the canary is
    /// smaller by one then.
    async fn give_back_of_canary(&self, hand: &InHand) {
        if !hand.of_canary {
            return;
        }
        let url = &hand.endpoint.url;
        match self.engine.store.endpoint_pace(url, None, &PaceChange::GiveBack).await {
            Ok(PaceChanged::Done(now)) => self.engine.endpoint_moved(&now),
            Ok(PaceChanged::Refused(..) | PaceChanged::Unknown) => {}
            Err(error) => tracing::debug!(error = ?error, "a request of a canary is not given back"),
        }
    }

    /// By the rate and the pace of the URL. A turn that is far is not waited for with a worker that others could use,
    /// and none is waited for while its pace takes nothing: the message goes back to its place.
    async fn wait_for_turn(&self, endpoint: &Arc<LiveEndpoint>) -> Result<(), End> {
        let mut waits = None;
        while endpoint.throttle.is_limited() {
            let now = self.engine.store_time.now();
            // A probe waits for no turn of a canary, and for a person who paused the endpoint.
            if endpoint.throttle.is_braked() || (self.probe.is_none() && endpoint.throttle.is_held(now)) {
                return Err(End::Paced(HELD));
            }
            let Err(wait) = endpoint.throttle.take_turn(self.engine.clock.uptime(), now) else {
                break;
            };
            waits.get_or_insert_with(|| endpoint.throttle.wait());
            if wait > NEAR && self.probe.is_none() && self.control.others_wait.load(Ordering::SeqCst) {
                return Err(End::Paced(wait));
            }
            let drain = &self.stops.drain;
            if drain
                .run_until_cancelled(ambient::sleep(wait.min(NEAR)))
                .await
                .is_none()
            {
                return Err(End::Stopping);
            }
            self.may_go_on()?;
            // The message in hand does not wait for a turn that it could not take.
            if self.probe.is_none() && !endpoint.is_available() {
                return Err(End::EndpointClosed);
            }
        }
        Ok(())
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

    /// What is on record of the message in hand, where it failed before.
    pub(super) fn head_of(&self, hand: &InHand) -> Option<&Head> {
        let is_of_it = |head: &&Head| head.is_about(&hand.notification.id, hand.fingerprint);
        self.record.head.as_ref().filter(is_of_it)
    }

    pub(super) fn failures_of(&self, hand: &InHand) -> u32 {
        self.head_of(hand).map_or(0, |head| head.failures)
    }

    async fn interrupted(&self, hand: &InHand, tried: Tried) -> End {
        let attempt = Attempt {
            counted: false,
            ..tried.attempt
        };
        if let Err(error) = self.engine.store.attempt_record(&attempt).await {
            tracing::warn!(error = ?error, "an interrupted attempt is not in the log");
        }
        if tried.sent.outcome == Outcome::Failure(FailureKind::OwnLimit) {
            if NOT_BEGUN.is_due(self.engine.clock.uptime()) {
                tracing::warn!(queue = ?self.queue, error = ?tried.sent.error, "requests cannot begin: they are tried again and do not count");
            }
            self.give_back_of_canary(hand).await;
            return End::Trouble(OWN_LIMIT);
        }
        End::Stopping
    }

    async fn open_endpoint(&mut self, hand: &InHand, epoch: EndpointEpoch) -> Result<(), End> {
        self.probe = None;
        let (engine, url) = (Arc::clone(&self.engine), &hand.notification.url);
        let applied = engine.insist(self.incarnation, || engine.policy_for(&hand.notification));
        let slow_start = applied.await.map_err(|()| End::Fenced)?.policy.pace();
        let reopen = EndpointChange::Reopen { slow_start };
        let changed = engine
            .insist(self.incarnation, || {
                engine.store.endpoint_change(url, Some(epoch), &reopen)
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
        engine: &crate::engine::delivery::Delivery,
        endpoint: &LiveEndpoint,
        token: i64,
        next: ProbeNext,
    ) {
        if let Err(error) = engine.store.probe_release(&endpoint.url, token, next).await {
            tracing::warn!(error = ?error, "a probe is given back by its timeout only");
        }
        if let Err(error) = engine.look_at_endpoint(&endpoint.url).await {
            tracing::debug!(error = ?error, "an endpoint is read with the next poll");
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

impl crate::engine::core::Core {
    /// Takes over a new state of an endpoint and tells whoever listens.
    pub(in crate::engine) fn endpoint_moved(&self, endpoint: &crate::domain::endpoint::Endpoint) {
        self.move_endpoint(&endpoint.url, endpoint.state, || self.endpoints.update(endpoint));
    }

    /// Reads an endpoint and takes over what the store says of it, also when the store went back.
    pub(in crate::engine) async fn look_at_endpoint(&self, url: &EndpointUrl) -> Result<(), StoreError> {
        let question = self.endpoints.question();
        let found = self.store.endpoint_get(url).await?;
        let state = found
            .as_ref()
            .map_or(EndpointState::Available, |endpoint| endpoint.state);
        self.move_endpoint(url, state, || self.endpoints.believe(url, found.as_ref(), question));
        Ok(())
    }

    /// Takes a change of an endpoint over and tells the listeners that it is in `state`.
    fn move_endpoint(&self, url: &EndpointUrl, state: EndpointState, change: impl FnOnce() -> Arc<LiveEndpoint>) {
        let was_available = self.endpoints.get(url).is_available();
        let live = change();
        if was_available != live.is_available() || state != EndpointState::Available {
            self.tell(crate::engine::Event::EndpointChanged {
                url: live.url.clone(),
                state,
            });
        }
        self.endpoints.changed.notify_one();
    }

    /// A request of a canary ended well. A store that is away does not hold the message up: the canary passes later.
    async fn canary_ended(&self, endpoint: &LiveEndpoint) {
        match self.store.endpoint_pace(&endpoint.url, None, &PaceChange::Ended).await {
            Ok(PaceChanged::Done(now)) => self.endpoint_moved(&now),
            Ok(PaceChanged::Refused(..) | PaceChanged::Unknown) => {}
            Err(error) => tracing::debug!(error = ?error, "the end of a request of a canary is not recorded"),
        }
    }

    /// How an endpoint answered; the dispatcher is told when that changes what it may do.
    pub(super) fn answered(&self, endpoint: &LiveEndpoint, answered: (Answered, Duration)) {
        if self.endpoints.answered(endpoint, answered, self.store_time.now()) {
            self.endpoints.changed.notify_one();
        }
    }

    pub(super) fn tell_attempt(&self, attempt: &Attempt) {
        if self.news.events.receiver_count() > 0 {
            self.tell(crate::engine::Event::Attempted(Box::new(attempt.clone())));
        }
    }
}
