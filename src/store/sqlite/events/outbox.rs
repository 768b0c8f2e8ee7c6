//! A page of the outbox: rows are read until their bodies have the bytes of one read.

use sqlx::sqlite::SqlitePool;

use crate::domain::time::Timestamp;
use crate::store::OutboxRow;
use crate::store::events::columns::outbox_row;
use crate::store::within::within;

/// Of a queue that waits, nothing: a row's place is behind every earlier one of its queue.
const PAGE: &str = "SELECT o.id, o.notification, o.queue, o.message, o.attempts, o.created_at \
    FROM event_outbox AS o WHERE NOT EXISTS (SELECT 1 FROM event_outbox AS w \
        WHERE w.queue = o.queue AND w.id <= o.id AND w.next_at > $2) \
    ORDER BY o.id LIMIT $1";

pub(in crate::store) async fn page(
    readers: &SqlitePool,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<OutboxRow>, sqlx::Error> {
    let rows = sqlx::query(PAGE)
        .bind(i64::from(limit))
        .bind(now.micros())
        .fetch(readers);
    within(rows, outbox_row, |row| row.message.len()).await
}
