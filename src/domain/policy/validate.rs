//! What a policy may contain, and how it is written.
//!
//! Nothing is corrected silently: a wrong type, an unknown key, a number past its bound each end in
//! an error that names the field and the mend. `null` is the absence of a policy, an empty table is a
//! policy with every key at its default.

use super::super::nearest::nearest;
use super::super::pace::{RATE_MAX, SPAN_S_MAX};
use super::super::value::Value;
use super::{BackoffFunction, DELAY_S_MAX, OnExhausted, OnRefused, Phase, RETRIES_MAX, RetryPolicy, SCHEDULE_S_MAX};

/// Whose policy it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyOwner {
    /// A queue, that is an event type.
    Queue,
    /// A subscription or a URL: it cannot decide that it is itself ignored.
    Subscription,
    /// The configuration.
    Default,
}

/// What is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("{message}")]
pub struct PolicyError {
    /// The key at fault; none when the whole is not a policy.
    pub field: Option<String>,
    /// For an unknown key: the known one that was probably meant.
    pub nearest: Option<String>,
    /// What is wrong and what would be right, with the key.
    pub message: String,
}

impl PolicyError {
    fn of(field: &str, message: &str) -> Self {
        Self {
            field: Some(field.to_owned()),
            nearest: None,
            message: format!("{field} {message}"),
        }
    }
}

const NO_DELAY_RETRIES: &str = "retries_with_no_delay";
const MINIMUM_DELAY_RETRIES: &str = "minimum_delay_retries";
const MINIMUM_DELAY: &str = "minimum_delay";
const MAXIMUM_DELAY: &str = "maximum_delay";
const MAXIMUM_DELAY_RETRIES: &str = "maximum_delay_retries";
const FUNCTION: &str = "retry_backoff_function";
const BACKOFF_RETRIES: &str = "backoff_retries";
const JITTER: &str = "jitter";
const ON_EXHAUSTED: &str = "on_exhausted";
const ON_REFUSED: &str = "on_refused";
const IGNORE_SUBSCRIPTION: &str = "ignore_subscription_override";

/// What a rate is counted in.
const A_SECOND: &str = "messages a second";
const SLOW_START: &str = "slow_start";
const SLOW_START_INTERVAL: &str = "slow_start_interval";
const SLOW_START_MAXIMUM: &str = "slow_start_maximum";

const KEYS: [&str; 14] = [
    NO_DELAY_RETRIES,
    MINIMUM_DELAY_RETRIES,
    MINIMUM_DELAY,
    MAXIMUM_DELAY,
    MAXIMUM_DELAY_RETRIES,
    FUNCTION,
    BACKOFF_RETRIES,
    JITTER,
    ON_EXHAUSTED,
    ON_REFUSED,
    SLOW_START,
    SLOW_START_INTERVAL,
    SLOW_START_MAXIMUM,
    IGNORE_SUBSCRIPTION,
];

impl RetryPolicy {
    /// The policy that was written; none for null.
    ///
    /// # Errors
    /// The first thing that is wrong, with its field.
    pub fn from_value(value: &Value, owner: PolicyOwner) -> Result<Option<Self>, PolicyError> {
        let entries = match value {
            Value::Null => return Ok(None),
            Value::Table(entries) => entries,
            other @ (Value::Bool(_) | Value::Integer(_) | Value::Number(_) | Value::Text(_) | Value::List(_)) => {
                let message = format!("a retry policy is a table of its keys, not {}", other.kind());
                return Err(PolicyError {
                    field: None,
                    nearest: None,
                    message,
                });
            }
        };
        let mut policy = Self::default();
        for (index, (key, value)) in entries.iter().enumerate() {
            if entries.iter().take(index).any(|(earlier, _)| earlier == key) {
                return Err(PolicyError::of(key, "is given twice"));
            }
            policy.set(key, value, owner)?;
        }
        let given = |key: &str| entries.iter().any(|(given, _)| given == key);
        policy.check_delays(given)?;
        policy.check_slow_start(given)?;
        policy.check_length()?;
        Ok(Some(policy))
    }

