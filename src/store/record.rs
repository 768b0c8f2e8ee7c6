//! The parameters and results of the store's methods: plain data.

use std::time::Duration;

use crate::domain::attempt::Attempt;
use crate::domain::endpoint::{Endpoint, EndpointChange};
use crate::domain::fingerprint::Fingerprint;
use crate::domain::id::{EndpointEpoch, Epoch, ExecutionId, IncarnationId, NotificationId, QueueName};
use crate::domain::naming::Naming;
use crate::domain::pace;
use crate::domain::policy::Published;
use crate::domain::queue::{Closing, Decision, Head, QueueRecord};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

use super::HeadTerms;

/// What a new incarnation says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewIncarnation {
    /// Also the name of its broker connections.
    pub name: String,
    /// Host name, for people.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// What tells the process from others of its machine.
    pub process: ProcessMark,
    /// Silence for this long is death where there is no better evidence.
    pub take_over: Duration,
    /// How long one attempt of it may take: with the take-over time it says when its fence closes.
    pub deadline: Duration,
    /// Program version as a number that only grows (major·1,000,000 + minor·1,000 + patch).
    pub version: i64,
    /// The settings that all must share; `None` for a process that delivers nothing.
    pub naming: Option<Naming>,
    /// Whether it may put its settings in the place of others, of which nobody alive and no queue is left: not a process
    /// that they disowned, or the two would take turns for ever.
    pub replaces_settings: bool,
}

impl NewIncarnation {
    /// The fingerprint of its settings.
    #[must_use]
    pub fn fingerprint(&self) -> Option<String> {
        self.naming.as_ref().map(Naming::fingerprint)
    }
}

/// What tells a process from others of its machine, as far as the system says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProcessMark {
    /// The machine since its boot, and the namespace of process ids: where it is equal, so are the ids' meanings.
    pub machine: Option<String>,
    /// When the process started, in the machine's own ticks.
    pub started: Option<i64>,
}

/// The result of beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It lives.
    Alive(IncarnationId),
    /// Other settings are in use.
    OtherSettings {
        /// The fingerprint in use.
        found: String,
        /// A living daemon that works with them.
        living: Option<String>,
        /// Number of delivery queues that exist under it.
        queues: u64,
    },
    /// The store demands at least this version.
    TooOld {
        /// The minimum version.
        minimum: i64,
    },
}

/// The result of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// Counted.
    Alive,
    /// Marked dead by somebody, or no longer allowed: start nothing more.
    Disowned,
}

/// What is known of an incarnation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Incarnation {
    /// Its id.
    pub id: IncarnationId,
    /// Its name.
    pub name: String,
    /// Its host.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// What tells its process from others of its machine.
    pub process: ProcessMark,
    /// Heartbeats so far.
    pub counter: i64,
    /// Whether nobody marked it dead and it did not end.
    pub alive: bool,
    /// Whether it delivers (has a fingerprint).
    pub delivers: bool,
    /// Its take-over time.
    pub take_over: Duration,
    /// How long one attempt of it may take; `None`: it began under a program that did not say.
    pub deadline: Option<Duration>,
    /// When it began.
    pub started_at: Timestamp,
    /// Its last heartbeat.
    pub beat_at: Timestamp,
    /// Leases it holds.
    pub leases: u64,
}

impl Incarnation {
    /// The operator whose console it is; `None`: it is something else.
    #[must_use]
    pub fn operator(&self) -> Option<&str> {
        let console = self.name.strip_prefix("console:").filter(|_| !self.delivers);
        console.or_else(|| self.attached())
    }

    /// The token whose consoles are attached to this daemon: `api:ana`.
    #[must_use]
    pub fn attached(&self) -> Option<&str> {
        (!self.delivers && self.name.starts_with("api:")).then_some(self.name.as_str())
    }
}

/// What is to be seen of an incarnation's process, by what it proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Its file is locked: it lives, however silent.
    Alive,
    /// Its file was there and could be locked: the process that held it is gone.
    Dead,
    /// Its database session is there. One whose host is gone stays for some seconds, or for as long as a network
    /// swallows everything.
    Connected,
    /// Nothing is to be seen: its database session ended, or its file is missing. So is one that was cut off, or
    /// whose files were tidied away, while it works.
    Missing,
}

/// What a lease is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To deliver: not while paused, or wanted by somebody who lives.
    Deliver,
    /// To browse, purge, rescue, delete, run: also while paused.
    Manage,
}

/// A lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// The queue's row as it is now.
    pub record: QueueRecord,
    /// Its endpoint, when the URL is known.
    pub endpoint: Option<Endpoint>,
    /// The fencing number.
    pub epoch: Epoch,
    /// How long its head still waits by itself, by the store's clock; `None`: it is due, or waits for no time.
    pub due_in: Option<Duration>,
    /// The former owner, when the lease was taken from the dead.
    pub taken_from: Option<String>,
}

