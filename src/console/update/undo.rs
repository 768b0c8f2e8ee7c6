//! What was done last, and whether it can be taken back: said in a plain word where it cannot.

use super::State;
use crate::console::state::action::{Possible, Reason};
use crate::console::state::dialog::{Asked, Last, Scope, ScopeKind, Task};

/// Whether the last action can be undone.
pub(in crate::console) fn possible(state: &State) -> Possible {
    match &state.commands.last {
        None => Err("nothing was done here yet".into()),
        Some(Last { back: Err(why), .. }) => Err((*why).into()),
        Some(Last { back: Ok(_), .. }) => Ok(()),
    }
}

/// The commands that take it back.
pub(in crate::console) fn freeze(state: &State) -> Result<Asked, Reason> {
    let Some(Last { back: Ok(commands), .. }) = &state.commands.last else {
        return Err("nothing can be undone".into());
    };
    Ok(Asked {
        scope: Scope::of(ScopeKind::One, commands.len(), Some("undoes what was done here last")),
        commands: commands.clone(),
    })
}

/// Why what it ended was so, for whoever takes it back.
pub(super) fn reason(state: &State) -> Option<&str> {
    state.commands.last.as_ref()?.reason.as_deref()
}

/// Notes what a task did; what failed needs no undoing.
pub(super) fn note(state: &mut State, task: &Task) {
    if task.report.done.is_empty() {
        return;
    }
    let back = task.report.done.iter().filter_map(|item| task.back.get(*item).cloned());
    let mut reasons: Vec<&str> = Vec::new();
    let ended = task.report.done.iter().filter_map(|item| task.reasons.get(*item));
    for reason in ended.flatten() {
        if !reasons.contains(&reason.as_str()) {
            reasons.push(reason);
        }
    }
    state.commands.last = Some(Last {
        back: back.collect(),
        reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
    });
}
