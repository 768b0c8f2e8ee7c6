//! What goes in and out of the broker seam: plain data.

use std::time::Duration;

use crate::domain::broker_rules::Declared;
use crate::domain::id::QueueName;
use crate::domain::message::Message;
use crate::domain::naming::QueueType;
use crate::domain::time::Timestamp;

/// The result of publishing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// Stored: confirmed and not returned.
    Accepted,
    /// No queue takes it: the queue is gone, or is being deleted, or is refusing.
    Returned,
    /// The broker takes no such message, now or later: it is too large, or a property is none that it allows.
    Refused(String),
    /// The broker does not take it at present: the queue is full, or its node failed.
    NotNow(String),
}

/// A message and where it is published to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// The exchange; empty for the default exchange, where a queue's name is its key.
    pub exchange: String,
    /// The routing key.
    pub routing_key: String,
    /// The message.
    pub message: Message,
}

/// Whether the vhost of the settings exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VhostFound {
    /// It does.
    There,
    /// It does not.
    Missing {
        /// Why it cannot be made from here; `None`: it can.
        cannot: Option<String>,
    },
}

/// What stands of all that is ours on the broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// What is gone, each with its kind.
    pub missing: Vec<String>,
    /// Whether the exchange says that every queue of the store is bound to it ([`super::Vhost::mark_bound`]). A new
    /// exchange does not.
    pub is_bound: bool,
}

/// Whose the broker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody wrote it there yet.
    Nobody,
    /// The store that was asked for.
    Ours,
    /// Another store; its identity, where the broker tells it.
    Other(Option<String>),
}

/// An exact look at a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It does not exist.
    Missing,
    /// It exists.
    Present {
        /// Messages ready.
        ready: u64,
        /// Consumers attached.
        consumers: u64,
    },
}

/// The result of deleting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// Gone.
    Deleted,
    /// It is not empty, or in use: nothing was done.
    InUse,
    /// It was not there.
    Missing,
}

/// How to attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachOptions {
    /// Unsettled messages at once (1 on quorum queues whatever is asked).
    pub prefetch: u16,
    /// Whether the queue is bound first (not for a refusing one).
    pub bind: bool,
    /// Which queue of the pair.
    pub part: QueuePart,
}

/// A delivery queue or its companion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueuePart {
    /// The queue itself.
    #[default]
    Queue,
    /// `NAME.head`.
    Companion,
}

/// The result of attaching.
pub enum AttachOutcome {
    /// Consuming.
    Attached(Box<dyn super::Attached>),
    /// The queue does not exist.
    Missing,
    /// Reading its head killed a connection that only this queue used: quarantine it.
    Poison(String),
}

/// What comes from an attached queue.
#[derive(Clone, Debug)]
pub enum Next {
    /// A message to settle.
    Message(Box<Delivery>),
    /// The next one has more bytes than there is room for, so many, and was left where it is.
    Larger(usize),
    /// Ownership is lost (connection, channel or queue gone): do not go on.
    Lost(Lost),
}

/// Why an attachment ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Connection or channel.
    Connection(String),
    /// The queue was deleted or its node went away (server-side cancel).
    Cancelled,
    /// The connection died of something it could not decode: it may be in this queue.
    Undecodable(String),
}

/// Names an unsettled message within its attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeliveryTag(pub u64);

/// A message in hand.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// To settle it with.
    pub tag: DeliveryTag,
    /// Whether the broker says that somebody had it before (proves nothing).
    pub redelivered: bool,
    /// The routing key that it was published with, where that is not the name of the queue: a copy by `CC` or `BCC`
    /// comes with the first key of its publish.
    pub addressed_to: Option<String>,
    /// The message.
    pub message: Message,
}

/// The result of an ack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acked {
    /// Sent to the broker (embedded: committed).
    Sent,
    /// Nothing was sent: the channel is gone.
    Lost,
}

/// A message that was looked at and put back.
#[derive(Clone, Debug)]
pub struct Browsed {
    /// 1 for the head.
    pub position: u32,
    /// Whether the broker says that somebody had it before.
    pub redelivered: bool,
    /// The message.
    pub message: Message,
}

/// Why an auto-delete queue is not consumed.
pub(super) const AUTO_DELETE: &str = "it is auto-delete: RabbitMQ would delete it with all its messages as soon as redrive stopped consuming it. \
     Bind a queue without auto-delete instead";

/// Where a queue puts what is given back (docs/rabbitmq.md, *Where a returned message goes*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// In its place, as a classic queue does.
    InPlace,
    /// Behind what was given back before, as a quorum queue does: before a walk gives anything back it takes all of that too,
    /// which keeps the order and counts as delivered.
    InTurn,
    /// The same, but nothing is taken that was not asked for, because each delivery counts or the others stay where they
    /// are: what is given back may change places.
    AsTaken,
}

