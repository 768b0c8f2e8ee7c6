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

use ratatui::layout::{Position, Rect};

use super::super::state::State;
use super::super::theme::Role;
use super::canvas::Canvas;
use super::list::{self, Cell, Listed, OUTSIDE_MAX};
use super::words::{self, ago, count, known, span, until};
use crate::domain::endpoint::EndpointState;
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::engine::snapshot::EndpointRow;

/// Paints the list.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
    list::paint(canvas, area, state, &state.endpoints)
}

impl Listed for EndpointRow {
    const MANY: &'static str = "endpoints";
    const WHEN_NONE: &'static str = "A URL is known once something was published to it.";
    const SAID_BY: &'static str = "error";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        let endpoint = &self.endpoint;
        match column {
            "state" => state(endpoint.state),
            "url" => Cell::new(words::url(&endpoint.url), Role::Text),
            "since" => Cell::new(span(now.since(endpoint.since)), Role::Text),
            "waiting" => Cell::new(known(self.waiting), Role::Text),
            "next_attempt_at" => Cell::or_none(endpoint.next_attempt_at.map(|at| until(now, at)), Role::Warning),
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

    fn says(&self) -> Cow<'_, str> {
        let endpoint = &self.endpoint;
        match (endpoint.state, &endpoint.last_error, endpoint.last_status) {
            (EndpointState::Available, _, _) => Cow::Borrowed("available: everything is sent"),
            (_, Some(error), _) => Cow::Owned(format!("last error: {}", show(error, OUTSIDE_MAX))),
            (_, None, Some(status)) => Cow::Owned(format!("last answer: {status}")),
            (_, None, None) => Cow::Borrowed("nothing was sent since it is in this state"),
        }
    }
}

fn state(state: EndpointState) -> Cell<'static> {
    let (symbol, role) = words::endpoint_state(state);
    Cell::new(format!("{symbol} {}", state.as_str()), role)
}

/// The colour of a status; the number itself says it, too.
pub(super) const fn status_role(status: Option<u16>) -> Role {
    match status {
        Some(200..=299) => Role::Good,
        Some(_) => Role::Bad,
        None => Role::TextMuted,
    }
}
