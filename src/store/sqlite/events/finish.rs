//! Ends of leases: all of a call in one work of the writer, and each kind of end in one statement, which costs two
//! threads a hand-over whatever is in it.

use std::collections::{HashMap, HashSet};

use serde_json::json;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::domain::event::LeaseKey;
use crate::domain::time::Timestamp;
use crate::store::columns::{Columns, integer};
use crate::store::events::columns::lease_cleared;
use crate::store::events::verdicts::{Found, Split, Staying, let_go_of};
use crate::store::sqlite::SqliteStore;
use crate::store::{Finish, Finished, NewOutboxRow, StoreError};

/// What is there of events, leased or not.
const THERE: &str = "SELECT e.id, e.lease_token, e.revision, e.expires_at = e.created_at AS cancelled \
    FROM json_each($1) AS j CROSS JOIN events AS e ON e.id = j.value";
/// In the order in which they are given.
const REMEMBER: &str = "INSERT INTO event_history \
    (id, type, reference, revision, attempts, reason, created_at, handled_at, expires_at) \
    SELECT e.id, e.type, e.reference, e.revision, e.attempts, e.reason, e.created_at, $2, $2 + t.history_ttl \
    FROM json_each($1) AS j CROSS JOIN events AS e ON e.id = j.value \
        CROSS JOIN event_types AS t ON t.name = e.type WHERE t.history_ttl IS NOT NULL";
const REMOVE: &str = "DELETE FROM events WHERE id IN (SELECT value FROM json_each($1))";
const STAY: &str = concat!(
    "WITH b AS MATERIALIZED (SELECT value ->> 0 AS event, value ->> 1 AS token, value ->> 2 AS seen, \
        value ->> 3 AS next, value ->> 4 AS count, value ->> 5 AS due, value ->> 6 AS delay, value ->> 7 AS why \
        FROM json_each($1)) \
     UPDATE events SET attempts = iif(revision = b.seen, COALESCE(b.count, attempts), attempts), \
        state = iif(revision = b.seen, b.next, 0), \
        nbf = iif(revision = b.seen, COALESCE(b.due, $2 + b.delay, nbf), nbf), \
        reason = iif(revision = b.seen, COALESCE(b.why, reason), reason), \
        first_failed_at = iif(revision = b.seen AND b.count IS NOT NULL, COALESCE(first_failed_at, $2), \
            first_failed_at), \
        last_failed_at = iif(revision = b.seen AND b.count IS NOT NULL, $2, last_failed_at), ",
    lease_cleared!(),
    " FROM b WHERE id = b.event AND lease_token = b.token AND +state = 1 \
     RETURNING id, revision, COALESCE(expires_at = created_at, 0)"
);
const OUTBOX: &str = "INSERT INTO event_outbox (notification, queue, message, type, reference, created_at) \
    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (notification) DO NOTHING";

impl SqliteStore {
    pub(super) async fn finish_each(&self, finishes: &[Finish]) -> Result<Vec<Finished>, StoreError> {
        let (finishes, now) = (finishes.to_vec(), self.clock.now());
        self.work("finishing events", move |connection| {
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
    let there = there(connection, finishes).await?;
    let mut found = Found::new();
    let mut done = HashSet::new();
    for key in &split.done {
        if there.get(&key.id).is_some_and(|row| row.is_held(key)) {
            done.insert(key.id);
            found.put(*key, Finished::Done);
        }
    }
    remove(connection, done.iter().copied(), now).await?;
    for (_, row) in split.outbox.iter().filter(|(event, _)| done.contains(event)) {
        store_notification(connection, row, now).await?;
    }
    let superseded = found.unknown(&split.done).into_iter().map(let_go_of);
    let mut staying = Vec::new();
    for row in split.staying.into_iter().chain(superseded) {
        let how = match there.get(&row.key.id) {
            None => Finished::Gone,
            Some(found) if found.token != Some(row.key.token) => Finished::Stale,
            Some(found) => {
                staying.push(row.clone());
                if found.is_cancelled {
                    Finished::Gone
                } else if found.revision == row.key.revision {
                    row.how
                } else {
                    Finished::Superseded
                }
            }
        };
        found.put(row.key, how);
    }
    let_go(connection, &staying, now).await?;
    Ok(found.in_order(finishes))
}

/// A row as it is found.
struct There {
    token: Option<i64>,
    revision: i64,
    /// Cancelled while a handler has it.
    is_cancelled: bool,
}

impl There {
    /// Whether the lease holds, and nothing was pushed or cancelled meanwhile.
    fn is_held(&self, key: &LeaseKey) -> bool {
        self.token == Some(key.token) && self.revision == key.revision && !self.is_cancelled
    }
}

/// The events that are there, by their ids.
async fn there(connection: &mut SqliteConnection, finishes: &[Finish]) -> Result<HashMap<i64, There>, sqlx::Error> {
    let ids: Vec<i64> = finishes.iter().map(|finish| finish.lease.id).collect();
    let rows = sqlx::query(THERE)
        .bind(json!(ids).to_string())
        .fetch_all(connection)
        .await?;
    let of = |row: &SqliteRow| {
        let there = There {
            token: row.integer("lease_token")?,
            revision: integer(row, "revision")?,
            is_cancelled: row.integer("cancelled")? == Some(1),
        };
        Ok((integer(row, "id")?, there))
    };
    rows.iter().map(of).collect()
}

/// Removes events that are done and that nobody else can finish, for there is one writer; remembers those whose type
/// says so.
pub(in crate::store) async fn remove(
    connection: &mut SqliteConnection,
    events: impl IntoIterator<Item = i64>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let ids: Vec<i64> = events.into_iter().collect();
    if ids.is_empty() {
        return Ok(());
    }
    let ids = json!(ids).to_string();
    sqlx::query(REMEMBER)
        .bind(&ids)
        .bind(now.micros())
        .execute(&mut *connection)
        .await?;
    sqlx::query(REMOVE).bind(&ids).execute(connection).await.map(drop)
}

/// Ends leases of rows that stay; answers those that were still leased so, with the revision that was found. What was
/// cancelled in hand is removed, and not answered.
pub(in crate::store) async fn let_go(
    connection: &mut SqliteConnection,
    staying: &[Staying],
    now: Timestamp,
) -> Result<Vec<(i64, i64)>, sqlx::Error> {
    if staying.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<_> = staying
        .iter()
        .map(|row| {
            // JSON ends a text of SQLite where it has a U+0000.
            let reason = row.reason.as_deref().map(|reason| reason.replace('\0', "\u{fffd}"));
            let LeaseKey { id, token, revision } = row.key;
            json!([id, token, revision, row.state, row.attempts, row.at, row.delay, reason])
        })
        .collect();
    let rows: Vec<(i64, i64, bool)> = sqlx::query_as(STAY)
        .bind(json!(rows).to_string())
        .bind(now.micros())
        .fetch_all(&mut *connection)
        .await?;
    let cancelled: Vec<i64> = rows.iter().filter(|row| row.2).map(|row| row.0).collect();
    if !cancelled.is_empty() {
        let ids = json!(cancelled).to_string();
        sqlx::query(REMOVE).bind(ids).execute(connection).await?;
    }
    let stayed = rows.into_iter().filter(|row| !row.2);
    Ok(stayed.map(|(id, revision, _)| (id, revision)).collect())
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
