//! What can be done with the row or detail in front, with keys and names; what cannot be done now stands at the end.
//!
//! ```text
//! ┌ billing.example/hook ────────────────────────────────────┐
//! │ ▌ R    redeliver     Make the endpoint of the selected …  │
//! │   T    test          Send one HEAD request to the …       │
//! │   o q  its queues    Go to the queues of the endpoint …   │
//! │   D    disable       this endpoint is disabled already    │
//! └──────────────────────────────────────────── 1 of 9 ───────┘
//! ```

use ratatui::layout::Rect;

use super::dialog::boxed;
use crate::console::state::State;
use crate::console::state::action::Action;
use crate::console::state::menu::Menu;
use crate::console::state::relatives::name_of_subject;
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, cells, row};
use crate::domain::text::show;

const WIDTH_MAX: u16 = 100;
const KEYS: u16 = 6;
const TITLE: u16 = 20;
/// Columns of the name above it.
const NAME_MAX: usize = 80;
/// Before the keys: the sign of the chosen line.
const SIGN: u16 = 2;

/// Paints it at the foot of the body, above the line of keys.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, menu: &Menu) {
    let wide = WIDTH_MAX.min(area.width);
    let high = cells(menu.actions.len().max(1) + 2).min(area.height);
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
    let first = (menu.selected + 1).saturating_sub(inner.height.into());
    let shown = menu.actions.iter().enumerate().skip(first);
    for (at, (place, action)) in (0..inner.height).zip(shown) {
        one(canvas, row(inner, at), state, action, place == menu.selected);
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
    let possible = action.possible(state);
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
    let role = if possible.is_ok() {
        Role::Text
    } else {
        Role::HintDisabled
    };
    canvas.text(
        part(0, KEYS - 1),
        &keys,
        if possible.is_ok() { Role::DialogKey } else { role },
    );
    canvas.text(part(KEYS, TITLE - 1), action.title_in(state), role);
    let (says, says_role) = match &possible {
        Ok(()) => (action.help, Role::TextMuted),
        Err(why) => (why.as_ref(), Role::HintDisabled),
    };
    canvas.text(part(KEYS + TITLE, area.width), says, says_role);
    if selected {
        canvas.lay_over(area, Role::Selection);
    }
}
