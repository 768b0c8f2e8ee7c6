//! Newer data: history, lists, details, and keeping what is shown.

use std::sync::Arc;

use super::{State, details, differences, say};
use crate::console::Effect;
use crate::console::journal::Tone;
use crate::console::table::List;
use crate::engine::snapshot::Snapshot;

/// A snapshot came. What is frozen stays, but what happened is still told and counted.
pub(super) fn receive(state: &mut State, snapshot: Arc<Snapshot>) -> Vec<Effect> {
    let is_old =
        |newest: &Arc<Snapshot>| snapshot.generation <= newest.generation && snapshot.taken_at <= newest.taken_at;
    if snapshot.generation == 0 || state.newest().is_some_and(is_old) {
        return Vec::new();
    }
    state.history.record(&snapshot);
    state.tracks.record(&snapshot, state.refresh);
    if let Some(before) = state.newest().cloned() {
        differences::tell(state, &before, &snapshot);
    }
    if state.frozen_at.is_some() {
        state.held = Some(snapshot);
        return Vec::new();
    }
    show(state, snapshot)
}

/// Keeps what is shown, or goes on with the newest.
pub(super) fn freeze(state: &mut State) -> Vec<Effect> {
    if state.frozen_at.take().is_none() {
        state.frozen_at = Some(state.now);
        return Vec::new();
    }
    say::toast(state, Tone::Note, "live again");
    match state.held.take() {
        Some(snapshot) => show(state, snapshot),
        None => Vec::new(),
    }
}

/// Sorts and filters the list in front again.
pub(super) fn arrange_front(state: &mut State) -> Vec<Effect> {
    let now = state.now;
    let snapshot = state.snapshot.clone();
    let list = state.list_mut();
    list.and_then(|list| list.arrange_from(snapshot.as_deref(), now))
        .into_iter()
        .collect()
}

fn show(state: &mut State, snapshot: Arc<Snapshot>) -> Vec<Effect> {
    let now = state.now;
    let lists: [&mut dyn List; 3] = [&mut state.queues, &mut state.endpoints, &mut state.retries];
    let jobs = lists
        .into_iter()
        .filter_map(|list| list.arrange_from(Some(&snapshot), now));
    let mut effects: Vec<Effect> = jobs.collect();
    state.snapshot = Some(snapshot);
    effects.extend(details::refresh(state));
    effects
}
