//! Retries, attempts, the audit, checks and readiness.

use serde::Serialize;

use crate::engine::audit;
use crate::engine::query::AuditEntry;
use crate::engine::view::{
    AttemptView, Check as CheckView, CheckResult, PartState, Readiness as ReadinessView, Retry as RetryView,
};

use super::time;

/// What is tried when.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the keys are those of docs/contract.md")]
pub struct Retry {
    pub at: Option<String>,
    pub queue: Option<String>,
    pub url: Option<String>,
    pub message_id: Option<String>,
    pub phase: Option<&'static str>,
    pub attempt: u32,
    pub of: u32,
}

impl From<&RetryView> for Retry {
    fn from(view: &RetryView) -> Self {
        Self {
            at: view.at.and_then(time),
            queue: view.queue.as_ref().map(|name| name.as_str().to_owned()),
            url: view.url.as_ref().map(|url| url.as_str().to_owned()),
            message_id: view.message.as_ref().map(|id| id.as_str().to_owned()),
            phase: view.phase.map(crate::domain::policy::Phase::as_str),
            attempt: view.attempt,
            of: view.of,
        }
    }
}

/// An attempt.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the keys are those of docs/contract.md")]
pub struct Attempt {
    pub message_id: String,
    pub queue: String,
    pub url: String,
    pub attempt: u32,
    pub started_at: Option<String>,
    pub duration_ms: u64,
    pub class: &'static str,
    pub status: Option<u16>,
    pub error: Option<String>,
    /// The beginning of the answer's body; bytes that are not UTF-8 are replaced.
    pub response: Option<String>,
    /// Whether it counts against the schedule.
    pub counted: bool,
    pub epoch: i64,
}

impl From<&AttemptView> for Attempt {
    fn from(view: &AttemptView) -> Self {
        Self {
            message_id: view.message_id.as_str().to_owned(),
            queue: view.queue.as_str().to_owned(),
            url: view.url.as_str().to_owned(),
            attempt: view.number,
            started_at: time(view.started_at),
            duration_ms: view.duration_ms,
            class: view.class.as_str(),
            status: view.status,
            error: view.error.clone(),
            response: view
                .response
                .as_deref()
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
            counted: view.counted,
            epoch: view.epoch.0,
        }
    }
}

/// A line of the audit.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "who did what, on what, why, with what result")]
pub struct Audit {
    pub id: i64,
    pub at: Option<String>,
    pub actor: String,
    pub command: String,
    pub target: String,
    pub reason: Option<String>,
    pub plan: Option<String>,
    pub result: String,
    pub detail: String,
    /// The broker that the store belonged to.
    pub broker: Option<String>,
    /// SHA-256 over the hash of the line before and this line.
    pub hash: String,
}

impl From<&AuditEntry> for Audit {
    fn from(view: &AuditEntry) -> Self {
        Self {
            id: view.id,
            at: time(view.at),
            actor: view.entry.actor.clone(),
            command: view.entry.command.clone(),
            target: view.entry.target.clone(),
            reason: view.entry.reason.clone(),
            plan: view.entry.plan.clone(),
            result: view.entry.result.clone(),
            detail: view.entry.detail.clone(),
            broker: view.broker.clone(),
            hash: view.hash.clone(),
        }
    }
}

/// What the chain of the audit was found to be.
#[derive(Clone, Debug, Serialize)]
pub struct AuditVerified {
    /// Whether it is what was written.
    pub intact: bool,
    /// Lines that were checked.
    pub lines: u64,
    /// The newest line of the intact part.
    pub newest: i64,
    /// Lines that retention removed before.
    pub removed: u64,
    /// The last one of those: the check begins behind it.
    pub removed_to: Option<i64>,
    /// When it was removed.
    pub removed_at: Option<String>,
    /// The first line that does not follow what is before it.
    pub broken_at: Option<i64>,
    /// What is wrong with it.
    pub problem: Option<String>,
}

impl From<&audit::AuditVerified> for AuditVerified {
    fn from(found: &audit::AuditVerified) -> Self {
        Self {
            intact: found.broken.is_none(),
            lines: found.lines,
            newest: found.newest,
            removed: found.removed,
            removed_to: found.removed_to.map(|(line, _)| line),
            removed_at: found.removed_to.and_then(|(_, at)| time(at)),
            broken_at: found.broken.as_ref().map(|link| link.line),
            problem: found.broken.as_ref().map(|link| link.problem.clone()),
        }
    }
}

/// One check of `doctor`.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// `fine`, `warning` or `broken`.
    pub result: &'static str,
    /// What was found.
    pub found: String,
    /// What to do.
    pub mend: Option<String>,
}

impl From<&CheckView> for Check {
    fn from(view: &CheckView) -> Self {
        Self {
            name: view.name.clone(),
            result: match view.result {
                CheckResult::Fine => "fine",
                CheckResult::Warning => "warning",
                CheckResult::Broken => "broken",
            },
            found: view.found.clone(),
            mend: view.mend.clone(),
        }
    }
}

/// Whether delivery has what it needs.
#[derive(Clone, Debug, Serialize)]
pub struct Readiness {
    /// The broker lets us work, the store takes writes, and this process delivers.
    pub ready: bool,
    /// The broker.
    pub broker: Part,
    /// The store.
    pub store: Part,
    /// Whether this process delivers.
    pub delivering: Part,
    /// The management API: depths and policies are unknown without it, and delivery goes on; `None`: the broker has
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub management: Option<Part>,
    /// What does not work and stops no delivery.
    pub degraded: Vec<Degraded>,
}

/// One part of it.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// Whether it is fine.
    pub ok: bool,
    /// Why it is not.
    pub problem: Option<String>,
    /// Since when it is so; `None`: not known yet.
    pub since: Option<String>,
}

/// A part that does not work, and that delivery can do without.
#[derive(Clone, Debug, Serialize)]
pub struct Degraded {
    /// `management`: depths and policies are unknown; `publishing`: the broker takes nothing (alarm).
    pub part: &'static str,
    /// Why it does not work.
    pub problem: String,
    /// Since when.
    pub since: Option<String>,
}

impl Part {
    /// A part that is not fine.
    #[must_use]
    pub fn broken(problem: &str) -> Self {
        Self {
            ok: false,
            problem: Some(problem.to_owned()),
            since: None,
        }
    }
}

impl From<&PartState> for Part {
    fn from(state: &PartState) -> Self {
        Self {
            ok: state.problem.is_none(),
            problem: state.problem.clone(),
            since: time(state.since),
        }
    }
}

impl From<&ReadinessView> for Readiness {
    fn from(view: &ReadinessView) -> Self {
        Self {
            ready: [&view.broker, &view.store, &view.delivering]
                .iter()
                .all(|part| part.problem.is_none()),
            broker: Part::from(&view.broker),
            store: Part::from(&view.store),
            delivering: Part::from(&view.delivering),
            management: view.management.as_ref().map(Part::from),
            degraded: view
                .degraded
                .iter()
                .map(|degraded| Degraded {
                    part: degraded.part,
                    problem: degraded.problem.clone(),
                    since: time(degraded.since),
                })
                .collect(),
        }
    }
}
