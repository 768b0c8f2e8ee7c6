//! The metadata of an event type: free keys, and reserved ones that begin with `_` and decide.
//!
//! Nothing is corrected silently: an unknown reserved key, a wrong kind or a number past its bound ends in an
//! error with the key. Whether the dead-letter type exists, and whether it makes a chain, only the store knows.

use std::time::Duration;

use super::{Backoff, EventError, EventType, HandlingRules, LIFETIME_S};
use crate::domain::nearest::nearest;
use crate::domain::policy::{PolicyOwner, RetryPolicy};
use crate::domain::signature::SigningSecret;
use crate::domain::value::Value;

const MAX_CLAIM_COUNT: &str = "_max_claim_count";
const DEAD_LETTER_QUEUE: &str = "_dead_letter_queue";
const DEAD_LETTER_TTL: &str = "_dead_letter_queue_messages_ttl";
const RETRY_POLICY: &str = "_retry_policy";
const CUTOFF: &str = "_cutoff";
const BACKOFF_BASE: &str = "_backoff_base";
const BACKOFF_CAP: &str = "_backoff_cap";
const WINDOW: &str = "_coalesce_window";
const WINDOW_MAX: &str = "_coalesce_window_max";
const HISTORY_TTL: &str = "_history_ttl";

const KEYS: [&str; 10] = [
    MAX_CLAIM_COUNT,
    DEAD_LETTER_QUEUE,
    DEAD_LETTER_TTL,
    RETRY_POLICY,
    CUTOFF,
    BACKOFF_BASE,
    BACKOFF_CAP,
    WINDOW,
    WINDOW_MAX,
    HISTORY_TTL,
];

/// What the reserved keys say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// What happens to events that are claimed again and again.
    pub dead_lettering: DeadLettering,
    /// Whether a busy key waits for quiet.
    pub coalescing: Option<Coalescing>,
    /// The policy of the notifications that are made of its events.
    pub retry_policy: Option<RetryPolicy>,
    /// Failures that make a dead letter, where it differs from the configuration.
    pub cutoff: Option<u32>,
    /// The first delay of the backoff, where it differs.
    pub backoff_base: Option<Duration>,
    /// The longest delay of the backoff, where it differs.
    pub backoff_cap: Option<Duration>,
    /// How long handled events are remembered; not at all without.
    pub history: Option<Duration>,
}

/// Only both, count and type, make the feature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLettering {
    /// An event that was claimed this often is moved on the next claim.
    pub max_claim_count: Option<u32>,
    /// Where to.
    pub event_type: Option<EventType>,
    /// How long it lives there; what is left of its own lifetime without.
    pub lifetime: Option<Duration>,
}

/// Each push of a key that waits postpones it by the window, and no longer than the maximum in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// From the last push.
    pub window: Duration,
    /// From the first push.
    pub maximum: Duration,
}

