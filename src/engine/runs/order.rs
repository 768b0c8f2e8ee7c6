//! What is wanted: which messages, and what becomes of them. Kept with the run as part of its plan.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::id::QueueName;
use crate::domain::naming::Naming;

/// Messages that are sent together where there is no rate: the bound of what is sent twice after a crash.
pub(super) const WINDOW: usize = 1000;

/// Which messages.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Selection {
    /// These dead letters.
    Ids(Vec<String>),
    /// A group of dead letters, by its fingerprint.
    Group(String),
    /// Dead letters that match an expression.
    Filter(String),
    /// Every dead letter, but for those that died again after a redrive.
    All,
    /// What this run discarded, as far as it is still kept.
    Run(String),
    /// Every message of a queue.
    Queue(QueueName),
    /// The first message of a delivery queue.
    Head(QueueName),
}

impl Selection {
    /// Those that are named, as they were.
    pub(in crate::engine) fn ids(&self) -> &[String] {
        match self {
            Self::Ids(ids) => ids,
            Self::Group(_) | Self::Filter(_) | Self::All | Self::Run(_) | Self::Queue(_) | Self::Head(_) => &[],
        }
    }

    /// What they match.
    pub(crate) const fn expression(&self) -> Option<&String> {
        match self {
            Self::Filter(expression) => Some(expression),
            Self::Ids(_) | Self::Group(_) | Self::All | Self::Run(_) | Self::Queue(_) | Self::Head(_) => None,
        }
    }

    /// The run whose discarded messages are meant.
    pub(in crate::engine) const fn run(&self) -> Option<&String> {
        match self {
            Self::Run(run) => Some(run),
            Self::Ids(_) | Self::Group(_) | Self::Filter(_) | Self::All | Self::Queue(_) | Self::Head(_) => None,
        }
    }
}

/// What becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderKind {
    /// Sent back where they came from, or elsewhere.
    Redrive,
    /// Taken out and kept for a while.
    Discard,
    /// Put back into the dead-letter queue that they were discarded from.
    Restore,
    /// Moved to another queue as they are.
    Move,
    /// Taken from the head of its delivery queue to the queue's end, or to the dead letters.
    Skip,
}

impl OrderKind {
    /// The command's name, as audited.
    #[must_use]
    pub const fn command(self) -> &'static str {
        match self {
            Self::Redrive => "dead redrive",
            Self::Discard => "dead discard",
            Self::Restore => "dead restore",
            Self::Move => "queue move",
            Self::Skip => "queue skip",
        }
    }

    /// What it does, for people.
    #[must_use]
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Discard => "discard",
            Self::Restore => "restore",
            Self::Move => "move",
            Self::Skip => "skip",
        }
    }
}

/// By which way what is redriven goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Via {
    /// Through the exchange that it came by, to whoever is bound to it.
    Exchange,
    /// Straight to the queue that it died in.
    Queue,
}

impl Via {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Exchange, Self::Queue];

    /// As written and printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exchange => "exchange",
            Self::Queue => "queue",
        }
    }

    /// The way of this word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|via| via.as_str() == name)
    }
}

/// What is wanted of a run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Order {
    /// What.
    pub kind: OrderKind,
    /// Of which messages.
    pub selection: Selection,
    /// Into this queue, instead of where they came from.
    pub to: Option<QueueName>,
    /// By this way, instead of the one that reaches the queue of origin alone.
    pub via: Option<Via>,
    /// Items a second, at most; without it as fast as it can.
    pub rate: Option<u32>,
    /// Stop and ask after so many.
    pub canary: Option<u64>,
    /// After the canary: watch for so long, and go on when all is well, instead of asking at once.
    pub canary_watch: Option<Duration>,
    /// Go on to so many times what is done and watch again, and so on, instead of all the rest at once.
    pub ramp: Option<u32>,
    /// Before everything that waits in their delivery queues, instead of behind it.
    pub head: bool,
    /// Without those that died again after a redrive, whatever selects them.
    #[serde(default)]
    pub without_redriven: bool,
}

impl Order {
    /// The dead letters that it names one by one.
    #[must_use]
    pub fn letters(&self) -> &[String] {
        match &self.selection {
            Selection::Ids(ids) => ids,
            Selection::Group(_)
            | Selection::Filter(_)
            | Selection::All
            | Selection::Run(_)
            | Selection::Queue(_)
            | Selection::Head(_) => &[],
        }
    }

    /// An order without anything special.
    #[must_use]
    pub const fn new(kind: OrderKind, selection: Selection) -> Self {
        Self {
            kind,
            selection,
            to: None,
            via: None,
            rate: None,
            canary: None,
            canary_watch: None,
            ramp: None,
            head: false,
            without_redriven: false,
        }
    }

    /// Takes the head of a delivery queue to its end.
    #[must_use]
    pub const fn skip(queue: QueueName) -> Self {
        Self::new(OrderKind::Skip, Selection::Head(queue))
    }

    /// Takes the head of a delivery queue to the dead letters.
    #[must_use]
    pub fn skip_to_dead(naming: &Naming, queue: QueueName) -> Self {
        Self {
            to: QueueName::parse(&naming.dead_letter_queue()).ok(),
            ..Self::skip(queue)
        }
    }
}
