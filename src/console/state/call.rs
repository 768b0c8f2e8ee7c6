//! What calls the operator when he looks elsewhere: a bell and a notification of his desktop, one for each cause.
//!
//! Bounded: a cause is told once in an hour, two calls are a while apart, and what comes between is told with the next.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::domain::text::show;
use crate::domain::time::Timestamp;

/// The same cause calls again after this.
const AGAIN: Duration = Duration::from_hours(1);
/// Between two calls.
const APART: Duration = Duration::from_secs(10);
/// Causes that are remembered, at most: of more, the oldest are forgotten.
const CAUSES_MAX: usize = 1_000;
/// Cells of a text: desktops show no more.
const TEXT_MAX: usize = 200;
/// Cells of a cause.
const CAUSE_MAX: usize = 120;

/// How the operator is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notify {
    /// Not at all.
    Off,
    /// By the terminal's bell alone.
    #[default]
    Bell,
    /// By the bell, and a notification as `iTerm2`, `WezTerm`, Ghostty and kitty understand it.
    Osc9,
    /// By the bell, and a notification as foot, VTE and urxvt understand it.
    Osc777,
}

/// Who was called, and what waits.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    told: BTreeMap<String, Timestamp>,
    waiting: Vec<String>,
    more: usize,
    last_at: Option<Timestamp>,
}

impl Notify {
    /// How a terminal of this kind is told, by what its environment says (`TERM`, whether `VTE_VERSION` is set).
    #[must_use]
    pub fn of_terminal(term: &str, is_vte: bool) -> Self {
        let is_any = |kinds: &[&str]| kinds.iter().any(|kind| term.starts_with(kind));
        if term.is_empty() || is_any(&["linux", "dumb", "vt"]) {
            // The console of a machine has no desktop.
            Self::Bell
        } else if is_vte || is_any(&["foot", "rxvt"]) {
            Self::Osc777
        } else {
            Self::Osc9
        }
    }

    /// What is written for a text that was made safe: no cell changes and no cursor moves.
    #[must_use]
    pub fn sequence(self, text: &str) -> String {
        let text = show(text, TEXT_MAX);
        match self {
            Self::Off => String::new(),
            Self::Bell => "\x07".to_owned(),
            // What begins with a number and a semicolon is a command of ConEmu's: a name before it is none.
            Self::Osc9 => format!("\x07\x1b]9;redrive: {text}\x07"),
            Self::Osc777 => format!("\x07\x1b]777;notify;redrive;{text}\x07"),
        }
    }
}

impl Calls {
    /// Something to call for, unless its cause did lately.
    pub(in crate::console) fn call(&mut self, now: Timestamp, cause: &str, text: &str) {
        self.told.retain(|_, at| now.since(*at) < AGAIN);
        let cause = show(cause, CAUSE_MAX);
        if self.told.contains_key(&cause) {
            return;
        }
        if self.told.len() >= CAUSES_MAX
            && let Some(oldest) = self
                .told
                .iter()
                .min_by_key(|(_, at)| **at)
                .map(|(cause, _)| cause.clone())
        {
            self.told.remove(&oldest);
        }
        self.told.insert(cause, now);
        if self.waiting.is_empty() {
            self.waiting.push(show(text, TEXT_MAX));
        } else {
            self.more += 1;
        }
    }

    /// What waits is no news: it stood before anybody looked.
    pub(in crate::console) fn hush(&mut self) {
        self.waiting.clear();
        self.more = 0;
    }

    /// When the next call is due.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        self.waiting.first()?;
        Some(self.last_at.map_or(Timestamp::EPOCH, |at| at.plus(APART)))
    }

    /// The text to call with, where that is due.
    pub(in crate::console) fn take(&mut self, now: Timestamp) -> Option<String> {
        if self.due_at()? > now {
            return None;
        }
        self.last_at = Some(now);
        let text = self.waiting.pop()?;
        Some(match std::mem::take(&mut self.more) {
            0 => text,
            more => format!("{text} (and {more} more)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_seconds(1_000_000 + second)
    }

    #[test]
    fn one_cause_calls_once_however_often_it_comes_back() {
        let mut calls = Calls::default();
        for second in 0..600 {
            calls.call(at(second), "https://flaky.example/", "flaky is unavailable");
        }
        assert_eq!(calls.take(at(600)).as_deref(), Some("flaky is unavailable"));
        assert_eq!(calls.take(at(700)), None);
        calls.call(at(3_700), "https://flaky.example/", "again");
        assert_eq!(calls.take(at(3_700)).as_deref(), Some("again"));
    }

    #[test]
    fn many_at_once_are_one_call_and_two_calls_are_apart() {
        let mut calls = Calls::default();
        for queue in 0..5_000 {
            calls.call(at(0), &format!("q{queue}"), &format!("queue {queue} is quarantined"));
        }
        assert_eq!(
            calls.take(at(0)).as_deref(),
            Some("queue 0 is quarantined (and 4999 more)")
        );
        assert!(calls.told.len() <= CAUSES_MAX);
        calls.call(at(1), "other", "something else");
        assert_eq!((calls.take(at(1)), calls.due_at()), (None, Some(at(10))));
        assert_eq!(calls.take(at(10)).as_deref(), Some("something else"));
    }

    #[test]
    fn nothing_from_outside_leaves_the_notification() {
        for notify in [Notify::Osc9, Notify::Osc777] {
            let sequence = notify.sequence("a\x1b]0;owned\x07\x1b\\b\u{9c}c\nd");
            let inside = &sequence[2..sequence.len() - 1];
            assert!(!inside.chars().any(char::is_control), "{sequence:?}");
        }
        assert_eq!(Notify::Off.sequence("x"), "");
    }

    #[test]
    fn a_terminal_gets_the_form_that_it_understands() {
        assert_eq!(Notify::of_terminal("xterm-256color", false), Notify::Osc9);
        assert_eq!(Notify::of_terminal("xterm-256color", true), Notify::Osc777);
        assert_eq!(Notify::of_terminal("foot-extra", false), Notify::Osc777);
        assert_eq!(Notify::of_terminal("rxvt-unicode", false), Notify::Osc777);
        for plain in ["linux", "vt220", "dumb", ""] {
            assert_eq!(Notify::of_terminal(plain, false), Notify::Bell, "{plain:?}");
        }
    }
}