/// The result of asking for a lease.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseOutcome {
    /// Held now.
    Taken(Box<Lease>),
    /// A living incarnation holds it.
    Held(IncarnationId),
    /// Paused, or wanted by somebody else.
    Reserved(Box<QueueRecord>),
    /// Somebody has locked its row in the database for longer than we do: to be asked for again.
    Locked,
    /// The asking incarnation is not alive.
    Disowned,
}

/// A lease that is held, with the wishes of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// The queue.
    pub queue: QueueName,
    /// The fencing number.
    pub epoch: Epoch,
    /// A person paused it.
    pub paused: bool,
    /// Somebody else who lives wants it next.
    pub wanted_by: Option<IncarnationId>,
}

/// A queue that a publisher declared or used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedQueue {
    /// Its name.
    pub name: QueueName,
    /// Its execution.
    pub execution: ExecutionId,
    /// Its URL.
    pub url: EndpointUrl,
}

/// Whose queue it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueUrl {
    /// The queue.
    pub queue: QueueName,
    /// Its URL.
    pub url: EndpointUrl,
    /// Whether that URL ever gave a 2xx.
    pub answered: bool,
}

/// Which rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueQuery {
    /// After this name.
    pub after: Option<QueueName>,
    /// Of which kind.
    pub only: QueuesOnly,
    /// At most this many.
    pub limit: u32,
}

/// Which of all rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueuesOnly {
    /// Every one.
    All,
    /// Those of this URL.
    OfUrl(EndpointUrl),
    /// Those of which a message of this id is the head, and failed.
    WithHead(NotificationId),
    /// Those without a sign of life since then, that nobody holds, and whose head did not fail.
    UnusedSince(Timestamp),
}

/// Who pauses and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPause {
    /// The actor.
    pub by: String,
    /// Their reason.
    pub reason: Option<String>,
}

/// A change of a queue's row by the holder of its lease.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueMark {
    /// Where its ending stands.
    Closing(Closing),
    /// Not delivered: a broker policy or argument breaks order. `None` clears it.
    Refused(Option<String>),
    /// Unbound: a broker policy destroys what waits. `None` clears it.
    Refusing(Option<String>),
    /// Its head kills clients. `None` clears it.
    Quarantined(Option<String>),
    /// Execution and URL were learned from a message; also makes the endpoint where missing.
    Learned(LearnedQueue),
    /// Whether the companion exists.
    Companion(bool),
    /// The head changed by itself (a message with failures is gone): forgets it.
    HeadGone,
    /// A sign of life.
    Active,
}

/// Whose heads are reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadScope {
    /// Of one queue, by the holder of its lease: guarded by its epoch.
    Queue(QueueName, Epoch),
    /// Of every queue of a URL.
    Url(EndpointUrl),
}

/// A failed attempt and what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The attempt.
    pub attempt: Attempt,
    /// The new head. Its times `first_failed_at`, `last_failed_at` and `next_attempt_at` are ignored:
    /// the store computes them from its own clock and `delay`.
    pub head: Head,
    /// The wait on the queue's own schedule, when it waits on its own.
    pub delay: Option<Duration>,
    /// The new number of refusals in a row of the queue.
    pub refusals_in_row: u32,
    /// The endpoint's change, with the endpoint epoch that the attempt began with.
    pub endpoint: Option<(EndpointEpoch, EndpointChange)>,
    /// A decision that is committed with it.
    pub decision: Option<Decision>,
    /// What a policy applies to the head by.
    pub terms: HeadTerms,
    /// Which request it was where its endpoint is paced, as far as the worker knows: then it counts there.
    pub paced: Option<pace::Request>,
}

/// The result of a change of a pace.
#[derive(Clone, Debug, PartialEq)]
pub enum PaceChanged {
    /// The endpoint after it.
    Done(Box<Endpoint>),
    /// Why it could not be, and the endpoint as it is.
    Refused(&'static str, Box<Endpoint>),
    /// The store does not know it.
    Unknown,
}

/// The result of recording a failure.
#[derive(Clone, Debug, PartialEq)]
pub enum FailureRecorded {
    /// Done.
    Recorded {
        /// When the queue's own schedule tries again (store clock).
        next_attempt_at: Option<Timestamp>,
        /// The endpoint after it, when it was changed.
        endpoint: Option<Box<Endpoint>>,
        /// Whether the endpoint's guard held (true when there was no change to make).
        endpoint_changed: bool,
    },
    /// The lease is no longer ours: nothing was changed but the attempt's row.
    Fenced,
}

/// A delivered notification.
#[derive(Clone, Debug, PartialEq)]
pub struct Success {
    /// The attempt.
    pub attempt: Attempt,
    /// Which message it was, where the row's head may be about it (it failed before).
    pub settles_head: Option<Fingerprint>,
    /// How many more of its queue are counted with it and not kept.
    pub counted: u64,
}

/// How many queues of a URL are in trouble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Queues of which a head failed or was refused for the first time since the last 2xx.
    pub failing: u32,
    /// Queues of the URL.
    pub queues: u32,
    /// That 2xx, by the store's clock.
    pub last_success: Option<Timestamp>,
}

