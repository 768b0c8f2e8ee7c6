//! Ends of leases: all of a call in one work of the writer.

use sqlx::sqlite::SqliteConnection;

use crate::domain::event::LeaseKey;
use crate::domain::time::Timestamp;
use crate::store::events::columns::lease_cleared;
use crate::store::events::verdicts::{Found, Split, Staying, let_go_of};
use crate::store::sqlite::SqliteStore;
use crate::store::{Finish, Finished, NewOutboxRow, StoreError};

const REMEMBER: &str = "INSERT INTO event_history \
    (id, type, reference, revision, attempts, reason, created_at, handled_at, expires_at) \
    SELECT e.id, e.type, e.reference, e.revision, e.attempts, e.reason, e.created_at, $4, $4 + t.history_ttl \
    FROM events AS e JOIN event_types AS t ON t.name = e.type \
    WHERE e.id = $1 AND e.lease_token = $2 AND e.revision = $3 AND e.state = 1 AND t.history_ttl IS NOT NULL";
/// One that nobody else can finish: there is one writer.
const REMEMBER_ONE: &str = "INSERT INTO event_history \
    (id, type, reference, revision, attempts, reason, created_at, handled_at, expires_at) \
    SELECT e.id, e.type, e.reference, e.revision, e.attempts, e.reason, e.created_at, $2, $2 + t.history_ttl \
    FROM events AS e JOIN event_types AS t ON t.name = e.type WHERE e.id = $1 AND t.history_ttl IS NOT NULL";
const DONE_ONE: &str = "DELETE FROM events WHERE id = $1";
const DONE: &str = "DELETE FROM events WHERE id = $1 AND lease_token = $2 AND revision = $3 AND state = 1";
const STAY: &str = concat!(
    "UPDATE events SET attempts = iif(revision = $3, COALESCE($5, attempts), attempts), \
        state = iif(revision = $3, $4, 0), nbf = iif(revision = $3, COALESCE($6, $9 + $7, nbf), nbf), \
        reason = iif(revision = $3, COALESCE($8, reason), reason), \
        first_failed_at = iif(revision = $3 AND $5 IS NOT NULL, COALESCE(first_failed_at, $9), first_failed_at), \
        last_failed_at = iif(revision = $3 AND $5 IS NOT NULL, $9, last_failed_at), ",
    lease_cleared!(),
    " WHERE id = $1 AND lease_token = $2 AND state = 1 RETURNING revision"
);
const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM events WHERE id = $1)";
const OUTBOX: &str = "INSERT INTO event_outbox (notification, queue, message, type, reference, created_at) \
    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (notification) DO NOTHING";

impl SqliteStore {
    pub(super) async fn finish_events(&self, finishes: &[Finish]) -> Result<Vec<Finished>, StoreError> {
        let (finishes, now) = (finishes.to_vec(), self.clock.now());
        self.write("finishing events", move |connection| {
            Box::pin(async move { finish(connection, &finishes, now).await })
        })
        .await
    }
}

async fn finish(
    connection: &mut SqliteConnection,
    finishes: &[Finish],
    now: Timestamp,
) -> Result<Vec<Finished>, sqlx::Error> {
    let split = Split::of(finishes);
    let mut found = Found::new();
    for key in &split.done {
        let rows = split.outbox.iter().filter(|(event, _)| *event == key.id);
        if remove(connection, *key, now).await? {
            found.put(*key, Finished::Done);
            for (_, row) in rows {
                store_notification(connection, row, now).await?;
            }
        }
    }
    let mut staying = split.staying;
    staying.extend(found.unknown(&split.done).into_iter().map(let_go_of));
    for row in &staying {
        let how = match let_go(connection, row, now).await? {
            Some(revision) if revision == row.key.revision => row.how,
            Some(_) => Finished::Superseded,
            None => absent(connection, row.key).await?,
        };
        found.put(row.key, how);
    }
    Ok(found.in_order(finishes))
}

async fn remove(connection: &mut SqliteConnection, key: LeaseKey, now: Timestamp) -> Result<bool, sqlx::Error> {
    sqlx::query(REMEMBER)
        .bind(key.id)
        .bind(key.token)
        .bind(key.revision)
        .bind(now.micros())
        .execute(&mut *connection)
        .await?;
    let query = sqlx::query(DONE).bind(key.id).bind(key.token).bind(key.revision);
    Ok(query.execute(connection).await?.rows_affected() == 1)
}

/// Removes an event that is done, and remembers it where its type says so.
pub(super) async fn remove_held(connection: &mut SqliteConnection, id: i64, now: Timestamp) -> Result<(), sqlx::Error> {
    let query = sqlx::query(REMEMBER_ONE).bind(id).bind(now.micros());
    query.execute(&mut *connection).await?;
    sqlx::query(DONE_ONE).bind(id).execute(connection).await.map(drop)
}

/// Ends the lease of a row that stays; answers the revision that was found, none when it is not leased so.
pub(super) async fn let_go(
    connection: &mut SqliteConnection,
    row: &Staying,
    now: Timestamp,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(STAY)
        .bind(row.key.id)
        .bind(row.key.token)
        .bind(row.key.revision)
        .bind(row.state)
        .bind(row.attempts)
        .bind(row.at)
        .bind(row.delay)
        .bind(row.reason.as_deref())
        .bind(now.micros())
        .fetch_optional(connection)
        .await
}

async fn absent(connection: &mut SqliteConnection, key: LeaseKey) -> Result<Finished, sqlx::Error> {
    let exists: bool = sqlx::query_scalar(EXISTS).bind(key.id).fetch_one(connection).await?;
    Ok(if exists { Finished::Stale } else { Finished::Gone })
}

async fn store_notification(
    connection: &mut SqliteConnection,
    row: &NewOutboxRow,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query(OUTBOX)
        .bind(&row.notification)
        .bind(&row.queue)
        .bind(&row.message[..])
        .bind(row.event_type.as_str())
        .bind(row.reference.as_str())
        .bind(now.micros())
        .execute(connection)
        .await?;
    Ok(())
}
