//! Trimming on PostgreSQL: a page is one transaction; rows that somebody else has locked are left for the next one.

use async_trait::async_trait;
use sqlx::{PgConnection, Row};

use super::{Exclusive, PostgresStore, exclusively};
use crate::domain::time::Timestamp;
use crate::store::columns::{audit_chain, audit_entry, stored};
use crate::store::rules::{TrimStatements, TrimStep, old_lines, trim_steps};
use crate::store::{AuditChain, AuditEntry, StoreError, Trim, Trimming};

const ATTEMPTS_OLD: &str = "DELETE FROM redrive.attempts WHERE id = ANY (ARRAY(\
    SELECT id FROM redrive.attempts WHERE started_at < $1 ORDER BY started_at, id LIMIT $2))";
const ATTEMPTS_MANY: &str = "DELETE FROM redrive.attempts WHERE id = ANY (ARRAY(SELECT id FROM redrive.attempts \
    WHERE id <= (SELECT max(id) FROM redrive.attempts) - $1 ORDER BY id LIMIT $2))";

/// Never the newest version of what is set; one that unsets goes when it is the only one left, or an older one would
/// hold again.
const POLICIES_OLD: &str = "DELETE FROM redrive.policies WHERE ctid = ANY (ARRAY(SELECT p.ctid FROM redrive.policies p \
    WHERE at < $1 AND (EXISTS (SELECT 1 FROM redrive.policies n \
        WHERE n.event_type = p.event_type AND n.url_key = p.url_key AND n.version > p.version) \
     OR document IS NULL AND NOT EXISTS (SELECT 1 FROM redrive.policies o \
        WHERE o.event_type = p.event_type AND o.url_key = p.url_key AND o.version < p.version)) LIMIT $2))";
const POLICIES_MANY: &str = "DELETE FROM redrive.policies WHERE ctid = ANY (ARRAY(SELECT p.ctid FROM redrive.policies p \
    WHERE version <= (SELECT max(version) FROM redrive.policies n \
        WHERE n.event_type = p.event_type AND n.url_key = p.url_key) - $1 LIMIT $2))";
const RESCUED: &str = "DELETE FROM redrive.rescued WHERE id = ANY (ARRAY(\
    SELECT id FROM redrive.rescued WHERE at < $1 ORDER BY at LIMIT $2))";

const RUNS_OLD: &str = "UPDATE redrive.runs SET removing = true WHERE ended_at < $1 AND NOT removing";
const RUNS_MANY: &str = "UPDATE redrive.runs SET removing = true WHERE ended_at IS NOT NULL AND NOT removing \
    AND id NOT IN (SELECT id FROM redrive.runs WHERE ended_at IS NOT NULL ORDER BY id DESC LIMIT $1)";
const PLANS_OLD: &str = "UPDATE redrive.runs SET removing = true \
    WHERE state = 'planned' AND created_at < $1 AND NOT removing";
const RUN_ITEMS: &str = "DELETE FROM redrive.run_items WHERE ctid = ANY (ARRAY(SELECT i.ctid FROM redrive.runs r \
    JOIN redrive.run_items i ON i.run = r.id WHERE r.removing AND $1::bigint = 0 LIMIT $2))";
const RUNS: &str = "DELETE FROM redrive.runs WHERE id = ANY (ARRAY(SELECT id FROM redrive.runs r WHERE removing AND $1::bigint = 0 \
    AND NOT EXISTS (SELECT 1 FROM redrive.run_items i WHERE i.run = r.id) LIMIT $2))";

const KEPT: &str = "DELETE FROM redrive.kept_messages WHERE ctid = ANY (ARRAY(\
    SELECT ctid FROM redrive.kept_messages WHERE until < $1 LIMIT $2))";
const EDITS: &str = "DELETE FROM redrive.kept_messages WHERE ctid = ANY (ARRAY(SELECT k.ctid FROM redrive.kept_messages k \
    WHERE kind = 'edited' AND at < $1 \
    AND NOT EXISTS (SELECT 1 FROM redrive.dead_letters d WHERE d.id = k.letter) LIMIT $2))";

const SAVES_OVER: &str = "UPDATE redrive.saves s SET removing = true WHERE until < $1 AND NOT removing \
    AND state <> 'taking' AND NOT EXISTS (SELECT 1 FROM redrive.incarnations i WHERE i.id = s.owner AND i.alive)";
const SAVED: &str = "DELETE FROM redrive.saved_messages WHERE ctid = ANY (ARRAY(SELECT m.ctid FROM redrive.saves s \
    JOIN redrive.saved_messages m ON m.save = s.id WHERE s.removing AND $1::bigint = 0 LIMIT $2))";
const SAVES: &str = "DELETE FROM redrive.saves WHERE id = ANY (ARRAY(SELECT id FROM redrive.saves s WHERE removing AND $1::bigint = 0 \
    AND NOT EXISTS (SELECT 1 FROM redrive.saved_messages m WHERE m.save = s.id) LIMIT $2))";

