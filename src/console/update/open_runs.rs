//! Runs that are not over, from wherever the operator is: they have a line on every screen, and can be paused,
//! resumed and cancelled by name. The way is that of the keys: opened, planned, confirmed.

use crossterm::event::KeyCode;

use super::{State, confirm, details, say, verbs};
use crate::console::Effect;
use crate::console::action::{ActionId, spec};
use crate::console::detail::Subject;
use crate::console::journal::Tone;
use crate::console::state::Mode;
use crate::console::verb::Verb;
use crate::domain::run::RunWish;
use crate::domain::text::show;
use crate::engine::runs::RunView;

/// Columns of what is known of a run.
const SAYS_MAX: usize = 80;

fn wish(verb: Verb) -> (RunWish, ActionId) {
    if verb == Verb::PauseRun {
        (RunWish::Pause, ActionId::PauseRun)
    } else if verb == Verb::ResumeRun {
        (RunWish::Resume, ActionId::ResumeRun)
    } else {
        (RunWish::Cancel, ActionId::CancelRun)
    }
}

/// The runs that this can be done with, the newest first.
pub(super) fn offered(state: &State, verb: Verb) -> Vec<(String, String)> {
    let (wish, _) = wish(verb);
    let possible = of(state).iter().filter(|run| run.record.state.after(wish).is_some());
    possible.map(|run| (run.record.id.clone(), says(run))).collect()
}

fn of(state: &State) -> &[RunView] {
    state.snapshot.as_ref().map_or(&[], |snapshot| snapshot.runs.as_slice())
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
    let (_, action) = wish(verb);
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
    state.mode = Mode::Browse;
    let mut effects = details::open_subject(state, Subject::Run(id));
    match (spec(action).enabled)(state) {
        Ok(()) => effects.extend(confirm::ask(state, action, KeyCode::Enter)),
        Err(why) => say::toast(state, Tone::Warning, &format!("{}: {why}", spec(action).title)),
    }
    Ok(effects)
}
