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

use super::super::action::{self, ActionSpec};
use super::super::state::State;
use super::super::theme::Role;
use super::canvas::{Canvas, behind, cells, row};
use super::dialog::boxed;
use crate::domain::text::width;

const WIDTH_MAX: u16 = 70;
const KEYS: u16 = 6;

/// Paints the box in the lower right corner; nothing where no sequence has begun.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    if state.pending_keys.is_empty() {
        return;
    }
    let begun: KeySeq = state.pending_keys.iter().copied().collect();
    let lines: Vec<(String, &ActionSpec, String)> = following(state)
        .map(|(keys, spec)| {
            let why = (spec.enabled)(state).err().map(|why| format!(": {why}"));
            (keys, spec, why.unwrap_or_default())
        })
        .collect();
    let wide = lines
        .iter()
        .map(|(_, spec, why)| cells(width(spec.title) + width(why)) + KEYS + 4)
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
    for (at, (keys, spec, why)) in (0..inner.height).zip(&lines) {
        let place = row(inner, at);
        canvas.text(place, keys, Role::DialogKey);
        let role = if why.is_empty() { Role::Text } else { Role::HintDisabled };
        canvas.text(behind(place, KEYS), &format!("{}{why}", spec.title), role);
    }
}

/// What is left of each sequence that begins like that, with its action.
fn following(state: &State) -> impl Iterator<Item = (String, &'static ActionSpec)> {
    let pressed = &state.pending_keys;
    state.keymap.bindings.iter().filter_map(|(keys, id)| {
        let spec = action::spec(*id);
        let begins = keys.match_to(pressed) == Match::Prefix && spec.is_offered(state);
        let rest = keys.as_slice().get(pressed.len()..)?;
        begins.then(|| (rest.iter().copied().collect::<KeySeq>().to_string(), spec))
    })
}
