//! Forgetting endpoints: what takes long to find is found by a reader, and the writer looks at nothing else.

use serde_json::json;

use super::SqliteStore;
use super::error::unread;
use crate::domain::time::Timestamp;
use crate::store::StoreError;

/// What makes an endpoint one that nobody needs; asked once by a reader for all, and again by the writer of each.
macro_rules! unneeded {
    () => {
        "state = 'available' AND since < $1 AND COALESCE(last_success_at, 0) < $1 \
         AND NOT EXISTS (SELECT 1 FROM delivery_queues q WHERE q.url = e.url) \
         AND NOT EXISTS (SELECT 1 FROM policies p WHERE p.url = e.url AND p.document IS NOT NULL \
            AND NOT EXISTS (SELECT 1 FROM policies n WHERE n.event_type = p.event_type AND n.url = p.url \
                AND n.version > p.version))"
    };
}
const ENDPOINTS: &str = concat!("SELECT url FROM endpoints e WHERE ", unneeded!(), " LIMIT $2");
const ENDPOINTS_EPOCH: &str = concat!(
    "UPDATE forgotten_endpoints SET epoch = max(epoch, COALESCE((SELECT max(e.epoch) + 1 FROM endpoints e \
     WHERE e.url IN (SELECT value FROM json_each($2)) AND ",
    unneeded!(),
    "), 0))"
);
const ENDPOINTS_REMOVE: &str = concat!(
    "DELETE FROM endpoints AS e WHERE e.url IN (SELECT value FROM json_each($2)) AND ",
    unneeded!()
);

impl SqliteStore {
    /// How many went.
    pub(super) async fn endpoints_unneeded_remove(&self, before: Timestamp, rows: u32) -> Result<u64, StoreError> {
        let found: Vec<String> = sqlx::query_scalar(ENDPOINTS)
            .bind(before.micros())
            .bind(i64::from(rows))
            .fetch_all(self.readers())
            .await
            .map_err(unread("looking for endpoints that nobody uses"))?;
        if found.is_empty() {
            return Ok(0);
        }
        let urls = json!(found).to_string();
        self.work("forgetting endpoints", move |connection| {
            Box::pin(async move {
                let epoch = sqlx::query(ENDPOINTS_EPOCH).bind(before.micros()).bind(&urls);
                epoch.execute(&mut *connection).await?;
                let gone = sqlx::query(ENDPOINTS_REMOVE).bind(before.micros()).bind(urls);
                Ok(gone.execute(connection).await?.rows_affected())
            })
        })
        .await
    }
}
