//! What can be done with the row or detail in front, with keys and names; what cannot be done now stands at the end.
//!
//! ```text
//! ┌ billing.example/hook ────────────────────────────────────┐
//! │ ▌ R    redeliver     Make the endpoint of the selected …  │
//! │   T    test          Send one HEAD request to the …       │
//! │   o q  its queues    Go to the queues of the endpoint …   │
//! │   D    disable       this endpoint is disabled already    │
//! │ Make the endpoint of the selected row, or of the open     │
//! │ detail, available again: its queues go on.                │
//! └──────────────────────────────────────────── 1 of 9 ───────┘
//! ```

use std::borrow::Cow;

use ratatui::layout::Rect;

use super::dialog::boxed;
use crate::console::state::State;
use crate::console::state::action::{Action, Reason};
use crate::console::state::menu::Menu;
use crate::console::state::relatives::name_of_subject;
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, below, cells, row};
use crate::domain::text::show;

const WIDTH_MAX: u16 = 100;
const KEYS: u16 = 6;
const TITLE: u16 = 20;
/// Columns of the name above it.
const NAME_MAX: usize = 80;
/// Lines for the whole of what the chosen one does.
const SAYS: u16 = 3;
/// Before the keys: the sign of the chosen line.
const SIGN: u16 = 2;

/// Paints it at the foot of the body, above the line of keys.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, menu: &Menu) {
    let wide = WIDTH_MAX.min(area.width);
    let high = (cells(menu.actions.len().max(1) + 2) + SAYS).min(area.height);
    let outer = Rect {
        x: area.x,
        y: area.bottom() - high,
        width: wide,
        height: high,
    };
    let name = name(state).map_or_else(|| "What can be done".to_owned(), |name| show(&name, NAME_MAX));
    let inner = boxed(canvas, outer, &name, false);
    if menu.actions.is_empty() {
        canvas.text(
            row(inner, 0),
            "Nothing can be done here: select a row.",
            Role::TextMuted,
        );
    }
    let lines = inner.height.saturating_sub(SAYS);
    let first = (menu.selected + 1).saturating_sub(lines.into());
    let shown = menu.actions.iter().enumerate().skip(first);
    for (at, (place, action)) in (0..lines).zip(shown) {
        one(canvas, row(inner, at), state, action, place == menu.selected);
    }
    if let Some(chosen) = menu.actions.get(menu.selected) {
        let says = says(state, chosen).map_or_else(|why| why, Cow::Borrowed);
        canvas.wrapped(behind(below(inner, lines), SIGN), &says, Role::Info);
    }
    let place = format!(" {} of {} ", menu.selected + 1, menu.actions.len());
    let corner = Rect {
        width: outer.width.saturating_sub(2),
        ..row(outer, outer.height.saturating_sub(1))
    };
    canvas.right(corner, &place, Role::DialogBorder);
}

/// What it is about: the open detail, else the selected row.
fn name(state: &State) -> Option<String> {
    match state.nav.details.last() {
        Some(detail) => name_of_subject(&detail.subject),
        None => state.nav.view.screen().name(state),
    }
}

fn one(canvas: &mut Canvas<'_>, area: Rect, state: &State, action: &'static Action, selected: bool) {
    let says = says(state, action);
    if selected {
        canvas.text(area, "▌", Role::Mark);
    }
    let part = |x: u16, width: u16| {
        let rest = behind(area, SIGN + x);
        Rect {
            width: width.min(rest.width),
            ..rest
        }
    };
    let keys = state.input.keymap.label(action.name).unwrap_or_default();
    let (says, [key, title, what]) = match says {
        Ok(help) => (help.into(), [Role::DialogKey, Role::Text, Role::TextMuted]),
        Err(why) => (why, [Role::HintDisabled; 3]),
    };
    canvas.text(part(0, KEYS - 1), &keys, key);
    canvas.text(part(KEYS, TITLE - 1), action.title_in(state), title);
    canvas.text(part(KEYS + TITLE, area.width), &says, what);
    if selected {
        canvas.lay_over(area, Role::Selection);
    }
}

/// What it does, or why it cannot be done now.
fn says(state: &State, action: &'static Action) -> Result<&'static str, Reason> {
    action.possible(state).map(|()| action.help)
}
