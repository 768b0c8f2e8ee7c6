//! The form of a document of the event table: a line for each key, and what the selected one does.
//!
//! ```text
//! ┌ metadata of hr-import ─────────────────────────────────────────────────────────┐
//! │ ▌ _cutoff                          5                                            │
//! │   _backoff_base                    (configured)                                 │
//! │                                                                                 │
//! │ failures after which an event is a dead letter: 1 to 1000                       │
//! │ kept as they are: owner, _retry_policy                                          │
//! └─────────────────────────────────────────────────────────────────────────────────┘
//! ```

use ratatui::layout::{Position, Rect};

use super::super::document_form::{DocumentForm, DocumentOf};
use super::super::policy_form::FormLine;
use super::super::theme::Role;
use super::canvas::{Canvas, behind, below, cells, row};
use super::dialog::boxed;
use super::words;

/// Cells for the keys.
const KEYS: u16 = 34;
/// Lines under the keys.
const NOTES: u16 = 4;

/// Paints the form over the whole body; answers where the cursor stands.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, form: &DocumentForm) -> Option<Position> {
    let inner = boxed(canvas, area, &title(&form.of), false);
    let shown = cells(form.lines.len()).min(inner.height.saturating_sub(NOTES));
    let selected = cells(form.selected);
    let first = (selected + 1).saturating_sub(shown);
    let mut cursor = None;
    for (place, line) in (0..shown).zip(form.lines.iter().skip(first.into())) {
        let at = one(canvas, row(inner, place), form, line, first + place == selected);
        cursor = cursor.or(at);
    }
    let notes = below(inner, shown + 1);
    let place = Rect {
        height: notes.height.min(2),
        ..notes
    };
    let used = match &form.problem {
        Some((_, problem)) => canvas.wrapped(place, &format!("! {problem}"), Role::Error),
        None => canvas.wrapped(place, form.help(), Role::TextMuted),
    };
    if !form.kept.is_empty() {
        let keys: Vec<&str> = form.kept.keys().map(String::as_str).collect();
        let text = format!("kept as they are: {}", keys.join(", "));
        canvas.wrapped(below(notes, used), &text, Role::TextMuted);
    }
    cursor
}

fn title(of: &DocumentOf) -> String {
    match of {
        DocumentOf::Metadata(name) => format!("metadata of {}", name.as_str()),
        DocumentOf::Subscription(name, None) => format!("a new subscription of {}", name.as_str()),
        DocumentOf::Subscription(name, Some(url)) => {
            format!("subscription of {} to {}", name.as_str(), words::url(url))
        }
    }
}

fn one(canvas: &mut Canvas<'_>, area: Rect, form: &DocumentForm, line: &FormLine, selected: bool) -> Option<Position> {
    let wrong = form.problem.as_ref().is_some_and(|(key, _)| *key == line.key);
    if selected {
        canvas.text(area, "▌", Role::Mark);
    }
    let key = Rect {
        width: area.width.min(KEYS - 3),
        ..behind(area, 2)
    };
    canvas.text(key, &line.key, if wrong { Role::Error } else { Role::TextMuted });
    let value = behind(area, KEYS);
    if selected {
        canvas.lay_over(value, Role::Input);
    }
    if line.input.value().is_empty() {
        canvas.text(value, &format!("({})", line.default), Role::TextMuted);
    } else {
        let scroll = line.input.visual_scroll(usize::from(value.width).saturating_sub(1));
        let role = match (selected, wrong) {
            (true, _) => Role::Input,
            (false, true) => Role::Error,
            (false, false) => Role::Text,
        };
        canvas.text(value, &super::list::skip_columns(line.input.value(), scroll), role);
    }
    if !selected {
        return None;
    }
    let scroll = line.input.visual_scroll(usize::from(value.width).saturating_sub(1));
    let column = cells(line.input.visual_cursor().saturating_sub(scroll));
    canvas.cursor(value.x + column.min(value.width.saturating_sub(1)), value.y)
}
