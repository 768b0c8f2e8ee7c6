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

use super::dialog::boxed;
use super::form_lines::{self, Columns};
use crate::console::state::document_form::{DocumentForm, DocumentOf};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, below, cells};
use crate::console::widgets::words;

/// Cells for the keys.
const KEYS: u16 = 34;
/// Lines under the keys.
const NOTES: u16 = 4;

/// Paints the form over the whole body; answers where the cursor stands.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, form: &DocumentForm) -> Option<Position> {
    let inner = boxed(canvas, area, &title(&form.of), false);
    let shown = cells(form.lines.len()).min(inner.height.saturating_sub(NOTES));
    let wrong = form.problem.as_ref().map(|(key, _)| key.as_str());
    let columns = Columns {
        keys: KEYS,
        values: u16::MAX,
    };
    let place = Rect { height: shown, ..inner };
    let cursor = form_lines::paint(canvas, place, (&form.lines, form.selected), wrong, columns);
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
