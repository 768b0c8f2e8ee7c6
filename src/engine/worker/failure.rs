//! Anything but a 2xx: decide, record, then act. A failure is in the store before anything follows from it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::attempt::{InHand, Step, Tried};
use super::{End, Flow, Hold, Worker};
use crate::broker::Attached;
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::EndpointChange;
use crate::domain::outcome::{FailureKind, Fault, Outcome, OutcomeClass};
use crate::domain::pace;
use crate::domain::policy::{OnRefused, Override, Phase, RetryPolicy, Schedule};
use crate::domain::queue::{Decision, Head};
use crate::domain::verdict::{DeadReason, Scope, Situation, UrlSchedule, Verdict, decide};
use crate::engine::dead_letter::LastAttempt;
use crate::engine::endpoints::{Answered, SLOW_AFTER};
use crate::engine::policies;
use crate::store::{Failure, FailureRecorded, HeadScope, HeadTerms, Tally};

/// A success is written down as late as this after it came.
const SUCCESS_WRITTEN: Duration = Duration::from_secs(1);

/// What follows from a failure, before it is recorded.
struct Consequence {
    failures: u32,
    phase: Option<Phase>,
    delay: Option<Duration>,
    parked: bool,
    endpoint: Option<EndpointChange>,
    /// Failures of the URL's schedule that are counted in memory alone.
    carried: Option<u32>,
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
            carried: None,
            decision: None,
            end: None,
        }
    }

    /// Whether the message waits now, for a time or for a person.
    const fn waits(&self) -> bool {
        self.delay.is_some() || self.parked || self.endpoint.is_some()
    }
}

impl Worker {
    /// Anything but a 2xx: decide, record, then act.
    pub(super) async fn failed(&mut self, attached: &mut dyn Attached, hand: &mut InHand, tried: Tried) -> Step {
        let answered = answered(&tried);
        self.hold
            .engine
            .answered(&hand.endpoint, (answered, tried.sent.duration));
        if matches!(tried.sent.outcome, Outcome::Failure(FailureKind::BadRequest)) {
            return self.cannot_be_sent(attached, hand, &tried).await;
        }
        let engine = Arc::clone(&self.hold.engine);
        let looked_up = engine.insist(self.hold.incarnation, || engine.policy_for(&hand.notification));
        let Ok(applied) = looked_up.await else {
            return Step::Stop(End::Fenced);
        };
        let endpoint = Arc::clone(&hand.endpoint);
        let is_refusal = tried.attempt.class == OutcomeClass::Refused && applied.policy.on_refused != OnRefused::Accept;
        let turn = if is_refusal {
            Some(endpoint.refusals.lock().await)
        } else {
            None
        };
        if self.hold.probe.is_none() && endpoint.epoch() != tried.epoch {
            return Step::Stop(self.hold.stale(tried).await);
        }
        let terms = self.hold.terms(hand, &tried);
        let schedule = applied.policy.schedule_with(terms.own);
        let verdict = match self
            .hold
            .decide(hand, &tried, (&applied.policy, &schedule), terms.asked)
            .await
        {
            Ok(verdict) => verdict,
            Err(end) => return Step::Stop(end),
        };
        if verdict == Verdict::Delivered {
            return self.accepted(attached, hand, tried).await;
        }
        let consequence = self.consequence(hand, &tried, verdict);
        let decision = consequence.decision.clone();
        match self.record_failure(hand, &tried, &consequence, &schedule, terms).await {
            Err(end) => return Step::Stop(end),
            Ok(Counted::No) => return Step::Stop(End::EndpointClosed),
            Ok(Counted::Yes) => {}
        }
        drop(turn);
        if let Some(failures) = consequence.carried {
            hand.endpoint.carry(failures);
        }
        if let Some(decision) = decision {
            return self.bury(attached, hand, &tried, &decision, &applied.policy).await;
        }
        if consequence.waits() {
            self.hold.engine.keep_up(&applied, &hand.notification).await;
        }
        match consequence.end {
            Some(end) => Step::Stop(end),
            // A probe that was to be tried at once: it was the last one of the pace, or somebody disabled the endpoint.
            None if hand.endpoint.waits_for_a_person() => Step::Stop(End::EndpointClosed),
            // Its next attempt may hang as long again: others that wait have the place first.
            None if answered == Answered::Silence && self.hold.engine.slow_full.load(Ordering::Relaxed) => {
                Step::Stop(End::Yielded)
            }
            None => Step::Again,
        }
    }

