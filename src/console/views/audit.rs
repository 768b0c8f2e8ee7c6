//! Who did what, why, and with what result: newest first, and never changed afterwards.
//!
//! ```text
//!    Time (UTC) ▼         Result    Who  What       On                     Why
//!  ▌ 2026-11-21 03:12:44  ✓ done    ana  redeliver  https://stock.example  INC-4711
//!    2026-11-21 03:12:44  · planned ana  redeliver  https://stock.example  INC-4711
//!  redeliver to 1 endpoint
//!  1–2 of 2
//! ```

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use ratatui::layout::{Position, Rect};

use super::command_words;
use super::list::{self, Cell, Listed};
use crate::console::state::action::{Action, Possible, require};
use crate::console::state::detail::Subject;
use crate::console::state::feed::{Batch, FedRows, FeedQuery, Listing, Source};
use crate::console::state::inquire::{inquire, page};
use crate::console::state::lists::Lists;
use crate::console::state::relatives::{self, Relatives};
use crate::console::state::screen::{About, Screen, Selection};
use crate::console::state::{State, View};
use crate::console::table::ColumnWidth::Fixed;
use crate::console::table::{Column, Row, key};
use crate::console::theme::Role;
use crate::console::widgets::canvas::Canvas;
use crate::console::widgets::words::date;
use crate::domain::event::EventType;
use crate::domain::filter::{Field, FieldKind, FieldValue};
use crate::domain::time::Timestamp;
use crate::engine::query::AuditEntry;
use crate::engine::{EngineHandle, query};

/// The view.
pub(super) struct Audit;

static ABOUT: About = About {
    title: "Audit",
    short_title: "Audit",
    reads: &["store"],
    go: Action::new("audit", "audit", &["8"])
        .help("Go to the audit: who did what, why, and with what result.")
        .turns(|state| state.go_to_top(View::Audit)),
};

impl Screen for Audit {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn listing<'a>(&self, lists: &'a Lists) -> Option<&'a dyn Listing> {
        Some(&lists.audit)
    }

    fn listing_mut<'a>(&self, lists: &'a mut Lists) -> Option<&'a mut dyn Listing> {
        Some(&mut lists.audit)
    }

    fn asks(&self, lists: &Lists) -> Option<FeedQuery> {
        Some(FeedQuery::first(&SOURCE, lists.audit.feed.limit))
    }

    fn paint(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
        list::paint(canvas, area, state, &state.lists.audit.table)
    }

    fn glance(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) {
        let row = state.lists.audit.table.selected_row();
        let more = match row.and_then(|row| subject(state, row)) {
            Some(_) => "Enter opens what it is about.",
            None => "",
        };
        list::glance(canvas, area, state, &state.lists.audit.table, more);
    }

    fn shows_an_age(&self, state: &State) -> bool {
        !state.is_fed()
    }
}

impl Selection for Audit {
    fn opens(&self, state: &State) -> Possible {
        let row = state.lists.audit.table.selected_row().ok_or("nothing is selected")?;
        require(subject(state, row).is_some(), "it is about nothing that can be opened")
    }

    fn subject(&self, state: &State) -> Option<Subject> {
        subject(state, state.lists.audit.table.selected_row()?)
    }

    // A line is about what was done, not about how its target is now.
    fn previewed(&self, _: &State) -> Option<Subject> {
        None
    }

    fn name(&self, state: &State) -> Option<String> {
        let row = state.lists.audit.table.selected_row();
        row.map(|row| row.entry.target.clone())
    }

    fn relatives(&self, state: &State) -> Option<Relatives> {
        let row = state.lists.audit.table.selected_row();
        row.map(|row| relatives::audited(state, &row.entry.target))
    }

