//! What was done here and what happened, newest first.
//!
//! ```text
//!  03:12:44  ✓ you   redelivered https://stock.example/changed: 3 queues go on
//!  03:12:09  ×       https://stock.example/changed is unavailable (503)
//! ```

use ratatui::layout::Rect;

use super::super::state::State;
use super::super::theme::Role;
use super::canvas::{Canvas, behind, below, row};
use super::words::{clock, plural_of, tone};

/// Paints the entries from the scrolled one on.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let entries = state.journal.newest_first();
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
    for entry in entries.skip(state.log_scroll) {
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
