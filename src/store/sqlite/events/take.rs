//! Leases of handlers: taken, prolonged, and ended for those who lost them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::json;
use sqlx::sqlite::SqliteConnection;

use super::finish::let_go;
use crate::domain::event::{Event, EventType, HandlingRules, LeaseKey};
use crate::domain::time::Timestamp;
use crate::store::columns::text;
use crate::store::events::columns::{event, event_columns, lost, rules};
use crate::store::events::verdicts::Losses;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::error::unread;
use crate::store::within::within;
use crate::store::{EventClaim, Expired, Reaped, StoreError};

/// The due ones of a type whose reference nobody has; more than one of a reference may be among them.
const DUE: &str = "SELECT e.id, e.reference, e.keyed, COALESCE(length(e.payload), 0) FROM events AS e \
    WHERE e.state = 0 AND e.type = $1 AND e.nbf <= $2 AND (e.nbf, e.id) > ($5, $6) AND e.attempts < $4 \
        AND (e.expires_at IS NULL OR e.expires_at > $2) \
        AND (NOT e.keyed OR NOT EXISTS (SELECT 1 FROM events AS s WHERE s.state = 1 AND s.keyed \
            AND s.type = e.type AND s.reference = e.reference)) \
    ORDER BY e.nbf, e.id LIMIT $3";
const NEXT_DUE: &str = "SELECT min(nbf) FROM events WHERE state = 0 AND type = $1";
/// With the time: a store that was restored counts a second time, and whoever holds a lease of before must not end
/// one of after.
pub(super) const TOKENS: &str = "UPDATE event_token SET value = value + $1 RETURNING value + $2";
/// Those of a JSON document, with the tokens from `$2` on.
const TAKE: &str = concat!(
    "WITH b AS MATERIALIZED (SELECT value AS event, $2 + key AS token FROM json_each($1)) \
     UPDATE events SET state = 1, lease_revision = revision, lease_token = b.token, lease_owner = $3, \
        lease_until = $4 FROM b WHERE id = b.event RETURNING ",
    event_columns!()
);
const RENEW: &str = "WITH b AS MATERIALIZED (SELECT value ->> 0 AS event, value ->> 1 AS token FROM json_each($1)) \
    UPDATE events SET lease_until = $2 FROM b WHERE id = b.event AND lease_token = b.token AND +state = 1 \
    RETURNING id";
const LOST: &str = "SELECT e.id, e.type, e.attempts, e.lease_token, e.lease_revision, e.lease_owner \
    FROM events AS e WHERE e.state = 1 AND (e.lease_until <= $1 OR (e.lease_owner IS NOT NULL AND NOT EXISTS \
        (SELECT 1 FROM incarnations AS i WHERE i.id = e.lease_owner AND i.alive))) \
    ORDER BY e.lease_until LIMIT $2";
const RULES: &str = "SELECT name, cutoff, backoff_base, backoff_cap FROM event_types \
    WHERE name IN (SELECT value FROM json_each($1))";
const GIVE_UP: &str = "UPDATE events SET state = 2, last_failed_at = COALESCE(last_failed_at, $3) \
    WHERE +state = 0 AND +type = $1 AND attempts > 0 AND attempts >= $2";
const EXPIRE: &str = "DELETE FROM events WHERE id IN \
    (SELECT id FROM events WHERE expires_at <= $2 AND state <> 1 ORDER BY expires_at LIMIT $1)";
const FORGET: &str = "DELETE FROM event_history WHERE position IN \
    (SELECT position FROM event_history WHERE expires_at <= $2 ORDER BY expires_at LIMIT $1)";

impl SqliteStore {
    pub(super) async fn take_events(&self, claim: &EventClaim) -> Result<Vec<Event>, StoreError> {
        let (claim, now) = (claim.clone(), self.clock.now());
        self.write("taking events", move |connection| {
            Box::pin(async move { take(connection, &claim, now).await })
        })
        .await
    }

    pub(super) async fn next_due_event(&self, event_type: &EventType) -> Result<Option<Duration>, StoreError> {
        let next: Option<i64> = sqlx::query_scalar(NEXT_DUE)
            .bind(event_type.as_str())
            .fetch_one(self.readers())
            .await
            .map_err(unread("looking for the next event"))?;
        Ok(next.map(|nbf| Timestamp::from_micros(nbf).since(self.clock.now())))
    }

    pub(super) async fn renew_events(&self, leases: &[LeaseKey], span: Duration) -> Result<Vec<i64>, StoreError> {
        let rows: Vec<_> = leases.iter().map(|lease| (lease.id, lease.token)).collect();
        let (rows, until) = (json!(rows).to_string(), self.clock.now().plus(span).micros());
        self.write("prolonging leases on events", move |connection| {
            Box::pin(async move {
                let query = sqlx::query_scalar(RENEW).bind(rows).bind(until);
                query.fetch_all(connection).await
            })
        })
        .await
    }

    pub(super) async fn reap_events(&self, limit: u32, configured: HandlingRules) -> Result<Vec<Reaped>, StoreError> {
        let now = self.clock.now();
        self.write("ending lost leases on events", move |connection| {
            Box::pin(async move { reap(connection, limit, configured, now).await })
        })
        .await
    }

    pub(super) async fn give_up_events(&self, event_type: &EventType, cutoff: u32) -> Result<u64, StoreError> {
        let (event_type, now) = (event_type.clone(), self.clock.now().micros());
        self.write("giving up events", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(GIVE_UP)
                    .bind(event_type.as_str())
                    .bind(i64::from(cutoff))
                    .bind(now);
                Ok(query.execute(connection).await?.rows_affected())
            })
        })
        .await
    }

    pub(super) async fn expire_events(&self, limit: u32) -> Result<Expired, StoreError> {
        let (limit, now) = (i64::from(limit), self.clock.now().micros());
        self.write("removing expired events", move |connection| {
            Box::pin(async move {
                let events = sqlx::query(EXPIRE)
                    .bind(limit)
                    .bind(now)
                    .execute(&mut *connection)
                    .await?;
                let history = sqlx::query(FORGET).bind(limit).bind(now).execute(connection).await?;
                Ok(Expired {
                    events: events.rows_affected(),
                    history: history.rows_affected(),
                })
            })
        })
        .await
    }
}

async fn take(
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
    let mut taken: Vec<Event> = rows.iter().map(event).collect::<Result<_, _>>()?;
    // In which order they come back is nobody's promise.
    taken.sort_by_key(|event| (event.nbf, event.id));
    Ok(taken)
}

async fn reap(
    connection: &mut SqliteConnection,
    limit: u32,
    configured: HandlingRules,
    now: Timestamp,
) -> Result<Vec<Reaped>, sqlx::Error> {
    let query = sqlx::query(LOST).bind(now.micros()).bind(i64::from(limit));
    let rows = query.fetch_all(&mut *connection).await?;
    let leases = rows.iter().map(lost).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<&str> = leases.iter().map(|lost| lost.event_type.as_str()).collect();
    let query = sqlx::query(RULES).bind(json!(names).to_string());
    let mut rules_of: HashMap<String, HandlingRules> = HashMap::new();
    for row in query.fetch_all(&mut *connection).await? {
        rules_of.insert(text(&row, "name")?, rules(&row, configured)?);
    }
    let losses = Losses::of(leases, &rules_of, configured, now);
    let revisions = let_go(connection, losses.staying(), now).await?;
    Ok(losses.reaped(revisions))
}
