//! A delivery queue as the store knows it, its state, and the answer to *why is it not moving?*

use super::fingerprint::Fingerprint;
use super::id::{Epoch, ExecutionId, IncarnationId, NotificationId, QueueName};
use super::named::named;
use super::policy::Phase;
use super::text::show;
use super::time::Timestamp;
use super::url::EndpointUrl;

/// How the warning of a queue begins that takes no publishes; the reason follows.
const TAKES_NONE: &str = "takes no publishes: ";

/// That a queue takes no publishes, and why.
#[must_use]
pub fn takes_none(why: &str) -> String {
    format!("{TAKES_NONE}{why}")
}

/// Why a queue with these warnings takes no publishes; `None`: it takes them.
#[must_use]
pub fn why_it_takes_none(warnings: &[String]) -> Option<&str> {
    warnings.iter().find_map(|warning| warning.strip_prefix(TAKES_NONE))
}

/// What a broker queue is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum QueueKind {
    /// The ordered queue of one (execution, url).
    Delivery,
    /// Where dead letters of our delivery are kept, or any dead-letter target.
    DeadLetter,
    /// Feeds the event table.
    Intake,
    /// One of the three queues of a submitted job.
    Job,
    /// Publishers' nudges.
    Wake,
    /// Anybody else's.
    Foreign,
}

named! {
    /// As printed, stored and filtered by.
    QueueKind {
        Self::Delivery => "delivery",
        Self::DeadLetter => "dead_letter",
        Self::Intake => "intake",
        Self::Job => "job",
        Self::Wake => "wake",
        Self::Foreign => "foreign",
    }
}

/// The state of a delivery queue, as printed (docs/contract.md, *Documents*).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum QueueState {
    /// A worker holds it.
    Delivering,
    /// Nothing in it.
    Empty,
    /// Its head failed and waits on its own schedule.
    WaitingRetry,
    /// Its URL is unavailable.
    EndpointUnavailable,
    /// Its schedule, or its URL's, is used up: waits for a person.
    Parked,
    /// Its URL answered 410 or was disabled by a person.
    EndpointDisabled,
    /// A person paused it.
    Paused,
    /// Its endpoint's rate is used up.
    RateLimited,
    /// There is something to do and nobody to do it.
    Unowned,
    /// The broker takes nothing (alarm).
    BrokerBlocked,
    /// A broker policy or argument breaks order, or destroys what waits.
    Refused,
    /// Its head kills every client that reads it.
    Quarantined,
    /// It ended and is being deleted.
    Ended,
}

impl QueueState {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Delivering,
        Self::Empty,
        Self::WaitingRetry,
        Self::EndpointUnavailable,
        Self::Parked,
        Self::EndpointDisabled,
        Self::Paused,
        Self::RateLimited,
        Self::Unowned,
        Self::BrokerBlocked,
        Self::Refused,
        Self::Quarantined,
        Self::Ended,
    ];

    /// What a filter may call any of them.
    pub const WORDS: [&'static str; 21] = [
        "delivering",
        "empty",
        "waiting_retry",
        "endpoint_unavailable",
        "unavailable",
        "parked",
        "endpoint_disabled",
        "disabled",
        "paused",
        "rate_limited",
        "unowned",
        "broker_blocked",
        "refused",
        "quarantined",
        "ended",
        "waiting for retry",
        "endpoint down",
        "endpoint disabled",
        "rate limited",
        "queued",
        "broker blocked",
    ];

    /// As printed and filtered by.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivering => "delivering",
            Self::Empty => "empty",
            Self::WaitingRetry => "waiting_retry",
            Self::EndpointUnavailable => "endpoint_unavailable",
            Self::Parked => "parked",
            Self::EndpointDisabled => "endpoint_disabled",
            Self::Paused => "paused",
            Self::RateLimited => "rate_limited",
            Self::Unowned => "unowned",
            Self::BrokerBlocked => "broker_blocked",
            Self::Refused => "refused",
            Self::Quarantined => "quarantined",
            Self::Ended => "ended",
        }
    }

    /// In plain words, as a screen says it.
    #[must_use]
    pub const fn plain(self) -> &'static str {
        match self {
            Self::EndpointUnavailable => "endpoint down",
            Self::EndpointDisabled => "endpoint disabled",
            Self::WaitingRetry => "waiting for retry",
            Self::BrokerBlocked => "broker blocked",
            Self::RateLimited => "rate limited",
            Self::Unowned => "queued",
            Self::Delivering
            | Self::Empty
            | Self::Parked
            | Self::Paused
            | Self::Refused
            | Self::Quarantined
            | Self::Ended => self.as_str(),
        }
    }

    /// What a filter may call it, the printed word first: a queue that waits for its endpoint also goes by
    /// the endpoint's state, and each by what a screen says.
    #[must_use]
    pub const fn words(self) -> &'static [&'static str] {
        match self {
            Self::Delivering => &["delivering"],
            Self::Empty => &["empty"],
            Self::WaitingRetry => &["waiting_retry", "waiting for retry"],
            Self::EndpointUnavailable => &["endpoint_unavailable", "unavailable", "endpoint down"],
            Self::Parked => &["parked"],
            Self::EndpointDisabled => &["endpoint_disabled", "disabled", "endpoint disabled"],
            Self::Paused => &["paused"],
            Self::RateLimited => &["rate_limited", "rate limited"],
            Self::Unowned => &["unowned", "queued"],
            Self::BrokerBlocked => &["broker_blocked", "broker blocked"],
            Self::Refused => &["refused"],
            Self::Quarantined => &["quarantined"],
            Self::Ended => &["ended"],
        }
    }
}