    /// What the verdict changes, in the order in which it is recorded.
    fn consequence(&self, hand: &InHand, tried: &Tried, verdict: Verdict) -> Consequence {
        let none = Consequence::nothing(self.hold.failures_of(hand));
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
            Verdict::RetryNow { failures, phase, scope } => Consequence {
                failures,
                phase: Some(phase),
                carried: self.hold.carried(scope),
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
                ..self.hold.waiting(hand, tried, (failures, delay), scope)
            },
            Verdict::Park { failures, scope, url } => Consequence {
                failures,
                ..self.hold.parking(scope, url)
            },
            Verdict::DeadLetter {
                failures,
                reason,
                url: Some(url),
            } => Consequence {
                failures,
                decision: Some(
                    self.hold
                        .new_decision(tried.attempt.message_id.clone(), hand.fingerprint, reason),
                ),
                ..self.hold.without_it(url)
            },
            Verdict::DeadLetter {
                failures,
                reason,
                url: None,
            } => Consequence {
                failures,
                endpoint: self.hold.probe.map(|_| EndpointChange::ProbeNext {
                    queue: Some(self.hold.queue.clone()),
                }),
                decision: Some(
                    self.hold
                        .new_decision(tried.attempt.message_id.clone(), hand.fingerprint, reason),
                ),
                ..none
            },
        }
    }

    async fn record_failure(
        &mut self,
        hand: &InHand,
        tried: &Tried,
        consequence: &Consequence,
        schedule: &Schedule,
        terms: HeadTerms,
    ) -> Result<Counted, End> {
        let refused = tried.attempt.class == OutcomeClass::Refused;
        let refusals_in_row = if refused {
            self.hold.record.refusals_in_row + 1
        } else {
            self.hold.record.refusals_in_row
        };
        let head = self.hold.head_after(hand, tried, consequence, schedule);
        let failure = Failure {
            attempt: tried.attempt.clone(),
            head: head.clone(),
            delay: consequence.delay,
            refusals_in_row,
            endpoint: consequence.endpoint.clone().map(|change| (tried.epoch, change)),
            decision: consequence.decision.clone(),
            terms,
            paced: hand.endpoint.throttle.has_pace().then_some(match self.hold.probe {
                Some(_) => pace::Request::Probe,
                None => pace::Request::InTurn,
            }),
        };
        if failure.decision.is_some() {
            // About the head behind the companion that this message is in: there can be one decision only.
            self.hold.close_decision().await?;
        }
        let engine = Arc::clone(&self.hold.engine);
        let recorded = engine
            .insist(self.hold.incarnation, || engine.store.failure_record(&failure))
            .await;
        self.hold.engine.tell_attempt(&tried.attempt);
        let FailureRecorded::Recorded {
            endpoint,
            endpoint_changed,
            ..
        } = recorded.map_err(|()| End::Fenced)?
        else {
            return Err(End::Fenced);
        };
        self.hold.record.head = Some(head);
        self.hold.record.refusals_in_row = refusals_in_row;
        if consequence.decision.is_some() {
            self.hold.record.decision.clone_from(&consequence.decision);
        }
        if consequence.endpoint.is_some() {
            self.hold.probe = None;
        }
        if let Some(endpoint) = endpoint {
            engine.endpoint_moved(&endpoint);
        }
        if endpoint_changed {
            return Ok(Counted::Yes);
        }
        // Somebody changed the endpoint while the request was in flight: the failure does not count for it.
        engine
            .insist(self.hold.incarnation, || {
                engine.look_at_endpoint(&hand.notification.url)
            })
            .await
            .map_err(|()| End::Fenced)?;
        // Nor for the message, where it was opened: every head has its whole budget again then. Where the head of another
        // queue closed it, this one failed as well.
        if hand.endpoint.is_available() {
            let scope = HeadScope::Queue(self.hold.queue.clone(), self.hold.epoch);
            engine
                .insist(self.hold.incarnation, || engine.store.heads_reset(&scope))
                .await
                .map_err(|()| End::Fenced)?;
        }
        Ok(if consequence.decision.is_some() {
            Counted::Yes
        } else {
            Counted::No
        })
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
            policy: Some(policies::text(policy)),
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
        let decision = self
            .hold
            .new_decision(hand.notification.id.clone(), hand.fingerprint, DeadReason::Undecodable);
        let (engine, queue) = (Arc::clone(&self.hold.engine), self.hold.queue.clone());
        match engine
            .insist(self.hold.incarnation, || engine.store.decision_open(&queue, &decision))
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
}

