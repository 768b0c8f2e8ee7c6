//! To what belongs to the row or detail in front.

use super::{State, details, snapshots};
use crate::console::state::View;
use crate::console::state::action::{Possible, Reason};
use crate::console::state::effect::Effect;
use crate::console::state::relatives::{FindWay, Relatives, Way, of_subject};
use crate::console::state::tail::Followed;

/// Whether the action leads anywhere from here.
pub(in crate::console) fn possible(state: &State, way: FindWay) -> Possible {
    way(&of(state)?).map(drop)
}

/// Goes there.
pub(in crate::console) fn go(state: &mut State, way: FindWay) -> Vec<Effect> {
    let Ok(way) = of(state).and_then(|found| way(&found)) else {
        return Vec::new();
    };
    match way {
        Way::Open(subject, None) => details::open_subject(state, subject),
        Way::Open(subject, Some(tab)) => details::open_at(state, subject, tab),
        Way::Part(tab) => {
            details::show_part(state, tab);
            Vec::new()
        }
        Way::List(view, expression) => filtered(state, view, &expression),
    }
}

/// A list, filtered so that it can be seen and changed.
pub(super) fn filtered(state: &mut State, view: View, expression: &str) -> Vec<Effect> {
    state.go(view);
    if view == View::Dead {
        details::set_group(state, None);
    }
    if let Some(list) = state.list_mut() {
        list.filter_write(expression);
    }
    snapshots::arrange_front(state)
}

/// The attempts of what is in front, as they are made.
pub(in crate::console) fn follow(state: &mut State) {
    let in_front = of(state).unwrap_or_default();
    let is_among_them = state.nav.view == View::Attempts && state.nav.details.is_empty();
    let followed = if is_among_them {
        let narrowed = in_front.url.map(Followed::Url);
        narrowed.filter(|_| state.lists.tail.of.is_none())
    } else {
        let of_queue = in_front.queue.map(Followed::Queue);
        of_queue.or_else(|| in_front.url.map(Followed::Url))
    };
    state.go(View::Attempts);
    let page = state.page();
    state.lists.tail.follow(followed, page);
}

fn of(state: &State) -> Result<Relatives, Reason> {
    let found = match state.nav.details.last().map(|detail| &detail.subject) {
        Some(subject) => Some(of_subject(state, subject)),
        None => state.nav.view.screen().relatives(state),
    };
    found.ok_or_else(|| "select a row first".into())
}
