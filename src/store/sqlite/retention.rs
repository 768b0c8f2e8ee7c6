//! Trimming in a SQLite file: a page is one work of the writer, and what takes long to find is found by a reader.

use async_trait::async_trait;
use serde_json::json;
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;

use super::SqliteStore;
use super::error::unread;
use crate::domain::time::Timestamp;
use crate::store::columns::{audit_chain, audit_entry, stored};
use crate::store::rules::{TrimStatements, TrimStep, old_lines, trim_steps};
use crate::store::{AuditChain, AuditEntry, StoreError, Trim, Trimming};

const ATTEMPTS_OLD: &str = "DELETE FROM attempts WHERE id IN \
    (SELECT id FROM attempts WHERE started_at < $1 ORDER BY started_at, id LIMIT $2)";
const ATTEMPTS_MANY: &str = "DELETE FROM attempts WHERE id IN \
    (SELECT id FROM attempts WHERE id <= (SELECT max(id) FROM attempts) - $1 ORDER BY id LIMIT $2)";

/// Never the newest version of what is set; one that unsets goes when it is the only one left, or an older one would
/// hold again.
const POLICIES_OLD: &str = "DELETE FROM policies WHERE rowid IN (SELECT rowid FROM policies AS p WHERE at < $1 AND \
    (EXISTS (SELECT 1 FROM policies n WHERE n.event_type = p.event_type AND n.url = p.url AND n.version > p.version) \
     OR document IS NULL AND NOT EXISTS (SELECT 1 FROM policies o \
        WHERE o.event_type = p.event_type AND o.url = p.url AND o.version < p.version)) LIMIT $2)";
const POLICIES_MANY: &str = "DELETE FROM policies WHERE rowid IN (SELECT rowid FROM policies AS p WHERE version <= \
    (SELECT max(version) FROM policies n WHERE n.event_type = p.event_type AND n.url = p.url) - $1 LIMIT $2)";
const RESCUED: &str = "DELETE FROM rescued WHERE id IN (SELECT id FROM rescued WHERE at < $1 ORDER BY at LIMIT $2)";

const RUNS_OLD: &str = "UPDATE runs SET removing = 1 WHERE ended_at < $1 AND NOT removing";
const RUNS_MANY: &str = "UPDATE runs SET removing = 1 WHERE ended_at IS NOT NULL AND NOT removing AND id NOT IN \
    (SELECT id FROM runs WHERE ended_at IS NOT NULL ORDER BY id DESC LIMIT $1)";
const PLANS_OLD: &str = "UPDATE runs SET removing = 1 WHERE state = 'planned' AND created_at < $1 AND NOT removing";
const RUN_ITEMS: &str = "DELETE FROM run_items WHERE (run, ordinal) IN (SELECT i.run, i.ordinal FROM runs r \
    CROSS JOIN run_items i ON i.run = r.id WHERE r.removing AND $1 = 0 LIMIT $2)";
const RUNS: &str = "DELETE FROM runs WHERE id IN (SELECT id FROM runs r WHERE removing AND $1 = 0 \
    AND NOT EXISTS (SELECT 1 FROM run_items i WHERE i.run = r.id) LIMIT $2)";

const KEPT: &str =
    "DELETE FROM kept_messages WHERE rowid IN (SELECT rowid FROM kept_messages WHERE until < $1 LIMIT $2)";
const EDITS: &str = "DELETE FROM kept_messages WHERE rowid IN (SELECT rowid FROM kept_messages k \
    WHERE kind = 'edited' AND at < $1 AND NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d.id = k.letter) LIMIT $2)";

const SAVES_OVER: &str = "UPDATE saves SET removing = 1 WHERE until < $1 AND NOT removing AND state <> 'taking' \
    AND (owner IS NULL OR owner NOT IN (SELECT id FROM incarnations WHERE alive))";
const SAVED: &str = "DELETE FROM saved_messages WHERE (save, place) IN (SELECT m.save, m.place FROM saves s \
    CROSS JOIN saved_messages m ON m.save = s.id WHERE s.removing AND $1 = 0 LIMIT $2)";
