//! Sentences that pass, and what is under way, in the corner at the bottom right.
//!
//! ```text
//!                                   … redeliver: 3 of 12 done, 1 failed
//!                                   ✓ redelivered stock.example/changed: 3 queues go on
//! ```

use ratatui::layout::Rect;

use crate::console::state::State;
use crate::console::state::dialog::Task;
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, cells, row, wrap_at_most};
use crate::console::widgets::words::tone;
use crate::domain::text::width;

/// Toasts on the screen, at most: the newest.
const TOASTS_MAX: usize = 3;
const WIDTH_MAX: u16 = 64;
const LINES_MAX: usize = 4;
/// The foot of a list says what is marked, and the lines above it what the selected row means: they stay in sight.
const FOOT: u16 = 3;

/// Paints them from the bottom upwards, the newest lowest.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let mut bottom = area.bottom().saturating_sub(FOOT).max(area.top());
    for toast in state.said.toasts.iter().rev().take(TOASTS_MAX) {
        let (symbol, _, role) = tone(toast.tone);
        bottom = one(canvas, area, bottom, &format!("{symbol} {}", toast.text), role);
    }
    for task in state.commands.tasks.iter().rev().take(TOASTS_MAX) {
        if let Some(text) = under_way(task) {
            bottom = one(canvas, area, bottom, &text, Role::Toast);
        }
    }
}

fn under_way(task: &Task) -> Option<String> {
    let (done, failed) = task.ended?;
    let title = task.action.title;
    let failures = if failed > 0 {
        format!(", {failed} failed")
    } else {
        String::new()
    };
    Some(format!("… {title}: {done} of {} done{failures}", task.commands.len()))
}

/// Paints one above `bottom`; answers where it begins.
fn one(canvas: &mut Canvas<'_>, area: Rect, bottom: u16, text: &str, role: Role) -> u16 {
    let columns = WIDTH_MAX.min(area.width.saturating_sub(2)).saturating_sub(2);
    let lines = wrap_at_most(text, columns.into(), LINES_MAX);
    let height = cells(lines.len());
    let top = bottom.saturating_sub(height);
    if top < area.top() || lines.is_empty() {
        return bottom;
    }
    let wide = lines.iter().map(|line| cells(width(line))).max().unwrap_or(0) + 2;
    let place = Rect {
        x: area.right().saturating_sub(wide + 1),
        y: top,
        width: wide,
        height,
    };
    canvas.clear(place, role);
    for (at, line) in (0..).zip(&lines) {
        let inner = Rect {
            x: place.x + 1,
            width: place.width.saturating_sub(1),
            ..row(place, at)
        };
        canvas.text(inner, line, role);
    }
    top
}
