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
use std::time::Duration;

use ratatui::layout::{Position, Rect};

use super::super::state::State;
use super::super::theme::Role;
use super::canvas::Canvas;
use super::list::{self, Cell, Listed};
use super::schedule;
use super::words::{self, ago, count, span};
use crate::domain::time::Timestamp;
use crate::engine::policies::PolicyView;
use crate::engine::query::PolicyScope;

/// Paints the list.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
    list::paint(canvas, area, state, &state.policies.table)
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
            "url" => Cell::or_none(self.scope.url.as_ref().map(words::url), Role::Text),
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

    fn says(&self) -> Cow<'_, str> {
        Cow::Owned(schedule::sentence(&self.effective))
    }
}
