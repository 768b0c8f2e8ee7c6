//! Leases of handlers: taken, prolonged, and ended for those who lost them.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::PgConnection;

use super::finish::let_go;
use crate::domain::event::{Event, EventType, HandlingRules, LeaseKey};
use crate::domain::time::Timestamp;
use crate::store::columns::{integer, micros, text};
use crate::store::events::columns::{event, event_columns, lost, rules};
use crate::store::events::verdicts::Losses;
use crate::store::postgres::PostgresStore;
use crate::store::within::read_bytes;
use crate::store::{EventClaim, Expired, Reaped, StoreError};

/// The due ones of a type, one for each reference that nobody has. What two of these statements take at once of
/// one reference, the index over leases refuses. `OFFSET 0`: leases are looked up one by one, not all gathered first.
const TAKE: &str = concat!(
    "WITH clock AS MATERIALIZED (SELECT redrive.store_now() AS now), \
     pick AS MATERIALIZED (SELECT e.id AS picked, CASE WHEN e.keyed THEN e.reference ELSE e.id::text END AS one, \
            e.nbf AS due, COALESCE(octet_length(e.payload), 0) AS bytes \
        FROM redrive.events e WHERE e.state = 0 AND e.type = $1 AND e.nbf <= (SELECT now FROM clock) \
            AND (e.nbf, e.id) > ($6::bigint, $7::bigint) AND e.attempts < $3 \
            AND (e.expires_at IS NULL OR e.expires_at > (SELECT now FROM clock)) \
            AND (NOT e.keyed OR NOT EXISTS (SELECT 1 FROM redrive.events s WHERE s.state = 1 AND s.keyed \
                AND s.type = e.type AND s.reference = e.reference OFFSET 0)) \
        ORDER BY e.nbf, e.id LIMIT $2 FOR UPDATE OF e SKIP LOCKED), \
     first AS (SELECT picked, row_number() OVER (PARTITION BY one ORDER BY due, picked) AS place, \
            sum(bytes) OVER (ORDER BY due, picked) - bytes AS bytes_before FROM pick) \
     UPDATE redrive.events SET state = 1, lease_revision = revision, \
        lease_token = nextval('redrive.event_token') + (SELECT now FROM clock), lease_owner = $4, \
        lease_until = (SELECT now FROM clock) + $5 \
     FROM first WHERE id = first.picked AND first.place = 1 AND first.bytes_before < $8 RETURNING ",
    event_columns!()
);
/// By the database's clock; below zero for what is due and cannot be taken yet.
const NEXT_DUE: &str = "SELECT min(nbf) - redrive.store_now() FROM redrive.events WHERE state = 0 AND type = $1";
const RENEW: &str = "UPDATE redrive.events e SET lease_until = redrive.store_now() + $3 \
    FROM unnest($1::bigint[], $2::bigint[]) AS x (event, token) \
    WHERE e.id = x.event AND e.lease_token = x.token AND e.state + 0 = 1 RETURNING e.id";
const LOST: &str = "SELECT e.id, e.type, e.attempts, e.lease_token, e.lease_revision, e.lease_owner \
    FROM redrive.events e WHERE e.state = 1 AND (e.lease_until <= $1 OR (e.lease_owner IS NOT NULL AND NOT EXISTS \
        (SELECT 1 FROM redrive.incarnations i WHERE i.id = e.lease_owner AND i.alive))) \
    ORDER BY e.lease_until LIMIT $2 FOR UPDATE OF e SKIP LOCKED";
const RULES: &str =
    "SELECT name, cutoff, backoff_base, backoff_cap FROM redrive.event_types WHERE name = ANY($1::text[])";
const GIVE_UP: &str = "UPDATE redrive.events SET state = 2, last_failed_at = COALESCE(last_failed_at, \
    redrive.store_now()) WHERE state = 0 AND type = $1 AND attempts > 0 AND attempts >= $2";
const EXPIRE: &str = "DELETE FROM redrive.events WHERE id = ANY (ARRAY(SELECT id FROM redrive.events \
    WHERE expires_at <= redrive.store_now() AND state <> 1 ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))";
const FORGET: &str = "DELETE FROM redrive.event_history WHERE position = ANY (ARRAY(SELECT position \
    FROM redrive.event_history WHERE expires_at <= redrive.store_now() ORDER BY expires_at LIMIT $1 \
    FOR UPDATE SKIP LOCKED))";

