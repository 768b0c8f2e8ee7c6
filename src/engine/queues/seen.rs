//! A queue as the broker lists it, reduced to what is shown of it.

use crate::broker::ListedQueue;
use crate::domain::findings::Finding;
use crate::domain::id::QueueName;
use crate::domain::queue::QueueKind;
use crate::domain::time::Timestamp;

/// A queue as the broker lists it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) struct Seen {
    pub(in crate::engine) name: QueueName,
    /// What it is for, where more than its name tells.
    pub(in crate::engine) kind: Option<QueueKind>,
    pub(in crate::engine) ready: Option<u64>,
    pub(in crate::engine) unacked: Option<u64>,
    pub(in crate::engine) oldest_at: Option<Timestamp>,
    /// Its node is away: nothing in it can be reached.
    pub(in crate::engine) node_down: bool,
    /// What will surprise about it.
    pub(in crate::engine) findings: Vec<Finding>,
    pub(in crate::engine) taken_at: Timestamp,
}

impl Seen {
    /// A queue of which nothing is known but its name.
    pub(in crate::engine) const fn unknown(name: QueueName, now: Timestamp) -> Self {
        Self {
            name,
            kind: None,
            ready: None,
            unacked: None,
            oldest_at: None,
            node_down: false,
            findings: Vec::new(),
            taken_at: now,
        }
    }
}

impl From<ListedQueue> for Seen {
    fn from(listed: ListedQueue) -> Self {
        Self {
            node_down: matches!(
                listed.state.as_deref(),
                Some("down" | "minority" | "stopped" | "crashed")
            ),
            name: listed.name,
            kind: None,
            ready: listed.ready,
            unacked: listed.unacked,
            oldest_at: listed.oldest_at,
            findings: Vec::new(),
            taken_at: listed.taken_at,
        }
    }
}