impl Metadata {
    /// Reads the metadata of the type `owner`.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn from_value(value: &Value, owner: &EventType) -> Result<Self, EventError> {
        let Value::Table(entries) = value else {
            let problem = format!("must be an object of keys and values, not {}", value.kind());
            return Err(EventError::of("metadata", &problem));
        };
        let mut metadata = Self::default();
        let (mut window, mut window_max) = (None, None);
        for (key, value) in entries {
            match key.as_str() {
                MAX_CLAIM_COUNT => metadata.dead_lettering.max_claim_count = Some(count(key, value, 1..=1000)?),
                DEAD_LETTER_QUEUE => metadata.dead_lettering.event_type = Some(target(value, owner)?),
                DEAD_LETTER_TTL => metadata.dead_lettering.lifetime = Some(span(key, value, LIFETIME_S)?),
                RETRY_POLICY => metadata.retry_policy = policy(value, PolicyOwner::Queue)?,
                CUTOFF => metadata.cutoff = Some(count(key, value, 1..=1000)?),
                BACKOFF_BASE => metadata.backoff_base = Some(span(key, value, 1..=2_592_000)?),
                BACKOFF_CAP => metadata.backoff_cap = Some(span(key, value, 1..=2_592_000)?),
                WINDOW => window = Some(span(key, value, 1..=86_400)?),
                WINDOW_MAX => window_max = Some(span(key, value, 1..=604_800)?),
                HISTORY_TTL => metadata.history = Some(span(key, value, 60..=7_776_000)?),
                unknown if unknown.starts_with('_') => return Err(unknown_key(unknown)),
                _ => {}
            }
        }
        metadata.coalescing = coalescing(window, window_max)?;
        metadata.check_backoff()?;
        Ok(metadata)
    }

    /// The rules of this type, over those of the configuration.
    #[must_use]
    pub fn rules(&self, configured: HandlingRules) -> HandlingRules {
        let base = self.backoff_base.unwrap_or(configured.backoff.base);
        HandlingRules {
            cutoff: self.cutoff.unwrap_or(configured.cutoff),
            backoff: Backoff {
                base,
                cap: self.backoff_cap.unwrap_or(configured.backoff.cap).max(base),
            },
        }
    }

    fn check_backoff(&self) -> Result<(), EventError> {
        match (self.backoff_base, self.backoff_cap) {
            (Some(base), Some(cap)) if cap < base => Err(EventError::of(
                BACKOFF_CAP,
                &format!(
                    "must not be less than {BACKOFF_BASE}, which is {} seconds",
                    base.as_secs()
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// What a subscription may say.
#[derive(Clone, Debug, Default)]
pub struct SubscriptionOptions {
    /// The policy of its notifications.
    pub retry_policy: Option<RetryPolicy>,
    /// Headers of its requests.
    pub headers: Vec<(String, String)>,
    /// What its requests are signed with; several while they are being changed.
    pub secrets: Vec<SigningSecret>,
    /// Where its requests are events of the `CloudEvents` specification: their source.
    pub cloudevents: Option<String>,
}

/// The key of the option that makes requests events of the `CloudEvents` specification: true, or their source.
const CLOUDEVENTS: &str = "cloudevents";
/// The source, where none is given.
const SOURCE: &str = "redrive";
/// Characters of a source, at most.
const SOURCE_MAX: usize = 256;

/// The option whose value is never shown.
pub const SECRET: &str = "secret";

/// The key of headers that are sent with the notifications of a subscription.
pub const HEADERS: &str = "headers";

impl SubscriptionOptions {
    /// Reads options as they were written.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn from_value(value: &Value) -> Result<Self, EventError> {
        let entries = match value {
            Value::Null => return Ok(Self::default()),
            Value::Table(entries) => entries,
            other @ (Value::Bool(_) | Value::Integer(_) | Value::Number(_) | Value::Text(_) | Value::List(_)) => {
                return Err(EventError::of(
                    "options",
                    &format!("must be an object, not {}", other.kind()),
                ));
            }
        };
        let mut options = Self::default();
        for (key, value) in entries {
            match key.as_str() {
                RETRY_POLICY => options.retry_policy = policy(value, PolicyOwner::Subscription)?,
                "headers" => options.headers = headers(value)?,
                SECRET => options.secrets = secrets(value)?,
                CLOUDEVENTS => options.cloudevents = source(value)?,
                unknown => {
                    return Err(EventError {
                        field: unknown.to_owned(),
                        nearest: nearest(unknown, [RETRY_POLICY, HEADERS, SECRET, CLOUDEVENTS]).map(str::to_owned),
                        message: format!("{unknown} is not an option of a subscription"),
                    });
                }
            }
        }
        Ok(options)
    }
}

/// The source of `CloudEvents`, if they are wanted.
fn source(value: &Value) -> Result<Option<String>, EventError> {
    match value {
        Value::Null | Value::Bool(false) => Ok(None),
        Value::Bool(true) => Ok(Some(SOURCE.to_owned())),
        Value::Text(text)
            if (1..=SOURCE_MAX).contains(&text.chars().count()) && text.chars().all(|c| c.is_ascii_graphic()) =>
        {
            Ok(Some(text.clone()))
        }
        Value::Text(_) | Value::Integer(_) | Value::Number(_) | Value::List(_) | Value::Table(_) => {
            let problem = format!("must be true, or a source: a URI of at most {SOURCE_MAX} characters");
            Err(EventError::of(CLOUDEVENTS, &problem))
        }
    }
}

/// One, or a list of up to four.
fn secrets(value: &Value) -> Result<Vec<SigningSecret>, EventError> {
    let values = match value {
        Value::Null => return Ok(Vec::new()),
        Value::List(values) if (1..=4).contains(&values.len()) => values.as_slice(),
        Value::Bool(_) | Value::Integer(_) | Value::Number(_) | Value::Text(_) | Value::List(_) | Value::Table(_) => {
            std::slice::from_ref(value)
        }
    };
    let secret = |value: &Value| match value {
        Value::Text(text) => SigningSecret::parse(text).map_err(|error| EventError::of(SECRET, &error.to_string())),
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Number(_) | Value::List(_) | Value::Table(_) => {
            let problem = format!("must be a string or a list of 1 to 4, not {}", value.kind());
            Err(EventError::of(SECRET, &problem))
        }
    };
    values.iter().map(secret).collect()
}

fn headers(value: &Value) -> Result<Vec<(String, String)>, EventError> {
    let wrong = || EventError::of("headers", "must be an object of strings");
    let Value::Table(entries) = value else {
        return Err(wrong());
    };
    let pair = |(name, value): &(String, Value)| {
        let Value::Text(value) = value else {
            return Err(wrong());
        };
        Ok((name.clone(), value.clone()))
    };
    entries.iter().map(pair).collect()
}

fn coalescing(window: Option<Duration>, maximum: Option<Duration>) -> Result<Option<Coalescing>, EventError> {
    match (window, maximum) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(EventError::of(WINDOW_MAX, &format!("needs {WINDOW} beside it"))),
        (Some(window), maximum) => {
            let maximum = maximum.unwrap_or(window * 10);
            if maximum < window {
                return Err(EventError::of(WINDOW_MAX, &format!("must not be less than {WINDOW}")));
            }
            Ok(Some(Coalescing { window, maximum }))
        }
    }
}

fn target(value: &Value, owner: &EventType) -> Result<EventType, EventError> {
    let Value::Text(name) = value else {
        return Err(EventError::of(
            DEAD_LETTER_QUEUE,
            &format!("must be a string, not {}", value.kind()),
        ));
    };
    let target = EventType::parse(name)
        .map_err(|error| EventError::of(DEAD_LETTER_QUEUE, &format!("names no type: {error}")))?;
    if target == *owner {
        return Err(EventError::of(DEAD_LETTER_QUEUE, "must not be the type itself"));
    }
    Ok(target)
}

fn policy(value: &Value, owner: PolicyOwner) -> Result<Option<RetryPolicy>, EventError> {
    RetryPolicy::from_value(value, owner).map_err(|error| EventError {
        field: match &error.field {
            Some(field) => format!("{RETRY_POLICY}.{field}"),
            None => RETRY_POLICY.to_owned(),
        },
        message: format!("{RETRY_POLICY}: {error}"),
        // The message says it.
        nearest: None,
    })
}

fn count(key: &str, value: &Value, range: std::ops::RangeInclusive<u32>) -> Result<u32, EventError> {
    let (least, most) = (*range.start(), *range.end());
    let wrong = || EventError::of(key, &format!("must be an integer, {least} to {most}"));
    let Value::Integer(number) = value else {
        return Err(wrong());
    };
    u32::try_from(*number)
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(wrong)
}

fn span(key: &str, value: &Value, range: std::ops::RangeInclusive<u64>) -> Result<Duration, EventError> {
    let (least, most) = (*range.start(), *range.end());
    let wrong = || EventError::of(key, &format!("must be an integer, {least} to {most} seconds"));
    let Value::Integer(number) = value else {
        return Err(wrong());
    };
    let seconds = u64::try_from(*number).ok().filter(|number| range.contains(number));
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

fn unknown_key(key: &str) -> EventError {
    EventError {
        field: key.to_owned(),
        nearest: nearest(key, KEYS).map(str::to_owned),
        message: format!("{key} is not a reserved key; keys of your own do not begin with _"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::value::from_json;

    fn check(document: &serde_json::Value) -> Result<Metadata, String> {
        let owner = EventType::parse("t").unwrap();
        Metadata::from_value(&from_json(document), &owner).map_err(|error| error.field)
    }

    #[test]
    fn a_subscription_may_have_secrets_and_an_error_does_not_repeat_them() {
        let check = |document: &serde_json::Value| {
            SubscriptionOptions::from_value(&from_json(document)).map(|options| options.secrets.len())
        };
        let good = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        assert_eq!(check(&serde_json::json!({"secret": good})), Ok(1));
        assert_eq!(check(&serde_json::json!({"secret": [good, good]})), Ok(2));
        assert_eq!(check(&serde_json::json!({"secret": null})), Ok(0));
        let source = |document: serde_json::Value| {
            SubscriptionOptions::from_value(&from_json(&document)).map(|options| options.cloudevents)
        };
        assert_eq!(
            source(serde_json::json!({"cloudevents": true})),
            Ok(Some("redrive".to_owned()))
        );
        assert_eq!(
            source(serde_json::json!({"cloudevents": "/shop"})),
            Ok(Some("/shop".to_owned()))
        );
        assert_eq!(source(serde_json::json!({"cloudevents": false})), Ok(None));
        for wrong in [serde_json::json!(""), serde_json::json!("a b"), serde_json::json!(1)] {
            let error = source(serde_json::json!({ "cloudevents": wrong })).unwrap_err();
            assert_eq!(error.field, "cloudevents");
        }
        for wrong in [
            serde_json::json!("hunter2"),
            serde_json::json!("whsec_aHVudGVyMg=="),
            serde_json::json!([]),
            serde_json::json!([good, good, good, good, good]),
            serde_json::json!(2),
        ] {
            let error = check(&serde_json::json!({"secret": wrong})).unwrap_err();
            assert!(
                error.field == "secret" && !error.message.contains("hunter2"),
                "{error:?}"
            );
        }
    }

    #[test]
    fn reserved_keys_are_checked_and_others_are_free() {
        let read = check(&serde_json::json!({
            "_max_claim_count": 2, "_dead_letter_queue": "dlq", "_dead_letter_queue_messages_ttl": 60, "owner": [1]
        }));
        let dead_lettering = read.unwrap().dead_lettering;
        assert_eq!(dead_lettering.max_claim_count, Some(2));
        assert_eq!(dead_lettering.lifetime, Some(Duration::from_mins(1)));
        for (document, field) in [
            (serde_json::json!({"_max_claim_count": 0}), "_max_claim_count"),
            (serde_json::json!({"_max_claim_count": -1}), "_max_claim_count"),
            (serde_json::json!({"_max_claim_count": "2"}), "_max_claim_count"),
            (serde_json::json!({"_dead_letter_queue": "t"}), "_dead_letter_queue"),
            (serde_json::json!({"_dead_letter_queue": 1}), "_dead_letter_queue"),
            (
                serde_json::json!({"_dead_letter_queue_messages_ttl": 59}),
                "_dead_letter_queue_messages_ttl",
            ),
            (
                serde_json::json!({"_dead_letter_queue_messages_ttl": 1_209_601}),
                "_dead_letter_queue_messages_ttl",
            ),
            (
                serde_json::json!({"_dead_letter_queue_messages_ttl": "123"}),
                "_dead_letter_queue_messages_ttl",
            ),
            (
                serde_json::json!({"_dead_letter_queue_messages_ttl": true}),
                "_dead_letter_queue_messages_ttl",
            ),
            (
                serde_json::json!({"_retry_policy": {"minimum_delay": -1}}),
                "_retry_policy.minimum_delay",
            ),
            (serde_json::json!({"_coalesce_window_max": 10}), "_coalesce_window_max"),
            (
                serde_json::json!({"_backoff_base": 10, "_backoff_cap": 5}),
                "_backoff_cap",
            ),
            (serde_json::json!({"_max_claims": 1}), "_max_claims"),
            (serde_json::json!([]), "metadata"),
        ] {
            assert_eq!(check(&document).unwrap_err(), field, "{document}");
        }
    }
}
