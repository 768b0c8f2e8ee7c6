//! Claims of pulling consumers in a SQLite file.

use async_trait::async_trait;
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;

use super::finish::{let_go, remove};
use super::take::TOKENS;
use crate::domain::event::{Event, EventType, Reference};
use crate::domain::time::Timestamp;
use crate::store::columns::integer;
use crate::store::events::columns::{claim_of, claims_with, event, event_columns, lease_cleared};
use crate::store::events::verdicts::let_go_of;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::error::unread;
use crate::store::{Claim, ClaimOutcome, ClaimSpan, EventClaims, Finished, NewClaim, StoreError, TYPE_REMEMBERED};

/// Rounds of moving and picking; more is left to the next claim.
const ROUNDS_MAX: u32 = 50;

const TYPE: &str = "SELECT max_claim_count, dead_letter_type, dead_letter_ttl, used_at \
    FROM event_types WHERE name = $1";
const TYPE_USED: &str = "UPDATE event_types SET used_at = $2 WHERE name = $1";
const RETURN: &str = concat!(
    "UPDATE events SET state = 0, ",
    lease_cleared!(),
    " WHERE state = 1 AND type = $1 AND lease_claim IS NOT NULL AND lease_until <= $2"
);
const PICK: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM events AS e WHERE e.state = 0 AND e.type = $1 AND e.nbf <= $2 \
        AND (e.expires_at IS NULL OR e.expires_at > $2) \
        AND (NOT e.keyed OR NOT EXISTS (SELECT 1 FROM events AS s WHERE s.state = 1 AND s.keyed \
            AND s.type = e.type AND s.reference = e.reference)) \
     ORDER BY e.nbf, e.id LIMIT $3"
);
const MOVE: &str = "UPDATE events SET origin = type, type = $2, keyed = 0, \
    reason = COALESCE(reason, ''), first_failed_at = COALESCE(first_failed_at, $3), last_failed_at = $3, \
    expires_at = COALESCE($3 + $4, expires_at) WHERE id = $1";
const HOLD: &str = concat!(
    "UPDATE events SET state = 1, lease_revision = revision, lease_token = $6, \
        lease_claim = $2, lease_until = $3, claim_count = claim_count + 1, claim_history = $4, \
        expires_at = max(expires_at, $5) \
     WHERE id = $1 RETURNING ",
    event_columns!()
);
const CLAIMED: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM events WHERE lease_claim = $1 AND type = $2 AND state = 1 AND lease_until > $3 \
     ORDER BY nbf, id"
);
const RENEW: &str = concat!(
    "UPDATE events SET lease_until = $3, expires_at = iif($4 IS NULL, expires_at, max(expires_at, $4)) \
     WHERE lease_claim = $1 AND type = $2 AND state = 1 AND lease_until > $5 RETURNING ",
    event_columns!()
);
const RELEASE: &str = concat!(
    "UPDATE events SET state = 0, ",
    lease_cleared!(),
    " WHERE lease_claim = $1 AND type = $2 AND state = 1"
);
/// What of a reference is there: the one that the claim holds first.
const OF_CLAIM: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM events WHERE type = $1 AND reference = $2 AND lease_claim = $3 AND state = 1"
);
const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM events WHERE type = $1 AND reference = $2)";

#[async_trait]
impl EventClaims for SqliteStore {
    async fn claim_create(&self, new: &NewClaim) -> Result<ClaimOutcome, StoreError> {
        let (new, now) = (new.clone(), self.clock.now());
        self.write("claiming events", move |connection| {
            Box::pin(async move { create(connection, &new, now).await })
        })
        .await
    }

    async fn claim_get(&self, event_type: &EventType, claim: &str) -> Result<Option<Claim>, StoreError> {
        let operation = "reading a claim";
        let rows = sqlx::query(CLAIMED)
            .bind(claim)
            .bind(event_type.as_str())
            .bind(self.clock.now().micros())
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        let events = rows
            .iter()
            .map(event)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))?;
        Ok(claim_of(claim, events))
    }

    async fn claim_renew(
        &self,
        event_type: &EventType,
        claim: &str,
        span: ClaimSpan,
    ) -> Result<Option<Claim>, StoreError> {
        let (event_type, id, now) = (event_type.clone(), claim.to_owned(), self.clock.now());
        let until = now.plus(span.ttl);
        let lives = span.grace.map(|grace| until.plus(grace).micros());
        self.write("prolonging a claim", move |connection| {
            Box::pin(async move {
                let rows = sqlx::query(RENEW)
                    .bind(&id)
                    .bind(event_type.as_str())
                    .bind(until.micros())
                    .bind(lives)
                    .bind(now.micros())
                    .fetch_all(connection)
                    .await?;
                Ok(claim_of(&id, rows.iter().map(event).collect::<Result<_, _>>()?))
            })
        })
        .await
    }

    async fn claim_release(&self, event_type: &EventType, claim: &str) -> Result<u64, StoreError> {
        let (event_type, claim) = (event_type.clone(), claim.to_owned());
        self.write("releasing a claim", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(RELEASE).bind(claim).bind(event_type.as_str());
                Ok(query.execute(connection).await?.rows_affected())
            })
        })
        .await
    }

    async fn claim_done(
        &self,
        event_type: &EventType,
        reference: &Reference,
        claim: &str,
    ) -> Result<Finished, StoreError> {
        let (event_type, reference, claim) = (event_type.clone(), reference.clone(), claim.to_owned());
        let now = self.clock.now();
        self.write("finishing a claimed event", move |connection| {
            Box::pin(async move { done(connection, (&event_type, &reference), &claim, now).await })
        })
        .await
    }
}