const EVENT_TYPES: &str = "DELETE FROM redrive.event_types WHERE name = ANY (ARRAY(\
    SELECT t.name FROM redrive.event_types t WHERE used_at < $1 AND document = '{}' AND NOT is_target AND dead_letter_type IS NULL \
    AND NOT EXISTS (SELECT 1 FROM redrive.events e WHERE e.type = t.name) \
    AND NOT EXISTS (SELECT 1 FROM redrive.event_history h WHERE h.type = t.name) \
    AND NOT EXISTS (SELECT 1 FROM redrive.subscriptions s WHERE s.type = t.name) \
    AND NOT EXISTS (SELECT 1 FROM redrive.policies p WHERE p.event_type = t.name AND p.document IS NOT NULL \
        AND NOT EXISTS (SELECT 1 FROM redrive.policies n WHERE n.event_type = p.event_type \
            AND n.url_key = p.url_key AND n.version > p.version)) \
    ORDER BY t.name LIMIT $2 FOR UPDATE OF t SKIP LOCKED))";

const ENDPOINTS: &str = "WITH gone AS (DELETE FROM redrive.endpoints WHERE url_key = ANY (ARRAY(\
        SELECT e.url_key FROM redrive.endpoints e \
        WHERE state = 'available' AND since < $1 AND COALESCE(last_success_at, 0) < $1 \
        AND NOT EXISTS (SELECT 1 FROM redrive.delivery_queues q WHERE redrive.url_key(q.url) = e.url_key) \
        AND NOT EXISTS (SELECT 1 FROM redrive.policies p WHERE p.url_key = e.url_key AND p.document IS NOT NULL \
            AND NOT EXISTS (SELECT 1 FROM redrive.policies n WHERE n.event_type = p.event_type \
                AND n.url_key = p.url_key AND n.version > p.version)) \
        ORDER BY e.url_key LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING epoch), \
    raised AS (UPDATE redrive.forgotten_endpoints SET epoch = GREATEST(epoch, (SELECT max(epoch) + 1 FROM gone))) \
    SELECT count(*) FROM gone";

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

const AUDIT_OLDEST: &str = "SELECT id, at, hash FROM redrive.audit ORDER BY id LIMIT $1";
const AUDIT_ANCHOR: &str = "UPDATE redrive.audit_chain SET removed = removed + $1, removed_id = $2, removed_hash = $3, \
    removed_at = $4";
const AUDIT_REMOVE: &str = "DELETE FROM redrive.audit WHERE id <= $1";
const AUDIT_CHAIN: &str = "SELECT removed, removed_id, removed_hash, removed_at, newest_id, newest_hash \
    FROM redrive.audit_chain";
const AUDIT_FROM: &str = "SELECT id, at, actor, command, target, reason, plan, result, detail, hash, broker \
    FROM redrive.audit WHERE id > $1 ORDER BY id LIMIT $2";

#[async_trait]
impl Trimming for PostgresStore {
    async fn trim(&self, trim: &Trim, rows: u32) -> Result<u64, StoreError> {
        self.transaction("trimming", async |connection: &mut PgConnection, now| match *trim {
            Trim::Audit { age } => trim_audit(connection, now, now.minus(age), rows).await,
            Trim::Endpoints { unused } => trim_endpoints(connection, now.minus(unused), rows).await,
            Trim::Attempts(_)
            | Trim::Policies { .. }
            | Trim::EventTypes { .. }
            | Trim::Rescued { .. }
            | Trim::Runs(_)
            | Trim::Kept { .. }
            | Trim::Saves => page(connection, trim_steps(trim, now, &STATEMENTS), u64::from(rows)).await,
        })
        .await
    }

    async fn audit_chain(&self) -> Result<AuditChain, StoreError> {
        self.call(
            "reading the ends of the audit",
            async |connection: &mut PgConnection| {
                let row = sqlx::query(AUDIT_CHAIN).fetch_one(connection).await?;
                audit_chain(&row)
            },
        )
        .await
    }

    async fn audit_from(&self, after: i64, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        let query = sqlx::query(AUDIT_FROM).bind(after).bind(i64::from(limit));
        self.call("reading the audit", async |connection: &mut PgConnection| {
            let rows = query.fetch_all(connection).await?;
            rows.iter().map(audit_entry).collect()
        })
        .await
    }
}

async fn page(connection: &mut PgConnection, steps: Vec<TrimStep>, rows: u64) -> Result<u64, sqlx::Error> {
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

/// What is removed is in the anchor before it goes. Nobody appends meanwhile.
async fn trim_audit(
    connection: &mut PgConnection,
    now: Timestamp,
    before: Timestamp,
    rows: u32,
) -> Result<u64, sqlx::Error> {
    exclusively(connection, Exclusive::Audit).await?;
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
}

async fn trim_endpoints(connection: &mut PgConnection, before: Timestamp, rows: u32) -> Result<u64, sqlx::Error> {
    let gone: i64 = sqlx::query_scalar(ENDPOINTS)
        .bind(before.micros())
        .bind(i64::from(rows))
        .fetch_one(connection)
        .await?;
    Ok(u64::try_from(gone).unwrap_or(0))
}
