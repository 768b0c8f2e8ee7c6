//! Runs. What comes in hundreds goes in as one statement.

use async_trait::async_trait;

use super::kept_messages::{forget, keep};
use super::{Calls, Driver, Row, Session, Statement, columns, values};
use crate::domain::id::{Epoch, IncarnationId, QueueName};
use crate::domain::run::{RunCounts, RunState, Target};
use crate::domain::time::Timestamp;
use crate::store::columns::{item_columns, item_record, named, number, run_columns, run_record, stored, text};
use crate::store::{
    Advance, Frozen, Guarded, ItemMark, ItemQuery, ItemRecord, KeptKind, NewItem, NewRun, RunQuery, RunRecord, RunStop,
    RunTaken, Runs, SourceTaken, StoreError,
};

static CREATE: Statement = Statement::new(
    "INSERT INTO redrive.runs (id, command, state, rate, canary, created_at, updated_at) \
     SELECT $1, $2, 'planned', $3, $4, now, now FROM (SELECT redrive.store_now() AS now) AS clock",
);
static DRAFT: Statement = Statement::new(
    "SELECT 1 FROM redrive.runs WHERE id = $1 AND state = 'planned' AND hash = '' AND NOT removing FOR UPDATE",
);
static ITEMS_ADD: Statement = Statement::new(
    "INSERT INTO redrive.run_items (run, ordinal, letter, source, target, bytes, state, reason) \
     SELECT $1, ordinal, letter, source, target, bytes, state, reason FROM unnest($2::bigint[], $3::text[], \
     $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[]) \
     AS i (ordinal, letter, source, target, bytes, state, reason)",
);
static FREEZE: Statement = Statement::new(
    "UPDATE redrive.runs SET total = $2, done = $3, failed = $4, skipped = $5, plan = $6, hash = $7, \
     updated_at = redrive.store_now() WHERE id = $1 AND state = 'planned' AND hash = '' AND NOT removing",
);
static START: Statement = Statement::new(
    "UPDATE redrive.runs SET state = 'running', actor = $3, reason = $4, started_at = redrive.store_now(), \
     updated_at = redrive.store_now(), broker = (SELECT broker FROM redrive.settings) \
     WHERE id = $1 AND state = 'planned' AND hash = $2 AND hash <> '' AND NOT removing",
);
static GET: Statement = Statement::new(concat!(
    "SELECT ",
    run_columns!(),
    " FROM redrive.runs WHERE id = $1 AND NOT removing"
));
static LIST: Statement = Statement::new(concat!(
    "SELECT ",
    run_columns!(),
    " FROM redrive.runs WHERE ($1::text IS NULL OR id < $1) AND ($2 OR state <> 'planned') AND NOT removing \
     ORDER BY id DESC LIMIT $3"
));
/// The condition is the one of its index.
static LIST_OPEN: Statement = Statement::new(concat!(
    "SELECT ",
    run_columns!("CAST('' AS text) AS plan"),
    " FROM redrive.runs WHERE state IN ('running', 'canary', 'paused') AND ($1::text IS NULL OR id < $1) \
     ORDER BY id DESC LIMIT $2"
));
static OPEN: Statement = Statement::new(concat!(
    "SELECT ",
    run_columns!(),
    " FROM redrive.runs AS r WHERE state = 'running' AND NOT EXISTS \
     (SELECT 1 FROM redrive.incarnations AS i WHERE i.id = r.owner AND i.alive) ORDER BY id LIMIT $1"
));
static LOCKED: Statement = Statement::new(concat!(
    "SELECT ",
    run_columns!(),
    " FROM redrive.runs WHERE id = $1 FOR UPDATE"
));
static ALIVE: Statement = Statement::new("SELECT 1 FROM redrive.incarnations WHERE id = $1 AND alive");
static TAKE: Statement = Statement::new(concat!(
    "UPDATE redrive.runs SET owner = $2, epoch = GREATEST(epoch + 1, $3 / 1000), updated_at = $3 WHERE id = $1 \
     RETURNING ",
    run_columns!()
));
static FREE: Statement =
    Statement::new("UPDATE redrive.runs SET owner = NULL WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL");
