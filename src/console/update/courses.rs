//! What happened to the broker's alarm, to daemons and to runs between two snapshots.

use std::collections::BTreeMap;

use super::{State, details, say};
use crate::console::journal::Tone;
use crate::console::state::effect::Effect;
use crate::console::views::run_outcome;
use crate::domain::run::RunState;
use crate::engine::runs::RunView;
use crate::engine::snapshot::Snapshot;

/// Says what is different now.
pub(super) fn tell(state: &mut State, before: &Snapshot, now: &Snapshot) -> Vec<Effect> {
    alarm(state, before, now);
    // What could not be read says nothing of who lives and what runs.
    if now.store.problem.is_some() || before.store.taken_at.is_none() {
        return Vec::new();
    }
    daemons(state, before, now);
    runs(state, before, now)
}

/// What comes of this run is told even where no snapshot has it: it may be over before.
pub(super) fn begun(all: &mut Vec<RunView>, run: &RunView) {
    all.retain(|known| known.record.id != run.record.id);
    all.push(run.clone());
}

/// A run is over: how much of it was done, and how much was not. What came of one that could not be read is asked again.
pub(super) fn ended(state: &mut State, run: &RunView) -> Vec<Effect> {
    let counts = run.counts();
    let tone = match run.state() {
        RunState::Planned | RunState::Running | RunState::Canary | RunState::Paused => {
            begun(&mut state.commands.begun, run);
            return Vec::new();
        }
        RunState::Failed => Tone::Bad,
        RunState::Done | RunState::Cancelled if counts.failed > 0 => Tone::Bad,
        RunState::Done if counts.done == run.record.total => Tone::Good,
        RunState::Done | RunState::Cancelled => Tone::Warning,
    };
    said(
        state,
        tone,
        &format!("run {} is over: {}", name_of(run), run_outcome(run)),
    );
    details::run_ended(state, &run.record.id)
}

fn said(state: &mut State, tone: Tone, text: &str) {
    say::happened(state, tone, text);
    say::toast(state, tone, text);
}

fn alarm(state: &mut State, before: &Snapshot, now: &Snapshot) {
    match (&before.alarm, &now.alarm) {
        (None, Some(why)) => {
            let text = format!("the broker takes no publishes: {}", say::name(why));
            said(state, Tone::Bad, &text);
            say::call(state, "broker alarm", &text);
        }
        (Some(_), None) if now.broker.problem.is_none() => said(state, Tone::Good, "the broker takes publishes again"),
        (None | Some(_), _) => {}
    }
}

fn daemons(state: &mut State, before: &Snapshot, now: &Snapshot) {
    let living = |snapshot: &Snapshot| -> BTreeMap<i64, String> {
        let alive = snapshot.incarnations.iter().filter(|one| one.alive && one.delivers);
        let name = |name: &str, host: &str| format!("{} on {}", say::name(name), say::name(host));
        alive.map(|one| (one.id.0, name(&one.name, &one.host))).collect()
    };
    let (was, is) = (living(before), living(now));
    for (_, name) in was.iter().filter(|(id, _)| !is.contains_key(id)) {
        said(state, Tone::Warning, &format!("daemon {name} is gone"));
    }
    if is.is_empty() && !was.is_empty() {
        say::call(state, "daemons", "nobody delivers: the last daemon is gone");
    }
    for (_, name) in is.iter().filter(|(id, _)| !was.contains_key(id)) {
        say::happened(state, Tone::Good, &format!("daemon {name} delivers"));
    }
}

fn runs(state: &mut State, before: &Snapshot, now: &Snapshot) -> Vec<Effect> {
    for run in now.runs.iter().filter(|run| run.state() == RunState::Canary) {
        let known = before.runs.iter().find(|one| one.record.id == run.record.id);
        if known.is_none_or(|known| known.state() != RunState::Canary) {
            let note = run.record.note.as_deref();
            let why = note.map_or_else(String::new, |note| format!(": {}", say::name(note)));
            let text = format!("run {} stopped and asks{why}", name_of(run));
            say::happened(state, Tone::Bad, &text);
            say::toast_of_run(state, &run.record.id, &text);
            say::call(state, &run.record.id, &text);
        }
    }
    let mut known = std::mem::take(&mut state.commands.begun);
    for run in before.runs.iter() {
        begun(&mut known, run);
    }
    let is_open = |run: &RunView| now.runs.iter().any(|one| one.record.id == run.record.id);
    let over = known.into_iter().filter(|run| !is_open(run));
    over.map(|run| Effect::Outcome(Box::new(run))).collect()
}

fn name_of(run: &RunView) -> String {
    format!("{} ({})", say::name(&run.record.id), say::name(&run.record.command))
}
