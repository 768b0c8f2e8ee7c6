//! Policies in the operator's words: what is saved, what applies, and what a change would do.

use crate::domain::id::QueueName;
use crate::domain::policy::{PolicySource, Rescheduled, RetryPolicy};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::store::{PolicyScope, PolicyVersion};

/// A change of a policy.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PolicyEdit {
    /// Of which one.
    pub scope: PolicyScope,
    /// To what.
    pub act: PolicyAct,
    /// The newest version that it was made for (0: there was none); a plan fills it in.
    pub expected: Option<i64>,
}

/// What becomes of a policy.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum PolicyAct {
    /// This JSON text; `null` as [`PolicyAct::Unset`].
    Set(String),
    /// Nothing is set any more: the next one in precedence applies.
    Unset,
    /// What this version said, or the one before the newest.
    Restore(Option<i64>),
}

/// A policy: what is saved for a scope, and what applies there.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct PolicyView {
    /// What for.
    pub scope: PolicyScope,
    /// The newest version, an unset one too; `None` when none was ever saved.
    pub newest: Option<PolicyVersion>,
    /// What applies there, every key.
    pub effective: RetryPolicy,
    /// Whose that is.
    pub source: PolicySource,
}

impl PolicyView {
    /// Whose policy applies there, in a sentence.
    #[must_use]
    pub fn whose(&self) -> &'static str {
        self.source.in_words(self.scope.published(), &self.effective)
    }

    /// The policy as it was written; `None` when none is set.
    #[must_use]
    pub fn document(&self) -> Option<&str> {
        self.newest.as_ref()?.document.as_deref()
    }
}

/// What a policy that is not saved would do.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct PolicyPreview {
    /// It, every key.
    pub policy: RetryPolicy,
    /// What applies at present, where it was asked for a scope.
    pub before: Option<RetryPolicy>,
    /// What it would do to what waits there.
    pub forecast: Option<Forecast>,
}

/// What a change would do to what already waits.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Forecast {
    /// Heads that wait, alone or as their URL's probe.
    pub waiting: u64,
    /// Of them: tried sooner than now planned.
    pub sooner: u64,
    /// Tried later.
    pub later: u64,
    /// As before.
    pub unchanged: u64,
    /// Parked, and would go on by the longer schedule.
    pub going_on: u64,
    /// Would park at once: the new schedule is used up.
    pub parked: u64,
    /// Would become dead letters at once: the new schedule is used up.
    pub dead_lettered: u64,
    /// Being tried at present: the attempt's end is judged by the new policy.
    pub in_attempt: u64,
    /// The first of those that change, by queue.
    pub lines: Vec<ForecastLine>,
}

/// What a change would do to one head.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ForecastLine {
    /// Its queue.
    pub queue: QueueName,
    /// Its URL.
    pub url: EndpointUrl,
    /// Whether the whole URL waits for it.
    pub probes: bool,
    /// The number of its next attempt.
    pub attempt: u32,
    /// Of how many so far.
    pub of_before: u32,
    /// Of how many then.
    pub of: u32,
    /// When it is tried so far; `None`: it waits for a person.
    pub before: Option<Timestamp>,
    /// What it waits for then.
    pub after: Rescheduled,
}

impl Forecast {
    /// Heads that something changes for.
    #[must_use]
    pub const fn changed(&self) -> u64 {
        self.sooner + self.later + self.going_on + self.parked + self.dead_lettered
    }
}
