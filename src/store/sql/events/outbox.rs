//! Notifications that wait to be published.

use std::time::Duration;

use async_trait::async_trait;

use super::is_held;
use crate::store::events::columns::outbox_waiting;
use crate::store::sql::{Calls, Driver, Session, Statement, read_only, values};
use crate::store::{EventOutbox, NamedLease, OutboxRow, OutboxWaiting, StoreError, postgres, sqlite};

static PUBLISHED: Statement = Statement::new("DELETE FROM redrive.event_outbox WHERE id = ANY($1::bigint[])");
static POSTPONE: Statement = Statement::new(
    "UPDATE redrive.event_outbox SET attempts = attempts + 1, error = $3, next_at = redrive.store_now() + $2 \
     WHERE id = $1",
);
static BURY: Statement = Statement::new(
    "INSERT INTO redrive.events (type, subtype, reference, keyed, state, nbf, created_at, first_at, attempts, \
     reason, payload, properties, first_failed_at, last_failed_at, uid) \
     SELECT type, '', reference, FALSE, 2, redrive.store_now(), created_at, created_at, attempts, $2, message, \
        notification, redrive.store_now(), redrive.store_now(), gen_random_uuid()::text \
     FROM redrive.event_outbox WHERE id = $1",
);
static WAITING: Statement = Statement::new(
    "SELECT count(*) AS count, min(created_at) AS oldest, \
        (SELECT error FROM redrive.event_outbox WHERE error IS NOT NULL ORDER BY id LIMIT 1) AS error \
     FROM redrive.event_outbox",
);

#[async_trait]
impl<D: Driver> EventOutbox for D {
    async fn outbox_page(&self, limit: u32) -> Result<Vec<OutboxRow>, StoreError> {
        self.read("reading the outbox", move |session| {
            Box::pin(async move {
                match session {
                    Session::Postgres(connection) => postgres::events::outbox::page(connection, limit).await,
                    Session::Readers(readers, now) => sqlite::events::outbox::page(readers, limit, now).await,
                    Session::Writer(..) => Err(read_only()),
                }
            })
        })
        .await
    }

    async fn outbox_published(&self, guard: &NamedLease, rows: &[i64]) -> Result<bool, StoreError> {
        let (guard, rows) = (guard.clone(), rows.to_vec());
        self.transaction("emptying the outbox", move |mut session, _| {
            Box::pin(async move {
                if !is_held(&mut session, &guard).await? {
                    return Ok(false);
                }
                session.change(&PUBLISHED, values![rows]).await?;
                Ok(true)
            })
        })
        .await
    }

    async fn outbox_postpone(&self, row: i64, delay: Duration, error: &str) -> Result<(), StoreError> {
        let postponed = self.change("postponing a notification", &POSTPONE, values![row, delay, error]);
        postponed.await.map(drop)
    }

    async fn outbox_bury(&self, guard: &NamedLease, row: i64, reason: &str) -> Result<bool, StoreError> {
        let (guard, reason) = (guard.clone(), reason.to_owned());
        self.transaction("giving up a notification", move |mut session, _| {
            Box::pin(async move {
                if !is_held(&mut session, &guard).await? {
                    return Ok(false);
                }
                let buried = session.change(&BURY, values![row, reason]).await? == 1;
                session.change(&PUBLISHED, values![vec![row]]).await?;
                Ok(buried)
            })
        })
        .await
    }

    async fn outbox_waiting(&self) -> Result<OutboxWaiting, StoreError> {
        self.one("counting the outbox", &WAITING, values![], outbox_waiting)
            .await
    }
}
