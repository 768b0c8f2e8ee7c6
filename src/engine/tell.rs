//! What the dispatcher is told, and by whom: what wakes queues, and the answers of its own tasks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::endpoints::table::LiveEndpoint;
use crate::budget::Share;
use crate::domain::id::{Epoch, QueueName};
use crate::domain::queue::QueueRecord;
use crate::domain::url::EndpointUrl;
use crate::store::{HeldLease, LeaseOutcome, QueueUrl};

/// Messages to the dispatcher that wait, at most.
pub(super) const CHANNEL: usize = 65_536;

/// What the dispatcher is told.
#[derive(Debug)]
pub(super) enum Tell {
    /// This queue may have something to do.
    Candidate(QueueName),
    /// The broker lists this queue with something in it: nothing new, unless nobody knew of it.
    Listed(QueueName),
    /// A person changed something: whatever rests is looked at again.
    WakeAll,
    /// A row whose own schedule is due, or whose deletion or decision a crash left open.
    Due(Box<QueueRecord>),
    /// Somebody paused it, or wants its lease.
    LetGo(QueueName),
    /// The queue was deleted.
    Gone(QueueName),
    /// The leases that the store says are held here.
    Compare(Vec<HeldLease>),
    /// Names and URLs read from the store.
    Learned(Vec<(QueueName, EndpointUrl)>),
    /// The answer to whose queues some are.
    Whose(Vec<QueueUrl>),
    /// A worker on a queue whose URL was not known learned it, and asks for a slot of it.
    Slot {
        queue: QueueName,
        url: EndpointUrl,
        granted: oneshot::Sender<bool>,
    },
    /// The answer to a request for leases.
    Leases(Vec<(Asked, LeaseOutcome)>),
    /// The answer to a claim of a probe.
    Probe {
        url: EndpointUrl,
        asked: Asked,
        claimed: Option<(i64, Share)>,
    },
    /// There are bytes for a queue that waited for them.
    Room { queue: QueueName, share: Share },
    /// A worker ended.
    Ended { claim: Claim, end: Box<WorkerEnd> },
    /// A queue was released after its worker ended.
    Released { asked: Asked, left: Left },
    /// A queue that was to be deleted.
    Closed { asked: Asked, ending: Ending },
}

/// A queue that something is asked for, and the holding that the answer is for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) queue: QueueName,
    pub(super) claim: Claim,
}

/// Which holding of a queue is meant: each has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim(pub(super) u64);

/// Why a worker let go.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    /// Nothing came for the linger time.
    Idle,
    /// Others wait.
    Yielded,
    /// Its head waits on its own schedule.
    Waits(Duration),
    /// The turn of its URL comes after this time, and others wait for a worker.
    Paced(Duration),
    /// Its URL takes nothing at present.
    EndpointClosed,
    /// Its head waits for a person.
    Parked,
    /// A person paused it, or somebody wants it.
    LetGo,
    /// The queue does not exist any more.
    Gone,
    /// It is not delivered (refused or quarantined).
    Refused,
    /// The fence is closed or the lease lost.
    Fenced,
    /// The process stops.
    Stopping,
    /// It ended: to be deleted, under the lease.
    Ended,
    /// Broker or store trouble: try again after this time.
    Trouble(Duration),
}

/// What a worker says at its end.
#[derive(Debug)]
pub(super) struct WorkerEnd {
    pub(super) queue: QueueName,
    pub(super) epoch: Epoch,
    pub(super) endpoint: Option<Arc<LiveEndpoint>>,
    pub(super) end: End,
    /// The claimed probe was not settled.
    pub(super) unused_probe: Option<i64>,
    /// What its last message took of the memory, if one was seen.
    pub(super) bytes: Option<usize>,
}

/// What there is to do in a queue that was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It is empty, or what it waits for is told in another way.
    Nothing,
    /// It has more, or nobody knows.
    More,
}

/// What became of a queue that was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Gone.
    Deleted,
    /// Something came: it is bound again, and has something to do.
    GoesOn,
    /// The lease or the fence is lost; whoever takes it next restarts at the unbind.
    Lost,
}
