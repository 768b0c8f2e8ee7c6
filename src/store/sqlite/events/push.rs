//! Pushing: all of a batch in one work of the writer, and in one statement what JSON carries as it is.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use serde_json::json;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::domain::event::NewEvent;
use crate::domain::time::Timestamp;
use crate::domain::trace::TraceContext;
use crate::store::columns::{integer, micros, text};
use crate::store::events::columns::coalesced;
use crate::store::sql::Session;
use crate::store::sql::events::begin_push;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::error::unwritten;
use crate::store::{EventBatch, PushOutcome, Pushed, PushedHow, StoreError};

const TYPE_MAKE: &str = "INSERT INTO event_types (name, created_at, updated_at, used_at) VALUES ($1, $2, $2, $2) \
    ON CONFLICT (name) DO UPDATE SET used_at = excluded.used_at";
/// Events of one statement at most, and bytes of their payloads.
pub(super) const TOGETHER_MAX: usize = 500;
const TOGETHER_BYTES: usize = 1 << 20;
/// What this database makes a new row's `uid` of, one for each row.
macro_rules! new_uid {
    () => {
        "lower(hex(randomblob(16)))"
    };
}
macro_rules! on_conflict {
    () => {
        concat!(
            "ON CONFLICT (type, reference, subtype, dated) WHERE keyed DO UPDATE SET \
             nbf = iif(e.subtype = 'delayed', excluded.nbf, min(excluded.nbf, COALESCE(\
                iif(e.state = 2 OR e.revision = e.lease_revision, excluded.created_at, e.first_at) \
                + (SELECT coalesce_max FROM event_types WHERE name = e.type), excluded.nbf))), ",
            coalesced!()
        )
    };
}
const PUSH: &str = concat!(
    "INSERT INTO events AS e \
        (type, subtype, reference, dated, keyed, nbf, created_at, first_at, reason, payload, expires_at, trace, uid) \
     SELECT $1, iif($3 IS NULL, '', 'delayed'), $2, COALESCE($3, 0), 1 - COALESCE(t.is_target, 0), \
        COALESCE($3, $4 + COALESCE(t.coalesce_window, 0)), $4, $4, $5, $6, $4 + $7, $8, ",
    new_uid!(),
    " \
     FROM (SELECT 1) LEFT JOIN event_types AS t ON t.name = $1 WHERE true ",
    on_conflict!(),
    " RETURNING id, revision, merged"
);
/// The same for a JSON document of events, no two of one type and reference.
const PUSH_MANY: &str = concat!(
    "INSERT INTO events AS e \
        (type, subtype, reference, dated, keyed, nbf, created_at, first_at, reason, payload, expires_at, trace, uid) \
     SELECT j.value ->> 0, iif(j.value ->> 2 IS NULL, '', 'delayed'), j.value ->> 1, COALESCE(j.value ->> 2, 0), \
        1 - COALESCE(t.is_target, 0), COALESCE(j.value ->> 2, $2 + COALESCE(t.coalesce_window, 0)), $2, $2, \
        j.value ->> 3, CAST(j.value ->> 4 AS BLOB), $2 + (j.value ->> 5), j.value ->> 6, ",
    new_uid!(),
    " \
     FROM json_each($1) AS j LEFT JOIN event_types AS t ON t.name = j.value ->> 0 WHERE true ",
    on_conflict!(),
    " RETURNING type, reference, id, revision, merged"
);
impl SqliteStore {
    pub(super) async fn push_batch(&self, batch: &EventBatch) -> Result<PushOutcome, StoreError> {
        let names = batch.events.iter().map(|event| event.event_type.as_str());
        let undecodable = batch.undecodable.iter().map(|message| message.event_type.as_str());
        let missing = self.known_types.missing(names.chain(undecodable));
        if let ([one], [], true) = (batch.events.as_slice(), missing.as_slice(), batch.is_plain()) {
            return self.push_one(one.clone()).await;
        }
        let (new_types, batch, now) = (missing.clone(), batch.clone(), self.clock.now());
        let outcome = self
            .work("pushing events", move |connection| {
                Box::pin(async move { push_all(connection, &new_types, &batch, now).await })
            })
            .await?;
        if outcome != PushOutcome::Fenced {
            self.known_types.learn(missing);
        }
        Ok(outcome)
    }

    async fn push_one(&self, event: NewEvent) -> Result<PushOutcome, StoreError> {
        let pushing = self.gathering.push(&self.file, &self.clock, event);
        let pushed = pushing.await.map_err(unwritten("pushing events"))?;
        Ok(PushOutcome::Pushed(vec![pushed]))
    }
}

