//! The parameters and results of the event table's methods: plain data.

use std::time::Duration;

use bytes::Bytes;

use crate::domain::event::{AfterFailure, Event, EventState, EventType, LeaseKey, Metadata, NewEvent, Reference};
use crate::domain::id::{Epoch, IncarnationId};
use crate::domain::named::named;
use crate::domain::run::{RunCounts, RunState};
use crate::domain::time::Timestamp;

/// A push.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventBatch {
    /// The lease that must still be held, for a consumer of an intake queue (docs/protocols.md 25).
    pub guard: Option<NamedLease>,
    /// What is pushed, each key once.
    pub events: Vec<NewEvent>,
    /// Messages that could not be made into events: kept as dead letters.
    pub undecodable: Vec<Undecodable>,
}

impl EventBatch {
    /// Whether it is nothing but events.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.guard.is_none() && self.undecodable.is_empty()
    }
}

/// A message that is not an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Undecodable {
    /// The type that its queue feeds.
    pub event_type: EventType,
    /// What it can be found by: its message id, or a hash.
    pub reference: Reference,
    /// Why it is not an event.
    pub reason: String,
    /// Its exact body.
    pub payload: Bytes,
    /// Its properties, as JSON.
    pub properties: String,
    /// It may have been kept already: one of the same reference and body is not kept twice.
    pub comes_again: bool,
}

/// A lease on something that has a name, and under which epoch it is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLease {
    /// The thing.
    pub name: String,
    /// The fencing number.
    pub epoch: Epoch,
}

/// The result of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// All of it, in the order given.
    Pushed(Vec<Pushed>),
    /// The lease is not held any more; nothing was pushed.
    Fenced,
}

/// One pushed event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pushed {
    /// Its row.
    pub id: i64,
    /// The row's revision.
    pub revision: i64,
    /// What became of it.
    pub how: PushedHow,
}

/// What a push did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum PushedHow {
    /// A row of its own.
    New,
    /// It replaced what waited under its key.
    Coalesced,
    /// It brought a dead letter of its key back to life.
    Revived,
}

named! {
    /// As printed.
    PushedHow {
        Self::New => "new",
        Self::Coalesced => "coalesced",
        Self::Revived => "revived",
    }
}

impl PushedHow {
    /// What a row tells of the push that it was answered for: a revival begins to count pushes anew.
    #[must_use]
    pub const fn of(revision: i64, merged: i64) -> Self {
        match (revision, merged) {
            (1, _) => Self::New,
            (_, 0) => Self::Revived,
            _ => Self::Coalesced,
        }
    }
}

/// Which leases are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventClaim {
    /// Of which type.
    pub event_type: EventType,
    /// Of which references.
    pub references: References,
    /// At most this many (1 to 1,000).
    pub limit: u32,
    /// Only those with fewer failures.
    pub cutoff: u32,
    /// By whom.
    pub owner: IncarnationId,
    /// For how long.
    pub span: Duration,
    /// Only what comes after this one in the order of handling: what was handled just now leaves rows behind
    /// that a database with old readers has to step over.
    pub after: Option<(Timestamp, i64)>,
}

/// Which references a claim takes from. Two claims at once that take from one half each never wait for each other's rows.
/// A store that runs one claim after the other takes each from all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum References {
    /// From all.
    All,
    /// From one half.
    FirstHalf,
    /// From the rest.
    SecondHalf,
}

/// The end of a lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// Which.
    pub lease: LeaseKey,
    /// With what.
    pub verdict: Verdict,
}

/// What a handler came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Done; with the notifications that are to be published because of it.
    Done(Vec<NewOutboxRow>),
    /// Done for now; again at this time.
    Requeue {
        /// When.
        at: Timestamp,
        /// Why.
        reason: String,
    },
    /// Failed; again after this delay.
    Retry {
        /// Failures so far, this one included.
        attempts: u32,
        /// How long to wait.
        delay: Duration,
        /// Why.
        reason: String,
    },
    /// Failed for the last time.
    Dead {
        /// Failures so far, this one included.
        attempts: u32,
        /// Why.
        reason: String,
    },
    /// Not tried, or not on account of the event: ready again as it was.
    Release,
}

impl From<AfterFailure> for Verdict {
    fn from(after: AfterFailure) -> Self {
        match after {
            AfterFailure::Retry {
                attempts,
                delay,
                reason,
            } => Self::Retry {
                attempts,
                delay,
                reason,
            },
            AfterFailure::Dead { attempts, reason } => Self::Dead { attempts, reason },
        }
    }
}

