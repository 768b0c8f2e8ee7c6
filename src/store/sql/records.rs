//! Policies, audit and rescued messages.

use async_trait::async_trait;

use super::{Calls, Driver, Exclusive, Row, Session, Statement, values};
use crate::domain::id::QueueName;
use crate::domain::url::EndpointUrl;
use crate::store::columns::{
    Columns, audit_entry, integer, policy_version, rescued_message, rescued_row, shown_url, storable, text,
};
use crate::store::rules::audit_hash;
use crate::store::{
    AuditEntry, NewAudit, NewPolicy, PolicyScope, PolicyVersion, Records, RescuedMessage, RescuedRow, StoreError,
};

/// Of the newest line, though retention removed it.
static AUDIT_LAST: Statement =
    Statement::new("SELECT newest_hash, (SELECT broker FROM redrive.settings) AS broker FROM redrive.audit_chain");
static AUDIT_ADD: Statement = Statement::new(
    "INSERT INTO redrive.audit (at, actor, command, target, reason, plan, result, detail, hash, broker) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING id",
);
static AUDIT_LIST: Statement = Statement::new(
    "SELECT id, at, actor, command, target, reason, plan, result, detail, hash, broker \
     FROM redrive.audit WHERE id < $1 ORDER BY id DESC LIMIT $2",
);
static POLICY_ADD: Statement = Statement::new(
    "INSERT INTO redrive.policies (event_type, url, version, document, author, at) \
     SELECT $1, $2, COALESCE(MAX(version), 0) + 1, $3, $4, redrive.store_now() FROM redrive.policies \
     WHERE event_type = $1 AND url_key = redrive.url_key($2) RETURNING version",
);
static POLICY_VERSIONS: Statement = Statement::new(
    "SELECT event_type, url, version, document, author, at FROM redrive.policies \
     WHERE event_type = $1 AND url_key = redrive.url_key($2) ORDER BY version DESC LIMIT $3",
);
static POLICIES: Statement = Statement::new(concat!(
    "SELECT event_type, url, version, document, author, at FROM redrive.policies AS p \
     WHERE document IS NOT NULL AND NOT EXISTS (SELECT 1 FROM redrive.policies AS newer \
        WHERE newer.event_type = p.event_type AND newer.url_key = p.url_key AND newer.version > p.version) \
     ORDER BY event_type, ",
    shown_url!(),
    ", at, ctid LIMIT $1",
));
static RESCUED_ADD: Statement = Statement::new(
    "INSERT INTO redrive.rescued (queue, header_frame, body, reason, at) \
     VALUES ($1, $2, $3, $4, redrive.store_now()) RETURNING id",
);
static RESCUED: Statement = Statement::new(
    "SELECT id, queue, CAST(length(body) AS bigint) AS bytes, reason, at FROM redrive.rescued \
     WHERE ($1::text IS NULL OR queue = $1) AND id < $2 ORDER BY id DESC LIMIT $3",
);
static RESCUED_ONE: Statement =
    Statement::new("SELECT id, queue, header_frame, body, reason, at FROM redrive.rescued WHERE id = $1");

/// Versions of a policy that its history shows.
const HISTORY_MAX: u32 = 200;

#[async_trait]
impl<D: Driver> Records for D {
    async fn audit_append(&self, entry: &NewAudit) -> Result<i64, StoreError> {
        let entry = entry.clone();
        self.transaction("appending to the audit", move |mut session, _| {
            Box::pin(async move { append(&mut session, &entry).await })
        })
        .await
    }

    async fn audit_list(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        let values = values![before.unwrap_or(i64::MAX), limit];
        self.list("listing the audit", &AUDIT_LIST, values, audit_entry).await
    }

    async fn policy_put(&self, new: &NewPolicy) -> Result<i64, StoreError> {
        let new = new.clone();
        self.transaction("saving a policy", move |mut session, _| {
            Box::pin(async move {
                session.exclusively(Exclusive::Policies).await?;
                version_add(&mut session, &new).await
            })
        })
        .await
    }

