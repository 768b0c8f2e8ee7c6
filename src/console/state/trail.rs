//! Where the operator was: back and forward, as in a browser.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::console::state::detail::{DetailTab, Subject};
use crate::console::state::events::{GroupRow, TypeChoice};
use crate::console::state::{State, View};
use crate::engine::dead::DeadGroup;

/// Places that are remembered, at most: the oldest go.
pub const SPOTS_MAX: usize = 100;

/// A place: a view with what is open in it.
#[derive(Clone, Debug)]
pub struct Spot {
    /// Which screen.
    pub view: View,
    /// The open group of dead letters.
    pub group: Option<Arc<DeadGroup>>,
    /// The event type whose events are looked at, and why they are there.
    pub events: (Option<TypeChoice>, Option<Arc<GroupRow>>),
    /// Open details, the innermost last, each at its part.
    pub details: Vec<(Subject, DetailTab)>,
    /// The filter of the list.
    pub filter: String,
}

/// Places behind and ahead of the one in front.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    behind: VecDeque<Spot>,
    ahead: Vec<Spot>,
}

impl Spot {
    /// The one in front.
    #[must_use]
    pub fn of(state: &State) -> Self {
        // The preview that has the keys is no place of its own: its list is in front.
        let details = if state.is_beside() {
            &[]
        } else {
            state.nav.details.as_slice()
        };
        Self {
            view: state.nav.view,
            group: state.lists.dead.open.clone().filter(|_| state.nav.view == View::Dead),
            events: (state.lists.events.choice.clone(), state.lists.events.group.clone()),
            details: details
                .iter()
                .map(|detail| (detail.subject.clone(), detail.tab))
                .collect(),
            filter: state.list().map(|list| list.filter().text.clone()).unwrap_or_default(),
        }
    }

    /// Whether it is another place; another part or filter of the same one is not.
    #[must_use]
    pub fn is_elsewhere(&self, other: &Self) -> bool {
        let fingerprint = |spot: &Self| spot.group.as_ref().map(|group| group.fingerprint.clone());
        let subjects =
            |spot: &Self| -> Vec<Subject> { spot.details.iter().map(|(subject, _)| subject.clone()).collect() };
        let reason = |spot: &Self| spot.events.1.as_ref().map(|group| group.id.clone());
        let events = self.events.0 != other.events.0 || reason(self) != reason(other);
        (events && self.view == View::Events)
            || self.view != other.view
            || fingerprint(self) != fingerprint(other)
            || subjects(self) != subjects(other)
    }
}

impl Trail {
    /// The operator went away from there: what was ahead is forgotten.
    pub fn left(&mut self, spot: Spot) {
        self.ahead.clear();
        self.remember(spot);
    }

    /// Back: the place to go to, when there is one. `here` is ahead from then on.
    pub fn back(&mut self, here: Spot) -> Option<Spot> {
        let spot = self.behind.pop_back()?;
        self.ahead.push(here);
        Some(spot)
    }

    /// Forward again. `here` is behind from then on.
    pub fn forward(&mut self, here: Spot) -> Option<Spot> {
        let spot = self.ahead.pop()?;
        self.remember(here);
        Some(spot)
    }

    /// Whether there is a place behind.
    #[must_use]
    pub fn has_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Whether there is a place ahead.
    #[must_use]
    pub fn has_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    fn remember(&mut self, spot: Spot) {
        if self.behind.len() == SPOTS_MAX {
            self.behind.pop_front();
        }
        self.behind.push_back(spot);
    }
}
