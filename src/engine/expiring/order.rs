//! What can be wanted of queues with a lifetime, and what came of it.

use std::time::Duration;

use crate::domain::id::QueueName;
use crate::domain::named::named;
use crate::domain::time::Timestamp;

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ExpiringOrder {
    /// Move the messages of queues into the store.
    Save(Which),
    /// Delete queues.
    Purge {
        /// Which.
        which: Which,
        /// What becomes of their messages.
        keep: Keep,
    },
    /// Put saved messages back.
    Restore {
        /// The ids of the saves.
        saves: Vec<String>,
        /// Into this queue, instead of where they came from.
        to: Option<QueueName>,
    },
    /// Restart the lifetime of queues.
    Extend {
        /// Which.
        which: Which,
        /// How long they live unused from now on, where that can be changed.
        lifetime: Option<Duration>,
    },
}

impl ExpiringOrder {
    /// The queues that were named or planned.
    #[must_use]
    pub fn queues(&self) -> Vec<&QueueName> {
        match self {
            Self::Save(which) | Self::Purge { which, .. } | Self::Extend { which, .. } => which.queues(),
            Self::Restore { to, .. } => to.iter().collect(),
        }
    }
}

/// Which queues.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Which {
    /// These.
    Queues(Vec<QueueName>),
    /// Leftovers: unused for longer than they should live.
    Expired,
    /// As a plan froze them; only plans have this.
    Planned(Vec<PlannedQueue>),
}

impl Which {
    fn queues(&self) -> Vec<&QueueName> {
        match self {
            Self::Queues(queues) => queues.iter().collect(),
            Self::Expired => Vec::new(),
            Self::Planned(planned) => planned.iter().map(|one| &one.name).collect(),
        }
    }
}

/// What becomes of the messages of a queue that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Keep {
    /// They are saved, and can be restored for a while.
    #[default]
    Saved,
    /// They are lost.
    Dropped,
}

/// A queue as a plan found it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PlannedQueue {
    /// Its name.
    pub name: QueueName,
    /// Messages in it.
    pub messages: Option<u64>,
    /// Bytes of them.
    pub bytes: Option<u64>,
    /// Since when nobody uses it.
    pub unused_since: Option<Timestamp>,
}

/// What came of one queue or save.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExpiringOutcome {
    /// Which queue.
    pub queue: QueueName,
    /// What was done, or why nothing was.
    pub result: ExpiringResult,
    /// The save that has its messages.
    pub save: Option<String>,
    /// Messages that were moved, or lost.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// When the queue goes now, as far as one can tell.
    pub expires_at: Option<Timestamp>,
}

impl ExpiringOutcome {
    pub(super) const fn of(queue: QueueName, result: ExpiringResult) -> Self {
        Self {
            queue,
            result,
            save: None,
            messages: 0,
            bytes: 0,
            expires_at: None,
        }
    }

    pub(super) fn left(queue: &QueueName, why: impl Into<String>) -> Self {
        Self::of(queue.clone(), ExpiringResult::Left(why.into()))
    }
}

/// How it came out.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ExpiringResult {
    /// Its messages are in the store.
    Saved,
    /// It is deleted.
    Purged,
    /// Saved messages are in it.
    Restored,
    /// Its time began anew.
    Extended,
    /// It was left, or is done in part, and why.
    Left(String),
}

named! {
    /// As printed.
    &ExpiringResult {
        Self::Saved => "saved",
        Self::Purged => "purged",
        Self::Restored => "restored",
        Self::Extended => "extended",
        Self::Left(_) => "left",
    }
}
