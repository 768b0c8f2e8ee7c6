//! Retry policies: what is saved, what applies, its schedule phase by phase, and what a change would do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::policy::{Phase, PolicyError, PolicyOwner, Rescheduled, RetryPolicy, Schedule};
use crate::engine::policies::{self, Forecast as ForecastView, ForecastLine, PolicyPreview, PolicyView};
use crate::engine::query::{PolicyScope, PolicyVersion};

use super::input;
use super::problem::Problem;
use super::{Time, time, words};

/// The keys of a retry policy; what is not said is as in the default.
#[derive(JsonSchema, Deserialize)]
#[schemars(rename = "RetryPolicy", transform = super::nothing_is_required)]
#[allow(
    dead_code,
    reason = "a description: the reader of policies names the key that is wrong"
)]
pub struct PolicyKeys {
    /// Retries without any delay.
    retries_with_no_delay: u32,
    /// Retries with the minimum delay, before the backoff.
    minimum_delay_retries: u32,
    /// Seconds, where the backoff begins.
    minimum_delay: u32,
    /// Seconds, where the backoff ends.
    maximum_delay: u32,
    /// Retries with the maximum delay, after the backoff.
    maximum_delay_retries: u32,
    /// The curve between the two delays.
    #[schemars(with = "words::Backoff")]
    retry_backoff_function: String,
    /// How many delays the backoff has; without it, it follows from the two delays.
    backoff_retries: u32,
    /// The share of each delay, from 0 to 1, up to which a random part is added to it.
    jitter: f64,
    /// What happens when every retry is used up.
    #[schemars(with = "words::WhenExhausted")]
    on_exhausted: String,
    /// What happens to a message that the receiver refused.
    #[schemars(with = "words::WhenRefused")]
    on_refused: String,
    /// A queue's policy only: it holds even where a subscription brings its own.
    ignore_subscription_override: bool,
    /// Messages a second with which an endpoint begins that is available again by itself; 0: everything at once.
    slow_start: u32,
    /// Seconds until that rate doubles.
    slow_start_interval: u32,
    /// Messages a second at which nothing is held back any more.
    slow_start_maximum: u32,
}

/// The schedule of a policy.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "PolicyPreview")]
pub struct Preview {
    /// The delay before each retry, in seconds.
    pub delays_s: Vec<u32>,
    /// Retries.
    pub retries: u32,
    /// Attempts, the first one included.
    pub attempts: u32,
    /// All delays together, in seconds.
    pub total_s: u64,
    /// The schedule phase by phase.
    pub phases: Vec<PhasePreview>,
    /// The policy with every key.
    #[schemars(with = "PolicyKeys")]
    pub policy: Value,
    /// What applies at present, where it was asked for a scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Totals>,
    /// What it would do to what waits there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Forecast>,
}

/// One phase of it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "PolicyPhase")]
pub struct PhasePreview {
    /// Which.
    #[schemars(with = "words::RetryPhase")]
    pub phase: &'static str,
    /// Retries in it.
    pub retries: u32,
    /// The delay before each retry, in seconds.
    pub delays_s: Vec<u32>,
}

/// A schedule in three numbers.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
#[schemars(rename = "PolicyTotals")]
pub struct Totals {
    /// Retries.
    pub retries: u32,
    /// Attempts, the first one included.
    pub attempts: u32,
    /// All delays together, in seconds.
    pub total_s: u64,
}

impl Preview {
    /// The schedule of a policy.
    #[must_use]
    pub fn of(policy: &RetryPolicy) -> Self {
        let schedule = policy.schedule();
        let phase = |phase: Phase| PhasePreview {
            phase: phase.as_str(),
            retries: schedule.phase_retries(phase),
            delays_s: schedule.phase_delays_s(phase).collect(),
        };
        Self {
            delays_s: schedule.delays_s().collect(),
            retries: schedule.retries(),
            attempts: schedule.attempts(),
            total_s: schedule.total_s(),
            phases: Phase::ALL.into_iter().map(phase).collect(),
            policy: written(policy),
            before: None,
            backlog: None,
        }
    }
}

