//! Which key goes where.
//!
//! What changes something wants a key that a person pressed: no repeat, no pasted text, and no key that
//! came faster after the last than anybody types.

use std::time::Duration;

use crossterm::event::{KeyEvent, KeyEventKind};
use keybinds::{Key, KeyInput};

use super::{
    State, act, columns, confirm, events, filter, find, forms, help, menu, page, palette, policy, reload, say,
};
use crate::console::journal::Tone;
use crate::console::state::Mode;
use crate::console::state::action::{Action, Also};
use crate::console::state::effect::Effect;
use crate::console::state::keymap::Found;
use crate::console::typing::BURST_GAP;

/// So many of them in a row are a burst.
const BURST_KEYS: u32 = 5;
/// A sequence that was begun is forgotten after this.
pub(super) const SEQUENCE_WITHIN: Duration = Duration::from_secs(5);

/// A key, and whether it may change something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Press {
    pub(super) key: KeyEvent,
    /// Pressed by a person: no repeat, not in a burst.
    pub(super) deliberate: bool,
}

pub(super) fn key(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    if key.kind == KeyEventKind::Release {
        return Vec::new();
    }
    let press = pace(state, key);
    if state.terminal.is_too_small() {
        return blind(state, press);
    }
    match state.input.mode {
        Mode::Browse => browse(state, press),
        Mode::Filter(_) => filter::key(state, press),
        Mode::Find(_) => {
            find::key(state, press);
            Vec::new()
        }
        Mode::Policy(_) => policy::key(state, press),
        Mode::Document(_) => forms::key(state, press),
        Mode::When(_) => events::when_key(state, press),
        Mode::Dialog(_) => confirm::key(state, press),
        Mode::Palette(_) => palette::key(state, press),
        Mode::Columns(_) => columns::key(state, press),
        Mode::Help(_) => help::key(state, press),
        Mode::Menu(_) => menu::key(state, press),
        Mode::Page(_) => page::key(state, press),
        Mode::Question(_) => reload::answer(state, press),
    }
}

/// A sequence that was begun does not wait for ever.
pub(super) fn forget_sequence(state: &mut State) {
    let old = state
        .input
        .last_key_at
        .is_some_and(|at| state.now.since(at) >= SEQUENCE_WITHIN);
    if old {
        state.input.pending_keys.clear();
    }
}

/// Text from the clipboard is never keys.
pub(super) fn paste(state: &mut State, text: &str) -> Vec<Effect> {
    match state.input.mode {
        Mode::Filter(_) => filter::paste(state, text),
        Mode::Find(_) => {
            find::paste(state, text);
            Vec::new()
        }
        Mode::Palette(_) => palette::paste(state, text),
        Mode::Help(_) => {
            help::paste(state, text);
            Vec::new()
        }
        Mode::Policy(_) => {
            policy::paste(state, text);
            Vec::new()
        }
        Mode::Document(_) => {
            forms::paste(state, text);
            Vec::new()
        }
        Mode::When(_) => {
            events::when_paste(state, text);
            Vec::new()
        }
        Mode::Dialog(_) => {
            confirm::paste(state, text);
            Vec::new()
        }
        Mode::Question(_) => {
            say::toast(state, Tone::Warning, confirm::NOT_PASTED);
            Vec::new()
        }
        Mode::Browse | Mode::Columns(_) | Mode::Menu(_) | Mode::Page(_) => {
            say::toast(
                state,
                Tone::Warning,
                "pasted text was dropped: press / to paste into the filter",
            );
            Vec::new()
        }
    }
}

fn pace(state: &mut State, key: KeyEvent) -> Press {
    let gap = state.input.last_key_at.map(|at| state.now.since(at));
    state.input.burst = match gap {
        Some(gap) if gap < BURST_GAP => state.input.burst.saturating_add(1),
        _ => 1,
    };
    state.input.last_key_at = Some(state.now);
    Press {
        key,
        deliberate: key.kind == KeyEventKind::Press && state.input.burst < BURST_KEYS,
    }
}

/// What the key means where the operator is.
fn look_up(state: &mut State, press: Press) -> Found {
    let input = KeyInput::from(press.key);
    if matches!(input.key(), Key::Ignored | Key::Unidentified) {
        return Found::Nothing;
    }
    state.input.pending_keys.push(input);
    let found = state.input.keymap.find(&state.input.pending_keys, state.focus());
    if found != Found::Begun {
        state.input.pending_keys.clear();
    }
    found
}

fn browse(state: &mut State, press: Press) -> Vec<Effect> {
    match look_up(state, press) {
        Found::Action(action) => try_action(state, action, press),
        Found::Elsewhere(action) => {
            let text = format!("{} is for: {}", action.title, action.context.named());
            say::toast(state, Tone::Note, &text);
            Vec::new()
        }
        Found::Begun | Found::Nothing => Vec::new(),
    }
}

/// Does the action, asks for what changes something, or says why it is not possible.
pub(super) fn try_action(state: &mut State, action: &'static Action, press: Press) -> Vec<Effect> {
    // Neither is anything shown that the audit has to know of.
    let audited = action.has(|also| matches!(also, Also::Audited));
    if (action.mutates() || audited) && !press.deliberate {
        return Vec::new();
    }
    act::fix_selection(state, action);
    if let Err(why) = action.possible(state) {
        if !action.has(|also| matches!(also, Also::Silent)) {
            say::toast(state, Tone::Warning, &format!("{}: {why}", action.title));
        }
        return Vec::new();
    }
    act::perform(state, action, press.key.code)
}

/// Nothing is shown, so nothing but leaving is possible.
fn blind(state: &mut State, press: Press) -> Vec<Effect> {
    match look_up(state, press) {
        Found::Action(action) if action.has(|also| matches!(also, Also::Blind)) => {
            act::perform(state, action, press.key.code)
        }
        Found::Action(_) | Found::Elsewhere(_) | Found::Begun | Found::Nothing => Vec::new(),
    }
}
