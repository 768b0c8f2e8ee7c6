//! Policies and the heads that wait under them, on PostgreSQL.

use async_trait::async_trait;
use sqlx::postgres::PgConnection;

use super::records::{scope, version_add};
use super::{Exclusive, PostgresStore, endpoints, exclusively, micros_optional, storable};
use crate::domain::id::QueueName;
use crate::domain::policy::Phase;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::store::columns::{policy_version, queue_columns, waiting_columns, waiting_head};
use crate::store::rules::{Placed, endpoint_moves, head_places};
use crate::store::{
    HeadMove, MoveTo, Policies, PolicyChange, PolicyChanged, PolicyScope, PolicyVersion, StoreError, WaitingHead,
    WaitingQuery,
};

const NEWEST: &str = "SELECT COALESCE(MAX(version), 0) FROM redrive.policies \
    WHERE event_type = $1 AND url_key = redrive.url_key($2)";
const NEWEST_OF: &str = "SELECT newest.event_type, newest.url, newest.version, newest.document, newest.author, \
    newest.at FROM unnest($1::text[], $2::text[]) AS asked (event_type, url) \
    JOIN LATERAL (SELECT * FROM redrive.policies p WHERE p.event_type = asked.event_type \
        AND p.url_key = redrive.url_key(asked.url) ORDER BY p.version DESC LIMIT 1) AS newest ON true";
const VERSION: &str = "SELECT event_type, url, version, document, author, at FROM redrive.policies \
    WHERE event_type = $1 AND url_key = redrive.url_key($2) AND version = $3";
const WAITING: &str = concat!(
    "SELECT ",
    queue_columns!(),
    ", ",
    waiting_columns!(),
    ", e_until IS NOT NULL AND e_until >= redrive.store_now() AS e_probing FROM redrive.delivery_queues LEFT JOIN \
     (SELECT url AS e_url, epoch AS e_epoch, attempts AS e_attempts, next_attempt_at AS e_next, probe_queue AS e_queue, \
        probe_message AS e_message, probe_until AS e_until \
        FROM redrive.endpoints WHERE state IN ('unavailable', 'parked')) AS e \
     ON e_url = url AND e_queue = name AND COALESCE(e_message, head_message) = head_message \
        AND head_next_attempt_at IS NULL AND NOT head_parked \
     WHERE head_message IS NOT NULL AND decision_id IS NULL AND url IS NOT NULL \
        AND (head_next_attempt_at IS NOT NULL OR head_parked OR e_url IS NOT NULL) \
        AND head_event_type IS NOT DISTINCT FROM $1 \
        AND ($2::text IS NULL OR redrive.url_key(url) = redrive.url_key($2)) \
        AND name > $3 ORDER BY name LIMIT $4"
);
const MOVE: &str = "UPDATE redrive.delivery_queues SET head_next_attempt_at = $5, head_parked = $6, \
    head_phase = $7, head_attempts_allowed = $8 WHERE name = $1 AND head_message = $2 AND head_failures = $3 \
    AND head_last_failed_at = $4 AND decision_id IS NULL";
/// A decision is the lease holder's where there is one; and what was put before the head is dealt with first.
const BURY: &str = "UPDATE redrive.delivery_queues SET head_next_attempt_at = NULL, head_parked = FALSE, \
    head_phase = NULL, head_attempts_allowed = $6, decision_id = $5, decision_message = head_message, \
    decision_fingerprint = head_fingerprint, decision_reason = 'exhausted', decision_epoch = epoch \
    WHERE name = $1 AND head_message = $2 AND head_failures = $3 AND head_last_failed_at = $4 \
    AND decision_id IS NULL AND NOT has_companion \
    AND NOT EXISTS (SELECT 1 FROM redrive.incarnations i WHERE i.id = owner AND i.alive)";
const QUEUES_LOCK: &str = "SELECT 1 FROM redrive.delivery_queues WHERE name = ANY($1) ORDER BY name FOR UPDATE";
const ENDPOINTS_LOCK: &str = "SELECT 1 FROM redrive.endpoints \
    WHERE url_key IN (SELECT redrive.url_key(url) FROM unnest($1::text[]) AS moved (url)) \
    ORDER BY url_key FOR UPDATE";

#[async_trait]
impl Policies for PostgresStore {
    async fn policies_newest(&self, scopes: &[PolicyScope]) -> Result<Vec<PolicyVersion>, StoreError> {
        let (types, urls): (Vec<String>, Vec<String>) = scopes.iter().map(scope).unzip();
        self.call("reading policies", async |connection: &mut PgConnection| {
            let rows = sqlx::query(NEWEST_OF)
                .bind(types)
                .bind(urls)
                .fetch_all(connection)
                .await?;
            rows.iter().map(policy_version).collect()
        })
        .await
    }

