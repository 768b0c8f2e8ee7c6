//! A state of the modelled world: daemons, the store, the broker's queue, the receiver, and what is on its way.
//!
//! Everything is small and bounded, so that all reachable states can be visited. Messages are numbered from 0, in the
//! order in which they were published. Times are whole deadlines of a request.

use crate::protocol::Protocol;

/// Processes, at most.
pub const DAEMONS: usize = 3;
/// Messages, at most.
pub const MESSAGES: usize = 3;

/// Requests whose sender is gone, at most.
pub const STRAYS: usize = 2;

/// A request ends in this time.
pub const DEADLINE: u8 = 1;
/// Silence after which an incarnation counts as dead: the least that the configuration allows, four deadlines.
pub const TAKE_OVER: u8 = 4 * DEADLINE;
/// How long a heartbeat keeps the fence open, from when it was sent.
pub const SPAN: u8 = TAKE_OVER - 2 * DEADLINE;

/// Where the row of an incarnation stands whose process was started anew, while it still owns the lease.
pub const FORMER: usize = DAEMONS;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub daemons: [Daemon; DAEMONS],
    pub store: Store,
    /// The copy of the store that a restore brings back.
    pub backup: Option<Store>,
    pub queue: Queue,
    /// Of each message, which decisions have a dead letter.
    pub letters: [u8; MESSAGES],
    pub receiver: Receiver,
    /// Requests whose sender is gone, and which still arrive.
    pub strays: [Option<Request>; STRAYS],
    /// Faults that may still happen.
    pub left: Faults,
    pub history: History,
}

/// What is known of the past, for the rules alone: no step depends on it, but for fresh numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// The highest epoch that was ever drawn.
    pub epoch_max: u8,
    /// Of each message, how often a decision about it was made.
    pub decisions: [u8; MESSAGES],
    /// Messages whose ack was given and did not count.
    pub acks_lost: u8,
    /// Rules that were broken, as bits of [`crate::rules::Rule`].
    pub broken: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Daemon {
    pub process: Process,
    /// Whether it has an incarnation: its row is that of its number.
    pub has_begun: bool,
    /// It ends its incarnation, and begins the next one.
    pub is_ending: bool,
    /// How long its fence is still open.
    pub fence: u8,
    pub beat: Beat,
    pub lease: Lease,
    pub channel: Channel,
    pub work: Work,
    /// The open decision, as the lease brought it.
    pub record: Option<Decision>,
    /// Messages that it remembers to have acked (rule 6), as bits.
    pub remembered: u8,
    /// Messages that this process acked, for the rules alone.
    pub acked: u8,
    /// Whom it found dead, and has not marked yet.
    pub condemns: Option<Condemned>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Process {
    Down,
    Running,
    /// Suspended: time passes, nothing is done.
    Frozen,
}

/// The heartbeat that is under way; the number is how long the fence is open if it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Beat {
    None,
    Sent(u8),
    Counted(u8),
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lease {
    None,
    /// The store gave it, and its answer is under way.
    Given(u8),
    Held(u8),
    /// The worker ended, and the store does not know it yet.
    Leaving(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    None,
    Open,
    /// Its connection is gone, which the worker has not noticed.
    Lost,
}

/// What a worker does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    Idle,
    Received(u8),
    /// The fence was asked, and then the store, as a flawed worker does.
    Cleared(u8),
    Attempt {
        message: u8,
        age: u8,
        answer: Answer,
    },
    /// That it is dead is committed.
    Decided(u8),
    /// Its dead letter was published.
    Buried(u8),
    /// The dead message was acked; its decision is still open.
    Closing(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The request is on its way.
    None,
    Accepted,
    /// For what the message is: it becomes a dead letter.
    Rejected,
    /// For the epoch that it came with.
    OldEpoch,
    /// No answer, or one that says *later*.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Condemned {
    pub row: usize,
    /// It sent a heartbeat since.
    pub has_beaten: bool,
}

/// The number tells decisions about one message apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    pub message: u8,
    pub number: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    pub rows: [Row; DAEMONS + 1],
    /// The row of the incarnation that has the lease.
    pub owner: Option<usize>,
    pub epoch: u8,
    pub decision: Option<Decision>,
}

/// An incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Row {
    pub is_alive: bool,
    /// Since its counter moved.
    pub silence: u8,
}

