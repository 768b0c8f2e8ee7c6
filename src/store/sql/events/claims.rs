//! Claims of pulling consumers.

use async_trait::async_trait;

use super::{insisting, let_go, remove};
use crate::domain::event::{Event, EventType, Reference};
use crate::domain::time::Timestamp;
use crate::store::columns::{Columns, time};
use crate::store::events::columns::{claim_of, claims_with, event, event_columns, lease_cleared};
use crate::store::events::verdicts::let_go_of;
use crate::store::sql::{Calls, Driver, Row, Session, Statement, values};
use crate::store::{Claim, ClaimOutcome, ClaimSpan, EventClaims, Finished, NewClaim, StoreError, TYPE_REMEMBERED};

/// Rounds of moving and picking; more is left to the next claim.
const ROUNDS_MAX: u32 = 50;

static TYPE: Statement = Statement::new(
    "SELECT max_claim_count, dead_letter_type, dead_letter_ttl, used_at \
    FROM redrive.event_types WHERE name = $1",
);
static TYPE_USED: Statement = Statement::new("UPDATE redrive.event_types SET used_at = $2 WHERE name = $1");
static RETURN: Statement = Statement::new(concat!(
    "UPDATE redrive.events SET state = 0, ",
    lease_cleared!(),
    " WHERE id = ANY (ARRAY(SELECT id FROM redrive.events WHERE state = 1 AND type = $1 \
        AND lease_claim IS NOT NULL AND lease_owner IS NULL AND lease_until <= $2 FOR UPDATE SKIP LOCKED))"
));
static PICK: Statement = Statement::new(concat!(
    "SELECT ",
    event_columns!(),
    " FROM redrive.events e WHERE e.state = 0 AND e.type = $1 AND e.nbf <= $2 \
        AND (e.expires_at IS NULL OR e.expires_at > $2) \
        AND (NOT e.keyed OR NOT EXISTS (SELECT 1 FROM redrive.events s WHERE s.state = 1 AND s.keyed \
            AND s.type = e.type AND s.reference = e.reference OFFSET 0)) \
     ORDER BY e.nbf, e.id LIMIT $3 FOR UPDATE OF e SKIP LOCKED"
));
static MOVE: Statement = Statement::new(
    "UPDATE redrive.events SET origin = type, type = $2, keyed = FALSE, \
    reason = COALESCE(reason, ''), first_failed_at = COALESCE(first_failed_at, $3), last_failed_at = $3, \
    expires_at = COALESCE($3 + $4::bigint, expires_at) WHERE id = $1",
);
static HOLD: Statement = Statement::new(concat!(
    "UPDATE redrive.events SET state = 1, lease_revision = revision, \
        lease_token = nextval('redrive.event_token') + redrive.store_now(), lease_claim = $2, lease_until = $3, claim_count = claim_count + 1, claim_history = $4, \
        expires_at = GREATEST(expires_at, CASE WHEN expires_at IS NULL THEN NULL ELSE $5::bigint END) \
     WHERE id = $1 RETURNING ",
    event_columns!()
));
/// With an owner, a claim's name is the mark of an event that is cancelled in hand.
static CLAIMED: Statement = Statement::new(concat!(
    "SELECT ",
    event_columns!(),
    " FROM redrive.events WHERE lease_claim = $1 AND lease_owner IS NULL AND type = $2 AND state = 1 \
        AND lease_until > redrive.store_now() ORDER BY nbf, id"
));
static RENEW: Statement = Statement::new(concat!(
    "UPDATE redrive.events SET lease_until = GREATEST(lease_until, redrive.store_now() + $3), \
        expires_at = CASE WHEN expires_at IS NULL OR $4::bigint IS NULL THEN expires_at \
            ELSE GREATEST(expires_at, redrive.store_now() + $3 + $4) END \
     WHERE lease_claim = $1 AND lease_owner IS NULL AND type = $2 AND state = 1 \
        AND lease_until > redrive.store_now() RETURNING ",
    event_columns!()
));
static RELEASE: Statement = Statement::new(concat!(
    "UPDATE redrive.events SET state = 0, ",
    lease_cleared!(),
    " WHERE lease_claim = $1 AND lease_owner IS NULL AND type = $2 AND state = 1"
));
/// What of a reference is there: the one that the claim holds first.
static OF_CLAIM: Statement = Statement::new(concat!(
    "SELECT ",
    event_columns!(),
    " FROM redrive.events WHERE type = $1 AND reference = $2 AND lease_claim = $3 AND lease_owner IS NULL AND state = 1 \
        FOR UPDATE"
));
static EXISTS: Statement = Statement::new("SELECT 1 FROM redrive.events WHERE type = $1 AND reference = $2 LIMIT 1");

