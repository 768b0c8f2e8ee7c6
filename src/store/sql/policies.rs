//! Policies and the heads that wait under them.

use async_trait::async_trait;

use super::records::{scope, version_add};
use super::{Calls, Driver, Exclusive, Session, Statement, columns, endpoints, queues, values};
use crate::domain::id::QueueName;
use crate::domain::policy::Phase;
use crate::domain::time::Timestamp;
use crate::store::columns::{integer, policy_version, queue_columns, waiting_columns, waiting_head};
use crate::store::rules::{Placed, endpoint_moves, head_places};
use crate::store::{
    HeadMove, MoveTo, Policies, PolicyChange, PolicyChanged, PolicyScope, PolicyVersion, StoreError, WaitingHead,
    WaitingQuery,
};

static NEWEST: Statement = Statement::new(
    "SELECT COALESCE(MAX(version), 0) AS newest FROM redrive.policies \
     WHERE event_type = $1 AND url_key = redrive.url_key($2)",
);
static NEWEST_OF: Statement = Statement::new(
    "SELECT p.event_type, p.url, p.version, p.document, p.author, p.at \
     FROM unnest($1::text[], $2::text[]) AS asked (event_type, url) JOIN redrive.policies AS p \
     ON p.event_type = asked.event_type AND p.url_key = redrive.url_key(asked.url) \
     AND p.version = (SELECT max(n.version) FROM redrive.policies AS n \
        WHERE n.event_type = asked.event_type AND n.url_key = redrive.url_key(asked.url))",
);
static VERSION: Statement = Statement::new(
    "SELECT event_type, url, version, document, author, at FROM redrive.policies \
     WHERE event_type = $1 AND url_key = redrive.url_key($2) AND version = $3",
);
static WAITING: Statement = Statement::new(concat!(
    "SELECT ",
    queue_columns!(),
    ", ",
    waiting_columns!(),
    ", e_until IS NOT NULL AND e_until >= redrive.store_now() AS e_probing FROM redrive.delivery_queues LEFT JOIN \
     (SELECT url AS e_url, epoch AS e_epoch, attempts AS e_attempts, next_attempt_at AS e_next, \
        COALESCE(probe_queue, (SELECT q.name FROM redrive.delivery_queues AS q \
            WHERE redrive.url_key(q.url) = redrive.url_key(endpoints.url) AND q.head_message IS NOT NULL \
            AND q.decision_id IS NULL AND q.head_next_attempt_at IS NULL AND NOT q.head_parked \
            ORDER BY q.head_last_failed_at DESC, q.name LIMIT 1)) AS e_queue, \
        probe_message AS e_message, probe_until AS e_until \
        FROM redrive.endpoints WHERE state IN ('unavailable', 'parked')) AS e \
     ON e_url = url AND e_queue = name AND COALESCE(e_message, head_message) = head_message \
        AND head_next_attempt_at IS NULL AND NOT head_parked \
     WHERE head_message IS NOT NULL AND decision_id IS NULL AND url IS NOT NULL \
        AND (head_next_attempt_at IS NOT NULL OR head_parked OR e_url IS NOT NULL) \
        AND head_event_type IS NOT DISTINCT FROM $1 \
        AND ($2::text IS NULL OR redrive.url_key(url) = redrive.url_key($2)) \
        AND name > $3 ORDER BY name LIMIT $4"
));
static MOVE: Statement = Statement::new(
    "UPDATE redrive.delivery_queues SET head_next_attempt_at = $5, head_parked = $6, \
     head_phase = $7, head_attempts_allowed = $8 WHERE name = $1 AND head_message = $2 AND head_failures = $3 \
     AND head_last_failed_at = $4 AND decision_id IS NULL",
);
/// A decision is the lease holder's where there is one; and what was put before the head is dealt with first.
static BURY: Statement = Statement::new(
    "UPDATE redrive.delivery_queues SET head_next_attempt_at = NULL, head_parked = FALSE, \
     head_phase = NULL, head_attempts_allowed = $6, decision_id = $5, decision_message = head_message, \
     decision_fingerprint = head_fingerprint, decision_reason = 'exhausted', decision_epoch = epoch \
     WHERE name = $1 AND head_message = $2 AND head_failures = $3 AND head_last_failed_at = $4 \
     AND decision_id IS NULL AND NOT has_companion \
     AND NOT EXISTS (SELECT 1 FROM redrive.incarnations AS i WHERE i.id = owner AND i.alive)",
);

