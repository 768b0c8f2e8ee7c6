//! Pushing: one upsert for a whole batch.

use sqlx::{PgConnection, Row};

use super::insisting;
use crate::domain::event::NewEvent;
use crate::domain::time::Timestamp;
use crate::domain::trace::TraceContext;
use crate::store::columns::{integer, micros, storable};
use crate::store::events::columns::coalesced;
use crate::store::postgres::PostgresStore;
use crate::store::sql::Session;
use crate::store::sql::events::begin_push;
use crate::store::{EventBatch, PushOutcome, Pushed, PushedHow, StoreError};

const TYPES_MAKE: &str = "INSERT INTO redrive.event_types (name, created_at, updated_at, used_at) \
    SELECT name COLLATE \"C\", now, now, now FROM unnest($1::text[]) AS new (name), \
        (SELECT redrive.store_now() AS now) AS clock \
    ORDER BY 1 ON CONFLICT (name) DO UPDATE SET used_at = excluded.used_at";
/// Rows in the order of the key: two batches cannot wait for each other. How long a lock is waited for is set for this
/// statement alone, in the one expression that everything else in it needs first. A type that is remembered is not there
/// any more where the database went back to a backup: it is made again with its event.
const PUSH: &str = concat!(
    "WITH clock AS MATERIALIZED (SELECT redrive.store_now() AS now, \
        CASE WHEN $8::text IS NOT NULL THEN set_config('lock_timeout', $8, true) END AS patience), \
     input AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bytea[], \
        $6::bigint[], $7::text[]) \
        WITH ORDINALITY AS i (type, reference, nbf, reason, payload, lifetime, trace, position)), \
     made AS (INSERT INTO redrive.event_types (name, created_at, updated_at, used_at) \
        SELECT DISTINCT i.type COLLATE \"C\", now, now, now FROM input i CROSS JOIN clock \
        WHERE NOT EXISTS (SELECT 1 FROM redrive.event_types t WHERE t.name = i.type) ORDER BY 1 \
        ON CONFLICT (name) DO NOTHING), \
     pushed AS (INSERT INTO redrive.events AS e \
        (type, subtype, reference, dated, keyed, nbf, created_at, first_at, reason, payload, expires_at, trace) \
        SELECT i.type COLLATE \"C\", CASE WHEN i.nbf IS NULL THEN '' ELSE 'delayed' END, \
            i.reference COLLATE \"C\", COALESCE(i.nbf, 0), NOT COALESCE(t.is_target, false), \
            COALESCE(i.nbf, now + COALESCE(t.coalesce_window, 0)), now, now, i.reason, i.payload, now + i.lifetime, \
            i.trace \
        FROM input i CROSS JOIN clock LEFT JOIN redrive.event_types t ON t.name = i.type ORDER BY 1, 3, 2, 4 \
        ON CONFLICT (type, reference, subtype, dated) WHERE keyed DO UPDATE SET \
            nbf = CASE WHEN e.subtype = 'delayed' THEN excluded.nbf ELSE least(excluded.nbf, \
                CASE WHEN e.state = 2 OR e.revision = e.lease_revision THEN excluded.created_at \
                    ELSE e.first_at END \
                + (SELECT coalesce_max FROM redrive.event_types t WHERE t.name = e.type)) END, ",
    coalesced!(),
    "   RETURNING id, revision, merged, type, reference, subtype, dated) \
     SELECT i.position, p.id, p.revision, p.merged FROM pushed p JOIN input i ON i.type = p.type \
        AND i.reference = p.reference AND (p.subtype = 'delayed') = (i.nbf IS NOT NULL) \
        AND COALESCE(i.nbf, 0) = p.dated ORDER BY i.position"
);
/// Those whose row is there, and of them those whose row can be locked now.
const FREE: &str = "WITH input AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) \
        WITH ORDINALITY AS i (type, reference, nbf, position)), \
     there AS MATERIALIZED (SELECT i.position, e.id FROM input i JOIN redrive.events e ON e.keyed \
        AND e.type = i.type AND e.reference = i.reference AND e.dated = COALESCE(i.nbf, 0) \
        AND e.subtype = CASE WHEN i.nbf IS NULL THEN '' ELSE 'delayed' END), \
     free AS MATERIALIZED (SELECT e.id FROM redrive.events e WHERE e.id = ANY (ARRAY(SELECT id FROM there)) \
        FOR UPDATE SKIP LOCKED) \
     SELECT t.position FROM there t WHERE NOT EXISTS (SELECT 1 FROM free f WHERE f.id = t.id)";

