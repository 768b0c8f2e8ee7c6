//! Notifications that wait to be published, on PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgConnection;

use super::push::is_held;
use crate::store::columns::micros;
use crate::store::events::columns::outbox_row;
use crate::store::postgres::{PostgresStore, storable};
use crate::store::within::read_bytes;
use crate::store::{EventOutbox, NamedLease, OutboxRow, StoreError};

/// Of a queue that waits, nothing: a row's place is behind every earlier one of its queue.
const PAGE: &str = "SELECT id, notification, queue, message, type, reference, attempts, created_at FROM \
    (SELECT *, sum(octet_length(message)) OVER (ORDER BY id) - octet_length(message) AS bytes_before FROM \
    (SELECT * FROM redrive.event_outbox o WHERE NOT EXISTS (SELECT 1 FROM redrive.event_outbox w \
        WHERE w.queue = o.queue AND w.id <= o.id AND w.next_at > redrive.store_now()) \
    ORDER BY o.id LIMIT $1) AS page) AS page WHERE bytes_before < $2 ORDER BY id";
const PUBLISHED: &str = "DELETE FROM redrive.event_outbox WHERE id = ANY($1::bigint[])";
const POSTPONE: &str = "UPDATE redrive.event_outbox SET attempts = attempts + 1, error = $3, \
    next_at = redrive.store_now() + $2 WHERE id = $1";
const BURY: &str = "WITH gone AS (DELETE FROM redrive.event_outbox WHERE id = $1 RETURNING *) \
    INSERT INTO redrive.events (type, subtype, reference, keyed, state, nbf, created_at, first_at, attempts, reason, \
        payload, properties, first_failed_at, last_failed_at) \
    SELECT type, '', reference, false, 2, redrive.store_now(), created_at, created_at, attempts, $2, message, \
        notification, redrive.store_now(), redrive.store_now() FROM gone";
const COUNT: &str = "SELECT count(*) FROM redrive.event_outbox";

#[async_trait]
impl EventOutbox for PostgresStore {
    async fn outbox_page(&self, limit: u32) -> Result<Vec<OutboxRow>, StoreError> {
        self.call("reading the outbox", async |connection: &mut PgConnection| {
            let rows = sqlx::query(PAGE)
                .bind(i64::from(limit))
                .bind(read_bytes())
                .fetch_all(connection)
                .await?;
            rows.iter().map(outbox_row).collect()
        })
        .await
    }

    async fn outbox_published(&self, guard: &NamedLease, rows: &[i64]) -> Result<bool, StoreError> {
        self.transaction("emptying the outbox", async |connection: &mut PgConnection, _| {
            if !is_held(connection, guard).await? {
                return Ok(false);
            }
            sqlx::query(PUBLISHED).bind(rows).execute(connection).await?;
            Ok(true)
        })
        .await
    }

    async fn outbox_postpone(&self, row: i64, delay: Duration, error: &str) -> Result<(), StoreError> {
        let query = sqlx::query(POSTPONE)
            .bind(row)
            .bind(micros(delay))
            .bind(storable(error));
        self.call("postponing a notification", async |connection: &mut PgConnection| {
            query.execute(connection).await.map(drop)
        })
        .await
    }

    async fn outbox_bury(&self, guard: &NamedLease, row: i64, reason: &str) -> Result<bool, StoreError> {
        let reason = storable(reason);
        self.transaction("giving up a notification", async |connection: &mut PgConnection, _| {
            if !is_held(connection, guard).await? {
                return Ok(false);
            }
            let query = sqlx::query(BURY).bind(row).bind(&reason);
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }

    async fn outbox_count(&self) -> Result<u64, StoreError> {
        self.call("counting the outbox", async |connection: &mut PgConnection| {
            let count: i64 = sqlx::query_scalar(COUNT).fetch_one(connection).await?;
            Ok(u64::try_from(count).unwrap_or(0))
        })
        .await
    }
}
