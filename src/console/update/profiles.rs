//! Every profile on one page: Enter goes there.

use std::time::Duration;

use super::{State, page, say, verbs};
use crate::console::journal::Tone;
use crate::console::state::Mode;
use crate::console::state::action::{Possible, require};
use crate::console::state::effect::Effect;
use crate::console::state::page::PageKind;
use crate::console::state::profiles::{Answer, Condition};
use crate::console::state::settings::Profiles;

/// While the page is open the others are asked again so long after the last answer: each is opened anew for it.
pub(super) const AGAIN_AFTER: Duration = Duration::from_secs(30);
/// Profiles that are looked at, at most.
const ASKED_MAX: usize = 50;

/// Whether there is more than the one in use.
pub(in crate::console) fn possible(state: &State) -> Possible {
    require(
        !state.session.profiles.others.is_empty(),
        "the configuration has no other profile: [profile.NAME]",
    )
}

/// Opens the page and asks.
pub(in crate::console) fn open(state: &mut State) -> Vec<Effect> {
    page::open(state, PageKind::Profiles)
}

/// What the page asks, and how many answer.
pub(super) fn question(profiles: &Profiles) -> (usize, Effect) {
    let asked = profiles.others.iter().take(ASKED_MAX);
    let names: Vec<_> = asked.map(|other| other.name.clone()).collect();
    (names.len(), Effect::Survey(names))
}

/// A profile answered.
pub(super) fn answered(state: &mut State, profile: String, result: Result<Condition, String>) {
    let result = result.map_err(|why| say::name(&why));
    let answer = Answer { at: state.now, result };
    state.data.surveyed.insert(profile, answer);
    page::answered(state, PageKind::Profiles);
}

/// A profile was tried: this console is left for it, unless that would be its end.
pub(super) fn tried(state: &mut State, profile: String, closed: Option<String>) -> Vec<Effect> {
    let name = say::name(&profile);
    let stays = match closed {
        Some(why) => Err(format!("profile {name} cannot be opened: {why}")),
        None if !matches!(state.input.mode, Mode::Browse) => Err(format!(
            "profile {name} can be opened now; something else was begun meanwhile"
        )),
        None => verbs::nothing_runs(state),
    };
    match stays {
        Ok(()) => vec![Effect::Profile(profile)],
        Err(why) => {
            say::toast(state, Tone::Bad, &why);
            say::did(state, Tone::Bad, &why);
            Vec::new()
        }
    }
}

/// The place of the last profile.
pub(super) fn last(state: &State) -> usize {
    state.profile_names().len().saturating_sub(1)
}

/// Goes on with the profile in this line of the page.
pub(super) fn go(state: &mut State, line: usize) -> Vec<Effect> {
    let profile = state.profile_names().into_iter().nth(line);
    let Some(profile) = profile.filter(|profile| !profile.is_current) else {
        return Vec::new();
    };
    match verbs::profile(state, &profile.name) {
        Ok(effects) => effects,
        Err(why) => {
            say::toast(state, Tone::Warning, &why);
            Vec::new()
        }
    }
}
