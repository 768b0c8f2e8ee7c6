//! The audit as a list: newest first.

use std::cmp::Ordering;

use super::ColumnWidth::Fixed;
use super::columns::{fill, text, time};
use super::{ArrangeJob, Column, Job, Row};
use crate::domain::filter::{Field, FieldKind, FieldValue};
use crate::domain::time::Timestamp;
use crate::engine::query::AuditEntry;

/// The fields that a filter over the audit may name. `age` is how long ago it was.
const FIELDS: &[Field] = &[
    Field::new("actor", FieldKind::Text),
    Field::new("command", FieldKind::Text),
    Field::new("target", FieldKind::Text),
    Field::new("result", FieldKind::Text),
    Field::new("reason", FieldKind::Text),
    Field::new("detail", FieldKind::Text),
    Field::new("plan", FieldKind::Text),
    Field::new("age", FieldKind::Duration),
];

impl Row for AuditEntry {
    type Id = i64;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("at", "Time (UTC)", Fixed(19), 0, |row: &Self| time(Some(row.at))).greatest_first(),
        Column::new("result", "Result", Fixed(10), 0, |row| text(Some(&row.entry.result))),
        Column::new("actor", "Who", fill(8, 1), 1, |row| text(Some(&row.entry.actor))),
        Column::new("command", "What", Fixed(16), 0, |row| text(Some(&row.entry.command))),
        Column::new("target", "On", fill(16, 3), 0, |row| text(Some(&row.entry.target))),
        Column::new("reason", "Why", fill(14, 2), 2, |row| text(row.entry.reason.as_deref())),
        Column::new("detail", "Details", fill(20, 4), 3, |row| text(Some(&row.entry.detail))),
    ];
    const FIELDS: &'static [Field] = FIELDS;
    const SEARCHED: &'static [&'static str] = &["actor", "command", "target", "reason", "detail"];

    fn to_job(job: Job<Self>) -> ArrangeJob {
        ArrangeJob::Audit(job)
    }

    fn id(&self) -> i64 {
        self.id
    }

    fn tie(&self, other: &Self) -> Ordering {
        other.id.cmp(&self.id)
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        let entry = &self.entry;
        match name {
            "actor" => FieldValue::Text(entry.actor.as_str().into()),
            "command" => FieldValue::Text(entry.command.as_str().into()),
            "target" => FieldValue::Text(entry.target.as_str().into()),
            "result" => FieldValue::Text(entry.result.as_str().into()),
            "detail" => FieldValue::Text(entry.detail.as_str().into()),
            "reason" => or_missing(entry.reason.as_deref()),
            "plan" => or_missing(entry.plan.as_deref()),
            "age" => FieldValue::Duration(now.since(self.at)),
            _ => FieldValue::Missing,
        }
    }
}

/// Text that there may be none of.
pub(super) fn or_missing(text: Option<&str>) -> FieldValue<'_> {
    text.map_or(FieldValue::Missing, |text| FieldValue::Text(text.into()))
}