async fn create(
    connection: &mut SqliteConnection,
    new: &NewClaim,
    now: Timestamp,
) -> Result<ClaimOutcome, sqlx::Error> {
    let name = new.event_type.as_str();
    let Some(rules) = sqlx::query(TYPE).bind(name).fetch_optional(&mut *connection).await? else {
        return Ok(ClaimOutcome::UnknownType);
    };
    let limit: Option<i64> = rules.try_get("max_claim_count")?;
    let target: Option<String> = rules.try_get("dead_letter_type")?;
    let lifetime: Option<i64> = rules.try_get("dead_letter_ttl")?;
    let over = limit.zip(target);
    if integer(&rules, "used_at")? < now.minus(TYPE_REMEMBERED).micros() {
        let used = sqlx::query(TYPE_USED).bind(name).bind(now.micros());
        used.execute(&mut *connection).await?;
    }
    sqlx::query(RETURN)
        .bind(name)
        .bind(now.micros())
        .execute(&mut *connection)
        .await?;
    let (mut events, mut moved) = (Vec::new(), 0);
    for _ in 0..ROUNDS_MAX {
        let wanted = usize::try_from(new.limit).unwrap_or(0).saturating_sub(events.len());
        if wanted == 0 {
            break;
        }
        let picked = pick(connection, name, now, wanted).await?;
        let mut moved_now = 0;
        for found in &picked {
            match &over {
                Some((most, target)) if i64::from(found.claim_count) >= *most => {
                    let query = sqlx::query(MOVE)
                        .bind(found.id)
                        .bind(target)
                        .bind(now.micros())
                        .bind(lifetime);
                    query.execute(&mut *connection).await?;
                    moved_now += 1;
                }
                _ if events.iter().any(|held: &Event| held.reference == found.reference) => {}
                _ => events.push(hold(connection, new, found, now).await?),
            }
        }
        moved += moved_now;
        if moved_now == 0 {
            break;
        }
    }
    Ok(ClaimOutcome::Claimed {
        claim: claim_of(&new.id, events),
        moved,
    })
}

async fn pick(
    connection: &mut SqliteConnection,
    name: &str,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Event>, sqlx::Error> {
    let query = sqlx::query(PICK)
        .bind(name)
        .bind(now.micros())
        .bind(i64::try_from(limit).unwrap_or(0));
    query.fetch_all(connection).await?.iter().map(event).collect()
}

async fn hold(
    connection: &mut SqliteConnection,
    new: &NewClaim,
    found: &Event,
    now: Timestamp,
) -> Result<Event, sqlx::Error> {
    let until = now.plus(new.span.ttl);
    let query = sqlx::query_scalar(TOKENS).bind(1).bind(now.micros());
    let token: i64 = query.fetch_one(&mut *connection).await?;
    let row = sqlx::query(HOLD)
        .bind(found.id)
        .bind(&new.id)
        .bind(until.micros())
        .bind(claims_with(found.claim_history.as_deref(), &new.id, now))
        .bind(until.plus(new.span.grace.unwrap_or_default()).micros())
        .bind(token)
        .fetch_one(connection)
        .await?;
    event(&row)
}

async fn done(
    connection: &mut SqliteConnection,
    (event_type, reference): (&EventType, &Reference),
    claim: &str,
    now: Timestamp,
) -> Result<Finished, sqlx::Error> {
    let query = sqlx::query(OF_CLAIM)
        .bind(event_type.as_str())
        .bind(reference.as_str())
        .bind(claim);
    let Some(row) = query.fetch_optional(&mut *connection).await? else {
        let query = sqlx::query_scalar(EXISTS)
            .bind(event_type.as_str())
            .bind(reference.as_str());
        let exists: bool = query.fetch_one(connection).await?;
        return Ok(if exists { Finished::Stale } else { Finished::Gone });
    };
    let held = event(&row)?;
    match held.lease_key() {
        Some(key) if key.revision != held.revision => {
            let_go(connection, &[let_go_of(key)], now).await?;
            Ok(Finished::Superseded)
        }
        _ => {
            remove(connection, [held.id], now).await?;
            Ok(Finished::Done)
        }
    }
}