const SAVES: &str = "DELETE FROM saves WHERE id IN (SELECT id FROM saves s WHERE removing AND $1 = 0 \
    AND NOT EXISTS (SELECT 1 FROM saved_messages m WHERE m.save = s.id) LIMIT $2)";

const EVENT_TYPES: &str = "DELETE FROM event_types WHERE name IN (SELECT name FROM event_types AS t \
    WHERE used_at < $1 AND document = '{}' AND NOT is_target AND dead_letter_type IS NULL \
    AND NOT EXISTS (SELECT 1 FROM events e WHERE e.type = t.name) \
    AND NOT EXISTS (SELECT 1 FROM event_history h WHERE h.type = t.name) \
    AND NOT EXISTS (SELECT 1 FROM subscriptions s WHERE s.type = t.name) \
    AND NOT EXISTS (SELECT 1 FROM policies p WHERE p.event_type = t.name AND p.document IS NOT NULL \
        AND NOT EXISTS (SELECT 1 FROM policies n WHERE n.event_type = p.event_type AND n.url = p.url \
            AND n.version > p.version)) LIMIT $2)";

/// What makes an endpoint one that nobody needs; asked once by a reader for all, and again by the writer of each.
macro_rules! unneeded {
    () => {
        "state = 'available' AND since < $1 AND COALESCE(last_success_at, 0) < $1 \
         AND NOT EXISTS (SELECT 1 FROM delivery_queues q WHERE q.url = e.url) \
         AND NOT EXISTS (SELECT 1 FROM policies p WHERE p.url = e.url AND p.document IS NOT NULL \
            AND NOT EXISTS (SELECT 1 FROM policies n WHERE n.event_type = p.event_type AND n.url = p.url \
                AND n.version > p.version))"
    };
}
const ENDPOINTS: &str = concat!("SELECT url FROM endpoints e WHERE ", unneeded!(), " LIMIT $2");
const ENDPOINTS_EPOCH: &str = concat!(
    "UPDATE forgotten_endpoints SET epoch = max(epoch, COALESCE((SELECT max(e.epoch) + 1 FROM endpoints e \
     WHERE e.url IN (SELECT value FROM json_each($2)) AND ",
    unneeded!(),
    "), 0))"
);
const ENDPOINTS_REMOVE: &str = concat!(
    "DELETE FROM endpoints AS e WHERE e.url IN (SELECT value FROM json_each($2)) AND ",
    unneeded!()
);

const STATEMENTS: TrimStatements = TrimStatements {
    attempts_old: ATTEMPTS_OLD,
    attempts_many: ATTEMPTS_MANY,
    policies_old: POLICIES_OLD,
    policies_many: POLICIES_MANY,
    rescued: RESCUED,
    runs_old: RUNS_OLD,
    runs_many: RUNS_MANY,
    plans_old: PLANS_OLD,
    run_items: RUN_ITEMS,
    runs: RUNS,
    kept: KEPT,
    edits: EDITS,
    saves_over: SAVES_OVER,
    saved: SAVED,
    saves: SAVES,
    event_types: EVENT_TYPES,
};

const AUDIT_OLDEST: &str = "SELECT id, at, hash FROM audit ORDER BY id LIMIT $1";
const AUDIT_ANCHOR: &str = "UPDATE audit_chain SET removed = removed + $1, removed_id = $2, removed_hash = $3, \
    removed_at = $4";
const AUDIT_REMOVE: &str = "DELETE FROM audit WHERE id <= $1";
const AUDIT_CHAIN: &str =
    "SELECT removed, removed_id, removed_hash, removed_at, newest_id, newest_hash FROM audit_chain";
const AUDIT_FROM: &str = "SELECT id, at, actor, command, target, reason, plan, result, detail, hash, broker \
    FROM audit WHERE id > $1 ORDER BY id LIMIT $2";

