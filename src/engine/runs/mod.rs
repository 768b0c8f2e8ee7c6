//! Runs: what a person wants done with many dead letters, frozen as a plan, journalled, paced, and carried on by
//! whoever is alive (docs/architecture.md, *Life of a dead letter*; docs/protocols.md 12 and 22).
//!
//! A plan freezes its items in the store. A run takes them window by window: journal, publish with confirm, look at
//! the targets once, record, settle the sources. Each step is recorded before the next one, so that a process that
//! dies at any point leaves nothing lost, and at most one window twice.

mod canary;
mod change;
mod difference;
mod discard;
mod drive;
mod edit;
mod flight;
mod head;
mod kept;
mod letters;
mod limited;
mod order;
mod others;
mod outgoing;
mod plan;
mod receivers;
mod restore;
mod source;
mod tend;
mod uncertain;
mod window;

pub(super) use change::Speeds;
pub use edit::{Edit, EditedLetter};
pub use order::{Order, OrderKind, Selection, Via};
pub use outgoing::{REDRIVEN, RUN};
pub(super) use tend::Tending;

use std::time::Duration;

use crate::domain::run::{Phase, RunCounts, RunState};
use crate::domain::time::Timestamp;
pub use crate::store::ItemRecord;
use crate::store::RunRecord;

/// A run, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct RunView {
    /// As it is in the store.
    pub record: RunRecord,
    /// How long it still takes, as far as one can tell.
    pub eta: Option<Duration>,
    /// Name of the incarnation that works on it.
    pub owner: Option<String>,
    /// When this was read (store clock).
    pub taken_at: Timestamp,
}

impl RunView {
    /// Where it stands.
    #[must_use]
    pub const fn state(&self) -> RunState {
        self.record.state
    }

    /// What it does.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let ago = self.taken_at.since(self.record.updated_at);
        Phase::of(self.record.state, self.record.note.as_deref(), ago)
    }

    /// Outcomes so far.
    #[must_use]
    pub const fn counts(&self) -> RunCounts {
        self.record.counts
    }
}

/// A run with a page of its items.
#[derive(Clone, Debug, PartialEq)]
pub struct RunDetail {
    /// The run.
    pub run: RunView,
    /// Its items, in their order.
    pub items: Vec<ItemRecord>,
    /// Where the next page begins.
    pub next_after: Option<u64>,
}
