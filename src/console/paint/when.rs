//! The question for the time that events are due at.
//!
//! ```text
//! ┌ reschedule ──────────────────────────────────────────────────────┐
//! │ due at: 2h30m▏                                                    │
//! │ 2026-11-21 05:42:44 UTC, in 2h30m                                 │
//! └───────────────────────────────────────────────────────────────────┘
//! ```

use ratatui::layout::{Position, Rect};

use super::dialog::{boxed, centred};
use crate::console::state::when_form::{self, WhenForm};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, cells, row};
use crate::console::widgets::words::{date, until};

const LABEL: &str = "due at: ";
const WIDTH: u16 = 70;

/// Paints the question; answers where the cursor stands.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, form: &WhenForm) -> Option<Position> {
    let outer = centred(area, WIDTH, 4);
    let inner = boxed(canvas, outer, "reschedule", false);
    let line = row(inner, 0);
    let taken = canvas.text(line, LABEL, Role::DialogKey);
    let field = behind(line, taken);
    canvas.lay_over(field, Role::Input);
    canvas.text(field, form.input.value(), Role::Input);
    let (text, role) = match when_form::read(form.input.value(), canvas.now) {
        Ok(at) => (format!("{} UTC, {}", date(at), until(canvas.now, at)), Role::Info),
        Err(why) => (why, Role::TextMuted),
    };
    canvas.text(row(inner, 1), &text, role);
    let column = cells(form.input.visual_cursor()).min(field.width.saturating_sub(1));
    canvas.cursor(field.x + column, field.y)
}
