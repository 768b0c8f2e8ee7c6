//! The filter line: typed live, Enter keeps, Esc restores, Up and Down lead through the filters of before.

use crossterm::event::{KeyCode, KeyModifiers};
use tui_input::InputRequest;

use super::keys::Press;
use super::{State, snapshots};
use crate::console::state::Mode;
use crate::console::state::effect::Effect;
use crate::console::state::filter_line::FilterLine;
use crate::console::typing;
use crate::domain::filter::EXPRESSION_BYTES_MAX;

/// Opens the line with the filter that holds, selected.
pub(in crate::console) fn begin(state: &mut State) {
    let now = state.now;
    if let Some(list) = state.list_mut() {
        list.filter_begin();
        let line = FilterLine::with(&list.filter().text, now);
        state.input.mode = Mode::Filter(Box::new(line));
    }
}

pub(super) fn key(state: &mut State, press: Press) -> Vec<Effect> {
    let control = press.key.modifiers.contains(KeyModifiers::CONTROL);
    match (press.key.code, control) {
        (KeyCode::Enter, _) => keep(state),
        (KeyCode::Esc, _) | (KeyCode::Char('c'), true) => restore(state),
        (KeyCode::Tab, _) => complete(state),
        (KeyCode::Up, _) | (KeyCode::Char('p'), true) => recall(state, 1),
        (KeyCode::Down, _) | (KeyCode::Char('n'), true) => recall(state, -1),
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
    let now = state.now;
    let Mode::Filter(line) = &mut state.input.mode else {
        return Vec::new();
    };
    let replaces = std::mem::take(&mut line.selected) && requests.first().is_some_and(writes);
    let mut changed = false;
    if replaces {
        changed = typing::edit(&mut line.input, &[InputRequest::DeleteLine], EXPRESSION_BYTES_MAX);
    }
    changed |= typing::edit(&mut line.input, requests, EXPRESSION_BYTES_MAX);
    if !changed {
        return Vec::new();
    }
    line.typed_at = now;
    line.refused = false;
    line.recalled = None;
    let text = line.input.value().to_owned();
    write(state, &text)
}

/// Whether it writes or removes something, rather than moves.
const fn writes(request: &InputRequest) -> bool {
    matches!(
        request,
        InputRequest::InsertChar(_)
            | InputRequest::DeletePrevChar
            | InputRequest::DeleteNextChar
            | InputRequest::DeletePrevWord
            | InputRequest::DeleteNextWord
            | InputRequest::DeleteLine
            | InputRequest::DeleteTillEnd
    )
}

/// A filter of before; behind the newest one stands the empty line.
fn recall(state: &mut State, by: isize) -> Vec<Effect> {
    let now = state.now;
    let Mode::Filter(line) = &mut state.input.mode else {
        return Vec::new();
    };
    let mut next = match (line.recalled, by > 0) {
        (None, true) => Some(0),
        (None | Some(0), false) => None,
        (Some(back), _) => back.checked_add_signed(by),
    };
    // The one that stands there is not what is looked for.
    if line.recalled.is_none() && next == Some(0) && state.input.filters.back(0) == Some(line.input.value()) {
        next = Some(1);
    }
    let text = match next {
        None => String::new(),
        Some(back) => match state.input.filters.back(back) {
            Some(text) => text.to_owned(),
            None => return Vec::new(),
        },
    };
    **line = FilterLine {
        recalled: next,
        ..FilterLine::with(&text, now)
    };
    write(state, &text)
}

/// The word at the cursor becomes the first that it could be.
fn complete(state: &mut State) -> Vec<Effect> {
    let now = state.now;
    let Mode::Filter(line) = &mut state.input.mode else {
        return Vec::new();
    };
    line.selected = false;
    let (text, cursor) = (line.input.value().to_owned(), line.input.cursor());
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
    let text = list.filter().text.clone();
    if readable {
        state.input.mode = Mode::Browse;
        state.input.filters.remember(&text);
    } else if let Mode::Filter(line) = &mut state.input.mode {
        line.refused = true;
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
