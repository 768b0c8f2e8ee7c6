//! The endpoints, those that are not available first.
//!
//! ```text
//!    State ▲         Endpoint                      Since     Waiting  Next attempt  Status  Queues
//!  ▌ × disabled      old.example/hook             2h05m            4  -                410       1
//!    ▼ unavailable   stock.example/changed        4m12s           41  in 8 s           503       3
//!    ● available     shop.example/hook            3d04h           12  -                200       4
//!  unavailable since 4m12s: status 503: {"error":"maintenance"}
//!  1–3 of 6
//! ```

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use ratatui::layout::{Position, Rect};

use super::list::{self, Cell, Listed, OUTSIDE_MAX};
use super::{command_words, is_unread, listed, moving};
use crate::console::state::action::Action;
use crate::console::state::detail::Subject;
use crate::console::state::feed::Listing;
use crate::console::state::lists::Lists;
use crate::console::state::pointed::{Pointed, Reach, Rows};
use crate::console::state::screen::{About, Screen, Selection};
use crate::console::state::{State, View};
use crate::console::table::ColumnWidth::Fixed;
use crate::console::table::{Column, Row, key};
use crate::console::theme::Role;
use crate::console::widgets::canvas::Canvas;
use crate::console::widgets::words::{self, ago, count, known, span, until};
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::filter::{Field, FieldValue};
use crate::domain::pace::Stage;
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::snapshot::{self, EndpointRow, Snapshot};

/// The view.
pub(super) struct Endpoints;

static ABOUT: About = About {
    title: "Endpoints",
    short_title: "Endpoints",
    reads: &["broker", "store"],
    go: Action::new("endpoints", "endpoints", &["3"])
        .help("Go to the endpoints, those that are not available first.")
        .turns(|state| state.go_to_top(View::Endpoints)),
};

impl Screen for Endpoints {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn listing<'a>(&self, lists: &'a Lists) -> Option<&'a dyn Listing> {
        Some(&lists.endpoints)
    }

    fn listing_mut<'a>(&self, lists: &'a mut Lists) -> Option<&'a mut dyn Listing> {
        Some(&mut lists.endpoints)
    }

    fn paint(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
        list::paint(canvas, area, state, &state.lists.endpoints)
    }

    fn glance(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) {
        list::glance(canvas, area, state, &state.lists.endpoints, "");
    }

    fn badge(&self, _: &State, snapshot: &Snapshot) -> String {
        let listed = listed(&snapshot.store, snapshot.endpoints.len());
        match snapshot.totals.endpoints_not_available() {
            0 => listed,
            _ if is_unread(&snapshot.store, snapshot.endpoints.len()) => listed,
            down => format!("{listed} ▼{}", count(down)),
        }
    }

    fn alarm(&self, badge: &str) -> String {
        badge.find('▼').map_or_else(String::new, |at| badge[at..].to_owned())
    }
}

impl Selection for Endpoints {
    fn subject(&self, state: &State) -> Option<Subject> {
        let row = state.lists.endpoints.selected_row();
        row.map(|row| Subject::Endpoint(row.endpoint.url.clone()))
    }

    fn rows<'a>(&self, state: &'a State, reach: Reach) -> Rows<'a> {
        Rows::of(&state.lists.endpoints, reach, Pointed::Endpoint)
    }

    fn command(&self, _: &State) -> Option<Vec<String>> {
        Some(command_words("endpoints"))
    }
}

impl Row for EndpointRow {
    type Id = EndpointUrl;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("state", "State", Fixed(14), 0, |row| key::rank(row.order())),
        Column::new("url", "Endpoint", key::fill(20, 4), 0, |row| {
            key::url(Some(&row.endpoint.url))
        }),
        Column::new("since", "Since", Fixed(8), 1, |row: &Self| {
            key::time(Some(row.endpoint.shown_since()))
        })
        .time(),
        Column::new("waiting", "Waiting", Fixed(9), 0, |row: &Self| key::count(row.waiting)).count(),
        Column::new("out", "Out/s", Fixed(7), 2, |row: &Self| {
            moving::out_key(row.moving.as_ref())
        })
        .count(),
        Column::new("spark", "10 min", Fixed(10), 6, |row: &Self| {
            moving::out_key(row.moving.as_ref())
        })
        .greatest_first(),
        Column::new("empty_in", "Empty in", Fixed(8), 5, |row: &Self| {
            moving::empty_in_key(row.time_to_empty())
        })
        .count(),
        Column::new("failing", "Failing", Fixed(7), 4, |row: &Self| {
            moving::failing_key(row.moving.as_ref())
        })
        .count(),
        Column::new("p95", "p95", Fixed(7), 5, |row: &Self| {
            moving::p95_key(row.moving.as_ref())
        })
        .count(),
        Column::new("next_attempt_at", "Next attempt", Fixed(12), 1, |row: &Self| {
            key::time(row.endpoint.next_attempt_at)
        })
        .time(),
        Column::new("queues", "Queues", Fixed(8), 3, |row: &Self| {
            key::count(Some(row.queues))
        })
        .count(),
        Column::new("status", "Status", Fixed(6), 2, |row: &Self| {
            key::count(row.endpoint.last_status.map(u64::from))
        })
        .time(),
        Column::new("attempts", "Tried", Fixed(6), 5, |row: &Self| {
            key::count(Some(row.endpoint.attempts.into()))
        })
        .count(),
        Column::new("age", "Oldest", Fixed(8), 5, |row: &Self| key::time(row.oldest_at)).time(),
        Column::new("success", "Last success", Fixed(12), 6, |row: &Self| {
            key::time(row.endpoint.last_success_at)
        })
        .time(),
        Column::new("error", "Last error", key::fill(16, 3), 7, |row| {
            key::text(row.endpoint.last_error.as_deref())
        }),
    ];
    const FIELDS: &'static [Field] = snapshot::ENDPOINT_FIELDS;

    fn rows_of(snapshot: &Snapshot) -> Option<(Arc<Vec<Arc<Self>>>, Timestamp)> {
        let taken_at = snapshot.store.taken_at.unwrap_or(snapshot.taken_at);
        Some((Arc::clone(&snapshot.endpoints), taken_at))
    }

    fn unread(snapshot: &Snapshot) -> Option<&str> {
        snapshot.store.problem.as_deref()
    }

    fn id(&self) -> EndpointUrl {
        self.endpoint.url.clone()
    }

    fn tie(&self, other: &Self) -> Ordering {
        self.order()
            .cmp(&other.order())
            .then_with(|| self.endpoint.shown_since().cmp(&other.endpoint.shown_since()))
            .then_with(|| self.endpoint.url.cmp(&other.endpoint.url))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        Self::field(self, name, now)
    }
}