/// Why a queue moves or does not: one code, one sentence, and until when where that is known.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Why {
    /// The state whose reason this is; `None`: whether anything waits is not known.
    pub state: Option<QueueState>,
    /// One sentence for an operator.
    pub text: String,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
}

/// Who paused a queue.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pause {
    /// The actor.
    pub by: String,
    /// Their reason.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

impl Pause {
    /// Who paused it, and why, for people.
    #[must_use]
    pub fn in_words(&self) -> String {
        let because = self
            .reason
            .as_deref()
            .map(|reason| format!(": {}", show(reason, 120)))
            .unwrap_or_default();
        format!("paused by {}{because}", show(&self.by, 60))
    }
}

/// The message at the head of a queue that failed at least once (stored only with a failure).
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Head {
    /// Which message.
    pub message: NotificationId,
    /// Which of those with this id; `None` of a row that an older program wrote.
    pub fingerprint: Option<Fingerprint>,
    /// Failed attempts that count.
    pub failures: u32,
    /// First failure.
    pub first_failed_at: Timestamp,
    /// Last failure.
    pub last_failed_at: Timestamp,
    /// Status of the last failure.
    pub last_status: Option<u16>,
    /// Error of the last failure (bounded, from outside).
    pub last_error: Option<String>,
    /// The queue's own schedule says when it is tried next; `None`: it waits with its URL, or is parked.
    pub next_attempt_at: Option<Timestamp>,
    /// The queue's own schedule is used up: it waits for a person.
    pub parked: bool,
    /// The phase of the next attempt.
    pub phase: Option<Phase>,
    /// Number of attempts that the schedule allows, the first included.
    pub attempts_allowed: u32,
}

impl Head {
    /// Whether it is this message that failed (docs/protocols.md 31).
    #[must_use]
    pub fn is_about(&self, message: &NotificationId, fingerprint: Fingerprint) -> bool {
        is_same((&self.message, self.fingerprint), message, fingerprint)
    }
}

/// A decision about the head that was committed before it was carried out (docs/protocols.md 17).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its id; copies of one dead letter collapse by it.
    pub id: String,
    /// The message it is about.
    pub message: NotificationId,
    /// Which of those with this id; `None` of a row that an older program wrote.
    pub fingerprint: Option<Fingerprint>,
    /// Why: `exhausted`, `refused`, `undecodable`, …
    pub reason: String,
    /// Under which lease it was made.
    pub epoch: Epoch,
}

impl Decision {
    /// Whether it was made about this message (docs/protocols.md 31).
    #[must_use]
    pub fn is_about(&self, message: &NotificationId, fingerprint: Fingerprint) -> bool {
        is_same((&self.message, self.fingerprint), message, fingerprint)
    }
}

/// What an older program wrote has the id alone.
fn is_same(
    (known, print): (&NotificationId, Option<Fingerprint>),
    message: &NotificationId,
    fingerprint: Fingerprint,
) -> bool {
    known == message && print.is_none_or(|print| print == fingerprint)
}

/// Where a deletion or an ending of a queue stands (docs/protocols.md 8 and 11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Closing {
    /// In use.
    #[default]
    Open,
    /// The end mark was taken; the queue goes when it is empty.
    Ended,
    /// Unbound, about to be deleted.
    Closing,
}

/// A queue's row in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueRecord {
    /// Its name on the broker.
    pub name: QueueName,
    /// Its execution, once learned.
    pub execution: Option<ExecutionId>,
    /// Its URL, once learned.
    pub url: Option<EndpointUrl>,
    /// The last epoch drawn for it.
    pub epoch: Epoch,
    /// Who holds the lease.
    pub owner: Option<IncarnationId>,
    /// Paused by a person.
    pub pause: Option<Pause>,
    /// The run, browser or purge that wants the lease next; it counts while that lives.
    pub wanted_by: Option<IncarnationId>,
    /// Ending or being deleted.
    pub closing: Closing,
    /// Not delivered because of a broker policy or argument that breaks order.
    pub refused: Option<String>,
    /// Unbound because a broker policy destroys what waits; delivery of what is there goes on.
    pub refusing: Option<String>,
    /// Its head kills clients.
    pub quarantined: Option<String>,
    /// Whether its companion `NAME.head` exists.
    pub has_companion: bool,
    /// The head, when it failed.
    pub head: Option<Head>,
    /// A decision not yet carried out.
    pub decision: Option<Decision>,
    /// Refusals in a row, without a 2xx between.
    pub refusals_in_row: u32,
    /// Notifications delivered (2xx) from it.
    pub delivered: u64,
    /// The last 2xx.
    pub last_delivered_at: Option<Timestamp>,
    /// Last sign of life: published through us, attached, delivered.
    pub active_at: Timestamp,
    /// First seen.
    pub created_at: Timestamp,
}

impl QueueRecord {
    /// The row of a queue of which nothing but its name is known.
    #[must_use]
    pub fn new(name: &QueueName, now: Timestamp) -> Self {
        Self {
            name: name.clone(),
            execution: None,
            url: None,
            epoch: Epoch(0),
            owner: None,
            pause: None,
            wanted_by: None,
            closing: Closing::Open,
            refused: None,
            refusing: None,
            quarantined: None,
            has_companion: false,
            head: None,
            decision: None,
            refusals_in_row: 0,
            delivered: 0,
            last_delivered_at: None,
            active_at: now,
            created_at: now,
        }
    }
}
