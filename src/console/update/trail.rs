//! Back and forward: where the operator was is noted as he goes, whatever made him go.

use super::{State, details, snapshots};
use crate::console::Effect;
use crate::console::detail::Detail;
use crate::console::trail::Spot;

/// Notes the place that was left, when it was.
pub(super) fn note(state: &mut State, before: Spot) {
    if before.is_elsewhere(&Spot::of(state)) {
        state.trail.left(before);
    }
}

pub(super) fn back(state: &mut State) -> Vec<Effect> {
    let here = Spot::of(state);
    state.trail_moved = true;
    match state.trail.back(here) {
        Some(spot) => show(state, spot),
        None => Vec::new(),
    }
}

pub(super) fn forward(state: &mut State) -> Vec<Effect> {
    let here = Spot::of(state);
    state.trail_moved = true;
    match state.trail.forward(here) {
        Some(spot) => show(state, spot),
        None => Vec::new(),
    }
}

/// The place as it was left; what is open there is looked up again.
fn show(state: &mut State, spot: Spot) -> Vec<Effect> {
    state.view = spot.view;
    details::set_group(state, spot.group);
    let page = state.page();
    let (choice, group) = spot.events;
    if state.events.choice != choice {
        state.events.choice = None;
        if let Some(choice) = choice {
            state.events.open(choice, page);
        }
    }
    state.events.group = None;
    if let Some(group) = group {
        state.events.open_group(group, page);
    }
    let now = state.now;
    let opened = spot.details.into_iter().map(|(subject, tab)| Detail {
        tab,
        asked_at: None,
        ..Detail::new(subject, now)
    });
    state.details = opened.collect();
    let mut effects = Vec::new();
    if let Some(list) = state.list_mut().filter(|list| list.filter().text != spot.filter) {
        list.filter_write(&spot.filter);
        list.filter_keep();
        effects.extend(snapshots::arrange_front(state));
    }
    effects.extend(details::refresh(state));
    effects
}
