//! The configuration, read again: what holds at once, and the question before what needs a new connection.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyModifiers};

use super::keys::Press;
use super::{State, say, verbs};
use crate::console::journal::Tone;
use crate::console::state::dialog::ARMED_AFTER;
use crate::console::state::effect::Effect;
use crate::console::state::settings::Reloaded;
use crate::console::state::{Mode, Question};

/// What the configuration says now, or what is wrong with it: then everything stays as it was.
pub(super) fn reloaded(state: &mut State, result: Result<Box<Reloaded>, String>) -> Vec<Effect> {
    let read = match result {
        Ok(read) => *read,
        Err(why) => {
            let text = format!("nothing is changed: {why}");
            say::toast(state, Tone::Bad, &text);
            say::did(state, Tone::Bad, &text);
            return Vec::new();
        }
    };
    let text = match read.applied.as_slice() {
        [] => "configuration read again: nothing changed for the console".to_owned(),
        applied => format!("configuration read again: {}", applied.join(", ")),
    };
    say::toast(state, Tone::Good, &text);
    say::did(state, Tone::Good, &text);
    let waits = read.waits.clone();
    let effects = apply(state, read);
    if !waits.is_empty() {
        ask(state, &waits);
    }
    effects
}

fn apply(state: &mut State, read: Reloaded) -> Vec<Effect> {
    let mut effects = Vec::new();
    state.input.pending_keys.clear();
    state.input.keymap = read.keys;
    state.lists.tail.mask = Arc::clone(&read.mask);
    state.session.mask = read.mask;
    state.session.place.label = read.label;
    state.session.place.colour = read.colour;
    state.session.profiles.others = read.profiles;
    if let Some(theme) = read.theme {
        effects.push(Effect::Theme(theme));
    }
    if state.session.refresh != read.refresh {
        state.session.refresh = read.refresh;
        effects.push(Effect::Pace(read.refresh));
    }
    (state.terminal.notify, state.terminal.titles) = (read.notify, read.titles);
    if let Some(preview) = read.preview {
        state.nav.preview.is_off = !preview;
    }
    if state.terminal.mouse != read.mouse {
        state.terminal.mouse = read.mouse;
        effects.push(Effect::Mouse);
    }
    effects
}

fn ask(state: &mut State, waits: &[String]) {
    // What is open is not thrown away by an answer that comes by itself.
    if !matches!(state.input.mode, Mode::Browse) {
        let text = format!("not used yet: {}; :reload asks again", waits.join(", "));
        say::toast(state, Tone::Warning, &text);
        return;
    }
    state.input.mode = Mode::Question(Box::new(Question {
        title: "the connection has to be opened again",
        lines: vec![
            "These take effect only when store and broker are opened again:".to_owned(),
            waits.join(", "),
            "The console restarts with the same options; runs of daemons continue, and nothing is lost.".to_owned(),
        ],
        does: "restart",
        ready_at: state.now.plus(ARMED_AFTER),
    }));
}

/// A key while a question is open: only `y` says yes.
pub(super) fn answer(state: &mut State, press: Press) -> Vec<Effect> {
    let Mode::Question(question) = &state.input.mode else {
        return Vec::new();
    };
    let is_ready = state.now >= question.ready_at;
    let control = press.key.modifiers.contains(KeyModifiers::CONTROL);
    match (press.key.code, control) {
        (KeyCode::Char('y'), false) if press.deliberate && is_ready => {
            state.input.mode = Mode::Browse;
            match verbs::nothing_runs(state) {
                Ok(()) => return vec![Effect::Again],
                Err(why) => say::toast(state, Tone::Warning, &why),
            }
        }
        (KeyCode::Esc | KeyCode::Char('n' | 'q'), false) | (KeyCode::Char('c'), true) => {
            state.input.mode = Mode::Browse;
        }
        _ => {}
    }
    Vec::new()
}
