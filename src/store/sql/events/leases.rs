//! Leases of handlers: taken, prolonged, and ended for those who lost them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::let_go;
use crate::domain::event::{Event, EventType, HandlingRules, LeaseKey};
use crate::domain::time::Timestamp;
use crate::store::columns::{Columns, integer, text};
use crate::store::events::columns::{lost, rules};
use crate::store::events::verdicts::Losses;
use crate::store::sql::retention::ages_at;
use crate::store::sql::{Calls, Driver, Row, Session, Statement, columns, read_only, values};
use crate::store::{EventClaim, Expired, Reaped, StoreError, postgres, sqlite};

/// Below zero for what is due and cannot be taken yet.
static NEXT_DUE: Statement = Statement::new(
    "SELECT min(nbf) - redrive.store_now() AS remaining FROM redrive.events WHERE state = 0 AND type = $1",
);
/// A row that another session keeps locked lets no other lease run out. With a claim, what a handler has is cancelled.
static RENEW: Statement = Statement::new(
    "UPDATE redrive.events SET lease_until = redrive.store_now() + $3 WHERE id IN \
        (SELECT e.id FROM redrive.events AS e, unnest($1::bigint[], $2::bigint[]) AS x (event, token) \
         WHERE e.id = x.event AND e.lease_token = x.token AND e.state + 0 = 1 AND e.lease_claim IS NULL \
         FOR UPDATE OF e SKIP LOCKED) \
     RETURNING id, lease_token",
);
static HELD: Statement = Statement::new(
    "SELECT e.id, e.lease_token FROM redrive.events AS e, unnest($1::bigint[], $2::bigint[]) AS x (event, token) \
     WHERE e.id = x.event AND e.lease_token = x.token AND e.state + 0 = 1 AND e.lease_claim IS NULL",
);
static LOST: Statement = Statement::new(
    "SELECT e.id, e.type, e.attempts, e.lease_token, e.lease_revision, e.lease_owner \
     FROM redrive.events AS e WHERE e.state = 1 AND (e.lease_until <= $1 OR (e.lease_owner IS NOT NULL AND NOT EXISTS \
        (SELECT 1 FROM redrive.incarnations AS i WHERE i.id = e.lease_owner AND i.alive))) \
     ORDER BY e.lease_until LIMIT $2 FOR UPDATE OF e SKIP LOCKED",
);
static RULES: Statement = Statement::new(
    "SELECT name, cutoff, backoff_base, backoff_cap FROM redrive.event_types WHERE name = ANY($1::text[])",
);
/// SQLite would walk an index over the type's events; those that failed are fewer.
static GIVE_UP: Statement = Statement::apart(
    "UPDATE redrive.events SET state = 2, last_failed_at = COALESCE(last_failed_at, redrive.store_now()) \
     WHERE state = 0 AND type = $1 AND attempts > 0 AND attempts >= $2",
    "UPDATE redrive.events SET state = 2, last_failed_at = COALESCE(last_failed_at, redrive.store_now()) \
     WHERE +state = 0 AND +type = $1 AND attempts > 0 AND attempts >= $2",
);
/// What is over by the clock (`$2`) and would be without its leap (`$3`), and what was made after that (`$4`).
static EXPIRE: Statement = Statement::new(
    "DELETE FROM redrive.events WHERE id = ANY (ARRAY(SELECT id FROM redrive.events \
     WHERE expires_at <= $2 AND (expires_at <= $3 OR created_at >= $4) AND state <> 1 \
     ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))",
);
static FORGET: Statement = Statement::new(
    "DELETE FROM redrive.event_history WHERE position = ANY (ARRAY(SELECT position FROM redrive.event_history \
     WHERE expires_at <= $2 AND (expires_at <= $3 OR handled_at >= $4) \
     ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))",
);

pub(super) async fn take(driver: &impl Driver, claim: &EventClaim) -> Result<Vec<Event>, StoreError> {
    let claim = claim.clone();
    driver
        .write("taking events", move |session| {
            Box::pin(async move {
                match session {
                    Session::Postgres(connection) => postgres::events::take::take(connection, &claim).await,
                    Session::Writer(connection, now) => sqlite::events::take::take(connection, &claim, now).await,
                    Session::Readers(..) => Err(read_only()),
                }
            })
        })
        .await
}

pub(super) async fn next_due(driver: &impl Driver, event_type: &EventType) -> Result<Option<Duration>, StoreError> {
    let left = driver.one("looking for the next event", &NEXT_DUE, values![event_type], |row| {
        row.integer("remaining")
    });
    let left = left.await?;
    Ok(left.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))))
}

pub(super) async fn renew(
    driver: &impl Driver,
    leases: &[LeaseKey],
    span: Duration,
) -> Result<Vec<LeaseKey>, StoreError> {
    let operation = "prolonging leases on events";
    let keys = || columns![leases => |lease| lease.id, lease.token];
    let key = |row: &Row| Ok((integer(row, "id")?, integer(row, "lease_token")?));
    let mut held = driver.changed(operation, &RENEW, values![keys(), span], key).await?;
    if held.len() < leases.len() {
        held = driver.list(operation, &HELD, values![keys()], key).await?;
    }
    let held: HashSet<(i64, i64)> = held.into_iter().collect();
    let is_held = |lease: &&LeaseKey| held.contains(&(lease.id, lease.token));
    Ok(leases.iter().filter(is_held).copied().collect())
}

pub(super) async fn reap(
    driver: &impl Driver,
    limit: u32,
    configured: HandlingRules,
) -> Result<Vec<Reaped>, StoreError> {
    driver
        .transaction("ending lost leases on events", move |mut session, now| {
            Box::pin(async move { reap_lost(&mut session, limit, configured, now).await })
        })
        .await
}

pub(super) async fn give_up(driver: &impl Driver, event_type: &EventType, cutoff: u32) -> Result<u64, StoreError> {
    driver
        .change("giving up events", &GIVE_UP, values![event_type, cutoff])
        .await
}

pub(super) async fn expire(driver: &impl Driver, limit: u32) -> Result<Expired, StoreError> {
    driver
        .transaction("removing expired events", move |mut session, now| {
            Box::pin(async move {
                let ages = ages_at(&mut session, now).await?;
                let values = values![limit, now, ages.without_leap(now), ages.leapt_at.unwrap_or(now)];
                Ok(Expired {
                    events: session.change(&EXPIRE, values.clone()).await?,
                    history: session.change(&FORGET, values).await?,
                })
            })
        })
        .await
}

/// The rows are locked when they are read, so that a finish that waits finds what was decided here.
async fn reap_lost(
    session: &mut Session<'_>,
    limit: u32,
    configured: HandlingRules,
    now: Timestamp,
) -> Result<Vec<Reaped>, sqlx::Error> {
    let leases = session.list(&LOST, values![now, limit], lost).await?;
    let names: Vec<&str> = leases.iter().map(|lost| lost.event_type.as_str()).collect();
    let of_type = |row: &Row| Ok((text(row, "name")?, rules(row, configured)?));
    let rules_of = session.list(&RULES, values![names], of_type).await?;
    let rules_of: HashMap<String, HandlingRules> = rules_of.into_iter().collect();
    let losses = Losses::of(leases, &rules_of, configured, now);
    let revisions = let_go(session, losses.staying()).await?;
    Ok(losses.reaped(revisions))
}
