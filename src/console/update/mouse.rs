//! The mouse, where it is configured: the wheel moves, a click selects, a second one opens.
//!
//! It never changes anything else, and it answers no question: while a form, a dialog or a line is open, clicks mean
//! nothing. So there is no place on the screen that a slip of the hand could do harm at.

use std::time::Duration;

use super::{State, act};
use crate::console::Effect;
use crate::console::action::{ActionId, spec};
use crate::console::event::{Mouse, MouseDid};
use crate::console::state::Mode;
use crate::console::view::{Target, target};
use crate::domain::time::Timestamp;

/// A second click on the same row within this opens it.
const DOUBLE: Duration = Duration::from_millis(500);
/// Rows of a turn of the wheel.
const WHEEL: usize = 3;

/// What it does where it is.
pub(super) fn mouse(state: &mut State, mouse: Mouse) -> Vec<Effect> {
    if !state.mouse || state.is_too_small() {
        return Vec::new();
    }
    state.pending_keys.clear();
    match mouse.what {
        MouseDid::WheelUp => wheel(state, ActionId::Up),
        MouseDid::WheelDown => wheel(state, ActionId::Down),
        MouseDid::Click if matches!(state.mode, Mode::Browse) => click(state, mouse),
        MouseDid::Click => Vec::new(),
    }
}

fn wheel(state: &mut State, action: ActionId) -> Vec<Effect> {
    let mut effects = Vec::new();
    for _ in 0..WHEEL {
        match state.mode {
            Mode::Browse if (spec(action).enabled)(state).is_ok() => effects.extend(act::perform(state, action)),
            Mode::Help { .. } => act::in_help(state, action),
            Mode::Browse
            | Mode::Filter(_)
            | Mode::Find(_)
            | Mode::Policy(_)
            | Mode::Document(_)
            | Mode::When(_)
            | Mode::Dialog(_)
            | Mode::Palette(_)
            | Mode::Columns(_)
            | Mode::Question(_) => {}
        }
    }
    effects
}

fn click(state: &mut State, mouse: Mouse) -> Vec<Effect> {
    let soon = state.clicked.take();
    match target(state, mouse.column, mouse.row) {
        Some(Target::Tab(view)) => {
            act::go(state, view);
            Vec::new()
        }
        Some(Target::Row(place)) => {
            point(state, place);
            let name = name(state);
            // Another row may have come to the place meanwhile.
            let again = |(at, before, named): (Timestamp, usize, String)| {
                before == place && named == name && state.now.since(at) <= DOUBLE
            };
            if soon.is_some_and(again) {
                return open(state);
            }
            state.clicked = Some((state.now, place, name));
            Vec::new()
        }
        None => Vec::new(),
    }
}

fn point(state: &mut State, place: usize) {
    match state.list_mut() {
        Some(list) => list.point(place),
        None => state.worst_selected = place,
    }
}

/// What tells the selected row from every other one.
fn name(state: &State) -> String {
    let worst = || state.worst().map(|subject| format!("{subject:?}"));
    act::name_in_front(state).or_else(worst).unwrap_or_default()
}

fn open(state: &mut State) -> Vec<Effect> {
    if (spec(ActionId::Open).enabled)(state).is_err() {
        return Vec::new();
    }
    act::perform(state, ActionId::Open)
}
