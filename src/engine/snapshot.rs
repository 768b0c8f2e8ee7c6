//! What a screen shows, read in one go: an immutable value that is shared, never copied.
//!
//! Rows that did not change since the last snapshot are the same allocation (`Arc::ptr_eq`), so that
//! a hundred thousand queues are held once. Text that came from outside is still raw here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::dead::DeadSum;
use super::runs::RunView;
use super::view::Retry;
use crate::domain::endpoint::EndpointState;
use crate::domain::id::QueueName;
use crate::domain::queue::QueueState;
use crate::domain::time::Timestamp;
use crate::store::Incarnation;

pub use super::fields::{DEAD_FIELDS, DEAD_QUEUE_FIELDS, ENDPOINT_FIELDS, QUEUE_FIELDS, RETRY_FIELDS};
pub use super::row::{EndpointRow, QueueFacts, QueueRow};
pub use super::worst::{WORST_MAX, Worst};

/// Queues, endpoints, retries and daemons at one time.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Raised by one with every snapshot of an observer.
    pub generation: u64,
    /// When reading ended.
    pub taken_at: Timestamp,
    /// How long reading took.
    pub took: Duration,
    /// How long a daemon elsewhere takes to answer, where this is what it sees: the way there and back.
    pub latency: Option<Duration>,
    /// Whether each part could be read this time. What could not keeps its last content and time.
    pub broker: Part,
    /// The store.
    pub store: Part,
    /// How much does not answer, where the broker could not be read; `None`: it was, or nobody can say.
    pub silent: Option<Silent>,
    /// Why it is not known which queues have dead letters in them (from outside); `None`: it is, as far as the rest.
    pub dead_unread: Option<String>,
    /// How many dead letters each place has that could be counted, by its name; `None`: it is not known which these are.
    pub dead_places: Option<Arc<BTreeMap<String, u64>>>,
    /// Why the broker takes no publishes at present (from outside); `None`: it does, as far as it is known.
    pub alarm: Option<String>,
    /// What was gone from the broker within the last hour and was made again, or is lost.
    pub incident: Option<String>,
    /// Where our own dead letters are.
    pub dead_letter_queue: Option<QueueName>,
    /// Every queue of the vhost and of the store, by name.
    pub queues: Arc<Vec<Arc<QueueRow>>>,
    /// Every endpoint; not ordered.
    pub endpoints: Arc<Vec<Arc<EndpointRow>>>,
    /// What is tried when, soonest first; those that wait for a person last. At most 1,000.
    pub retries: Arc<Vec<Arc<Retry>>>,
    /// Runs that are not over, the newest 100; without their plans.
    pub runs: Arc<Vec<RunView>>,
    /// Processes that take messages.
    pub incarnations: Arc<Vec<Incarnation>>,
    /// Sums over the rows.
    pub totals: Totals,
    /// What to look at first.
    pub worst: Worst,
}

impl Snapshot {
    /// When the oldest of what it shows was read; `None`: something of it never was.
    #[must_use]
    pub fn read_at(&self) -> Option<Timestamp> {
        let read = |part: &Part| match part.problem {
            None => Some(self.taken_at),
            Some(_) => part.taken_at,
        };
        Some(read(&self.broker)?.min(read(&self.store)?))
    }
}

/// How a part answered when the snapshot was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Part {
    /// Why it could not be read this time (from outside); `None`: it was.
    pub problem: Option<String>,
    /// When what is shown of it was read; `None`: never yet.
    pub taken_at: Option<Timestamp>,
}

impl Part {
    /// Why it could not be read this time, without the words that it is unreachable: who shows the cause says so.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        let problem = self.problem.as_deref()?;
        let is_said = ["broker unreachable during ", "store unreachable during "]
            .iter()
            .any(|words| problem.starts_with(words));
        let cause = problem.split_once(": ").filter(|_| is_said).map(|(_, cause)| cause);
        Some(cause.unwrap_or(problem))
    }
}

/// What is said of a daemon that does not answer, before the cause.
pub(crate) const NOT_ANSWERING: &str = "does not answer";