/// How long a push waits for rows that another session has locked.
#[derive(Clone, Copy)]
pub(super) enum Locks {
    /// For a moment: our own statements are done with a row by then, and others wait for this one.
    Brief,
    /// As long as any statement.
    AsSession,
}

impl Locks {
    const fn patience(self) -> Option<&'static str> {
        match self {
            Self::Brief => Some("250ms"),
            Self::AsSession => None,
        }
    }
}

impl PostgresStore {
    pub(super) async fn push_batch(&self, batch: &EventBatch) -> Result<PushOutcome, StoreError> {
        let names = batch.events.iter().map(|event| event.event_type.as_str());
        let undecodable = batch.undecodable.iter().map(|message| message.event_type.as_str());
        let missing = self.known_types.missing(names.chain(undecodable));
        if !missing.is_empty() {
            let query = sqlx::query(TYPES_MAKE).bind(&missing);
            self.call("making event types", async |connection: &mut PgConnection| {
                query.execute(connection).await.map(drop)
            })
            .await?;
            self.known_types.learn(missing);
        }
        let outcome = match batch.events.as_slice() {
            [one] if batch.is_plain() => {
                let pushed = self.pushes.push(one.clone()).await?;
                PushOutcome::Pushed(vec![pushed])
            }
            _ => insisting!(self.push_known(batch))?,
        };
        if outcome != PushOutcome::Fenced {
            self.notifier.pushed(batch.events.iter().map(|event| &event.event_type));
        }
        Ok(outcome)
    }

    async fn push_known(&self, batch: &EventBatch) -> Result<PushOutcome, StoreError> {
        let operation = "pushing events";
        if batch.is_plain() {
            return self
                .call(operation, async |connection: &mut PgConnection| {
                    push(connection, &batch.events, Locks::AsSession)
                        .await
                        .map(PushOutcome::Pushed)
                })
                .await;
        }
        self.in_transaction(operation, async |connection: &mut PgConnection, now| {
            if !begin_push(&mut Session::Postgres(&mut *connection), batch, now).await? {
                return Ok(PushOutcome::Fenced);
            }
            push(connection, &batch.events, Locks::AsSession)
                .await
                .map(PushOutcome::Pushed)
        })
        .await
    }
}

/// Which of `events` would wait for no lock, as far as rows can be seen.
pub(super) async fn free_of(connection: &mut PgConnection, events: &[NewEvent]) -> Result<Vec<bool>, sqlx::Error> {
    let (types, references, dates) = keys_of(events);
    let locked: Vec<i64> = sqlx::query_scalar(FREE)
        .bind(types)
        .bind(references)
        .bind(dates)
        .fetch_all(connection)
        .await?;
    let mut free = vec![true; events.len()];
    for position in locked {
        // Positions begin at 1.
        if let Some(one) = usize::try_from(position - 1).ok().and_then(|at| free.get_mut(at)) {
            *one = false;
        }
    }
    Ok(free)
}

type Keys<'a> = (Vec<&'a str>, Vec<&'a str>, Vec<Option<i64>>);

fn keys_of(events: &[NewEvent]) -> Keys<'_> {
    (
        events.iter().map(|event| event.event_type.as_str()).collect(),
        events.iter().map(|event| event.reference.as_str()).collect(),
        events.iter().map(|event| event.nbf.map(Timestamp::micros)).collect(),
    )
}

pub(super) async fn push(
    connection: &mut PgConnection,
    events: &[NewEvent],
    locks: Locks,
) -> Result<Vec<Pushed>, sqlx::Error> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let (types, references, dates) = keys_of(events);
    let reasons: Vec<Option<String>> = events
        .iter()
        .map(|event| event.reason.as_deref().map(storable))
        .collect();
    let payloads: Vec<Option<&[u8]>> = events.iter().map(|event| event.payload.as_deref()).collect();
    let lifetimes: Vec<Option<i64>> = events.iter().map(|event| event.lifetime.map(micros)).collect();
    let traces: Vec<Option<&str>> = events
        .iter()
        .map(|event| event.trace.as_ref().map(TraceContext::as_str))
        .collect();
    let rows = sqlx::query(PUSH)
        .bind(types)
        .bind(references)
        .bind(dates)
        .bind(reasons)
        .bind(payloads)
        .bind(lifetimes)
        .bind(traces)
        .bind(locks.patience())
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            let revision = integer(row, "revision")?;
            Ok(Pushed {
                id: row.try_get("id")?,
                revision,
                how: PushedHow::of(revision, integer(row, "merged")?),
            })
        })
        .collect()
}
