//! Attempts as they are made, of everything or of one queue or endpoint: the newest first.
//!
//! ```text
//!  attempts of everything · f: its endpoint · Space pauses
//!    Time (UTC) ▼  Result         Status     Took  Endpoint
//!  ▌ 03:12:44.120  ▼ failed          503    31 ms  stock.example/changed
//!    03:12:44.020  ✓ delivered       204    12 ms  shop.example/hook
//!  attempt 5 of 01a1f8ed-b733-…: connection reset
//!  1–2 of 2
//! ```

use std::borrow::Cow;
use std::cmp::Ordering;
use std::time::Duration;

use ratatui::layout::{Position, Rect};

use super::list::{self, Cell, Listed};
use super::{command_words, filtered, heat, status_role};
use crate::console::state::action::{Action, Possible, require};
use crate::console::state::detail::{Sought, Subject};
use crate::console::state::feed::{Batch, FedRows, FeedQuery, Listing, Source};
use crate::console::state::inquire::inquire;
use crate::console::state::lists::Lists;
use crate::console::state::relatives::Relatives;
use crate::console::state::screen::{About, Screen, Selection, selected};
use crate::console::state::tail::{Followed, TailView, ended_at};
use crate::console::state::{State, View};
use crate::console::table::ColumnWidth::Fixed;
use crate::console::table::export::{self, Record};
use crate::console::table::{Column, Row, SortKey, key};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, below, row};
use crate::console::widgets::words::{self, clock, size};
use crate::domain::filter::{Field, FieldValue};
use crate::domain::id::{Epoch, NotificationId};
use crate::domain::text::{show, show_bytes};
use crate::domain::time::Timestamp;
use crate::engine::EngineHandle;
use crate::engine::attempts::{self, ATTEMPT_FIELDS};
use crate::engine::query::{self, AttemptQuery};
use crate::engine::view::AttemptView;
use crate::wire;

/// The view.
pub(super) struct Attempts;

static ABOUT: About = About {
    title: "Attempts",
    short_title: "Attempts",
    reads: &["store"],
    go: Action::new("attempts", "attempts", &["."])
        .help("Go to the attempts as they are made.")
        .turns(|state| state.go(View::Attempts)),
};

/// Columns of an answer's body.
const BODY_MAX: usize = 4_000;
/// Columns of a name in the title.
const NAME_MAX: usize = 120;

impl Screen for Attempts {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn listing<'a>(&self, lists: &'a Lists) -> Option<&'a dyn Listing> {
        Some(&lists.tail)
    }

    fn listing_mut<'a>(&self, lists: &'a mut Lists) -> Option<&'a mut dyn Listing> {
        Some(&mut lists.tail)
    }

    fn has_marks(&self) -> bool {
        false
    }

    fn asks(&self, lists: &Lists) -> Option<FeedQuery> {
        Some(FeedQuery {
            of: lists.tail.of.as_ref().map(Followed::written),
            ..FeedQuery::first(&SOURCE, lists.tail.limit())
        })
    }

    fn paint(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
        title(canvas, row(area, 0), state);
        let rest = below(area, 1);
        if let Some(zoom) = state.lists.tail.zoom {
            heat::paint(canvas, rest, state, zoom);
            return None;
        }
        list::paint(canvas, rest, state, &state.lists.tail.fed.table)
    }

    fn has_whole_screen(&self, lists: &Lists) -> bool {
        lists.tail.zoom.is_some()
    }

    fn glance(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) {
        let table = &state.lists.tail.fed.table;
        let used = list::glance(
            canvas,
            area,
            state,
            table,
            "Enter opens it among the attempts of its queue.",
        );
        let body = table.selected_row().and_then(|row| row.response.as_deref());
        let Some(body) = body.filter(|body| !body.is_empty()) else {
            return;
        };
        let rest = below(area, used + 1);
        let title = format!("answer's body, the first {}", size(body.len()));
        canvas.text(row(rest, 0), &title, Role::Title);
        canvas.wrapped(below(rest, 1), &show_bytes(body, BODY_MAX), Role::Text);
    }

    fn shows_an_age(&self, state: &State) -> bool {
        !state.is_fed()
    }
}

impl Selection for Attempts {
    fn opens(&self, state: &State) -> Possible {
        require(state.lists.tail.zoom.is_none(), "in the map nothing is selected")?;
        selected(state)
    }

    fn previewed(&self, _: &State) -> Option<Subject> {
        None
    }

    fn subject(&self, state: &State) -> Option<Subject> {
        let row = state.lists.tail.fed.table.selected_row();
        row.map(|row| Subject::Queue(row.queue.clone()))
    }

    fn seeks(&self, state: &State) -> Option<Sought> {
        let row = state.lists.tail.fed.table.selected_row()?;
        Some(Sought {
            message: row.message_id.clone(),
            started_at: row.started_at,
        })
    }

    fn is_inside(&self, lists: &Lists) -> bool {
        lists.tail.of.is_some()
    }

    fn close(&self, lists: &mut Lists) {
        let page = lists.tail.fed.table.cursor.page;
        lists.tail.follow(None, page);
    }

    fn name(&self, state: &State) -> Option<String> {
        let row = state.lists.tail.fed.table.selected_row();
        row.map(|row| row.message_id.as_str().to_owned())
    }

    fn relatives(&self, state: &State) -> Option<Relatives> {
        let row = state.lists.tail.fed.table.selected_row()?;
        Some(Relatives {
            queue: Some(row.queue.clone()),
            url: Some(row.url.clone()),
            target: Some(row.queue.as_str().to_owned()),
            ..Relatives::default()
        })
    }

