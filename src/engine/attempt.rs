//! Attempts of one notification, and what is done after each: the verdict carried out.
//!
//! On the hot path (a 2xx) there is nothing but an in-memory fence check, the endpoint's cached epoch,
//! the request and the ack; a failure is recorded in the store before anything follows from it.

use std::sync::Arc;
use std::time::Duration;

use super::dead_letter::LastAttempt;
use super::endpoints::{Answered, LiveEndpoint};
use super::worker::{End, Flow, Worker};
use crate::broker::{Attached, DeliveryTag};
use crate::delivery::{Method, Origin, Request, Sent};
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::{EndpointChange, EndpointState};
use crate::domain::id::EndpointEpoch;
use crate::domain::message::Message;
use crate::domain::notification::Notification;
use crate::domain::outcome::{FailureKind, Outcome, OutcomeClass};
use crate::domain::policy::{Override, Phase, RetryPolicy, Schedule};
use crate::domain::queue::{Decision, Head};
use crate::domain::verdict::{DeadReason, Scope, Situation, Verdict, decide};
use crate::store::{Changed, Failure, FailureRecorded, HeadScope, ProbeNext, Success, Tally};

/// Bytes of an error that are kept.
const ERROR_MAX: usize = 1024;

/// One notification in hand.
struct InHand {
    tag: DeliveryTag,
    notification: Notification,
    message: Message,
    endpoint: Arc<LiveEndpoint>,
}

/// What one attempt was.
struct Tried {
    sent: Sent,
    attempt: Attempt,
    /// The endpoint's epoch that it began with.
    epoch: EndpointEpoch,
}

/// What follows from a failure, before it is recorded.
struct Consequence {
    failures: u32,
    phase: Option<Phase>,
    delay: Option<Duration>,
    parked: bool,
    endpoint: Option<EndpointChange>,
    decision: Option<Decision>,
    end: Option<End>,
}

impl Consequence {
    const fn nothing(failures: u32) -> Self {
        Self {
            failures,
            phase: None,
            delay: None,
            parked: false,
            endpoint: None,
            decision: None,
            end: None,
        }
    }
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
            let Some(tried) = self.attempt(&hand).await else {
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
        if let Some(wait) = hand.endpoint.turn(self.engine.clock.now()) {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.stops.drain.cancelled() => return Err(End::Stopping),
            }
        }
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

