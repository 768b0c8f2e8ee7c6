//! Back and forward: where the operator was is noted as he goes, whatever made him go.

use super::{State, details, snapshots};
use crate::console::state::detail::Detail;
use crate::console::state::effect::Effect;
use crate::console::state::trail::Spot;

/// Notes the place that was left, when it was.
pub(super) fn note(state: &mut State, before: Spot) {
    if before.is_elsewhere(&Spot::of(state)) {
        state.nav.trail.left(before);
    }
}

pub(in crate::console) fn back(state: &mut State) -> Vec<Effect> {
    let here = Spot::of(state);
    state.nav.trail_moved = true;
    match state.nav.trail.back(here) {
        Some(spot) => show(state, spot),
        None => Vec::new(),
    }
}

pub(in crate::console) fn forward(state: &mut State) -> Vec<Effect> {
    let here = Spot::of(state);
    state.nav.trail_moved = true;
    match state.nav.trail.forward(here) {
        Some(spot) => show(state, spot),
        None => Vec::new(),
    }
}

/// The place as it was left; what is open there is looked up again.
fn show(state: &mut State, spot: Spot) -> Vec<Effect> {
    state.nav.view = spot.view;
    state.nav.preview.has_keys = false;
    details::set_group(state, spot.group);
    let page = state.page();
    let (choice, group) = spot.events;
    if state.lists.events.choice != choice {
        state.lists.events.choice = None;
        if let Some(choice) = choice {
            state.lists.events.open(choice, page);
        }
    }
    state.lists.events.group = None;
    if let Some(group) = group {
        state.lists.events.open_group(group, page);
    }
    let now = state.now;
    let opened = spot.details.into_iter().map(|(subject, tab)| Detail {
        tab,
        asked_at: None,
        ..Detail::new(subject, now)
    });
    state.nav.details = opened.collect();
    let mut effects = Vec::new();
    if let Some(list) = state.list_mut().filter(|list| list.filter().text != spot.filter) {
        list.filter_write(&spot.filter);
        list.filter_keep();
        effects.extend(snapshots::arrange_front(state));
    }
    effects.extend(details::refresh(state));
    effects
}
