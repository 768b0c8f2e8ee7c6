//! Dead letters as lists: the groups of those that failed alike, the largest first; the letters of one group,
//! the newest first. Both are filtered by the engine, which knows more of them than are here.

use std::cmp::Ordering;

use super::ColumnWidth::Fixed;
use super::columns::{count, fill, text, time};
use super::{ArrangeJob, Column, Job, Row};
use crate::console::export::{self, Record};
use crate::domain::dead_letter::{DeadLetter, DeadLetterId};
use crate::domain::filter::{Field, FieldValue};
use crate::domain::time::Timestamp;
use crate::engine::dead::DeadGroup;
use crate::engine::snapshot::DEAD_FIELDS;
use crate::wire;

impl Row for DeadGroup {
    type Id = String;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("count", "Letters", Fixed(9), 0, |row: &Self| count(Some(row.count))).count(),
        Column::new("what", "What", fill(18, 2), 0, |row| text(Some(&row.what))),
        Column::new("place", "Where", fill(20, 3), 0, |row| text(Some(&row.place))),
        Column::new("last", "Last", Fixed(11), 1, |row: &Self| time(row.last_failed_at))
            .time()
            .greatest_first(),
        Column::new("trend", "Trend", Fixed(12), 2, |row: &Self| count(Some(row.recent))).count(),
        Column::new("first", "First", Fixed(11), 3, |row: &Self| time(row.first_failed_at)).time(),
        Column::new("fingerprint", "Fingerprint", Fixed(16), 4, |row| {
            text(Some(&row.fingerprint))
        }),
    ];
    const FIELDS: &'static [Field] = DEAD_FIELDS;
    const SEARCHED: &'static [&'static str] = &["place", "what", "origin", "error"];
    const FILTERED_BEFORE: bool = true;

    fn to_job(job: Job<Self>) -> ArrangeJob {
        ArrangeJob::DeadGroups(job)
    }

    fn id(&self) -> String {
        self.fingerprint.clone()
    }

    fn tie(&self, other: &Self) -> Ordering {
        let newest = other.last_failed_at.cmp(&self.last_failed_at);
        newest.then_with(|| self.fingerprint.cmp(&other.fingerprint))
    }

    /// The engine filters them.
    fn field(&self, _: &str, _: Timestamp) -> FieldValue<'_> {
        FieldValue::Missing
    }

    fn record(&self, _: Timestamp) -> Record {
        export::of(&wire::dead::Group::from(self))
    }
}

impl Row for DeadLetter {
    type Id = DeadLetterId;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("last", "Died", Fixed(11), 0, |row: &Self| time(row.last_failed_at))
            .time()
            .greatest_first(),
        Column::new("reason", "Reason", Fixed(12), 0, |row| text(Some(&row.reason))),
        Column::new("status", "Status", Fixed(6), 2, |row: &Self| {
            count(row.status.map(u64::from))
        })
        .count(),
        Column::new("origin", "Origin", fill(18, 3), 0, |row| text(row.origin.as_deref())),
        Column::new("message", "Message", fill(12, 2), 1, |row| {
            text(row.message_id.as_deref())
        }),
        Column::new("attempts", "Tried", Fixed(6), 3, |row: &Self| count(row.attempts)).count(),
        Column::new("redriven", "Redriven", Fixed(8), 3, |row: &Self| {
            count(Some(row.redriven.into()))
        })
        .count(),
        Column::new("left", "Dropped", Fixed(9), 4, |row: &Self| time(row.expires_at)).time(),
        Column::new("queue", "In", fill(14, 1), 5, |row| text(Some(row.queue.as_str()))),
        Column::new("size", "Size", Fixed(9), 6, |row: &Self| count(Some(row.size_bytes))).count(),
        Column::new("error", "Error", fill(20, 4), 7, |row| text(row.error.as_deref())),
    ];
    const FIELDS: &'static [Field] = DEAD_FIELDS;
    const SEARCHED: &'static [&'static str] = &["message", "execution", "origin", "error", "url"];
    const FILTERED_BEFORE: bool = true;

    fn to_job(job: Job<Self>) -> ArrangeJob {
        ArrangeJob::DeadLetters(job)
    }

    fn id(&self) -> DeadLetterId {
        self.id.clone()
    }

    fn tie(&self, other: &Self) -> Ordering {
        let newest = other.last_failed_at.cmp(&self.last_failed_at);
        newest.then_with(|| self.id.cmp(&other.id))
    }

    /// The engine filters them.
    fn field(&self, _: &str, _: Timestamp) -> FieldValue<'_> {
        FieldValue::Missing
    }

    fn record(&self, _: Timestamp) -> Record {
        export::of(&wire::dead::DeadLetter::from(self))
    }
}
