//! Claims of pulling consumers on PostgreSQL.

use async_trait::async_trait;
use sqlx::{PgConnection, Row};

use super::finish::{let_go, remove_locked};
use super::insisting;
use crate::domain::event::{Event, EventType, Reference};
use crate::domain::time::Timestamp;
use crate::store::columns::{integer, micros};
use crate::store::events::columns::{claim_of, claims_with, event, event_columns, lease_cleared};
use crate::store::events::verdicts::let_go_of;
use crate::store::postgres::{PostgresStore, storable};
use crate::store::{Claim, ClaimOutcome, ClaimSpan, EventClaims, Finished, NewClaim, StoreError, TYPE_REMEMBERED};

/// Rounds of moving and picking; more is left to the next claim.
const ROUNDS_MAX: u32 = 50;

const TYPE: &str = "SELECT max_claim_count, dead_letter_type, dead_letter_ttl, used_at \
    FROM redrive.event_types WHERE name = $1";
const TYPE_USED: &str = "UPDATE redrive.event_types SET used_at = $2 WHERE name = $1";
const RETURN: &str = concat!(
    "UPDATE redrive.events SET state = 0, ",
    lease_cleared!(),
    " WHERE id = ANY (ARRAY(SELECT id FROM redrive.events WHERE state = 1 AND type = $1 \
        AND lease_claim IS NOT NULL AND lease_until <= $2 FOR UPDATE SKIP LOCKED))"
);
const PICK: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM redrive.events e WHERE e.state = 0 AND e.type = $1 AND e.nbf <= $2 \
        AND (e.expires_at IS NULL OR e.expires_at > $2) \
        AND (NOT e.keyed OR NOT EXISTS (SELECT 1 FROM redrive.events s WHERE s.state = 1 AND s.keyed \
            AND s.type = e.type AND s.reference = e.reference OFFSET 0)) \
     ORDER BY e.nbf, e.id LIMIT $3 FOR UPDATE OF e SKIP LOCKED"
);
const MOVE: &str = "UPDATE redrive.events SET origin = type, type = $2, keyed = false, \
    reason = COALESCE(reason, ''), first_failed_at = COALESCE(first_failed_at, $3), last_failed_at = $3, \
    expires_at = COALESCE($3 + $4::bigint, expires_at) WHERE id = $1";
const HOLD: &str = concat!(
    "UPDATE redrive.events SET state = 1, lease_revision = revision, \
        lease_token = nextval('redrive.event_token') + redrive.store_now(), lease_claim = $2, lease_until = $3, claim_count = claim_count + 1, claim_history = $4, \
        expires_at = GREATEST(expires_at, CASE WHEN expires_at IS NULL THEN NULL ELSE $5::bigint END) \
     WHERE id = $1 RETURNING ",
    event_columns!()
);
const CLAIMED: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM redrive.events WHERE lease_claim = $1 AND type = $2 AND state = 1 AND lease_until > redrive.store_now() \
     ORDER BY nbf, id"
);
const RENEW: &str = concat!(
    "UPDATE redrive.events SET lease_until = redrive.store_now() + $3, \
        expires_at = CASE WHEN expires_at IS NULL OR $4::bigint IS NULL THEN expires_at \
            ELSE GREATEST(expires_at, redrive.store_now() + $3 + $4) END \
     WHERE lease_claim = $1 AND type = $2 AND state = 1 AND lease_until > redrive.store_now() RETURNING ",
    event_columns!()
);
const RELEASE: &str = concat!(
    "UPDATE redrive.events SET state = 0, ",
    lease_cleared!(),
    " WHERE lease_claim = $1 AND type = $2 AND state = 1"
);
/// What of a reference is there: the one that the claim holds first.
const OF_CLAIM: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM redrive.events WHERE type = $1 AND reference = $2 AND lease_claim = $3 AND state = 1 FOR UPDATE"
);
const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM redrive.events WHERE type = $1 AND reference = $2)";

#[async_trait]
impl EventClaims for PostgresStore {
    async fn claim_create(&self, new: &NewClaim) -> Result<ClaimOutcome, StoreError> {
        insisting!(
            self.transaction("claiming events", async |connection: &mut PgConnection, now| {
                create(connection, new, now).await
            })
        )
    }

    async fn claim_get(&self, event_type: &EventType, claim: &str) -> Result<Option<Claim>, StoreError> {
        let query = sqlx::query(CLAIMED).bind(storable(claim)).bind(event_type.as_str());
        self.call("reading a claim", async |connection: &mut PgConnection| {
            let rows = query.fetch_all(connection).await?;
            Ok(claim_of(claim, rows.iter().map(event).collect::<Result<_, _>>()?))
        })
        .await
    }

    async fn claim_renew(
        &self,
        event_type: &EventType,
        claim: &str,
        span: ClaimSpan,
    ) -> Result<Option<Claim>, StoreError> {
        let query = sqlx::query(RENEW)
            .bind(storable(claim))
            .bind(event_type.as_str())
            .bind(micros(span.ttl))
            .bind(span.grace.map(micros));
        self.call("prolonging a claim", async |connection: &mut PgConnection| {
            let rows = query.fetch_all(connection).await?;
            Ok(claim_of(claim, rows.iter().map(event).collect::<Result<_, _>>()?))
        })
        .await
    }

    async fn claim_release(&self, event_type: &EventType, claim: &str) -> Result<u64, StoreError> {
        let query = sqlx::query(RELEASE).bind(storable(claim)).bind(event_type.as_str());
        self.call("releasing a claim", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected())
        })
        .await
    }

    async fn claim_done(
        &self,
        event_type: &EventType,
        reference: &Reference,
        claim: &str,
    ) -> Result<Finished, StoreError> {
        let claim = storable(claim);
        self.transaction("finishing a claimed event", async |connection: &mut PgConnection, _| {
            done(connection, event_type, reference, &claim).await
        })
        .await
    }
}

async fn create(connection: &mut PgConnection, new: &NewClaim, now: Timestamp) -> Result<ClaimOutcome, sqlx::Error> {
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
    connection: &mut PgConnection,
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
    connection: &mut PgConnection,
    new: &NewClaim,
    found: &Event,
    now: Timestamp,
) -> Result<Event, sqlx::Error> {
    let until = now.plus(new.span.ttl);
    let row = sqlx::query(HOLD)
        .bind(found.id)
        .bind(&new.id)
        .bind(until.micros())
        .bind(claims_with(found.claim_history.as_deref(), &new.id, now))
        .bind(until.plus(new.span.grace.unwrap_or_default()).micros())
        .fetch_one(connection)
        .await?;
    event(&row)
}

async fn done(
    connection: &mut PgConnection,
    event_type: &EventType,
    reference: &Reference,
    claim: &str,
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
            let_go(connection, &[let_go_of(key)]).await?;
            Ok(Finished::Superseded)
        }
        _ => {
            remove_locked(connection, held.id).await?;
            Ok(Finished::Done)
        }
    }
}
