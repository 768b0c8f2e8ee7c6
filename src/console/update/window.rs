//! The time in which a protected profile can be changed: asked for with a reason, and over by itself.

use std::borrow::Cow;
use std::time::Duration;

use super::{State, palette, say};
use crate::console::journal::Tone;
use crate::console::state::Mode;
use crate::console::state::action::Possible;
use crate::console::state::effect::Effect;
use crate::domain::text::show;

/// Times that are offered, the usual one first.
pub(super) const WINDOWS: &[&str] = &["15m", "1h", "4h"];

/// Nobody needs longer at once.
const WINDOW_MAX: Duration = Duration::from_secs(4 * 3_600);
/// A reason is at most this long.
const REASON_MAX: usize = 200;
/// What is said where somebody closes it.
const CLOSED: &str = "read-only again";

/// Whether there is such a window here, or why not.
pub(in crate::console) fn possible(state: &State) -> Possible {
    match (state.session.read_only(), state.session.can_be_allowed()) {
        (_, true) => Ok(()),
        (Some(why), false) => Err(format!("not possible here: {why}").into()),
        (None, false) => Err("changes are possible here already".into()),
    }
}

/// Whether nothing can be changed before it is open.
pub(in crate::console) fn is_closed(state: &State) -> bool {
    state.session.read_only().is_some()
}

/// What the key does now.
pub(in crate::console) fn title(state: &State) -> Option<&'static str> {
    state.session.window.until.map(|_| "read-only again")
}

/// Asks for the reason, behind the usual time; closes a window that is open.
pub(in crate::console) fn turn(state: &mut State) -> Vec<Effect> {
    if state.session.window.until.is_none() {
        return palette::open_with(state, &format!("write {} ", WINDOWS[0]));
    }
    end(state, CLOSED)
}

/// Opens it: `15m INC-42 the stock endpoint is back`.
pub(super) fn open(state: &mut State, rest: &str) -> Result<Vec<Effect>, String> {
    possible(state).map_err(Cow::into_owned)?;
    let (span, reason) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let span = read_span(span).ok_or("for how long, and why? write 15m INC-42 the endpoint is back")?;
    if span > WINDOW_MAX {
        return Err("at most 4h at once".to_owned());
    }
    let reason = show(reason.trim(), REASON_MAX);
    if reason.is_empty() {
        return Err("why? the reason goes into the audit: write 15m INC-42 the endpoint is back".to_owned());
    }
    let until = state.now.plus(span);
    state.session.window.until = Some(until);
    state.session.window.reason = Some(reason.clone());
    if let Some(why) = state.session.place.read_only.take() {
        state.session.window.closed_because = Some(why);
    }
    let text = format!("changes are allowed for {}: {reason}", words(span));
    say::did(state, Tone::Warning, &text);
    say::toast(state, Tone::Warning, &text);
    Ok(vec![Effect::Window(Some((until, reason)))])
}

/// Closes it before its time.
pub(super) fn close(state: &mut State) -> Result<Vec<Effect>, String> {
    if state.session.window.until.is_none() {
        return Err("no time for changes is open".to_owned());
    }
    Ok(end(state, CLOSED))
}

/// It is over by itself; a confirmation that waits is closed with it.
pub(super) fn expire(state: &mut State) -> Vec<Effect> {
    if state.session.window.until.is_none_or(|until| until > state.now) {
        return Vec::new();
    }
    if matches!(state.input.mode, Mode::Dialog(_)) {
        super::confirm::close(state);
    }
    end(state, "read-only again: the time for changes is over")
}

fn end(state: &mut State, text: &str) -> Vec<Effect> {
    state.session.window.until = None;
    state.session.window.reason = None;
    state.session.place.read_only = state.session.window.closed_because.take();
    say::did(state, Tone::Note, text);
    say::toast(state, Tone::Note, text);
    vec![Effect::Window(None)]
}

fn read_span(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(split);
    let number: u64 = digits.parse().ok().filter(|number| *number > 0)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return None,
    };
    Some(Duration::from_secs(number.checked_mul(seconds)?))
}

fn words(span: Duration) -> String {
    match span.as_secs() {
        seconds if seconds.is_multiple_of(3_600) => format!("{} h", seconds / 3_600),
        seconds if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}