impl From<&PolicyPreview> for Preview {
    fn from(preview: &PolicyPreview) -> Self {
        Self {
            before: preview.before.as_ref().map(|before| Totals::of(&before.schedule())),
            backlog: preview.forecast.as_ref().map(Forecast::from),
            ..Self::of(&preview.policy)
        }
    }
}

impl Totals {
    fn of(schedule: &Schedule) -> Self {
        Self {
            retries: schedule.retries(),
            attempts: schedule.attempts(),
            total_s: schedule.total_s(),
        }
    }
}

/// What a change would do to what waits.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "PolicyBacklog")]
pub struct Forecast {
    /// Heads that wait for a retry.
    pub waiting: u64,
    /// Of them, those that are tried sooner.
    pub sooner: u64,
    /// Those that are tried later.
    pub later: u64,
    /// Those that stay as they are.
    pub unchanged: u64,
    /// Those that waited for a person, and go on.
    pub going_on: u64,
    /// Those that wait for a person from then on.
    pub parked: u64,
    /// Those that become dead letters.
    pub dead_lettered: u64,
    /// Those that are in flight: the new policy applies to them afterwards.
    pub in_attempt: u64,
    /// The first of those that change.
    pub items: Vec<ForecastItem>,
}

/// What a change would do to one head.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "PolicyBacklogItem")]
pub struct ForecastItem {
    /// Its queue.
    pub queue: String,
    /// Its URL.
    pub url: String,
    /// Whether the whole URL waits for it.
    pub probes: bool,
    /// The number of its next attempt.
    pub attempt: u32,
    /// Of how many now.
    pub of_before: u32,
    /// Of how many then.
    pub of: u32,
    /// When it is tried now; null: it waits for a person.
    pub next_attempt_at_before: Option<Time>,
    /// When it is tried then.
    pub next_attempt_at: Option<Time>,
    /// `waits`, `parked` or `dead_lettered`.
    #[schemars(with = "words::Then")]
    pub then: &'static str,
}

impl From<&ForecastView> for Forecast {
    fn from(view: &ForecastView) -> Self {
        Self {
            waiting: view.waiting,
            sooner: view.sooner,
            later: view.later,
            unchanged: view.unchanged,
            going_on: view.going_on,
            parked: view.parked,
            dead_lettered: view.dead_lettered,
            in_attempt: view.in_attempt,
            items: view.lines.iter().map(ForecastItem::from).collect(),
        }
    }
}

impl From<&ForecastLine> for ForecastItem {
    fn from(line: &ForecastLine) -> Self {
        Self {
            queue: line.queue.as_str().to_owned(),
            url: line.url.as_str().to_owned(),
            probes: line.probes,
            attempt: line.attempt,
            of_before: line.of_before,
            of: line.of,
            next_attempt_at_before: line.before.and_then(time),
            next_attempt_at: match line.after {
                Rescheduled::At { at, .. } => time(at),
                Rescheduled::Parked | Rescheduled::DeadLettered => None,
            },
            then: line.after.as_str(),
        }
    }
}

/// A policy: what is saved for a scope, and what applies there.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Policy {
    /// The event type that it is for.
    pub r#type: Option<String>,
    /// The URL that it is for.
    pub url: Option<String>,
    /// The newest version, an unset one too; null when none was ever saved.
    pub version: Option<i64>,
    /// Who saved it.
    pub author: Option<String>,
    /// When.
    pub at: Option<Time>,
    /// As it was written; null when none is set.
    #[schemars(with = "Option<PolicyKeys>")]
    pub policy: Option<Value>,
    /// Whose policy applies: `queue`, `subscription` or `default`.
    #[schemars(with = "words::PolicyFrom")]
    pub source: &'static str,
    /// What applies, with every key.
    #[schemars(with = "PolicyKeys")]
    pub effective: Value,
    /// Its schedule.
    #[serde(flatten)]
    pub totals: Totals,
}

