//! Retries, attempts, the audit, checks and readiness.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::audit;
use crate::engine::query::{AuditEntry, RescuedMessage, RescuedRow};
use crate::engine::view::{AttemptView, Check as CheckView, PartState, Readiness as ReadinessView, Retry as RetryView};

use super::{Time, time, words};

/// What is tried when.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Retry {
    /// When it is tried.
    pub at: Option<Time>,
    /// The queue.
    pub queue: Option<String>,
    /// The URL of the endpoint.
    pub url: Option<String>,
    /// The notification's id.
    pub message_id: Option<String>,
    /// The phase of the retry policy.
    #[schemars(with = "Option<words::RetryPhase>")]
    pub phase: Option<&'static str>,
    /// The number of that attempt. Where it waits for a person (`at` is null), one more than have failed: nothing is tried until
    /// somebody redelivers.
    pub attempt: u32,
    /// How many attempts the policy allows; null where it is not known which message is tried.
    pub of: Option<u32>,
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

/// A message that was taken out of a quarantined queue.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RescuedListed {
    /// Its id.
    pub id: i64,
    /// The queue that it was in.
    pub queue: String,
    /// When it was taken out.
    pub at: Option<Time>,
    /// Why nobody could read it.
    pub reason: String,
    /// How long its body is.
    pub bytes: u64,
}

impl From<&RescuedRow> for RescuedListed {
    fn from(row: &RescuedRow) -> Self {
        Self {
            id: row.id,
            queue: row.queue.as_str().to_owned(),
            at: time(row.at),
            reason: row.reason.clone(),
            bytes: row.bytes,
        }
    }
}

/// The same with everything that the broker sent.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RescuedWhole {
    /// What a list says of it.
    #[serde(flatten)]
    pub listed: RescuedListed,
    /// The payload of the AMQP content header frame (properties and headers), in base64.
    pub header_frame_base64: String,
    /// The body, when it is text; else `body_base64` has it.
    pub body: Option<String>,
    /// The body in base64, when it is not.
    pub body_base64: Option<String>,
}

impl From<&RescuedMessage> for RescuedWhole {
    fn from(message: &RescuedMessage) -> Self {
        let (body, body_base64) = super::text_or_base64(&message.body);
        Self {
            listed: RescuedListed {
                id: message.id,
                queue: message.queue.as_str().to_owned(),
                at: time(message.at),
                reason: message.reason.clone(),
                bytes: message.body.len() as u64,
            },
            header_frame_base64: STANDARD.encode(&message.header_frame),
            body,
            body_base64,
        }
    }
}

/// An attempt.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Attempt {
    /// The notification's id.
    pub message_id: String,
    /// The queue.
    pub queue: String,
    /// The URL of the endpoint.
    pub url: String,
    /// 1 is the first one.
    pub attempt: u32,
    /// When it began.
    pub started_at: Option<Time>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// How the attempt ended.
    #[schemars(with = "words::AttemptClass")]
    pub class: &'static str,
    /// The HTTP status of the answer.
    pub status: Option<u16>,
    /// What went wrong where there was no answer.
    pub error: Option<String>,
    /// The beginning of the answer's body; bytes that are not UTF-8 are replaced.
    pub response: Option<String>,
    /// Whether it counts against the schedule.
    pub counted: bool,
    /// The epoch of the lease that it was made under.
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
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Audit {
    /// The number of the line.
    pub id: i64,
    /// When.
    pub at: Option<Time>,
    /// Who.
    pub actor: String,
    /// Did what.
    pub command: String,
    /// To what.
    pub target: String,
    /// Why.
    pub reason: Option<String>,
    /// By the plan of this hash.
    pub plan: Option<String>,
    /// What came of it.
    pub result: String,
    /// More of that.
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
#[derive(Clone, Debug, JsonSchema, Serialize)]
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
    pub removed_at: Option<Time>,
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
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// `fine`, `warning` or `broken`.
    #[schemars(with = "words::CheckResult")]
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
            result: view.result.as_str(),
            found: view.found.clone(),
            mend: view.mend.clone(),
        }
    }
}

/// The process answers.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Alive {
    /// Always `alive`.
    pub status: &'static str,
}

/// A message that the receiver of an alert has taken.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct AlertTested {
    /// The alert's name.
    pub alert: String,
    /// Always true.
    pub taken: bool,
}

/// Whether delivery has what it needs.
#[derive(Clone, Debug, JsonSchema, Serialize)]
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

/// Whether delivery has what it needs, with the reason for those who may look.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum Ready {
    /// With every part.
    Whole(Box<Readiness>),
    /// Without a reason.
    Bare {
        /// Whether this process delivers.
        ready: bool,
    },
}

/// One part of it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Part {
    /// Whether it is fine.
    pub ok: bool,
    /// Why it is not.
    pub problem: Option<String>,
    /// Since when it is so; `None`: not known yet.
    pub since: Option<Time>,
}

/// A part that does not work, and that delivery can do without.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Degraded {
    /// `management`: depths and policies are unknown; `publishing`: the broker takes nothing (alarm); `queues`: the
    /// broker refuses that some are consumed.
    #[schemars(with = "words::DegradedPart")]
    pub part: &'static str,
    /// Why it does not work.
    pub problem: String,
    /// Since when.
    pub since: Option<Time>,
}

impl Part {
    /// A part that works; since when is not known.
    #[must_use]
    pub const fn fine() -> Self {
        Self {
            ok: true,
            problem: None,
            since: None,
        }
    }

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
