//! What a policy says of a message that failed already: used after each attempt, and again for everything
//! that waits when the policy has changed.
//!
//! What counts: the failures so far, when the last of them was, what the receiver asked for then, and the
//! message's own override. Nothing else: the same function with the former policy gives the former times
//! back, so that a change can be taken back whole. What the last answer was is not judged anew.

use std::time::Duration;

use super::super::id::NotificationId;
use super::super::named::named;
use super::super::time::Timestamp;
use super::{OnExhausted, Override, Phase, RetryPolicy, Schedule, with_jitter};

/// A message that failed.
#[derive(Clone, Copy, Debug)]
pub struct Failing<'a> {
    /// Which message: its share of the jitter follows from it.
    pub message: &'a NotificationId,
    /// Its own wishes.
    pub own: Override,
    /// Failed attempts that count.
    pub failures: u32,
    /// Failed attempts of its URL's schedule, when it waits with its URL.
    pub url_failures: Option<u32>,
    /// When the last of them was.
    pub last_failed_at: Timestamp,
    /// Until when the receiver asked to be left alone.
    pub asked_until: Option<Timestamp>,
}

/// What a failed message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Rescheduled {
    /// Its next attempt; one in the past is due at once.
    At {
        /// When.
        at: Timestamp,
        /// The phase of that attempt.
        phase: Phase,
    },
    /// The schedule is used up: a person.
    Parked,
    /// The schedule is used up: it becomes a dead letter.
    DeadLettered,
}

named! {
    /// As printed.
    Rescheduled {
        Self::At { .. } => "waits",
        Self::Parked => "parked",
        Self::DeadLettered => "dead_lettered",
    }
}

/// What `policy` says of a message that failed.
///
/// 1. With a retry left, that retry's delay after the last failure, and not before the receiver's own wish.
/// 2. Without one, what the policy says of an exhausted schedule.
#[must_use]
pub fn reschedule(failing: &Failing<'_>, policy: &RetryPolicy) -> Rescheduled {
    let failures = Failures {
        message: failing.message,
        own: failing.failures,
        of_url: failing.url_failures,
    };
    match next_retry(policy, &policy.schedule_with(failing.own), failures) {
        Some((phase, delay)) => {
            let scheduled = failing.last_failed_at.plus(delay);
            let at = failing.asked_until.map_or(scheduled, |asked| asked.max(scheduled));
            Rescheduled::At { at, phase }
        }
        None => match policy.on_exhausted {
            OnExhausted::Park => Rescheduled::Parked,
            OnExhausted::DeadLetter => Rescheduled::DeadLettered,
        },
    }
}

/// Failures that count.
#[derive(Clone, Copy, Debug)]
pub struct Failures<'a> {
    /// Of which message: its share of the jitter follows from it.
    pub message: &'a NotificationId,
    /// Its own.
    pub own: u32,
    /// Those of its URL's schedule, when it waits with its URL.
    pub of_url: Option<u32>,
}

/// Whether a retry is left: its phase, and its delay with jitter. None: the schedule is used up, and the policy says
/// what then. After an attempt, and of what waits when the policy has changed, this decides.
///
/// 1. A message that waits alone has its own schedule: the policy's, or its override's.
/// 2. One that waits with its URL has the URL's, which is the policy's.
/// 3. That one may be used up by others while the message has attempts of its own left: then the URL parks, or, where
///    messages are dead-lettered instead, goes on with the last delay.
#[must_use]
pub fn next_retry(policy: &RetryPolicy, own: &Schedule, failures: Failures<'_>) -> Option<(Phase, Duration)> {
    let Some(of_url) = failures.of_url else {
        return wait_after(policy, own, failures.message, failures.own);
    };
    let schedule = policy.schedule();
    let next = wait_after(policy, &schedule, failures.message, of_url);
    if next.is_none() && failures.own <= own.retries() && policy.on_exhausted == OnExhausted::DeadLetter {
        let last = wait_after(policy, &schedule, failures.message, schedule.retries());
        return Some(last.unwrap_or((Phase::Immediate, Duration::ZERO)));
    }
    next
}

fn wait_after(
    policy: &RetryPolicy,
    schedule: &Schedule,
    message: &NotificationId,
    failures: u32,
) -> Option<(Phase, Duration)> {
    let retry = schedule.delay(failures)?;
    let delay = Duration::from_secs(u64::from(retry.delay_s));
    Some((retry.phase, with_jitter(delay, policy.jitter, roll(message, failures))))
}

