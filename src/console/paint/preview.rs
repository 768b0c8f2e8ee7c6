//! What stands beside the list: the detail of the selected row, or what the list has of it.
//!
//! ```text
//!    State ▲        Waiting  Endpoint      │ Queue order-18.9bbb34aa…        read 2 s ago
//!  ▌ ! parked            22  stock.example │  Why    Attempts 12    Messages   Tab goes here
//!    ▼ endpoint_un…      12  stock.example │
//!                                          │ ▼ endpoint_unavailable
//! ```

use ratatui::layout::{Position, Rect};

use super::detail;
use crate::console::state::State;
use crate::console::state::preview::{Parts, Sides};
use crate::console::table::List;
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, row};

/// Paints the line between both, and the preview; answers where the cursor stands when something is looked for in it.
pub(super) fn paint(canvas: &mut Canvas<'_>, parts: Parts, sides: Sides, state: &State) -> Option<Position> {
    let role = if state.is_beside() { Role::Mark } else { Role::ChartAxis };
    match sides {
        Sides::Beside => {
            for line in 0..parts.line.height {
                canvas.text(row(parts.line, line), "│", role);
            }
        }
        Sides::Below => {
            let line = "─".repeat(usize::from(parts.line.width));
            canvas.text(parts.line, &line, role);
        }
    }
    if let Some(detail) = state.looked_at() {
        return detail::beside(canvas, parts.preview, state, detail);
    }
    if state.list().is_some_and(List::has_selection) {
        let area = Rect {
            width: parts.preview.width.saturating_sub(2),
            ..behind(parts.preview, 1)
        };
        state.nav.view.screen().glance(canvas, area, state);
    }
    None
}
