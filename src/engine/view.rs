//! What the engine shows: queues, endpoints, retries and the rest in the operator's words.
//!
//! A number that is not known is `None`; every list says when it was taken. Text that came from
//! outside is still raw here: fronts show it through `domain::text`.

use std::fmt::Write as _;
use std::time::Duration;

use crate::domain::as_text;
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::Endpoint;
use crate::domain::findings::Finding;
use crate::domain::id::{ExecutionId, NotificationId, QueueName};
use crate::domain::message::Message;
use crate::domain::named::named;
use crate::domain::on_broker::OnBroker;
use crate::domain::policy::Phase;
use crate::domain::queue::{Head, Pause, QueueKind, QueueState, Why};
use crate::domain::series::{Moving, Point};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::domain::words::{count, counted_retry, plural};

/// Which queues.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct QueuesQuery {
    /// A filter expression (docs/contract.md, *Filters*).
    pub filter: Option<String>,
    /// A column, with a leading `-` for descending.
    pub sort: Option<String>,
    /// At most this many (1 to 1,000).
    pub limit: u32,
    /// Where to go on.
    pub cursor: Option<String>,
}

/// Which endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EndpointsQuery {
    /// Only those that are not available, or take nothing before a person resumes them.
    pub not_available: bool,
    /// At most this many.
    pub limit: u32,
    /// Where to go on.
    pub cursor: Option<String>,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct QueueView {
    /// Its name on the broker.
    pub name: QueueName,
    /// What it is for.
    pub kind: QueueKind,
    /// Its execution, when it is a delivery queue and that is known.
    pub execution: Option<ExecutionId>,
    /// Its URL, when it is a delivery queue and that is known.
    pub url: Option<EndpointUrl>,
    /// Messages ready.
    pub ready: Option<u64>,
    /// Messages in somebody's hand.
    pub unacked: Option<u64>,
    /// Its state; `None` for queues that are not ours to deliver, and where whether anything waits is not known.
    pub state: Option<QueueState>,
    /// Why it moves or does not.
    pub why: Option<Why>,
    /// Name of the incarnation that holds it.
    pub owner: Option<String>,
    /// Age of the oldest message.
    pub oldest_age: Option<Duration>,
    /// When the head is tried next.
    pub next_attempt_at: Option<Timestamp>,
    /// Who paused it.
    pub paused: Option<Pause>,
    /// Its head, when that failed.
    pub head: Option<Head>,
    /// Notifications delivered from it.
    pub delivered: Option<u64>,
    /// What an operator should mend.
    pub warnings: Vec<String>,
    /// What its arguments and the broker's policies will do to it in silence.
    pub findings: Vec<Finding>,
    /// How the broker has it, where it was asked for alone and redrive does not deliver from it.
    pub on_broker: Option<Box<OnBroker>>,
    /// When the numbers were read.
    pub taken_at: Timestamp,
    /// What of it could not be read, where it was asked for alone.
    pub problems: Vec<Unread>,
}

impl QueueView {
    /// Messages ready and in hand, where the first is known.
    #[must_use]
    pub fn depth(&self) -> Option<u64> {
        self.ready.map(|ready| ready.saturating_add(self.unacked.unwrap_or(0)))
    }

    /// What there is to say of a queue that no daemon delivers from; `None` for a delivery queue, which has a `why`.
    #[must_use]
    pub fn not_delivered(&self) -> Option<String> {
        let what = match self.kind {
            QueueKind::Delivery => return None,
            QueueKind::DeadLetter => "it keeps dead letters",
            QueueKind::Wake => "it tells daemons of new work",
            QueueKind::Intake => "its messages become events",
            QueueKind::Job => "it is a job's",
            QueueKind::Foreign => "it is of other applications",
        };
        let mut text = format!("redrive does not deliver from it: {what}");
        if let Some(on_broker) = &self.on_broker {
            text = text + "; " + &on_broker.sentence(self.ready, self.unacked, self.taken_at);
        } else if let Some(ready) = self.ready {
            let waits = if ready == 1 { "waits" } else { "wait" };
            let _ = write!(text, "; {} {waits}", plural(ready, "message", "messages"));
            match self.unacked {
                Some(0) => text += " and no consumer has one",
                Some(unacked) => text = text + " and consumers have " + &count(unacked),
                None => {}
            }
        }
        for finding in &self.findings {
            text = text + "; " + &finding.effect;
        }
        Some(text)
    }
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EndpointView {
    /// Its row.
    pub endpoint: Endpoint,
    /// Its queues.
    pub queues: u64,
    /// Messages that wait for it, where known.
    pub waiting: Option<u64>,
    /// When it was looked at.
    pub taken_at: Timestamp,
    /// What of it could not be read, where it was asked for alone.
    pub problems: Vec<Unread>,
}

/// How a queue or an endpoint moves.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RateRow {
    /// The queue; `None`: it is about the endpoint.
    pub queue: Option<QueueName>,
    /// The endpoint, where known.
    pub url: Option<EndpointUrl>,
    /// Messages that wait there, where known.
    pub waiting: Option<u64>,
    /// How it moves.
    pub moving: Moving,
}

