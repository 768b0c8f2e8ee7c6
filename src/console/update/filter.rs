//! The filter line: typed live, Enter keeps, Esc restores.

use crossterm::event::{KeyCode, KeyModifiers};
use tui_input::{Input, InputRequest};

use super::keys::Press;
use super::{State, snapshots};
use crate::console::state::Mode;
use crate::console::state::effect::Effect;
use crate::console::typing;
use crate::domain::filter::EXPRESSION_BYTES_MAX;

pub(in crate::console) fn begin(state: &mut State) {
    if let Some(list) = state.list_mut() {
        list.filter_begin();
        let text = list.filter().text.clone();
        state.input.mode = Mode::Filter(Input::new(text));
    }
}

pub(super) fn key(state: &mut State, press: Press) -> Vec<Effect> {
    let control = press.key.modifiers.contains(KeyModifiers::CONTROL);
    match (press.key.code, control) {
        (KeyCode::Enter, _) => keep(state),
        (KeyCode::Esc, _) | (KeyCode::Char('c'), true) => restore(state),
        (KeyCode::Tab, _) => complete(state),
        (code, _) => match typing::request(code, press.key.modifiers) {
            Some(request) => edit(state, &[request]),
            None => Vec::new(),
        },
    }
}

pub(super) fn paste(state: &mut State, text: &str) -> Vec<Effect> {
    edit(state, &typing::pasted(text, EXPRESSION_BYTES_MAX))
}

fn edit(state: &mut State, requests: &[InputRequest]) -> Vec<Effect> {
    let Mode::Filter(input) = &mut state.input.mode else {
        return Vec::new();
    };
    if !typing::edit(input, requests, EXPRESSION_BYTES_MAX) {
        return Vec::new();
    }
    let text = input.value().to_owned();
    write(state, &text)
}

/// The word at the cursor becomes the first that it could be.
fn complete(state: &mut State) -> Vec<Effect> {
    let now = state.now;
    let Mode::Filter(input) = &state.input.mode else {
        return Vec::new();
    };
    let (text, cursor) = (input.value().to_owned(), input.cursor());
    let found = state
        .list()
        .map(|list| list.completion(&text, cursor, now))
        .unwrap_or_default();
    let Some(word) = found.words.first() else {
        return Vec::new();
    };
    let back = cursor.saturating_sub(found.from);
    let typed = std::iter::repeat_n(InputRequest::DeletePrevChar, back);
    let requests: Vec<InputRequest> = typed
        .chain(word.chars().map(InputRequest::InsertChar))
        .chain([InputRequest::InsertChar(' ')])
        .collect();
    edit(state, &requests)
}

fn write(state: &mut State, text: &str) -> Vec<Effect> {
    let Some(list) = state.list_mut() else {
        return Vec::new();
    };
    let applied = list.filter().applied.clone();
    list.filter_write(text);
    if list.filter().applied == applied {
        return Vec::new();
    }
    snapshots::arrange_front(state)
}

/// The line stays open while the text cannot be read.
fn keep(state: &mut State) -> Vec<Effect> {
    let Some(list) = state.list_mut() else {
        state.input.mode = Mode::Browse;
        return Vec::new();
    };
    let applied = list.filter().applied.clone();
    let readable = list.filter_keep();
    let changed = list.filter().applied != applied;
    if readable {
        state.input.mode = Mode::Browse;
    }
    if changed {
        return snapshots::arrange_front(state);
    }
    Vec::new()
}

fn restore(state: &mut State) -> Vec<Effect> {
    state.input.mode = Mode::Browse;
    if let Some(list) = state.list_mut() {
        list.filter_restore();
    }
    snapshots::arrange_front(state)
}
