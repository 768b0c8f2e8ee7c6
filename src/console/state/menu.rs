//! What can be done with the row or detail in front: a list of named actions, opened by one key.

use crossterm::event::KeyCode;

use crate::console::state::State;
use crate::console::state::action::{self, Action};

/// The open list.
#[derive(Clone, Debug)]
pub struct Menu {
    /// The key that opened it closes it as well.
    pub opened_by: KeyCode,
    /// What can be done, the most likely first; what cannot be done now stands behind. Nothing moves while it is open.
    pub actions: Vec<&'static Action>,
    /// Which of them is chosen.
    pub selected: usize,
}

impl Menu {
    /// For what is in front.
    #[must_use]
    pub fn of(state: &State, opened_by: KeyCode) -> Self {
        Self {
            opened_by,
            actions: action::menu(state),
            selected: 0,
        }
    }
}
