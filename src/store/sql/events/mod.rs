//! The event table: what both databases do alike. Pushing, taking, ends of leases and looking for text are theirs.

mod claims;
mod inside;
mod leases;
mod look;
mod many;
mod outbox;
mod types;

use std::time::Duration;

use async_trait::async_trait;

pub(in crate::store) use self::inside::finish_inside;
use super::{Driver, Session, Statement, values};
use crate::domain::event::{Event, EventType, HandlingRules, LeaseKey, Reference};
use crate::domain::time::Timestamp;
use crate::store::events::verdicts::Staying;
use crate::store::postgres::events::insisting;
use crate::store::{
    Acted, EventAct, EventBatch, EventClaim, EventCount, EventQuery, EventSearch, EventSignals, Events, EventsChange,
    EventsChanged, EventsFound, Expired, Finish, Finished, HandledEvent, NamedLease, PushOutcome, Reaped, StoreError,
    postgres, sqlite,
};

/// Locked, so that nobody takes it before the transaction is committed.
static GUARD: Statement =
    Statement::new("SELECT 1 FROM redrive.named_leases WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL FOR SHARE");

static UNDECODABLE: Statement = Statement::new(
    "INSERT INTO redrive.events (type, subtype, reference, keyed, state, nbf, created_at, first_at, reason, payload, \
     properties, first_failed_at, last_failed_at, uid) \
     SELECT $1, '', $2, FALSE, 2, $6, $6, $6, $3, $4, $5, $6, $6, gen_random_uuid()::text WHERE NOT ($7 AND EXISTS \
        (SELECT 1 FROM redrive.events WHERE type = $1 AND reference = $2 AND NOT keyed AND payload = $4))",
);

/// What each database does in its own way.
#[async_trait]
pub(in crate::store) trait EventDriver: Driver {
    async fn push_events(&self, batch: &EventBatch) -> Result<PushOutcome, StoreError>;

    async fn raise_event_ids(&self) -> Result<(), StoreError>;

    async fn finish_events(&self, finishes: &[Finish]) -> Result<Vec<Finished>, StoreError>;

    async fn search_events(&self, search: &EventSearch) -> Result<EventsFound, StoreError>;

    fn signals(&self) -> Box<dyn EventSignals>;

    /// Tells those who wait that an event of this type, or of any, may be due.
    fn tell(&self, event_type: Option<&EventType>);
}

#[async_trait]
impl<D: EventDriver> Events for D {
    async fn events_push(&self, batch: &EventBatch) -> Result<PushOutcome, StoreError> {
        self.push_events(batch).await
    }

    async fn event_ids_raise(&self) -> Result<(), StoreError> {
        self.raise_event_ids().await
    }

    async fn events_claim(&self, claim: &EventClaim) -> Result<Vec<Event>, StoreError> {
        insisting!(leases::take(self, claim))
    }

    async fn events_finish(&self, finishes: &[Finish]) -> Result<Vec<Finished>, StoreError> {
        self.finish_events(finishes).await
    }

    async fn events_renew(&self, leases: &[LeaseKey], span: Duration) -> Result<Vec<LeaseKey>, StoreError> {
        insisting!(leases::renew(self, leases, span))
    }

    async fn events_reap(&self, limit: u32, configured: HandlingRules) -> Result<Vec<Reaped>, StoreError> {
        insisting!(leases::reap(self, limit, configured))
    }

    async fn events_next_due(&self, event_type: &EventType) -> Result<Option<Duration>, StoreError> {
        leases::next_due(self, event_type).await
    }

    fn event_signals(&self) -> Box<dyn EventSignals> {
        self.signals()
    }

    async fn events_give_up(&self, event_type: &EventType, cutoff: u32) -> Result<u64, StoreError> {
        leases::give_up(self, event_type, cutoff).await
    }

    async fn events_expire(&self, limit: u32) -> Result<Expired, StoreError> {
        leases::expire(self, limit).await
    }

    async fn event_get(&self, id: i64) -> Result<Option<Event>, StoreError> {
        look::get(self, id).await
    }

    async fn events_of(&self, event_type: &EventType, reference: &Reference) -> Result<Vec<Event>, StoreError> {
        look::of_reference(self, event_type, reference).await
    }

    async fn events_page(&self, query: &EventQuery) -> Result<Vec<Event>, StoreError> {
        look::page(self, query).await
    }

    async fn events_search(&self, search: &EventSearch) -> Result<EventsFound, StoreError> {
        self.search_events(search).await
    }

    async fn events_counts(&self) -> Result<Vec<EventCount>, StoreError> {
        look::counts(self).await
    }

    async fn event_act(&self, id: i64, revision: i64, act: EventAct) -> Result<Acted, StoreError> {
        let acted = insisting!(look::act(self, id, revision, act))?;
        if let Acted::Done(event) = &acted {
            self.tell(Some(&event.event_type));
        }
        Ok(acted)
    }

    async fn events_change(&self, change: &EventsChange) -> Result<EventsChanged, StoreError> {
        let changed = insisting!(many::change(self, change))?;
        self.tell(None);
        Ok(changed)
    }

    async fn event_history(&self, event_type: &EventType, limit: u32) -> Result<Vec<HandledEvent>, StoreError> {
        look::history(self, event_type, limit).await
    }
}

/// False when the lease of the batch is not held. What nobody can decode becomes dead letters.
pub(in crate::store) async fn begin_push(
    session: &mut Session<'_>,
    batch: &EventBatch,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    if let Some(guard) = &batch.guard
        && !is_held(session, guard).await?
    {
        return Ok(false);
    }
    for message in &batch.undecodable {
        let values = values![
            &message.event_type,
            &message.reference,
            &message.reason,
            &message.payload[..],
            &message.properties,
            now,
            message.comes_again,
        ];
        session.change(&UNDECODABLE, values).await?;
    }
    Ok(true)
}

/// Whether the lease is held; it stays so until the end of the transaction.
async fn is_held(session: &mut Session<'_>, guard: &NamedLease) -> Result<bool, sqlx::Error> {
    session.has(&GUARD, values![&guard.name, guard.epoch]).await
}

/// Removes an event that is done and that nobody else can finish, and remembers it where its type says so.
async fn remove(session: &mut Session<'_>, id: i64) -> Result<(), sqlx::Error> {
    match session {
        Session::Postgres(connection) => postgres::events::finish::remove_locked(connection, id).await,
        Session::Writer(connection, now) => sqlite::events::finish::remove(connection, [id], *now).await,
        Session::Readers(..) => Err(super::read_only()),
    }
}

/// Ends leases of rows that stay; answers those that were still leased so, with the revision that was found.
async fn let_go(session: &mut Session<'_>, staying: &[Staying]) -> Result<Vec<(i64, i64)>, sqlx::Error> {
    match session {
        Session::Postgres(connection) => postgres::events::finish::let_go(connection, staying).await,
        Session::Writer(connection, now) => sqlite::events::finish::let_go(connection, staying, *now).await,
        Session::Readers(..) => Err(super::read_only()),
    }
}
