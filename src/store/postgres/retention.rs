//! Forgetting endpoints: one statement that locks what it removes, and passes over what somebody else has locked.

use sqlx::postgres::PgConnection;

use crate::domain::time::Timestamp;

const ENDPOINTS: &str = "WITH gone AS (DELETE FROM redrive.endpoints WHERE url_key = ANY (ARRAY(\
        SELECT e.url_key FROM redrive.endpoints e \
        WHERE state = 'available' AND since < $1 AND COALESCE(last_success_at, 0) < $1 \
        AND NOT EXISTS (SELECT 1 FROM redrive.delivery_queues q WHERE redrive.url_key(q.url) = e.url_key) \
        AND NOT EXISTS (SELECT 1 FROM redrive.policies p WHERE p.url_key = e.url_key AND p.document IS NOT NULL \
            AND NOT EXISTS (SELECT 1 FROM redrive.policies n WHERE n.event_type = p.event_type \
                AND n.url_key = p.url_key AND n.version > p.version)) \
        ORDER BY e.url_key LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING epoch), \
    raised AS (UPDATE redrive.forgotten_endpoints SET epoch = GREATEST(epoch, (SELECT max(epoch) + 1 FROM gone))) \
    SELECT count(*) FROM gone";

/// How many went.
pub(super) async fn endpoints_trim(
    connection: &mut PgConnection,
    before: Timestamp,
    rows: u32,
) -> Result<u64, sqlx::Error> {
    let gone: i64 = sqlx::query_scalar(ENDPOINTS)
        .bind(before.micros())
        .bind(i64::from(rows))
        .fetch_one(connection)
        .await?;
    Ok(u64::try_from(gone).unwrap_or(0))
}
