//! The retry policies: what for, how long each tries, who saved it when.
//!
//! ```text
//!    Event type ▲  Endpoint               Attempts  Tried for  Then        Version  By    Saved
//!  ▌ (default)     -                            14      2m40s  park              -  -             -
//!    -             stock.example/changed        41      3d02h  dead_letter       3  ana     2m ago
//!  14 attempts in 2m40s: 3 at once, 3 after 5 s, 6 from 5 s to 30 s, 3 after 30 s; then park
//!  1–2 of 2
//! ```

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use ratatui::layout::{Position, Rect};

use super::command_words;
use super::list::{self, Cell, Listed};
use crate::console::state::action::Action;
use crate::console::state::detail::Subject;
use crate::console::state::feed::{Batch, FedRows, FeedQuery, Listing, Source};
use crate::console::state::inquire::inquire;
use crate::console::state::lists::Lists;
use crate::console::state::pointed::{Pointed, Reach, Rows};
use crate::console::state::screen::{About, Screen, Selection};
use crate::console::state::{State, View};
use crate::console::table::ColumnWidth::Fixed;
use crate::console::table::{Column, Row, key};
use crate::console::theme::Role;
use crate::console::widgets::canvas::Canvas;
use crate::console::widgets::schedule;
use crate::console::widgets::words::{ago, count, span};
use crate::domain::filter::{Field, FieldKind, FieldValue};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::policies::PolicyView;
use crate::engine::query::PolicyScope;
use crate::engine::{EngineHandle, query};

/// The view.
pub(super) struct Policies;

static ABOUT: About = About {
    title: "Policies",
    short_title: "Pol",
    reads: &["store"],
    go: Action::new("policies", "policies", &["6"])
        .help("Go to the retry policies, each with its schedule and its history.")
        .turns(|state| state.go_to_top(View::Policies)),
};

impl Screen for Policies {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn listing<'a>(&self, lists: &'a Lists) -> Option<&'a dyn Listing> {
        Some(&lists.policies)
    }

    fn listing_mut<'a>(&self, lists: &'a mut Lists) -> Option<&'a mut dyn Listing> {
        Some(&mut lists.policies)
    }

    fn asks(&self, _: &Lists) -> Option<FeedQuery> {
        Some(FeedQuery::all(&SOURCE))
    }

    fn paint(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
        list::paint(canvas, area, state, &state.lists.policies.table)
    }
}

impl Selection for Policies {
    fn subject(&self, state: &State) -> Option<Subject> {
        let row = state.lists.policies.table.selected_row();
        row.map(|row| Subject::Policy(row.scope.clone()))
    }

    fn rows<'a>(&self, state: &'a State, reach: Reach) -> Rows<'a> {
        Rows::of(&state.lists.policies.table, reach, Pointed::Policy)
    }

    fn command(&self, _: &State) -> Option<Vec<String>> {
        Some(command_words("policy show"))
    }
}

/// The fields that a filter over policies may name. `age` is how long its newest version is saved.
const FIELDS: &[Field] = &[
    Field::new("type", FieldKind::Text),
    Field::new("url", FieldKind::Text),
    Field::new("endpoint", FieldKind::Text),
    Field::new("author", FieldKind::Text),
    Field::new("source", FieldKind::Text),
    Field::new("version", FieldKind::Number),
    Field::new("attempts", FieldKind::Number),
    Field::new("on_exhausted", FieldKind::Text),
    Field::new("on_refused", FieldKind::Text),
    Field::new("age", FieldKind::Duration),
];

