//! Newer data: history, lists, details, and keeping what is shown.

use std::sync::Arc;

use super::{State, at, details, differences, say};
use crate::console::journal::Tone;
use crate::console::state::effect::Effect;
use crate::engine::snapshot::Snapshot;

/// A snapshot came. What is frozen stays, but what happened is still told and counted.
pub(super) fn receive(state: &mut State, snapshot: Arc<Snapshot>) -> Vec<Effect> {
    let is_old =
        |newest: &Arc<Snapshot>| snapshot.generation <= newest.generation && snapshot.taken_at <= newest.taken_at;
    if snapshot.generation == 0 || state.data.newest().is_some_and(is_old) {
        return Vec::new();
    }
    state.data.history.record(&snapshot);
    state.data.tracks.record(&snapshot, state.session.refresh);
    let mut effects = Vec::new();
    if let Some(before) = state.data.newest().cloned() {
        effects = differences::tell(state, &before, &snapshot);
        if before.store.taken_at.is_none() || before.broker.taken_at.is_none() {
            state.said.calls.hush();
        }
    }
    if state.data.frozen_at.is_some() {
        state.data.held = Some(snapshot);
        return effects;
    }
    effects.extend(show(state, snapshot));
    effects
}

/// Keeps what is shown, or goes on with the newest.
pub(in crate::console) fn freeze(state: &mut State) -> Vec<Effect> {
    if state.data.frozen_at.take().is_none() {
        state.data.frozen_at = Some(state.now);
        return Vec::new();
    }
    say::toast(state, Tone::Note, "live again");
    match state.data.held.take() {
        Some(snapshot) => show(state, snapshot),
        None => Vec::new(),
    }
}

/// Sorts and filters the list in front again.
pub(super) fn arrange_front(state: &mut State) -> Vec<Effect> {
    let now = state.now;
    let snapshot = state.data.snapshot.clone();
    let list = state.list_mut();
    let job = list.and_then(|list| list.arrange_from(snapshot.as_deref(), now));
    job.into_iter().map(Effect::Arrange).collect()
}

fn show(state: &mut State, snapshot: Arc<Snapshot>) -> Vec<Effect> {
    let now = state.now;
    let listings = state.lists.all_mut().into_iter();
    let of_snapshots = listings.filter(|listing| listing.feed().is_none());
    let jobs = of_snapshots.filter_map(|listing| listing.list_mut().arrange_from(Some(&snapshot), now));
    let mut effects: Vec<Effect> = jobs.map(Effect::Arrange).collect();
    state.data.snapshot = Some(snapshot);
    state.follow_worst();
    effects.extend(at::go(state));
    effects.extend(details::refresh(state));
    effects
}
