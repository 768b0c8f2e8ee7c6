//! Toasts and the action log.

use super::State;
use crate::console::journal::{Entry, TOASTS_MAX, Toast, Tone};
use crate::console::state::View;
use crate::console::state::call::Notify;
use crate::domain::run::RunState;
use crate::domain::text::show;
use crate::domain::url::EndpointUrl;
use crate::domain::words::plural;

/// A sentence is at most this wide.
const SENTENCE_WIDTH_MAX: usize = 240;
/// A name or URL in a sentence is at most this wide.
const NAME_WIDTH_MAX: usize = 80;

/// A sentence that passes. Said again while it is shown, it stays longer.
pub(in crate::console) fn toast(state: &mut State, tone: Tone, text: &str) {
    put(state, tone, None, text);
}

/// The same about something that may change again: its toasts are one, which says how it stands and how often it changed.
pub(super) fn toast_about(state: &mut State, tone: Tone, cause: &str, text: &str) {
    put(state, tone, Some(show(cause, NAME_WIDTH_MAX)), text);
}

fn put(state: &mut State, tone: Tone, cause: Option<String>, text: &str) {
    let of_cause = |shown: &&Toast| cause.is_some() && shown.cause == cause;
    let before = state.said.toasts.iter().find(of_cause);
    let (changes, since) = before.map_or((1, state.now), |before| {
        (before.changes.saturating_add(1), before.since)
    });
    let mut text = show(text, SENTENCE_WIDTH_MAX);
    if changes > 2 {
        let span = state.now.since(since).as_secs().max(1);
        text = format!("{text} ({changes} changes in {span} s)");
    }
    let toast = Toast {
        tone,
        text,
        cause,
        changes,
        since,
        until: state.now.plus(tone.lasts()),
        stays_for: None,
    };
    shown(state, toast);
}

/// A run that stopped and asks: said until somebody looks at runs, or it goes on.
pub(super) fn toast_of_run(state: &mut State, id: &str, text: &str) {
    let toast = Toast {
        tone: Tone::Bad,
        text: show(text, SENTENCE_WIDTH_MAX),
        cause: None,
        changes: 1,
        since: state.now,
        until: state.now,
        stays_for: Some(id.to_owned()),
    };
    shown(state, toast);
}

fn shown(state: &mut State, toast: Toast) {
    state
        .said
        .toasts
        .retain(|shown| shown.text != toast.text && (toast.cause.is_none() || shown.cause != toast.cause));
    if state.said.toasts.len() >= TOASTS_MAX {
        // What passes makes room for what stays.
        let passes = state.said.toasts.iter().position(|toast| toast.stays_for.is_none());
        state.said.toasts.remove(passes.unwrap_or(0));
    }
    state.said.toasts.push(toast);
}

/// Something that has to be known also by who looks elsewhere: called once for each cause.
pub(super) fn call(state: &mut State, cause: &str, text: &str) {
    let now = state.now;
    if state.terminal.notify != Notify::Off {
        state.said.calls.call(now, cause, text);
    }
}

/// Something to know that nobody asked for: it passes, and stays in the log.
pub(in crate::console) fn notice(state: &mut State, text: &str) {
    toast(state, Tone::Warning, text);
    happened(state, Tone::Warning, text);
}

/// An entry of the log about something that happened.
pub(super) fn happened(state: &mut State, tone: Tone, text: &str) {
    write(state, tone, text, false);
}

/// An entry of the log about something that the operator did.
pub(super) fn did(state: &mut State, tone: Tone, text: &str) {
    write(state, tone, text, true);
}

/// Takes away the toasts whose time is over.
pub(super) fn expire(state: &mut State) {
    let now = state.now;
    let is_seen = state.nav.view == View::Runs;
    let snapshot = state.data.newest().cloned();
    let asks = |id: &str| {
        snapshot.as_ref().is_some_and(|snapshot| {
            let mut runs = snapshot.runs.iter();
            runs.any(|run| run.record.id == id && run.state() == RunState::Canary)
        })
    };
    state.said.toasts.retain(|toast| match &toast.stays_for {
        Some(run) => !is_seen && asks(run),
        None => toast.until > now,
    });
}

/// A name from outside, in a sentence.
pub(super) fn name(text: &str) -> String {
    show(text, NAME_WIDTH_MAX)
}

/// A URL in a sentence.
pub(super) fn url(url: &EndpointUrl) -> String {
    name(&url.redacted())
}

/// `1 queue`, `3 queues`.
pub(in crate::console) fn counted(count: u64, one: &str) -> String {
    plural(count, one, &format!("{one}s"))
}

fn write(state: &mut State, tone: Tone, text: &str, own: bool) {
    let entry = Entry {
        at: state.now,
        tone,
        own,
        text: show(text, SENTENCE_WIDTH_MAX),
    };
    state.said.journal.push(entry);
    // What is being read stays where it is.
    if state.nav.log_scroll > 0 {
        state.nav.log_scroll = (state.nav.log_scroll + 1).min(state.said.journal.len().saturating_sub(1));
    }
}
