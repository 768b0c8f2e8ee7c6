//! The list of what can be done with the row in front: chosen with Enter, or by the key that stands beside it.

use crossterm::event::{KeyCode, KeyModifiers};
use keybinds::{KeyInput, Match};

use super::State;
use super::keys::{self, Press};
use crate::console::state::Mode;
use crate::console::state::action::Action;
use crate::console::state::effect::Effect;
use crate::console::state::menu::Menu;

/// Opens it.
pub(in crate::console) fn open(state: &mut State, trigger: KeyCode) -> Vec<Effect> {
    state.input.mode = Mode::Menu(Box::new(Menu::of(state, trigger)));
    Vec::new()
}

/// A key while it is open.
pub(super) fn key(state: &mut State, press: Press) -> Vec<Effect> {
    let control = press.key.modifiers.contains(KeyModifiers::CONTROL);
    let Mode::Menu(menu) = &mut state.input.mode else {
        return Vec::new();
    };
    let last = menu.actions.len().saturating_sub(1);
    match (press.key.code, control) {
        (KeyCode::Esc, _) | (KeyCode::Char('c'), true) => state.input.mode = Mode::Browse,
        (KeyCode::Up | KeyCode::BackTab | KeyCode::Char('k'), false) => menu.selected = menu.selected.saturating_sub(1),
        (KeyCode::Down | KeyCode::Tab | KeyCode::Char('j'), false) => menu.selected = (menu.selected + 1).min(last),
        (KeyCode::Home, _) => menu.selected = 0,
        (KeyCode::End, _) => menu.selected = last,
        (KeyCode::Enter, false) => {
            let chosen = menu.actions.get(menu.selected).copied();
            return chosen.map_or_else(Vec::new, |action| choose(state, action, press));
        }
        (code, _) if code == menu.opened_by => state.input.mode = Mode::Browse,
        (KeyCode::Char('q'), false) => state.input.mode = Mode::Browse,
        _ => {
            let pressed = KeyInput::from(press.key);
            if let Some(action) = of_key(state, pressed) {
                return choose(state, action, press);
            }
        }
    }
    Vec::new()
}

/// The listed action that has this key for itself.
fn of_key(state: &State, pressed: KeyInput) -> Option<&'static Action> {
    let Mode::Menu(menu) = &state.input.mode else {
        return None;
    };
    let mut bindings = state.input.keymap.bindings.iter();
    let listed = |action: &'static Action| menu.actions.contains(&action);
    bindings
        .find_map(|(keys, action)| (keys.match_to(&[pressed]) == Match::Matched && listed(action)).then_some(*action))
}

/// What cannot be done says why, and the list stays open.
fn choose(state: &mut State, action: &'static Action, press: Press) -> Vec<Effect> {
    if !press.deliberate {
        return Vec::new();
    }
    if action.possible(state).is_ok() {
        state.input.mode = Mode::Browse;
    }
    keys::try_action(state, action, press)
}