    /// The policy as it would be written, every key of its owner in the order of the documentation;
    /// `backoff_retries` only where it is set, and so the slow start.
    #[must_use]
    pub fn to_value(&self, owner: PolicyOwner) -> Value {
        let mut entries = vec![
            (NO_DELAY_RETRIES, integer(self.retries_with_no_delay)),
            (MINIMUM_DELAY_RETRIES, integer(self.minimum_delay_retries)),
            (MINIMUM_DELAY, integer(self.minimum_delay_s)),
            (MAXIMUM_DELAY, integer(self.maximum_delay_s)),
            (MAXIMUM_DELAY_RETRIES, integer(self.maximum_delay_retries)),
            (FUNCTION, text(self.function.as_str())),
        ];
        entries.extend(self.backoff_retries.map(|count| (BACKOFF_RETRIES, integer(count))));
        entries.push((JITTER, Value::Number(self.jitter)));
        entries.push((ON_EXHAUSTED, text(self.on_exhausted.as_str())));
        entries.push((ON_REFUSED, text(self.on_refused.as_str())));
        if self.slow_start > 0 {
            entries.push((SLOW_START, integer(self.slow_start)));
            entries.push((SLOW_START_INTERVAL, integer(self.slow_start_interval_s)));
            entries.push((SLOW_START_MAXIMUM, integer(self.slow_start_maximum)));
        }
        if owner != PolicyOwner::Subscription {
            entries.push((IGNORE_SUBSCRIPTION, Value::Bool(self.ignore_subscription_override)));
        }
        Value::Table(
            entries
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
    }

    fn set(&mut self, key: &str, value: &Value, owner: PolicyOwner) -> Result<(), PolicyError> {
        match key {
            NO_DELAY_RETRIES => self.retries_with_no_delay = count(key, value)?,
            MINIMUM_DELAY_RETRIES => self.minimum_delay_retries = count(key, value)?,
            MINIMUM_DELAY => self.minimum_delay_s = delay(key, value)?,
            MAXIMUM_DELAY => self.maximum_delay_s = delay(key, value)?,
            MAXIMUM_DELAY_RETRIES => self.maximum_delay_retries = count(key, value)?,
            FUNCTION => self.function = choice(key, value, &BackoffFunction::ALL, BackoffFunction::as_str)?,
            BACKOFF_RETRIES => self.backoff_retries = Some(count(key, value)?),
            JITTER => self.jitter = share(key, value)?,
            ON_EXHAUSTED => self.on_exhausted = choice(key, value, &OnExhausted::ALL, OnExhausted::as_str)?,
            ON_REFUSED => self.on_refused = choice(key, value, &OnRefused::ALL, OnRefused::as_str)?,
            SLOW_START => self.slow_start = bounded(key, value, 0, RATE_MAX, A_SECOND)?,
            SLOW_START_INTERVAL => self.slow_start_interval_s = bounded(key, value, 1, SPAN_S_MAX, "seconds (a day)")?,
            SLOW_START_MAXIMUM => self.slow_start_maximum = bounded(key, value, 1, RATE_MAX, A_SECOND)?,
            IGNORE_SUBSCRIPTION if owner == PolicyOwner::Subscription => {
                return Err(PolicyError::of(
                    key,
                    "belongs to a queue's policy, not to a subscription's",
                ));
            }
            IGNORE_SUBSCRIPTION => self.ignore_subscription_override = flag(key, value)?,
            unknown => return Err(unknown_key(unknown, owner)),
        }
        Ok(())
    }

    /// Of two delays that do not fit together, the one that was written is at fault; of two written,
    /// the maximum.
    fn check_delays(&self, given: impl Fn(&str) -> bool) -> Result<(), PolicyError> {
        let (minimum, maximum) = (self.minimum_delay_s, self.maximum_delay_s);
        if minimum > maximum && given(MAXIMUM_DELAY) {
            let message = format!("{maximum} is below {MINIMUM_DELAY} {minimum}; both are seconds");
            return Err(PolicyError::of(MAXIMUM_DELAY, &message));
        }
        if minimum > maximum {
            let message = format!("{minimum} is above {MAXIMUM_DELAY} {maximum}, its default; give both");
            return Err(PolicyError::of(MINIMUM_DELAY, &message));
        }
        let multiplies = matches!(self.function, BackoffFunction::Geometric | BackoffFunction::Exponential);
        if minimum == 0 && multiplies {
            let message = format!(
                "must be at least 1 for the {} function: no multiple of 0 grows",
                self.function.as_str()
            );
            return Err(PolicyError::of(MINIMUM_DELAY, &message));
        }
        Ok(())
    }

    /// What says how a slow start goes says nothing where there is none, and a ramp that ends below its begin is none.
    fn check_slow_start(&self, given: impl Fn(&str) -> bool) -> Result<(), PolicyError> {
        if self.slow_start == 0 {
            let alone = [SLOW_START_INTERVAL, SLOW_START_MAXIMUM]
                .into_iter()
                .find(|key| given(key));
            return alone.map_or(Ok(()), |key| {
                let message = format!("needs {SLOW_START}: messages a second to begin with, 1 for example");
                Err(PolicyError::of(key, &message))
            });
        }
        let (start, maximum) = (self.slow_start, self.slow_start_maximum);
        if maximum >= start {
            return Ok(());
        }
        if given(SLOW_START_MAXIMUM) {
            let message = format!("{maximum} is below {SLOW_START} {start}; both are messages a second");
            return Err(PolicyError::of(SLOW_START_MAXIMUM, &message));
        }
        let message = format!("{start} is above {SLOW_START_MAXIMUM} {maximum}, its default; give both");
        Err(PolicyError::of(SLOW_START, &message))
    }

    fn check_length(&self) -> Result<(), PolicyError> {
        let derived = self.backoff_count();
        if derived > RETRIES_MAX {
            let message = format!(
                "would be {derived} between {MINIMUM_DELAY} {} and {MAXIMUM_DELAY} {}, and is at most {RETRIES_MAX}; set it",
                self.minimum_delay_s, self.maximum_delay_s
            );
            return Err(PolicyError::of(BACKOFF_RETRIES, &message));
        }
        let schedule = self.schedule();
        let total_s = schedule.total_s();
        if total_s <= SCHEDULE_S_MAX {
            return Ok(());
        }
        // The phase that takes the most time is the one whose count has to come down.
        let seconds = |phase| schedule.phase_delays_s(phase).map(u64::from).sum::<u64>();
        let counts = [
            (BACKOFF_RETRIES, seconds(Phase::Backoff)),
            (MAXIMUM_DELAY_RETRIES, seconds(Phase::PostBackoff)),
            (MINIMUM_DELAY_RETRIES, seconds(Phase::PreBackoff)),
        ];
        let longest = counts
            .iter()
            .max_by_key(|(_, seconds)| *seconds)
            .map_or(BACKOFF_RETRIES, |(key, _)| *key);
        let message = format!("makes the schedule {total_s} s long, and it is at most {SCHEDULE_S_MAX} s (a year)");
        Err(PolicyError::of(longest, &message))
    }
}

fn unknown_key(key: &str, owner: PolicyOwner) -> PolicyError {
    let known = KEYS
        .iter()
        .copied()
        .filter(|known| owner != PolicyOwner::Subscription || *known != IGNORE_SUBSCRIPTION);
    let nearest = nearest(key, known);
    let hint = match nearest {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => format!("known are {}", KEYS.join(", ")),
    };
    let message = format!("{key:?} is not a key of a retry policy; {hint}");
    PolicyError {
        field: Some(key.to_owned()),
        nearest: nearest.map(str::to_owned),
        message,
    }
}

fn count(key: &str, value: &Value) -> Result<u32, PolicyError> {
    bounded(key, value, 0, RETRIES_MAX, "retries")
}

fn delay(key: &str, value: &Value) -> Result<u32, PolicyError> {
    bounded(key, value, 0, DELAY_S_MAX, "seconds (30 days)")
}

fn bounded(key: &str, value: &Value, minimum: u32, maximum: u32, unit: &str) -> Result<u32, PolicyError> {
    // Readers of JSON hand over an integer that is too long for them as a fractional number.
    const INTEGER_IN_DOUBT: f64 = 9e15;
    let outside = |shown: &dyn std::fmt::Display| {
        PolicyError::of(key, &format!("{shown} is not between {minimum} and {maximum} {unit}"))
    };
    match value {
        Value::Integer(integer) => match u32::try_from(*integer) {
            Ok(number) if (minimum..=maximum).contains(&number) => Ok(number),
            Ok(_) | Err(_) => Err(outside(integer)),
        },
        Value::Number(number) if number.abs() >= INTEGER_IN_DOUBT => Err(outside(number)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_) | Value::Table(_) => Err(
            PolicyError::of(key, &format!("must be an integer, not {}", value.kind())),
        ),
    }
}

fn share(key: &str, value: &Value) -> Result<f64, PolicyError> {
    let number = match value {
        Value::Integer(0) => 0.0,
        Value::Integer(1) => 1.0,
        Value::Number(number) => *number,
        Value::Integer(_) => f64::NAN,
        Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Table(_) => {
            return Err(PolicyError::of(key, &format!("must be a number, not {}", value.kind())));
        }
    };
    if (0.0..=1.0).contains(&number) {
        return Ok(number);
    }
    Err(PolicyError::of(
        key,
        "is a share of the delay and must be between 0 and 1",
    ))
}

fn flag(key: &str, value: &Value) -> Result<bool, PolicyError> {
    let Value::Bool(flag) = value else {
        return Err(PolicyError::of(
            key,
            &format!("must be true or false, not {}", value.kind()),
        ));
    };
    Ok(*flag)
}

fn choice<T: Copy>(key: &str, value: &Value, all: &[T], name: fn(T) -> &'static str) -> Result<T, PolicyError> {
    let names = all.iter().map(|choice| name(*choice)).collect::<Vec<_>>().join(", ");
    let Value::Text(text) = value else {
        return Err(PolicyError::of(
            key,
            &format!("must be one of {names}, not {}", value.kind()),
        ));
    };
    let found = all.iter().copied().find(|choice| name(*choice) == text);
    found.ok_or_else(|| PolicyError::of(key, &format!("{text:?} is not one of {names}")))
}

fn integer(number: u32) -> Value {
    Value::Integer(i128::from(number))
}

fn text(name: &str) -> Value {
    Value::Text(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::super::value::{Value, from_json};
    use super::super::{OnRefused, RetryPolicy};
    use super::{PolicyError, PolicyOwner};

    const VECTORS: &str = include_str!("../../../tests/vectors/policy_validation.json");

    fn check(json: &str) -> Result<Option<RetryPolicy>, PolicyError> {
        RetryPolicy::from_value(&from_json(&serde_json::from_str(json).unwrap()), PolicyOwner::Queue)
    }

    #[track_caller]
    fn refused(json: &str, field: &str, part: &str) {
        let error = check(json).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{error:?}");
        assert!(error.message.contains(part), "{error:?}");
    }

    #[test]
    fn what_is_valid_is_that_of_the_vectors() {
        let cases: Vec<serde_json::Value> = serde_json::from_str(VECTORS).unwrap();
        assert!(!cases.is_empty());
        for case in &cases {
            let result = RetryPolicy::from_value(&from_json(&case["policy"]), PolicyOwner::Queue);
            assert_eq!(result.is_ok(), case["valid"].as_bool().unwrap(), "{case}: {result:?}");
            let Err(error) = result else { continue };
            assert_eq!(error.field.as_deref(), case["names"].as_str(), "{case}: {error:?}");
            assert_eq!(error.nearest.as_deref(), case["nearest"].as_str(), "{case}: {error:?}");
        }
    }

    #[test]
    fn null_is_no_policy_and_an_empty_table_is_the_default_one() {
        assert_eq!(check("null"), Ok(None));
        assert_eq!(check("{}"), Ok(Some(RetryPolicy::default())));
    }

    #[test]
    fn an_error_names_the_bound_that_was_broken() {
        refused(
            r#"{"retries_with_no_delay": 1001}"#,
            "retries_with_no_delay",
            "0 and 1000",
        );
        refused(
            r#"{"maximum_delay": 99999999999999999999}"#,
            "maximum_delay",
            "2592000 seconds",
        );
        refused(r#"{"minimum_delay": 2592001}"#, "minimum_delay", "2592000");
        refused(r#"{"maximum_delay": 86400}"#, "backoff_retries", "17280");
        refused(r#"{"jitter": -0.1}"#, "jitter", "between 0 and 1");
        refused(r#"{"jitter": 2}"#, "jitter", "between 0 and 1");
        refused(
            r#"{"on_refused": "deadletter"}"#,
            "on_refused",
            "dead_letter, accept, retry",
        );
    }

    #[test]
    fn a_schedule_of_more_than_a_year_names_the_count_of_its_longest_phase() {
        refused(
            r#"{"maximum_delay": 86400, "backoff_retries": 2, "maximum_delay_retries": 365}"#,
            "maximum_delay_retries",
            "a year",
        );
        refused(
            r#"{"maximum_delay": 2592000, "backoff_retries": 100}"#,
            "backoff_retries",
            "a year",
        );
        refused(
            r#"{"minimum_delay": 86400, "maximum_delay": 86400, "minimum_delay_retries": 1000}"#,
            "minimum_delay_retries",
            "a year",
        );
        assert!(check(r#"{"maximum_delay": 86400, "backoff_retries": 2, "maximum_delay_retries": 363}"#).is_ok());
    }

    #[test]
    fn a_slow_start_says_what_is_missing_and_which_number_is_wrong() {
        refused(
            r#"{"slow_start_interval": 5}"#,
            "slow_start_interval",
            "needs slow_start",
        );
        refused(
            r#"{"slow_start": 0, "slow_start_maximum": 5}"#,
            "slow_start_maximum",
            "needs slow_start",
        );
        refused(
            r#"{"slow_start": 10, "slow_start_maximum": 9}"#,
            "slow_start_maximum",
            "9 is below slow_start 10",
        );
        refused(
            r#"{"slow_start": 5000}"#,
            "slow_start",
            "above slow_start_maximum 1000, its default",
        );
        refused(
            r#"{"slow_start": 1, "slow_start_interval": 0}"#,
            "slow_start_interval",
            "between 1 and 86400 seconds",
        );
        refused(r#"{"slow_start": true}"#, "slow_start", "must be an integer");
        let pace = check(r#"{"slow_start": 1, "slow_start_maximum": 50}"#)
            .unwrap()
            .unwrap()
            .pace()
            .unwrap();
        assert_eq!(
            pace.in_words(),
            "from 1 a second, times 2 every 10 s, at most 50 a second"
        );
        assert_eq!(check("{}").unwrap().unwrap().pace(), None);
    }

    #[test]
    fn a_key_given_twice_is_refused() {
        let twice = [
            ("jitter".to_owned(), Value::Integer(0)),
            ("jitter".to_owned(), Value::Integer(1)),
        ];
        let error = RetryPolicy::from_value(&Value::Table(twice.into()), PolicyOwner::Default).unwrap_err();
        assert_eq!(error.field.as_deref(), Some("jitter"));
    }

    #[test]
    fn an_unknown_key_is_shown_escaped() {
        let error = check("{\"a\\u001b[2J\": 1}").unwrap_err();
        assert!(!error.message.contains('\u{1b}'), "{error:?}");
        assert_eq!(error.nearest, None);
    }

    #[test]
    fn what_is_written_reads_back_as_the_same_policy() {
        let policy = RetryPolicy {
            backoff_retries: Some(7),
            jitter: 0.25,
            on_refused: OnRefused::Retry,
            ..RetryPolicy::default()
        };
        let slow = RetryPolicy {
            slow_start: 2,
            slow_start_interval_s: 5,
            slow_start_maximum: 64,
            ..policy.clone()
        };
        let read = RetryPolicy::from_value(&slow.to_value(PolicyOwner::Queue), PolicyOwner::Queue).unwrap();
        assert_eq!(read, Some(slow));
        for owner in [PolicyOwner::Queue, PolicyOwner::Subscription, PolicyOwner::Default] {
            let read = RetryPolicy::from_value(&policy.to_value(owner), owner).unwrap();
            assert_eq!(read, Some(policy.clone()));
        }
    }
}