    /// One request; `None` when it was abandoned by a stop before it ended.
    async fn attempt(&mut self, hand: &InHand) -> Option<Tried> {
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

    fn failures_of(&self, hand: &InHand) -> u32 {
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

    async fn settle(&mut self, attached: &mut dyn Attached, hand: &mut InHand, attempt: Attempt) -> Step {
        let settles_head = self.record.head.take().is_some() || self.record.refusals_in_row > 0;
        self.record.refusals_in_row = 0;
        if let Some(created) = hand.notification.created_at {
            self.engine.meters.delivered(self.engine.clock.now().since(created));
        }
        self.keep_delivered(&hand.message);
        let flow = self.ack(attached, hand.tag).await;
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

    /// Anything but a 2xx: decide, record, then act.
    async fn failed(&mut self, attached: &mut dyn Attached, hand: &mut InHand, tried: Tried) -> Step {
        let answer = if tried.attempt.status.is_some() {
            Answered::Answer
        } else {
            Answered::Nothing
        };
        hand.endpoint.answered(answer, self.engine.clock.now());
        if matches!(tried.sent.outcome, Outcome::Failure(FailureKind::BadRequest)) {
            return self.cannot_be_sent(attached, hand, &tried).await;
        }
        if self.probe.is_none() && hand.endpoint.epoch() != tried.epoch {
            return Step::Stop(self.stale(tried).await);
        }
        let Ok(policy) = self.engine.policy_for(&hand.notification, self.incarnation).await else {
            return Step::Stop(End::Fenced);
        };
        let schedule = policy.schedule_with(Override {
            polling_time_s: hand.notification.polling_time_s,
            restart_count: hand.notification.restart_count,
        });
        let verdict = match self.decide(hand, &tried, &policy, &schedule).await {
            Ok(verdict) => verdict,
            Err(end) => return Step::Stop(end),
        };
        if verdict == Verdict::Delivered {
            return self.settle(attached, hand, tried.attempt).await;
        }
        let consequence = self.consequence(hand, &tried, verdict);
        let decision = consequence.decision.clone();
        match self.record_failure(hand, &tried, &consequence, &schedule).await {
            Err(end) => return Step::Stop(end),
            Ok(Counted::No) => return Step::Stop(End::EndpointClosed),
            Ok(Counted::Yes) => {}
        }
        if let Some(decision) = decision {
            return self.bury(attached, hand, &tried, &decision, &policy).await;
        }
        consequence.end.map_or(Step::Again, Step::Stop)
    }

    async fn decide(
        &self,
        hand: &InHand,
        tried: &Tried,
        policy: &RetryPolicy,
        schedule: &Schedule,
    ) -> Result<Verdict, End> {
        let fault = tried.sent.outcome.fault();
        let own = fault == crate::domain::outcome::Fault::Message || tried.attempt.class == OutcomeClass::Refused;
        let tally = if own {
            self.tally(hand).await?
        } else {
            Tally {
                failing: 1,
                queues: u32::MAX,
            }
        };
        let cap = self.engine.settings.retry_after_cap.as_secs();
        let hint = tried
            .sent
            .outcome
            .hint_s(tried.sent.retry_after.as_deref(), self.engine.clock.now(), cap);
        Ok(decide(&Situation {
            class: tried.attempt.class,
            fault,
            failures: self.failures_of(hand),
            refusals_in_row: self.record.refusals_in_row,
            retry_after: hint.map(Duration::from_secs),
            policy,
            schedule,
            failing_heads: tally.failing,
            queues: tally.queues,
            roll: crate::ambient::roll(),
        }))
    }

    /// Queues of the URL in trouble, this one included whether or not its failure is recorded yet.
    async fn tally(&self, hand: &InHand) -> Result<Tally, End> {
        let (engine, url, since) = (
            Arc::clone(&self.engine),
            &hand.notification.url,
            hand.endpoint.last_success(),
        );
        let tally = engine
            .insist(self.incarnation, || engine.store.heads_failing(url, since))
            .await
            .map_err(|()| End::Fenced)?;
        let recorded = self.failures_of(hand) > 0 || self.record.refusals_in_row > 0;
        Ok(Tally {
            failing: tally.failing + u32::from(!recorded),
            queues: tally.queues,
        })
    }

    /// What the verdict changes, in the order in which it is recorded.
    fn consequence(&self, hand: &InHand, tried: &Tried, verdict: Verdict) -> Consequence {
        let none = Consequence::nothing(self.failures_of(hand));
        match verdict {
            Verdict::Delivered | Verdict::HandBack => none,
            Verdict::Disable => Consequence {
                failures: none.failures + 1,
                endpoint: Some(EndpointChange::Disable {
                    reason: "answered 410 (gone)".to_owned(),
                }),
                end: Some(End::EndpointClosed),
                ..none
            },
            Verdict::RetryNow { failures, phase } => Consequence {
                failures,
                phase: Some(phase),
                ..none
            },
            Verdict::RetryLater {
                failures,
                delay,
                phase,
                scope,
            } => Consequence {
                failures,
                phase: Some(phase),
                ..self.waiting(hand, failures, delay, scope)
            },
            Verdict::Park { failures, scope } => Consequence {
                failures,
                ..self.parking(scope)
            },
            Verdict::DeadLetter { failures, reason } => Consequence {
                failures,
                endpoint: self.probe.map(|_| EndpointChange::ProbeNext {
                    queue: Some(self.queue.clone()),
                }),
                decision: Some(self.new_decision(tried.attempt.message_id.clone(), reason)),
                ..none
            },
        }
    }

    fn waiting(&self, hand: &InHand, failures: u32, delay: Duration, scope: Scope) -> Consequence {
        let none = Consequence::nothing(failures);
        match scope {
            Scope::Url => Consequence {
                endpoint: Some(self.closing(hand, failures, delay)),
                end: Some(End::EndpointClosed),
                ..none
            },
            Scope::Queue => Consequence {
                delay: Some(delay),
                endpoint: self.elsewhere(),
                end: Some(End::Waits(delay)),
                ..none
            },
        }
    }

    fn parking(&self, scope: Scope) -> Consequence {
        let none = Consequence::nothing(0);
        match scope {
            Scope::Url => Consequence {
                endpoint: Some(EndpointChange::Park),
                end: Some(End::EndpointClosed),
                ..none
            },
            Scope::Queue => Consequence {
                parked: true,
                endpoint: self.elsewhere(),
                end: Some(End::Parked),
                ..none
            },
        }
    }

    /// A probe that failed by its own fault says nothing of the URL: another queue gives the next.
    fn elsewhere(&self) -> Option<EndpointChange> {
        self.probe.map(|_| EndpointChange::ProbeNext { queue: None })
    }

    fn closing(&self, hand: &InHand, failures: u32, delay: Duration) -> EndpointChange {
        if self.probe.is_some() {
            EndpointChange::ProbeFailed {
                attempts: failures,
                delay,
            }
        } else {
            EndpointChange::Close {
                queue: self.queue.clone(),
                message: hand.notification.id.clone(),
                attempts: failures,
                delay,
            }
        }
    }

    async fn record_failure(
        &mut self,
        hand: &InHand,
        tried: &Tried,
        consequence: &Consequence,
        schedule: &Schedule,
    ) -> Result<Counted, End> {
        let refused = tried.attempt.class == OutcomeClass::Refused;
        let refusals_in_row = if refused {
            self.record.refusals_in_row + 1
        } else {
            self.record.refusals_in_row
        };
        let head = self.head_after(tried, consequence, schedule);
        let failure = Failure {
            attempt: tried.attempt.clone(),
            head: head.clone(),
            delay: consequence.delay,
            refusals_in_row,
            endpoint: consequence.endpoint.clone().map(|change| (tried.epoch, change)),
            decision: consequence.decision.clone(),
        };
        let engine = Arc::clone(&self.engine);
        let recorded = engine
            .insist(self.incarnation, || engine.store.failure_record(&failure))
            .await;
        self.engine.tell_attempt(&tried.attempt);
        let FailureRecorded::Recorded {
            endpoint,
            endpoint_changed,
            ..
        } = recorded.map_err(|()| End::Fenced)?
        else {
            return Err(End::Fenced);
        };
        self.record.head = Some(head);
        self.record.refusals_in_row = refusals_in_row;
        self.record.decision.clone_from(&consequence.decision);
        if consequence.endpoint.is_some() {
            self.probe = None;
        }
        if let Some(endpoint) = endpoint {
            engine.endpoint_moved(&endpoint);
        }
        if endpoint_changed {
            return Ok(Counted::Yes);
        }
        // Somebody changed the endpoint while the request was in flight: the failure does not count.
        let scope = HeadScope::Queue(self.queue.clone());
        engine
            .insist(self.incarnation, || engine.store.heads_reset(&scope))
            .await
            .map_err(|()| End::Fenced)?;
        if let Ok(Some(now)) = engine.store.endpoint_get(&hand.notification.url).await {
            engine.endpoint_moved(&now);
        }
        Ok(if consequence.decision.is_some() {
            Counted::Yes
        } else {
            Counted::No
        })
    }

    fn head_after(&self, tried: &Tried, consequence: &Consequence, schedule: &Schedule) -> Head {
        let first = self
            .record
            .head
            .as_ref()
            .map_or(tried.attempt.started_at, |head| head.first_failed_at);
        Head {
            message: tried.attempt.message_id.clone(),
            failures: consequence.failures,
            first_failed_at: first,
            last_failed_at: self.engine.clock.now(),
            last_status: tried.attempt.status,
            last_error: tried.attempt.error.clone(),
            next_attempt_at: consequence.delay.map(|delay| self.engine.clock.now().plus(delay)),
            parked: consequence.parked,
            phase: consequence.phase,
            attempts_allowed: schedule.attempts(),
        }
    }

    async fn bury(
        &mut self,
        attached: &mut dyn Attached,
        hand: &InHand,
        tried: &Tried,
        decision: &Decision,
        policy: &RetryPolicy,
    ) -> Step {
        let last = LastAttempt {
            class: Some(tried.attempt.class.as_str()),
            status: tried.attempt.status,
            error: tried.attempt.error.clone(),
            response: tried.attempt.response.clone(),
            policy: Some(format!("{policy:?}")),
        };
        match self
            .carry_out(attached, hand.tag, &hand.message, decision, Some(last))
            .await
        {
            // The endpoint is still not available: the dispatcher claims the next probe.
            Flow::Continue if !hand.endpoint.is_available() => Step::Stop(End::EndpointClosed),
            flow @ (Flow::Continue | Flow::Reattach | Flow::Stop(_)) => Step::Settled(flow),
        }
    }

    /// The request can never be made (a header that cannot be sent): a dead letter at once.
    async fn cannot_be_sent(&mut self, attached: &mut dyn Attached, hand: &InHand, tried: &Tried) -> Step {
        let decision = self.new_decision(hand.notification.id.clone(), DeadReason::Undecodable);
        let (engine, queue) = (Arc::clone(&self.engine), self.queue.clone());
        match engine
            .insist(self.incarnation, || engine.store.decision_open(&queue, &decision))
            .await
        {
            Ok(true) => {}
            Ok(false) | Err(()) => return Step::Stop(End::Fenced),
        }
        let last = LastAttempt {
            error: tried.attempt.error.clone(),
            ..LastAttempt::default()
        };
        Step::Settled(
            self.carry_out(attached, hand.tag, &hand.message, &decision, Some(last))
                .await,
        )
    }

    /// The endpoint's state changed while the request was in flight: its failure does not count.
    async fn stale(&self, tried: Tried) -> End {
        let attempt = Attempt {
            counted: false,
            ..tried.attempt
        };
        if let Err(error) = self.engine.store.attempt_record(&attempt).await {
            tracing::warn!(error = ?error, "an attempt is not in the log");
        }
        End::EndpointClosed
    }

    /// Gives an unused probe back.
    pub(super) async fn release_probe(engine: &super::Inner, endpoint: &LiveEndpoint, token: i64, next: ProbeNext) {
        if let Err(error) = engine.store.probe_release(&endpoint.url, token, next).await {
            tracing::warn!(error = ?error, "a probe is given back by its timeout only");
        }
        if let Ok(Some(now)) = engine.store.endpoint_get(&endpoint.url).await {
            engine.endpoint_moved(&now);
        }
    }
}

/// What follows after an attempt.
enum Step {
    /// The same message again, at once.
    Again,
    /// The message is settled (or has to be found out by attaching again).
    Settled(Flow),
    /// Let go of the queue.
    Stop(End),
}

/// Whether a failure counts.
enum Counted {
    Yes,
    No,
}

fn bounded(text: &str) -> String {
    text.chars().take(ERROR_MAX).collect()
}

impl super::Inner {
    /// Takes over a new state of an endpoint and tells whoever listens.
    pub(super) fn endpoint_moved(&self, endpoint: &crate::domain::endpoint::Endpoint) {
        let live = self.endpoints.get(&endpoint.url);
        let was = live.is_available();
        live.update(endpoint);
        if was != live.is_available() || endpoint.state != EndpointState::Available {
            self.tell(super::Event::EndpointChanged {
                url: endpoint.url.clone(),
                state: endpoint.state,
            });
        }
        self.endpoints_moved.notify_one();
    }

    fn tell_attempt(&self, attempt: &Attempt) {
        if self.events.receiver_count() > 0 {
            self.tell(super::Event::Attempted(Box::new(attempt.clone())));
        }
    }

    /// The policy that applies now: the URL's stands for the subscription's, the configuration's for the
    /// queue's.
    async fn policy_for(
        &self,
        notification: &Notification,
        incarnation: crate::domain::id::IncarnationId,
    ) -> Result<RetryPolicy, ()> {
        let scope = crate::store::PolicyScope {
            event_type: None,
            url: Some(notification.url.clone()),
        };
        let saved = self.insist(incarnation, || self.store.policy_get(&scope)).await?;
        let saved = saved
            .and_then(|version| version.document)
            .and_then(|document| super::policies::read(&document));
        let (policy, _) = crate::domain::policy::applicable(
            Some(&self.settings.default_policy),
            saved.as_ref(),
            &self.settings.default_policy,
        );
        Ok(policy.clone())
    }
}
