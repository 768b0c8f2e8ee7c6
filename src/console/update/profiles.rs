//! Every profile on one page: asked when it opens and again while it is open, Enter goes there.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyModifiers};

use super::keys::Press;
use super::{State, say, verbs};
use crate::console::journal::Tone;
use crate::console::state::Mode;
use crate::console::state::action::{Possible, require};
use crate::console::state::effect::Effect;
use crate::console::state::profiles::{Answer, Condition};
use crate::domain::time::Timestamp;

/// While the page is open the others are asked this often: each is opened anew for it.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Whether there is more than the one in use.
pub(in crate::console) fn possible(state: &State) -> Possible {
    require(
        !state.session.profiles.others.is_empty(),
        "the configuration has no other profile: [profile.NAME]",
    )
}

/// Opens the page and asks.
pub(in crate::console) fn open(state: &mut State) -> Vec<Effect> {
    state.input.mode = Mode::Profiles(Box::default());
    ask(state)
}

/// Asks again when it is time.
pub(super) fn ask_again(state: &mut State) -> Vec<Effect> {
    match due_at(state) {
        Some(at) if at <= state.now => ask(state),
        Some(_) | None => Vec::new(),
    }
}

/// When they are asked again; `None`: the page is not open.
pub(super) fn due_at(state: &State) -> Option<Timestamp> {
    let Mode::Profiles(page) = &state.input.mode else {
        return None;
    };
    page.asked_at.map(|at| at.plus(AGAIN_AFTER))
}

fn ask(state: &mut State) -> Vec<Effect> {
    let now = state.now;
    if let Mode::Profiles(page) = &mut state.input.mode {
        page.asked_at = Some(now);
    }
    let others = state.session.profiles.others.iter();
    vec![Effect::Survey(others.map(|other| other.name.clone()).collect())]
}

/// A profile answered.
pub(super) fn answered(state: &mut State, profile: String, result: Result<Condition, String>) {
    let result = result.map_err(|why| say::name(&why));
    let answer = Answer { at: state.now, result };
    state.data.surveyed.insert(profile, answer);
}

/// A key while the page is open.
pub(super) fn key(state: &mut State, press: Press) -> Vec<Effect> {
    let last = state.profile_names().len().saturating_sub(1);
    let control = press.key.modifiers.contains(KeyModifiers::CONTROL);
    let Mode::Profiles(page) = &mut state.input.mode else {
        return Vec::new();
    };
    match (press.key.code, control) {
        (KeyCode::Esc | KeyCode::Char('q' | '='), false) | (KeyCode::Char('c'), true) => {
            state.input.mode = Mode::Browse;
        }
        (KeyCode::Up | KeyCode::Char('k'), false) => page.selected = page.selected.saturating_sub(1),
        (KeyCode::Down | KeyCode::Char('j'), false) => page.selected = (page.selected + 1).min(last),
        (KeyCode::Home, _) => page.selected = 0,
        (KeyCode::End, _) => page.selected = last,
        (KeyCode::Char('r'), false) => return ask(state),
        (KeyCode::Enter, false) if press.deliberate => return go(state),
        _ => {}
    }
    Vec::new()
}

/// Goes on with the selected profile.
fn go(state: &mut State) -> Vec<Effect> {
    let Mode::Profiles(page) = &state.input.mode else {
        return Vec::new();
    };
    let selected = page.selected;
    let Some(profile) = state.profile_names().into_iter().nth(selected) else {
        return Vec::new();
    };
    state.input.mode = Mode::Browse;
    if profile.is_current {
        return Vec::new();
    }
    match verbs::profile(state, &profile.name) {
        Ok(effects) => effects,
        Err(why) => {
            say::toast(state, Tone::Warning, &why);
            Vec::new()
        }
    }
}
