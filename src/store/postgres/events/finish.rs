//! Ends of leases. Removing and letting go are two statements on purpose: in one, both would look at the row as
//! it was before a push that commits meanwhile, and both would leave it alone, leased.
//!
//! Rows are found by their ids: `state + 0` keeps the planner from the index over leases, which it takes for empty
//! when it was counted while nothing was in hand, and would walk once for each id.

use std::collections::HashSet;

use sqlx::PgConnection;

use super::insisting;
use crate::domain::event::LeaseKey;
use crate::store::columns::{integer, storable};
use crate::store::events::columns::lease_cleared;
use crate::store::events::verdicts::{Found, Split, Staying, let_go_of};
use crate::store::postgres::PostgresStore;
use crate::store::{Finish, Finished, NewOutboxRow, StoreError};

const DONE: &str = "WITH gone AS (DELETE FROM redrive.events e \
        USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS x (event, token, seen) \
        WHERE e.id = x.event AND e.lease_token = x.token AND e.state + 0 = 1 AND e.revision = x.seen \
            AND e.lease_claim IS NULL \
        RETURNING e.id, e.type, e.reference, e.revision, e.attempts, e.reason, e.created_at), \
    kept AS (INSERT INTO redrive.event_history \
        (id, type, reference, revision, attempts, reason, created_at, handled_at, expires_at) \
        SELECT g.id, g.type, g.reference, g.revision, g.attempts, g.reason, g.created_at, redrive.store_now(), \
            redrive.store_now() + t.history_ttl \
        FROM gone g JOIN redrive.event_types t ON t.name = g.type WHERE t.history_ttl IS NOT NULL) \
    SELECT id FROM gone";
/// One that nobody else can finish: its row is locked.
const DONE_ONE: &str = "WITH gone AS (DELETE FROM redrive.events e WHERE e.id = $1 \
        RETURNING e.id, e.type, e.reference, e.revision, e.attempts, e.reason, e.created_at) \
    INSERT INTO redrive.event_history \
        (id, type, reference, revision, attempts, reason, created_at, handled_at, expires_at) \
    SELECT g.id, g.type, g.reference, g.revision, g.attempts, g.reason, g.created_at, redrive.store_now(), \
        redrive.store_now() + t.history_ttl \
    FROM gone g JOIN redrive.event_types t ON t.name = g.type WHERE t.history_ttl IS NOT NULL";
const STAY: &str = concat!(
    "WITH clock AS MATERIALIZED (SELECT redrive.store_now() AS now) UPDATE redrive.events e SET \
        attempts = CASE WHEN e.revision = x.seen THEN COALESCE(x.count, e.attempts) ELSE e.attempts END, \
        state = CASE WHEN e.revision = x.seen THEN x.next ELSE 0 END, \
        nbf = CASE WHEN e.revision = x.seen THEN COALESCE(x.due, clock.now + x.delay, e.nbf) ELSE e.nbf END, \
        reason = CASE WHEN e.revision = x.seen THEN COALESCE(x.why, e.reason) ELSE e.reason END, \
        first_failed_at = CASE WHEN e.revision = x.seen AND x.count IS NOT NULL \
            THEN COALESCE(e.first_failed_at, clock.now) ELSE e.first_failed_at END, \
        last_failed_at = CASE WHEN e.revision = x.seen AND x.count IS NOT NULL THEN clock.now \
            ELSE e.last_failed_at END, ",
    lease_cleared!(),
    " FROM clock, unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
        $7::bigint[], $8::text[]) AS x (event, token, seen, next, count, due, delay, why) \
     WHERE e.id = x.event AND e.lease_token = x.token AND e.state + 0 = 1 \
     RETURNING e.id, e.revision, COALESCE(e.expires_at = e.created_at, FALSE)"
);
/// A push may have come after the lease ended.
const CANCELLED: &str = "DELETE FROM redrive.events WHERE id = ANY($1::bigint[]) \
    AND expires_at = created_at AND state <> 1";
const EXISTING: &str = "SELECT id FROM redrive.events WHERE id = ANY($1::bigint[])";
const OUTBOX: &str = "INSERT INTO redrive.event_outbox (notification, queue, message, type, reference, created_at) \
    SELECT notification, queue COLLATE \"C\", message, type COLLATE \"C\", reference COLLATE \"C\", \
        redrive.store_now() \
    FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::text[]) \
        WITH ORDINALITY AS o (notification, queue, message, type, reference, position) ORDER BY position \
    ON CONFLICT (notification) DO NOTHING";

impl PostgresStore {
    pub(super) async fn finish_each(&self, finishes: &[Finish]) -> Result<Vec<Finished>, StoreError> {
        let split = Split::of(finishes);
        let mut found = Found::new();
        let removed = insisting!(self.remove(&split))?;
        for key in split.done.iter().filter(|key| removed.contains(&key.id)) {
            found.put(*key, Finished::Done);
        }
        let mut staying = split.staying.clone();
        staying.extend(found.unknown(&split.done).into_iter().map(let_go_of));
        if !staying.is_empty() {
            let revisions = insisting!(self.stay(&staying))?;
            for (id, revision) in revisions {
                for stayed in staying.iter().filter(|stayed| stayed.key.id == id) {
                    let current = stayed.key.revision == revision;
                    found.put(stayed.key, if current { stayed.how } else { Finished::Superseded });
                }
            }
        }
        let keys: Vec<LeaseKey> = finishes.iter().map(|finish| finish.lease).collect();
        let unknown = found.unknown(&keys);
        if !unknown.is_empty() {
            let existing = self.existing(&unknown).await?;
            found.lost(&unknown, &existing);
        }
        Ok(found.in_order(finishes))
    }

