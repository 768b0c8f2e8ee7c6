//! Policies and the heads that wait under them, in a SQLite file.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;

use super::error::unread;
use super::records::{scope, version_add};
use super::{SqliteStore, endpoints, micros_optional};
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

const NEWEST: &str = "SELECT COALESCE(MAX(version), 0) FROM policies WHERE event_type = $1 AND url = $2";
const VERSION: &str = "SELECT event_type, url, version, document, author, at FROM policies \
    WHERE event_type = $1 AND url = $2 AND version = $3";
const WAITING: &str = concat!(
    "SELECT ",
    queue_columns!(),
    ", ",
    waiting_columns!(),
    ", e_until IS NOT NULL AND e_until >= $5 AS e_probing FROM delivery_queues LEFT JOIN \
     (SELECT url AS e_url, epoch AS e_epoch, attempts AS e_attempts, next_attempt_at AS e_next, probe_queue AS e_queue, \
        probe_message AS e_message, probe_until AS e_until FROM endpoints WHERE state IN ('unavailable', 'parked')) \
     ON e_url = url AND e_queue = name AND COALESCE(e_message, head_message) = head_message \
        AND head_next_attempt_at IS NULL AND NOT head_parked \
     WHERE head_message IS NOT NULL AND decision_id IS NULL AND url IS NOT NULL \
        AND (head_next_attempt_at IS NOT NULL OR head_parked OR e_url IS NOT NULL) \
        AND head_event_type IS $1 AND ($2 IS NULL OR url = $2) AND name > $3 ORDER BY name LIMIT $4"
);
const MOVE: &str = "UPDATE delivery_queues SET head_next_attempt_at = $5, head_parked = $6, head_phase = $7, \
    head_attempts_allowed = $8 WHERE name = $1 AND head_message = $2 AND head_failures = $3 \
    AND head_last_failed_at = $4 AND decision_id IS NULL";
/// A decision is the lease holder's where there is one; and what was put before the head is dealt with first.
const BURY: &str = "UPDATE delivery_queues SET head_next_attempt_at = NULL, head_parked = 0, head_phase = NULL, \
    head_attempts_allowed = $6, decision_id = $5, decision_message = head_message, \
    decision_fingerprint = head_fingerprint, decision_reason = 'exhausted', decision_epoch = epoch \
    WHERE name = $1 AND head_message = $2 AND head_failures = $3 AND head_last_failed_at = $4 \
    AND decision_id IS NULL AND NOT has_companion \
    AND NOT EXISTS (SELECT 1 FROM incarnations i WHERE i.id = owner AND i.alive)";

#[async_trait]
impl Policies for SqliteStore {
    async fn policies_newest(&self, scopes: &[PolicyScope]) -> Result<Vec<PolicyVersion>, StoreError> {
        let mut found = Vec::with_capacity(scopes.len());
        for scope in scopes {
            found.extend(self.versions(scope, 1).await?);
        }
        Ok(found)
    }

    async fn policy_version(&self, of: &PolicyScope, version: i64) -> Result<Option<PolicyVersion>, StoreError> {
        let operation = "reading a version of a policy";
        let (event_type, url) = scope(of);
        let row = sqlx::query(VERSION)
            .bind(event_type)
            .bind(url)
            .bind(version)
            .fetch_optional(self.readers())
            .await
            .map_err(unread(operation))?;
        row.as_ref().map(policy_version).transpose().map_err(unread(operation))
    }

    async fn heads_waiting(&self, query: &WaitingQuery) -> Result<Vec<WaitingHead>, StoreError> {
        let operation = "listing the heads that wait";
        let rows = sqlx::query(WAITING)
            .bind(query.scope.event_type.as_deref())
            .bind(query.scope.url.as_ref().map(EndpointUrl::as_str))
            .bind(query.after.as_ref().map_or("", QueueName::as_str))
            .bind(i64::from(query.limit))
            .bind(self.clock.now().micros())
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        rows.iter()
            .map(waiting_head)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }

    async fn policy_change(&self, change: &PolicyChange) -> Result<PolicyChanged, StoreError> {
        let now = self.clock.now();
        let change = change.clone();
        self.write("changing a policy", move |connection| {
            Box::pin(async move { change_policy(connection, &change, now).await })
        })
        .await
    }

    async fn heads_move(&self, moves: &[HeadMove]) -> Result<u64, StoreError> {
        if moves.is_empty() {
            return Ok(0);
        }
        let now = self.clock.now();
        let moves = moves.to_vec();
        self.write("moving heads that wait", move |connection| {
            Box::pin(async move { move_all(connection, &moves, now).await })
        })
        .await
    }
}

async fn change_policy(
    connection: &mut SqliteConnection,
    change: &PolicyChange,
    now: Timestamp,
) -> Result<PolicyChanged, sqlx::Error> {
    let (event_type, url) = scope(&change.new.scope);
    let newest: i64 = sqlx::query_scalar(NEWEST)
        .bind(event_type)
        .bind(url)
        .fetch_one(&mut *connection)
        .await?;
    if newest != change.expected {
        return Ok(PolicyChanged::Stale { newest });
    }
    let version = version_add(connection, &change.new, now).await?;
    let moved = move_all(connection, &change.moves, now).await?;
    Ok(PolicyChanged::Saved { version, moved })
}

async fn move_all(connection: &mut SqliteConnection, moves: &[HeadMove], now: Timestamp) -> Result<u64, sqlx::Error> {
    let mut count = 0;
    for one in moves {
        count += u64::from(move_one(connection, one, now).await?);
    }
    if count > 0 {
        endpoints::generation_raise(connection, now).await?;
    }
    Ok(count)
}

/// False when it no longer waits as it was read.
async fn move_one(connection: &mut SqliteConnection, one: &HeadMove, now: Timestamp) -> Result<bool, sqlx::Error> {
    if let Some((url, epoch)) = &one.endpoint {
        let found = endpoints::get(connection, url).await?;
        if !found.is_some_and(|found| endpoint_moves(&found, *epoch, now)) {
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

async fn head_moves(connection: &mut SqliteConnection, one: &HeadMove) -> Result<bool, sqlx::Error> {
    let guarded = |statement: &'static str| {
        sqlx::query(statement)
            .bind(one.queue.as_str().to_owned())
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
