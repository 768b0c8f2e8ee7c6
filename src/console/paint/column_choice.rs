//! The columns of the list in front: which are shown, in which order, and by which it is sorted.
//!
//! ```text
//! ┌ Columns ───────────────┐
//! │ ▌ ✓ State           ▲  │
//! │   ✓ Waiting            │
//! │     Execution          │
//! └─────────────────────────┘
//! ```

use ratatui::layout::Rect;

use super::dialog::boxed;
use crate::console::state::State;
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, cells, row};

const WIDTH: u16 = 34;

/// Paints the choice on the right of the body.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, chosen: usize) {
    let columns = state
        .list()
        .map(crate::console::table::Columns::columns)
        .unwrap_or_default();
    let width = WIDTH.min(area.width);
    let outer = Rect {
        x: area.right() - width,
        width,
        height: cells(columns.len() + 2).min(area.height),
        ..area
    };
    let inner = boxed(canvas, outer, "Columns", false);
    let first = (chosen + 1).saturating_sub(inner.height.into());
    for (line, (place, column)) in (0..inner.height).zip(columns.iter().enumerate().skip(first)) {
        let at = row(inner, line);
        let mark = if column.shown { "✓" } else { " " };
        canvas.text(behind(at, 2), mark, Role::Mark);
        let role = if column.shown { Role::Text } else { Role::TextMuted };
        canvas.text(behind(at, 4), column.title, role);
        let sign = match column.sorted {
            None => "",
            Some(true) => "sorted",
            Some(false) => "reversed",
        };
        canvas.right(at, sign, Role::Info);
        if place == chosen {
            canvas.text(at, "▌", Role::Mark);
            canvas.lay_over(at, Role::Selection);
        }
    }
}
