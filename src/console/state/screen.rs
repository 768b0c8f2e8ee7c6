//! What a view is: what it shows ([`Screen`]), and what is selected in it ([`Selection`]). The views stand in `views`,
//! a file each.

use ratatui::layout::{Position, Rect};

use crate::console::state::State;
use crate::console::state::action::{Action, Possible, require};
use crate::console::state::detail::{Sought, Subject};
use crate::console::state::feed::{Feed, FeedQuery, Listing};
use crate::console::state::lists::Lists;
use crate::console::state::pointed::{Reach, Rows};
use crate::console::state::relatives::{Relatives, name_of_subject, of_subject};
use crate::console::table::{End, List};
use crate::console::widgets::canvas::Canvas;
use crate::engine::snapshot::Snapshot;

/// What is always so about a view.
#[derive(Debug)]
pub(in crate::console) struct About {
    /// As written on its tab.
    pub(in crate::console) title: &'static str,
    /// The same where there is little room; empty: then its tab is its key alone.
    pub(in crate::console) short_title: &'static str,
    /// What it shows is read from these: what of it cannot be read is said on it. The broker is known by its listing.
    #[cfg_attr(
        not(feature = "internals"),
        allow(dead_code, reason = "tests compare it with what a view says")
    )]
    pub(in crate::console) reads: &'static [&'static str],
    /// The action that goes there.
    pub(in crate::console) go: Action,
}

/// A view: what it shows, and what is selected in it.
pub(in crate::console) trait Screen: Selection + Sync {
    /// What is always so about it.
    fn about(&self) -> &'static About;

    /// Paints it; answers where the cursor stands when something is typed.
    fn paint(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position>;

    /// Whether rows are listed, so that what is done with rows is offered.
    fn has_rows(&self) -> bool {
        true
    }

    /// Whether its rows can be marked.
    fn has_marks(&self) -> bool {
        self.has_rows()
    }

    /// Its list in front.
    fn listing<'a>(&self, _: &'a Lists) -> Option<&'a dyn Listing> {
        None
    }

    /// Its list in front, to be changed.
    fn listing_mut<'a>(&self, _: &'a mut Lists) -> Option<&'a mut dyn Listing> {
        None
    }

    /// How what it shows is fed; `None`: the snapshot has it.
    fn feed<'a>(&self, lists: &'a Lists) -> Option<&'a Feed> {
        self.listing(lists)?.feed()
    }

    /// The same, to be changed.
    fn feed_mut<'a>(&self, lists: &'a mut Lists) -> Option<&'a mut Feed> {
        self.listing_mut(lists)?.feed_mut()
    }

    /// What it asks of the engine while it is in front.
    fn asks(&self, _: &Lists) -> Option<FeedQuery> {
        None
    }

    /// Paints what the list has of the selected row, where no detail stands beside it.
    fn glance(&self, _: &mut Canvas<'_>, _: Rect, _: &State) {}

    /// Whether what it shows at present has the whole screen: then nothing stands beside it.
    fn has_whole_screen(&self, _: &Lists) -> bool {
        false
    }

    /// How many there are, and how many of them need a look: behind the title.
    fn badge(&self, _: &State, _: &Snapshot) -> String {
        String::new()
    }

    /// Of that, how many need a look.
    fn alarm(&self, _: &str) -> String {
        String::new()
    }

    /// Whether a time that counts on is on the screen.
    fn shows_an_age(&self, state: &State) -> bool {
        state.list().is_some_and(|list| !list.is_empty())
    }
}

/// What is selected in a view: what Enter opens, what stands beside the list, what an action is about.
pub(in crate::console) trait Selection {
    /// Whether Enter opens something in it.
    fn can_open(&self) -> bool {
        true
    }

    /// Whether Enter opens something, or why not.
    fn opens(&self, state: &State) -> Possible {
        selected(state)
    }

    /// The detail of the selected row.
    fn subject(&self, _: &State) -> Option<Subject> {
        None
    }

    /// The detail that stands beside the list; `None`: what the list has of the row says enough.
    fn previewed(&self, state: &State) -> Option<Subject> {
        self.subject(state)
    }

    /// The detail that is beside the list once the keys go there: also one that costs too much to be looked up unasked.
    fn beside(&self, state: &State) -> Option<Subject> {
        self.previewed(state)
    }

    /// The attempt that is selected in the detail that Enter opens.
    fn seeks(&self, _: &State) -> Option<Sought> {
        None
    }

    /// Opens the selected row: something inside the view, or the detail that is answered.
    fn open(&self, state: &mut State) -> Option<Subject> {
        self.subject(state)
    }

    /// Whether something inside the view is open.
    fn is_inside(&self, _: &Lists) -> bool {
        false
    }

    /// Closes the innermost of that.
    fn close(&self, _: &mut Lists) {}

    /// Moves, where it has no list.
    fn step(&self, _: &mut State, _: isize) {}

    /// Moves to an end, where it has no list.
    fn jump(&self, _: &mut State, _: End) {}

    /// The name or URL of the selected row.
    fn name(&self, state: &State) -> Option<String> {
        name_of_subject(&self.subject(state)?)
    }

    /// What belongs to the selected row.
    fn relatives(&self, state: &State) -> Option<Relatives> {
        Some(of_subject(state, &self.subject(state)?))
    }

    /// The rows that an action can be about.
    fn rows<'a>(&self, _: &'a State, _: Reach) -> Rows<'a> {
        Rows::default()
    }

    /// The words of the command that prints the same.
    fn command(&self, _: &State) -> Option<Vec<String>> {
        None
    }
}

/// Whether a row of the list in front is selected.
pub(in crate::console) fn selected(state: &State) -> Possible {
    let has_selection = state.list().is_some_and(List::has_selection);
    require(has_selection, "nothing is selected")
}
