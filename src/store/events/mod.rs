//! The event table: the seam's part for events, their types, claims on them, and what is to be published
//! because of them (docs/protocols.md 25 to 28).
//!
//! Promises beside those of the store: a push replaces what waits under its key and never what is being handled;
//! every finish is guarded by the lease's token and by the row's revision at the lease, and says what it found;
//! of one (type, reference) at most one row is leased, its dated twins included.

pub(in crate::store) mod columns;
pub(in crate::store) mod known;
mod record;
pub(in crate::store) mod search;
pub(in crate::store) mod verdicts;

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use crate::domain::event::{Event, EventType, HandlingRules, LeaseKey, Reference};
use crate::domain::id::{Epoch, IncarnationId};
use crate::domain::time::Timestamp;

pub use known::TYPE_REMEMBERED;
pub use record::*;

/// Rows of the event table.
#[async_trait]
pub trait Events: Send + Sync {
    /// Pushes a batch in one transaction; keys must differ from each other. Makes types that are not yet known.
    /// Answers in the order given.
    async fn events_push(&self, batch: &EventBatch) -> Result<PushOutcome, StoreError>;

    /// Ids of events begin above the store's clock (in microseconds) from now on, unless they are there already: those
    /// that a store which went back gave before are not given again.
    async fn event_ids_raise(&self) -> Result<(), StoreError>;

    /// Takes leases on events of a type that are due, soonest first, one for each reference.
    async fn events_claim(&self, claim: &EventClaim) -> Result<Vec<Event>, StoreError>;

    /// Ends leases; answers in the order given what each was found to be.
    async fn events_finish(&self, finishes: &[Finish]) -> Result<Vec<Finished>, StoreError>;

    /// Prolongs leases to `span` from now; answers those that are still held, which no cancelled one is. A row
    /// that another session keeps locked is left as it is, and is held.
    async fn events_renew(&self, leases: &[LeaseKey], span: Duration) -> Result<Vec<LeaseKey>, StoreError>;

    /// Ends leases that ran out, or whose process is dead, at most `limit`: a handler's counts as a failure.
    /// `configured` applies where the type says nothing else.
    async fn events_reap(&self, limit: u32, configured: HandlingRules) -> Result<Vec<Reaped>, StoreError>;

    /// How long until the next waiting event of a type is due, zero when one is; `None` when none waits.
    async fn events_next_due(&self, event_type: &EventType) -> Result<Option<Duration>, StoreError>;

    /// Hears from now on of what other processes do.
    fn event_signals(&self) -> Box<dyn EventSignals>;

    /// Makes dead letters of events of a type that wait with more failures than are allowed; answers how many.
    async fn events_give_up(&self, event_type: &EventType, cutoff: u32) -> Result<u64, StoreError>;

    /// Removes events whose own lifetime is over, and old history, at most `limit` of each.
    /// While ages do not count, as [`Trimming`](crate::store::Trimming) has it, by a clock that did not leap.
    async fn events_expire(&self, limit: u32) -> Result<Expired, StoreError>;

    /// One row.
    async fn event_get(&self, id: i64) -> Result<Option<Event>, StoreError>;

    /// The rows of a reference, the one that is due now first, then by date; at most 1,000.
    async fn events_of(&self, event_type: &EventType, reference: &Reference) -> Result<Vec<Event>, StoreError>;

    /// Rows by id, newest first, a page.
    async fn events_page(&self, query: &EventQuery) -> Result<Vec<Event>, StoreError>;

    /// Looks for rows, newest first. A search that no index leads looks through some rows and says how far it came;
    /// its result may be short, or empty, before everything was looked through.
    async fn events_search(&self, search: &EventSearch) -> Result<EventsFound, StoreError>;

    /// How many there are, by type and state.
    async fn events_counts(&self) -> Result<Vec<EventCount>, StoreError>;

    /// A person's change of one row, guarded by its revision.
    async fn event_act(&self, id: i64, revision: i64, act: EventAct) -> Result<Acted, StoreError>;

    /// A window of a run: changes its events and records what came of each, in one transaction under the run's lease.
    async fn events_change(&self, change: &EventsChange) -> Result<EventsChanged, StoreError>;

    /// Handled events that are remembered, newest first, at most `limit`.
    async fn event_history(&self, event_type: &EventType, limit: u32) -> Result<Vec<HandledEvent>, StoreError>;
}

/// What other processes say of the event table, for those who wait. Some of it is lost now and then: who waits
/// looks by itself from time to time.
#[async_trait]
pub trait EventSignals: Send {
    /// Waits for the next; may be dropped and called again.
    async fn next(&mut self) -> EventSignal;
}

