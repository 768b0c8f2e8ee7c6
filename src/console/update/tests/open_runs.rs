//! Open runs from wherever the operator is: by name, planned, confirmed.

use std::sync::Arc;

use super::Stage;
use super::feeds::run;
use super::fixture::{incident, planned, stage, stage_with};
use crate::console::state::Mode;
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::domain::run::{RunState, RunWish};
use crate::engine::{Access, Command};

fn with_runs(mut stage: Stage) -> Stage {
    let mut snapshot = incident();
    snapshot.generation = 2;
    snapshot.runs = Arc::new(vec![
        run("0198-aaaa", RunState::Running),
        run("0198-bbbb", RunState::Paused),
    ]);
    stage.event(Event::Snapshot(Arc::new(snapshot)));
    stage
}

fn problem(stage: &Stage) -> String {
    match &stage.state.input.mode {
        Mode::Palette(open) => open.problem.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

fn plans(effects: Vec<Effect>) -> Vec<Effect> {
    let is_plan = |effect: &Effect| matches!(effect, Effect::Plan { .. });
    effects.into_iter().filter(is_plan).collect()
}

#[test]
fn a_run_is_paused_resumed_and_cancelled_by_the_begin_of_its_name() {
    for (line, id, wish) in [
        ("pause-run_0198-a", "0198-aaaa", RunWish::Pause),
        ("resume-run_0198", "0198-bbbb", RunWish::Resume),
        ("cancel-run_0198-bbbb", "0198-bbbb", RunWish::Cancel),
    ] {
        let mut stage = with_runs(stage(incident()));
        let effects = stage.play(&format!(": '{line} Enter"));
        let (_, commands) = planned(&plans(effects));
        assert!(
            matches!(commands.as_slice(), [Command::ChangeRun { id: named, wish: wanted }] if named == id && *wanted == wish),
            "{line}: {commands:?}"
        );
        assert!(matches!(stage.state.input.mode, Mode::Dialog(_)), "it asks first");
    }
}

#[test]
fn what_is_not_one_run_is_told_and_nothing_is_planned() {
    for (line, why) in [
        ("pause-run_0198-bbbb", "no open run"),
        ("pause-run_nothing", "no open run"),
    ] {
        let mut stage = with_runs(stage(incident()));
        let effects = stage.play(&format!(": '{line}"));
        assert!(plans(effects).is_empty());
        assert!(plans(stage.press("Enter")).is_empty(), "{line}");
        assert!(problem(&stage).contains(why), "{line}: {}", problem(&stage));
    }
}

#[test]
fn who_may_only_look_changes_no_run() {
    let mut stage = with_runs(stage_with(Access::ReadOnly, incident()));
    let effects = stage.play(": 'pause-run_0198-a Enter");
    assert!(plans(effects).is_empty());
    assert!(
        stage
            .toasts()
            .iter()
            .any(|text| text.contains("read-only") || text.contains("only look")),
        "{:?}",
        stage.toasts()
    );
}
