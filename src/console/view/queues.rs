//! The queues.
//!
//! ```text
//!    State ▲                 Waiting  Queue        Endpoint                Next attempt
//!  ▌ ! parked                     22  order-21.0…  billing.example/hook    -
//!    ▼ endpoint_unavailable       12  order-18.9…  stock.example/changed   in 8 s
//!    ● delivering                  3  order-17.7…  shop.example/hook       -
//!  its schedule is used up after 13 attempts: it waits for `redrive redeliver`
//!  1–3 of 12
//! ```

use std::borrow::Cow;

use ratatui::layout::{Position, Rect};

use super::super::state::State;
use super::super::theme::Role;
use super::canvas::Canvas;
use super::list::{self, Cell, Listed, OUTSIDE_MAX};
use super::words::{self, known, span, until};
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::engine::snapshot::QueueRow;

/// Paints the list.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
    list::paint(canvas, area, state, &state.queues)
}

impl Listed for QueueRow {
    const MANY: &'static str = "queues";
    const WHEN_NONE: &'static str = "Publish something: redrive publish --execution ID --url URL";
    const SAID_BY: &'static str = "why";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        match column {
            "state" => state(self),
            "name" => match self.findings() {
                [] => Cell::new(name(self), Role::Text),
                // What its arguments or a policy will do to it is told below the list.
                [..] => Cell::new(format!("! {}", name(self)), Role::Warning),
            },
            "depth" => depth(self),
            "endpoint" => Cell::or_none(self.url.as_deref().map(words::url), Role::Text),
            "next_attempt_at" => Cell::or_none(self.next_attempt_at().map(|at| until(now, at)), Role::Warning),
            "age" => Cell::or_none(self.oldest_at().map(|at| span(now.since(at))), Role::Text),
            "attempts" => Cell::or_none(self.attempts().map(|(made, of)| format!("{made}/{of}")), Role::Warning),
            "execution" => Cell::or_none(self.execution(), Role::Text),
            "delivered" => Cell::or_none(self.delivered().map(words::count), Role::TextMuted),
            "owner" => Cell::or_none(self.owner.as_deref(), Role::TextMuted),
            "why" => Cell::new(self.says(), Role::Text),
            _ => Cell::new("", Role::Text),
        }
    }

    /// Why it moves or does not; a warning goes before, else the first thing that will surprise.
    fn says(&self) -> Cow<'_, str> {
        let finding = self.findings().first().map(|finding| finding.effect.as_str());
        match self.warnings().first().map(String::as_str).or(finding) {
            None => Cow::Borrowed(&self.why),
            Some(first) => Cow::Owned(format!(
                "! {} · {}",
                show(first, OUTSIDE_MAX),
                show(&self.why, OUTSIDE_MAX)
            )),
        }
    }
}

/// A queue's name from its execution on: what comes before is the same for all of them.
fn name(row: &QueueRow) -> &str {
    let whole = row.name.as_str();
    let begin = row.execution().and_then(|execution| whole.find(execution));
    begin.and_then(|begin| whole.get(begin..)).unwrap_or(whole)
}

fn state(row: &QueueRow) -> Cell<'static> {
    let Some(state) = row.state else {
        return Cell::new(format!("· {}", row.kind.as_str()), Role::TextMuted);
    };
    let (symbol, role) = words::queue_state(state);
    Cell::new(format!("{symbol} {}", state.as_str()), role)
}

fn depth(row: &QueueRow) -> Cell<'static> {
    let role = if row.depth() == Some(0) {
        Role::TextMuted
    } else {
        Role::Text
    };
    Cell::new(known(row.depth()), role)
}
