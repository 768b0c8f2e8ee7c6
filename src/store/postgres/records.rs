//! Policies, audit and rescued messages on PostgreSQL.

use async_trait::async_trait;
use sqlx::PgConnection;

use super::{Exclusive, PostgresStore, exclusively, storable, storable_optional};
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::store::columns::{audit_entry, policy_version, rescued_message};
use crate::store::rules::audit_hash;
use crate::store::{AuditEntry, NewAudit, NewPolicy, PolicyScope, PolicyVersion, Records, RescuedMessage, StoreError};

/// Of the newest line, though retention removed it.
const AUDIT_LAST: &str = "SELECT newest_hash, (SELECT broker FROM redrive.settings) FROM redrive.audit_chain";
const AUDIT_ADD: &str = "INSERT INTO redrive.audit (at, actor, command, target, reason, plan, result, detail, hash, \
    broker) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING id";
const AUDIT_LIST: &str = "SELECT id, at, actor, command, target, reason, plan, result, detail, hash, broker \
    FROM redrive.audit WHERE id < $1 ORDER BY id DESC LIMIT $2";
const POLICY_ADD: &str = "INSERT INTO redrive.policies (event_type, url, version, document, author, at) \
    SELECT $1, $2, COALESCE(MAX(version), 0) + 1, $3, $4, redrive.store_now() FROM redrive.policies \
    WHERE event_type = $1 AND url_key = redrive.url_key($2) RETURNING version";
const POLICY_VERSIONS: &str = "SELECT event_type, url, version, document, author, at FROM redrive.policies \
    WHERE event_type = $1 AND url_key = redrive.url_key($2) ORDER BY version DESC LIMIT $3";
const POLICIES: &str = "SELECT event_type, url, version, document, author, at FROM \
    (SELECT DISTINCT ON (event_type, url_key) * FROM redrive.policies \
     ORDER BY event_type, url_key, version DESC) AS newest \
    WHERE document IS NOT NULL ORDER BY event_type, url LIMIT $1";
const RESCUED_ADD: &str = "INSERT INTO redrive.rescued (queue, header_frame, body, reason, at) \
    VALUES ($1, $2, $3, $4, redrive.store_now()) RETURNING id";
const RESCUED: &str = "SELECT id, queue, header_frame, body, reason, at FROM redrive.rescued \
    WHERE $1::text IS NULL OR queue = $1 ORDER BY id DESC LIMIT $2";

/// Versions of a policy that its history shows.
const HISTORY_MAX: i64 = 200;

#[async_trait]
impl Records for PostgresStore {
    async fn audit_append(&self, entry: &NewAudit) -> Result<i64, StoreError> {
        let entry = storable_entry(entry);
        self.transaction("appending to the audit", async |connection: &mut PgConnection, _| {
            append(connection, &entry).await
        })
        .await
    }

    async fn audit_list(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        let query = sqlx::query(AUDIT_LIST)
            .bind(before.unwrap_or(i64::MAX))
            .bind(i64::from(limit));
        self.call("listing the audit", async |connection: &mut PgConnection| {
            let rows = query.fetch_all(connection).await?;
            rows.iter().map(audit_entry).collect()
        })
        .await
    }

    async fn policy_put(&self, new: &NewPolicy) -> Result<i64, StoreError> {
        self.transaction("saving a policy", async |connection: &mut PgConnection, _| {
            exclusively(connection, Exclusive::Policies).await?;
            version_add(connection, new).await
        })
        .await
    }

    async fn policy_get(&self, scope: &PolicyScope) -> Result<Option<PolicyVersion>, StoreError> {
        let newest = self.versions(scope, 1).await?.pop();
        Ok(newest.filter(|policy| policy.document.is_some()))
    }

    async fn policies(&self, limit: u32) -> Result<Vec<PolicyVersion>, StoreError> {
        self.call("listing policies", async |connection: &mut PgConnection| {
            let query = sqlx::query(POLICIES).bind(i64::from(limit));
            let rows = query.fetch_all(connection).await?;
            rows.iter().map(policy_version).collect()
        })
        .await
    }

    async fn policy_history(&self, scope: &PolicyScope) -> Result<Vec<PolicyVersion>, StoreError> {
        self.versions(scope, HISTORY_MAX).await
    }

    async fn rescued_insert(&self, message: &RescuedMessage) -> Result<i64, StoreError> {
        let query = sqlx::query_scalar(RESCUED_ADD)
            .bind(storable(message.queue.as_str()))
            .bind(&message.header_frame)
            .bind(&message.body)
            .bind(storable(&message.reason));
        self.call("keeping a rescued message", async |connection: &mut PgConnection| {
            query.fetch_one(connection).await
        })
        .await
    }

    async fn rescued_list(&self, queue: Option<&QueueName>, limit: u32) -> Result<Vec<RescuedMessage>, StoreError> {
        let query = sqlx::query(RESCUED)
            .bind(queue.map(|queue| storable(queue.as_str())))
            .bind(i64::from(limit));
        self.call("listing rescued messages", async |connection: &mut PgConnection| {
            let rows = query.fetch_all(connection).await?;
            rows.iter().map(rescued_message).collect()
        })
        .await
    }
}

impl PostgresStore {
    /// The newest versions of a scope, newest first.
    async fn versions(&self, of: &PolicyScope, limit: i64) -> Result<Vec<PolicyVersion>, StoreError> {
        let (event_type, url) = scope(of);
        let query = sqlx::query(POLICY_VERSIONS).bind(event_type).bind(url).bind(limit);
        self.call("reading a policy", async |connection: &mut PgConnection| {
            let rows = query.fetch_all(connection).await?;
            rows.iter().map(policy_version).collect()
        })
        .await
    }
}

/// Appends under a lock, so that each line's hash covers the line before it.
async fn append(connection: &mut PgConnection, entry: &NewAudit) -> Result<i64, sqlx::Error> {
    exclusively(connection, Exclusive::Audit).await?;
    let now: Timestamp = super::now(connection).await?;
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

/// Made storable before it is hashed, so that the hash is that of what is kept.
fn storable_entry(entry: &NewAudit) -> NewAudit {
    NewAudit {
        actor: storable(&entry.actor),
        command: storable(&entry.command),
        target: storable(&entry.target),
        reason: storable_optional(entry.reason.as_ref()),
        plan: storable_optional(entry.plan.as_ref()),
        result: storable(&entry.result),
        detail: storable(&entry.detail),
    }
}

/// The next version of its scope; answers its number.
pub(super) async fn version_add(connection: &mut PgConnection, new: &NewPolicy) -> Result<i64, sqlx::Error> {
    let (event_type, url) = scope(&new.scope);
    sqlx::query_scalar(POLICY_ADD)
        .bind(event_type)
        .bind(url)
        .bind(storable_optional(new.document.as_ref()))
        .bind(storable(&new.author))
        .fetch_one(connection)
        .await
}

/// As the key columns hold it.
pub(super) fn scope(scope: &PolicyScope) -> (String, String) {
    (
        scope.event_type.as_deref().map(storable).unwrap_or_default(),
        scope
            .url
            .as_ref()
            .map(EndpointUrl::as_str)
            .unwrap_or_default()
            .to_owned(),
    )
}
