//! Notifications that wait to be published, in a SQLite file.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::push::{is_held, new_uid};
use crate::store::events::columns::outbox_row;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::error::unread;
use crate::store::within::within;
use crate::store::{EventOutbox, NamedLease, OutboxRow, StoreError};

/// Of a queue that waits, nothing: a row's place is behind every earlier one of its queue.
const PAGE: &str = "SELECT o.id, o.notification, o.queue, o.message, o.type, o.reference, o.attempts, o.created_at \
    FROM event_outbox AS o WHERE NOT EXISTS (SELECT 1 FROM event_outbox AS w \
        WHERE w.queue = o.queue AND w.id <= o.id AND w.next_at > $2) \
    ORDER BY o.id LIMIT $1";
const PUBLISHED: &str = "DELETE FROM event_outbox WHERE id IN (SELECT value FROM json_each($1))";
const POSTPONE: &str = "UPDATE event_outbox SET attempts = attempts + 1, error = $3, next_at = $2 WHERE id = $1";
const BURY: &str = concat!(
    "INSERT INTO events (type, subtype, reference, keyed, state, nbf, created_at, first_at, attempts, \
        reason, payload, properties, first_failed_at, last_failed_at, uid) \
    SELECT type, '', reference, 0, 2, $3, created_at, created_at, attempts, $2, message, notification, $3, $3, ",
    new_uid!(),
    " FROM event_outbox WHERE id = $1"
);
const COUNT: &str = "SELECT count(*) FROM event_outbox";

#[async_trait]
impl EventOutbox for SqliteStore {
    async fn outbox_page(&self, limit: u32) -> Result<Vec<OutboxRow>, StoreError> {
        let operation = "reading the outbox";
        let rows = sqlx::query(PAGE)
            .bind(i64::from(limit))
            .bind(self.clock.now().micros())
            .fetch(self.readers());
        within(rows, outbox_row, |row| row.row.message.len())
            .await
            .map_err(unread(operation))
    }

    async fn outbox_published(&self, guard: &NamedLease, rows: &[i64]) -> Result<bool, StoreError> {
        let (guard, rows) = (guard.clone(), json!(rows).to_string());
        self.write("emptying the outbox", move |connection| {
            Box::pin(async move {
                if !is_held(connection, &guard).await? {
                    return Ok(false);
                }
                sqlx::query(PUBLISHED).bind(rows).execute(connection).await?;
                Ok(true)
            })
        })
        .await
    }

    async fn outbox_postpone(&self, row: i64, delay: Duration, error: &str) -> Result<(), StoreError> {
        let (next_at, error) = (self.clock.now().plus(delay).micros(), error.to_owned());
        self.write("postponing a notification", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(POSTPONE).bind(row).bind(next_at).bind(error);
                query.execute(connection).await.map(drop)
            })
        })
        .await
    }

    async fn outbox_bury(&self, guard: &NamedLease, row: i64, reason: &str) -> Result<bool, StoreError> {
        let (guard, reason, now) = (guard.clone(), reason.to_owned(), self.clock.now().micros());
        self.write("giving up a notification", move |connection| {
            Box::pin(async move {
                if !is_held(connection, &guard).await? {
                    return Ok(false);
                }
                let query = sqlx::query(BURY).bind(row).bind(reason).bind(now);
                let buried = query.execute(&mut *connection).await?.rows_affected() == 1;
                let query = sqlx::query(PUBLISHED).bind(json!([row]).to_string());
                query.execute(connection).await?;
                Ok(buried)
            })
        })
        .await
    }

    async fn outbox_count(&self) -> Result<u64, StoreError> {
        let operation = "counting the outbox";
        let count: i64 = sqlx::query_scalar(COUNT)
            .fetch_one(self.readers())
            .await
            .map_err(unread(operation))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}
