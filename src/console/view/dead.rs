//! Dead letters: the groups of those that failed alike, and the letters of the one that was opened.
//!
//! ```text
//!    Letters ▼  What            Where                      Last         Trend
//!  ▌      412   status 422      billing.example/events/v2  12 s ago     ▲ 40 / h
//!          11   rejected        orders                     3h02m ago    · 0 / h
//!  412 letters: status 422 at billing.example/events/v2, the first 2d04h ago; Enter shows them
//!  1–2 of 2 · looking through dead.orders: 12,000 of 50,000
//! ```

use std::borrow::Cow;

use ratatui::layout::{Position, Rect};

use super::super::state::State;
use super::super::theme::Role;
use super::canvas::{Canvas, below, row};
use super::endpoints::status_role;
use super::list::{self, Cell, Listed, OUTSIDE_MAX};
use super::words::{self, ago, count, plural, size, until};
use crate::domain::dead_letter::DeadLetter;
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::domain::url::redact_urls;
use crate::engine::dead::DeadGroup;

/// Paints the groups, or the letters of the open one.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
    let Some(group) = &state.dead_group else {
        return list::paint(canvas, area, state, &state.dead_groups.table);
    };
    let title = format!(
        " {} at {}",
        show(&group.what, OUTSIDE_MAX),
        show(&group.place, OUTSIDE_MAX)
    );
    let pieces = [
        (title.as_str(), Role::Title),
        (" · ", Role::TextMuted),
        (&plural(group.count, "letter", "letters"), Role::Text),
        (" · Esc shows all groups", Role::TextMuted),
    ];
    canvas.pieces(row(area, 0), &pieces);
    list::paint(canvas, below(area, 1), state, &state.dead_letters.table)
}

impl Listed for DeadGroup {
    const MANY: &'static str = "groups of dead letters";
    const WHEN_NONE: &'static str = "Nothing died: what is refused or exhausted by its policy would be here.";
    const SAID_BY: &'static str = "fingerprint";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        match column {
            "count" => Cell::new(count(self.count), Role::Bad),
            "what" => Cell::new(&*self.what, Role::Text),
            "place" => Cell::new(&*self.place, Role::Text),
            "last" => Cell::or_none(self.last_failed_at.map(|at| ago(now, at)), Role::Warning),
            "first" => Cell::or_none(self.first_failed_at.map(|at| ago(now, at)), Role::TextMuted),
            "trend" => trend(self),
            "fingerprint" => Cell::new(&*self.fingerprint, Role::TextMuted),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self) -> Cow<'_, str> {
        Cow::Owned(format!(
            "{}: {} at {}; Enter shows them, R redrives the whole group",
            plural(self.count, "letter", "letters"),
            show(&self.what, OUTSIDE_MAX),
            show(&self.place, OUTSIDE_MAX)
        ))
    }
}

/// How many came in the last hour, and whether that is more than in the hour before.
fn trend(group: &DeadGroup) -> Cell<'static> {
    let (symbol, role) = match group.recent.cmp(&group.before) {
        std::cmp::Ordering::Greater => ('▲', Role::Bad),
        std::cmp::Ordering::Less => ('▼', Role::Good),
        std::cmp::Ordering::Equal => ('·', Role::TextMuted),
    };
    Cell::new(format!("{symbol} {} / h", count(group.recent)), role)
}

impl Listed for DeadLetter {
    const MANY: &'static str = "dead letters";
    const WHEN_NONE: &'static str = "The group is empty: its letters were redriven, discarded or dropped.";
    const SAID_BY: &'static str = "error";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        match column {
            "last" => Cell::or_none(self.last_failed_at.map(|at| ago(now, at)), Role::Text),
            "reason" => Cell::new(&*self.reason, Role::Bad),
            "status" => Cell::or_none(self.status.map(|status| status.to_string()), status_role(self.status)),
            "origin" => Cell::or_none(self.origin.as_deref(), Role::Text),
            "message" => Cell::or_none(self.message_id.as_deref(), Role::TextMuted),
            "attempts" => Cell::or_none(self.attempts.map(count), Role::TextMuted),
            "redriven" => redriven(self.redriven),
            "left" => Cell::or_none(self.expires_at.map(|at| until(now, at)), Role::Warning),
            "queue" => Cell::new(self.queue.as_str(), Role::TextMuted),
            "size" => Cell::new(
                size(usize::try_from(self.size_bytes).unwrap_or(usize::MAX)),
                Role::TextMuted,
            ),
            "error" => Cell::or_none(self.error.as_deref(), Role::Text),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self) -> Cow<'_, str> {
        let error = self
            .error
            .as_deref()
            .map(|error| format!(": {}", show(error, OUTSIDE_MAX)));
        let url = self
            .url
            .as_deref()
            .map(|url| format!(" at {}", show(&redact_urls(url), OUTSIDE_MAX)));
        Cow::Owned(format!(
            "{}{}{}",
            show(&self.reason, OUTSIDE_MAX),
            url.unwrap_or_default(),
            error.unwrap_or_default()
        ))
    }
}

fn redriven(times: u32) -> Cell<'static> {
    match times {
        0 => Cell::new(words::NONE, Role::TextMuted),
        // It died again: a redrive of everything leaves it out.
        times => Cell::new(format!("! {times}×"), Role::Critical),
    }
}
