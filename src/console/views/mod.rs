//! The views: a file each, and a line each in [`SCREENS`].

mod attempts;
mod audit;
mod dead;
pub(in crate::console) mod endpoints;
mod events;
mod expiring;
mod heat;
pub(super) mod keys;
pub(super) mod list;
mod log;
pub(in crate::console) mod moving;
mod overview;
mod policies;
mod queues;
mod retries;
mod runs;

pub(super) use self::endpoints::status_role;
pub(super) use self::events::event_state;
#[cfg(test)]
pub(super) use self::expiring::{LostSoon, lost_soon};
#[cfg(test)]
pub(super) use self::overview::headline;
pub(super) use self::runs::{
    bar as run_bar, left as run_left, outcome as run_outcome, role as run_role, sentence as run_sentence,
    state as run_state,
};
use crate::console::state::feed::{Feed, Listing};
use crate::console::state::screen::Screen;
use crate::console::state::{State, View};
use crate::console::table::List;
use crate::console::widgets::words::count;
use crate::engine::snapshot::Part;

/// Every view, in the order of the tabs.
const SCREENS: [(View, &dyn Screen); 12] = [
    (View::Overview, &overview::Overview),
    (View::Queues, &queues::Queues),
    (View::Endpoints, &endpoints::Endpoints),
    (View::Retries, &retries::Retries),
    (View::Dead, &dead::Dead),
    (View::Policies, &policies::Policies),
    (View::Runs, &runs::Runs),
    (View::Audit, &audit::Audit),
    (View::Log, &log::Log),
    (View::Events, &events::Events),
    (View::Expiring, &expiring::Expiring),
    (View::Attempts, &attempts::Attempts),
];

impl View {
    /// In the order of the tabs.
    pub const ALL: [Self; SCREENS.len()] = {
        let mut all = [Self::Overview; SCREENS.len()];
        let mut place = 0;
        while place < SCREENS.len() {
            all[place] = SCREENS[place].0;
            place += 1;
        }
        all
    };

    /// What is particular about it.
    pub(super) fn screen(self) -> &'static dyn Screen {
        let found = SCREENS.iter().find(|(view, _)| *view == self);
        found.map_or(SCREENS[0].1, |(_, screen)| *screen)
    }

    /// What it shows is read from these.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn reads(self) -> &'static [&'static str] {
        self.screen().about().reads
    }

    /// As written on its tab.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.screen().about().title
    }
}

impl State {
    /// The list in front; `None` in a view without one.
    #[must_use]
    pub fn list(&self) -> Option<&dyn List> {
        self.nav.view.screen().listing(&self.lists).map(Listing::list)
    }

    pub(super) fn list_mut(&mut self) -> Option<&mut dyn List> {
        let listing = self.nav.view.screen().listing_mut(&mut self.lists)?;
        Some(listing.list_mut())
    }

    /// How the list in front is fed; `None` for one that the snapshot has.
    #[must_use]
    pub fn feed(&self) -> Option<&Feed> {
        self.nav.view.screen().feed(&self.lists)
    }

    pub(super) fn feed_mut(&mut self) -> Option<&mut Feed> {
        self.nav.view.screen().feed_mut(&mut self.lists)
    }

    /// The key that goes to a view.
    #[must_use]
    pub fn key_of(&self, view: View) -> Option<String> {
        self.input.keymap.label(view.screen().about().go.name)
    }
}

/// The words of a command.
fn command_words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// The filter of a list, for a command.
fn filtered(list: &dyn List) -> Option<Vec<String>> {
    let filter = list.filter().applied.as_ref()?;
    Some(vec!["--filter".to_owned(), filter.as_str().to_owned()])
}

/// How many there are, behind a title.
fn of(number: usize) -> String {
    format!(" {}", count(u64::try_from(number).unwrap_or(u64::MAX)))
}

/// How many rows a part of the snapshot has.
fn listed(part: &Part, rows: usize) -> String {
    if is_unread(part, rows) {
        return " ?".to_owned();
    }
    of(rows)
}

fn is_unread(part: &Part, rows: usize) -> bool {
    part.taken_at.is_none() && rows == 0
}