/// What a finish found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Finished {
    /// Removed.
    Done,
    /// Waits for the time that was asked for.
    Requeued,
    /// Waits for its next try.
    Retried,
    /// A dead letter.
    Dead,
    /// Ready again.
    Released,
    /// Somebody pushed it meanwhile: what was pushed is ready, whatever the handler came to.
    Superseded,
    /// Somebody removed it meanwhile: it is not brought back.
    Gone,
    /// The lease was lost: somebody else has the event, or had it.
    Stale,
}

impl Finished {
    /// Every one, in the order of the enum.
    pub const ALL: [Self; 8] = [
        Self::Done,
        Self::Requeued,
        Self::Retried,
        Self::Dead,
        Self::Released,
        Self::Superseded,
        Self::Gone,
        Self::Stale,
    ];

    /// As printed and counted.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Requeued => "requeued",
            Self::Retried => "retried",
            Self::Dead => "dead",
            Self::Released => "released",
            Self::Superseded => "superseded",
            Self::Gone => "gone",
            Self::Stale => "stale",
        }
    }
}

/// A lease that was ended for its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// The event.
    pub id: i64,
    /// Its type.
    pub event_type: EventType,
    /// Failures so far.
    pub attempts: u32,
    /// What became of it.
    pub how: Finished,
    /// Whether it was a claim: its consumer pulls, and nothing failed.
    pub claimed: bool,
}

/// What ended by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Events whose lifetime was over.
    pub events: u64,
    /// Lines of the history.
    pub history: u64,
}

/// Which rows; conditions hold together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// Of this type, or moved from it.
    pub event_type: Option<EventType>,
    /// About this.
    pub reference: Option<Reference>,
    /// In this state.
    pub state: Option<EventState>,
    /// Only dead letters: past the cutoff, or moved by claims.
    pub dead_letters: bool,
    /// With this in the reason, in any letter case.
    pub reason_part: Option<String>,
    /// Before this id.
    pub before: Option<i64>,
    /// At most this many (1 to 1,000).
    pub limit: u32,
}

/// What is looked for; conditions hold together. Parts are in lower case, found in any letter case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSearch {
    /// Of this type.
    pub event_type: Option<EventType>,
    /// About this.
    pub reference: Option<Reference>,
    /// In this state.
    pub state: Option<EventState>,
    /// Only dead letters: past the cutoff, or moved by claims.
    pub dead_letters: bool,
    /// With all of these in the text of its last failure.
    pub error_parts: Vec<String>,
    /// With this in the reason.
    pub reason_part: Option<String>,
    /// With this in the reference.
    pub reference_part: Option<String>,
    /// With this in the payload.
    pub payload_part: Option<String>,
    /// With so many failures at least.
    pub attempts_min: u32,
    /// Due at this time already.
    pub due_before: Option<Timestamp>,
    /// Pushed before this time.
    pub created_before: Option<Timestamp>,
    /// Before this id.
    pub before: Option<i64>,
    /// At most this many (1 to 1,000).
    pub limit: u32,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct EventsFound {
    /// Newest first.
    pub events: Vec<Event>,
    /// What has this id or a higher one was looked through; `None`: everything was.
    pub reached: Option<i64>,
}

/// How many.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EventCount {
    /// Of which type.
    pub event_type: EventType,
    /// In which state.
    pub state: EventState,
    /// How many.
    pub count: u64,
    /// How many of them are due.
    pub due: u64,
    /// The soonest due time.
    pub first_nbf: Timestamp,
    /// When the first of them was both pushed and due.
    pub first_ready_at: Timestamp,
    /// The oldest push.
    pub oldest: Timestamp,
}

/// A person's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventAct {
    /// Due now; a dead letter gets all of its attempts back.
    Retry,
    /// Due at this time; a dead letter gets all of its attempts back.
    Reschedule(Timestamp),
    /// Remove it.
    Cancel,
}

/// What a person's change found.
#[derive(Clone, Debug, PartialEq)]
pub enum Acted {
    /// The row after it (before it, when it was removed).
    Done(Box<Event>),
    /// It is being handled; only removing is possible then.
    Leased,
    /// It was pushed anew since it was looked at.
    Changed,
    /// It was moved from a type in which its key waits anew: the newer one stands.
    Newer,
    /// It is kept of a message that could not be made an event, or of a notification: no handler could do anything with it.
    NoEvent,
    /// It is not there.
    Gone,
}

impl Acted {
    /// Why nothing was done.
    #[must_use]
    pub const fn why_not(&self) -> Option<&'static str> {
        match self {
            Self::Done(_) => None,
            Self::Leased => Some("it is being handled"),
            Self::Changed => Some("it was pushed again since the plan"),
            Self::Newer => Some("a newer event of its key waits"),
            Self::NoEvent => Some(
                "it is a message that was never an event: look at it with `redrive dead show`, and remove it with `redrive event cancel`",
            ),
            Self::Gone => Some("it is not there any more"),
        }
    }
}