static CHANGE: Statement = Statement::new(
    "UPDATE redrive.runs SET state = $3, note = $4, \
     canary = CASE WHEN state <> 'canary' OR $3 <> 'running' THEN canary END, \
     ended_at = CASE WHEN $3 IN ('done', 'failed', 'cancelled') THEN redrive.store_now() END, \
     updated_at = redrive.store_now() WHERE id = $1 AND state = ANY($2) AND NOT removing",
);
static STAGE: Statement = Statement::new(
    "UPDATE redrive.runs SET canary = $3, note = NULL, updated_at = redrive.store_now() \
     WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL AND state = 'running'",
);
static ADVANCE: Statement = Statement::new(
    "UPDATE redrive.runs SET done = $3, failed = $4, skipped = $5, note = $6, updated_at = $7 \
     WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL RETURNING state",
);
/// A range of items of which the same is said: what is marked together is mostly alike and side by side.
static MARK: Statement = Statement::new(
    "UPDATE redrive.run_items AS i SET state = m.state, reason = m.reason, dropped = COALESCE(m.dropped, i.dropped) \
     FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[]) \
     AS m (first, last, state, reason, dropped) WHERE i.run = $1 AND i.ordinal BETWEEN m.first AND m.last",
);
/// Two runs that put messages of the same runs back lock those in one order.
static DISCARDERS_LOCKED: Statement = Statement::new(
    "SELECT id FROM redrive.runs WHERE id IN (SELECT run FROM redrive.kept_messages \
     WHERE kind = 'discarded' AND letter = ANY($2) AND run <> $1) ORDER BY id FOR UPDATE",
);
static RESTORED: Statement = Statement::new(
    "UPDATE redrive.runs AS r SET restored = r.restored + (SELECT count(*) FROM redrive.kept_messages AS k \
        WHERE k.kind = 'discarded' AND k.letter = ANY($2) AND k.run = r.id) \
     WHERE r.id IN (SELECT k.run FROM redrive.kept_messages AS k \
        WHERE k.kind = 'discarded' AND k.letter = ANY($2) AND k.run <> $1)",
);
static STOP: Statement = Statement::new(
    "UPDATE redrive.runs SET state = $3, done = $4, failed = $5, skipped = $6, note = $7, owner = NULL, \
     ended_at = CASE WHEN $3 IN ('done', 'failed', 'cancelled') THEN redrive.store_now() END, \
     updated_at = redrive.store_now() WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL AND state = 'running'",
);
static COUNTS: Statement = Statement::new(
    "SELECT count(*) FILTER (WHERE state = 'settled') AS done, \
     count(*) FILTER (WHERE state IN ('failed', 'returned')) AS failed, \
     count(*) FILTER (WHERE state = 'skipped') AS skipped FROM redrive.run_items WHERE run = $1",
);
static IN_HAND: Statement = Statement::new(
    "SELECT count(*) AS items FROM redrive.run_items WHERE run = $1 AND state IN ('journalled', 'published')",
);
static ITEMS: Statement = Statement::new(concat!(
    "SELECT ",
    item_columns!(),
    " FROM redrive.run_items WHERE run = $1 AND ordinal > $2 AND ($3::text IS NULL OR source = $3) \
     AND (NOT $4 OR state IN ('planned', 'journalled', 'published')) ORDER BY ordinal LIMIT $5"
));
static HOLDS: Statement =
    Statement::new("SELECT 1 FROM redrive.runs WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL FOR UPDATE");
static SOURCE_TAKE: Statement = Statement::new(
    "INSERT INTO redrive.run_sources AS s (queue, run) VALUES ($1, $2) \
     ON CONFLICT (queue) DO UPDATE SET run = excluded.run WHERE s.run = excluded.run OR NOT EXISTS \
     (SELECT 1 FROM redrive.runs AS r JOIN redrive.incarnations AS i ON i.id = r.owner \
        WHERE r.id = s.run AND i.alive)",
);
static SOURCE_OF: Statement = Statement::new("SELECT run FROM redrive.run_sources WHERE queue = $1");
static SOURCE_FREE: Statement = Statement::new("DELETE FROM redrive.run_sources WHERE queue = $1 AND run = $2");

#[async_trait]
impl<D: Driver> Runs for D {
    async fn run_create(&self, new: &NewRun) -> Result<(), StoreError> {
        let values = values![&new.id, &new.command, new.rate, new.canary];
        self.change("planning a run", &CREATE, values).await.map(drop)
    }

    async fn run_items_add(&self, run: &str, items: &[NewItem]) -> Result<(), StoreError> {
        let run = run.to_owned();
        let items = columns![items => |item|
            item.ordinal,
            &item.letter,
            &item.source,
            item.target.as_ref().map(Target::encode),
            item.bytes,
            item.state.as_str(),
            &item.reason,
        ];
        self.transaction("planning a run's items", move |mut session, _| {
            Box::pin(async move {
                if !session.has(&DRAFT, values![&run]).await? {
                    return Err(sqlx::Error::RowNotFound);
                }
                session.change(&ITEMS_ADD, values![run, items]).await.map(drop)
            })
        })
        .await
    }

