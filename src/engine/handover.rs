//! What the next shift has to know: what is still wrong, which runs are open, what was done and by whom. Each part is
//! read by itself, and one that cannot be read hides no other.

use std::time::Duration;

use crate::domain::queue::QueueState;
use crate::domain::time::Timestamp;
use crate::engine::dead::{DeadGroup, DeadListQuery, DeadSelection, DeadSum};
use crate::engine::runs::RunView;
use crate::engine::view::{EndpointView, EndpointsQuery, Page, QueueView, QueuesQuery, Unread};
use crate::engine::{Engine, EngineError, Inner};
use crate::store::{AuditEntry, RunQuery};

/// Rows of each part, at most.
const PAGE: u32 = 500;
/// Lines of the audit that are read, at most.
const AUDIT_MAX: usize = 5_000;
/// How long looks at dead letters are waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// States of a queue that do not go away by themselves. One that waits for a paused endpoint is told of with that.
const STUCK: &[QueueState] = &[
    QueueState::Parked,
    QueueState::EndpointDisabled,
    QueueState::Quarantined,
    QueueState::Refused,
    QueueState::Unowned,
    QueueState::BrokerBlocked,
];

/// Everything that is told.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Handover {
    /// From when on it tells what was done.
    pub since: Timestamp,
    /// When it was read.
    pub taken_at: Timestamp,
    /// URLs that are not available, or take nothing before a person resumes them.
    pub endpoints: HandoverPart<EndpointView>,
    /// Queues that do not go on by themselves.
    pub queues: HandoverPart<QueueView>,
    /// How many dead letters there are in all; `None`: not read.
    pub dead: Option<DeadSum>,
    /// They in groups.
    pub dead_groups: HandoverPart<DeadGroup>,
    /// Runs that are not over, and those that changed since.
    pub runs: HandoverPart<RunView>,
    /// What came of what was done since, oldest first; what was only begun is told by its end.
    pub audit: HandoverPart<AuditEntry>,
}

/// One of its parts.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct HandoverPart<T> {
    /// What was read; `None`: nothing could be.
    pub items: Option<Vec<T>>,
    /// What it lacks.
    pub unread: Vec<Unread>,
}

impl Handover {
    /// What could not be read of all that, each source once.
    #[must_use]
    pub fn problems(&self) -> Vec<Unread> {
        let parts = [
            &self.endpoints.unread,
            &self.queues.unread,
            &self.dead_groups.unread,
            &self.runs.unread,
            &self.audit.unread,
        ];
        let mut problems: Vec<Unread> = Vec::new();
        for unread in parts.into_iter().flatten() {
            if !problems.iter().any(|known| known.source == unread.source) {
                problems.push(unread.clone());
            }
        }
        problems
    }

    /// Nothing could be read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.endpoints.items.is_none()
            && self.queues.items.is_none()
            && self.dead_groups.items.is_none()
            && self.runs.items.is_none()
            && self.audit.items.is_none()
    }
}

impl Engine {
    pub(super) async fn handover(&self, span: Duration) -> Result<Handover, EngineError> {
        let taken_at = self.0.clock.now();
        let since = taken_at.minus(span);
        let stuck = QueuesQuery {
            filter: Some(stuck()),
            limit: PAGE,
            ..QueuesQuery::default()
        };
        let not_available = EndpointsQuery {
            not_available: true,
            limit: PAGE,
            cursor: None,
        };
        let groups = DeadListQuery {
            selection: DeadSelection::default(),
            sort: None,
            limit: PAGE,
            cursor: None,
            patience: PATIENCE,
        };
        let endpoints = part(self, self.0.endpoints.endpoint_views(&not_available).await)?;
        let queues = part(self, self.0.queues.queues(&stuck).await)?;
        let found = self.0.dead_letters.dead_groups(&groups).await;
        let dead = found.as_ref().ok().map(super::dead::DeadPage::sum);
        let found = found.map(|found| Page {
            problems: found.problems,
            ..found.page
        });
        Ok(Handover {
            since,
            taken_at,
            endpoints,
            queues,
            dead,
            dead_groups: part(self, found)?,
            runs: part(self, runs_since(&self.0, since).await)?,
            audit: part(self, audit_since(&self.0, since).await)?,
        })
    }
}

/// A part that was read, or what could not be read for it.
fn part<T>(engine: &Engine, read: Result<Page<T>, EngineError>) -> Result<HandoverPart<T>, EngineError> {
    Ok(match read {
        Ok(page) => HandoverPart {
            items: Some(page.items),
            unread: page.problems,
        },
        Err(error) => HandoverPart {
            items: None,
            unread: vec![engine.unread(error)?],
        },
    })
}

async fn runs_since(engine: &Inner, since: Timestamp) -> Result<Page<RunView>, EngineError> {
    let query = RunQuery {
        limit: PAGE,
        ..RunQuery::default()
    };
    let mut runs = engine.runs.run_reader.run_views(&query).await?;
    runs.retain(|run| !run.record.state.is_over() || run.record.updated_at >= since);
    Ok(whole(runs, engine.clock.now()))
}

async fn audit_since(engine: &Inner, since: Timestamp) -> Result<Page<AuditEntry>, EngineError> {
    let mut lines: Vec<AuditEntry> = Vec::new();
    let mut before = None;
    loop {
        let page = engine.audit_page(before, PAGE).await?;
        before = page.items.last().map(|line| line.id);
        let is_last = page.next_cursor.is_none() || page.items.last().is_none_or(|line| line.at < since);
        let new = page.items.into_iter();
        lines.extend(new.filter(|line| line.at >= since && line.entry.result != "planned"));
        if is_last || lines.len() >= AUDIT_MAX {
            break;
        }
    }
    lines.reverse();
    Ok(whole(lines, engine.clock.now()))
}

fn whole<T>(items: Vec<T>, taken_at: Timestamp) -> Page<T> {
    Page {
        items,
        next_cursor: None,
        taken_at,
        problems: Vec::new(),
    }
}

fn stuck() -> String {
    let states: Vec<String> = STUCK
        .iter()
        .map(|state| format!("state = {}", state.as_str()))
        .collect();
    format!("paused = true or {}", states.join(" or "))
}