/// How one of them moved over a time.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RateSeries {
    /// Seconds of a step.
    pub step_s: u64,
    /// When it was read.
    pub taken_at: Timestamp,
    /// The steps, oldest first.
    pub points: Vec<RatePoint>,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RatePoint {
    /// When it began.
    pub at: Timestamp,
    /// What happened in it.
    pub point: Point,
}

/// What is tried when.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Retry {
    /// When; `None`: waits for a person.
    pub at: Option<Timestamp>,
    /// The queue whose head is tried.
    pub queue: Option<QueueName>,
    /// Where to.
    pub url: Option<EndpointUrl>,
    /// Which message.
    pub message: Option<NotificationId>,
    /// In which phase of the schedule.
    pub phase: Option<Phase>,
    /// Which attempt it will be (2 for the first retry).
    pub attempt: u32,
    /// Of how many; `None`: not known, as it is not known which message it is.
    pub of: Option<u32>,
}

impl Retry {
    /// How many attempts it is about, in words.
    #[must_use]
    pub fn counted(&self) -> String {
        counted_retry(self.at.as_ref(), self.attempt, self.of)
    }
}

/// A message that was looked at.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct BrowsedMessage {
    /// 1 for the head.
    pub position: u32,
    /// As the broker has it.
    pub message: Message,
    /// Why it cannot be delivered, when it is not one of ours.
    pub foreign: Option<String>,
    /// Whether the broker says that somebody had it before.
    pub redelivered: bool,
}

/// A page of something with the time at which it was read.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Opaque; where the next page begins.
    pub next_cursor: Option<String>,
    /// When it was read.
    pub taken_at: Timestamp,
    /// What could not be read, so that there may be more than this, or numbers are missing.
    pub problems: Vec<Unread>,
}

/// Where numbers are read from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Source {
    /// The broker itself.
    Broker,
    /// The broker's management API: which queues there are, and their statistics.
    Management,
    /// The store.
    Store,
    /// One queue.
    Queue(QueueName),
    /// The daemon that this process is attached to.
    Daemon,
}

impl Source {
    /// Its name: `broker`, `management`, `store`, `daemon` or `queue NAME`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Broker => "broker".to_owned(),
            Self::Management => "management".to_owned(),
            Self::Store => "store".to_owned(),
            Self::Queue(queue) => format!("queue {}", queue.as_str()),
            Self::Daemon => "daemon".to_owned(),
        }
    }
}

/// What an answer lacks: something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Unread {
    /// Where it would have come from.
    pub source: Source,
    /// Why it could not be read.
    pub reason: String,
    /// Since when this process cannot read it.
    pub since: Timestamp,
}

/// One check of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Check {
    /// `broker`, `management`, `store`, `clock`, …
    pub name: String,
    /// How it is.
    pub result: CheckResult,
    /// What was found.
    pub found: String,
    /// What to do, when it is not fine.
    pub mend: Option<String>,
}

impl Check {
    /// Nothing is to be mended.
    #[must_use]
    pub fn fine(name: &str, found: String) -> Self {
        Self::new(name, CheckResult::Fine, found, None)
    }

    /// It works, and something is wrong.
    #[must_use]
    pub fn warning(name: &str, found: String, mend: &str) -> Self {
        Self::new(name, CheckResult::Warning, found, Some(mend))
    }

    /// It does not work.
    #[must_use]
    pub fn broken(name: &str, found: String, mend: &str) -> Self {
        Self::new(name, CheckResult::Broken, found, Some(mend))
    }

    /// It could not be looked at, so that nothing is known of it.
    #[must_use]
    pub fn unread(name: &str, why: &str) -> Self {
        let mend = "see what broker, management and store say above: this is judged when they can be read";
        Self::warning(name, format!("not known: {why}"), mend)
    }

    fn new(name: &str, result: CheckResult, found: String, mend: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            result,
            found,
            mend: mend.map(str::to_owned),
        }
    }
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum CheckResult {
    /// Fine.
    Fine,
    /// Works, but should be mended.
    Warning,
    /// Does not work.
    Broken,
}

named! {
    /// As printed.
    CheckResult {
        Self::Fine => "fine",
        Self::Warning => "warning",
        Self::Broken => "broken",
    }
}

/// Whether everything that delivery needs works, as found within the last seconds.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Readiness {
    /// Login, vhost, limits, rights, exchange and queues on the broker.
    pub broker: PartState,
    /// Whether the store takes writes.
    pub store: PartState,
    /// Whether this process delivers, and why not.
    pub delivering: PartState,
    /// The management API, which delivery does not need; `None`: the broker has none.
    pub management: Option<PartState>,
    /// What does not work and stops no delivery.
    pub degraded: Vec<Degraded>,
}

/// How a part is.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PartState {
    /// Why it does not work; `None`: it does.
    pub problem: Option<String>,
    /// Since when it is so.
    pub since: Timestamp,
}

/// A part that does not work, and that delivery can do without.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Degraded {
    /// `management`: depths and policies are unknown; `publishing`: the broker takes nothing (alarm), or would lose
    /// what it takes (a policy of our exchange); `queues`: it refuses that some are consumed.
    #[serde(deserialize_with = "as_text::word::deserialize")]
    pub part: as_text::Word,
    /// Why.
    pub problem: String,
    /// Since when.
    pub since: Timestamp,
}

/// The attempt log as shown.
pub type AttemptView = Attempt;
