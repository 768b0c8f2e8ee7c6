//! What happened, as it happens: lossy and bounded; the truth is in the store and on the broker.

use crate::domain::as_text;
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::EndpointState;
use crate::domain::id::QueueName;
use crate::domain::queue::takes_none;
use crate::domain::time::Timestamp;
use crate::domain::turn::Turn;
use crate::domain::url::EndpointUrl;

/// Something happened.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Event {
    /// An attempt ended.
    Attempted(Box<Attempt>),
    /// An endpoint changed its state.
    EndpointChanged {
        /// Which.
        url: EndpointUrl,
        /// What it is now.
        state: EndpointState,
    },
    /// A message was dead-lettered.
    DeadLettered {
        /// From where.
        queue: QueueName,
        /// Why.
        reason: String,
    },
    /// A delivery queue ended and was deleted.
    QueueEnded(QueueName),
    /// A queue is not delivered, or takes no publishes, and why.
    QueueRefused {
        /// Which.
        queue: QueueName,
        /// Why.
        reason: String,
    },
    /// A queue with a lifetime is gone.
    QueueGone {
        /// Which.
        queue: QueueName,
        /// How.
        how: Gone,
        /// Messages that were in it when it was seen last.
        messages: Option<u64>,
        /// When that was.
        seen_at: Timestamp,
    },
    /// Something of ours was gone, and what was done about it.
    Incident(String),
    /// Something turned bad, or good again.
    Turned(Box<Turn>),
    /// Broker or store went away or came back.
    Connection {
        /// `broker` or `store`.
        #[serde(deserialize_with = "as_text::word::deserialize")]
        part: as_text::Word,
        /// Whether it is there.
        up: bool,
    },
}

impl Event {
    /// A queue takes no publishes from now on.
    pub(super) fn refusing(queue: &QueueName, why: &str) -> Self {
        Self::QueueRefused {
            queue: queue.clone(),
            reason: takes_none(why),
        }
    }
}

/// How a queue with a lifetime went.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Gone {
    /// Its time was over.
    Expired,
    /// Somebody deleted it: the user's name.
    Deleted(String),
    /// Nobody told.
    Unknown,
}

impl Gone {
    /// As counted.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Deleted(_) => "deleted",
            Self::Unknown => "unknown",
        }
    }
}