async fn push_all(
    connection: &mut SqliteConnection,
    new_types: &[String],
    batch: &EventBatch,
    now: Timestamp,
) -> Result<PushOutcome, sqlx::Error> {
    for name in new_types {
        let query = sqlx::query(TYPE_MAKE).bind(name).bind(now.micros());
        query.execute(&mut *connection).await?;
    }
    if !begin_push(&mut Session::Writer(&mut *connection, now), batch, now).await? {
        return Ok(PushOutcome::Fenced);
    }
    push_each(connection, &batch.events, now).await.map(PushOutcome::Pushed)
}

/// Pushes one after the other; answers in their order.
pub(super) async fn push_each(
    connection: &mut SqliteConnection,
    events: &[NewEvent],
    now: Timestamp,
) -> Result<Vec<Pushed>, sqlx::Error> {
    let mut pushed = Vec::with_capacity(events.len());
    let mut left = events;
    while let [first, rest @ ..] = left {
        let count = together(left);
        if count < 2 {
            pushed.push(push(connection, first, now).await?);
            left = rest;
        } else {
            pushed.extend(push_many(connection, &left[..count], now).await?);
            left = &left[count..];
        }
    }
    Ok(pushed)
}

/// How many of the first ones go into one statement: each row is touched once, and JSON changes none of them.
fn together(events: &[NewEvent]) -> usize {
    let (mut keys, mut bytes) = (HashSet::new(), 0);
    for (count, event) in events.iter().take(TOGETHER_MAX).enumerate() {
        bytes += event.payload.as_ref().map_or(0, Bytes::len);
        if text_of(event).is_none() || bytes > TOGETHER_BYTES || !keys.insert(key(event)) {
            return count;
        }
    }
    events.len().min(TOGETHER_MAX)
}

fn key(event: &NewEvent) -> (&str, &str) {
    (event.event_type.as_str(), event.reference.as_str())
}

/// The payload as text, empty where there is none; `None`: it or another part is not what JSON carries as it is.
fn text_of(event: &NewEvent) -> Option<&str> {
    let payload = std::str::from_utf8(event.payload.as_deref().unwrap_or_default()).ok()?;
    let parts = [
        event.reference.as_str(),
        event.reason.as_deref().unwrap_or_default(),
        payload,
    ];
    (!parts.iter().any(|part| part.contains('\0'))).then_some(payload)
}

async fn push_many(
    connection: &mut SqliteConnection,
    events: &[NewEvent],
    now: Timestamp,
) -> Result<Vec<Pushed>, sqlx::Error> {
    let rows: Vec<_> = events
        .iter()
        .map(|event| {
            json!([
                event.event_type.as_str(),
                event.reference.as_str(),
                event.nbf.map(Timestamp::micros),
                event.reason,
                event.payload.as_ref().and_then(|_| text_of(event)),
                event.lifetime.map(micros),
                event.trace.as_ref().map(TraceContext::as_str),
            ])
        })
        .collect();
    let rows = sqlx::query(PUSH_MANY)
        .bind(json!(rows).to_string())
        .bind(now.micros())
        .fetch_all(connection)
        .await?;
    // In which order they come back is nobody's promise.
    let mut by_key = HashMap::with_capacity(rows.len());
    for row in &rows {
        by_key.insert((text(row, "type")?, text(row, "reference")?), pushed(row)?);
    }
    let each = events.iter().map(|event| {
        let (event_type, reference) = key(event);
        by_key
            .get(&(event_type.to_owned(), reference.to_owned()))
            .copied()
            .ok_or(sqlx::Error::RowNotFound)
    });
    each.collect()
}

async fn push(connection: &mut SqliteConnection, event: &NewEvent, now: Timestamp) -> Result<Pushed, sqlx::Error> {
    let row = sqlx::query(PUSH)
        .bind(event.event_type.as_str())
        .bind(event.reference.as_str())
        .bind(event.nbf.map(Timestamp::micros))
        .bind(now.micros())
        .bind(event.reason.as_deref())
        .bind(event.payload.as_deref())
        .bind(event.lifetime.map(micros))
        .bind(event.trace.as_ref().map(TraceContext::as_str))
        .fetch_one(connection)
        .await?;
    pushed(&row)
}

fn pushed(row: &SqliteRow) -> Result<Pushed, sqlx::Error> {
    let revision = integer(row, "revision")?;
    Ok(Pushed {
        id: integer(row, "id")?,
        revision,
        how: PushedHow::of(revision, integer(row, "merged")?),
    })
}