impl From<&PolicyView> for Policy {
    fn from(view: &PolicyView) -> Self {
        let newest = view.newest.as_ref();
        Self {
            r#type: view.scope.event_type.clone(),
            url: view.scope.url.as_ref().map(|url| url.as_str().to_owned()),
            version: newest.map(|newest| newest.version),
            author: newest.map(|newest| newest.author.clone()),
            at: newest.and_then(|newest| time(newest.at)),
            policy: view.document().and_then(parsed),
            source: view.source.as_str(),
            effective: written(&view.effective),
            totals: Totals::of(&view.effective.schedule()),
        }
    }
}

/// A version of a policy.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "PolicyVersion")]
pub struct Version {
    /// 1, 2, …
    pub version: i64,
    /// Who saved it.
    pub author: String,
    /// When.
    pub at: Option<Time>,
    /// As it was written; null: it was unset.
    #[schemars(with = "Option<PolicyKeys>")]
    pub policy: Option<Value>,
    /// Its schedule; null where there is none, or it cannot be read any more.
    pub attempts: Option<u32>,
    /// All its delays together.
    pub total_s: Option<u64>,
}

impl From<&PolicyVersion> for Version {
    fn from(version: &PolicyVersion) -> Self {
        let owner = version
            .scope
            .url
            .as_ref()
            .map_or(PolicyOwner::Queue, |_| PolicyOwner::Subscription);
        let document = version.document.as_deref();
        let policy = document.and_then(|text| policies::read(text, owner).ok().flatten());
        let schedule = policy.map(|policy| policy.schedule());
        Self {
            version: version.version,
            author: version.author.clone(),
            at: time(version.at),
            policy: document.and_then(parsed),
            attempts: schedule.as_ref().map(Schedule::attempts),
            total_s: schedule.as_ref().map(Schedule::total_s),
        }
    }
}

/// Why a policy is invalid.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Invalid {
    /// The error.
    pub error: InvalidPolicy,
}

/// The error in a policy.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct InvalidPolicy {
    /// The key that is wrong.
    pub field: Option<String>,
    /// The key that was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// What is wrong and what is possible.
    pub message: String,
}

impl From<PolicyError> for Invalid {
    fn from(error: PolicyError) -> Self {
        Self {
            error: InvalidPolicy {
                field: error.field,
                nearest: error.nearest,
                message: error.message,
            },
        }
    }
}

/// The policy written as `json`; the default for `null`.
pub fn preview(json: &str) -> Result<RetryPolicy, Invalid> {
    Ok(policies::read(json, PolicyOwner::Queue)?.unwrap_or_default())
}

/// The scope that is meant by an event type, a URL or both.
pub fn scope(event_type: Option<&str>, url: Option<&str>) -> Result<PolicyScope, Problem> {
    Ok(PolicyScope {
        event_type: event_type.map(ToOwned::to_owned),
        url: url.map(input::url).transpose()?,
    })
}

fn written(policy: &RetryPolicy) -> Value {
    parsed(&policies::text(policy)).unwrap_or(Value::Null)
}

fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULES: &str = include_str!("../../tests/vectors/schedules.json");

    #[test]
    fn a_preview_has_the_whole_schedule_of_the_vectors() {
        let cases: Vec<Value> = serde_json::from_str(SCHEDULES).unwrap();
        for case in &cases {
            let found = Preview::of(&preview(&case["policy"].to_string()).unwrap());
            let found = serde_json::to_value(found).unwrap();
            for key in ["delays_s", "retries", "attempts", "total_s"] {
                assert_eq!(found[key], case[key], "{key} of {case}");
            }
            let phases = found["phases"].as_array().unwrap();
            let joined: Vec<Value> = phases
                .iter()
                .flat_map(|phase| phase["delays_s"].as_array().unwrap().clone())
                .collect();
            assert_eq!(Value::from(joined), case["delays_s"]);
        }
    }

    #[test]
    fn an_error_has_its_field_and_the_nearest_key() {
        let wrong = serde_json::to_value(preview(r#"{"minimum_dealy": 3}"#).unwrap_err()).unwrap();
        assert_eq!(wrong["error"]["field"], "minimum_dealy");
        assert_eq!(wrong["error"]["nearest"], "minimum_delay");
        assert!(preview("{").unwrap_err().error.message.contains("JSON"));
    }
}