impl PostgresStore {
    pub(super) async fn take_events(&self, claim: &EventClaim) -> Result<Vec<Event>, StoreError> {
        let (after, after_id) = claim.after.map_or((i64::MIN, 0), |(nbf, id)| (nbf.micros(), id));
        let query = sqlx::query(TAKE)
            .bind(claim.event_type.as_str())
            .bind(i64::from(claim.limit))
            .bind(i64::from(claim.cutoff))
            .bind(claim.owner.0)
            .bind(micros(claim.span))
            .bind(after)
            .bind(after_id)
            .bind(read_bytes());
        self.call("taking events", async |connection: &mut PgConnection| {
            let rows = query.fetch_all(connection).await?;
            let mut events: Vec<Event> = rows.iter().map(event).collect::<Result<_, _>>()?;
            events.sort_by_key(|event| (event.nbf, event.id));
            Ok(events)
        })
        .await
    }

    pub(super) async fn next_due_event(&self, event_type: &EventType) -> Result<Option<Duration>, StoreError> {
        let query = sqlx::query_scalar(NEXT_DUE).bind(event_type.as_str());
        self.call("looking for the next event", async |connection: &mut PgConnection| {
            let left: Option<i64> = query.fetch_one(connection).await?;
            Ok(left.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))))
        })
        .await
    }

    pub(super) async fn renew_events(&self, leases: &[LeaseKey], span: Duration) -> Result<Vec<i64>, StoreError> {
        let ids: Vec<i64> = leases.iter().map(|lease| lease.id).collect();
        let tokens: Vec<i64> = leases.iter().map(|lease| lease.token).collect();
        self.call("prolonging leases on events", async |connection: &mut PgConnection| {
            sqlx::query_scalar(RENEW)
                .bind(ids)
                .bind(tokens)
                .bind(micros(span))
                .fetch_all(connection)
                .await
        })
        .await
    }

    pub(super) async fn reap_events(&self, limit: u32, configured: HandlingRules) -> Result<Vec<Reaped>, StoreError> {
        self.transaction(
            "ending lost leases on events",
            async |connection: &mut PgConnection, now| reap(connection, limit, configured, now).await,
        )
        .await
    }

    pub(super) async fn give_up_events(&self, event_type: &EventType, cutoff: u32) -> Result<u64, StoreError> {
        let query = sqlx::query(GIVE_UP).bind(event_type.as_str()).bind(i64::from(cutoff));
        self.call("giving up events", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected())
        })
        .await
    }

    pub(super) async fn expire_events(&self, limit: u32) -> Result<Expired, StoreError> {
        self.call("removing expired events", async |connection: &mut PgConnection| {
            let limit = i64::from(limit);
            let events = sqlx::query(EXPIRE).bind(limit).execute(&mut *connection).await?;
            let history = sqlx::query(FORGET).bind(limit).execute(connection).await?;
            Ok(Expired {
                events: events.rows_affected(),
                history: history.rows_affected(),
            })
        })
        .await
    }
}

/// The rows are locked when they are read, so that a finish that waits finds what was decided here.
async fn reap(
    connection: &mut PgConnection,
    limit: u32,
    configured: HandlingRules,
    now: Timestamp,
) -> Result<Vec<Reaped>, sqlx::Error> {
    let rows = sqlx::query(LOST)
        .bind(now.micros())
        .bind(i64::from(limit))
        .fetch_all(&mut *connection)
        .await?;
    let leases = rows.iter().map(lost).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<&str> = leases.iter().map(|lost| lost.event_type.as_str()).collect();
    let mut rules_of: HashMap<String, HandlingRules> = HashMap::new();
    for row in sqlx::query(RULES).bind(names).fetch_all(&mut *connection).await? {
        rules_of.insert(text(&row, "name")?, rules(&row, configured)?);
    }
    let losses = Losses::of(leases, &rules_of, configured, now);
    let revisions = let_go(connection, losses.staying()).await?;
    Ok(losses.reaped(revisions))
}

/// For rows with only an id.
pub(super) fn id_of(row: &sqlx::postgres::PgRow) -> Result<i64, sqlx::Error> {
    integer(row, "id")
}
