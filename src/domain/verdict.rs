//! What happens to a notification after an attempt: decided here and nowhere else.
//!
//! The function is pure: worker, probe and operator commands call it with what they know and carry
//! out what it says. The conditions are numbered in the order in which they are asked.

use std::time::Duration;

use super::id::NotificationId;
use super::outcome::{Fault, OutcomeClass};
use super::policy::{OnExhausted, OnRefused, Phase, RetryPolicy, Schedule, wait_after};

/// From this many refusals in a row on, a refusal is retried on the queue's schedule: a proxy's 404
/// must not empty a backlog into dead letters at the speed of HTTP.
pub const REFUSALS_IN_ROW_MAX: u32 = 3;

/// When the heads of this many queues failed or were refused with no 2xx between, the URL closes.
pub const FAILING_HEADS_MAX: u32 = 3;

/// What is known when an attempt has ended.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// How it ended.
    pub class: OutcomeClass,
    /// Whose fault a failure is.
    pub fault: Fault,
    /// Failures of this message that count, before this attempt.
    pub failures: u32,
    /// Refusals in a row in this queue, before this attempt.
    pub refusals_in_row: u32,
    /// What the answer asked for, already capped.
    pub retry_after: Option<Duration>,
    /// The policy that applies now.
    pub policy: &'a RetryPolicy,
    /// Its schedule, with the message's override.
    pub schedule: &'a Schedule,
    /// Queues of this URL whose head failed or was refused since the last 2xx, this one included.
    pub failing_heads: u32,
    /// Queues of this URL.
    pub queues: u32,
    /// The message: its share of the jitter follows from it.
    pub message: &'a NotificationId,
}

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Every queue of the URL.
    Url,
    /// This queue alone.
    Queue,
}

/// Why a message is dead-lettered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeadReason {
    /// The schedule is used up.
    Exhausted,
    /// The receiver refused it.
    Refused,
    /// It is not a notification, or cannot be sent.
    Undecodable,
}

impl DeadReason {
    /// As written into the dead letter.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Refused => "refused",
            Self::Undecodable => "undecodable",
        }
    }
}

/// What happens to the message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Settled: ack.
    Delivered,
    /// Not a failed attempt: give it back as it was.
    HandBack,
    /// The endpoint is gone: disable it; the message stays at the head.
    Disable,
    /// Try again at once, with the message in hand.
    RetryNow {
        /// Failures that count now.
        failures: u32,
        /// The phase of the next attempt.
        phase: Phase,
    },
    /// Try again later.
    RetryLater {
        /// Failures that count now.
        failures: u32,
        /// How long to wait.
        delay: Duration,
        /// The phase of the next attempt.
        phase: Phase,
        /// What waits.
        scope: Scope,
    },
    /// The schedule is used up: wait for a person.
    Park {
        /// Failures that count now.
        failures: u32,
        /// What waits.
        scope: Scope,
    },
    /// Move it to the dead-letter queue.
    DeadLetter {
        /// Failures that count now.
        failures: u32,
        /// Why.
        reason: DeadReason,
    },
}

/// Decides.
///
/// 1. A 2xx settles, and so does a refusal that the policy accepts.
/// 2. An interrupted attempt is given back; it is not a failed one.
/// 3. 410 disables the endpoint.
/// 4. A refusal is dead-lettered by default, until there were too many in a row in this queue, or in
///    too many queues of the URL.
/// 5. Anything else is a failure: the schedule says when to try again, at least after what the answer
///    asked for.
/// 6. With the schedule used up the policy says whether to park or to dead-letter.
#[must_use]
pub fn decide(situation: &Situation<'_>) -> Verdict {
    let failures = situation.failures.saturating_add(1);
    match situation.class {
        OutcomeClass::Delivered => return Verdict::Delivered,
        OutcomeClass::Interrupted => return Verdict::HandBack,
        OutcomeClass::Gone => return Verdict::Disable,
        OutcomeClass::Refused => match situation.policy.on_refused {
            OnRefused::Accept => return Verdict::Delivered,
            OnRefused::DeadLetter if is_a_single_refusal(situation) => {
                return Verdict::DeadLetter {
                    failures,
                    reason: DeadReason::Refused,
                };
            }
            OnRefused::DeadLetter | OnRefused::Retry => {}
        },
        OutcomeClass::Failed => {}
    }
    let scope = scope(situation);
    let Some((phase, scheduled)) = wait_after(situation.policy, situation.schedule, situation.message, failures) else {
        return match situation.policy.on_exhausted {
            OnExhausted::Park => Verdict::Park { failures, scope },
            OnExhausted::DeadLetter => Verdict::DeadLetter {
                failures,
                reason: DeadReason::Exhausted,
            },
        };
    };
    let delay = scheduled.max(situation.retry_after.unwrap_or_default());
    if delay.is_zero() {
        return Verdict::RetryNow { failures, phase };
    }
    Verdict::RetryLater {
        failures,
        delay,
        phase,
        scope,
    }
}

const fn is_a_single_refusal(situation: &Situation<'_>) -> bool {
    situation.refusals_in_row + 1 < REFUSALS_IN_ROW_MAX && situation.failing_heads < FAILING_HEADS_MAX
}