/// What another process did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventSignal {
    /// Something of this type may be due.
    Type(EventType),
    /// A notification waits in the outbox.
    Outbox,
    /// Nobody knows what.
    Anything,
}

/// Types, their subscribers, and leases on things that have a name.
#[async_trait]
pub trait EventTypes: Send + Sync {
    /// One type.
    async fn event_type_get(&self, event_type: &EventType) -> Result<Option<EventTypeRecord>, StoreError>;

    /// All types, by name, at most 10,000.
    async fn event_types(&self) -> Result<Vec<EventTypeRecord>, StoreError>;

    /// Makes a type, or gives it other metadata; refused when its dead-letter type is missing or makes a chain.
    async fn event_type_put(&self, new: &NewEventType) -> Result<TypePut, StoreError>;

    /// The subscriptions of a type, by id.
    async fn subscriptions(&self, event_type: &EventType) -> Result<Vec<Subscription>, StoreError>;

    /// Those of a type that were removed and may still have notifications that wait, by id.
    async fn ended_subscriptions(&self, event_type: &EventType) -> Result<Vec<Subscription>, StoreError>;

    /// Makes a subscription, or gives the one of the same type and URL other options; `None` for an unknown type.
    async fn subscription_put(&self, new: &NewSubscription) -> Result<Option<Subscription>, StoreError>;

    /// Removes one; true when it was there. It is kept among the ended ones.
    async fn subscription_remove(&self, event_type: &EventType, id: i64) -> Result<bool, StoreError>;

    /// Takes the lease on the thing of this name, when it is free or its owner is not alive.
    async fn named_lease_take(&self, name: &str, incarnation: IncarnationId) -> Result<Option<Epoch>, StoreError>;

    /// Frees it if it is still held under `epoch`; true when it was.
    async fn named_lease_free(&self, name: &str, epoch: Epoch) -> Result<bool, StoreError>;
}

/// Claims of pulling consumers.
#[async_trait]
pub trait EventClaims: Send + Sync {
    /// Claims events of a type; moves those that were claimed too often to the dead-letter type.
    async fn claim_create(&self, new: &NewClaim) -> Result<ClaimOutcome, StoreError>;

    /// The claim with its events; `None` when it has none (any more).
    async fn claim_get(&self, event_type: &EventType, claim: &str) -> Result<Option<Claim>, StoreError>;

    /// Prolongs it; `None` when it has no events (any more).
    async fn claim_renew(
        &self,
        event_type: &EventType,
        claim: &str,
        span: ClaimSpan,
    ) -> Result<Option<Claim>, StoreError>;

    /// Gives its events back; answers how many.
    async fn claim_release(&self, event_type: &EventType, claim: &str) -> Result<u64, StoreError>;

    /// An event of the claim is done.
    async fn claim_done(
        &self,
        event_type: &EventType,
        reference: &Reference,
        claim: &str,
    ) -> Result<Finished, StoreError>;
}

/// Notifications that were stored with the finish of their event and are not yet published.
#[async_trait]
pub trait EventOutbox: Send + Sync {
    /// The rows that may be published now, at most `limit`, in order: of each delivery queue from its first one
    /// on, and none of a queue whose first one waits.
    async fn outbox_page(&self, limit: u32) -> Result<Vec<OutboxRow>, StoreError>;

    /// They were published and confirmed. Guarded by the pump's lease.
    async fn outbox_published(&self, guard: &NamedLease, rows: &[i64]) -> Result<bool, StoreError>;

    /// A row cannot be published now: its queue waits for `delay`.
    async fn outbox_postpone(&self, row: i64, delay: Duration, error: &str) -> Result<(), StoreError>;

    /// A row never can: it becomes a dead letter of its type. False when the lease is lost, or the row is gone.
    async fn outbox_bury(&self, guard: &NamedLease, row: i64, reason: &str) -> Result<bool, StoreError>;

    /// How much waits.
    async fn outbox_waiting(&self) -> Result<OutboxWaiting, StoreError>;
}

/// Handles events inside the store's transaction, for those who embed the library and keep their own tables in the
/// same database: its statements and the change of the queue commit or fail together. For short handlers: a push of
/// the same key waits for it, and one that takes its process down counts no attempt.
#[async_trait]
pub trait TransactionHandler<C>: Send + Sync {
    /// Handles one event behind a savepoint; what it did is undone when it failed.
    async fn handle(&self, connection: &mut C, event: &Event) -> Inside;
}

/// What a handler inside the transaction came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inside {
    /// Done.
    Done,
    /// Done for now; again at this time, for this reason.
    Requeue(Timestamp, String),
    /// It failed, with this error: its statements are undone.
    Failed(String),
}
