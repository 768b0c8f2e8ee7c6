//! The columns of the lists that the snapshot has, and what their rows are sorted by.
//!
//! A list opens with what needs a person on top: queues by their state, worst first, then by what
//! waits; endpoints by their state, then by since when; retries by their time.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use super::{ArrangeJob, Column, ColumnWidth, Job, RetryId, Row, SortKey};
use crate::domain::filter::{Field, FieldValue};
use crate::domain::id::QueueName;
use crate::domain::policy::Phase;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::snapshot::{self, EndpointRow, QueueRow, Snapshot};
use crate::engine::view::Retry;

use ColumnWidth::{Fill, Fixed};

impl<R> Column<R> {
    pub(super) const fn new(
        name: &'static str,
        title: &'static str,
        width: ColumnWidth,
        drop_rank: u8,
        key: fn(&R) -> SortKey<'_>,
    ) -> Self {
        Self {
            name,
            title,
            width,
            right: false,
            drop_rank,
            greatest_first: false,
            key,
        }
    }

    /// A count: on the right, and the greatest is what one looks for.
    pub(super) const fn count(self) -> Self {
        Self {
            right: true,
            greatest_first: true,
            ..self
        }
    }

    /// Sorting by it begins with the greatest.
    pub(super) const fn greatest_first(self) -> Self {
        Self {
            greatest_first: true,
            ..self
        }
    }

    /// A time or an age: on the right.
    pub(super) const fn time(self) -> Self {
        Self { right: true, ..self }
    }
}

pub(super) const fn fill(min: u16, weight: u16) -> ColumnWidth {
    Fill { min, weight }
}

impl Row for QueueRow {
    type Id = QueueName;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("state", "State", Fixed(22), 0, |row| rank(row.rank())),
        Column::new("depth", "Waiting", Fixed(9), 0, |row: &Self| count(row.depth())).count(),
        Column::new("name", "Queue", fill(14, 2), 0, |row| SortKey::Text(row.name.as_str())),
        Column::new("endpoint", "Endpoint", fill(26, 4), 1, |row| url(row.url.as_deref())),
        Column::new("next_attempt_at", "Next attempt", Fixed(12), 2, |row: &Self| {
            time(row.next_attempt_at())
        })
        .time(),
        // The oldest message has the earliest time: ages are sorted from the greatest by the times upwards.
        Column::new("age", "Oldest", Fixed(8), 3, |row: &Self| time(row.oldest_at())).time(),
        Column::new("attempts", "Tried", Fixed(8), 4, |row: &Self| {
            count(row.attempts().map(|(made, _)| made.into()))
        })
        .count(),
        Column::new("delivered", "Delivered", Fixed(10), 6, |row: &Self| {
            count(row.delivered())
        })
        .count(),
        Column::new("owner", "Worker", fill(8, 1), 7, |row| text(row.owner.as_deref())),
        Column::new("why", "Why", fill(20, 4), 8, |row| {
            text(Some(&*row.why).filter(|why| !why.is_empty()))
        }),
        Column::new("execution", "Execution", fill(10, 1), 9, |row| text(row.execution())),
    ];
    const FIELDS: &'static [Field] = snapshot::QUEUE_FIELDS;
    const SEARCHED: &'static [&'static str] = &["name", "execution", "endpoint"];

    fn rows_of(snapshot: &Snapshot) -> Option<(Arc<Vec<Arc<Self>>>, Timestamp)> {
        let taken_at = snapshot.broker.taken_at.unwrap_or(snapshot.taken_at);
        Some((Arc::clone(&snapshot.queues), taken_at))
    }

    fn unread(snapshot: &Snapshot) -> Option<&str> {
        snapshot.broker.problem.as_deref().or(snapshot.store.problem.as_deref())
    }

    fn to_job(job: Job<Self>) -> ArrangeJob {
        ArrangeJob::Queues(job)
    }

    fn id(&self) -> QueueName {
        self.name.clone()
    }

    fn tie(&self, other: &Self) -> Ordering {
        self.rank()
            .cmp(&other.rank())
            .then_with(|| Reverse(self.depth()).cmp(&Reverse(other.depth())))
            .then_with(|| self.name.cmp(&other.name))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        Self::field(self, name, now)
    }
}

