//! What several actions ask before they are possible.

use crate::console::state::State;
use crate::console::state::action::{Possible, no_list, require};
use crate::console::table::List;

pub(super) fn list(state: &State) -> Possible {
    with_list(state, |_| Ok(()))
}

pub(super) fn selected(state: &State) -> Possible {
    with_list(state, |list| require(list.has_selection(), "nothing is selected"))
}

pub(super) fn mark_range(state: &State) -> Possible {
    with_list(state, |list| require(list.has_anchor(), "nothing is marked yet"))
}

pub(super) fn unmark(state: &State) -> Possible {
    with_list(state, |list| {
        let marks = list.mark_counts();
        require(marks.all() > 0, "nothing is marked")
    })
}

fn with_list(state: &State, check: impl FnOnce(&dyn List) -> Possible) -> Possible {
    if !state.nav.details.is_empty() {
        return Err("a detail is open: Esc closes it".into());
    }
    match state.list() {
        Some(list) => check(list),
        None => Err(no_list(state.nav.view)),
    }
}

/// What is shown is live.
pub(super) fn fresh(state: &State) -> Possible {
    if let Some(at) = state.data.frozen_at {
        let span = state.now.since(at).as_secs();
        return Err(format!("what is shown is frozen since {span} s: look at it live first").into());
    }
    let broken = state
        .data
        .snapshot
        .as_ref()
        .is_none_or(|snapshot| snapshot.broker.problem.is_some() || snapshot.store.problem.is_some());
    if broken || !state.is_live() {
        return Err("what is shown is old: messages are not removed on old numbers".into());
    }
    Ok(())
}