/// How much does not answer where the broker could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Silent {
    /// All of it: nothing can be delivered.
    Broker,
    /// The management API alone: deliveries need it not.
    Management,
    /// Nothing: its vhost does not exist.
    Vhost,
    /// The daemon that this is attached to: how broker and store are is not known.
    Daemon,
}

/// Sums of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Totals {
    /// Messages in delivery queues, ready and in hand; `None` where one count is missing.
    pub waiting: Option<u64>,
    /// Of those, in queues whose state needs a person or a time: everything but delivering and empty.
    pub stuck: Option<u64>,
    /// Messages for endpoints that are not available; `None` where one count is missing.
    pub down_waiting: Option<u64>,
    /// When the oldest of these was published, where known.
    pub down_oldest_at: Option<Timestamp>,
    /// Dead letters of every dead-letter queue of the vhost that nobody consumes, and dead events.
    pub dead: DeadSum,
    /// Of the dead letters, those of our own family: in its queue and in the store.
    pub dead_own: Option<u64>,
    /// Notifications delivered since this observer began; queues that ended meanwhile are counted.
    pub delivered: u64,
    /// Delivery queues by state, in the order of [`QUEUE_STATES`].
    pub queues_by_state: [u64; QUEUE_STATES.len()],
    /// Endpoints by state, in the order of [`ENDPOINT_STATES`].
    pub endpoints_by_state: [u64; ENDPOINT_STATES.len()],
    /// When the oldest waiting message was published, where known.
    pub oldest_at: Option<Timestamp>,
}

/// The states of a delivery queue, worst first: what needs a person, what waits for a time, the rest.
pub const QUEUE_STATES: [QueueState; 13] = [
    QueueState::Quarantined,
    QueueState::Refused,
    QueueState::Parked,
    QueueState::EndpointDisabled,
    QueueState::BrokerBlocked,
    QueueState::Unowned,
    QueueState::EndpointUnavailable,
    QueueState::WaitingRetry,
    QueueState::Paused,
    QueueState::RateLimited,
    QueueState::Delivering,
    QueueState::Ended,
    QueueState::Empty,
];

/// The states of an endpoint, worst first.
pub const ENDPOINT_STATES: [EndpointState; 4] = [
    EndpointState::Disabled,
    EndpointState::Parked,
    EndpointState::Unavailable,
    EndpointState::Available,
];

impl QueueRow {
    /// The place of its state in [`QUEUE_STATES`]; queues that are not ours to deliver have none.
    #[must_use]
    pub fn rank(&self) -> Option<usize> {
        place(&QUEUE_STATES, &self.state?)
    }
}

impl EndpointRow {
    /// The place of its state in [`ENDPOINT_STATES`].
    #[must_use]
    pub fn rank(&self) -> Option<usize> {
        place(&ENDPOINT_STATES, &self.endpoint.state)
    }

    /// Its place among others: as its rank, and one that somebody paused before those that are sent to.
    #[must_use]
    pub fn order(&self) -> Option<usize> {
        let is_sent_to = self.endpoint.state == EndpointState::Available && self.endpoint.paused().is_none();
        Some(self.rank()? + usize::from(is_sent_to))
    }
}

fn place<T: PartialEq>(states: &[T], state: &T) -> Option<usize> {
    states.iter().position(|one| one == state)
}

impl Totals {
    /// Delivery queues in `state`.
    #[must_use]
    pub fn queues_in(&self, state: QueueState) -> u64 {
        place(&QUEUE_STATES, &state).map_or(0, |place| self.queues_by_state[place])
    }

    /// Endpoints in `state`.
    #[must_use]
    pub fn endpoints_in(&self, state: EndpointState) -> u64 {
        place(&ENDPOINT_STATES, &state).map_or(0, |place| self.endpoints_by_state[place])
    }

    /// Endpoints to which nothing is sent: they are down, or wait for a person.
    #[must_use]
    pub fn endpoints_not_available(&self) -> u64 {
        self.endpoints_by_state.iter().sum::<u64>() - self.endpoints_in(EndpointState::Available)
    }
}
