//! The retry policy: how often and when a failed notification is tried again, and what happens then.
//!
//! Four phases follow each other: retries at once, retries with the minimum delay, a backoff from the
//! minimum to the maximum delay, retries with the maximum delay. The keys are those of the "delivery
//! policy" of Zaqar; the ones added to them are marked. `validate` says what a policy may
//! contain, `schedule` what comes out of it, `reschedule` what it says of a message that failed. Left out on
//! purpose: the clock, and the decision after an attempt, which belongs to the verdict.

mod reschedule;
mod schedule;
mod validate;

use super::named::named;
use super::pace::{PaceOrder, Ramp};

pub use reschedule::{Failing, Failures, Rescheduled, next_retry, reschedule};
pub use schedule::{Phase, Schedule, ScheduledRetry, with_jitter};
pub use validate::{PolicyError, PolicyOwner};

/// Retries of one phase, at most.
pub const RETRIES_MAX: u32 = 1_000;
/// One delay in seconds, at most: 30 days.
pub const DELAY_S_MAX: u32 = 30 * 24 * 3600;
/// All delays of a schedule together in seconds, at most: 365 days.
pub const SCHEDULE_S_MAX: u64 = 365 * 24 * 3600;

/// How often, when, and what then.
///
/// The fields are public for reading and for tests; a policy from outside is made by
/// [`RetryPolicy::from_value`], which is where the bounds are checked.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RetryPolicy {
    /// Retries without any delay, at most [`RETRIES_MAX`].
    pub retries_with_no_delay: u32,
    /// Retries with the minimum delay, before the backoff, at most [`RETRIES_MAX`].
    pub minimum_delay_retries: u32,
    /// Key `minimum_delay`: seconds, where the backoff begins.
    pub minimum_delay_s: u32,
    /// Key `maximum_delay`: seconds, where the backoff ends, at most [`DELAY_S_MAX`].
    pub maximum_delay_s: u32,
    /// Retries with the maximum delay, after the backoff, at most [`RETRIES_MAX`].
    pub maximum_delay_retries: u32,
    /// Key `retry_backoff_function`: the curve between the two delays.
    pub function: BackoffFunction,
    /// Added: the number of delays of the backoff; absent, it follows from the two delays.
    pub backoff_retries: Option<u32>,
    /// Added: the share of each delay, 0 to 1, up to which a random part is added to it.
    pub jitter: f64,
    /// Added: what happens when every retry is used up.
    pub on_exhausted: OnExhausted,
    /// Added: what happens to a message that the receiver refused.
    pub on_refused: OnRefused,
    /// A queue's policy only: it holds even where a subscription brings its own.
    pub ignore_subscription_override: bool,
    /// Added, key `slow_start`: messages a second with which an endpoint begins that is available again by itself, twice
    /// as many after each interval; 0: everything at once.
    #[serde(default)]
    pub slow_start: u32,
    /// Added, key `slow_start_interval`: seconds until the rate doubles.
    #[serde(default = "slow_start_interval_s")]
    pub slow_start_interval_s: u32,
    /// Added, key `slow_start_maximum`: messages a second at which nothing is held back any more.
    #[serde(default = "slow_start_maximum")]
    pub slow_start_maximum: u32,
}

/// Without `slow_start_interval`.
pub const SLOW_START_INTERVAL_S: u32 = 10;
/// Without `slow_start_maximum`.
pub const SLOW_START_MAXIMUM: u32 = 1_000;

const fn slow_start_interval_s() -> u32 {
    SLOW_START_INTERVAL_S
}

const fn slow_start_maximum() -> u32 {
    SLOW_START_MAXIMUM
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries_with_no_delay: 3,
            minimum_delay_retries: 3,
            minimum_delay_s: 5,
            maximum_delay_s: 30,
            maximum_delay_retries: 3,
            function: BackoffFunction::Linear,
            backoff_retries: None,
            jitter: 0.0,
            on_exhausted: OnExhausted::Park,
            on_refused: OnRefused::DeadLetter,
            ignore_subscription_override: false,
            slow_start: 0,
            slow_start_interval_s: SLOW_START_INTERVAL_S,
            slow_start_maximum: SLOW_START_MAXIMUM,
        }
    }
}

impl RetryPolicy {
    /// The built-in policy, which holds where nobody wrote any: dense in the first minutes, then hour by hour for
    /// a whole day, so that a receiver's bad day ends before anybody has to act. A policy that is written, also
    /// without any key, starts from [`RetryPolicy::default`] instead.
    #[must_use]
    pub const fn built_in() -> Self {
        Self {
            retries_with_no_delay: 1,
            minimum_delay_retries: 2,
            minimum_delay_s: 5,
            maximum_delay_s: 3600,
            maximum_delay_retries: 22,
            function: BackoffFunction::Geometric,
            backoff_retries: Some(18),
            jitter: 0.0,
            on_exhausted: OnExhausted::Park,
            on_refused: OnRefused::DeadLetter,
            ignore_subscription_override: false,
            slow_start: 0,
            slow_start_interval_s: SLOW_START_INTERVAL_S,
            slow_start_maximum: SLOW_START_MAXIMUM,
        }
    }

    /// How an endpoint goes that is available again by itself; `None`: as fast as it can.
    #[must_use]
    pub fn pace(&self) -> Option<PaceOrder> {
        let ramp = Ramp {
            from: self.slow_start,
            factor: 2,
            every_s: self.slow_start_interval_s,
        };
        (self.slow_start > 0).then(|| PaceOrder {
            rate: Some(self.slow_start_maximum),
            ramp: Some(ramp),
            ends_at_rate: true,
            ..PaceOrder::default()
        })
    }
}

