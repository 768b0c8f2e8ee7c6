//! Looking for a text in the payload in front: typed live, Enter keeps it, Esc forgets it.

use crossterm::event::{KeyCode, KeyModifiers};
use tui_input::{Input, InputRequest};

use super::State;
use super::keys::Press;
use crate::console::state::Mode;
use crate::console::state::payload::FIND_BYTES_MAX;
use crate::console::typing;

pub(in crate::console) fn begin(state: &mut State) {
    let text = state.nav.details.last().and_then(|detail| detail.reading.find.as_ref());
    let text = text.map_or_else(String::new, |find| find.text.clone());
    state.input.mode = Mode::Find(Input::new(text));
}

pub(super) fn key(state: &mut State, press: Press) {
    let control = press.key.modifiers.contains(KeyModifiers::CONTROL);
    match (press.key.code, control) {
        (KeyCode::Enter, _) => state.input.mode = Mode::Browse,
        (KeyCode::Esc, _) | (KeyCode::Char('c'), true) => {
            state.input.mode = Mode::Browse;
            if let Some(detail) = state.nav.details.last_mut() {
                detail.reading.find = None;
            }
        }
        (KeyCode::Down, _) | (KeyCode::Char('n'), true) => step(state, 1),
        (KeyCode::Up, _) | (KeyCode::Char('p'), true) => step(state, -1),
        (code, _) => {
            if let Some(request) = typing::request(code, press.key.modifiers) {
                edit(state, &[request]);
            }
        }
    }
}

pub(super) fn paste(state: &mut State, text: &str) {
    edit(state, &typing::pasted(text, FIND_BYTES_MAX));
}

/// The next place, or the one before.
pub(in crate::console) fn step(state: &mut State, by: isize) {
    if let Some(detail) = state.nav.details.last_mut() {
        detail.reading.step_found(by, detail.lines_above());
    }
}

fn edit(state: &mut State, requests: &[InputRequest]) {
    let Mode::Find(input) = &mut state.input.mode else {
        return;
    };
    if !typing::edit(input, requests, FIND_BYTES_MAX) {
        return;
    }
    let text = input.value().to_owned();
    if let Some(detail) = state.nav.details.last_mut() {
        detail.reading.look_for(&text, detail.lines_above());
    }
}
