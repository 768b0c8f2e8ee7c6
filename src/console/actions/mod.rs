//! The one table of actions: keys, hint bar, help, key documentation, confirmation, report, and the tests that
//! enumerate mutations are made from it.
//!
//! A row stands beside what it does, in the file of what it is about. The order of the sections, and of the rows in
//! them, is that of help, documentation and hint bar.

mod console;
mod dead;
mod delivery;
#[cfg(any(test, feature = "internals"))]
mod documentation;
mod events;
mod expiring;
mod go;
mod head;
mod lists;
mod look;
mod moves;
mod policies;
mod possible;
mod related;
mod report;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::LazyLock;

#[cfg(any(test, feature = "internals"))]
pub use self::documentation::key_documentation;
use crate::console::state::View;
use crate::console::state::action::{Action, Context, NONE, Section};
use crate::console::state::keymap::{Keymap, KeymapError};

/// What an operator comes for stands first: the hint bar is cut from behind.
static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
    [
        section(
            "Act (planned, then confirmed)",
            &[
                delivery::ACT,
                policies::ACT,
                dead::ACT,
                runs::ACT,
                events::ACT,
                expiring::ACT,
            ],
        ),
        section("Look", &[expiring::LOOK, events::LOOK, policies::LOOK, look::LOOK]),
        section("Go to what belongs to it", &[related::GO]),
        section("Lists", &[lists::LISTS]),
        section("Data", &[look::DATA]),
        go::section(),
        section("Move", &[moves::MOVE]),
        section("Console", &[console::CONSOLE]),
    ]
    .into()
});

const QUEUES: Context = Context::Views(&[View::Queues, View::Retries]);

/// The sections of the help; every action is in one of them.
#[must_use]
pub fn sections() -> &'static [Section] {
    &SECTIONS
}

/// Every action, once.
#[cfg(any(test, feature = "internals"))]
pub fn all() -> impl Iterator<Item = &'static Action> {
    sections().iter().flat_map(|section| section.actions.iter().copied())
}

/// The action of that name.
#[cfg(any(test, feature = "internals"))]
#[must_use]
pub fn action(name: &str) -> &'static Action {
    all().find(|action| action.name == name).unwrap_or(&NONE)
}

fn section(title: &'static str, parts: &[&'static [Action]]) -> Section {
    Section {
        title,
        actions: parts.iter().flat_map(|part| part.iter()).collect(),
    }
}

impl Default for Keymap {
    /// The keys of the table; what could not be read is left out, and a test says that nothing is.
    fn default() -> Self {
        Self::of_table(sections())
    }
}

impl Keymap {
    /// The keys of the table with those that the configuration gives to actions by their names.
    ///
    /// # Errors
    /// The first entry that is wrong, and how to mend it.
    pub fn from_config(keys: &BTreeMap<String, String>) -> Result<Self, KeymapError> {
        Self::configured(sections(), keys)
    }
}
