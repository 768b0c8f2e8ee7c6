//! What was done here and what happened, newest first.
//!
//! ```text
//!  03:12:44  ✓ you   redelivered https://stock.example/changed: 3 queues go on
//!  03:12:09  ×       https://stock.example/changed is unavailable (503)
//! ```

use ratatui::layout::{Position, Rect};

use super::of;
use crate::console::state::action::Action;
use crate::console::state::screen::{About, Screen, Selection};
use crate::console::state::{State, View};
use crate::console::table::End;
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, below, row};
use crate::console::widgets::words::{clock, plural_of, tone};
use crate::engine::snapshot::Snapshot;

/// The view.
pub(super) struct Log;

static ABOUT: About = About {
    title: "Log",
    short_title: "Log",
    reads: &[],
    go: Action::new("log", "log", &["9"])
        .help("Go to what was done here and what happened.")
        .turns(|state| state.go_to_top(View::Log)),
};

impl Screen for Log {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn paint(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
        paint(canvas, area, state);
        None
    }

    fn has_rows(&self) -> bool {
        false
    }

    fn badge(&self, state: &State, _: &Snapshot) -> String {
        of(state.said.journal.len())
    }
}

impl Selection for Log {
    fn can_open(&self) -> bool {
        false
    }

    fn step(&self, state: &mut State, by: isize) {
        let last = state.said.journal.len().saturating_sub(1);
        state.nav.log_scroll = state.nav.log_scroll.saturating_add_signed(by).min(last);
    }

    fn jump(&self, state: &mut State, to: End) {
        state.nav.log_scroll = match to {
            End::First => 0,
            End::Last => state.said.journal.len().saturating_sub(1),
        };
    }
}

/// Paints the entries from the scrolled one on.
fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let entries = state.said.journal.newest_first();
    if entries.len() == 0 {
        canvas.text(
            behind(row(area, 1), 3),
            "Nothing was done here, and nothing happened yet.",
            Role::Title,
        );
        let hint = "Actions of this console and changes of endpoints are listed here as they come.";
        canvas.wrapped(behind(below(area, 2), 3), hint, Role::TextMuted);
        return;
    }
    let title = format!(
        " {}, newest first; times are UTC",
        plural_of(entries.len(), "entry", "entries")
    );
    canvas.text(row(area, 0), &title, Role::TextMuted);
    let mut line = 1;
    for entry in entries.skip(state.nav.log_scroll) {
        if line >= area.height {
            break;
        }
        let (symbol, role, _) = tone(entry.tone);
        let own = if entry.own { " you  " } else { "      " };
        let at = row(area, line);
        let taken = canvas.pieces(
            at,
            &[
                (" ", Role::Text),
                (&clock(entry.at), Role::TextMuted),
                ("  ", Role::Text),
                (symbol.encode_utf8(&mut [0; 4]), role),
                (own, Role::Info),
            ],
        );
        let room = Rect {
            height: area.height - line,
            ..behind(at, taken)
        };
        line += canvas
            .wrapped(
                Rect {
                    height: room.height.min(2),
                    ..room
                },
                &entry.text,
                role,
            )
            .max(1);
    }
}