/// The delivery queue: a prefetch of one, a single active consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    /// The first message that is in it; all behind it are, too.
    pub head: u8,
    pub active: Option<Consumer>,
    /// Daemons whose consumers come next.
    pub waiting: [Option<usize>; DAEMONS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Consumer {
    /// None: whose it was is gone, and the broker does not know.
    pub of: Option<usize>,
    /// The head is handed out to it.
    pub holds: bool,
    /// Its ack is under way.
    pub acks: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Receiver {
    /// The highest epoch that it saw.
    pub epoch: u8,
    /// How often it accepted each message.
    pub accepted: [u8; MESSAGES],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub message: u8,
    pub epoch: u8,
}

/// How many of each kind there are in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Of daemons; what they sent may still arrive, and acks may be lost with them.
    pub crashes: u8,
    pub freezes: u8,
    /// The store does not answer a heartbeat in time, and a fence closes.
    pub silences: u8,
    /// Connections to the broker that are lost.
    pub cuts: u8,
    /// Of brokers, which forget acks that they took.
    pub kills: u8,
    pub restores: u8,
    /// A worker lets others have a turn: no fault, but bounded like one.
    pub turns: u8,
    /// Attempts that the receiver puts off.
    pub failures: u8,
    /// Messages that the receiver refuses for good.
    pub rejections: u8,
    /// Answers that are lost on their way.
    pub answers: u8,
}

impl World {
    /// All messages wait, and no daemon runs.
    pub const fn new(left: Faults) -> Self {
        Self {
            daemons: [Daemon::DOWN; DAEMONS],
            store: Store {
                rows: [Row {
                    is_alive: false,
                    silence: 0,
                }; DAEMONS + 1],
                owner: None,
                epoch: 0,
                decision: None,
            },
            backup: None,
            queue: Queue {
                head: 0,
                active: None,
                waiting: [None; DAEMONS],
            },
            letters: [0; MESSAGES],
            receiver: Receiver {
                epoch: 0,
                accepted: [0; MESSAGES],
            },
            strays: [None; STRAYS],
            left,
            history: History {
                epoch_max: 0,
                decisions: [0; MESSAGES],
                acks_lost: 0,
                broken: 0,
            },
        }
    }

    /// Whether the receiver accepted it, or it is a dead letter.
    pub fn is_settled(&self, message: u8) -> bool {
        let at = usize::from(message);
        self.receiver.accepted[at] > 0 || self.letters[at] != 0
    }

    /// Whether the store has gone back.
    pub const fn is_restored(&self, protocol: &Protocol) -> bool {
        protocol.faults.restores > self.left.restores
    }

    /// Whether the process of this incarnation is gone for certain.
    pub fn is_gone(&self, row: usize) -> bool {
        row == FORMER || self.daemons[row].process == Process::Down
    }
}

impl Daemon {
    pub const DOWN: Self = Self {
        process: Process::Down,
        has_begun: false,
        is_ending: false,
        fence: 0,
        beat: Beat::None,
        lease: Lease::None,
        channel: Channel::None,
        work: Work::Idle,
        record: None,
        remembered: 0,
        acked: 0,
        condemns: None,
    };

    pub fn is_running(&self) -> bool {
        self.process == Process::Running
    }

    /// Its epoch, as long as it believes to hold the lease.
    pub const fn epoch(&self) -> Option<u8> {
        match self.lease {
            Lease::Held(epoch) => Some(epoch),
            Lease::None | Lease::Given(_) | Lease::Leaving(_) => None,
        }
    }

    /// A request of it is on its way.
    pub const fn has_open_request(&self) -> bool {
        matches!(
            self.work,
            Work::Attempt {
                answer: Answer::None,
                ..
            }
        )
    }

    /// And it is within its deadline: beyond that only a suspended process has not closed it.
    pub const fn has_young_request(&self) -> bool {
        matches!(
            self.work,
            Work::Attempt {
                age: ..=DEADLINE,
                answer: Answer::None,
                ..
            }
        )
    }

    /// The decision that it knows, if it is about this message.
    pub fn decision_about(&self, message: u8) -> Option<Decision> {
        self.record.filter(|decision| decision.message == message)
    }
}

/// The bit of a message.
pub const fn bit(message: u8) -> u8 {
    1 << message
}