    fn command(&self, state: &State) -> Option<Vec<String>> {
        let of = match &state.lists.tail.of {
            Some(Followed::Queue(name)) => vec!["--queue".to_owned(), name.as_str().to_owned()],
            Some(Followed::Url(url)) => vec!["--url".to_owned(), url.as_str().to_owned()],
            None => Vec::new(),
        };
        let filter = state.list().and_then(filtered).unwrap_or_default();
        Some([command_words("attempts --follow"), of, filter].concat())
    }
}

/// Whose they are, and what to press.
fn title(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let TailView { of, .. } = &state.lists.tail;
    let (whose, next) = match of {
        None => ("everything".to_owned(), "f: its endpoint"),
        Some(Followed::Queue(name)) => (format!("queue {}", show(name.as_str(), NAME_MAX)), "f: everything"),
        Some(Followed::Url(url)) => (show(&words::url(url), NAME_MAX), "f: everything"),
    };
    let (paused, role) = if state.data.frozen_at.is_some() {
        (" · PAUSED, Space goes on", Role::Warning)
    } else {
        (" · Space pauses", Role::TextMuted)
    };
    let next = format!(" · {next}");
    let pieces = [
        (" attempts of ", Role::TextMuted),
        (whose.as_str(), Role::Title),
        (next.as_str(), Role::TextMuted),
        (paused, role),
    ];
    canvas.pieces(area, &pieces);
}

impl Row for AttemptView {
    type Id = (NotificationId, u32, Epoch, Timestamp);
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("ended", "Time (UTC)", Fixed(12), 0, |row: &Self| {
            key::time(Some(ended_at(row)))
        })
        .greatest_first(),
        Column::new("outcome", "Result", Fixed(13), 0, |row| {
            key::text(Some(row.class.as_str()))
        }),
        Column::new("status", "Status", Fixed(6), 0, |row: &Self| {
            key::count(row.status.map(u64::from))
        })
        .count(),
        Column::new("took", "Took", Fixed(9), 1, |row: &Self| {
            key::count(Some(row.duration_ms))
        })
        .count(),
        Column::new("url", "Endpoint", key::fill(22, 4), 0, |row| key::url(Some(&row.url))),
        Column::new("number", "No.", Fixed(4), 2, |row: &Self| {
            key::count(Some(row.number.into()))
        })
        .count(),
        Column::new("message", "Message", key::fill(12, 2), 3, |row| {
            SortKey::Text(row.message_id.as_str())
        }),
        Column::new("error", "Error", key::fill(16, 3), 4, |row| {
            key::text(row.error.as_deref())
        }),
        Column::new("queue", "Queue", key::fill(14, 1), 5, |row| {
            SortKey::Text(row.queue.as_str())
        }),
    ];
    const FIELDS: &'static [Field] = ATTEMPT_FIELDS;
    const SEARCHED: &'static [&'static str] = &["url", "message", "queue", "error"];

    fn id(&self) -> Self::Id {
        (self.message_id.clone(), self.number, self.epoch, self.started_at)
    }

    fn tie(&self, other: &Self) -> Ordering {
        let newest = ended_at(other).cmp(&ended_at(self));
        newest.then_with(|| (&self.message_id, self.number).cmp(&(&other.message_id, other.number)))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        attempts::field(self, name, now)
    }

    /// The command's own shape; the answer's body is on the screen of one attempt.
    fn record(&self, _: Timestamp) -> Record {
        let mut record = export::of(&wire::record::Attempt::from(self));
        record.remove("response");
        record
    }
}

impl Listed for AttemptView {
    const MANY: &'static str = "attempts";
    const WHEN_NONE: &'static str = "Each attempt to deliver a message stands here as soon as it has ended.";
    const SAID_BY: &'static str = "error";

    fn cell(&self, column: &'static str, _: Timestamp) -> Cell<'_> {
        let (symbol, role) = words::outcome(self.class);
        match column {
            "ended" => Cell::new(to_the_millisecond(ended_at(self)), Role::TextMuted),
            "outcome" => Cell::new(format!("{symbol} {}", self.class.as_str()), role),
            "status" => Cell::or_none(self.status.map(|status| status.to_string()), status_role(self.status)),
            "took" => Cell::new(format!("{} ms", words::count(self.duration_ms)), Role::Text),
            "url" => Cell::url(Some(&self.url)),
            "number" => Cell::new(self.number.to_string(), Role::TextMuted),
            "message" => Cell::new(self.message_id.as_str(), Role::TextMuted),
            "error" => Cell::or_none(self.error.as_deref(), Role::TextMuted),
            "queue" => Cell::new(self.queue.as_str(), Role::TextMuted),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self, _: Timestamp) -> Cow<'_, str> {
        match &self.error {
            Some(error) => Cow::Borrowed(error),
            None => Cow::Borrowed(""),
        }
    }
}

fn to_the_millisecond(at: Timestamp) -> String {
    format!("{}.{:03}", clock(at), at.micros().rem_euclid(1_000_000) / 1_000)
}

/// Where its rows come from.
pub(in crate::console) static SOURCE: Source = Source {
    name: "attempts",
    every_min: Duration::ZERO,
    ask: |engine, query| Box::pin(async move { rows(&engine, &query).await.map(FedRows::from) }),
};

async fn rows(engine: &EngineHandle, asked: &FeedQuery) -> Result<Batch<AttemptView>, String> {
    let mut query = AttemptQuery {
        queue: None,
        url: None,
        message: None,
        limit: asked.limit(),
    };
    match asked.of.as_deref().and_then(Followed::read) {
        Some(Followed::Queue(name)) => query.queue = Some(name),
        Some(Followed::Url(url)) => query.url = Some(url),
        None => {}
    }
    let found = inquire(engine, query::Attempts(query)).await?;
    Ok(Batch::new(
        found.items.into_iter().map(std::sync::Arc::new).collect(),
        false,
    ))
}
