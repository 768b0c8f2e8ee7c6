//! The event table on PostgreSQL.
//!
//! Promises: a push, a claim and a finish are single statements, so that no row stays locked between two of
//! them; rows are taken with `SKIP LOCKED`; there is no `NOTIFY` in a push (its lock would end group commit).
//! Statements that meet each other's rows in another order are broken up by the server and tried again here.

mod claims;
mod finish;
pub(super) mod gathered;
mod inside;
mod look;
mod many;
mod outbox;
mod push;
mod search;
pub(super) mod signals;
mod take;
mod types;

use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgConnection;
use sqlx::error::DatabaseError;

use self::signals::Listening;
use super::PostgresStore;
use crate::domain::event::{Event, EventType, HandlingRules, LeaseKey, Reference};
use crate::store::{
    Acted, EventAct, EventBatch, EventClaim, EventCount, EventQuery, EventSearch, EventSignals, Events, EventsChange,
    EventsChanged, EventsFound, Expired, Finish, Finished, HandledEvent, PushOutcome, Reaped, StoreError,
};

/// Nobody draws an id meanwhile, nor raises them.
const IDS_LOCK: &str = "LOCK TABLE redrive.events IN SHARE ROW EXCLUSIVE MODE";
const IDS_RAISE: &str = "SELECT setval(pg_get_serial_sequence('redrive.events', 'id'), now) \
    FROM (SELECT redrive.store_now() AS now) AS clock, redrive.events_id_seq AS ids WHERE ids.last_value < now";

/// How often a statement that met another one is tried again.
const TRIES: u32 = 5;
/// Whether two statements met: a deadlock that the server broke up, or two leases on one reference.
fn collided(error: &StoreError) -> bool {
    let (StoreError::Unreachable { source, .. } | StoreError::Failed { source, .. }) = error else {
        return false;
    };
    let code = source
        .downcast_ref::<sqlx::Error>()
        .and_then(sqlx::Error::as_database_error)
        .and_then(DatabaseError::code);
    code.is_some_and(|code| code == "40P01" || code == "23505")
}

/// Tries again what met another statement: it changed nothing.
macro_rules! insisting {
    ($work:expr) => {{
        let mut tries = 1;
        loop {
            match $work.await {
                Err(error)
                    if tries < $crate::store::postgres::events::TRIES
                        && $crate::store::postgres::events::collided(&error) =>
                {
                    tries += 1
                }
                other => break other,
            }
        }
    }};
}
use insisting;

#[async_trait]
impl Events for PostgresStore {
    async fn events_push(&self, batch: &EventBatch) -> Result<PushOutcome, StoreError> {
        self.push_events(batch).await
    }

    async fn event_ids_raise(&self) -> Result<(), StoreError> {
        self.transaction("raising the ids of events", async |connection: &mut PgConnection, _| {
            sqlx::query(IDS_LOCK).execute(&mut *connection).await?;
            sqlx::query(IDS_RAISE).execute(connection).await.map(drop)
        })
        .await
    }

    async fn events_claim(&self, claim: &EventClaim) -> Result<Vec<Event>, StoreError> {
        insisting!(self.take_events(claim))
    }

    async fn events_finish(&self, finishes: &[Finish]) -> Result<Vec<Finished>, StoreError> {
        self.finish_events(finishes).await
    }

    async fn events_renew(&self, leases: &[LeaseKey], span: Duration) -> Result<Vec<i64>, StoreError> {
        insisting!(self.renew_events(leases, span))
    }

    async fn events_reap(&self, limit: u32, configured: HandlingRules) -> Result<Vec<Reaped>, StoreError> {
        insisting!(self.reap_events(limit, configured))
    }

    async fn events_next_due(&self, event_type: &EventType) -> Result<Option<Duration>, StoreError> {
        self.next_due_event(event_type).await
    }

    fn event_signals(&self) -> Box<dyn EventSignals> {
        Box::new(Listening::with(self.server.options.clone()))
    }

    async fn events_give_up(&self, event_type: &EventType, cutoff: u32) -> Result<u64, StoreError> {
        self.give_up_events(event_type, cutoff).await
    }

    async fn events_expire(&self, limit: u32) -> Result<Expired, StoreError> {
        self.expire_events(limit).await
    }

    async fn event_get(&self, id: i64) -> Result<Option<Event>, StoreError> {
        self.get_event(id).await
    }

    async fn events_of(&self, event_type: &EventType, reference: &Reference) -> Result<Vec<Event>, StoreError> {
        self.events_of_reference(event_type, reference).await
    }

    async fn events_page(&self, query: &EventQuery) -> Result<Vec<Event>, StoreError> {
        self.page_events(query).await
    }

    async fn events_search(&self, search: &EventSearch) -> Result<EventsFound, StoreError> {
        self.search_events(search).await
    }

    async fn events_counts(&self) -> Result<Vec<EventCount>, StoreError> {
        self.count_events().await
    }

    async fn event_act(&self, id: i64, revision: i64, act: EventAct) -> Result<Acted, StoreError> {
        let acted = insisting!(self.act_on_event(id, revision, act))?;
        if let Acted::Done(event) = &acted {
            self.notifier.pushed(std::iter::once(&event.event_type));
        }
        Ok(acted)
    }

    async fn events_change(&self, change: &EventsChange) -> Result<EventsChanged, StoreError> {
        let changed = insisting!(self.change_events(change))?;
        self.notifier.anything();
        Ok(changed)
    }

    async fn event_history(&self, event_type: &EventType, limit: u32) -> Result<Vec<HandledEvent>, StoreError> {
        self.history_of(event_type, limit).await
    }
}