impl Hold {
    async fn decide(
        &self,
        hand: &InHand,
        tried: &Tried,
        (policy, schedule): (&RetryPolicy, &Schedule),
        retry_after: Option<Duration>,
    ) -> Result<Verdict, End> {
        let fault = tried.sent.outcome.fault();
        let refused = tried.attempt.class == OutcomeClass::Refused;
        // What other queues met plays no part where a refusal counts as delivered.
        let accepted = refused && policy.on_refused == OnRefused::Accept;
        let tally = if is_about_the_message(tried) && !accepted {
            self.tally(hand).await?
        } else {
            Tally {
                failing: 1,
                queues: u32::MAX,
                last_success: None,
            }
        };
        Ok(decide(&Situation {
            class: tried.attempt.class,
            fault,
            failures: self.failures_of(hand),
            url_failures: hand.endpoint.failures(self.failures_of(hand)),
            refusals_in_row: self.record.refusals_in_row,
            retry_after,
            policy,
            schedule,
            failing_heads: tally.failing,
            queues: tally.queues,
            is_refused_by_rules: hand
                .endpoint
                .is_refused_by_rules(tried.sent.outcome, self.engine.clock.uptime()),
            is_probe: self.probe.is_some(),
            message: &hand.notification.id,
        }))
    }

    /// What a policy applies to this message by, and what it and its receiver ask for.
    fn terms(&self, hand: &InHand, tried: &Tried) -> HeadTerms {
        let cap = self.engine.settings.retry_after_cap.as_secs();
        let (sent, now) = (&tried.sent, self.engine.clock.now());
        let hint = sent.outcome.hint_s(sent.retry_after.as_deref(), now, cap);
        HeadTerms {
            event_type: hand.notification.event_type.clone(),
            own: Override {
                polling_time_s: hand.notification.polling_time_s,
                restart_count: hand.notification.restart_count,
            },
            asked: hint.map(Duration::from_secs),
        }
    }

    /// Queues of the URL in trouble, this one included unless its message failed before the last 2xx already: then the
    /// receiver has something against that message, and takes others.
    async fn tally(&self, hand: &InHand) -> Result<Tally, End> {
        let (engine, url, since) = (
            Arc::clone(&self.engine),
            &hand.notification.url,
            hand.endpoint.last_success(),
        );
        let mut tally = engine
            .insist(self.incarnation, || engine.store.heads_failing(url, since, &self.queue))
            .await
            .map_err(|()| End::Fenced)?;
        let failed_before = self.head_of(hand).is_some_and(|head| {
            tally
                .last_success
                .is_some_and(|success| head.first_failed_at.plus(SUCCESS_WRITTEN) <= success)
        });
        tally.failing += u32::from(!failed_before);
        Ok(tally)
    }

