//! Policies, audit and rescued messages in a SQLite file.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;

use super::SqliteStore;
use super::error::unread;
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::store::columns::{audit_entry, policy_version, rescued_message};
use crate::store::rules::audit_hash;
use crate::store::{AuditEntry, NewAudit, NewPolicy, PolicyScope, PolicyVersion, Records, RescuedMessage, StoreError};

/// Of the newest line, though retention removed it.
const AUDIT_LAST: &str = "SELECT newest_hash, (SELECT broker FROM settings) FROM audit_chain";
const AUDIT_ADD: &str = "INSERT INTO audit (at, actor, command, target, reason, plan, result, detail, hash, \
    broker) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING id";
const AUDIT_LIST: &str = "SELECT id, at, actor, command, target, reason, plan, result, detail, hash, broker \
    FROM audit WHERE id < $1 ORDER BY id DESC LIMIT $2";
const POLICY_ADD: &str = "INSERT INTO policies (event_type, url, version, document, author, at) \
    SELECT $1, $2, COALESCE(MAX(version), 0) + 1, $3, $4, $5 FROM policies \
    WHERE event_type = $1 AND url = $2 RETURNING version";
const POLICY_VERSIONS: &str = "SELECT event_type, url, version, document, author, at FROM policies \
    WHERE event_type = $1 AND url = $2 ORDER BY version DESC LIMIT $3";
const POLICIES: &str = "SELECT event_type, url, version, document, author, at FROM policies AS p \
    WHERE document IS NOT NULL AND version = (SELECT MAX(version) FROM policies AS newer \
        WHERE newer.event_type = p.event_type AND newer.url = p.url) ORDER BY event_type, url LIMIT $1";
const RESCUED_ADD: &str = "INSERT INTO rescued (queue, header_frame, body, reason, at) \
    VALUES ($1, $2, $3, $4, $5) RETURNING id";
const RESCUED: &str = "SELECT id, queue, header_frame, body, reason, at FROM rescued \
    WHERE $1 IS NULL OR queue = $1 ORDER BY id DESC LIMIT $2";

/// Versions of a policy that its history shows.
const HISTORY_MAX: i64 = 200;

#[async_trait]
impl Records for SqliteStore {
    async fn audit_append(&self, entry: &NewAudit) -> Result<i64, StoreError> {
        let now = self.clock.now();
        let entry = entry.clone();
        self.write("appending to the audit", move |connection| {
            Box::pin(async move { append(connection, &entry, now).await })
        })
        .await
    }

    async fn audit_list(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        let operation = "listing the audit";
        let rows = sqlx::query(AUDIT_LIST)
            .bind(before.unwrap_or(i64::MAX))
            .bind(i64::from(limit))
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        rows.iter()
            .map(audit_entry)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }

    async fn policy_put(&self, new: &NewPolicy) -> Result<i64, StoreError> {
        let now = self.clock.now();
        let new = new.clone();
        self.write("saving a policy", move |connection| {
            Box::pin(async move { version_add(connection, &new, now).await })
        })
        .await
    }

    async fn policy_get(&self, scope: &PolicyScope) -> Result<Option<PolicyVersion>, StoreError> {
        let newest = self.versions(scope, 1).await?.pop();
        Ok(newest.filter(|policy| policy.document.is_some()))
    }

    async fn policies(&self, limit: u32) -> Result<Vec<PolicyVersion>, StoreError> {
        let operation = "listing policies";
        let rows = sqlx::query(POLICIES)
            .bind(i64::from(limit))
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        rows.iter()
            .map(policy_version)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }

    async fn policy_history(&self, scope: &PolicyScope) -> Result<Vec<PolicyVersion>, StoreError> {
        self.versions(scope, HISTORY_MAX).await
    }

    async fn rescued_insert(&self, message: &RescuedMessage) -> Result<i64, StoreError> {
        let now = self.clock.now().micros();
        let message = message.clone();
        self.write("keeping a rescued message", move |connection| {
            Box::pin(async move {
                sqlx::query_scalar(RESCUED_ADD)
                    .bind(message.queue.as_str())
                    .bind(&message.header_frame)
                    .bind(&message.body)
                    .bind(&message.reason)
                    .bind(now)
                    .fetch_one(connection)
                    .await
            })
        })
        .await
    }

    async fn rescued_list(&self, queue: Option<&QueueName>, limit: u32) -> Result<Vec<RescuedMessage>, StoreError> {
        let operation = "listing rescued messages";
        let rows = sqlx::query(RESCUED)
            .bind(queue.map(QueueName::as_str))
            .bind(i64::from(limit))
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        rows.iter()
            .map(rescued_message)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }
}

impl SqliteStore {
    /// The newest versions of a scope, newest first.
    pub(super) async fn versions(&self, of: &PolicyScope, limit: i64) -> Result<Vec<PolicyVersion>, StoreError> {
        let operation = "reading a policy";
        let (event_type, url) = scope(of);
        let rows = sqlx::query(POLICY_VERSIONS)
            .bind(event_type)
            .bind(url)
            .bind(limit)
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        rows.iter()
            .map(policy_version)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }
}

/// Each line's hash covers the line before it; there is one writer, so no line comes between.
async fn append(connection: &mut SqliteConnection, entry: &NewAudit, now: Timestamp) -> Result<i64, sqlx::Error> {
    let (last, broker): (String, Option<String>) = sqlx::query_as(AUDIT_LAST).fetch_one(&mut *connection).await?;
    sqlx::query_scalar(AUDIT_ADD)
        .bind(now.micros())
        .bind(&entry.actor)
        .bind(&entry.command)
        .bind(&entry.target)
        .bind(&entry.reason)
        .bind(&entry.plan)
        .bind(&entry.result)
        .bind(&entry.detail)
        .bind(audit_hash(&last, now, entry, broker.as_ref()))
        .bind(broker)
        .fetch_one(connection)
        .await
}

/// The next version of its scope; answers its number.
pub(super) async fn version_add(
    connection: &mut SqliteConnection,
    new: &NewPolicy,
    now: Timestamp,
) -> Result<i64, sqlx::Error> {
    let (event_type, url) = scope(&new.scope);
    sqlx::query_scalar(POLICY_ADD)
        .bind(event_type)
        .bind(url)
        .bind(&new.document)
        .bind(&new.author)
        .bind(now.micros())
        .fetch_one(connection)
        .await
}

/// As the key columns hold it.
pub(super) fn scope(scope: &PolicyScope) -> (String, String) {
    (
        scope.event_type.clone().unwrap_or_default(),
        scope
            .url
            .as_ref()
            .map(EndpointUrl::as_str)
            .unwrap_or_default()
            .to_owned(),
    )
}