    async fn run_freeze(&self, run: &str, frozen: &Frozen) -> Result<bool, StoreError> {
        let RunCounts { done, failed, skipped } = frozen.counts;
        let values = values![run, frozen.total, done, failed, skipped, &frozen.plan, &frozen.hash];
        Ok(self.change("freezing a plan", &FREEZE, values).await? == 1)
    }

    async fn run_start(&self, run: &str, hash: &str, actor: &str, reason: Option<&str>) -> Result<bool, StoreError> {
        let values = values![run, hash, actor, reason];
        Ok(self.change("starting a run", &START, values).await? == 1)
    }

    async fn run_get(&self, run: &str) -> Result<Option<RunRecord>, StoreError> {
        self.find("reading a run", &GET, values![run], run_record).await
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>, StoreError> {
        let (statement, values) = if query.open {
            (&LIST_OPEN, values![&query.before, query.limit])
        } else {
            (&LIST, values![&query.before, query.planned, query.limit])
        };
        self.list("listing runs", statement, values, run_record).await
    }

    async fn runs_open(&self, limit: u32) -> Result<Vec<RunRecord>, StoreError> {
        self.list("looking for runs", &OPEN, values![limit], run_record).await
    }

    async fn run_take(&self, run: &str, incarnation: IncarnationId) -> Result<RunTaken, StoreError> {
        let run = run.to_owned();
        self.transaction("taking a run", move |mut session, now| {
            Box::pin(async move { take(&mut session, &run, incarnation, now).await })
        })
        .await
    }

    async fn run_free(&self, run: &str, epoch: Epoch) -> Result<bool, StoreError> {
        Ok(self.change("freeing a run", &FREE, values![run, epoch]).await? == 1)
    }

    async fn run_change(
        &self,
        run: &str,
        from: &[RunState],
        to: RunState,
        note: Option<&str>,
    ) -> Result<bool, StoreError> {
        let from: Vec<&str> = from.iter().map(|state| state.as_str()).collect();
        let values = values![run, from, to.as_str(), note];
        Ok(self.change("changing a run", &CHANGE, values).await? == 1)
    }

    async fn run_stage(&self, run: &str, epoch: Epoch, canary: u64) -> Result<bool, StoreError> {
        let values = values![run, epoch, canary];
        Ok(self.change("watching a run's next part", &STAGE, values).await? == 1)
    }

    async fn run_advance(&self, run: &str, epoch: Epoch, advance: &Advance) -> Result<Guarded, StoreError> {
        let (run, advance) = (run.to_owned(), advance.clone());
        self.transaction("recording a run's progress", move |mut session, now| {
            Box::pin(async move { step(&mut session, (&run, epoch), &advance, now).await })
        })
        .await
    }

    async fn run_stop(&self, run: &str, epoch: Epoch, stop: &RunStop) -> Result<bool, StoreError> {
        let RunCounts { done, failed, skipped } = stop.counts;
        let values = values![run, epoch, stop.state.as_str(), done, failed, skipped, &stop.note];
        Ok(self.change("stopping a run", &STOP, values).await? == 1)
    }

    async fn run_counts(&self, run: &str) -> Result<RunCounts, StoreError> {
        let counts = |row: &Row| {
            Ok(RunCounts {
                done: number(row, "done")?,
                failed: number(row, "failed")?,
                skipped: number(row, "skipped")?,
            })
        };
        self.one("counting a run's items", &COUNTS, values![run], counts).await
    }

    async fn run_in_hand(&self, run: &str) -> Result<u64, StoreError> {
        let counting = self.one("counting a run's items", &IN_HAND, values![run], |row| {
            number(row, "items")
        });
        counting.await
    }

    async fn run_items(&self, query: &ItemQuery) -> Result<Vec<ItemRecord>, StoreError> {
        let after = query.after.map_or(-1, stored);
        let values = values![&query.run, after, &query.source, query.open, query.limit];
        self.list("reading a run's items", &ITEMS, values, item_record).await
    }

    async fn source_take(&self, queue: &QueueName, run: &str, epoch: Epoch) -> Result<SourceTaken, StoreError> {
        let (queue, run) = (queue.clone(), run.to_owned());
        self.transaction("taking a run's source", move |mut session, _| {
            Box::pin(async move {
                if !session.has(&HOLDS, values![&run, epoch]).await? {
                    return Ok(SourceTaken::Lost);
                }
                if session.change(&SOURCE_TAKE, values![&queue, run]).await? == 1 {
                    return Ok(SourceTaken::Taken);
                }
                let other = session.one(&SOURCE_OF, values![queue], |row| text(row, "run"));
                other.await.map(SourceTaken::Other)
            })
        })
        .await
    }

    async fn source_free(&self, queue: &QueueName, run: &str) -> Result<(), StoreError> {
        let freed = self.change("freeing a run's source", &SOURCE_FREE, values![queue, run]);
        freed.await.map(drop)
    }
}

async fn take(
    session: &mut Session<'_>,
    run: &str,
    incarnation: IncarnationId,
    now: Timestamp,
) -> Result<RunTaken, sqlx::Error> {
    let Some(record) = session.find(&LOCKED, values![run], run_record).await? else {
        return Ok(RunTaken::Refused);
    };
    if !session.has(&ALIVE, values![incarnation]).await? {
        return Ok(RunTaken::Refused);
    }
    if record.state != RunState::Running {
        return Ok(RunTaken::NotRunning(record.state));
    }
    if let Some(owner) = record.owner
        && owner != incarnation
        && session.has(&ALIVE, values![owner]).await?
    {
        return Ok(RunTaken::Held(owner));
    }
    let taken = session.one(&TAKE, values![record.id, incarnation, now], run_record);
    Ok(RunTaken::Taken(Box::new(taken.await?)))
}

pub(in crate::store) async fn step(
    session: &mut Session<'_>,
    (run, epoch): (&str, Epoch),
    advance: &Advance,
    now: Timestamp,
) -> Result<Guarded, sqlx::Error> {
    let RunCounts { done, failed, skipped } = advance.counts;
    let guard = values![run, epoch, done, failed, skipped, &advance.note, now];
    let state = session.find(&ADVANCE, guard, |row| named(row, "state", RunState::parse));
    let Some(state) = state.await? else {
        return Ok(Guarded::Lost);
    };
    if !advance.marks.is_empty() {
        let ranges = ranges(&advance.marks);
        let marks = columns![ranges => |range|
            range.first,
            range.last,
            range.says.state.as_str(),
            &range.says.reason,
            &range.says.dropped,
        ];
        session.change(&MARK, values![run, marks]).await?;
    }
    keep(session, &advance.keep, now).await?;
    restored(session, run, &advance.forget).await?;
    forget(session, &advance.forget).await?;
    Ok(Guarded::Held(state))
}

/// Counts discarded messages that are put back with the runs that discarded them. What the run itself forgets was not
/// taken out after all.
async fn restored(session: &mut Session<'_>, run: &str, forget: &[(String, KeptKind)]) -> Result<(), sqlx::Error> {
    let discarded = forget.iter().filter(|(_, kind)| *kind == KeptKind::Discarded);
    let letters: Vec<&str> = discarded.map(|(letter, _)| letter.as_str()).collect();
    if letters.is_empty() {
        return Ok(());
    }
    let locked = session.list(&DISCARDERS_LOCKED, values![run, letters.clone()], |row| text(row, "id"));
    let _ = locked.await?;
    session.change(&RESTORED, values![run, letters]).await.map(drop)
}

/// Items with neighbouring ordinals of which the same is said.
struct Range<'a> {
    first: u64,
    last: u64,
    says: &'a ItemMark,
}
fn ranges(marks: &[ItemMark]) -> Vec<Range<'_>> {
    let mut sorted: Vec<&ItemMark> = marks.iter().collect();
    sorted.sort_by_key(|mark| mark.ordinal);
    let mut ranges: Vec<Range<'_>> = Vec::new();
    for mark in sorted {
        match ranges.last_mut() {
            Some(range) if range.last + 1 == mark.ordinal && is_alike(range.says, mark) => range.last = mark.ordinal,
            _ => ranges.push(Range {
                first: mark.ordinal,
                last: mark.ordinal,
                says: mark,
            }),
        }
    }
    ranges
}

fn is_alike(one: &ItemMark, other: &ItemMark) -> bool {
    (one.state, &one.reason, &one.dropped) == (other.state, &other.reason, &other.dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::run::ItemState;

    fn mark(ordinal: u64, state: ItemState, reason: Option<&str>) -> ItemMark {
        ItemMark {
            ordinal,
            state,
            reason: reason.map(str::to_owned),
            dropped: None,
        }
    }

    #[test]
    fn neighbours_of_which_the_same_is_said_are_one_range() {
        let (settled, failed) = (ItemState::Settled, ItemState::Failed);
        let marks = [
            mark(9, settled, None),
            mark(2, settled, None),
            mark(3, settled, None),
            mark(1, settled, None),
            mark(4, failed, Some("returned")),
            mark(5, failed, Some("refused")),
            mark(7, settled, None),
            mark(8, settled, None),
        ];
        let found: Vec<(u64, u64)> = ranges(&marks).iter().map(|range| (range.first, range.last)).collect();
        assert_eq!(found, [(1, 3), (4, 4), (5, 5), (7, 9)]);
        assert!(ranges(&[]).is_empty());
    }
}