    fn waiting(&self, hand: &InHand, tried: &Tried, (failures, delay): (u32, Duration), scope: Scope) -> Consequence {
        let none = Consequence::nothing(failures);
        match scope {
            Scope::Url { failures } => Consequence {
                endpoint: Some(self.closing(hand, tried, failures, delay)),
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

    fn parking(&self, scope: Scope, url: Option<UrlSchedule>) -> Consequence {
        let none = Consequence::nothing(0);
        match (scope, url) {
            (Scope::Url { failures }, _) => Consequence {
                endpoint: Some(EndpointChange::Park {
                    attempts: Some(failures),
                }),
                end: Some(End::EndpointClosed),
                ..none
            },
            (Scope::Queue, Some(url)) => Consequence {
                parked: true,
                end: Some(End::Parked),
                ..self.without_it(url)
            },
            (Scope::Queue, None) => Consequence {
                parked: true,
                endpoint: self.elsewhere(),
                end: Some(End::Parked),
                ..none
            },
        }
    }

    /// The URL's schedule goes on without the message (docs/protocols.md 41). Of a URL that goes on at once nothing is
    /// stored, unless it was probed: what was counted so far is kept in memory, so that a row of messages without
    /// retries closes it as one with retries would.
    fn without_it(&self, url: UrlSchedule) -> Consequence {
        let none = Consequence::nothing(0);
        if self.probe.is_none() && url.delay.is_zero() {
            return Consequence {
                carried: Some(url.failures),
                ..none
            };
        }
        Consequence {
            endpoint: Some(EndpointChange::WaitForAny {
                attempts: url.failures,
                delay: url.delay,
            }),
            ..none
        }
    }

    /// A probe that is tried again at once changes nothing in the store.
    fn carried(&self, scope: Scope) -> Option<u32> {
        match scope {
            Scope::Url { failures } => self.probe.map(|_| failures),
            Scope::Queue => None,
        }
    }

    /// A probe that failed by its own fault says nothing of the URL: another queue gives the next.
    fn elsewhere(&self) -> Option<EndpointChange> {
        self.probe.map(|_| EndpointChange::ProbeNext { queue: None })
    }

    /// Where the receiver answers, and messages of several queues fail, nobody knows whether they are to blame or the URL:
    /// each probe is the message of another queue, and one that is taken tells (docs/protocols.md 15).
    fn closing(&self, hand: &InHand, tried: &Tried, failures: u32, delay: Duration) -> EndpointChange {
        if is_about_the_message(tried) {
            EndpointChange::WaitForAny {
                attempts: failures,
                delay,
            }
        } else if self.probe.is_some() {
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

    fn head_after(&self, hand: &InHand, tried: &Tried, consequence: &Consequence, schedule: &Schedule) -> Head {
        let now = self.engine.store_time.now();
        Head {
            message: tried.attempt.message_id.clone(),
            fingerprint: Some(hand.fingerprint),
            failures: consequence.failures,
            first_failed_at: self.head_of(hand).map_or(now, |head| head.first_failed_at),
            last_failed_at: now,
            last_status: tried.attempt.status,
            last_error: tried.attempt.error.clone(),
            next_attempt_at: consequence.delay.map(|delay| now.plus(delay)),
            parked: consequence.parked,
            phase: consequence.phase,
            attempts_allowed: schedule.attempts(),
        }
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
}

/// Whether the receiver answered, with something that it may have against this message alone.
fn is_about_the_message(tried: &Tried) -> bool {
    tried.sent.outcome.fault() == Fault::Message || tried.attempt.class == OutcomeClass::Refused
}

/// How the endpoint answered an attempt that is no 2xx.
fn answered(tried: &Tried) -> Answered {
    let timed_out = matches!(
        tried.sent.outcome,
        Outcome::Failure(FailureKind::Timeout | FailureKind::BodyTimeout)
    );
    if tried.attempt.status.is_some() {
        Answered::Answer
    } else if timed_out || tried.sent.duration >= SLOW_AFTER {
        Answered::Silence
    } else {
        Answered::BrokeOff
    }
}

/// Whether a failure counts.
enum Counted {
    Yes,
    No,
}
