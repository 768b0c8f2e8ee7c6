//! Lists that come from a query of their own, and only while they are in front.
//!
//! What the shared snapshot does not have (dead letters, policies, runs, the audit) is asked for when its
//! list is shown, again at the pace of the refresh as long as it stays, and not at all otherwise. One
//! question of all of them is under way at a time, and another one replaces it. A long list is asked for
//! in pages: more of it when the selection nears the end.

use std::sync::Arc;
use std::time::Duration;

use super::events::{GroupRow, TypeRow};
use super::table::{List, Row, Table};
use crate::domain::dead_letter::DeadLetter;
use crate::domain::event::{Event, EventType};
use crate::domain::time::Timestamp;
use crate::engine::dead::DeadGroup;
use crate::engine::expiring::{ExpiringQueue, SaveRecord};
use crate::engine::policies::PolicyView;
use crate::engine::query::AuditEntry;
use crate::engine::runs::RunView;

/// Rows that are asked for at first, and so many more each time the selection nears the end.
pub const PAGE: u32 = 500;
/// Rows of a list, at most: what is behind is found by a filter.
pub const ROWS_MAX: u32 = 20_000;
/// A question that has not answered for so long is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Lifetimes are long and their list is a long walk: it is not asked for more often.
const EXPIRING_EVERY: Duration = Duration::from_secs(10);
/// A list is looked for at most this share of the time: one part looking, so many parts waiting.
const WAITS_TO_LOOKS: u32 = 4;

/// What is asked for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedQuery {
    /// The newest lines of the audit.
    Audit {
        /// At most this many.
        limit: u32,
    },
    /// Every retry policy that is set, and the configuration's.
    Policies,
    /// The newest runs.
    Runs {
        /// At most this many.
        limit: u32,
    },
    /// Dead letters in groups of those that failed alike.
    DeadGroups {
        /// Only those that match this expression.
        filter: Option<String>,
    },
    /// The dead letters of a group.
    DeadLetters {
        /// Its fingerprint.
        group: String,
        /// Only those that match this expression.
        filter: Option<String>,
        /// At most this many.
        limit: u32,
    },
    /// Event types with their counts.
    EventTypes,
    /// Events in groups of those that are there for the same reason.
    EventGroups {
        /// Of this type; of every type without.
        event_type: Option<EventType>,
        /// Only those that match this expression.
        filter: Option<String>,
    },
    /// Events.
    Events {
        /// Of this type; of every type without.
        event_type: Option<EventType>,
        /// Only those that match this expression.
        filter: Option<String>,
        /// At most this many.
        limit: u32,
    },
    /// Queues with a lifetime, what is lost first in front.
    Expiring,
    /// What was saved of them, newest first.
    Saves {
        /// At most this many.
        limit: u32,
    },
}

impl FeedQuery {
    /// How often it is asked at most.
    fn pace(&self, refresh: Duration) -> Duration {
        match self {
            Self::Expiring => refresh.max(EXPIRING_EVERY),
            Self::Audit { .. }
            | Self::Policies
            | Self::Runs { .. }
            | Self::DeadGroups { .. }
            | Self::DeadLetters { .. }
            | Self::EventTypes
            | Self::Saves { .. }
            | Self::EventGroups { .. }
            | Self::Events { .. } => refresh,
        }
    }
}

/// What came of a question.
#[derive(Clone, Debug)]
pub struct Fed {
    /// Which.
    pub query: FeedQuery,
    /// When it was answered.
    pub taken_at: Timestamp,
    /// The rows, or why there are none (from outside).
    pub rows: Result<FedRows, String>,
}

/// The rows of one of the lists.
#[derive(Clone, Debug)]
pub enum FedRows {
    /// To [`FeedQuery::Audit`].
    Audit(Batch<AuditEntry>),
    /// To [`FeedQuery::Policies`].
    Policies(Batch<PolicyView>),
    /// To [`FeedQuery::Runs`].
    Runs(Batch<RunView>),
    /// To [`FeedQuery::DeadGroups`].
    DeadGroups(Batch<DeadGroup>),
    /// To [`FeedQuery::DeadLetters`].
    DeadLetters(Batch<DeadLetter>),
    /// To [`FeedQuery::EventTypes`].
    EventTypes(Batch<TypeRow>),
    /// To [`FeedQuery::EventGroups`].
    EventGroups(Batch<GroupRow>),
    /// To [`FeedQuery::Events`].
    Events(Batch<Event>),
    /// To [`FeedQuery::Expiring`].
    Expiring(Batch<ExpiringQueue>),
    /// To [`FeedQuery::Saves`].
    Saves(Batch<SaveRecord>),
}