    /// Removes what is done, and stores its notifications in the same transaction. Answers what went.
    async fn remove(&self, split: &Split) -> Result<HashSet<i64>, StoreError> {
        let operation = "finishing events";
        if split.done.is_empty() {
            return Ok(HashSet::new());
        }
        if split.outbox.is_empty() {
            return self
                .call(operation, async |connection: &mut PgConnection| {
                    remove(connection, &split.done).await
                })
                .await;
        }
        self.in_transaction(operation, async |connection: &mut PgConnection, _| {
            let removed = remove(connection, &split.done).await?;
            let rows = split.outbox.iter().filter(|(event, _)| removed.contains(event));
            store_notifications(connection, &rows.map(|(_, row)| row).collect::<Vec<_>>()).await?;
            Ok(removed)
        })
        .await
        .inspect(|_| self.notifier.stored_notifications())
    }

    async fn stay(&self, staying: &[Staying]) -> Result<Vec<(i64, i64)>, StoreError> {
        self.call("finishing events", async |connection: &mut PgConnection| {
            let_go(connection, staying).await
        })
        .await
    }

    async fn existing(&self, keys: &[LeaseKey]) -> Result<HashSet<i64>, StoreError> {
        let ids: Vec<i64> = keys.iter().map(|key| key.id).collect();
        self.call("finishing events", async |connection: &mut PgConnection| {
            let found: Vec<i64> = sqlx::query_scalar(EXISTING).bind(ids).fetch_all(connection).await?;
            Ok(found.into_iter().collect())
        })
        .await
    }
}

async fn remove(connection: &mut PgConnection, done: &[LeaseKey]) -> Result<HashSet<i64>, sqlx::Error> {
    let ids: Vec<i64> = done.iter().map(|key| key.id).collect();
    let tokens: Vec<i64> = done.iter().map(|key| key.token).collect();
    let revisions: Vec<i64> = done.iter().map(|key| key.revision).collect();
    let rows = sqlx::query(DONE)
        .bind(ids)
        .bind(tokens)
        .bind(revisions)
        .fetch_all(connection)
        .await?;
    rows.iter().map(|row| integer(row, "id")).collect()
}

/// Removes an event that is done and whose row is locked, and remembers it where its type says so.
pub(in crate::store) async fn remove_locked(connection: &mut PgConnection, id: i64) -> Result<(), sqlx::Error> {
    sqlx::query(DONE_ONE).bind(id).execute(connection).await.map(drop)
}

/// Ends leases of rows that stay; answers those that were still leased so, with the revision that was found. What was
/// cancelled in hand is removed, and not answered.
pub(in crate::store) async fn let_go(
    connection: &mut PgConnection,
    staying: &[Staying],
) -> Result<Vec<(i64, i64)>, sqlx::Error> {
    let numbers = |of: fn(&Staying) -> i64| staying.iter().map(of).collect::<Vec<i64>>();
    let optional = |of: fn(&Staying) -> Option<i64>| staying.iter().map(of).collect::<Vec<Option<i64>>>();
    let reasons: Vec<Option<String>> = staying.iter().map(|row| row.reason.as_deref().map(storable)).collect();
    let rows: Vec<(i64, i64, bool)> = sqlx::query_as(STAY)
        .bind(numbers(|row| row.key.id))
        .bind(numbers(|row| row.key.token))
        .bind(numbers(|row| row.key.revision))
        .bind(numbers(|row| row.state))
        .bind(optional(|row| row.attempts))
        .bind(optional(|row| row.at))
        .bind(optional(|row| row.delay))
        .bind(reasons)
        .fetch_all(&mut *connection)
        .await?;
    let cancelled: Vec<i64> = rows.iter().filter(|row| row.2).map(|row| row.0).collect();
    if !cancelled.is_empty() {
        sqlx::query(CANCELLED).bind(cancelled).execute(connection).await?;
    }
    let stayed = rows.into_iter().filter(|row| !row.2);
    Ok(stayed.map(|(id, revision, _)| (id, revision)).collect())
}

async fn store_notifications(connection: &mut PgConnection, rows: &[&NewOutboxRow]) -> Result<(), sqlx::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let texts = |of: fn(&NewOutboxRow) -> &str| rows.iter().map(|row| of(row)).collect::<Vec<&str>>();
    let messages: Vec<&[u8]> = rows.iter().map(|row| &row.message[..]).collect();
    sqlx::query(OUTBOX)
        .bind(texts(|row| &row.notification))
        .bind(texts(|row| &row.queue))
        .bind(messages)
        .bind(texts(|row| row.event_type.as_str()))
        .bind(texts(|row| row.reference.as_str()))
        .execute(connection)
        .await?;
    Ok(())
}
