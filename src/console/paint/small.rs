//! A terminal in which nothing could be read. The sizes come first: of a narrower one the end of a line is cut.
//!
//! ```text
//!  needs 40 × 10
//!  this is 20 × 5
//! ```

use ratatui::layout::Rect;

use crate::console::state::SIZE_MIN;
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, row};

/// Says how large it must be and how large it is.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect) {
    let needed = format!("needs {} × {}", SIZE_MIN.0, SIZE_MIN.1);
    canvas.text(row(area, 0), &needed, Role::Title);
    canvas.text(
        row(area, 1),
        &format!("this is {} × {}", area.width, area.height),
        Role::Text,
    );
    canvas.text(row(area, 2), "enlarge it, or q", Role::TextMuted);
}
