//! Queues with a lifetime as a list: what is lost first stands first.

use std::cmp::Ordering;

use super::ColumnWidth::Fixed;
use super::SortKey;
use super::audit::or_missing;
use super::columns::{count, fill, text, time};
use super::{ArrangeJob, Column, Job, Row};
use crate::domain::filter::{Field, FieldKind, FieldValue};
use crate::domain::id::QueueName;
use crate::domain::queue::QueueKind;
use crate::domain::time::Timestamp;
use crate::engine::expiring::ExpiringQueue;

/// The fields that a filter over expiring queues may name. `left` is the time until it goes.
const FIELDS: &[Field] = &[
    Field::new("name", FieldKind::Text),
    Field::new("kind", FieldKind::Word(&QueueKind::NAMES)),
    Field::new("messages", FieldKind::Number),
    Field::new("consumers", FieldKind::Number),
    Field::new("left", FieldKind::Duration),
    Field::new("ttl", FieldKind::Duration),
    Field::new("idle", FieldKind::Duration),
];

/// Behind every time that there is: what is empty loses nothing.
const BEHIND_ALL_TIMES: i64 = i64::MAX / 2;

impl Row for ExpiringQueue {
    type Id = QueueName;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("left", "Goes", Fixed(11), 0, lost_first).time(),
        Column::new("bar", "Time left", Fixed(12), 1, lost_first),
        Column::new("messages", "Would lose", Fixed(10), 0, |row: &Self| count(row.messages)).count(),
        Column::new("name", "Queue", fill(20, 4), 0, |row| text(Some(row.name.as_str()))),
        Column::new("consumers", "Consumers", Fixed(9), 1, |row: &Self| count(row.consumers)).count(),
        Column::new("ttl", "Lives", Fixed(9), 2, |row: &Self| {
            count(row.ttl.map(|ttl| ttl.as_secs()))
        })
        .time(),
        Column::new("idle", "Unused", Fixed(9), 3, |row: &Self| {
            count(row.idle.map(|idle| idle.as_secs()))
        })
        .time(),
        Column::new("expires_at", "Goes at (UTC)", Fixed(19), 5, |row: &Self| {
            time(row.expires_at)
        }),
        Column::new("kind", "Kind", Fixed(12), 4, |row| text(Some(row.kind.as_str()))),
    ];
    const FIELDS: &'static [Field] = FIELDS;
    const SEARCHED: &'static [&'static str] = &["name"];

    fn to_job(job: Job<Self>) -> ArrangeJob {
        ArrangeJob::Expiring(job)
    }

    fn id(&self) -> QueueName {
        self.name.clone()
    }

    fn tie(&self, other: &Self) -> Ordering {
        other
            .messages
            .cmp(&self.messages)
            .then_with(|| self.expires_at.cmp(&other.expires_at))
            .then_with(|| self.name.cmp(&other.name))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        let duration = |span: Option<std::time::Duration>| span.map_or(FieldValue::Missing, FieldValue::Duration);
        match name {
            "name" => or_missing(Some(self.name.as_str())),
            "kind" => or_missing(Some(self.kind.as_str())),
            "messages" => number(self.messages),
            "consumers" => number(self.consumers),
            "left" => duration(self.expires_at.map(|at| at.since(now))),
            "ttl" => duration(self.ttl),
            "idle" => duration(self.idle),
            _ => FieldValue::Missing,
        }
    }
}

/// By the time that is left where something is lost; the empty ones behind them, then those that stay.
fn lost_first(row: &ExpiringQueue) -> SortKey<'static> {
    match (row.expires_at, row.messages) {
        (None, _) => SortKey::Missing,
        (Some(at), Some(0)) => SortKey::Number(at.micros().saturating_add(BEHIND_ALL_TIMES)),
        (Some(at), _) => SortKey::Number(at.micros()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "filters compare counts, exact up to 2^53")]
fn number(count: Option<u64>) -> FieldValue<'static> {
    count.map_or(FieldValue::Missing, |count| FieldValue::Number(count as f64))
}
