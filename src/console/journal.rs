//! What was done and what happened: toasts that pass, and the action log that stays.

use std::collections::VecDeque;
use std::time::Duration;

use crate::domain::time::Timestamp;

/// Entries of the log, at most: the oldest go.
pub const ENTRIES_MAX: usize = 500;

/// How an entry is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Something to know.
    Note,
    /// It worked.
    Good,
    /// It should be looked at.
    Warning,
    /// It failed.
    Bad,
}

/// One line: an action of this operator, or something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// How it is meant.
    pub tone: Tone,
    /// Whether the operator did it here.
    pub own: bool,
    /// One sentence, safe to show.
    pub text: String,
}

/// The log of this session, newest last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journal {
    entries: VecDeque<Entry>,
}

impl Journal {
    /// Adds an entry; the oldest goes where there are too many.
    pub fn push(&mut self, entry: Entry) {
        if self.entries.len() == ENTRIES_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Newest first.
    #[must_use]
    pub fn newest_first(&self) -> impl ExactSizeIterator<Item = &Entry> + DoubleEndedIterator {
        self.entries.iter().rev()
    }
}

/// Toasts at once, at most: the oldest goes.
pub const TOASTS_MAX: usize = 4;

impl Tone {
    /// How long a sentence of this tone stays in its corner.
    #[must_use]
    pub const fn lasts(self) -> Duration {
        match self {
            Self::Note | Self::Good => Duration::from_secs(5),
            Self::Warning => Duration::from_secs(8),
            Self::Bad => Duration::from_secs(12),
        }
    }
}

/// A sentence in a corner that goes by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toast {
    /// How it is meant.
    pub tone: Tone,
    /// What it says, safe to show.
    pub text: String,
    /// What it is about: the newest of a cause stands for all of it.
    pub cause: Option<String>,
    /// How many of its cause were said, and since when.
    pub changes: u32,
    /// When the first of them was said.
    pub since: Timestamp,
    /// When it goes.
    pub until: Timestamp,
    /// The run that it is about, where it stays until somebody saw that.
    pub stays_for: Option<String>,
}