impl Returns {
    /// Of a queue of this type; `counted` is how many returns its messages outlive, where that is limited.
    #[must_use]
    pub const fn of(queue_type: QueueType, counted: Option<u64>) -> Self {
        match (queue_type, counted) {
            (QueueType::Classic, _) => Self::InPlace,
            (QueueType::Quorum, None) => Self::InTurn,
            (QueueType::Quorum, Some(_)) => Self::AsTaken,
        }
    }

    /// Whether it is a quorum queue.
    #[must_use]
    pub const fn is_quorum(self) -> bool {
        !matches!(self, Self::InPlace)
    }
}

/// How to walk a queue. Whoever walks one says where it puts what is given back: nothing stands for that by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkOptions {
    /// Messages that the client may have in memory ahead of the caller, at most; more on quorum queues, but for 1, with
    /// which nothing comes that is not asked for.
    pub window_messages: u32,
    /// Bytes of bodies that it may have in memory, as far as the sizes before let one tell.
    pub window_bytes: usize,
    /// Where it puts what is given back. A quorum queue keeps that in order only within bounds: there a walk that settles
    /// nothing may be cut ([`super::Walk::is_cut`]).
    pub returns: Returns,
    /// Whether it goes on to the end of the queue whatever it meets: then the next window may be asked for as soon as one is
    /// taken, and comes while the caller works on that. What is asked for counts as delivered.
    pub whole: bool,
    /// It takes no more messages than so many: the broker is asked for no other one, and what is settled makes no room.
    pub at_most: Option<u64>,
}

impl WalkOptions {
    /// With the usual windows, of a queue that puts there what is given back.
    #[must_use]
    pub const fn new(returns: Returns) -> Self {
        Self {
            window_messages: 2000,
            window_bytes: 8 << 20,
            returns,
            whole: false,
            at_most: None,
        }
    }
}

/// A message in the hand of a walk, or of an intake.
#[derive(Clone, Debug)]
pub struct Walked {
    /// To settle it with.
    pub tag: DeliveryTag,
    /// 1 for the first of this walk or intake.
    pub position: u64,
    /// Whether the broker says that somebody had it before.
    pub redelivered: bool,
    /// The exchange that it came into the queue through; empty for the default exchange.
    pub exchange: String,
    /// The routing key that it came with.
    pub routing_key: String,
    /// The message.
    pub message: Message,
}

/// A queue of others whose messages we take in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntakeQueue {
    /// Its vhost (the embedded broker has one).
    pub vhost: String,
    /// Its name.
    pub name: QueueName,
    /// The exchange that it is bound to.
    pub exchange: Option<String>,
    /// The routing keys, or patterns of them, that it is bound with; none: everything.
    pub bindings: Vec<String>,
}

impl IntakeQueue {
    /// The keys that it is bound with.
    #[must_use]
    pub fn keys(&self) -> Vec<&str> {
        if self.bindings.is_empty() {
            vec!["#"]
        } else {
            self.bindings.iter().map(String::as_str).collect()
        }
    }
}

/// An exchange and what is bound to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExchangeDetail {
    /// `direct`, `fanout`, `topic`, `headers`, or a plugin's.
    pub kind: String,
    /// Name of the ordinary policy in effect.
    pub policy: Option<String>,
    /// The exchange that gets what nothing bound takes, by argument or policy.
    pub alternate: Option<String>,
    /// What it routes to.
    pub bindings: Vec<ExchangeBinding>,
}

/// One binding of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeBinding {
    /// The queue or exchange.
    pub destination: String,
    /// Whether that is an exchange.
    pub to_exchange: bool,
    /// The binding's key.
    pub routing_key: String,
}

/// What is listed with statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// The queues.
    pub which: WhichQueues,
    /// Whether [`ListedQueue::bytes`] is wanted, for which the embedded broker reads each message.
    pub bytes: bool,
}

/// Some of the vhost's queues, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhichQueues {
    /// All.
    All,
    /// Whose names contain this (never a pattern).
    Containing(String),
    /// That have not the form of this broker's delivery queues (`Naming::is_delivery_queue`). Among very many delivery
    /// queues these few are listed as quickly as one page.
    ButDelivery,
}

/// Without bytes.
impl From<WhichQueues> for ListRequest {
    fn from(which: WhichQueues) -> Self {
        Self { which, bytes: false }
    }
}

/// Queues, or a page of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueuePage {
    /// By name.
    pub queues: Vec<ListedQueue>,
    /// Whether there may be another page.
    pub more: bool,
    /// How many there are in all, where known.
    pub total: Option<u64>,
    /// How long the broker took.
    pub took: Duration,
}