impl Listed for EndpointRow {
    const MANY: &'static str = "endpoints";
    const WHEN_NONE: &'static str = "A URL is known once something was published to it.";
    const SAID_BY: &'static str = "error";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        let endpoint = &self.endpoint;
        match column {
            "state" => state(endpoint, now),
            "url" => Cell::url(Some(&endpoint.url)),
            "since" => Cell::new(span(now.since(endpoint.shown_since())), Role::Text),
            "waiting" => Cell::new(known(self.waiting), Role::Text),
            "next_attempt_at" => Cell::or_none(endpoint.next_attempt_at.map(|at| until(now, at)), Role::Warning),
            "out" => moving::out(self.moving.as_ref()),
            "spark" => moving::spark(self.moving.as_ref()),
            "empty_in" => moving::empty_in(self.time_to_empty()),
            "failing" => moving::failing(self.moving.as_ref()),
            "p95" => moving::p95(self.moving.as_ref()),
            "queues" => Cell::new(count(self.queues), Role::TextMuted),
            "status" => Cell::or_none(
                endpoint.last_status.map(|status| status.to_string()),
                status_role(endpoint.last_status),
            ),
            "attempts" => Cell::new(endpoint.attempts.to_string(), Role::TextMuted),
            "age" => Cell::or_none(self.oldest_at.map(|at| span(now.since(at))), Role::Text),
            "success" => Cell::or_none(endpoint.last_success_at.map(|at| ago(now, at)), Role::TextMuted),
            "error" => Cell::or_none(endpoint.last_error.as_deref(), Role::Text),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self, _: Timestamp) -> Cow<'_, str> {
        let endpoint = &self.endpoint;
        match (endpoint.state, &endpoint.last_error, endpoint.last_status) {
            (EndpointState::Available, _, _) => match &self.pace {
                Some(pace) => Cow::Owned(show(pace, OUTSIDE_MAX)),
                None => Cow::Borrowed("available: everything is sent"),
            },
            (EndpointState::Unavailable, _, _) if endpoint.paused().is_some() => {
                Cow::Borrowed("paused: nothing is sent, no probe either, until `redrive endpoint resume`")
            }
            (_, Some(error), _) => Cow::Owned(format!("last error: {}", show(error, OUTSIDE_MAX))),
            (_, None, Some(status)) => Cow::Owned(format!("last answer: {status}")),
            (_, None, None) => Cow::Borrowed("nothing was sent since it is in this state"),
        }
    }
}

/// Its state; an available one to which not everything is sent says that.
fn state(endpoint: &Endpoint, now: Timestamp) -> Cell<'static> {
    let (text, role) = state_in_words(endpoint, now);
    Cell::new(text, role)
}

/// The same, with how it is meant.
pub(in crate::console) fn state_in_words(endpoint: &Endpoint, now: Timestamp) -> (String, Role) {
    let pace = endpoint
        .pace
        .as_ref()
        .filter(|_| endpoint.state == EndpointState::Available);
    if let Some(pace) = pace {
        let (text, role) = match pace.stage(now) {
            Stage::Braked => ("◆ paused", Role::Warning),
            Stage::Asks => ("? canary asks", Role::Warning),
            Stage::Canary(_) | Stage::Watched(_) => ("… canary", Role::Info),
            Stage::Ramp => ("… ramping up", Role::Info),
            Stage::Steady => ("● paced", Role::Good),
        };
        return (text.to_owned(), role);
    }
    let (symbol, role) = words::endpoint_state(endpoint.state);
    let word = match endpoint.state {
        EndpointState::Unavailable if endpoint.paused().is_some() => "down, paused",
        state @ (EndpointState::Available
        | EndpointState::Unavailable
        | EndpointState::Parked
        | EndpointState::Disabled) => state.as_str(),
    };
    (format!("{symbol} {word}"), role)
}

/// The colour of a status; the number itself says it, too.
pub(in crate::console) const fn status_role(status: Option<u16>) -> Role {
    match status {
        Some(200..=299) => Role::Good,
        Some(_) => Role::Bad,
        None => Role::TextMuted,
    }
}
