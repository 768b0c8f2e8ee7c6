//! What was saved of queues that went: the newest first.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use super::name;
use crate::console::state::feed::{Batch, FedRows, Source};
use crate::console::state::inquire::{inquire, page};
use crate::console::table::ColumnWidth::Fixed;
use crate::console::table::{Column, Row, key};
use crate::console::theme::Role;
use crate::console::views::list::{Cell, Listed, OUTSIDE_MAX};
use crate::console::widgets::words::{self, ago, count, date, plural, size, until};
use crate::domain::filter::{Field, FieldKind, FieldValue};
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::engine::expiring::{SaveRecord, SaveState};
use crate::engine::query::SaveQuery;
use crate::engine::{EngineHandle, query};

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
        Column::new("at", "Saved", Fixed(11), 0, |row: &Self| key::time(Some(row.at)))
            .time()
            .greatest_first(),
        Column::new("state", "State", Fixed(10), 0, |row| {
            key::text(Some(row.state.as_str()))
        }),
        Column::new("messages", "Messages", Fixed(9), 0, |row: &Self| {
            key::count(Some(row.left))
        })
        .count(),
        Column::new("queue", "From", key::fill(20, 4), 0, |row| {
            key::text(Some(row.queue.as_str()))
        }),
        Column::new("until", "Kept for", Fixed(11), 1, |row: &Self| {
            key::time(Some(row.until))
        })
        .time(),
        Column::new("cause", "Because", Fixed(8), 2, |row| {
            key::text(Some(row.cause.as_str()))
        }),
        Column::new("bytes", "Size", Fixed(9), 4, |row: &Self| key::count(Some(row.bytes))).count(),
        Column::new("actor", "By", key::fill(8, 1), 3, |row| key::text(Some(&row.actor))),
        Column::new("reason", "Why", key::fill(10, 2), 5, |row| {
            key::text(row.reason.as_deref())
        }),
    ];
    const FIELDS: &'static [Field] = FIELDS;

    fn id(&self) -> String {
        self.id.clone()
    }

    fn tie(&self, other: &Self) -> Ordering {
        other.id.cmp(&self.id)
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        match name {
            "id" => key::or_missing(Some(&self.id)),
            "queue" => key::or_missing(Some(self.queue.as_str())),
            "state" => key::or_missing(Some(self.state.as_str())),
            "cause" => key::or_missing(Some(self.cause.as_str())),
            "actor" => key::or_missing(Some(&self.actor)),
            "reason" => key::or_missing(self.reason.as_deref()),
            "age" => FieldValue::Duration(now.since(self.at)),
            "left" => FieldValue::Duration(self.until.since(now)),
            _ => FieldValue::Missing,
        }
    }
}

impl Listed for SaveRecord {
    const MANY: &'static str = "saves";
    const WHEN_NONE: &'static str = "V on a queue saves what is in it; a purge saves first what it removes.";
    const SAID_BY: &'static str = "";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        match column {
            "at" => Cell::new(ago(now, self.at), Role::TextMuted),
            "state" => {
                let (symbol, role) = match self.state {
                    SaveState::Kept => ('◆', Role::Good),
                    SaveState::Taking => ('…', Role::Warning),
                    SaveState::Restored => ('✓', Role::TextMuted),
                };
                Cell::new(format!("{symbol} {}", self.state.as_str()), role)
            }
            "messages" => Cell::new(count(self.left), Role::Text),
            "queue" => Cell::new(name(&self.queue), Role::Text),
            "until" if self.state == SaveState::Restored => Cell::new(words::NONE, Role::TextMuted),
            "until" => Cell::new(until(now, self.until), Role::Warning),
            "cause" => Cell::new(self.cause.as_str(), Role::TextMuted),
            "bytes" => Cell::new(size(usize::try_from(self.bytes).unwrap_or(usize::MAX)), Role::TextMuted),
            "actor" => Cell::new(&*self.actor, Role::Text),
            "reason" => Cell::or_none(self.reason.as_deref(), Role::Info),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self, _: Timestamp) -> Cow<'_, str> {
        let many = plural(self.left, "message", "messages");
        Cow::Owned(match self.state {
            SaveState::Kept => format!(
                "{many} of {} in the store until {} UTC: R puts them back",
                show(self.queue.as_str(), OUTSIDE_MAX),
                date(self.until)
            ),
            SaveState::Taking => "it is being saved".to_owned(),
            SaveState::Restored => "everything of it was put back".to_owned(),
        })
    }
}

/// Where what was saved comes from.
pub(super) static SOURCE: Source = Source {
    name: "saves",
    every_min: Duration::ZERO,
    ask: |engine, query| Box::pin(async move { saves(&engine, query.limit()).await.map(FedRows::from) }),
};

async fn saves(engine: &EngineHandle, limit: u32) -> Result<Batch<SaveRecord>, String> {
    let mut rows: Vec<Arc<SaveRecord>> = Vec::new();
    loop {
        let next = SaveQuery {
            before: rows.last().map(|save| save.id.clone()),
            queue: None,
            limit: page(limit, rows.len()),
        };
        let found = inquire(engine, query::Saves(next)).await?;
        let more = found.next_cursor.is_some() && !found.items.is_empty();
        rows.extend(found.items.into_iter().map(Arc::new));
        if !more || page(limit, rows.len()) == 0 {
            return Ok(Batch::new(rows, more));
        }
    }
}
