//! The preview follows the selection, and the keys go to it and back.
//!
//! A row that the selection only passes is not looked up: what is looked up is where it rests. What a row says by itself
//! is seen at once.

use std::time::Duration;

use super::{State, details};
use crate::console::state::Mode;
use crate::console::state::action::{Possible, require};
use crate::console::state::detail::{Detail, Extent};
use crate::console::state::effect::Effect;
use crate::console::table::List;
use crate::domain::time::Timestamp;

/// The selection rests for so long before its row is looked up: keys that are held come faster.
pub(super) const REST: Duration = Duration::from_millis(120);
/// A row that did not change is looked up again after this.
const AGAIN: Duration = Duration::from_secs(30);

/// Keeps to the selected row, and looks up what is due.
pub(super) fn follow(state: &mut State) -> Vec<Effect> {
    if state.nav.details.is_empty() && state.sides().is_some() {
        let wanted = state.nav.view.screen().previewed(state);
        let due_at = state.now.plus(REST);
        let preview = &mut state.nav.preview;
        match wanted {
            Some(wanted) if preview.detail.as_ref().is_some_and(|shown| shown.subject == wanted) => {}
            Some(wanted) => {
                let before = preview.detail.take();
                preview.detail = Some(Detail::due(wanted, due_at, before.as_ref()));
            }
            None => {
                let asked = state.nav.view.screen().beside(state);
                let preview = &mut state.nav.preview;
                preview.detail = preview
                    .detail
                    .take()
                    .filter(|shown| Some(&shown.subject) == asked.as_ref());
            }
        }
    }
    look_if_due(state)
}

/// The next time at which something is looked up.
pub(super) fn due_at(state: &State) -> Option<Timestamp> {
    state.looked_at()?.due_at
}

fn look_if_due(state: &mut State) -> Vec<Effect> {
    let now = state.now;
    let is_preview = state.nav.details.is_empty();
    let row = row(state);
    let is_read = is_read(state);
    let Some(detail) = state.looked_at_mut().filter(|_| is_read) else {
        return Vec::new();
    };
    if detail.due_at.is_none_or(|due| due > now) {
        return Vec::new();
    }
    (detail.due_at, detail.asked_at) = (None, Some(now));
    let extent = if is_preview { Extent::Brief } else { Extent::Whole };
    let (effects, subject) = (details::look(detail, extent), detail.subject.clone());
    state.data.tracks.look_at(&subject);
    state.nav.preview.row = row;
    effects
}

/// Newer numbers are there: looked up again where the row is another one now, else seldom.
pub(super) fn refresh(state: &mut State) -> Vec<Effect> {
    let (now, row) = (state.now, row(state));
    if state.sides().is_none() || !is_read(state) {
        return Vec::new();
    }
    let preview = &mut state.nav.preview;
    let has_changed = preview.row != row;
    let Some(detail) = &mut preview.detail else {
        return Vec::new();
    };
    let is_old = detail
        .answer
        .as_ref()
        .is_some_and(|answer| now.since(answer.taken_at) >= AGAIN);
    let is_wanted = detail.due_at.is_none() && !details::holds_still(detail) && details::may_ask(detail, now);
    if is_wanted && (has_changed || is_old) {
        detail.asked_at = Some(now);
        preview.row = row;
        return details::look(detail, Extent::Brief);
    }
    Vec::new()
}

/// Whether it is what is looked at: one look is under way at a time, and a form may wait for its own.
const fn is_read(state: &State) -> bool {
    matches!(state.input.mode, Mode::Browse | Mode::Filter(_) | Mode::Find(_))
}

/// Where the selected row stands in memory: it moves when the row changes.
fn row(state: &State) -> usize {
    state.list().map_or(0, List::selected_place)
}

/// Switches it on or off.
pub(in crate::console) fn switch(state: &mut State) -> Vec<Effect> {
    if state.is_beside() {
        give_keys_back(state);
    }
    state.nav.preview.is_off = !state.nav.preview.is_off;
    Vec::new()
}

/// The keys go to the preview; answers whether there is one.
pub(super) fn take_keys(state: &mut State) -> bool {
    if !state.nav.details.is_empty() || state.sides().is_none() {
        return false;
    }
    let Some(wanted) = state.nav.view.screen().beside(state) else {
        return false;
    };
    state.fix_selection();
    let seen = state.nav.preview.detail.take().filter(|seen| seen.subject == wanted);
    let detail = seen.unwrap_or_else(|| Detail::due(wanted, state.now, None));
    // What the preview had no room for is looked up now.
    let due_at = if details::holds_still(&detail) {
        None
    } else {
        Some(state.now)
    };
    state.nav.details.push(Detail { due_at, ..detail });
    state.nav.preview.has_keys = true;
    true
}

/// The keys go back to the list.
pub(super) fn give_keys_back(state: &mut State) {
    let detail = state.nav.details.pop();
    keep(state, detail);
}

/// A detail was closed whose row is still selected: it is the preview then.
pub(super) fn keep(state: &mut State, closed: Option<Detail>) {
    state.nav.preview.has_keys = false;
    let Some(mut closed) = closed else { return };
    if state.nav.view.screen().beside(state).as_ref() == Some(&closed.subject) {
        closed.leave();
        state.nav.preview.detail = Some(closed);
    }
}

/// Whether there is a row before or behind the one that is open.
pub(in crate::console) fn next_row_possible(state: &State) -> Possible {
    match state.nav.details.as_slice() {
        [] => require(state.list().is_some_and(|list| !list.is_empty()), "the list is empty"),
        [one] => {
            let is_of_list = state.nav.view.screen().beside(state).as_ref() == Some(&one.subject);
            require(is_of_list, "its row is not selected in the list")
        }
        _ => Err("Esc goes back to the row of the list first".into()),
    }
}

/// The next row of the list, opened as the one before was.
pub(in crate::console) fn next_row(state: &mut State, by: isize) {
    if let Some(list) = state.list_mut() {
        list.step(by);
    }
    let due_at = state.now.plus(REST);
    let Some(wanted) = state.nav.view.screen().beside(state) else {
        return;
    };
    if let [one] = state.nav.details.as_mut_slice()
        && one.subject != wanted
    {
        *one = Detail::due(wanted, due_at, Some(one));
        // The way back leads to the list, not through every row of it.
        state.nav.trail_moved = true;
    }
}
