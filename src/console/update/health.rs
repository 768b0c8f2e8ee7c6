//! What doctor finds, on one page: asked when it opens and again while it is open.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyModifiers};

use super::keys::Press;
use super::{State, say};
use crate::console::state::Mode;
use crate::console::state::effect::Effect;
use crate::console::state::health::Checked;
use crate::domain::time::Timestamp;
use crate::engine::view::{Check, CheckResult};

/// While the page is open it is asked again so long after the last answer.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Opens the page and asks.
pub(in crate::console) fn open(state: &mut State) -> Vec<Effect> {
    state.input.mode = Mode::Health(Box::default());
    ask(state)
}

/// Asks again when it is time.
pub(super) fn ask_again(state: &mut State) -> Vec<Effect> {
    match due_at(state) {
        Some(at) if at <= state.now => ask(state),
        Some(_) | None => Vec::new(),
    }
}

/// When it is asked again; `None`: the page is not open, or what was asked is not answered yet.
pub(super) fn due_at(state: &State) -> Option<Timestamp> {
    let Mode::Health(page) = &state.input.mode else {
        return None;
    };
    let answered = state.data.checked.as_ref().map(|checked| checked.at);
    answered
        .filter(|at| page.asked_at.is_some_and(|asked| asked <= *at))
        .map(|at| at.plus(AGAIN_AFTER))
}

fn ask(state: &mut State) -> Vec<Effect> {
    let now = state.now;
    if let Mode::Health(page) = &mut state.input.mode {
        page.asked_at = Some(now);
    }
    vec![Effect::Check]
}

/// It was looked at.
pub(super) fn answered(state: &mut State, result: Result<Vec<Check>, String>) {
    let result = result.map_err(|why| say::name(&why)).map(|mut checks| {
        checks.sort_by_key(|check| match check.result {
            CheckResult::Broken => 0,
            CheckResult::Warning => 1,
            CheckResult::Fine => 2,
        });
        checks
    });
    state.data.checked = Some(Checked { at: state.now, result });
}

/// A key while the page is open.
pub(super) fn key(state: &mut State, press: Press) -> Vec<Effect> {
    let last = state.data.checked.as_ref().map_or(0, Checked::last);
    let control = press.key.modifiers.contains(KeyModifiers::CONTROL);
    let Mode::Health(page) = &mut state.input.mode else {
        return Vec::new();
    };
    match (press.key.code, control) {
        (KeyCode::Esc | KeyCode::Char('q' | '!'), false) | (KeyCode::Char('c'), true) => {
            state.input.mode = Mode::Browse;
        }
        (KeyCode::Up | KeyCode::Char('k'), false) => page.first = page.first.saturating_sub(1),
        (KeyCode::Down | KeyCode::Char('j'), false) => page.first = (page.first + 1).min(last),
        (KeyCode::Home, _) => page.first = 0,
        (KeyCode::End, _) => page.first = last,
        (KeyCode::Char('r'), false) => return ask(state),
        _ => {}
    }
    Vec::new()
}
