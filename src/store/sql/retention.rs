//! Trimming: a page is one transaction; rows that somebody else has locked are left for the next one.

use std::time::Duration;

use async_trait::async_trait;

use super::{Calls, Driver, Exclusive, Session, Statement, values};
use crate::domain::retention::Ages;
use crate::domain::time::Timestamp;
use crate::store::columns::{ages, audit_chain, audit_entry, integer, stored, text};
use crate::store::rules::old_lines;
use crate::store::{AttemptBounds, AuditChain, AuditEntry, RunBounds, StoreError, Trim, Trimming};

static ATTEMPTS_OLD: Statement = Statement::new(
    "DELETE FROM redrive.attempts WHERE id = ANY (ARRAY(\
    SELECT id FROM redrive.attempts WHERE started_at < $1 ORDER BY started_at, id LIMIT $2))",
);
static ATTEMPTS_MANY: Statement = Statement::new(
    "DELETE FROM redrive.attempts WHERE id = ANY (ARRAY(SELECT id FROM redrive.attempts \
    WHERE id <= (SELECT max(id) FROM redrive.attempts) - $1 ORDER BY id LIMIT $2))",
);

/// Never the newest version of what is set; one that unsets goes when it is the only one left, or an older one would
/// hold again.
static POLICIES_OLD: Statement = Statement::new(
    "DELETE FROM redrive.policies WHERE ctid = ANY (ARRAY(SELECT p.ctid FROM redrive.policies p \
    WHERE at < $1 AND (EXISTS (SELECT 1 FROM redrive.policies n \
        WHERE n.event_type = p.event_type AND n.url_key = p.url_key AND n.version > p.version) \
     OR document IS NULL AND NOT EXISTS (SELECT 1 FROM redrive.policies o \
        WHERE o.event_type = p.event_type AND o.url_key = p.url_key AND o.version < p.version)) LIMIT $2))",
);
static POLICIES_MANY: Statement = Statement::new(
    "DELETE FROM redrive.policies WHERE ctid = ANY (ARRAY(SELECT p.ctid FROM redrive.policies p \
    WHERE version <= (SELECT max(version) FROM redrive.policies n \
        WHERE n.event_type = p.event_type AND n.url_key = p.url_key) - $1 LIMIT $2))",
);
static RESCUED: Statement = Statement::new(
    "DELETE FROM redrive.rescued WHERE id = ANY (ARRAY(\
    SELECT id FROM redrive.rescued WHERE at < $1 ORDER BY at LIMIT $2))",
);

static RUNS_OLD: Statement =
    Statement::new("UPDATE redrive.runs SET removing = true WHERE ended_at < $1 AND NOT removing");
static RUNS_MANY: Statement = Statement::new(
    "UPDATE redrive.runs SET removing = true WHERE ended_at IS NOT NULL AND NOT removing \
    AND id NOT IN (SELECT id FROM redrive.runs WHERE ended_at IS NOT NULL ORDER BY id DESC LIMIT $1)",
);
static PLANS_OLD: Statement = Statement::new(
    "UPDATE redrive.runs SET removing = true \
    WHERE state = 'planned' AND created_at < $1 AND NOT removing",
);
/// A table without row ids; and SQLite would begin at the items.
static RUN_ITEMS: Statement = Statement::apart(
    "DELETE FROM redrive.run_items WHERE ctid = ANY (ARRAY(SELECT i.ctid FROM redrive.runs r \
    JOIN redrive.run_items i ON i.run = r.id WHERE r.removing AND $1::bigint = 0 LIMIT $2))",
    "DELETE FROM run_items WHERE (run, ordinal) IN (SELECT i.run, i.ordinal FROM runs r \
    CROSS JOIN run_items i ON i.run = r.id WHERE r.removing AND $1 = 0 LIMIT $2)",
);
static RUNS: Statement = Statement::new(
    "DELETE FROM redrive.runs WHERE id = ANY (ARRAY(SELECT id FROM redrive.runs r WHERE removing AND $1::bigint = 0 \
    AND NOT EXISTS (SELECT 1 FROM redrive.run_items i WHERE i.run = r.id) LIMIT $2))",
);

/// However short attempts are kept, what was refused counts for so long.
const REFUSALS_MIN: Duration = Duration::from_hours(24);
/// What was before a 2xx of its URL counts no more.
static REFUSALS: Statement = Statement::new(
    "DELETE FROM redrive.refused_queues WHERE queue = ANY (ARRAY(SELECT r.queue FROM redrive.refused_queues r \
    LEFT JOIN redrive.endpoints e ON e.url_key = r.url_key \
    WHERE r.refused_at < $1 OR r.refused_at <= e.last_success_at LIMIT $2))",
);