    fn command(&self, _: &State) -> Option<Vec<String>> {
        Some(command_words("audit"))
    }
}

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
        Column::new("at", "Time (UTC)", Fixed(19), 0, |row: &Self| key::time(Some(row.at))).greatest_first(),
        Column::new("result", "Result", Fixed(10), 0, |row| {
            key::text(Some(&row.entry.result))
        }),
        Column::new("actor", "Who", key::fill(8, 1), 1, |row| {
            key::text(Some(&row.entry.actor))
        }),
        Column::new("command", "What", Fixed(16), 0, |row| {
            key::text(Some(&row.entry.command))
        }),
        Column::new("target", "On", key::fill(16, 3), 0, |row| {
            key::text(Some(&row.entry.target))
        }),
        Column::new("reason", "Why", key::fill(14, 2), 2, |row| {
            key::text(row.entry.reason.as_deref())
        }),
        Column::new("detail", "Details", key::fill(20, 4), 3, |row| {
            key::text(Some(&row.entry.detail))
        }),
    ];
    const FIELDS: &'static [Field] = FIELDS;

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
            "reason" => key::or_missing(entry.reason.as_deref()),
            "plan" => key::or_missing(entry.plan.as_deref()),
            "age" => FieldValue::Duration(now.since(self.at)),
            _ => FieldValue::Missing,
        }
    }
}

impl Listed for AuditEntry {
    const MANY: &'static str = "lines of the audit";
    const WHEN_NONE: &'static str = "Everything that an operator does is recorded here, before and after.";
    const SAID_BY: &'static str = "detail";
    /// It names what was changed.
    const SAID_LINES: u16 = 16;

    fn cell(&self, column: &'static str, _: Timestamp) -> Cell<'_> {
        let entry = &self.entry;
        match column {
            "at" => Cell::new(date(self.at), Role::TextMuted),
            "result" => result(&entry.result),
            "actor" => Cell::new(&*entry.actor, Role::Text),
            "command" => Cell::new(&*entry.command, Role::Text),
            "target" if entry.target.contains(' ') => Cell::new(&*entry.target, Role::Text),
            "target" => Cell::place(&*entry.target),
            "reason" => Cell::or_none(entry.reason.as_deref(), Role::Info),
            "detail" => Cell::new(&*entry.detail, Role::TextMuted),
            _ => Cell::new("", Role::Text),
        }
    }

    fn is_said(column: &str) -> bool {
        matches!(column, "detail" | "reason")
    }

    fn says(&self, _: Timestamp) -> Cow<'_, str> {
        match &self.entry.reason {
            None => Cow::Borrowed(&self.entry.detail),
            Some(reason) => Cow::Owned(format!("{}; why: {reason}", self.entry.detail)),
        }
    }
}

fn result(word: &str) -> Cell<'_> {
    let (symbol, role) = match word {
        "done" => ('✓', Role::Good),
        "planned" => ('·', Role::TextMuted),
        "failed" => ('×', Role::Bad),
        _ => ('!', Role::Warning),
    };
    Cell::new(format!("{symbol} {word}"), role)
}

/// Where its rows come from.
pub(in crate::console) static SOURCE: Source = Source {
    name: "audit",
    every_min: Duration::ZERO,
    ask: |engine, query| Box::pin(async move { rows(&engine, query.limit()).await.map(FedRows::from) }),
};

async fn rows(engine: &EngineHandle, limit: u32) -> Result<Batch<AuditEntry>, String> {
    let mut rows = Vec::new();
    let mut before = None;
    loop {
        let next = query::Audit {
            before,
            limit: page(limit, rows.len()),
        };
        let found = inquire(engine, next).await?;
        before = found.items.last().map(|entry| entry.id);
        let more = found.next_cursor.is_some() && before.is_some();
        rows.extend(found.items.into_iter().map(Arc::new));
        if !more || page(limit, rows.len()) == 0 {
            return Ok(Batch::new(rows, more));
        }
    }
}

/// What a line is about, where that can be opened.
fn subject(state: &State, row: &AuditEntry) -> Option<Subject> {
    let entry = &row.entry;
    if entry.command.starts_with("event ") {
        // `TYPE REFERENCE (ID)`
        let id = entry
            .target
            .strip_suffix(')')
            .and_then(|target| target.rsplit_once('('));
        return id.and_then(|(_, id)| id.parse().ok()).map(Subject::Event);
    }
    if entry.command == "event-type set" {
        return EventType::parse(&entry.target).ok().map(Subject::EventType);
    }
    let found = relatives::audited(state, &entry.target);
    let run = found.run.map(Subject::Run);
    run.or_else(|| found.audited.map(Subject::Letter))
        .or_else(|| found.url.map(Subject::Endpoint))
        .or_else(|| found.queue.map(Subject::Queue))
}