#[async_trait]
impl<D: Driver> EventClaims for D {
    async fn claim_create(&self, new: &NewClaim) -> Result<ClaimOutcome, StoreError> {
        insisting!({
            let new = new.clone();
            self.transaction("claiming events", move |mut session, now| {
                Box::pin(async move { create(&mut session, &new, now).await })
            })
        })
    }

    async fn claim_get(&self, event_type: &EventType, claim: &str) -> Result<Option<Claim>, StoreError> {
        let events = self.list("reading a claim", &CLAIMED, values![claim, event_type], event);
        Ok(claim_of(claim, events.await?))
    }

    async fn claim_renew(
        &self,
        event_type: &EventType,
        claim: &str,
        span: ClaimSpan,
    ) -> Result<Option<Claim>, StoreError> {
        let values = values![claim, event_type, span.ttl, span.grace];
        let events = self.changed("prolonging a claim", &RENEW, values, event);
        Ok(claim_of(claim, events.await?))
    }

    async fn claim_release(&self, event_type: &EventType, claim: &str) -> Result<u64, StoreError> {
        self.change("releasing a claim", &RELEASE, values![claim, event_type])
            .await
    }

    async fn claim_done(
        &self,
        event_type: &EventType,
        reference: &Reference,
        claim: &str,
    ) -> Result<Finished, StoreError> {
        let (event_type, reference, claim) = (event_type.clone(), reference.clone(), claim.to_owned());
        self.transaction("finishing a claimed event", move |mut session, _| {
            Box::pin(async move { done(&mut session, &event_type, &reference, &claim).await })
        })
        .await
    }
}

/// What a type says of claims.
struct ClaimRules {
    /// Claims of an event after which it goes to this type.
    over: Option<(i64, String)>,
    lifetime: Option<i64>,
    used_at: Timestamp,
}

fn claim_rules(row: &Row) -> Result<ClaimRules, sqlx::Error> {
    Ok(ClaimRules {
        over: row.integer("max_claim_count")?.zip(row.text("dead_letter_type")?),
        lifetime: row.integer("dead_letter_ttl")?,
        used_at: time(row, "used_at")?,
    })
}

async fn create(session: &mut Session<'_>, new: &NewClaim, now: Timestamp) -> Result<ClaimOutcome, sqlx::Error> {
    let name = &new.event_type;
    let Some(rules) = session.find(&TYPE, values![name], claim_rules).await? else {
        return Ok(ClaimOutcome::UnknownType);
    };
    if rules.used_at < now.minus(TYPE_REMEMBERED) {
        session.change(&TYPE_USED, values![name, now]).await?;
    }
    session.change(&RETURN, values![name, now]).await?;
    let (mut events, mut moved) = (Vec::new(), 0);
    for _ in 0..ROUNDS_MAX {
        let wanted = usize::try_from(new.limit).unwrap_or(0).saturating_sub(events.len());
        if wanted == 0 {
            break;
        }
        let picked = session.list(&PICK, values![name, now, wanted as u64], event).await?;
        let mut moved_now = 0;
        for found in &picked {
            match &rules.over {
                Some((most, target)) if i64::from(found.claim_count) >= *most => {
                    let values = values![found.id, target, now, rules.lifetime];
                    session.change(&MOVE, values).await?;
                    moved_now += 1;
                }
                _ if events.iter().any(|held: &Event| held.reference == found.reference) => {}
                _ => events.push(hold(session, new, found, now).await?),
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

async fn hold(session: &mut Session<'_>, new: &NewClaim, found: &Event, now: Timestamp) -> Result<Event, sqlx::Error> {
    session.draw_token().await?;
    let until = now.plus(new.span.ttl);
    let values = values![
        found.id,
        &new.id,
        until,
        claims_with(found.claim_history.as_deref(), &new.id, now),
        until.plus(new.span.grace.unwrap_or_default()),
    ];
    session.one(&HOLD, values, event).await
}

async fn done(
    session: &mut Session<'_>,
    event_type: &EventType,
    reference: &Reference,
    claim: &str,
) -> Result<Finished, sqlx::Error> {
    let values = values![event_type, reference, claim];
    let Some(held) = session.find(&OF_CLAIM, values, event).await? else {
        let exists = session.has(&EXISTS, values![event_type, reference]).await?;
        return Ok(if exists { Finished::Stale } else { Finished::Gone });
    };
    match held.lease_key() {
        Some(key) if key.revision != held.revision => {
            let_go(session, &[let_go_of(key)]).await?;
            Ok(Finished::Superseded)
        }
        _ => {
            remove(session, held.id).await?;
            Ok(Finished::Done)
        }
    }
}
