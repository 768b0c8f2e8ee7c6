//! What was saved from queues that went, or were about to: the newest first.

use std::cmp::Ordering;

use super::ColumnWidth::Fixed;
use super::audit::or_missing;
use super::columns::{count, fill, text, time};
use super::{ArrangeJob, Column, Job, Row};
use crate::domain::filter::{Field, FieldKind, FieldValue};
use crate::domain::time::Timestamp;
use crate::engine::expiring::SaveRecord;

/// The fields that a filter over saves may name. `age` is how long ago it was made, `left` how long it is kept.
const FIELDS: &[Field] = &[
    Field::new("id", FieldKind::Text),
    Field::new("queue", FieldKind::Text),
    Field::new("state", FieldKind::Text),
    Field::new("cause", FieldKind::Text),
    Field::new("actor", FieldKind::Text),
    Field::new("reason", FieldKind::Text),
    Field::new("age", FieldKind::Duration),
    Field::new("left", FieldKind::Duration),
];

impl Row for SaveRecord {
    type Id = String;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("at", "Saved", Fixed(11), 0, |row: &Self| time(Some(row.at)))
            .time()
            .greatest_first(),
        Column::new("state", "State", Fixed(10), 0, |row| text(Some(row.state.as_str()))),
        Column::new("messages", "Messages", Fixed(9), 0, |row: &Self| count(Some(row.left))).count(),
        Column::new("queue", "From", fill(20, 4), 0, |row| text(Some(row.queue.as_str()))),
        Column::new("until", "Kept", Fixed(11), 1, |row: &Self| time(Some(row.until))).time(),
        Column::new("cause", "Because", Fixed(8), 2, |row| text(Some(row.cause.as_str()))),
        Column::new("bytes", "Size", Fixed(9), 4, |row: &Self| count(Some(row.bytes))).count(),
        Column::new("actor", "By", fill(8, 1), 3, |row| text(Some(&row.actor))),
        Column::new("reason", "Why", fill(10, 2), 5, |row| text(row.reason.as_deref())),
    ];
    const FIELDS: &'static [Field] = FIELDS;
    const SEARCHED: &'static [&'static str] = &["queue", "actor", "reason"];

    fn to_job(job: Job<Self>) -> ArrangeJob {
        ArrangeJob::Saves(job)
    }

    fn id(&self) -> String {
        self.id.clone()
    }

    fn tie(&self, other: &Self) -> Ordering {
        other.id.cmp(&self.id)
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        match name {
            "id" => or_missing(Some(&self.id)),
            "queue" => or_missing(Some(self.queue.as_str())),
            "state" => or_missing(Some(self.state.as_str())),
            "cause" => or_missing(Some(self.cause.as_str())),
            "actor" => or_missing(Some(&self.actor)),
            "reason" => or_missing(self.reason.as_deref()),
            "age" => FieldValue::Duration(now.since(self.at)),
            "left" => FieldValue::Duration(self.until.since(now)),
            _ => FieldValue::Missing,
        }
    }
}