impl Row for PolicyView {
    type Id = PolicyScope;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("type", "Event type", key::fill(14, 1), 0, |row| {
            key::text(row.scope.event_type.as_deref())
        }),
        Column::new("url", "Endpoint", key::fill(20, 3), 0, |row| {
            key::url(row.scope.url.as_ref())
        }),
        Column::new("attempts", "Attempts", Fixed(8), 1, |row: &Self| {
            key::count(Some(row.effective.schedule().attempts().into()))
        })
        .count(),
        Column::new("total", "Tried for", Fixed(9), 1, |row: &Self| {
            key::count(Some(row.effective.schedule().total_s()))
        })
        .count(),
        Column::new("on_exhausted", "Then", Fixed(11), 2, |row| {
            key::text(Some(row.effective.on_exhausted.as_str()))
        }),
        Column::new("version", "Version", Fixed(7), 2, |row: &Self| {
            key::count(
                row.newest
                    .as_ref()
                    .and_then(|newest| u64::try_from(newest.version).ok()),
            )
        })
        .count(),
        Column::new("author", "By", key::fill(8, 1), 3, |row| {
            key::text(row.newest.as_ref().map(|newest| newest.author.as_str()))
        }),
        Column::new("age", "Saved", Fixed(11), 3, |row: &Self| {
            key::time(row.newest.as_ref().map(|newest| newest.at))
        })
        .time(),
        Column::new("source", "Applies", Fixed(12), 4, |row| {
            key::text(Some(row.source.as_str()))
        }),
        Column::new("on_refused", "Refused", Fixed(11), 5, |row| {
            key::text(Some(row.effective.on_refused.as_str()))
        }),
    ];
    const FIELDS: &'static [Field] = FIELDS;

    fn id(&self) -> PolicyScope {
        self.scope.clone()
    }

    fn tie(&self, other: &Self) -> Ordering {
        let key = |row: &Self| (row.scope.event_type.clone(), row.scope.url.clone());
        key(self).cmp(&key(other))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        let newest = self.newest.as_ref();
        match name {
            "type" => key::or_missing(self.scope.event_type.as_deref()),
            "url" | "endpoint" => key::or_missing(self.scope.url.as_ref().map(EndpointUrl::as_str)),
            "author" => key::or_missing(newest.map(|newest| newest.author.as_str())),
            "source" => key::or_missing(Some(self.source.as_str())),
            "on_exhausted" => key::or_missing(Some(self.effective.on_exhausted.as_str())),
            "on_refused" => key::or_missing(Some(self.effective.on_refused.as_str())),
            "version" => newest
                .and_then(|newest| u32::try_from(newest.version).ok())
                .map_or(FieldValue::Missing, |version| FieldValue::Number(version.into())),
            "attempts" => FieldValue::Number(self.effective.schedule().attempts().into()),
            "age" => newest.map_or(FieldValue::Missing, |newest| FieldValue::Duration(now.since(newest.at))),
            _ => FieldValue::Missing,
        }
    }
}

impl Listed for PolicyView {
    const MANY: &'static str = "policies";
    const WHEN_NONE: &'static str = "E on an endpoint writes one; `redrive policy set --type` one of an event type.";
    const SAID_BY: &'static str = "schedule";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        let newest = self.newest.as_ref();
        let schedule = self.effective.schedule();
        match column {
            "type" if self.scope == PolicyScope::default() => Cell::new("(default)", Role::Info),
            "type" => Cell::or_none(self.scope.event_type.as_deref(), Role::Text),
            "url" => Cell::url(self.scope.url.as_ref()),
            "attempts" => Cell::new(count(schedule.attempts().into()), Role::Text),
            "total" => Cell::new(span(Duration::from_secs(schedule.total_s())), Role::Text),
            "on_exhausted" => Cell::new(self.effective.on_exhausted.as_str(), Role::Text),
            "on_refused" => Cell::new(self.effective.on_refused.as_str(), Role::TextMuted),
            "version" => Cell::or_none(newest.map(|newest| newest.version.to_string()), Role::TextMuted),
            "author" => Cell::or_none(newest.map(|newest| &*newest.author), Role::Text),
            "age" => Cell::or_none(newest.map(|newest| ago(now, newest.at)), Role::TextMuted),
            "source" => Cell::new(self.source.as_str(), Role::TextMuted),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self, _: Timestamp) -> Cow<'_, str> {
        Cow::Owned(schedule::sentence(&self.effective))
    }
}

/// Where its rows come from.
pub(in crate::console) static SOURCE: Source = Source {
    name: "policies",
    every_min: Duration::ZERO,
    ask: |engine, _| Box::pin(async move { rows(&engine).await.map(FedRows::from) }),
};

async fn rows(engine: &EngineHandle) -> Result<Batch<PolicyView>, String> {
    let configured = inquire(engine, query::Policy(PolicyScope::default())).await?;
    let page = inquire(engine, query::Policies()).await?;
    let rows = std::iter::once(configured).chain(page.items).map(Arc::new);
    Ok(Batch::new(rows.collect(), page.next_cursor.is_some()))
}