impl Row for EndpointRow {
    type Id = EndpointUrl;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("state", "State", Fixed(14), 0, |row| rank(row.rank())),
        Column::new("url", "Endpoint", fill(20, 4), 0, |row| url(Some(&row.endpoint.url))),
        Column::new("since", "Since", Fixed(8), 1, |row: &Self| {
            time(Some(row.endpoint.since))
        })
        .time(),
        Column::new("waiting", "Waiting", Fixed(9), 0, |row: &Self| count(row.waiting)).count(),
        Column::new("next_attempt_at", "Next attempt", Fixed(12), 1, |row: &Self| {
            time(row.endpoint.next_attempt_at)
        })
        .time(),
        Column::new("queues", "Queues", Fixed(8), 3, |row: &Self| count(Some(row.queues))).count(),
        Column::new("status", "Status", Fixed(6), 2, |row: &Self| {
            count(row.endpoint.last_status.map(u64::from))
        })
        .time(),
        Column::new("attempts", "Tried", Fixed(6), 4, |row: &Self| {
            count(Some(row.endpoint.attempts.into()))
        })
        .count(),
        Column::new("age", "Oldest", Fixed(8), 5, |row: &Self| time(row.oldest_at)).time(),
        Column::new("success", "Last success", Fixed(12), 6, |row: &Self| {
            time(row.endpoint.last_success_at)
        })
        .time(),
        Column::new("error", "Last error", fill(16, 3), 7, |row| {
            text(row.endpoint.last_error.as_deref())
        }),
    ];
    const FIELDS: &'static [Field] = snapshot::ENDPOINT_FIELDS;
    const SEARCHED: &'static [&'static str] = &["url"];

    fn rows_of(snapshot: &Snapshot) -> Option<(Arc<Vec<Arc<Self>>>, Timestamp)> {
        let taken_at = snapshot.store.taken_at.unwrap_or(snapshot.taken_at);
        Some((Arc::clone(&snapshot.endpoints), taken_at))
    }

    fn unread(snapshot: &Snapshot) -> Option<&str> {
        snapshot.store.problem.as_deref()
    }

    fn to_job(job: Job<Self>) -> ArrangeJob {
        ArrangeJob::Endpoints(job)
    }

    fn id(&self) -> EndpointUrl {
        self.endpoint.url.clone()
    }

    fn tie(&self, other: &Self) -> Ordering {
        self.rank()
            .cmp(&other.rank())
            .then_with(|| self.endpoint.since.cmp(&other.endpoint.since))
            .then_with(|| self.endpoint.url.cmp(&other.endpoint.url))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        Self::field(self, name, now)
    }
}

impl Row for Retry {
    type Id = RetryId;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("at", "When", Fixed(14), 0, |row: &Self| time(row.at)),
        Column::new("endpoint", "Endpoint", fill(20, 3), 0, |row| url(row.url.as_ref())),
        Column::new("attempt", "Attempt", Fixed(10), 1, |row: &Self| {
            count(Some(row.attempt.into()))
        })
        .count(),
        Column::new("phase", "Phase", Fixed(12), 3, |row| text(row.phase.map(Phase::as_str))),
        Column::new("queue", "Queue", fill(16, 2), 2, |row| {
            text(row.queue.as_ref().map(AsRef::as_ref))
        }),
        Column::new("message", "Message", fill(12, 1), 4, |row| {
            text(row.message.as_ref().map(AsRef::as_ref))
        }),
    ];
    const FIELDS: &'static [Field] = snapshot::RETRY_FIELDS;
    const SEARCHED: &'static [&'static str] = &["queue", "endpoint"];

    fn rows_of(snapshot: &Snapshot) -> Option<(Arc<Vec<Arc<Self>>>, Timestamp)> {
        let taken_at = snapshot.store.taken_at.unwrap_or(snapshot.taken_at);
        Some((Arc::clone(&snapshot.retries), taken_at))
    }

    fn unread(snapshot: &Snapshot) -> Option<&str> {
        snapshot.store.problem.as_deref()
    }

    fn to_job(job: Job<Self>) -> ArrangeJob {
        ArrangeJob::Retries(job)
    }

    fn id(&self) -> RetryId {
        match (&self.queue, &self.url) {
            (Some(queue), _) => RetryId::Queue(queue.clone()),
            (None, Some(url)) => RetryId::Url(url.clone()),
            (None, None) => RetryId::Unknown,
        }
    }

    /// Those that wait for a person come last.
    fn tie(&self, other: &Self) -> Ordering {
        (self.at.is_none(), self.at, &self.url, &self.queue).cmp(&(
            other.at.is_none(),
            other.at,
            &other.url,
            &other.queue,
        ))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        Self::field(self, name, now)
    }
}

/// Worst first; queues that are not ours to deliver have none.
fn rank(rank: Option<usize>) -> SortKey<'static> {
    count(rank.and_then(|rank| u64::try_from(rank).ok()))
}

pub(super) fn count(count: Option<u64>) -> SortKey<'static> {
    count.map_or(SortKey::Missing, |count| {
        SortKey::Number(i64::try_from(count).unwrap_or(i64::MAX))
    })
}

pub(super) fn time(at: Option<Timestamp>) -> SortKey<'static> {
    at.map_or(SortKey::Missing, |at| SortKey::Number(at.micros()))
}

pub(super) fn text(text: Option<&str>) -> SortKey<'_> {
    text.map_or(SortKey::Missing, SortKey::Text)
}

pub(super) fn url(url: Option<&EndpointUrl>) -> SortKey<'_> {
    text(url.map(EndpointUrl::as_str))
}
