//! `update` played by scripts of keys with a clock that only the test turns.
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else came fails the test, and is printed"
)]

mod accidents;
mod calls;
mod details;
mod events;
mod expiring;
mod feeds;
mod feel;
mod find;
mod fixture;
mod keys;
mod lists;
mod mouse;
mod mutations;
mod news;
mod open_runs;
mod payload;
mod preview;
mod properties;
mod reload;
mod screens;
mod skip;
mod tail;

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use keybinds::{Key, KeyInput, Mods};

use self::fixture::State;
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::console::update;
use crate::domain::time::Timestamp;

/// Between two keys of a script: slower than a burst.
const TYPING: Duration = Duration::from_millis(100);
/// Between two keys that no person types.
const BURST: Duration = Duration::from_millis(5);

/// A console with the clock of the test and everything that it asked for.
pub(super) struct Stage {
    pub(super) state: State,
    pub(super) now: Timestamp,
}

impl Stage {
    fn new(state: State) -> Self {
        let now = state.now;
        Self { state, now }
    }

    fn event(&mut self, event: Event) -> Vec<Effect> {
        update(&mut self.state, self.now, event)
    }

    /// Plays a script: keys as the configuration writes them, with spaces between.
    ///
    /// `/text` opens the filter and types; `'text` only types. `+400` waits so many milliseconds,
    /// `~y` is a repeat of `y`, `!y` comes faster than anybody types.
    fn play(&mut self, script: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        for word in script.split(' ') {
            match word.chars().next() {
                Some('+') if word.len() > 1 => {
                    let millis = word[1..].parse().unwrap();
                    self.now = self.now.plus(Duration::from_millis(millis));
                    effects.extend(self.event(Event::Tick));
                }
                Some('/') if word.len() > 1 => {
                    effects.extend(self.press("/"));
                    effects.extend(self.write(&word[1..]));
                }
                Some('\'') if word.len() > 1 => effects.extend(self.write(&word[1..])),
                Some('~') if word.len() > 1 => effects.extend(self.key(&word[1..], KeyEventKind::Repeat, TYPING)),
                Some('!') if word.len() > 1 => effects.extend(self.key(&word[1..], KeyEventKind::Press, BURST)),
                _ => effects.extend(self.press(word)),
            }
        }
        effects
    }

    fn press(&mut self, key: &str) -> Vec<Effect> {
        self.key(key, KeyEventKind::Press, TYPING)
    }

    fn write(&mut self, text: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        for c in text.chars() {
            // A script has no spaces inside a word.
            let c = if c == '_' { ' ' } else { c };
            self.now = self.now.plus(TYPING);
            effects.extend(self.event(Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE))));
        }
        effects
    }

    fn key(&mut self, text: &str, kind: KeyEventKind, after: Duration) -> Vec<Effect> {
        self.now = self.now.plus(after);
        let mut event = key_event(text);
        event.kind = kind;
        self.event(Event::Key(event))
    }

    fn toasts(&self) -> Vec<&str> {
        self.state.said.toasts.iter().map(|toast| toast.text.as_str()).collect()
    }

    fn log(&self) -> Vec<&str> {
        self.state
            .said
            .journal
            .newest_first()
            .map(|entry| entry.text.as_str())
            .collect()
    }
}

fn key_event(text: &str) -> KeyEvent {
    let input: KeyInput = text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"));
    let mut modifiers = KeyModifiers::NONE;
    if input.mods().contains(Mods::CTRL) {
        modifiers |= KeyModifiers::CONTROL;
    }
    let code = match input.key() {
        Key::Char(c) => {
            if c.is_uppercase() {
                modifiers |= KeyModifiers::SHIFT;
            }
            KeyCode::Char(c)
        }
        Key::Tab if input.mods().contains(Mods::SHIFT) => KeyCode::BackTab,
        Key::Tab => KeyCode::Tab,
        Key::Enter => KeyCode::Enter,
        Key::Esc => KeyCode::Esc,
        Key::Up => KeyCode::Up,
        Key::Down => KeyCode::Down,
        Key::Left => KeyCode::Left,
        Key::Right => KeyCode::Right,
        Key::PageUp => KeyCode::PageUp,
        Key::PageDown => KeyCode::PageDown,
        Key::Home => KeyCode::Home,
        Key::End => KeyCode::End,
        Key::Backspace => KeyCode::Backspace,
        other => panic!("a script has no {other}"),
    };
    KeyEvent::new(code, modifiers)
}
