//! Everything that can happen to the console, as data.

use std::sync::Arc;

use bytes::Bytes;
use crossterm::event::{KeyEvent, MouseButton, MouseEvent, MouseEventKind};

use crate::console::state::detail::DetailAnswer;
use crate::console::state::effect::EditOf;
use crate::console::state::feed::Fed;
use crate::console::state::palette::FoundObjects;
use crate::console::state::payload::MessageKey;
use crate::console::state::profiles::Condition;
use crate::console::state::settings::Reloaded;
use crate::console::table::Arranged;
use crate::console::theme::Ground;
use crate::domain::time::Timestamp;
use crate::engine::handle::Attached;
use crate::engine::runs::RunView;
use crate::engine::snapshot::Snapshot;
use crate::engine::view::Check;
use crate::engine::{self, Done, Plan};

/// Something happened. [`crate::console::update`] is told the time beside it.
#[derive(Clone, Debug)]
pub enum Event {
    /// A key went down or repeats; releases are dropped before.
    Key(KeyEvent),
    /// Text was pasted (from outside, bounded).
    Paste(String),
    /// The mouse was used, where that is configured.
    Mouse(Mouse),
    /// The terminal has another size.
    Resize {
        /// Its width in cells.
        columns: u16,
        /// Its height in cells.
        rows: u16,
    },
    /// The terminal's window got or lost the focus.
    Focus(bool),
    /// A second passed, or a moment that [`crate::console::state::State::wake_at`] named.
    Tick,
    /// Store and broker are being opened.
    Connecting {
        /// Why the last try failed (from outside).
        problem: Option<String>,
        /// Number of the next try, from 1.
        attempt: u32,
        /// When it is made.
        next_at: Timestamp,
    },
    /// They are open: there is an engine to ask.
    Connected,
    /// The daemon that this console is attached to said where it is and what the token may do.
    Attached(Attached),
    /// This process began (or ceased) to deliver.
    Delivering(bool),
    /// A newer snapshot.
    Snapshot(Arc<Snapshot>),
    /// The engine of this process did something.
    Engine(engine::Event),
    /// A large list was sorted and filtered.
    Arranged(Arranged),
    /// Names were looked for.
    Found(FoundObjects),
    /// A file was written: its path, or why it was not (both safe to show).
    Saved(Result<String, String>),
    /// What was saved for the next console could not be written (safe to show).
    Kept(String),
    /// Another profile was looked at: how it is, or why that is not known (from outside).
    Surveyed {
        /// Its name.
        profile: String,
        /// How it is.
        result: Result<Box<Condition>, String>,
    },
    /// A profile was tried, to be gone to.
    Tried {
        /// Its name.
        profile: String,
        /// Why no console can be opened there (safe to show); `None`: it can, or nobody knows.
        closed: Option<String>,
    },
    /// What doctor found, or why that is not known (from outside).
    Checked(Result<Vec<Check>, String>),
    /// A run is over: what came of it, or how it was known last where that cannot be read.
    Ended(Box<RunView>),
    /// Another theme is used, or why not.
    Themed(Result<String, String>),
    /// The configuration was read again: what holds now, or why nothing does (safe to show).
    Reloaded(Result<Box<Reloaded>, String>),
    /// A detail that was asked for.
    Detail(Box<DetailAnswer>),
    /// The rows of a list that were asked for.
    Fed(Fed),
    /// An editor was left.
    Edited {
        /// What was in it.
        of: EditOf,
        /// What is written now, or why it cannot be used.
        result: Result<Bytes, String>,
    },
    /// Plans that were asked for: all of them or the reason.
    Planned {
        /// Which request.
        request: u64,
        /// The plans, in the order of the commands; or why there are none (from outside).
        result: Result<Vec<Plan>, String>,
    },
    /// The audit has it that somebody looks at what is masked, or why not (from outside).
    Revealed {
        /// In which message.
        key: MessageKey,
        /// Whether it may be shown.
        result: Result<(), String>,
    },
    /// One plan of a confirmed request was carried out.
    Executed {
        /// Which request.
        request: u64,
        /// Which of its plans.
        item: usize,
        /// What came of it, or why not (from outside).
        result: Result<Box<Done>, String>,
    },
}

/// What was done with the mouse, and on which cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mouse {
    /// What.
    pub what: MouseDid,
    /// From the left, beginning with 0.
    pub column: u16,
    /// From the top, beginning with 0.
    pub row: u16,
}

/// What can be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseDid {
    /// The left button went down.
    Click,
    /// The wheel was turned away from the hand.
    WheelUp,
    /// The wheel was turned to the hand.
    WheelDown,
}

impl Mouse {
    /// `None`: nothing that means anything here.
    #[must_use]
    pub fn read(mouse: MouseEvent) -> Option<Self> {
        let what = match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => MouseDid::Click,
            MouseEventKind::ScrollUp => MouseDid::WheelUp,
            MouseEventKind::ScrollDown => MouseDid::WheelDown,
            MouseEventKind::Down(MouseButton::Right | MouseButton::Middle)
            | MouseEventKind::Up(_)
            | MouseEventKind::Drag(_)
            | MouseEventKind::Moved
            | MouseEventKind::ScrollLeft
            | MouseEventKind::ScrollRight => return None,
        };
        Some(Self {
            what,
            column: mouse.column,
            row: mouse.row,
        })
    }
}

/// What reaches the loop.
#[derive(Clone, Debug)]
pub enum Input {
    /// Something for `update`.
    Event(Event),
    /// The kernel asks us to stop for a while (SIGTSTP).
    Suspend,
    /// We were stopped and go on (SIGCONT).
    Continued,
    /// The terminal is gone.
    Gone,
    /// The terminal knows unambiguous key codes.
    KeyCodes,
    /// The terminal said what its ground is.
    Ground(Ground),
}

impl From<Event> for Input {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}
