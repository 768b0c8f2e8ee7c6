//! Queries and answers: what can be asked without changing anything.

use std::time::Duration;

use crate::domain::dead_letter::DeadLetter;
use crate::domain::id::QueueName;
use crate::domain::url::EndpointUrl;
pub use crate::store::{AttemptQuery, AuditEntry, Incarnation, PolicyScope, PolicyVersion, SaveQuery};

use super::EngineError;
use super::audit::AuditVerified;
use super::dead::{DeadDetail, DeadGroup, DeadListQuery, DeadPage};
use super::expiring::{ExpiringPage, ExpiringQuery, SaveRecord};
use super::policies::{PolicyPreview, PolicyView};
use super::runs::{RunDetail, RunView};
use super::view::{AttemptView, BrowsedMessage, Check, EndpointView, Page, QueueView, Readiness, Retry};

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    /// Queues, filtered, sorted, a page.
    Queues(QueuesQuery),
    /// One queue, with a fresh look.
    Queue(QueueName),
    /// The head of a delivery queue; takes its lease, never reorders.
    Browse {
        /// Which queue.
        queue: QueueName,
        /// At most this many messages (1 to 500).
        limit: u32,
    },
    /// Endpoints, those that are not available first.
    Endpoints {
        /// Only those that are not available.
        not_available: bool,
        /// At most this many.
        limit: u32,
        /// Where to go on.
        cursor: Option<String>,
    },
    /// One endpoint.
    Endpoint(EndpointUrl),
    /// What is tried when.
    Retries {
        /// Only what is due within this time.
        within: Option<Duration>,
        /// At most this many.
        limit: u32,
    },
    /// The attempt log, newest first.
    Attempts(AttemptQuery),
    /// The audit, newest first.
    Audit {
        /// Before this id.
        before: Option<i64>,
        /// At most this many.
        limit: u32,
    },
    /// Whether the audit is what was written.
    AuditVerify,
    /// Runs, newest first.
    Runs {
        /// Before this id.
        before: Option<String>,
        /// At most this many.
        limit: u32,
    },
    /// One run with a page of its items.
    Run {
        /// Which.
        id: String,
        /// Items after this place.
        after: Option<u64>,
        /// At most this many items.
        limit: u32,
    },
    /// Every retry policy that is set.
    Policies,
    /// What is saved for a scope, and what applies there.
    Policy(PolicyScope),
    /// All versions of a policy, newest first.
    PolicyHistory(PolicyScope),
    /// What a policy would do.
    PolicyPreview {
        /// The policy as JSON text.
        document: String,
        /// Where it would be saved: then what waits there is part of the answer.
        scope: Option<PolicyScope>,
    },
    /// Dead letters of every home, a page.
    Dead(DeadListQuery),
    /// The same in groups of those that failed alike (sort and cursor do not apply).
    DeadGroups(DeadListQuery),
    /// One dead letter with headers, death history and body.
    DeadLetter {
        /// Its id.
        id: String,
        /// How long to wait for a look, where it was not seen yet.
        patience: Duration,
    },
    /// Daemons and other processes that take messages.
    Incarnations,
    /// Queues with a lifetime and leftovers, what is lost first in front.
    Expiring(ExpiringQuery),
    /// Messages that were saved from such queues, newest save first.
    Saves(SaveQuery),
    /// What the next shift has to know, with what was done in so long a time.
    Handover(Duration),
    /// Broker, rights, plugins, store, clock, with mends.
    Doctor,
    /// Whether broker and store can be reached.
    Readiness,
    /// About events.
    Events(super::events::EventQuestion),
}

impl Query {
    /// Whether it is a list that is read, and nothing is held meanwhile.
    pub(super) const fn only_reads(&self) -> bool {
        matches!(
            self,
            Self::Queues(_)
                | Self::Dead(_)
                | Self::DeadGroups(_)
                | Self::Events(_)
                | Self::Endpoints { .. }
                | Self::Handover(_)
        )
    }
}

/// Which queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuesQuery {
    /// A filter expression (docs/contract.md, *Filters*).
    pub filter: Option<String>,
    /// A column, with a leading `-` for descending.
    pub sort: Option<String>,
    /// At most this many (1 to 1,000).
    pub limit: u32,
    /// Where to go on.
    pub cursor: Option<String>,
}

/// What was answered, one variant for each query.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Query::Queues`].
    Queues(Page<QueueView>),
    /// To [`Query::Queue`].
    Queue(Box<QueueView>),
    /// To [`Query::Browse`].
    Browsed(Vec<BrowsedMessage>),
    /// To [`Query::Endpoints`].
    Endpoints(Page<EndpointView>),
    /// To [`Query::Endpoint`].
    Endpoint(Box<EndpointView>),
    /// To [`Query::Retries`].
    Retries(Page<Retry>),
    /// To [`Query::Attempts`].
    Attempts(Page<AttemptView>),
    /// To [`Query::Audit`].
    Audit(Page<AuditEntry>),
    /// To [`Query::AuditVerify`].
    AuditVerified(AuditVerified),
    /// To [`Query::Runs`].
    Runs(Page<RunView>),
    /// To [`Query::Run`].
    Run(Box<RunDetail>),
    /// To [`Query::Policies`].
    Policies(Page<PolicyView>),
    /// To [`Query::Policy`].
    Policy(Box<PolicyView>),
    /// To [`Query::PolicyHistory`].
    PolicyHistory(Page<PolicyVersion>),
    /// To [`Query::PolicyPreview`].
    PolicyPreview(Box<PolicyPreview>),
    /// To [`Query::Dead`].
    Dead(DeadPage<DeadLetter>),
    /// To [`Query::DeadGroups`].
    DeadGroups(DeadPage<DeadGroup>),
    /// To [`Query::DeadLetter`].
    DeadLetter(Box<DeadDetail>),
    /// To [`Query::Incarnations`].
    Incarnations(Vec<Incarnation>),
    /// To [`Query::Expiring`].
    Expiring(ExpiringPage),
    /// To [`Query::Saves`].
    Saves(Page<SaveRecord>),
    /// To [`Query::Handover`].
    Handover(Box<super::Handover>),
    /// To [`Query::Doctor`].
    Doctor(Vec<Check>),
    /// To [`Query::Readiness`].
    Readiness(Readiness),
    /// To [`Query::Events`].
    Events(super::events::EventAnswer),
}

/// Items of one answer, at most.
const LIMIT_MAX: u32 = 1_000;

pub(super) fn bounded(limit: u32) -> u32 {
    limit.clamp(1, LIMIT_MAX)
}

pub(super) fn offset_of(cursor: Option<&str>) -> Result<usize, EngineError> {
    cursor.map_or(Ok(0), |text| text.parse().map_err(|_| EngineError::unknown_cursor()))
}
