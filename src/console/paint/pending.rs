//! What can follow the keys that were pressed.
//!
//! ```text
//! ┌ o … ──────────────────────────┐
//! │ q  its queues                  │
//! │ e  its endpoint                │
//! │ d  its dead letters: not known │
//! └────────────────────────────────┘
//! ```

use keybinds::{KeySeq, Match};
use ratatui::layout::Rect;

use super::dialog::boxed;
use crate::console::state::State;
use crate::console::state::action::Action;
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, cells, row};
use crate::domain::text::width;

const WIDTH_MAX: u16 = 70;
const KEYS: u16 = 6;

/// Paints the box in the lower right corner; nothing where no sequence has begun.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    if state.input.pending_keys.is_empty() {
        return;
    }
    let begun: KeySeq = state.input.pending_keys.iter().copied().collect();
    let lines: Vec<(String, &Action, String)> = following(state)
        .map(|(keys, action)| {
            let why = action.possible(state).err().map(|why| format!(": {why}"));
            (keys, action, why.unwrap_or_default())
        })
        .collect();
    let wide = lines
        .iter()
        .map(|(_, action, why)| cells(width(action.title) + width(why)) + KEYS + 4)
        .max();
    let wide = wide.unwrap_or(0).clamp(20, WIDTH_MAX).min(area.width);
    let high = cells(lines.len() + 2).min(area.height);
    let outer = Rect {
        x: area.right() - wide,
        y: area.bottom() - high,
        width: wide,
        height: high,
    };
    let inner = boxed(canvas, outer, &format!("{begun} …"), false);
    for (at, (keys, action, why)) in (0..inner.height).zip(&lines) {
        let place = row(inner, at);
        canvas.text(place, keys, Role::DialogKey);
        let role = if why.is_empty() { Role::Text } else { Role::HintDisabled };
        canvas.text(behind(place, KEYS), &format!("{}{why}", action.title), role);
    }
}

/// What is left of each sequence that begins like that, with its action.
fn following(state: &State) -> impl Iterator<Item = (String, &'static Action)> {
    let pressed = &state.input.pending_keys;
    state.input.keymap.bindings.iter().filter_map(|(keys, action)| {
        let begins = keys.match_to(pressed) == Match::Prefix && action.is_offered(state);
        let rest = keys.as_slice().get(pressed.len()..)?;
        begins.then(|| (rest.iter().copied().collect::<KeySeq>().to_string(), *action))
    })
}
