//! Pushing: one upsert for each event, all of a batch in one work of the writer.

use sqlx::sqlite::SqliteConnection;

use crate::domain::event::NewEvent;
use crate::domain::time::Timestamp;
use crate::store::columns::{integer, micros};
use crate::store::events::columns::coalesced;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::error::unwritten;
use crate::store::{EventBatch, NamedLease, PushOutcome, Pushed, PushedHow, StoreError, Undecodable};

const TYPE_MAKE: &str = "INSERT INTO event_types (name, created_at, updated_at) VALUES ($1, $2, $2) \
    ON CONFLICT (name) DO NOTHING";
const PUSH: &str = concat!(
    "INSERT INTO events AS e \
        (type, subtype, reference, dated, keyed, nbf, created_at, first_at, reason, payload, expires_at) \
     SELECT $1, iif($3 IS NULL, '', 'delayed'), $2, COALESCE($3, 0), 1 - COALESCE(t.is_target, 0), \
        COALESCE($3, $4 + COALESCE(t.coalesce_window, 0)), $4, $4, $5, $6, $4 + $7 \
     FROM (SELECT 1) LEFT JOIN event_types AS t ON t.name = $1 WHERE true \
     ON CONFLICT (type, reference, subtype, dated) WHERE keyed DO UPDATE SET \
        nbf = iif(e.subtype = 'delayed', excluded.nbf, min(excluded.nbf, COALESCE(\
            iif(e.state = 2 OR e.revision = e.lease_revision, excluded.created_at, e.first_at) \
            + (SELECT coalesce_max FROM event_types WHERE name = e.type), excluded.nbf))), ",
    coalesced!(),
    " RETURNING id, revision, merged"
);
const GUARD: &str = "SELECT 1 FROM named_leases WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL";
const UNDECODABLE: &str = "INSERT INTO events (type, subtype, reference, keyed, state, nbf, created_at, first_at, \
    reason, payload, properties, first_failed_at, last_failed_at) \
    SELECT $1, '', $2, 0, 2, $6, $6, $6, $3, $4, $5, $6, $6 WHERE NOT ($7 AND EXISTS (\
        SELECT 1 FROM events WHERE type = $1 AND reference = $2 AND NOT keyed AND payload = $4))";

impl SqliteStore {
    pub(super) async fn push_events(&self, batch: &EventBatch) -> Result<PushOutcome, StoreError> {
        let names = batch.events.iter().map(|event| event.event_type.as_str());
        let undecodable = batch.undecodable.iter().map(|message| message.event_type.as_str());
        let missing = self.known_types.missing(names.chain(undecodable));
        if let ([one], [], true) = (batch.events.as_slice(), missing.as_slice(), batch.is_plain()) {
            return self.push_one(one.clone()).await;
        }
        let (new_types, batch, now) = (missing.clone(), batch.clone(), self.clock.now());
        let outcome = self
            .write("pushing events", move |connection| {
                Box::pin(async move { push_all(connection, &new_types, &batch, now).await })
            })
            .await?;
        if outcome != PushOutcome::Fenced {
            self.known_types.learn(missing);
        }
        Ok(outcome)
    }

    async fn push_one(&self, event: NewEvent) -> Result<PushOutcome, StoreError> {
        let now = self.clock.now();
        let pushing = self.file.write_statement(move |connection| {
            Box::pin(async move { push(connection, &event, now).await.map(|pushed| vec![pushed]) })
        });
        pushing
            .await
            .map(PushOutcome::Pushed)
            .map_err(unwritten("pushing events"))
    }
}

async fn push_all(
    connection: &mut SqliteConnection,
    new_types: &[String],
    batch: &EventBatch,
    now: Timestamp,
) -> Result<PushOutcome, sqlx::Error> {
    if let Some(guard) = &batch.guard
        && !is_held(connection, guard).await?
    {
        return Ok(PushOutcome::Fenced);
    }
    for name in new_types {
        let query = sqlx::query(TYPE_MAKE).bind(name).bind(now.micros());
        query.execute(&mut *connection).await?;
    }
    for message in &batch.undecodable {
        bury(connection, message, now).await?;
    }
    let mut pushed = Vec::with_capacity(batch.events.len());
    for event in &batch.events {
        pushed.push(push(connection, event, now).await?);
    }
    Ok(PushOutcome::Pushed(pushed))
}

/// Whether the lease is held: there is one writer, so it stays so until the end of the work.
pub(super) async fn is_held(connection: &mut SqliteConnection, guard: &NamedLease) -> Result<bool, sqlx::Error> {
    let row = sqlx::query(GUARD)
        .bind(&guard.name)
        .bind(guard.epoch.0)
        .fetch_optional(connection)
        .await?;
    Ok(row.is_some())
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
        .fetch_one(connection)
        .await?;
    let revision = integer(&row, "revision")?;
    Ok(Pushed {
        id: integer(&row, "id")?,
        revision,
        how: PushedHow::of(revision, integer(&row, "merged")?),
    })
}

async fn bury(connection: &mut SqliteConnection, message: &Undecodable, now: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query(UNDECODABLE)
        .bind(message.event_type.as_str())
        .bind(message.reference.as_str())
        .bind(&message.reason)
        .bind(&message.payload[..])
        .bind(&message.properties)
        .bind(now.micros())
        .bind(message.comes_again)
        .execute(connection)
        .await?;
    Ok(())
}