#[async_trait]
impl<D: Driver> Policies for D {
    async fn policies_newest(&self, scopes: &[PolicyScope]) -> Result<Vec<PolicyVersion>, StoreError> {
        let scopes: Vec<(String, String)> = scopes.iter().map(scope).collect();
        let asked = columns![scopes => |scope| &scope.0, &scope.1];
        self.list("reading policies", &NEWEST_OF, values![asked], policy_version)
            .await
    }

    async fn policy_version(&self, of: &PolicyScope, version: i64) -> Result<Option<PolicyVersion>, StoreError> {
        let (event_type, url) = scope(of);
        let values = values![event_type, url, version];
        self.find("reading a version of a policy", &VERSION, values, policy_version)
            .await
    }

    async fn heads_waiting(&self, query: &WaitingQuery) -> Result<Vec<WaitingHead>, StoreError> {
        let after = query.after.as_ref().map_or("", QueueName::as_str);
        let values = values![&query.scope.event_type, &query.scope.url, after, query.limit];
        self.list("listing the heads that wait", &WAITING, values, waiting_head)
            .await
    }

    async fn policy_change(&self, change: &PolicyChange) -> Result<PolicyChanged, StoreError> {
        let change = change.clone();
        self.transaction("changing a policy", move |mut session, now| {
            Box::pin(async move {
                session.exclusively(Exclusive::Policies).await?;
                let (event_type, url) = scope(&change.new.scope);
                let newest = session.one(&NEWEST, values![event_type, url], |row| integer(row, "newest"));
                let newest = newest.await?;
                if newest != change.expected {
                    return Ok(PolicyChanged::Stale { newest });
                }
                let version = version_add(&mut session, &change.new).await?;
                let moved = move_all(&mut session, &change.moves, now).await?;
                Ok(PolicyChanged::Saved { version, moved })
            })
        })
        .await
    }

    async fn heads_move(&self, moves: &[HeadMove]) -> Result<u64, StoreError> {
        if moves.is_empty() {
            return Ok(0);
        }
        let moves = moves.to_vec();
        self.transaction("moving heads that wait", move |mut session, now| {
            Box::pin(async move { move_all(&mut session, &moves, now).await })
        })
        .await
    }
}

/// Queues are locked first, by name, then endpoints, then the generation.
async fn move_all(session: &mut Session<'_>, moves: &[HeadMove], now: Timestamp) -> Result<u64, sqlx::Error> {
    if moves.is_empty() {
        return Ok(0);
    }
    let names = moves.iter().map(|one| one.queue.clone());
    let urls = moves.iter().filter_map(|one| Some(one.endpoint.as_ref()?.0.clone()));
    queues::lock(session, names.collect()).await?;
    endpoints::lock(session, urls.collect()).await?;
    let mut count = 0;
    for one in moves {
        count += u64::from(move_one(session, one, now).await?);
    }
    if count > 0 {
        endpoints::generation_raise(session).await?;
    }
    Ok(count)
}

/// False when it no longer waits as it was read.
async fn move_one(session: &mut Session<'_>, one: &HeadMove, now: Timestamp) -> Result<bool, sqlx::Error> {
    if let Some((url, epoch)) = &one.endpoint {
        let found = endpoints::get_all(session, vec![url.clone()]).await?;
        if !found.first().is_some_and(|found| endpoint_moves(found, *epoch, now)) {
            return Ok(false);
        }
    }
    if !head_moves(session, one).await? {
        return Ok(false);
    }
    if let (Some((url, epoch)), Some(change)) = (&one.endpoint, one.endpoint_change()) {
        endpoints::apply(session, url, Some(*epoch), (&change, None), now).await?;
    }
    Ok(true)
}

async fn head_moves(session: &mut Session<'_>, one: &HeadMove) -> Result<bool, sqlx::Error> {
    let mut values = values![&one.queue, &one.message, one.failures, one.last_failed_at];
    let statement = if let MoveTo::DeadLettered { decision } = &one.to {
        values.extend(values![decision, one.attempts_allowed]);
        &BURY
    } else {
        let Placed { at, parked, phase } = head_places(one);
        values.extend(values![at, parked, phase.map(Phase::as_str), one.attempts_allowed]);
        &MOVE
    };
    Ok(session.change(statement, values).await? == 1)
}