    async fn policy_version(&self, of: &PolicyScope, version: i64) -> Result<Option<PolicyVersion>, StoreError> {
        let (event_type, url) = scope(of);
        let query = sqlx::query(VERSION).bind(event_type).bind(url).bind(version);
        self.call(
            "reading a version of a policy",
            async |connection: &mut PgConnection| {
                let row = query.fetch_optional(connection).await?;
                row.as_ref().map(policy_version).transpose()
            },
        )
        .await
    }

    async fn heads_waiting(&self, query: &WaitingQuery) -> Result<Vec<WaitingHead>, StoreError> {
        let statement = sqlx::query(WAITING)
            .bind(query.scope.event_type.as_deref().map(storable))
            .bind(query.scope.url.as_ref().map(EndpointUrl::as_str))
            .bind(query.after.as_ref().map_or("", QueueName::as_str))
            .bind(i64::from(query.limit));
        self.call("listing the heads that wait", async |connection: &mut PgConnection| {
            let rows = statement.fetch_all(connection).await?;
            rows.iter().map(waiting_head).collect()
        })
        .await
    }

    async fn policy_change(&self, change: &PolicyChange) -> Result<PolicyChanged, StoreError> {
        self.transaction("changing a policy", async |connection: &mut PgConnection, now| {
            exclusively(connection, Exclusive::Policies).await?;
            let (event_type, url) = scope(&change.new.scope);
            let newest: i64 = sqlx::query_scalar(NEWEST)
                .bind(event_type)
                .bind(url)
                .fetch_one(&mut *connection)
                .await?;
            if newest != change.expected {
                return Ok(PolicyChanged::Stale { newest });
            }
            let version = version_add(connection, &change.new).await?;
            let moved = move_all(connection, &change.moves, now).await?;
            Ok(PolicyChanged::Saved { version, moved })
        })
        .await
    }

    async fn heads_move(&self, moves: &[HeadMove]) -> Result<u64, StoreError> {
        if moves.is_empty() {
            return Ok(0);
        }
        self.transaction("moving heads that wait", async |connection: &mut PgConnection, now| {
            move_all(connection, moves, now).await
        })
        .await
    }
}

/// Queues are locked first, by name, then endpoints, then the generation.
async fn move_all(connection: &mut PgConnection, moves: &[HeadMove], now: Timestamp) -> Result<u64, sqlx::Error> {
    if moves.is_empty() {
        return Ok(0);
    }
    let names: Vec<String> = moves.iter().map(|one| storable(one.queue.as_str())).collect();
    let of_url = |one: &HeadMove| one.endpoint.as_ref().map(|(url, _)| url.as_str().to_owned());
    let urls: Vec<String> = moves.iter().filter_map(of_url).collect();
    sqlx::query(QUEUES_LOCK).bind(names).execute(&mut *connection).await?;
    sqlx::query(ENDPOINTS_LOCK).bind(urls).execute(&mut *connection).await?;
    let mut count = 0;
    for one in moves {
        count += u64::from(move_one(connection, one, now).await?);
    }
    if count > 0 {
        endpoints::generation_raise(connection).await?;
    }
    Ok(count)
}

/// False when it no longer waits as it was read.
async fn move_one(connection: &mut PgConnection, one: &HeadMove, now: Timestamp) -> Result<bool, sqlx::Error> {
    if let Some((url, epoch)) = &one.endpoint {
        let found = endpoints::get_all(connection, std::slice::from_ref(url)).await?;
        if !found.first().is_some_and(|found| endpoint_moves(found, *epoch, now)) {
            return Ok(false);
        }
    }
    if !head_moves(connection, one).await? {
        return Ok(false);
    }
    if let (Some((url, epoch)), Some(change)) = (&one.endpoint, one.endpoint_change()) {
        endpoints::apply(connection, url, Some(*epoch), (&change, None), now).await?;
    }
    Ok(true)
}

async fn head_moves(connection: &mut PgConnection, one: &HeadMove) -> Result<bool, sqlx::Error> {
    let guarded = |statement: &'static str| {
        sqlx::query(statement)
            .bind(storable(one.queue.as_str()))
            .bind(one.message.as_str().to_owned())
            .bind(i64::from(one.failures))
            .bind(one.last_failed_at.micros())
    };
    let query = if let MoveTo::DeadLettered { decision } = &one.to {
        guarded(BURY).bind(decision).bind(i64::from(one.attempts_allowed))
    } else {
        let Placed { at, parked, phase } = head_places(one);
        guarded(MOVE)
            .bind(micros_optional(at))
            .bind(parked)
            .bind(phase.map(Phase::as_str))
            .bind(i64::from(one.attempts_allowed))
    };
    Ok(query.execute(connection).await?.rows_affected() == 1)
}