/// Which attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct AttemptQuery {
    /// Of this queue.
    pub queue: Option<QueueName>,
    /// To this URL.
    pub url: Option<EndpointUrl>,
    /// Of this message.
    pub message: Option<NotificationId>,
    /// At most this many (1 to 1,000).
    pub limit: u32,
}

/// The bounds of the attempt log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptBounds {
    /// Rows older than this go.
    pub age: Duration,
    /// At most this many rows in all.
    pub rows: u64,
}

/// Which endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointQuery {
    /// Only those that are not available.
    pub not_available: bool,
    /// After this many (offset in the order given).
    pub offset: u64,
    /// At most this many (1 to 1,000).
    pub limit: u32,
}

/// The result of changing an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    /// Changed; what it was before and what it is now.
    Done {
        /// Before.
        before: Box<Endpoint>,
        /// Now.
        now: Box<Endpoint>,
    },
    /// Somebody changed it first.
    Stale(Box<Endpoint>),
    /// There is no such endpoint.
    Unknown,
}

/// The result of claiming a probe.
#[derive(Clone, Debug, PartialEq)]
pub enum ProbeOutcome {
    /// Claimed.
    Claimed {
        /// To settle or release it with.
        token: i64,
        /// The endpoint as it is.
        endpoint: Box<Endpoint>,
    },
    /// Not due yet, or another queue's or daemon's.
    NotYours(Box<Endpoint>),
    /// It is not unavailable (any more).
    NotNeeded,
}

/// What becomes of a probe that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeNext {
    /// The same queue, as before (the attempt was interrupted).
    Same,
    /// Any queue of the URL, at once (this one cannot be attached or has nothing).
    AnyQueue,
}

/// A new line of the audit.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NewAudit {
    /// Who.
    pub actor: String,
    /// The command's name.
    pub command: String,
    /// On what.
    pub target: String,
    /// Why, in the actor's words.
    pub reason: Option<String>,
    /// Hash of the plan.
    pub plan: Option<String>,
    /// `planned`, `done`, `failed`, `refused`, …
    pub result: String,
    /// Details for people.
    pub detail: String,
}

/// A line of the audit; each carries the hash of the line before it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct AuditEntry {
    /// Its id.
    pub id: i64,
    /// When.
    pub at: Timestamp,
    /// What was appended.
    pub entry: NewAudit,
    /// The broker that the store belonged to, by its name.
    pub broker: Option<String>,
    /// SHA-256 over the hash of the line before and this line, hex.
    pub hash: String,
}

/// What a policy is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct PolicyScope {
    /// Event type (the queue of the seed).
    pub event_type: Option<String>,
    /// URL (the subscription).
    pub url: Option<EndpointUrl>,
}

impl PolicyScope {
    /// For which notifications it is.
    #[must_use]
    pub const fn published(&self) -> Published {
        match self.event_type {
            Some(_) => Published::ByEvents,
            None => Published::Directly,
        }
    }
}

/// A policy to save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPolicy {
    /// What for.
    pub scope: PolicyScope,
    /// The policy as JSON text; `None` unsets.
    pub document: Option<String>,
    /// By whom.
    pub author: String,
}

/// A saved version.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PolicyVersion {
    /// What for.
    pub scope: PolicyScope,
    /// 1, 2, …
    pub version: i64,
    /// The policy as JSON text; `None`: unset.
    pub document: Option<String>,
    /// By whom.
    pub author: String,
    /// When.
    pub at: Timestamp,
}

/// A message that no client can decode, byte for byte as the broker sent it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RescuedMessage {
    /// Its id; 0 before it is stored.
    pub id: i64,
    /// Where it was.
    pub queue: QueueName,
    /// The AMQP content header frame's payload.
    pub header_frame: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
    /// Why it was taken out.
    pub reason: String,
    /// When (ignored at insert).
    pub at: Timestamp,
}

/// One of them in a list, which is read without their bytes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RescuedRow {
    /// Its id.
    pub id: i64,
    /// Where it was.
    pub queue: QueueName,
    /// How long its body is.
    pub bytes: u64,
    /// Why it was taken out.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}