/// The curve of the backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum BackoffFunction {
    /// Equal steps.
    Linear,
    /// Steps that grow by an equal amount.
    Arithmetic,
    /// Each delay the same multiple of the one before.
    Geometric,
    /// The same curve as geometric: Zaqar's two formulas differ only by float truncation.
    Exponential,
}

impl BackoffFunction {
    /// Every function, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::Linear, Self::Arithmetic, Self::Geometric, Self::Exponential];

    /// The name in a policy.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Arithmetic => "arithmetic",
            Self::Geometric => "geometric",
            Self::Exponential => "exponential",
        }
    }
}

/// What happens when every retry is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum OnExhausted {
    /// Wait for a person; the message stays at the head.
    Park,
    /// The message goes to its dead-letter queue.
    DeadLetter,
}

impl OnExhausted {
    /// Every choice.
    pub const ALL: [Self; 2] = [Self::Park, Self::DeadLetter];

    /// The name in a policy.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Park => "park",
            Self::DeadLetter => "dead_letter",
        }
    }
}

/// What happens to a message that the receiver refused (most of 3xx and 4xx).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum OnRefused {
    /// The message goes to its dead-letter queue, with the reason.
    DeadLetter,
    /// It counts as delivered.
    Accept,
    /// It counts as failed, and is tried again.
    Retry,
}

impl OnRefused {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::DeadLetter, Self::Accept, Self::Retry];

    /// The name in a policy.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeadLetter => "dead_letter",
            Self::Accept => "accept",
            Self::Retry => "retry",
        }
    }
}

/// What one message asks for instead of the four phases of its policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Override {
    /// Seconds between retries; absent, the policy's minimum delay.
    pub polling_time_s: Option<u32>,
    /// Number of retries; absent, as many as the policy has.
    pub restart_count: Option<u32>,
}

/// Whose policy applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum PolicySource {
    /// The queue's (the event type's; for what is published directly, the configuration's).
    Queue,
    /// The subscription's (for what is published directly, the URL's).
    Subscription,
    /// Neither has one.
    Default,
}

named! {
    /// The word for a screen or a program.
    PolicySource {
        Self::Queue => "queue",
        Self::Subscription => "subscription",
        Self::Default => "default",
    }
}

/// For which notifications a policy is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// Those of a type of events.
    ByEvents,
    /// Those that are published directly: what counts as the subscription's policy is the URL's.
    Directly,
}

impl PolicySource {
    /// Whose `policy` is, in a sentence: where nobody wrote one, it is the built-in one.
    #[must_use]
    pub fn in_words(self, published: Published, policy: &RetryPolicy) -> &'static str {
        match self {
            Self::Queue => "the queue's",
            Self::Subscription if published == Published::Directly => "the URL's",
            Self::Subscription => "the subscription's",
            Self::Default if *policy == RetryPolicy::built_in() => "the built-in one",
            Self::Default => "the configuration's",
        }
    }
}

/// Which policy applies. A policy that is there without any key is still there: all its defaults hold.
///
/// 1. The queue's, when it says that it ignores subscriptions.
/// 2. The subscription's, when it has one.
/// 3. The queue's, when it has one.
/// 4. The default.
#[must_use]
pub fn applicable<'a>(
    queue: Option<&'a RetryPolicy>,
    subscription: Option<&'a RetryPolicy>,
    default: &'a RetryPolicy,
) -> (&'a RetryPolicy, PolicySource) {
    match (queue, subscription) {
        (Some(queue), _) if queue.ignore_subscription_override => (queue, PolicySource::Queue),
        (_, Some(subscription)) => (subscription, PolicySource::Subscription),
        (Some(queue), None) => (queue, PolicySource::Queue),
        (None, None) => (default, PolicySource::Default),
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::from_json;
    use super::{PolicyOwner, PolicySource, Published, RetryPolicy, applicable};

    const VECTORS: &str = include_str!("../../../tests/vectors/policy_precedence.json");

    #[test]
    fn the_policy_of_a_url_is_called_a_subscriptions_only_where_events_have_one() {
        let policy = RetryPolicy::built_in();
        let whose = |published| PolicySource::Subscription.in_words(published, &policy);
        assert_eq!(whose(Published::Directly), "the URL's");
        assert_eq!(whose(Published::ByEvents), "the subscription's");
    }

    /// The word of the vector: whose policy is used, or that one of the two is refused.
    fn uses(case: &serde_json::Value) -> &'static str {
        let queue = RetryPolicy::from_value(&from_json(&case["queue"]), PolicyOwner::Queue);
        let subscription = RetryPolicy::from_value(&from_json(&case["subscription"]), PolicyOwner::Subscription);
        let (Ok(queue), Ok(subscription)) = (queue, subscription) else {
            return "rejected";
        };
        let default = RetryPolicy::default();
        let (policy, source) = applicable(queue.as_ref(), subscription.as_ref(), &default);
        let expected = match source {
            super::PolicySource::Queue => queue.as_ref().unwrap(),
            super::PolicySource::Subscription => subscription.as_ref().unwrap(),
            super::PolicySource::Default => &default,
        };
        assert_eq!(policy, expected);
        source.as_str()
    }

    #[test]
    fn the_policy_that_applies_is_that_of_the_vectors() {
        let cases: Vec<serde_json::Value> = serde_json::from_str(VECTORS).unwrap();
        assert!(!cases.is_empty());
        for case in &cases {
            assert_eq!(uses(case), case["uses"].as_str().unwrap(), "{case}");
        }
    }
}
