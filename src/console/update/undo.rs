//! What was done last, and whether it can be taken back: said in a plain word where it cannot.

use crossterm::event::KeyCode;

use super::scope::Asked;
use super::{State, confirm};
use crate::console::Effect;
use crate::console::action::{ActionId, Reason};
use crate::console::dialog::{Last, Scope, ScopeKind, Task};
use crate::engine::Command;

/// Whether the last action can be undone.
pub(in crate::console) fn possible(state: &State) -> Result<(), Reason> {
    match &state.last {
        None => Err("nothing was done here yet".into()),
        Some(Last { back: Err(why) }) => Err((*why).into()),
        Some(Last { back: Ok(_) }) => Ok(()),
    }
}

/// Asks for the plans that take it back.
pub(super) fn begin(state: &mut State, trigger: KeyCode) -> Vec<Effect> {
    let Some(Last { back: Ok(commands) }) = &state.last else {
        return Vec::new();
    };
    let asked = Asked {
        scope: Scope::of(ScopeKind::One, commands.len(), Some("undoes what was done here last")),
        commands: commands.clone(),
    };
    confirm::begin(state, ActionId::Undo, trigger, asked)
}

/// Notes what a task did; what failed needs no undoing.
pub(super) fn note(state: &mut State, task: &Task) {
    let done = task.report.done.iter().filter_map(|item| task.commands.get(*item));
    let done: Vec<&Command> = done.collect();
    if done.is_empty() {
        return;
    }
    let back: Result<Vec<Command>, &'static str> = done.into_iter().map(Command::undo).collect();
    state.last = Some(Last { back });
}
