//! Taking events: what is due is read first, as JSON carries no bodies, and each reference is taken once.

use std::collections::HashSet;

use serde_json::json;
use sqlx::sqlite::SqliteConnection;

use crate::domain::event::Event;
use crate::domain::time::Timestamp;
use crate::store::EventClaim;
use crate::store::events::columns::{event_columns, readable};
use crate::store::within::within;

/// The due ones of a type whose reference nobody has; more than one of a reference may be among them.
const DUE: &str = "SELECT e.id, e.reference, e.keyed, COALESCE(length(e.payload), 0) FROM events AS e \
    WHERE e.state = 0 AND e.type = $1 AND e.nbf <= $2 AND (e.nbf, e.id) > ($5, $6) AND e.attempts < $4 \
        AND (e.expires_at IS NULL OR e.expires_at > $2) \
        AND (NOT e.keyed OR NOT EXISTS (SELECT 1 FROM events AS s WHERE s.state = 1 AND s.keyed \
            AND s.type = e.type AND s.reference = e.reference)) \
    ORDER BY e.nbf, e.id LIMIT $3";
/// With the time: a store that was restored counts a second time, and whoever holds a lease of before must not end
/// one of after.
const TOKENS: &str = "UPDATE event_token SET value = value + $1 RETURNING value + $2";
/// Those of a JSON document, with the tokens from `$2` on.
const TAKE: &str = concat!(
    "WITH b AS MATERIALIZED (SELECT value AS event, $2 + key AS token FROM json_each($1)) \
     UPDATE events SET state = 1, lease_revision = revision, lease_token = b.token, lease_owner = $3, \
        lease_until = $4 FROM b WHERE id = b.event RETURNING ",
    event_columns!()
);

pub(in crate::store) async fn take(
    connection: &mut SqliteConnection,
    claim: &EventClaim,
    now: Timestamp,
) -> Result<Vec<Event>, sqlx::Error> {
    let (after, after_id) = claim.after.map_or((i64::MIN, 0), |(nbf, id)| (nbf.micros(), id));
    let due = sqlx::query_as::<_, (i64, String, bool, i64)>(DUE)
        .bind(claim.event_type.as_str())
        .bind(now.micros())
        .bind(i64::from(claim.limit))
        .bind(i64::from(claim.cutoff))
        .bind(after)
        .bind(after_id)
        .fetch(&mut *connection);
    let due = within(due, |row| Ok(row.clone()), |row| usize::try_from(row.3).unwrap_or(0)).await?;
    let mut references = HashSet::new();
    let due: Vec<i64> = due
        .into_iter()
        .filter_map(|(id, reference, keyed, _)| (!keyed || references.insert(reference)).then_some(id))
        .collect();
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let count = i64::try_from(due.len()).unwrap_or(i64::MAX);
    let last: i64 = sqlx::query_scalar(TOKENS)
        .bind(count)
        .bind(now.micros())
        .fetch_one(&mut *connection)
        .await?;
    let rows = sqlx::query(TAKE)
        .bind(json!(due).to_string())
        .bind(last - count + 1)
        .bind(claim.owner.0)
        .bind(now.plus(claim.span).micros())
        .fetch_all(connection)
        .await?;
    let mut taken = readable(&rows);
    // In which order they come back is nobody's promise.
    taken.sort_by_key(|event| (event.nbf, event.id));
    Ok(taken)
}
