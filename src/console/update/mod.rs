//! The one function that changes the [`State`].

use super::{Effect, Event, State};
use crate::domain::time::Timestamp;

/// What `event` at `now` makes of the state, and what is to be done about it. Pure.
#[must_use]
pub fn update(state: &mut State, now: Timestamp, event: Event) -> Vec<Effect> {
    state.now = now;
    match event {
        Event::Resize { columns, rows } => state.size = (columns, rows),
        _ => {}
    }
    Vec::new()
}
