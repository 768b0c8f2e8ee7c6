//! Runs as a list: newest first.

use std::cmp::Ordering;

use super::ColumnWidth::Fixed;
use super::audit::or_missing;
use super::columns::{count, fill, text, time};
use super::{ArrangeJob, Column, Job, Row};
use crate::domain::filter::{Field, FieldKind, FieldValue};
use crate::domain::run::RunState;
use crate::domain::time::Timestamp;
use crate::engine::runs::RunView;

/// The fields that a filter over runs may name. `age` is how long ago it was planned.
const FIELDS: &[Field] = &[
    Field::new("id", FieldKind::Text),
    Field::new("command", FieldKind::Text),
    Field::new("state", FieldKind::Word(&RunState::NAMES)),
    Field::new("actor", FieldKind::Text),
    Field::new("reason", FieldKind::Text),
    Field::new("note", FieldKind::Text),
    Field::new("owner", FieldKind::Text),
    Field::new("done", FieldKind::Number),
    Field::new("failed", FieldKind::Number),
    Field::new("skipped", FieldKind::Number),
    Field::new("total", FieldKind::Number),
    Field::new("rate", FieldKind::Number),
    Field::new("age", FieldKind::Duration),
];

impl Row for RunView {
    type Id = String;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("at", "Started", Fixed(11), 0, |row: &Self| {
            time(Some(row.record.created_at))
        })
        .time()
        .greatest_first(),
        Column::new("state", "State", Fixed(11), 0, |row| {
            text(Some(row.record.state.as_str()))
        }),
        Column::new("command", "What", Fixed(13), 0, |row| text(Some(&row.record.command))),
        Column::new("progress", "Progress", Fixed(12), 0, |row: &Self| {
            count(Some(share(row)))
        })
        .greatest_first(),
        Column::new("done", "Done", Fixed(9), 1, |row: &Self| {
            count(Some(row.record.counts.done))
        })
        .count(),
        Column::new("total", "Of", Fixed(9), 1, |row: &Self| count(Some(row.record.total))).count(),
        Column::new("failed", "Failed", Fixed(7), 1, |row: &Self| {
            count(Some(row.record.counts.failed))
        })
        .count(),
        Column::new("skipped", "Skipped", Fixed(7), 3, |row: &Self| {
            count(Some(row.record.counts.skipped))
        })
        .count(),
        Column::new("eta", "Left", Fixed(8), 2, |row: &Self| {
            count(row.eta.map(|eta| eta.as_secs()))
        })
        .time(),
        Column::new("rate", "Rate", Fixed(8), 4, |row: &Self| {
            count(row.record.rate.map(u64::from))
        })
        .count(),
        Column::new("actor", "Who", fill(8, 1), 4, |row| text(Some(&row.record.actor))),
        Column::new("reason", "Why", fill(12, 2), 5, |row| {
            text(row.record.reason.as_deref())
        }),
        Column::new("note", "Note", fill(16, 3), 6, |row| text(row.record.note.as_deref())),
        Column::new("owner", "Worker", fill(8, 1), 7, |row| text(row.owner.as_deref())),
    ];
    const FIELDS: &'static [Field] = FIELDS;
    const SEARCHED: &'static [&'static str] = &["id", "command", "actor", "reason", "note"];

    fn to_job(job: Job<Self>) -> ArrangeJob {
        ArrangeJob::Runs(job)
    }

    fn id(&self) -> String {
        self.record.id.clone()
    }

    /// What needs a person or goes on stands before what is over.
    fn tie(&self, other: &Self) -> Ordering {
        let over = |row: &Self| matches!(row.record.state, RunState::Done | RunState::Cancelled);
        let newest = other.record.created_at.cmp(&self.record.created_at);
        over(self)
            .cmp(&over(other))
            .then(newest)
            .then_with(|| self.record.id.cmp(&other.record.id))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        let record = &self.record;
        match name {
            "id" => or_missing(Some(&record.id)),
            "command" => or_missing(Some(&record.command)),
            "state" => or_missing(Some(record.state.as_str())),
            "actor" => or_missing(Some(&record.actor)),
            "reason" => or_missing(record.reason.as_deref()),
            "note" => or_missing(record.note.as_deref()),
            "owner" => or_missing(self.owner.as_deref()),
            "done" => number(record.counts.done),
            "failed" => number(record.counts.failed),
            "skipped" => number(record.counts.skipped),
            "total" => number(record.total),
            "rate" => record
                .rate
                .map_or(FieldValue::Missing, |rate| FieldValue::Number(rate.into())),
            "age" => FieldValue::Duration(now.since(record.created_at)),
            _ => FieldValue::Missing,
        }
    }
}

/// Thousandths of its items that have an outcome.
fn share(row: &RunView) -> u64 {
    let settled = row.record.counts.settled();
    settled
        .saturating_mul(1_000)
        .checked_div(row.record.total)
        .unwrap_or(1_000)
}

#[expect(clippy::cast_precision_loss, reason = "filters compare counts, exact up to 2^53")]
const fn number(count: u64) -> FieldValue<'static> {
    FieldValue::Number(count as f64)
}
