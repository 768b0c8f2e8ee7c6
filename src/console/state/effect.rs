//! Everything the console can ask of the world, as data. Only the runtime carries it out.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::console::state::detail::DetailQuery;
use crate::console::state::dialog::ScopeKind;
use crate::console::state::feed::FeedQuery;
use crate::console::state::palette::FindJob;
use crate::console::state::payload::MessageKey;
use crate::console::table::ArrangeJob;
use crate::console::table::export::{Form, Records};
use crate::domain::time::Timestamp;
use crate::engine::reveal::Reveal;
use crate::engine::runs::{RunView, Selection};
use crate::engine::{Command, Plan};

/// What is written in an editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditOf {
    /// The payload of this dead letter.
    Letter(String),
    /// A patch for these dead letters.
    Patch(ScopeKind, Selection),
}

/// The payload of a dead letter, to be written in an editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditJob {
    /// Comes back with what was written.
    pub of: EditOf,
    /// The payload as it is, or the patch as it was written last.
    pub body: Bytes,
    /// What the file's name ends with, so that the editor knows the form.
    pub suffix: &'static str,
}

/// Something masked that is to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevealJob {
    /// In which message; comes back with the answer.
    pub key: MessageKey,
    /// What the audit says.
    pub reveal: Reveal,
}

/// A file to write: a new one, for its owner alone.
#[derive(Clone, Debug)]
pub struct SaveJob {
    /// Where; against the working directory.
    pub path: PathBuf,
    /// What.
    pub content: Content,
}

/// What is written into a file.
#[derive(Clone, Debug)]
pub enum Content {
    /// A text as it is.
    Text(String),
    /// Things, in this form; made into text beside the screen's task.
    Records(Arc<dyn Records>, Form),
}

/// How a screen is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// Its characters.
    Text,
    /// Its cells, with their colours.
    Svg,
}

impl Picture {
    /// What the name of a file ends with.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Text => "txt",
            Self::Svg => "svg",
        }
    }
}

/// Something to do. None of them waits: what comes of it comes back as an [`crate::console::state::event::Event`].
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
        /// What to plan; at most [`crate::console::state::dialog::COMMANDS_MAX`].
        commands: Vec<Command>,
    },
    /// Carry out what was confirmed, in order; each answers for itself.
    Execute {
        /// Comes back with the answers.
        request: u64,
        /// What was confirmed.
        plans: Vec<Plan>,
        /// Why, for the audit; `None`: as the console was told at its start.
        reason: Option<String>,
    },
    /// Put a text, already made safe to show, on the clipboard (OSC 52).
    Copy(String),
    /// Call the operator, who may look elsewhere: the text was made safe to show.
    Call(String),
    /// Look for names among very many, beside the screen's task. A newer search replaces an older one.
    Find(FindJob),
    /// Write a file.
    Save(SaveJob),
    /// Write the file of what this user keeps, in the place of what is there.
    Keep {
        /// Where.
        path: PathBuf,
        /// What.
        text: String,
    },
    /// Write what the screen shows into a file.
    Screen {
        /// How.
        picture: Picture,
        /// Where.
        path: PathBuf,
    },
    /// Look how these profiles are; each answers for itself.
    Survey(Vec<String>),
    /// Look what doctor finds.
    Check,
    /// Look what came of this run, which is over; it is given as it was known last.
    Outcome(Box<RunView>),
    /// Use the theme of that name.
    Theme(String),
    /// Read the configuration again.
    Reload,
    /// Look as often as this from now on.
    Pace(Duration),
    /// The state says whether the mouse is wanted: tell the terminal.
    Mouse,
    /// Look whether the profile of that name can be opened.
    TryProfile(String),
    /// Leave, and go on with the profile of that name.
    Profile(String),
    /// Leave, and begin anew: with the configuration as it is now.
    Again,
    /// Changes are possible until then, for that reason; `None`: not any more.
    Window(Option<(Timestamp, String)>),
    /// Write into the audit who looks at what is masked.
    Reveal(RevealJob),
    /// Give the terminal to an editor for this.
    Edit(EditJob),
    /// Give the terminal back and stop until the shell continues us.
    Suspend,
    /// Leave.
    Quit,
}
