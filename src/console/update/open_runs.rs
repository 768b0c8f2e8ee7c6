//! Runs that are not over, from wherever the operator is: they have a line on every screen, and can be paused,
//! resumed and cancelled by name. The way is that of the keys: opened, planned, confirmed.

use crossterm::event::KeyCode;

use super::{State, act, details, say, verbs};
use crate::console::journal::Tone;
use crate::console::state::Mode;
use crate::console::state::action::named;
use crate::console::state::detail::Subject;
use crate::console::state::effect::Effect;
use crate::console::state::verb::Verb;
use crate::domain::run::RunWish;
use crate::domain::text::show;
use crate::engine::runs::RunView;

/// Columns of what is known of a run.
const SAYS_MAX: usize = 80;

fn wish(verb: Verb) -> (RunWish, &'static str) {
    if verb == Verb::PauseRun {
        (RunWish::Pause, named::PAUSE_RUN)
    } else if verb == Verb::ResumeRun {
        (RunWish::Resume, named::RESUME_RUN)
    } else {
        (RunWish::Cancel, named::CANCEL_RUN)
    }
}

/// The runs that this can be done with, the newest first.
pub(super) fn offered(state: &State, verb: Verb) -> Vec<(String, String)> {
    let (wish, _) = wish(verb);
    let possible = of(state).iter().filter(|run| run.record.state.after(wish).is_some());
    possible.map(|run| (run.record.id.clone(), says(run))).collect()
}

fn of(state: &State) -> &[RunView] {
    state
        .data
        .snapshot
        .as_ref()
        .map_or(&[], |snapshot| snapshot.runs.as_slice())
}

fn says(run: &RunView) -> String {
    let record = &run.record;
    let text = format!(
        "{} {} of {} {} by {}",
        record.command,
        record.counts.settled(),
        record.total,
        run.phase(),
        record.actor
    );
    show(&text, SAYS_MAX)
}

/// Opens the run and asks: a name may be cut short as long as it means one run.
pub(super) fn change(state: &mut State, verb: Verb, rest: &str) -> Result<Vec<Effect>, String> {
    let typed = verbs::one_word(rest, "which run? Tab completes")?;
    let (_, name) = wish(verb);
    let id = match offered(state, verb)
        .into_iter()
        .filter(|(id, _)| id.starts_with(&typed))
        .collect::<Vec<_>>()
        .as_slice()
    {
        [(id, _)] => id.clone(),
        [] => return Err(format!("no open run {typed:?} can be changed like that")),
        many => return Err(format!("{typed:?} begins {} runs: write more of it", many.len())),
    };
    state.input.mode = Mode::Browse;
    let mut effects = details::open_subject(state, Subject::Run(id));
    let action = state.input.keymap.action(name);
    match action.possible(state) {
        Ok(()) => effects.extend(act::perform(state, action, KeyCode::Enter)),
        Err(why) => say::toast(state, Tone::Warning, &format!("{}: {why}", action.title)),
    }
    Ok(effects)
}
