//! What happens to a notification after an attempt: decided here and nowhere else.
//!
//! The function is pure: worker, probe and operator commands call it with what they know and carry
//! out what it says. The conditions are numbered in the order in which they are asked.

use std::time::Duration;

use super::id::NotificationId;
use super::outcome::{Fault, OutcomeClass};
use super::policy::{Failures, OnExhausted, OnRefused, Phase, RetryPolicy, Schedule, next_retry};

/// From this many refusals in a row on, a refusal is retried on the queue's schedule: a proxy's 404
/// must not empty a backlog into dead letters at the speed of HTTP.
pub const REFUSALS_IN_ROW_MAX: u32 = 3;

/// When the heads of this many queues failed or were refused with no 2xx between, the URL closes.
pub const FAILING_HEADS_MAX: u32 = 3;

/// A name that our own address rules refuse in two lookups this far apart is refused for good.
pub const REFUSED_BY_RULES_FOR: Duration = Duration::from_mins(1);

/// What is known when an attempt has ended.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// How it ended.
    pub class: OutcomeClass,
    /// Whose fault a failure is.
    pub fault: Fault,
    /// Failures of this message that count, before this attempt.
    pub failures: u32,
    /// Failures of the URL's schedule, before this attempt: those of a URL that is not available are its own,
    /// whichever messages made them.
    pub url_failures: u32,
    /// Refusals in a row in this queue, before this attempt.
    pub refusals_in_row: u32,
    /// What the answer asked for, already capped.
    pub retry_after: Option<Duration>,
    /// The policy that applies now.
    pub policy: &'a RetryPolicy,
    /// The message's own schedule: the policy's, or its override's. The URL's is always the policy's.
    pub schedule: &'a Schedule,
    /// Queues of this URL whose head failed or was refused for the first time since the last 2xx, this one among them.
    pub failing_heads: u32,
    /// Queues of this URL.
    pub queues: u32,
    /// Our own address rules refuse every address of it, now and [`REFUSED_BY_RULES_FOR`] ago, and none was reached
    /// between.
    pub is_refused_by_rules: bool,
    /// The attempt was the probe of a URL that is not available.
    pub is_probe: bool,
    /// The message: its share of the jitter follows from it.
    pub message: &'a NotificationId,
}

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Every queue of the URL.
    Url {
        /// Failures of its schedule now.
        failures: u32,
    },
    /// This queue alone.
    Queue,
}

/// How far the schedule of a URL got, when a message that failed by its fault leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlSchedule {
    /// Its failures now.
    pub failures: u32,
    /// Until its next attempt, by whichever message waits longest; zero: the URL goes on.
    pub delay: Duration,
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
        /// Whose schedule says so.
        scope: Scope,
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
        /// The schedule of the URL, when it goes on without this message.
        url: Option<UrlSchedule>,
    },
    /// Move it to the dead-letter queue.
    DeadLetter {
        /// Failures that count now.
        failures: u32,
        /// Why.
        reason: DeadReason,
        /// The schedule of the URL, when it goes on without this message.
        url: Option<UrlSchedule>,
    },
}

/// Decides.
///
/// 1. A 2xx settles, and so does a refusal that the policy accepts.
/// 2. An interrupted attempt is given back; it is not a failed one.
/// 3. 410 disables the endpoint.
/// 4. A refusal is dead-lettered by default, until there were too many in a row in this queue, or in
///    too many queues of the URL.
/// 5. An address that our own rules refuse, again and again, is reached by no schedule: the URL parks, whatever its
///    policy, until the rules are others or a person redelivers.
/// 6. Anything else is a failure. When the queue waits alone, the message's own schedule says when to try again;
///    with that used up, the policy says whether to park or to dead-letter.
/// 7. When the URL waits, the policy's schedule says when to try again, whatever the message asks for itself
///    (see `with_url`).
///
/// A retry comes at least after what the answer asked for.
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
                    url: None,
                };
            }
            OnRefused::DeadLetter | OnRefused::Retry => {}
        },
        OutcomeClass::Failed if situation.is_refused_by_rules => {
            return Verdict::Park {
                failures,
                scope: Scope::Url {
                    failures: situation.url_failures.saturating_add(1),
                },
                url: None,
            };
        }
        OutcomeClass::Failed => {}
    }
    match scope(situation) {
        Scope::Url { failures: of_url } => with_url(situation, failures, of_url),
        Scope::Queue => match next(situation, failures, None) {
            Some(next) => again(situation, failures, next, Scope::Queue),
            None => exhausted(situation, failures, Scope::Queue, None),
        },
    }
}