static KEPT: Statement = Statement::new(
    "DELETE FROM redrive.kept_messages WHERE ctid = ANY (ARRAY(\
    SELECT ctid FROM redrive.kept_messages WHERE until < $1 LIMIT $2))",
);
static EDITS: Statement = Statement::new(
    "DELETE FROM redrive.kept_messages WHERE ctid = ANY (ARRAY(SELECT k.ctid FROM redrive.kept_messages k \
    WHERE kind = 'edited' AND at < $1 \
    AND NOT EXISTS (SELECT 1 FROM redrive.dead_letters d WHERE d.id = k.letter) LIMIT $2))",
);

static SAVES_OVER: Statement = Statement::new(
    "UPDATE redrive.saves AS s SET removing = true WHERE until < $1 AND NOT removing \
    AND state <> 'taking' AND NOT EXISTS (SELECT 1 FROM redrive.incarnations i WHERE i.id = s.owner AND i.alive)",
);
/// As above.
static SAVED: Statement = Statement::apart(
    "DELETE FROM redrive.saved_messages WHERE ctid = ANY (ARRAY(SELECT m.ctid FROM redrive.saves s \
    JOIN redrive.saved_messages m ON m.save = s.id WHERE s.removing AND $1::bigint = 0 LIMIT $2))",
    "DELETE FROM saved_messages WHERE (save, place) IN (SELECT m.save, m.place FROM saves s \
    CROSS JOIN saved_messages m ON m.save = s.id WHERE s.removing AND $1 = 0 LIMIT $2)",
);
static SAVES: Statement = Statement::new(
    "DELETE FROM redrive.saves WHERE id = ANY (ARRAY(SELECT id FROM redrive.saves s WHERE removing AND $1::bigint = 0 \
    AND NOT EXISTS (SELECT 1 FROM redrive.saved_messages m WHERE m.save = s.id) LIMIT $2))",
);

static EVENT_TYPES: Statement = Statement::new(
    "DELETE FROM redrive.event_types WHERE name = ANY (ARRAY(\
    SELECT t.name FROM redrive.event_types t WHERE used_at < $1 AND document = '{}' AND NOT is_target AND dead_letter_type IS NULL \
    AND NOT EXISTS (SELECT 1 FROM redrive.events e WHERE e.type = t.name) \
    AND NOT EXISTS (SELECT 1 FROM redrive.event_history h WHERE h.type = t.name) \
    AND NOT EXISTS (SELECT 1 FROM redrive.subscriptions s WHERE s.type = t.name) \
    AND NOT EXISTS (SELECT 1 FROM redrive.policies p WHERE p.event_type = t.name AND p.document IS NOT NULL \
        AND NOT EXISTS (SELECT 1 FROM redrive.policies n WHERE n.event_type = p.event_type \
            AND n.url_key = p.url_key AND n.version > p.version)) \
    ORDER BY t.name LIMIT $2 FOR UPDATE OF t SKIP LOCKED))",
);

/// Their secrets sign what still waits, so they stay as long as something may be sent.
static SUBSCRIPTIONS_ENDED: Statement = Statement::new(
    "DELETE FROM redrive.ended_subscriptions WHERE id = ANY (ARRAY(\
    SELECT s.id FROM redrive.ended_subscriptions s WHERE ended_at < $1 \
    AND NOT EXISTS (SELECT 1 FROM redrive.delivery_queues q WHERE redrive.url_key(q.url) = redrive.url_key(s.url)) \
    AND NOT EXISTS (SELECT 1 FROM redrive.dead_letters d WHERE d.url = s.url) ORDER BY ended_at LIMIT $2))",
);

static AUDIT_OLDEST: Statement = Statement::new("SELECT id, at, hash FROM redrive.audit ORDER BY id LIMIT $1");
static AUDIT_ANCHOR: Statement = Statement::new(
    "UPDATE redrive.audit_chain SET removed = removed + $1, removed_id = $2, removed_hash = $3, \
    removed_at = $4",
);
static AUDIT_REMOVE: Statement = Statement::new("DELETE FROM redrive.audit WHERE id <= $1");
static AUDIT_CHAIN: Statement = Statement::new(
    "SELECT removed, removed_id, removed_hash, removed_at, newest_id, newest_hash \
    FROM redrive.audit_chain",
);
static AUDIT_FROM: Statement = Statement::new(
    "SELECT id, at, actor, command, target, reason, plan, result, detail, hash, broker \
    FROM redrive.audit WHERE id > $1 ORDER BY id LIMIT $2",
);

static AGES: Statement = Statement::new("SELECT aged_at, leapt_at FROM redrive.janitor");
static AGES_KEEP: Statement = Statement::new("UPDATE redrive.janitor SET aged_at = $1, leapt_at = $2");

