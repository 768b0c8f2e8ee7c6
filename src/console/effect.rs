//! Everything the console can ask of the world, as data. Only the runtime carries it out.

use bytes::Bytes;

use super::detail::DetailQuery;
use super::feed::FeedQuery;
use super::table::ArrangeJob;
use crate::engine::{Command, Plan};

/// The payload of a dead letter, to be written in an editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditJob {
    /// The dead letter's id: comes back with what was written.
    pub id: String,
    /// The payload as it is.
    pub body: Bytes,
    /// What the file's name ends with, so that the editor knows the form.
    pub suffix: &'static str,
}

/// Something to do. None of them waits: what comes of it comes back as an [`super::Event`].
#[derive(Clone, Debug)]
pub enum Effect {
    /// Make a snapshot now.
    Refresh,
    /// Sort and filter a large list beside the screen's task. A newer job for the same list replaces it.
    Arrange(ArrangeJob),
    /// Look a detail up. A newer query replaces an older one that has not answered.
    Look(DetailQuery),
    /// Ask for the rows of the list in front. A newer question replaces an older one that has not answered.
    Feed(FeedQuery),
    /// Plan these commands, in order.
    Plan {
        /// Comes back with the answer.
        request: u64,
        /// What to plan; at most [`super::dialog::COMMANDS_MAX`].
        commands: Vec<Command>,
    },
    /// Carry out what was confirmed, in order; each answers for itself.
    Execute {
        /// Comes back with the answers.
        request: u64,
        /// What was confirmed.
        plans: Vec<Plan>,
    },
    /// Put a text, already made safe to show, on the clipboard (OSC 52).
    Copy(String),
    /// Give the terminal to an editor for this.
    Edit(EditJob),
    /// Give the terminal back and stop until the shell continues us.
    Suspend,
    /// Leave.
    Quit,
}
