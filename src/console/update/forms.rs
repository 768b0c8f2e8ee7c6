//! The form of a document of the event table: written, and handed to the confirmation.

use crossterm::event::{KeyCode, KeyModifiers};
use tui_input::InputRequest;

use super::keys::Press;
use super::{State, confirm, say};
use crate::console::journal::Tone;
use crate::console::state::Mode;
use crate::console::state::action::named;
use crate::console::state::dialog::Asked;
use crate::console::state::document_form::DocumentOf;
use crate::console::state::effect::Effect;
use crate::console::typing;

/// A key while the form is open.
pub(super) fn key(state: &mut State, press: Press) -> Vec<Effect> {
    let (code, control) = (press.key.code, press.key.modifiers.contains(KeyModifiers::CONTROL));
    match (code, control) {
        (KeyCode::Esc, _) | (KeyCode::Char('c'), true) => state.input.mode = Mode::Browse,
        (KeyCode::Enter, _) if press.deliberate => return ask(state),
        (KeyCode::Enter, _) => {}
        (KeyCode::Up | KeyCode::BackTab, _) => step(state, -1),
        (KeyCode::Down | KeyCode::Tab, _) => step(state, 1),
        _ => {
            if let Some(request) = typing::request(code, press.key.modifiers) {
                edit(state, request);
                check(state);
            }
        }
    }
    Vec::new()
}

/// What fits is typed into the line; the rest is left out.
pub(super) fn paste(state: &mut State, text: &str) {
    for character in text.lines().next().unwrap_or_default().trim().chars() {
        edit(state, InputRequest::InsertChar(character));
    }
    check(state);
}

fn step(state: &mut State, by: isize) {
    let Mode::Document(form) = &mut state.input.mode else {
        return;
    };
    let last = form.lines.len().saturating_sub(1);
    form.selected = form.selected.saturating_add_signed(by).min(last);
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other request is the input's own")]
fn edit(state: &mut State, request: InputRequest) {
    let Mode::Document(form) = &mut state.input.mode else {
        return;
    };
    let Some(line) = form.line_mut() else { return };
    match request {
        InputRequest::InsertChar(character) if !line.takes(character) => {}
        request => {
            line.input.handle(request);
        }
    }
}

fn check(state: &mut State) {
    if let Mode::Document(form) = &mut state.input.mode {
        form.check();
    }
}

/// Asks for the plan, which says what was written before.
fn ask(state: &mut State) -> Vec<Effect> {
    let Mode::Document(form) = &state.input.mode else {
        return Vec::new();
    };
    let command = match form.command() {
        Ok(command) => command,
        Err((_, problem)) => {
            say::toast(state, Tone::Warning, &format!("not saved: {problem}"));
            return Vec::new();
        }
    };
    let name = match &form.of {
        DocumentOf::Subscription(_, None) => named::SUBSCRIBE,
        DocumentOf::Metadata(_) | DocumentOf::Subscription(_, Some(_)) => named::EDIT_TYPE,
    };
    state.input.behind = Some(Box::new(std::mem::take(&mut state.input.mode)));
    let action = state.input.keymap.action(name);
    confirm::begin(state, action, KeyCode::Enter, Asked::one(command))
}