fn next(situation: &Situation<'_>, own: u32, of_url: Option<u32>) -> Option<(Phase, Duration)> {
    let failures = Failures {
        message: situation.message,
        own,
        of_url,
    };
    next_retry(situation.policy, situation.schedule, failures)
}

/// A failure that the URL waits for (docs/protocols.md 41).
///
/// 1. The message has attempts of its own left: it is tried again when the URL is, or the URL parks (`next_retry`).
/// 2. It has none left, and neither has the URL: both park, or it is dead-lettered and the next message has the whole
///    schedule.
/// 3. It has none left, and the URL has: it alone parks or is dead-lettered, and the URL waits for another one.
///
/// Where the URL is available and would be tried again at once, nothing waits for it: the queue of a message that asks for
/// times of its own waits alone until then. The failure counts for the URL, which closes in its turn.
fn with_url(situation: &Situation<'_>, failures: u32, of_url: u32) -> Verdict {
    let scope = Scope::Url { failures: of_url };
    let is_used_up = failures > situation.schedule.retries();
    match next(situation, failures, Some(of_url)) {
        Some((_, delay))
            if goes_on_at_once(situation, delay)
                && let Some((phase, delay)) = own_wait(situation, failures) =>
        {
            Verdict::RetryLater {
                failures,
                delay,
                phase,
                scope: Scope::Queue,
            }
        }
        Some(next) if !is_used_up => again(situation, failures, next, scope),
        Some((_, delay)) => {
            let delay = delay.max(situation.retry_after.unwrap_or_default());
            let url = UrlSchedule {
                failures: of_url,
                delay,
            };
            exhausted(situation, failures, Scope::Queue, Some(url))
        }
        None => exhausted(situation, failures, scope, None),
    }
}

/// The wait that a message asks for itself, where it asks for any.
fn own_wait(situation: &Situation<'_>, failures: u32) -> Option<(Phase, Duration)> {
    let asks = *situation.schedule != situation.policy.schedule();
    asks.then(|| next(situation, failures, None))
        .flatten()
        .filter(|(_, delay)| !delay.is_zero())
}

/// The URL is available, and its schedule does not wait either.
fn goes_on_at_once(situation: &Situation<'_>, delay: Duration) -> bool {
    !situation.is_probe && delay.max(situation.retry_after.unwrap_or_default()).is_zero()
}

fn again(situation: &Situation<'_>, failures: u32, (phase, scheduled): (Phase, Duration), scope: Scope) -> Verdict {
    let delay = scheduled.max(situation.retry_after.unwrap_or_default());
    if delay.is_zero() {
        return Verdict::RetryNow { failures, phase, scope };
    }
    Verdict::RetryLater {
        failures,
        delay,
        phase,
        scope,
    }
}

fn exhausted(situation: &Situation<'_>, failures: u32, scope: Scope, url: Option<UrlSchedule>) -> Verdict {
    match situation.policy.on_exhausted {
        OnExhausted::Park => Verdict::Park { failures, scope, url },
        OnExhausted::DeadLetter => Verdict::DeadLetter {
            failures,
            reason: DeadReason::Exhausted,
            url,
        },
    }
}

const fn is_a_single_refusal(situation: &Situation<'_>) -> bool {
    situation.refusals_in_row + 1 < REFUSALS_IN_ROW_MAX && situation.failing_heads < FAILING_HEADS_MAX
}