/// Who waits after a failure (PROTOCOLS.md 15).
///
/// 1. The URL, when the failure is its fault.
/// 2. The URL, when the heads of several queues (all there are, if fewer) are in trouble at once.
/// 3. Otherwise this queue alone.
fn scope(situation: &Situation<'_>) -> Scope {
    let failed_by_itself = situation.class == OutcomeClass::Failed && situation.fault == Fault::Url;
    let many = situation.failing_heads >= FAILING_HEADS_MAX.min(situation.queues.max(1));
    if failed_by_itself || many {
        Scope::Url
    } else {
        Scope::Queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Situation<'_>), policy: &RetryPolicy, expected: Verdict) {
        let schedule = policy.schedule();
        let message = NotificationId::parse("n-1").unwrap();
        let mut situation = Situation {
            class: OutcomeClass::Failed,
            fault: Fault::Url,
            failures: 0,
            refusals_in_row: 0,
            retry_after: None,
            policy,
            schedule: &schedule,
            failing_heads: 1,
            queues: 10,
            message: &message,
        };
        change(&mut situation);
        assert_eq!(decide(&situation), expected);
    }

    fn later(failures: u32, seconds: u64, phase: Phase, scope: Scope) -> Verdict {
        Verdict::RetryLater {
            failures,
            delay: Duration::from_secs(seconds),
            phase,
            scope,
        }
    }

    #[test]
    fn a_delivered_message_is_settled_and_an_interrupted_one_given_back() {
        let policy = RetryPolicy::default();
        check(|s| s.class = OutcomeClass::Delivered, &policy, Verdict::Delivered);
        check(|s| s.class = OutcomeClass::Interrupted, &policy, Verdict::HandBack);
        check(|s| s.class = OutcomeClass::Gone, &policy, Verdict::Disable);
    }

    #[test]
    fn a_failure_follows_the_schedule_and_waits_with_its_url() {
        let policy = RetryPolicy::default();
        check(
            |_| {},
            &policy,
            Verdict::RetryNow {
                failures: 1,
                phase: Phase::Immediate,
            },
        );
        check(|s| s.failures = 3, &policy, later(4, 5, Phase::PreBackoff, Scope::Url));
        check(
            |s| s.failures = 14,
            &policy,
            later(15, 30, Phase::PostBackoff, Scope::Url),
        );
        check(
            |s| s.failures = 15,
            &policy,
            Verdict::Park {
                failures: 16,
                scope: Scope::Url,
            },
        );
    }

    #[test]
    fn an_exhausted_schedule_dead_letters_when_the_policy_says_so() {
        let policy = RetryPolicy {
            on_exhausted: OnExhausted::DeadLetter,
            ..RetryPolicy::default()
        };
        check(
            |s| s.failures = 15,
            &policy,
            Verdict::DeadLetter {
                failures: 16,
                reason: DeadReason::Exhausted,
            },
        );
    }

    #[test]
    fn a_retry_after_stretches_the_schedule_and_never_shortens_it() {
        let policy = RetryPolicy::default();
        let asked = |seconds| Some(Duration::from_secs(seconds));
        check(
            |s| s.retry_after = asked(120),
            &policy,
            later(1, 120, Phase::Immediate, Scope::Url),
        );
        check(
            |s| s.retry_after = asked(0),
            &policy,
            Verdict::RetryNow {
                failures: 1,
                phase: Phase::Immediate,
            },
        );
        check(
            |s| {
                s.failures = 14;
                s.retry_after = asked(2);
            },
            &policy,
            later(15, 30, Phase::PostBackoff, Scope::Url),
        );
    }

    #[test]
    fn a_messages_own_fault_makes_only_its_queue_wait_until_several_heads_fail() {
        let policy = RetryPolicy::default();
        let message = |s: &mut Situation<'_>| {
            s.fault = Fault::Message;
            s.failures = 3;
        };
        check(message, &policy, later(4, 5, Phase::PreBackoff, Scope::Queue));
        for (failing, queues) in [(3, 10), (2, 2), (1, 1)] {
            let several = |s: &mut Situation<'_>| {
                message(s);
                s.failing_heads = failing;
                s.queues = queues;
            };
            check(several, &policy, later(4, 5, Phase::PreBackoff, Scope::Url));
        }
    }

    #[test]
    fn the_third_refusal_in_a_row_waits_instead_of_being_dead_lettered() {
        let policy = RetryPolicy::default();
        let refused = |row| {
            move |s: &mut Situation<'_>| {
                s.class = OutcomeClass::Refused;
                s.fault = Fault::Message;
                s.refusals_in_row = row;
                s.failures = 3;
            }
        };
        let dead = Verdict::DeadLetter {
            failures: 4,
            reason: DeadReason::Refused,
        };
        check(refused(0), &policy, dead);
        check(refused(1), &policy, dead);
        check(refused(2), &policy, later(4, 5, Phase::PreBackoff, Scope::Queue));
        let everywhere = |s: &mut Situation<'_>| {
            refused(0)(s);
            s.failing_heads = 3;
        };
        check(everywhere, &policy, later(4, 5, Phase::PreBackoff, Scope::Url));
        let accept = RetryPolicy {
            on_refused: OnRefused::Accept,
            ..RetryPolicy::default()
        };
        check(refused(0), &accept, Verdict::Delivered);
        let retry = RetryPolicy {
            on_refused: OnRefused::Retry,
            ..RetryPolicy::default()
        };
        check(refused(0), &retry, later(4, 5, Phase::PreBackoff, Scope::Queue));
    }
}
