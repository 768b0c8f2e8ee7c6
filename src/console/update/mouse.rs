//! The mouse, where it is configured: the wheel moves, a click selects, a second one opens.
//!
//! A click on a column sorts, one on the line of keys does what the key does. It answers no question: while a form, a
//! dialog or a line is open, clicks mean nothing, and whatever changes something asks before. So there is no place on the
//! screen that a slip of the hand could do harm at.

use std::time::Duration;

use crossterm::event::KeyCode;

use super::{State, act, help, preview, say};
use crate::console::journal::Tone;
use crate::console::paint::{Target, target};
use crate::console::state::action::{Action, Also, Move, named};
use crate::console::state::effect::Effect;
use crate::console::state::event::{Mouse, MouseDid};
use crate::console::state::{Mode, View};
use crate::console::table::List;
use crate::domain::time::Timestamp;

/// A second click on the same row within this opens it.
const DOUBLE: Duration = Duration::from_millis(500);
/// Rows of a turn of the wheel.
const WHEEL: isize = 3;

/// What it does where it is.
pub(super) fn mouse(state: &mut State, mouse: Mouse) -> Vec<Effect> {
    if !state.terminal.mouse || state.terminal.is_too_small() {
        return Vec::new();
    }
    state.input.pending_keys.clear();
    match mouse.what {
        MouseDid::WheelUp => wheel(state, -WHEEL),
        MouseDid::WheelDown => wheel(state, WHEEL),
        MouseDid::Click if matches!(state.input.mode, Mode::Browse) => return click(state, mouse),
        MouseDid::Click => {}
    }
    Vec::new()
}

fn wheel(state: &mut State, by: isize) {
    match state.input.mode {
        Mode::Browse => act::move_by(state, Move::Rows(by)),
        Mode::Help(_) => help::scroll(state, Move::Rows(by)),
        Mode::Filter(_)
        | Mode::Find(_)
        | Mode::Policy(_)
        | Mode::Document(_)
        | Mode::When(_)
        | Mode::Dialog(_)
        | Mode::Palette(_)
        | Mode::Columns(_)
        | Mode::Menu(_)
        | Mode::Page(_)
        | Mode::Question(_) => {}
    }
}

fn click(state: &mut State, mouse: Mouse) -> Vec<Effect> {
    let soon = state.terminal.clicked.take();
    match target(state, mouse.column, mouse.row) {
        Some(Target::Tab(place)) => {
            if let Some(view) = View::ALL.get(place) {
                state.go_to_top(*view);
            }
            Vec::new()
        }
        Some(Target::Row(place)) => {
            if state.is_beside() {
                preview::give_keys_back(state);
            }
            point(state, place);
            let name = name(state);
            // Another row may have come to the place meanwhile.
            let again = |(at, before, named): (Timestamp, usize, String)| {
                before == place && named == name && state.now.since(at) <= DOUBLE
            };
            if soon.is_some_and(again) {
                return open(state);
            }
            state.terminal.clicked = Some((state.now, place, name));
            Vec::new()
        }
        Some(Target::Column(name)) => act::sort(state, |list| sort_by(list, name)),
        Some(Target::Action(name)) => {
            let action = state.input.keymap.action(name);
            run(state, action)
        }
        None => Vec::new(),
    }
}

/// As the key would, but that nothing is sent by a click: what needs no answer after its key asks here as well.
fn run(state: &mut State, action: &'static Action) -> Vec<Effect> {
    // A console is not left by a slip of the hand.
    if action.has(|also| matches!(also, Also::Blind)) {
        return Vec::new();
    }
    act::fix_selection(state, action);
    match action.possible(state) {
        Ok(()) => act::perform(state, action, KeyCode::Null),
        Err(why) => {
            say::toast(state, Tone::Warning, &format!("{}: {why}", action.title));
            Vec::new()
        }
    }
}

/// By that column; by the one that is sorted by already, the other way round.
fn sort_by(list: &mut dyn List, name: &'static str) {
    let sorted = list.columns().into_iter().find(|column| column.name == name);
    let again = sorted.and_then(|column| column.sorted) == Some(true);
    list.sort_by(name, again);
}

fn point(state: &mut State, place: usize) {
    match state.list_mut() {
        Some(list) => list.point(place),
        None => state.choose_worst(place),
    }
}

/// What tells the selected row from every other one.
fn name(state: &State) -> String {
    let worst = || state.worst().map(|subject| format!("{subject:?}"));
    act::name_in_front(state).or_else(worst).unwrap_or_default()
}

fn open(state: &mut State) -> Vec<Effect> {
    let open = state.input.keymap.action(named::OPEN);
    match open.possible(state) {
        Ok(()) => act::perform(state, open, KeyCode::Enter),
        Err(_) => Vec::new(),
    }
}
