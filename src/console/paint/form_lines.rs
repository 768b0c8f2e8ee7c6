//! The lines of a form: each a key, and what is written for it or, in brackets, what holds without.

use ratatui::layout::{Position, Rect};

use crate::console::state::policy_form::FormLine;
use crate::console::theme::Role;
use crate::console::views::list::skip_columns;
use crate::console::widgets::canvas::{Canvas, behind, cells, row};

/// How wide they are.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    /// Cells for the keys.
    pub(super) keys: u16,
    /// Cells for the values, at most.
    pub(super) values: u16,
}

/// Paints the first `shown` lines, scrolled so that the selected one is among them; `wrong` is the key whose value
/// is refused. Answers where the cursor stands.
pub(super) fn paint(
    canvas: &mut Canvas<'_>,
    area: Rect,
    (lines, selected): (&[FormLine], usize),
    wrong: Option<&str>,
    columns: Columns,
) -> Option<Position> {
    let shown = usize::from(area.height);
    let first = (selected + 1).saturating_sub(shown);
    let mut cursor = None;
    for (place, (at, line)) in (0..area.height).zip(lines.iter().enumerate().skip(first)) {
        let state = (at == selected, wrong == Some(line.key.as_str()));
        let here = one(canvas, row(area, place), line, state, columns);
        cursor = cursor.or(here);
    }
    cursor
}

fn one(
    canvas: &mut Canvas<'_>,
    area: Rect,
    line: &FormLine,
    (selected, wrong): (bool, bool),
    columns: Columns,
) -> Option<Position> {
    if selected {
        canvas.text(area, "▌", Role::Mark);
    }
    let key = Rect {
        width: area.width.min(columns.keys - 3),
        ..behind(area, 2)
    };
    canvas.text(key, &line.key, if wrong { Role::Error } else { Role::TextMuted });
    let value = behind(area, columns.keys);
    let value = Rect {
        width: value.width.min(columns.values),
        ..value
    };
    if selected {
        canvas.lay_over(value, Role::Input);
    }
    let scroll = line.input.visual_scroll(usize::from(value.width).saturating_sub(1));
    if line.input.value().is_empty() {
        canvas.text(value, &format!("({})", line.default), Role::TextMuted);
    } else {
        let role = match (selected, wrong) {
            (true, _) => Role::Input,
            (false, true) => Role::Error,
            (false, false) => Role::Text,
        };
        canvas.text(value, &skip_columns(line.input.value(), scroll), role);
    }
    if !selected || !line.choices.is_empty() {
        return None;
    }
    let column = cells(line.input.visual_cursor().saturating_sub(scroll));
    canvas.cursor(value.x + column.min(value.width.saturating_sub(1)), value.y)
}
