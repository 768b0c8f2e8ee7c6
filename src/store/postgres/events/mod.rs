//! The event table on PostgreSQL.
//!
//! Promises: a push, a claim and a finish are single statements, so that no row stays locked between two of
//! them; rows are taken with `SKIP LOCKED`; there is no `NOTIFY` in a push (its lock would end group commit).
//! Statements that meet each other's rows in another order are broken up by the server and tried again here.

mod aside;
pub(in crate::store) mod finish;
pub(super) mod gathered;
mod inside;
pub(in crate::store) mod outbox;
mod push;
mod search;
pub(super) mod signals;
pub(in crate::store) mod take;

use async_trait::async_trait;
use sqlx::PgConnection;
use sqlx::error::DatabaseError;

use self::signals::Listening;
use super::PostgresStore;
use super::error::Said;
use crate::domain::event::EventType;
use crate::store::sql::events::EventDriver;
use crate::store::{EventBatch, EventSearch, EventSignals, EventsFound, Finish, Finished, PushOutcome, StoreError};

/// Nobody draws an id meanwhile, nor raises them.
const IDS_LOCK: &str = "LOCK TABLE redrive.events IN SHARE ROW EXCLUSIVE MODE";
const IDS_RAISE: &str = "SELECT setval(pg_get_serial_sequence('redrive.events', 'id'), now) \
    FROM (SELECT redrive.store_now() AS now) AS clock, redrive.events_id_seq AS ids WHERE ids.last_value < now";

/// How often a statement that met another one is tried again.
pub(in crate::store) const TRIES: u32 = 5;
/// Whether two statements met: a deadlock that the server broke up, or two leases on one reference.
pub(in crate::store) fn collided(error: &StoreError) -> bool {
    let (StoreError::Unreachable { source, .. } | StoreError::Failed { source, .. }) = error else {
        return false;
    };
    let code = source
        .downcast_ref::<Said>()
        .and_then(|said| said.0.as_database_error())
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
pub(in crate::store) use insisting;

#[async_trait]
impl EventDriver for PostgresStore {
    async fn push_events(&self, batch: &EventBatch) -> Result<PushOutcome, StoreError> {
        self.push_batch(batch).await
    }

    async fn raise_event_ids(&self) -> Result<(), StoreError> {
        self.known_types.forget();
        self.in_transaction("raising the ids of events", async |connection: &mut PgConnection, _| {
            sqlx::query(IDS_LOCK).execute(&mut *connection).await?;
            sqlx::query(IDS_RAISE).execute(connection).await.map(drop)
        })
        .await
    }

    async fn finish_events(&self, finishes: &[Finish]) -> Result<Vec<Finished>, StoreError> {
        self.finish_each(finishes).await
    }

    async fn search_events(&self, search: &EventSearch) -> Result<EventsFound, StoreError> {
        self.look_for(search).await
    }

    fn signals(&self) -> Box<dyn EventSignals> {
        Box::new(Listening::with(self.server.options.clone()))
    }

    fn tell(&self, event_type: Option<&EventType>) {
        match event_type {
            Some(event_type) => self.notifier.pushed(std::iter::once(event_type)),
            None => self.notifier.anything(),
        }
    }
}
