//! A question that changes no message and wants a yes all the same.
//!
//! ```text
//! ┌ the connection has to be opened again ─────────────────────────────┐
//! │ These take effect only when store and broker are opened again:              │
//! │ broker.url, store.url                                           │
//! │                                                                 │
//! │ Esc  leave it   y  begin anew                                   │
//! └─────────────────────────────────────────────────────────────────┘
//! ```

use ratatui::layout::Rect;

use super::dialog::{boxed, centred};
use crate::console::state::{Question, State};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, below, cells, row, wrap};

const WIDTH: u16 = 76;

/// Paints it over the body.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, question: &Question) {
    let columns = usize::from(WIDTH.min(area.width).saturating_sub(4));
    let lines: u16 = question.lines.iter().map(|line| cells(wrap(line, columns).len())).sum();
    let outer = centred(area, WIDTH, lines + 4);
    let inner = boxed(canvas, outer, question.title, false);
    let mut rest = Rect {
        height: inner.height.saturating_sub(2),
        ..inner
    };
    for line in &question.lines {
        let used = canvas.wrapped(rest, line, Role::Text);
        rest = below(rest, used);
    }
    let press = row(inner, inner.height.saturating_sub(1));
    let does = if state.now < question.ready_at {
        format!("  {} in a moment", question.does)
    } else {
        format!("  {}", question.does)
    };
    let pieces = [
        ("Esc", Role::DialogKey),
        ("  leave it   ", Role::Text),
        ("y", Role::DialogKey),
        (does.as_str(), Role::Text),
    ];
    canvas.pieces(press, &pieces);
}
