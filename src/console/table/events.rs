//! The event table as lists: types by what is dead and what is due, groups by size, events by their due time.

use std::cmp::Ordering;

use super::ColumnWidth::Fixed;
use super::audit::or_missing;
use super::columns::{count, fill, text, time};
use super::{ArrangeJob, Column, Job, Row};
use crate::console::events::{GroupRow, TypeChoice, TypeRow};
use crate::domain::event::{Event, EventState};
use crate::domain::filter::{Field, FieldKind, FieldValue};
use crate::domain::time::Timestamp;
use crate::engine::events::EVENT_FIELDS;

/// The fields that a filter over types may name. `age` is that of the oldest event.
const TYPE_FIELDS: &[Field] = &[
    Field::new("type", FieldKind::Text),
    Field::new("events", FieldKind::Number),
    Field::new("due", FieldKind::Number),
    Field::new("later", FieldKind::Number),
    Field::new("leased", FieldKind::Number),
    Field::new("dead", FieldKind::Number),
    Field::new("held", FieldKind::Number),
    Field::new("age", FieldKind::Duration),
];

impl Row for TypeRow {
    type Id = TypeChoice;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("dead", "Dead", Fixed(9), 0, |row: &Self| {
            count(Some(row.in_state(EventState::Dead)))
        })
        .count(),
        Column::new("due", "Due", Fixed(9), 0, |row: &Self| count(Some(row.due))).count(),
        Column::new("type", "Type", fill(18, 2), 0, |row| text(Some(row.choice.name()))),
        Column::new("leased", "In hand", Fixed(9), 1, |row: &Self| {
            count(Some(row.in_state(EventState::Leased)))
        })
        .count(),
        Column::new("later", "Later", Fixed(9), 1, |row: &Self| count(Some(row.later()))).count(),
        Column::new("next", "Next due", Fixed(11), 2, |row: &Self| time(row.next_due)).time(),
        Column::new("held", "Held", Fixed(7), 4, |row: &Self| {
            count(Some(row.in_state(EventState::Held)))
        })
        .count(),
        Column::new("events", "All", Fixed(10), 3, |row: &Self| count(Some(row.total()))).count(),
        Column::new("oldest", "Oldest", Fixed(11), 3, |row: &Self| time(row.oldest)).time(),
        Column::new("metadata", "Metadata", fill(20, 2), 5, |row| {
            text(Some(row.document.as_str()).filter(|document| !matches!(*document, "" | "{}")))
        }),
    ];
    const FIELDS: &'static [Field] = TYPE_FIELDS;
    const SEARCHED: &'static [&'static str] = &["type"];

    fn to_job(job: Job<Self>) -> ArrangeJob {
        ArrangeJob::EventTypes(job)
    }

    fn id(&self) -> TypeChoice {
        self.choice.clone()
    }

    /// All together first, then what has most to do.
    fn tie(&self, other: &Self) -> Ordering {
        let one = |row: &Self| row.choice.one().is_some();
        one(self)
            .cmp(&one(other))
            .then_with(|| other.due.cmp(&self.due))
            .then_with(|| self.choice.cmp(&other.choice))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        match name {
            "type" => or_missing(Some(self.choice.name())),
            "events" => number(self.total()),
            "due" => number(self.due),
            "later" => number(self.later()),
            "leased" => number(self.in_state(EventState::Leased)),
            "dead" => number(self.in_state(EventState::Dead)),
            "held" => number(self.in_state(EventState::Held)),
            "age" => self
                .oldest
                .map_or(FieldValue::Missing, |at| FieldValue::Duration(now.since(at))),
            _ => FieldValue::Missing,
        }
    }
}

impl Row for GroupRow {
    type Id = Option<String>;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("count", "Events", Fixed(9), 0, |row: &Self| count(Some(row.count))).count(),
        Column::new("state", "State", Fixed(9), 0, |row| {
            text(row.state.map(EventState::as_str))
        }),
        Column::new("what", "Why", fill(20, 3), 0, |row| text(Some(&row.what))),
        Column::new("next", "Next due", Fixed(11), 1, |row: &Self| time(row.next_due)).time(),
        Column::new("oldest", "Oldest", Fixed(11), 2, |row: &Self| time(row.oldest)).time(),
        Column::new("failed", "Last failed", Fixed(11), 1, |row: &Self| {
            time(row.last_failed_at)
        })
        .time()
        .greatest_first(),
    ];
    const FIELDS: &'static [Field] = EVENT_FIELDS;
    const SEARCHED: &'static [&'static str] = &["reference", "reason"];
    const FILTERED_BEFORE: bool = true;

    fn to_job(job: Job<Self>) -> ArrangeJob {
        ArrangeJob::EventGroups(job)
    }

    fn id(&self) -> Option<String> {
        self.id.clone()
    }

    /// Everything first.
    fn tie(&self, other: &Self) -> Ordering {
        self.id.cmp(&other.id)
    }

    /// The engine filters them.
    fn field(&self, _: &str, _: Timestamp) -> FieldValue<'_> {
        FieldValue::Missing
    }
}

impl Row for Event {
    type Id = i64;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("due", "Due", Fixed(11), 0, |row: &Self| time(due(row))).time(),
        Column::new("state", "State", Fixed(9), 0, |row| text(Some(row.state.as_str()))),
        Column::new("reference", "Reference", fill(18, 3), 0, |row| {
            text(Some(row.reference.as_str()))
        }),
        Column::new("type", "Type", fill(12, 1), 3, |row| {
            text(Some(row.event_type.as_str()))
        }),
        Column::new("attempts", "Tried", Fixed(6), 2, |row: &Self| {
            count(Some(row.attempts.into()))
        })
        .count(),
        Column::new("reason", "Reason", fill(18, 4), 1, |row| text(row.reason.as_deref())),
        Column::new("age", "Pushed", Fixed(11), 4, |row: &Self| time(Some(row.created_at))).time(),
        Column::new("merged", "Merged", Fixed(7), 5, |row: &Self| count(Some(row.merged))).count(),
        Column::new("id", "Id", Fixed(10), 6, |row: &Self| count(u64::try_from(row.id).ok())).count(),
    ];
    const FIELDS: &'static [Field] = EVENT_FIELDS;
    const SEARCHED: &'static [&'static str] = &["reference", "reason"];
    const FILTERED_BEFORE: bool = true;

    fn to_job(job: Job<Self>) -> ArrangeJob {
        ArrangeJob::Events(job)
    }

    fn id(&self) -> i64 {
        self.id
    }

    fn tie(&self, other: &Self) -> Ordering {
        other.id.cmp(&self.id)
    }

    /// The engine filters them.
    fn field(&self, _: &str, _: Timestamp) -> FieldValue<'_> {
        FieldValue::Missing
    }
}

/// When it is tried by itself: never, once it is dead.
pub(in crate::console) fn due(event: &Event) -> Option<Timestamp> {
    matches!(event.state, EventState::Ready | EventState::Leased).then_some(event.nbf)
}

#[expect(clippy::cast_precision_loss, reason = "filters compare counts, exact up to 2^53")]
const fn number(count: u64) -> FieldValue<'static> {
    FieldValue::Number(count as f64)
}