/// A queue as the broker lists it. A number that is not known is `None`, never zero.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedQueue {
    /// Its name.
    pub name: QueueName,
    /// `classic`, `quorum`, …
    pub queue_type: Option<String>,
    /// Messages ready.
    pub ready: Option<u64>,
    /// Messages delivered and not settled.
    pub unacked: Option<u64>,
    /// Bytes of the bodies of its messages.
    pub bytes: Option<u64>,
    /// Consumers.
    pub consumers: Option<u64>,
    /// When the message at the head was created, as its publisher said (management:
    /// `head_message_timestamp`).
    pub oldest_at: Option<Timestamp>,
    /// Since when nobody uses it, as the broker says.
    pub idle_since: Option<Timestamp>,
    /// The broker's state: `running`, `down`, `minority`, …
    pub state: Option<String>,
    /// Whether the broker deletes it, with all that is in it, when its last consumer is gone; where it is asked for alone
    /// or by pages.
    pub auto_delete: bool,
    /// Arguments with effect on order or life, as text: `x-queue-type`, `x-expires`, `x-delivery-limit`, …
    pub arguments: Vec<(String, String)>,
    /// How often a message of it was delivered that was delivered before, since the broker's node began; where it is
    /// asked for alone and the broker counts.
    pub redelivered: Option<u64>,
    /// Name of the policy in effect.
    pub policy: Option<String>,
    /// When these numbers were read.
    pub taken_at: Timestamp,
}

impl ListedQueue {
    /// As policies are matched with it; a type that is not told counts as classic.
    #[must_use]
    pub fn declared(&self) -> Declared<'_> {
        Declared {
            name: self.name.as_str(),
            queue_type: match self.queue_type.as_deref() {
                Some("quorum") => QueueType::Quorum,
                Some(_) | None => QueueType::Classic,
            },
            arguments: &self.arguments,
        }
    }

    /// Whether it keeps what was taken, and drops by age alone.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.queue_type.as_deref() == Some("stream")
    }

    /// Why nothing is taken from it, not even to look at it.
    #[must_use]
    pub fn not_consumed(&self) -> Option<&'static str> {
        if self.auto_delete {
            return Some(AUTO_DELETE);
        }
        self.is_stream()
            .then_some("it is a stream, from which no message can be taken: redrive works on classic and quorum queues")
    }
}

/// A policy or operator policy of the vhost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerPolicy {
    /// Its name.
    pub name: String,
    /// Regular expression over names.
    pub pattern: String,
    /// `queues`, `classic_queues`, `quorum_queues`, `exchanges`, `all`, …
    pub applies_to: String,
    /// The highest one that matches wins.
    pub priority: i64,
    /// An operator policy is merged with the winner.
    pub operator: bool,
    /// Keys and values as text.
    pub definition: Vec<(String, String)>,
}

/// What happened on the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A publisher says that this queue has something.
    Nudged(QueueName),
    /// A queue was created.
    QueueCreated(QueueName),
    /// A queue was deleted, and by whom where that is known.
    QueueDeleted {
        /// Its name.
        queue: QueueName,
        /// The user; `None`: the broker itself (expired).
        by: Option<String>,
    },
    /// Policies changed.
    PolicyChanged,
    /// Publishing is blocked (alarm).
    Blocked(String),
    /// Publishing goes on.
    Unblocked,
    /// The wake queue, which nobody deletes, was deleted: others of ours may be gone with it.
    WakeQueueGone,
    /// All connections were lost.
    Down(String),
    /// The broker is there (again).
    Up,
}

/// Whether the broker tells of queues that are made and deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EventExchange {
    /// It has no such exchange, or nobody looked yet.
    #[default]
    Absent,
    /// It does.
    There,
    /// The user of the connection may not use it.
    Refused {
        /// What is missing.
        found: String,
        /// How to grant it.
        mend: String,
    },
}

/// What is known of the broker at present.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BrokerHealth {
    /// Whether it can be reached.
    pub reachable: bool,
    /// Why not.
    pub problem: Option<String>,
    /// The user whom it does not let in, because the name or the password is wrong.
    pub wrong_login: Option<String>,
    /// What helps against it, where that is more than another address.
    pub mend: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Whether the management API answers.
    pub management: bool,
    /// Why it does not.
    pub management_problem: Option<String>,
    /// What helps against that, where it is known.
    pub management_mend: Option<String>,
    /// Whether the event exchange can be used.
    pub events: EventExchange,
    /// Alarms that block publishers.
    pub blocked: Option<String>,
    /// What an operator should mend, a sentence each.
    pub warnings: Vec<String>,
    /// The nodes of the cluster, where the user may ask for them.
    pub nodes: Vec<BrokerNode>,
    /// The names of connections to this vhost that the broker lets send nothing, because they publish during an alarm.
    pub blocked_connections: Vec<String>,
}

/// A node of the broker's cluster. What is missing is not known, never zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerNode {
    /// Its name: `rabbit@db-7`.
    pub name: String,
    /// Whether it runs.
    pub running: Option<bool>,
    /// Bytes of memory in use.
    pub memory: Option<u64>,
    /// Bytes from which on it takes no publishes.
    pub memory_limit: Option<u64>,
    /// Bytes that are free on its disk.
    pub disk_free: Option<u64>,
    /// Bytes below which it takes no publishes.
    pub disk_limit: Option<u64>,
    /// Files and sockets that are open.
    pub files: Option<u64>,
    /// How many may be.
    pub files_limit: Option<u64>,
    /// Whether it takes no publishes for its memory, or its disk.
    pub alarm: bool,
}