/// How far what the rows were read from is itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// What is being looked through and not finished, or cannot be; safe to show.
    Says(String),
    /// It was looked through then.
    AsOf(Timestamp),
}

/// Rows, as far as they were asked for.
#[derive(Clone, Debug)]
pub struct Batch<R> {
    /// The rows.
    pub rows: Arc<Vec<Arc<R>>>,
    /// Whether there are more.
    pub more: bool,
    /// How far what they were read from is itself, where that is not when they were read.
    pub progress: Option<Progress>,
    /// What could not be read, so that there may be more rows (from outside). Behind a pointer: it is rare, and every
    /// event of the console is as large as this.
    pub lacks: Option<Arc<String>>,
}

/// A list with how it is fed.
#[derive(Clone, Debug)]
pub struct FedList<R: Row> {
    /// The list.
    pub table: Table<R>,
    /// How it is fed.
    pub feed: Feed,
}

/// How a list is fed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feed {
    /// The question under way, and since when.
    pub asked: Option<(FeedQuery, Timestamp)>,
    /// The question that was answered last, and when.
    pub answered: Option<(FeedQuery, Timestamp)>,
    /// How long that took.
    pub took: Duration,
    /// Why it has no answer (from outside); the rows are those of before.
    pub problem: Option<String>,
    /// Whether there are more rows than were asked for.
    pub more: bool,
    /// How far what they were read from is itself, where that is not when they were read.
    pub progress: Option<Progress>,
    /// What the last answer lacks, because it could not be read (from outside).
    pub lacks: Option<String>,
    /// Rows to ask for.
    pub limit: u32,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            asked: None,
            answered: None,
            took: Duration::ZERO,
            problem: None,
            more: false,
            progress: None,
            lacks: None,
            limit: PAGE,
        }
    }
}

impl Feed {
    /// When this question is due: at once when it is a new one, else a refresh after its last answer.
    #[must_use]
    pub fn due_at(&self, wanted: &FeedQuery, refresh: Duration, now: Timestamp) -> Timestamp {
        match (&self.asked, &self.answered) {
            (Some((asked, since)), _) if asked == wanted => since.plus(ASK_AGAIN_AFTER),
            (None, Some((answered, at))) if answered == wanted => {
                at.plus(wanted.pace(refresh).max(self.took.saturating_mul(WAITS_TO_LOOKS)))
            }
            (Some(_) | None, _) => now,
        }
    }

    /// Notes an answer; false when it is to a question that is not waited for any more.
    pub fn answer(&mut self, query: &FeedQuery, now: Timestamp) -> bool {
        let Some((_, since)) = self.asked.take_if(|(asked, _)| asked == query) else {
            return false;
        };
        self.took = now.since(since);
        self.answered = Some((query.clone(), now));
        self.problem = None;
        true
    }

    /// How long after an answer the same is asked again, at least.
    #[must_use]
    pub fn pause(&self, refresh: Duration) -> Duration {
        let answered = self.answered.as_ref();
        answered.map_or(refresh, |(answered, _)| answered.pace(refresh))
    }

    /// It is due at once.
    pub fn hurry(&mut self) {
        self.answered = None;
    }
}

impl<R: Row> Default for FedList<R> {
    fn default() -> Self {
        Self {
            table: Table::default(),
            feed: Feed::default(),
        }
    }
}

impl<R: Row> FedList<R> {
    /// Asks for more rows from now on when the selection nears the end of those that are there.
    pub fn grow(&mut self) {
        let page = usize::try_from(PAGE).unwrap_or(usize::MAX);
        let near_the_end = self.table.cursor.saturating_add(page / 2) >= self.table.len();
        if self.feed.more && self.feed.asked.is_none() && near_the_end {
            self.feed.limit = self.feed.limit.saturating_add(PAGE).min(ROWS_MAX);
        }
    }
}