#[async_trait]
impl<D: Driver> Trimming for D {
    async fn trim(&self, trim: &Trim, rows: u32) -> Result<u64, StoreError> {
        let trim = *trim;
        let page = self.transaction("trimming", move |mut session, now| {
            Box::pin(async move {
                let trim = if ages_at(&mut session, now).await?.count() {
                    Some(trim)
                } else {
                    trim.ageless()
                };
                Ok(match trim {
                    None => Page::Removed(0),
                    Some(Trim::Endpoints { unused }) => Page::Endpoints(now.minus(unused)),
                    Some(Trim::Audit { age }) => {
                        Page::Removed(trim_audit(&mut session, now, now.minus(age), rows).await?)
                    }
                    Some(trim) => Page::Removed(page(&mut session, steps(trim, now), u64::from(rows)).await?),
                })
            })
        });
        match page.await? {
            Page::Removed(gone) => Ok(gone),
            Page::Endpoints(before) => self.endpoints_trim(before, rows).await,
        }
    }

    async fn ages(&self) -> Result<Ages, StoreError> {
        self.one("asking whether ages count", &AGES, values![], ages).await
    }

    async fn audit_chain(&self) -> Result<AuditChain, StoreError> {
        let operation = "reading the ends of the audit";
        self.one(operation, &AUDIT_CHAIN, values![], audit_chain).await
    }

    async fn audit_from(&self, after: i64, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        self.list("reading the audit", &AUDIT_FROM, values![after, limit], audit_entry)
            .await
    }
}

/// What became of a page.
enum Page {
    /// So many rows went.
    Removed(u64),
    /// Endpoints that were used last before this go, each driver in its own way.
    Endpoints(Timestamp),
}

/// Decided by the clock that the rows are judged by.
pub(super) async fn ages_at(session: &mut Session<'_>, now: Timestamp) -> Result<Ages, sqlx::Error> {
    let known = session.one(&AGES, values![], ages).await?;
    let ages = known.at(now);
    if ages.differ_from(&known) {
        session
            .change(&AGES_KEEP, values![ages.counted_at, ages.leapt_at])
            .await?;
    }
    Ok(ages)
}

/// A statement with the value of its `$1`. What marks has no other; what removes gets the rows of the page as `$2`.
enum Step {
    Marks(&'static Statement, i64),
    Removes(&'static Statement, i64),
}

/// What is marked and removed, in this order. A run and a save go after all that belongs to them.
fn steps(trim: Trim, now: Timestamp) -> Vec<Step> {
    use Step::{Marks, Removes};

    let before = |age| now.minus(age).micros();
    match trim {
        Trim::Attempts(AttemptBounds { age, rows }) => vec![
            Removes(&ATTEMPTS_OLD, before(age)),
            Removes(&ATTEMPTS_MANY, stored(rows)),
            Removes(&REFUSALS, before(age.max(REFUSALS_MIN))),
        ],
        Trim::Policies { age, versions } => vec![
            Removes(&POLICIES_OLD, before(age)),
            Removes(&POLICIES_MANY, stored(versions)),
        ],
        Trim::Rescued { age } => vec![Removes(&RESCUED, before(age))],
        Trim::EventTypes { unused } => vec![
            Removes(&EVENT_TYPES, before(unused)),
            Removes(&SUBSCRIPTIONS_ENDED, before(unused)),
        ],
        Trim::Runs(RunBounds { age, runs, planned }) => vec![
            Marks(&RUNS_OLD, before(age)),
            Marks(&RUNS_MANY, stored(runs)),
            Marks(&PLANS_OLD, before(planned)),
            Removes(&RUN_ITEMS, 0),
            Removes(&RUNS, 0),
        ],
        Trim::Kept { edits } => vec![Removes(&KEPT, now.micros()), Removes(&EDITS, before(edits))],
        Trim::Saves => vec![Marks(&SAVES_OVER, now.micros()), Removes(&SAVED, 0), Removes(&SAVES, 0)],
        // These are more than statements.
        Trim::Audit { .. } | Trim::Endpoints { .. } => Vec::new(),
    }
}

async fn page(session: &mut Session<'_>, steps: Vec<Step>, rows: u64) -> Result<u64, sqlx::Error> {
    let mut gone = 0;
    for step in steps {
        match step {
            Step::Marks(statement, bound) => {
                session.change(statement, values![bound]).await?;
            }
            Step::Removes(statement, bound) if gone < rows => {
                gone += session.change(statement, values![bound, rows - gone]).await?;
            }
            Step::Removes(..) => {}
        }
    }
    Ok(gone)
}

/// What is removed is in the anchor before it goes. Nobody appends meanwhile.
async fn trim_audit(
    session: &mut Session<'_>,
    now: Timestamp,
    before: Timestamp,
    rows: u32,
) -> Result<u64, sqlx::Error> {
    session.exclusively(Exclusive::Audit).await?;
    let lines = session.rows(&AUDIT_OLDEST, values![rows]).await?;
    let Some((count, last)) = old_lines(&lines, before)? else {
        return Ok(0);
    };
    let id = integer(last, "id")?;
    let anchor = values![count, id, text(last, "hash")?, now];
    session.change(&AUDIT_ANCHOR, anchor).await?;
    session.change(&AUDIT_REMOVE, values![id]).await
}