/// A window of a run over events.
#[derive(Clone, Debug, PartialEq)]
pub struct EventsChange {
    /// The run.
    pub run: String,
    /// Of its lease.
    pub epoch: Epoch,
    /// Outcomes before.
    pub counts: RunCounts,
    /// What is done with each.
    pub act: EventAct,
    /// Which.
    pub items: Vec<EventItem>,
}

/// An event as it was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventItem {
    /// Its place in the run.
    pub ordinal: u64,
    /// Its id.
    pub id: i64,
    /// Its revision then.
    pub revision: i64,
}

/// What came of a window.
#[derive(Clone, Debug, PartialEq)]
pub enum EventsChanged {
    /// Each has its outcome; outcomes by now.
    Changed(RunCounts),
    /// A person stopped the run: nothing was done.
    Asked(RunState),
    /// Somebody else has the run: nothing was done.
    Lost,
}

/// A handled event.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct HandledEvent {
    /// Its id.
    pub id: i64,
    /// What it was about.
    pub reference: Reference,
    /// Its revision.
    pub revision: i64,
    /// Its failures before.
    pub attempts: u32,
    /// Why it was there.
    pub reason: Option<String>,
    /// When it was pushed.
    pub created_at: Timestamp,
    /// When it was done.
    pub handled_at: Timestamp,
}

/// A type as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEventType {
    /// Its name.
    pub name: EventType,
    /// Its metadata, as JSON.
    pub document: String,
    /// What the metadata says.
    pub metadata: Metadata,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EventTypeRecord {
    /// Its name.
    pub name: EventType,
    /// Its metadata, as JSON.
    pub document: String,
    /// When it was first seen.
    pub created_at: Timestamp,
    /// When its metadata was last written.
    pub updated_at: Timestamp,
}

/// The result of writing a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypePut {
    /// It stands.
    Saved(EventTypeRecord),
    /// The dead-letter type does not exist.
    MissingTarget(EventType),
    /// The dead-letter type has one itself, or this type is one itself: the types in the chain's order.
    Chain(Vec<EventType>),
}

/// A subscription as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSubscription {
    /// To which type.
    pub event_type: EventType,
    /// Where to.
    pub url: crate::domain::url::EndpointUrl,
    /// Its options, as JSON.
    pub options: String,
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Subscription {
    /// Never used twice.
    pub id: i64,
    /// To which type.
    pub event_type: EventType,
    /// Where to.
    pub url: crate::domain::url::EndpointUrl,
    /// Its options, as JSON.
    pub options: String,
    /// Since when.
    pub created_at: Timestamp,
}

/// A claim that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewClaim {
    /// Its id.
    pub id: String,
    /// Of which type.
    pub event_type: EventType,
    /// At most this many events.
    pub limit: u32,
    /// How long.
    pub span: ClaimSpan,
}

/// How long a claim holds its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimSpan {
    /// How long it holds them.
    pub ttl: Duration,
    /// How much longer than the claim they live at least; when renewing none leaves that alone.
    pub grace: Option<Duration>,
}

/// A claim.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Claim {
    /// Its id.
    pub id: String,
    /// When it ends by itself.
    pub expires_at: Timestamp,
    /// What it holds.
    pub events: Vec<Event>,
}

/// The result of a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimOutcome {
    /// There is no such type.
    UnknownType,
    /// What was claimed (nothing: no claim), and how many events were moved to the dead-letter type.
    Claimed {
        /// The claim.
        claim: Option<Claim>,
        /// Moved events.
        moved: u64,
    },
}

/// A notification that is to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOutboxRow {
    /// Its id.
    pub notification: String,
    /// The delivery queue that it goes to.
    pub queue: String,
    /// Everything else, as its writer encoded it.
    pub message: Bytes,
    /// The type of its event.
    pub event_type: EventType,
    /// What its event is about.
    pub reference: Reference,
}

/// How much waits to be published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxWaiting {
    /// Notifications.
    pub count: u64,
    /// When the oldest was stored.
    pub oldest: Option<Timestamp>,
    /// Why the first one that was tried could not be published.
    pub error: Option<String>,
}

/// A notification that waits to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    /// Its place in the order.
    pub id: i64,
    /// The notification's id.
    pub notification: String,
    /// The delivery queue.
    pub queue: String,
    /// What is published.
    pub message: Bytes,
    /// Tries so far.
    pub attempts: u32,
    /// When it was stored.
    pub created_at: Timestamp,
}
