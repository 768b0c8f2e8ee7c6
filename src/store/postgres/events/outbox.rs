//! A page of the outbox: the server ends it where its bodies have the bytes of one read.

use sqlx::PgConnection;

use crate::store::OutboxRow;
use crate::store::events::columns::outbox_row;
use crate::store::within::read_bytes;

/// Of a queue that waits, nothing: a row's place is behind every earlier one of its queue.
const PAGE: &str = "SELECT id, notification, queue, message, attempts, created_at FROM \
    (SELECT *, sum(octet_length(message)) OVER (ORDER BY id) - octet_length(message) AS bytes_before FROM \
    (SELECT * FROM redrive.event_outbox o WHERE NOT EXISTS (SELECT 1 FROM redrive.event_outbox w \
        WHERE w.queue = o.queue AND w.id <= o.id AND w.next_at > redrive.store_now()) \
    ORDER BY o.id LIMIT $1) AS page) AS page WHERE bytes_before < $2 ORDER BY id";

pub(in crate::store) async fn page(connection: &mut PgConnection, limit: u32) -> Result<Vec<OutboxRow>, sqlx::Error> {
    let rows = sqlx::query(PAGE)
        .bind(i64::from(limit))
        .bind(read_bytes())
        .fetch_all(connection)
        .await?;
    rows.iter().map(outbox_row).collect()
}