/// A share from 0 up to but not including 1, spread evenly over messages and retries, and always the same for
/// one: what a preview shows is what happens.
fn roll(message: &NotificationId, failures: u32) -> f64 {
    // FNV-1a, and the finish of SplitMix64, which spreads the last bytes over the high bits.
    let bytes = message.as_str().bytes().chain(failures.to_be_bytes());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    f64::from(u32::try_from(hash >> 32).unwrap_or(0)) / 4_294_967_296.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn message(id: &str) -> NotificationId {
        NotificationId::parse(id).unwrap()
    }

    fn at(seconds: i64, phase: Phase) -> Rescheduled {
        Rescheduled::At {
            at: Timestamp::from_seconds(LAST.seconds() + seconds),
            phase,
        }
    }

    fn check(failures: u32, change: impl FnOnce(&mut Failing<'_>), policy: &RetryPolicy, expected: Rescheduled) {
        let message = message("n-1");
        let mut failing = Failing {
            message: &message,
            own: Override::default(),
            failures,
            url_failures: None,
            last_failed_at: LAST,
            asked_until: None,
        };
        change(&mut failing);
        assert_eq!(reschedule(&failing, policy), expected, "{failures} failures");
    }

    #[test]
    fn a_changed_policy_says_when_what_waits_is_tried_next() {
        let seed = RetryPolicy::default();
        let slow = RetryPolicy {
            minimum_delay_s: 600,
            maximum_delay_s: 3600,
            backoff_retries: Some(2),
            ..RetryPolicy::default()
        };
        let short = RetryPolicy {
            minimum_delay_retries: 0,
            maximum_delay_retries: 0,
            backoff_retries: Some(1),
            ..RetryPolicy::default()
        };
        let dead = RetryPolicy {
            on_exhausted: OnExhausted::DeadLetter,
            ..short.clone()
        };
        let table = [
            (1, &seed, at(0, Phase::Immediate)),
            (4, &seed, at(5, Phase::PreBackoff)),
            (15, &seed, at(30, Phase::PostBackoff)),
            (16, &seed, Rescheduled::Parked),
            (4, &slow, at(600, Phase::PreBackoff)),
            (8, &slow, at(3600, Phase::Backoff)),
            (11, &slow, at(3600, Phase::PostBackoff)),
            (12, &slow, Rescheduled::Parked),
            (4, &short, at(5, Phase::Backoff)),
            (5, &short, Rescheduled::Parked),
            (5, &dead, Rescheduled::DeadLettered),
            (1000, &dead, Rescheduled::DeadLettered),
        ];
        for (failures, policy, expected) in table {
            check(failures, |_| {}, policy, expected);
        }
    }

    #[test]
    fn the_receivers_wish_and_the_messages_own_schedule_hold_under_any_policy() {
        let seed = RetryPolicy::default();
        let asked = |seconds| {
            move |failing: &mut Failing<'_>| {
                failing.asked_until = Some(Timestamp::from_seconds(LAST.seconds() + seconds));
            }
        };
        check(4, asked(120), &seed, at(120, Phase::PreBackoff));
        check(4, asked(2), &seed, at(5, Phase::PreBackoff));
        check(16, asked(120), &seed, Rescheduled::Parked);
        let own = |failing: &mut Failing<'_>| {
            failing.own = Override {
                polling_time_s: Some(7),
                restart_count: Some(2),
            };
        };
        check(2, own, &seed, at(7, Phase::Backoff));
        check(3, own, &seed, Rescheduled::Parked);
        let apart = |failing: &mut Failing<'_>| failing.own.polling_time_s = Some(7);
        check(15, apart, &seed, at(7, Phase::Backoff));
        let with_url = |failing: &mut Failing<'_>| {
            own(failing);
            failing.url_failures = Some(4);
        };
        check(2, with_url, &seed, at(5, Phase::PreBackoff));
    }

    #[test]
    fn a_message_with_attempts_left_is_not_dead_lettered_because_its_url_failed_by_others() {
        let parks = RetryPolicy::default();
        let dead = RetryPolicy {
            on_exhausted: OnExhausted::DeadLetter,
            ..RetryPolicy::default()
        };
        let with_url = |failing: &mut Failing<'_>| failing.url_failures = Some(16);
        check(3, with_url, &dead, at(30, Phase::PostBackoff));
        check(16, with_url, &dead, Rescheduled::DeadLettered);
        check(3, with_url, &parks, Rescheduled::Parked);
    }

    #[test]
    fn the_jitter_of_a_retry_is_its_own_and_always_the_same() {
        let policy = RetryPolicy {
            jitter: 1.0,
            ..RetryPolicy::default()
        };
        let schedule = policy.schedule();
        let wait = |id: &str, failures| wait_after(&policy, &schedule, &message(id), failures).unwrap().1;
        assert_eq!(wait("a", 4), wait("a", 4));
        assert_ne!(wait("a", 4), wait("b", 4));
        assert_ne!(wait("a", 4), wait("a", 5));
        let mut rolls: Vec<f64> = (0..1000).map(|n| roll(&message(&format!("n-{n}")), 4)).collect();
        rolls.sort_by(f64::total_cmp);
        assert!(rolls[0] >= 0.0 && rolls[999] < 1.0);
        // Evenly spread: each tenth of the rolls is about where it belongs.
        for tenth in 1..10 {
            let expected = f64::from(tenth) / 10.0;
            let found = rolls[usize::try_from(tenth).unwrap() * 100];
            assert!((found - expected).abs() < 0.06, "{tenth}: {found}");
        }
    }
}