/// Who waits after a failure (docs/protocols.md 15).
///
/// 1. The URL, when the failure is its fault.
/// 2. The URL, when the heads of several queues (all there are, if fewer) are in trouble at once.
/// 3. Otherwise this queue alone.
fn scope(situation: &Situation<'_>) -> Scope {
    let failed_by_itself = situation.class == OutcomeClass::Failed && situation.fault == Fault::Url;
    let many = situation.failing_heads >= FAILING_HEADS_MAX.min(situation.queues.max(1));
    if failed_by_itself || many {
        Scope::Url {
            failures: situation.url_failures.saturating_add(1),
        }
    } else {
        Scope::Queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::policy::Override;

    /// The URL failed as often as the message did.
    const SAME: u32 = u32::MAX;

    fn check(change: impl FnOnce(&mut Situation<'_>), policy: &RetryPolicy, expected: Verdict) {
        check_with(change, policy, &policy.schedule(), expected);
    }

    fn check_with(
        change: impl FnOnce(&mut Situation<'_>),
        policy: &RetryPolicy,
        schedule: &Schedule,
        expected: Verdict,
    ) {
        let message = NotificationId::parse("n-1").unwrap();
        let mut situation = Situation {
            class: OutcomeClass::Failed,
            fault: Fault::Url,
            failures: 0,
            url_failures: SAME,
            refusals_in_row: 0,
            retry_after: None,
            policy,
            schedule,
            failing_heads: 1,
            queues: 10,
            is_refused_by_rules: false,
            is_probe: false,
            message: &message,
        };
        change(&mut situation);
        if situation.url_failures == SAME {
            situation.url_failures = situation.failures;
        }
        assert_eq!(decide(&situation), expected);
    }

    const fn url(failures: u32) -> Scope {
        Scope::Url { failures }
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
    fn an_address_that_our_own_rules_refuse_for_long_parks_its_url_whatever_the_policy() {
        for on_exhausted in [OnExhausted::Park, OnExhausted::DeadLetter] {
            let policy = RetryPolicy {
                on_exhausted,
                ..RetryPolicy::default()
            };
            let parks = Verdict::Park {
                failures: 3,
                scope: url(3),
                url: None,
            };
            let refused = |s: &mut Situation<'_>| (s.is_refused_by_rules, s.failures) = (true, 2);
            check(refused, &policy, parks);
        }
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
                scope: url(1),
            },
        );
        check(|s| s.failures = 3, &policy, later(4, 5, Phase::PreBackoff, url(4)));
        check(|s| s.failures = 14, &policy, later(15, 30, Phase::PostBackoff, url(15)));
        check(
            |s| s.failures = 15,
            &policy,
            Verdict::Park {
                failures: 16,
                scope: url(16),
                url: None,
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
                url: None,
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
            later(1, 120, Phase::Immediate, url(1)),
        );
        check(
            |s| s.retry_after = asked(0),
            &policy,
            Verdict::RetryNow {
                failures: 1,
                phase: Phase::Immediate,
                scope: url(1),
            },
        );
        check(
            |s| {
                s.failures = 14;
                s.retry_after = asked(2);
            },
            &policy,
            later(15, 30, Phase::PostBackoff, url(15)),
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
            check(several, &policy, later(4, 5, Phase::PreBackoff, url(4)));
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
            url: None,
        };
        check(refused(0), &policy, dead);
        check(refused(1), &policy, dead);
        check(refused(2), &policy, later(4, 5, Phase::PreBackoff, Scope::Queue));
        let everywhere = |s: &mut Situation<'_>| {
            refused(0)(s);
            s.failing_heads = 3;
        };
        check(everywhere, &policy, later(4, 5, Phase::PreBackoff, url(4)));
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

    /// The schedule of the URL goes on without the message.
    fn goes_on(failures: u32, seconds: u64) -> UrlSchedule {
        let delay = Duration::from_secs(seconds);
        UrlSchedule { failures, delay }
    }

    /// What becomes of a message with `own` wishes after it failed `failures` times, and its URL `of_url` times.
    fn check_own(own: Override, (failures, of_url): (u32, u32), policy: &RetryPolicy, expected: Verdict) {
        let schedule = policy.schedule_with(own);
        let situation = |s: &mut Situation<'_>| {
            s.failures = failures - 1;
            s.url_failures = of_url - 1;
        };
        let message = NotificationId::parse("n-1").unwrap();
        let mut asked = Situation {
            class: OutcomeClass::Failed,
            fault: Fault::Url,
            failures: 0,
            url_failures: 0,
            refusals_in_row: 0,
            retry_after: None,
            policy,
            schedule: &schedule,
            failing_heads: 1,
            queues: 10,
            is_refused_by_rules: false,
            is_probe: false,
            message: &message,
        };
        situation(&mut asked);
        assert_eq!(
            decide(&asked),
            expected,
            "{own:?}, {failures} of its own, {of_url} of the URL"
        );
    }

    #[test]
    fn an_override_counts_a_messages_own_attempts_and_the_url_keeps_its_policy() {
        let policy = RetryPolicy::default();
        let deadly = RetryPolicy {
            on_exhausted: OnExhausted::DeadLetter,
            ..RetryPolicy::default()
        };
        let own = |polling_time_s, restart_count| Override {
            polling_time_s,
            restart_count,
        };
        let parked = |failures, scope, url| Verdict::Park { failures, scope, url };
        let dead = |failures, url| Verdict::DeadLetter {
            failures,
            reason: DeadReason::Exhausted,
            url,
        };
        let (short, never) = (own(Some(900), Some(2)), own(Some(900), Some(0)));
        // Neither its own nine hundred seconds nor a poll each second moves the URL's next attempt.
        check_own(short, (2, 4), &policy, later(2, 5, Phase::PreBackoff, url(4)));
        check_own(
            own(Some(1), None),
            (9, 9),
            &policy,
            later(9, 15, Phase::Backoff, url(9)),
        );
        // Used up: it alone parks or dies, and the URL waits for another one.
        check_own(short, (3, 5), &policy, parked(3, Scope::Queue, Some(goes_on(5, 5))));
        check_own(short, (3, 5), &deadly, dead(3, Some(goes_on(5, 5))));
        check_own(never, (1, 12), &policy, parked(1, Scope::Queue, Some(goes_on(12, 30))));
        // The URL is tried at once where its policy says so.
        check_own(never, (1, 1), &policy, parked(1, Scope::Queue, Some(goes_on(1, 0))));
        // The URL's own schedule ends as its policy says, however many attempts the message has left.
        check_own(own(None, Some(100)), (3, 16), &policy, parked(3, url(16), None));
        check_own(
            own(None, Some(100)),
            (3, 16),
            &deadly,
            later(3, 30, Phase::PostBackoff, url(16)),
        );
        check_own(never, (1, 16), &policy, parked(1, url(16), None));
        check_own(never, (1, 16), &deadly, dead(1, None));
        // And so do those of messages without a wish, when others failed before them.
        check_own(
            Override::default(),
            (2, 7),
            &policy,
            later(2, 5, Phase::Backoff, url(7)),
        );
        check_own(Override::default(), (2, 16), &policy, parked(2, url(16), None));
        check_own(
            Override::default(),
            (2, 40),
            &deadly,
            later(2, 30, Phase::PostBackoff, url(40)),
        );
        check_own(Override::default(), (16, 16), &deadly, dead(16, None));
    }

    #[test]
    fn an_override_holds_while_its_url_is_available_and_goes_on_at_once() {
        let policy = RetryPolicy::default();
        let own = |polling_time_s| Override {
            polling_time_s,
            restart_count: Some(9),
        };
        let alone = |failures, seconds| later(failures, seconds, Phase::Backoff, Scope::Queue);
        let at_once = Verdict::RetryNow {
            failures: 1,
            phase: Phase::Immediate,
            scope: url(1),
        };
        check_own(own(Some(900)), (1, 1), &policy, alone(1, 900));
        check_own(own(Some(900)), (3, 3), &policy, alone(3, 900));
        // Without a time of its own, the policy's minimum delay.
        check_own(own(None), (1, 1), &policy, alone(1, 5));
        check_own(own(Some(0)), (1, 1), &policy, at_once);
        // The URL's own wait is nobody else's.
        check_own(own(Some(900)), (4, 4), &policy, later(4, 5, Phase::PreBackoff, url(4)));
        let schedule = policy.schedule_with(own(Some(900)));
        let asked = |seconds| move |s: &mut Situation<'_>| s.retry_after = Some(Duration::from_secs(seconds));
        let probes = |s: &mut Situation<'_>| s.is_probe = true;
        // One that asks for nothing is tried when its URL is, however often it failed itself.
        let ordinary = |s: &mut Situation<'_>| (s.failures, s.url_failures) = (5, 0);
        check_with(
            ordinary,
            &policy,
            &policy.schedule(),
            Verdict::RetryNow {
                failures: 6,
                phase: Phase::Immediate,
                scope: url(1),
            },
        );
        check_with(asked(0), &policy, &schedule, alone(1, 900));
        check_with(asked(10), &policy, &schedule, later(1, 10, Phase::Immediate, url(1)));
        check_with(probes, &policy, &schedule, at_once);
    }

    #[test]
    fn a_queue_that_waits_alone_follows_the_messages_own_schedule() {
        let policy = RetryPolicy::default();
        let own = policy.schedule_with(Override {
            polling_time_s: Some(900),
            restart_count: Some(2),
        });
        let message = NotificationId::parse("n-1").unwrap();
        let mut situation = Situation {
            class: OutcomeClass::Failed,
            fault: Fault::Message,
            failures: 1,
            url_failures: 7,
            refusals_in_row: 0,
            retry_after: None,
            policy: &policy,
            schedule: &own,
            failing_heads: 1,
            queues: 10,
            is_refused_by_rules: false,
            is_probe: false,
            message: &message,
        };
        assert_eq!(decide(&situation), later(2, 900, Phase::Backoff, Scope::Queue));
        situation.failures = 2;
        let parked = Verdict::Park {
            failures: 3,
            scope: Scope::Queue,
            url: None,
        };
        assert_eq!(decide(&situation), parked);
    }
}