#[async_trait]
impl Trimming for SqliteStore {
    async fn trim(&self, trim: &Trim, rows: u32) -> Result<u64, StoreError> {
        let now = self.clock.now();
        match *trim {
            Trim::Audit { age } => self.trim_audit(now.minus(age), rows).await,
            Trim::Endpoints { unused } => self.trim_endpoints(now.minus(unused), rows).await,
            Trim::Attempts(_)
            | Trim::Policies { .. }
            | Trim::EventTypes { .. }
            | Trim::Rescued { .. }
            | Trim::Runs(_)
            | Trim::Kept { .. }
            | Trim::Saves => {
                let steps = trim_steps(trim, now, &STATEMENTS);
                self.write("trimming", move |connection| {
                    Box::pin(async move { page(connection, steps, u64::from(rows)).await })
                })
                .await
            }
        }
    }

    async fn audit_chain(&self) -> Result<AuditChain, StoreError> {
        let operation = "reading the ends of the audit";
        let row = sqlx::query(AUDIT_CHAIN)
            .fetch_one(self.readers())
            .await
            .map_err(unread(operation))?;
        audit_chain(&row).map_err(unread(operation))
    }

    async fn audit_from(&self, after: i64, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        let operation = "reading the audit";
        let rows = sqlx::query(AUDIT_FROM)
            .bind(after)
            .bind(i64::from(limit))
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        rows.iter()
            .map(audit_entry)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }
}

async fn page(connection: &mut SqliteConnection, steps: Vec<TrimStep>, rows: u64) -> Result<u64, sqlx::Error> {
    let mut gone = 0;
    for step in steps {
        match step {
            TrimStep::Marks(statement, bound) => {
                sqlx::query(statement).bind(bound).execute(&mut *connection).await?;
            }
            TrimStep::Removes(statement, bound) if gone < rows => {
                let query = sqlx::query(statement).bind(bound).bind(stored(rows - gone));
                gone += query.execute(&mut *connection).await?.rows_affected();
            }
            TrimStep::Removes(..) => {}
        }
    }
    Ok(gone)
}

impl SqliteStore {
    /// What is removed is in the anchor before it goes.
    async fn trim_audit(&self, before: Timestamp, rows: u32) -> Result<u64, StoreError> {
        let now = self.clock.now();
        self.write("trimming the audit", move |connection| {
            Box::pin(async move {
                let lines = sqlx::query(AUDIT_OLDEST)
                    .bind(i64::from(rows))
                    .fetch_all(&mut *connection)
                    .await?;
                let Some((count, last)) = old_lines(&lines, before)? else {
                    return Ok(0);
                };
                let (id, hash): (i64, String) = (last.try_get("id")?, last.try_get("hash")?);
                let anchor = sqlx::query(AUDIT_ANCHOR).bind(stored(count)).bind(id).bind(hash);
                anchor.bind(now.micros()).execute(&mut *connection).await?;
                let gone = sqlx::query(AUDIT_REMOVE).bind(id).execute(connection).await?;
                Ok(gone.rows_affected())
            })
        })
        .await
    }

    async fn trim_endpoints(&self, before: Timestamp, rows: u32) -> Result<u64, StoreError> {
        let found: Vec<String> = sqlx::query_scalar(ENDPOINTS)
            .bind(before.micros())
            .bind(i64::from(rows))
            .fetch_all(self.readers())
            .await
            .map_err(unread("looking for endpoints that nobody uses"))?;
        if found.is_empty() {
            return Ok(0);
        }
        let urls = json!(found).to_string();
        self.write("forgetting endpoints", move |connection| {
            Box::pin(async move {
                let epoch = sqlx::query(ENDPOINTS_EPOCH).bind(before.micros()).bind(&urls);
                epoch.execute(&mut *connection).await?;
                let gone = sqlx::query(ENDPOINTS_REMOVE).bind(before.micros()).bind(urls);
                Ok(gone.execute(connection).await?.rows_affected())
            })
        })
        .await
    }
}
