//! Which key goes where.
//!
//! What changes something wants a key that a person pressed: no repeat, no pasted text, and no key that
//! came faster after the last than anybody types.

use std::time::Duration;

use crossterm::event::{KeyEvent, KeyEventKind};
use keybinds::{Key, KeyInput};

use super::{State, act, columns, confirm, events, filter, find, forms, palette, policy, reload, say};
use crate::console::Effect;
use crate::console::action::{ActionId, spec};
use crate::console::journal::Tone;
use crate::console::keymap::Found;
use crate::console::state::Mode;

/// Keys closer together than this are not typed by hand.
pub(in crate::console) const BURST_GAP: Duration = Duration::from_millis(20);
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
    if state.is_too_small() {
        return blind(state, press);
    }
    match state.mode {
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
        Mode::Help { .. } => help(state, press),
        Mode::Question(_) => reload::answer(state, press),
    }
}

/// A sequence that was begun does not wait for ever.
pub(super) fn forget_sequence(state: &mut State) {
    let old = state
        .last_key_at
        .is_some_and(|at| state.now.since(at) >= SEQUENCE_WITHIN);
    if old {
        state.pending_keys.clear();
    }
}

/// Text from the clipboard is never keys.
pub(super) fn paste(state: &mut State, text: &str) -> Vec<Effect> {
    match state.mode {
        Mode::Filter(_) => filter::paste(state, text),
        Mode::Find(_) => {
            find::paste(state, text);
            Vec::new()
        }
        Mode::Palette(_) => palette::paste(state, text),
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
        Mode::Dialog(_) | Mode::Question(_) => {
            say::toast(state, Tone::Warning, "pasted text is not taken here: type it");
            Vec::new()
        }
        Mode::Browse | Mode::Columns(_) | Mode::Help { .. } => {
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
    let gap = state.last_key_at.map(|at| state.now.since(at));
    state.burst = match gap {
        Some(gap) if gap < BURST_GAP => state.burst.saturating_add(1),
        _ => 1,
    };
    state.last_key_at = Some(state.now);
    Press {
        key,
        deliberate: key.kind == KeyEventKind::Press && state.burst < BURST_KEYS,
    }
}

/// What the key means where the operator is.
fn look_up(state: &mut State, press: Press) -> Found {
    let input = KeyInput::from(press.key);
    if matches!(input.key(), Key::Ignored | Key::Unidentified) {
        return Found::Nothing;
    }
    state.pending_keys.push(input);
    let found = state.keymap.find(&state.pending_keys, state.focus());
    if found != Found::Begun {
        state.pending_keys.clear();
    }
    found
}

fn browse(state: &mut State, press: Press) -> Vec<Effect> {
    match look_up(state, press) {
        Found::Action(action) => try_action(state, action, press),
        Found::Elsewhere(action) => {
            let spec = spec(action);
            let text = format!("{} is for: {}", spec.title, spec.context.named());
            say::toast(state, Tone::Note, &text);
            Vec::new()
        }
        Found::Begun | Found::Nothing => Vec::new(),
    }
}

/// Does the action, asks for what changes something, or says why it is not possible.
pub(super) fn try_action(state: &mut State, action: ActionId, press: Press) -> Vec<Effect> {
    let spec = spec(action);
    // Neither is anything shown that the audit has to know of.
    if (spec.mutates() || action == ActionId::Reveal) && !press.deliberate {
        return Vec::new();
    }
    if let Err(why) = (spec.enabled)(state) {
        // Esc with nothing to close is no mistake.
        if action != ActionId::Back {
            say::toast(state, Tone::Warning, &format!("{}: {why}", spec.title));
        }
        return Vec::new();
    }
    if spec.mutates() {
        return confirm::ask(state, action, press.key.code);
    }
    act::perform(state, action)
}

/// Nothing is shown, so nothing but leaving is possible.
fn blind(state: &mut State, press: Press) -> Vec<Effect> {
    match look_up(state, press) {
        Found::Action(action @ (ActionId::Quit | ActionId::Suspend)) => act::perform(state, action),
        Found::Action(_) | Found::Elsewhere(_) | Found::Begun | Found::Nothing => Vec::new(),
    }
}

fn help(state: &mut State, press: Press) -> Vec<Effect> {
    if let Found::Action(action) = look_up(state, press) {
        act::in_help(state, action);
    }
    Vec::new()
}
