//! The form of a policy: a line for each key, and the schedule that comes of it.
//!
//! ```text
//! ┌ retry policy of stock.example/changed ─────────────────────────────────────────┐
//! │ ▌ retries_with_no_delay        0             41 attempts in 3d02h, then park    │
//! │   minimum_delay_retries        (3)           immediate      0                   │
//! │   maximum_delay                14400         backoff       37  from 5 s to 4h00m│
//! │   retry_backoff_function       geometric     ▁▁▁▁▂▂▃▄▅▆▇█                       │
//! │                                                                                 │
//! │ ! maximum_delay must be at most 2592000                                         │
//! └─────────────────────────────────────────────────────────────────────────────────┘
//! ```

use ratatui::layout::{Position, Rect};

use super::dialog::boxed;
use super::form_lines::{self, Columns};
use crate::console::state::policy_form::PolicyForm;
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, below, cells, row};
use crate::console::widgets::{schedule, words};
use crate::engine::query::PolicyScope;

/// Cells for the keys, and for the values.
const KEYS: u16 = 31;
const VALUES: u16 = 14;
/// From this width on the schedule stands beside the lines.
const WIDE: u16 = 76;

/// Paints the form over the whole body; answers where the cursor stands.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, form: &PolicyForm) -> Option<Position> {
    let inner = boxed(canvas, area, &format!("retry policy of {}", scope(&form.scope)), false);
    if !form.loaded {
        canvas.text(row(inner, 0), "Looking up what is saved …", Role::Title);
        return None;
    }
    let beside = inner.width >= WIDE;
    let lines = cells(form.lines.len());
    let shown = lines.min(inner.height.saturating_sub(if beside { 2 } else { 4 }));
    let wrong = form.problem.as_ref().and_then(|problem| problem.field.as_deref());
    let columns = Columns {
        keys: KEYS,
        values: VALUES,
    };
    let place = Rect { height: shown, ..inner };
    let cursor = form_lines::paint(canvas, place, (&form.lines, form.selected), wrong, columns);
    let note = below(inner, shown + u16::from(beside));
    let place = if beside {
        Rect {
            width: KEYS + VALUES,
            height: note.height.min(4),
            ..note
        }
    } else {
        Rect {
            height: note.height.min(2),
            ..note
        }
    };
    let used = says(canvas, place, form);
    let drawing = if beside {
        behind(inner, KEYS + VALUES + 2)
    } else {
        below(note, used)
    };
    schedule::paint(canvas, drawing, &form.policy);
    cursor
}

/// What is wrong, else what the line takes.
fn says(canvas: &mut Canvas<'_>, area: Rect, form: &PolicyForm) -> u16 {
    if let Some(problem) = &form.problem {
        return canvas.wrapped(area, &format!("! {problem}"), Role::Error);
    }
    let line = form.lines.get(form.selected);
    let text = match line.map(|line| line.choices.as_slice()) {
        Some([]) | None => "a number; empty: the default in brackets".to_owned(),
        Some(choices) => format!("← → {}; empty: the default in brackets", choices.join(", ")),
    };
    let begins = form.begins_with.map_or_else(String::new, |whose| {
        format!(". Nothing is saved here: it begins with {whose}")
    });
    canvas.wrapped(area, &format!("{text}{begins}"), Role::TextMuted)
}

/// What a policy is for.
pub(super) fn scope(scope: &PolicyScope) -> String {
    match (&scope.event_type, &scope.url) {
        (None, None) => "the configuration (default)".to_owned(),
        (Some(name), None) => format!("event type {name}"),
        (None, Some(url)) => words::url(url).into_owned(),
        (Some(name), Some(url)) => format!("event type {name} to {}", words::url(url)),
    }
}
