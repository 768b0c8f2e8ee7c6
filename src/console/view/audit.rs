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

use ratatui::layout::{Position, Rect};

use super::super::state::State;
use super::super::theme::Role;
use super::canvas::Canvas;
use super::list::{self, Cell, Listed};
use super::words::date;
use crate::domain::time::Timestamp;
use crate::engine::query::AuditEntry;

/// Paints the list.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
    list::paint(canvas, area, state, &state.audit.table)
}

impl Listed for AuditEntry {
    const MANY: &'static str = "lines of the audit";
    const WHEN_NONE: &'static str = "Whatever an operator does is written here, before and after.";
    const SAID_BY: &'static str = "detail";

    fn cell(&self, column: &'static str, _: Timestamp) -> Cell<'_> {
        let entry = &self.entry;
        match column {
            "at" => Cell::new(date(self.at), Role::TextMuted),
            "result" => result(&entry.result),
            "actor" => Cell::new(&*entry.actor, Role::Text),
            "command" => Cell::new(&*entry.command, Role::Text),
            "target" => Cell::new(&*entry.target, Role::Text),
            "reason" => Cell::or_none(entry.reason.as_deref(), Role::Info),
            "detail" => Cell::new(&*entry.detail, Role::TextMuted),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.entry.detail)
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