    async fn policy_get(&self, scope: &PolicyScope) -> Result<Option<PolicyVersion>, StoreError> {
        let newest = versions(self, scope, 1).await?.pop();
        Ok(newest.filter(|policy| policy.document.is_some()))
    }

    async fn policies(&self, limit: u32) -> Result<Vec<PolicyVersion>, StoreError> {
        self.list("listing policies", &POLICIES, values![limit], policy_version)
            .await
    }

    async fn policy_history(&self, scope: &PolicyScope) -> Result<Vec<PolicyVersion>, StoreError> {
        versions(self, scope, HISTORY_MAX).await
    }

    async fn rescued_insert(&self, message: &RescuedMessage) -> Result<i64, StoreError> {
        let values = values![&message.queue, &message.header_frame, &message.body, &message.reason];
        let id = |row: &_| integer(row, "id");
        self.added("keeping a rescued message", &RESCUED_ADD, values, id).await
    }

    async fn rescued_list(
        &self,
        queue: Option<&QueueName>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<RescuedRow>, StoreError> {
        let values = values![queue, before.unwrap_or(i64::MAX), limit];
        self.list("listing rescued messages", &RESCUED, values, rescued_row)
            .await
    }

    async fn rescued_get(&self, id: i64) -> Result<Option<RescuedMessage>, StoreError> {
        self.find("reading a rescued message", &RESCUED_ONE, values![id], rescued_message)
            .await
    }
}

/// The newest versions of a scope, newest first.
async fn versions<D: Driver>(driver: &D, of: &PolicyScope, limit: u32) -> Result<Vec<PolicyVersion>, StoreError> {
    let (event_type, url) = scope(of);
    let values = values![event_type, url, limit];
    driver
        .list("reading a policy", &POLICY_VERSIONS, values, policy_version)
        .await
}

/// Nobody else appends meanwhile, so that each line's hash covers the line before it.
async fn append(session: &mut Session<'_>, entry: &NewAudit) -> Result<i64, sqlx::Error> {
    session.exclusively(Exclusive::Audit).await?;
    let now = session.now().await?;
    let entry = &made_storable(entry);
    let last = |row: &Row| Ok((text(row, "newest_hash")?, row.text("broker")?));
    let (last, broker) = session.one(&AUDIT_LAST, values![], last).await?;
    let values = values![
        now,
        &entry.actor,
        &entry.command,
        &entry.target,
        &entry.reason,
        &entry.plan,
        &entry.result,
        &entry.detail,
        audit_hash(&last, now, entry, broker.as_ref()),
        broker,
    ];
    session.one(&AUDIT_ADD, values, |row| integer(row, "id")).await
}

/// Made storable before it is hashed, so that the hash is that of what is kept.
fn made_storable(entry: &NewAudit) -> NewAudit {
    let text = |text: &String| storable(text);
    NewAudit {
        actor: text(&entry.actor),
        command: text(&entry.command),
        target: text(&entry.target),
        reason: entry.reason.as_ref().map(text),
        plan: entry.plan.as_ref().map(text),
        result: text(&entry.result),
        detail: text(&entry.detail),
    }
}

/// The next version of its scope; answers its number.
pub(super) async fn version_add(session: &mut Session<'_>, new: &NewPolicy) -> Result<i64, sqlx::Error> {
    let (event_type, url) = scope(&new.scope);
    let values = values![event_type, url, &new.document, &new.author];
    session.one(&POLICY_ADD, values, |row| integer(row, "version")).await
}

/// As the key columns hold it.
pub(super) fn scope(scope: &PolicyScope) -> (String, String) {
    let url = scope.url.as_ref().map(EndpointUrl::as_str).unwrap_or_default();
    (scope.event_type.clone().unwrap_or_default(), url.to_owned())
}
