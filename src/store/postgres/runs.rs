//! Runs and kept messages on PostgreSQL. What comes in hundreds goes in as arrays and one statement.

use async_trait::async_trait;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;

use super::{PostgresStore, storable, storable_optional};
use crate::domain::id::{Epoch, IncarnationId, QueueName};
use crate::domain::run::{RunCounts, RunState};
use crate::domain::time::Timestamp;
use crate::store::columns::{
    item_columns, item_record, kept_columns, kept_message, number, run_columns, run_record, stored, text,
};
use crate::store::{
    Advance, Frozen, Guarded, ItemMark, ItemQuery, ItemRecord, KeptKind, KeptMessage, KeptQuery, NewItem, NewRun,
    RunQuery, RunRecord, RunStop, RunTaken, Runs, SourceTaken, StoreError,
};

const CREATE: &str = "INSERT INTO redrive.runs (id, command, state, rate, canary, created_at, updated_at) \
    SELECT $1, $2, 'planned', $3, $4, now, now FROM redrive.store_now() AS now";
const DRAFT_LOCK: &str = "SELECT 1 FROM redrive.runs WHERE id = $1 AND state = 'planned' AND hash = '' \
    AND NOT removing FOR UPDATE";
const ITEMS_ADD: &str = "INSERT INTO redrive.run_items (run, ordinal, letter, source, target, bytes, state, reason) \
    SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[])";
const FREEZE: &str = "UPDATE redrive.runs SET total = $2, done = $3, failed = $4, skipped = $5, plan = $6, hash = $7, \
    updated_at = redrive.store_now() WHERE id = $1 AND state = 'planned' AND hash = '' AND NOT removing";
const START: &str = "UPDATE redrive.runs SET state = 'running', actor = $3, reason = $4, \
    started_at = redrive.store_now(), updated_at = redrive.store_now(), \
    broker = (SELECT broker FROM redrive.settings) WHERE id = $1 AND state = 'planned' AND hash = $2 AND hash <> '' AND NOT removing";
const GET: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM redrive.runs WHERE id = $1 AND NOT removing"
);
const LIST: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM redrive.runs WHERE ($1::text IS NULL OR id < $1) AND ($2 OR state <> 'planned') AND NOT removing \
     ORDER BY id DESC LIMIT $3"
);
/// The condition is the one of its index.
const LIST_OPEN: &str = concat!(
    "SELECT ",
    run_columns!("CAST('' AS text) AS plan"),
    " FROM redrive.runs WHERE state IN ('running', 'canary', 'paused') AND ($1::text IS NULL OR id < $1) \
     ORDER BY id DESC LIMIT $2"
);
const OPEN: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM redrive.runs r WHERE state = 'running' AND NOT EXISTS \
     (SELECT 1 FROM redrive.incarnations i WHERE i.id = r.owner AND i.alive) ORDER BY id LIMIT $1"
);
const RUN_LOCK: &str = concat!("SELECT ", run_columns!(), " FROM redrive.runs WHERE id = $1 FOR UPDATE");
const ALIVE: &str = "SELECT EXISTS (SELECT 1 FROM redrive.incarnations WHERE id = $1 AND alive)";
const TAKE: &str = concat!(
    "UPDATE redrive.runs SET owner = $2, epoch = GREATEST(epoch + 1, $3 / 1000), updated_at = $3 WHERE id = $1 \
     RETURNING ",
    run_columns!()
);
const FREE: &str = "UPDATE redrive.runs SET owner = NULL WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL";
const CHANGE: &str = "UPDATE redrive.runs SET state = $3, note = $4, \
    canary = CASE WHEN state <> 'canary' OR $3 <> 'running' THEN canary END, \
    ended_at = CASE WHEN $3 IN ('done', 'failed', 'cancelled') THEN redrive.store_now() END, \
    updated_at = redrive.store_now() WHERE id = $1 AND state = ANY($2) AND NOT removing";
const STAGE: &str = "UPDATE redrive.runs SET canary = $3, note = NULL, updated_at = redrive.store_now() \
    WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL AND state = 'running'";
const ADVANCE: &str = "UPDATE redrive.runs SET done = $3, failed = $4, skipped = $5, note = $6, updated_at = $7 \
    WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL RETURNING state";
const MARK: &str = "UPDATE redrive.run_items i SET state = m.state, reason = m.reason, \
    dropped = COALESCE(m.dropped, i.dropped) \
    FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) AS m (ordinal, state, reason, dropped) \
    WHERE i.run = $1 AND i.ordinal = m.ordinal";
const STOP: &str = "UPDATE redrive.runs SET state = $3, done = $4, failed = $5, skipped = $6, note = $7, owner = NULL, \
    ended_at = CASE WHEN $3 IN ('done', 'failed', 'cancelled') THEN redrive.store_now() END, \
    updated_at = redrive.store_now() \
    WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL AND state = 'running'";
const COUNTS: &str = "SELECT count(*) FILTER (WHERE state = 'settled') AS done, \
    count(*) FILTER (WHERE state IN ('failed', 'returned')) AS failed, \
    count(*) FILTER (WHERE state = 'skipped') AS skipped FROM redrive.run_items WHERE run = $1";
const ITEMS: &str = concat!(
    "SELECT ",
    item_columns!(),
    " FROM redrive.run_items WHERE run = $1 AND ordinal > $2 AND ($3::text IS NULL OR source = $3) \
     AND (NOT $4 OR state IN ('planned', 'journalled', 'published')) ORDER BY ordinal LIMIT $5"
);
const HOLDS_LOCK: &str = "SELECT 1 FROM redrive.runs WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL FOR UPDATE";
const SOURCE_TAKE: &str = "INSERT INTO redrive.run_sources AS s (queue, run) VALUES ($1, $2) \
    ON CONFLICT (queue) DO UPDATE SET run = excluded.run WHERE s.run = excluded.run OR NOT EXISTS \
    (SELECT 1 FROM redrive.runs r JOIN redrive.incarnations i ON i.id = r.owner WHERE r.id = s.run AND i.alive)";
const SOURCE_OF: &str = "SELECT run FROM redrive.run_sources WHERE queue = $1";
const SOURCE_FREE: &str = "DELETE FROM redrive.run_sources WHERE queue = $1 AND run = $2";
const KEEP: &str = concat!(
    "INSERT INTO redrive.kept_messages (",
    kept_columns!(),
    ") SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::bigint[], \
     $8::bigint[]) ON CONFLICT (kind, letter) DO UPDATE SET queue = excluded.queue, \
     message = excluded.message, run = excluded.run, actor = excluded.actor, at = excluded.at, until = excluded.until"
);
const KEPT: &str = concat!(
    "SELECT ",
    kept_columns!(),
    " FROM redrive.kept_messages WHERE kind = $1 AND letter > $2 AND ($3::text IS NULL OR run = $3) \
     AND ($4 OR letter = ANY($5)) ORDER BY letter LIMIT $6"
);
const KEPT_GET: &str = concat!(
    "SELECT ",
    kept_columns!(),
    " FROM redrive.kept_messages WHERE kind = $1 AND letter = $2"
);
const KEPT_DROP: &str = "DELETE FROM redrive.kept_messages WHERE kind = $1 AND letter = $2";
const FORGET: &str = "DELETE FROM redrive.kept_messages k USING unnest($1::text[], $2::text[]) AS f (kind, letter) \
    WHERE k.kind = f.kind AND k.letter = f.letter";

#[async_trait]
impl Runs for PostgresStore {
    async fn run_create(&self, new: &NewRun) -> Result<(), StoreError> {
        let query = sqlx::query(CREATE)
            .bind(&new.id)
            .bind(&new.command)
            .bind(new.rate.map(i64::from))
            .bind(new.canary.map(stored));
        self.call("planning a run", async |connection: &mut PgConnection| {
            query.execute(connection).await.map(drop)
        })
        .await
    }

    async fn run_items_add(&self, run: &str, items: &[NewItem]) -> Result<(), StoreError> {
        self.transaction("planning a run's items", async |connection: &mut PgConnection, _| {
            let draft = sqlx::query(DRAFT_LOCK)
                .bind(run)
                .fetch_optional(&mut *connection)
                .await?;
            if draft.is_none() {
                return Err(sqlx::Error::RowNotFound);
            }
            add(connection, run, items).await
        })
        .await
    }

    async fn run_freeze(&self, run: &str, frozen: &Frozen) -> Result<bool, StoreError> {
        let query = sqlx::query(FREEZE)
            .bind(run)
            .bind(stored(frozen.total))
            .bind(stored(frozen.counts.done))
            .bind(stored(frozen.counts.failed))
            .bind(stored(frozen.counts.skipped))
            .bind(storable(&frozen.plan))
            .bind(&frozen.hash);
        self.call("freezing a plan", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }

    async fn run_start(&self, run: &str, hash: &str, actor: &str, reason: Option<&str>) -> Result<bool, StoreError> {
        let query = sqlx::query(START)
            .bind(storable(run))
            .bind(storable(hash))
            .bind(storable(actor))
            .bind(reason.map(storable));
        self.call("starting a run", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }

    async fn run_get(&self, run: &str) -> Result<Option<RunRecord>, StoreError> {
        let query = sqlx::query(GET).bind(storable(run));
        self.call("reading a run", async |connection: &mut PgConnection| {
            let row = query.fetch_optional(connection).await?;
            row.as_ref().map(run_record).transpose()
        })
        .await
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>, StoreError> {
        let before = query.before.as_deref().map(storable);
        let statement = if query.open {
            sqlx::query(LIST_OPEN).bind(before)
        } else {
            sqlx::query(LIST).bind(before).bind(query.planned)
        };
        let statement = statement.bind(i64::from(query.limit));
        self.call("listing runs", async |connection: &mut PgConnection| {
            read(&statement.fetch_all(connection).await?, run_record)
        })
        .await
    }

    async fn runs_open(&self, limit: u32) -> Result<Vec<RunRecord>, StoreError> {
        let statement = sqlx::query(OPEN).bind(i64::from(limit));
        self.call("looking for runs", async |connection: &mut PgConnection| {
            read(&statement.fetch_all(connection).await?, run_record)
        })
        .await
    }

    async fn run_take(&self, run: &str, incarnation: IncarnationId) -> Result<RunTaken, StoreError> {
        self.transaction("taking a run", async |connection: &mut PgConnection, now| {
            take(connection, run, incarnation, now).await
        })
        .await
    }

    async fn run_free(&self, run: &str, epoch: Epoch) -> Result<bool, StoreError> {
        let query = sqlx::query(FREE).bind(run).bind(epoch.0);
        self.call("freeing a run", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }

    async fn run_change(
        &self,
        run: &str,
        from: &[RunState],
        to: RunState,
        note: Option<&str>,
    ) -> Result<bool, StoreError> {
        let from: Vec<&str> = from.iter().map(|state| state.as_str()).collect();
        let query = sqlx::query(CHANGE)
            .bind(storable(run))
            .bind(from)
            .bind(to.as_str())
            .bind(note.map(storable));
        self.call("changing a run", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }

    async fn run_stage(&self, run: &str, epoch: Epoch, canary: u64) -> Result<bool, StoreError> {
        let query = sqlx::query(STAGE).bind(run).bind(epoch.0).bind(stored(canary));
        self.call("watching a run's next part", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }

    async fn run_advance(&self, run: &str, epoch: Epoch, advance: &Advance) -> Result<Guarded, StoreError> {
        self.transaction(
            "recording a run's progress",
            async |connection: &mut PgConnection, now| step(connection, (run, epoch), advance, now).await,
        )
        .await
    }

    async fn run_stop(&self, run: &str, epoch: Epoch, stop: &RunStop) -> Result<bool, StoreError> {
        let query = sqlx::query(STOP)
            .bind(run)
            .bind(epoch.0)
            .bind(stop.state.as_str())
            .bind(stored(stop.counts.done))
            .bind(stored(stop.counts.failed))
            .bind(stored(stop.counts.skipped))
            .bind(storable_optional(stop.note.as_ref()));
        self.call("stopping a run", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }

    async fn run_counts(&self, run: &str) -> Result<RunCounts, StoreError> {
        let query = sqlx::query(COUNTS).bind(run);
        self.call("counting a run's items", async |connection: &mut PgConnection| {
            let row = query.fetch_one(connection).await?;
            Ok(RunCounts {
                done: number(&row, "done")?,
                failed: number(&row, "failed")?,
                skipped: number(&row, "skipped")?,
            })
        })
        .await
    }

    async fn run_items(&self, query: &ItemQuery) -> Result<Vec<ItemRecord>, StoreError> {
        let statement = sqlx::query(ITEMS)
            .bind(storable(&query.run))
            .bind(query.after.map_or(-1, stored))
            .bind(query.source.as_ref().map(|source| storable(source.as_str())))
            .bind(query.open)
            .bind(i64::from(query.limit));
        self.call("reading a run's items", async |connection: &mut PgConnection| {
            read(&statement.fetch_all(connection).await?, item_record)
        })
        .await
    }

    async fn source_take(&self, queue: &QueueName, run: &str, epoch: Epoch) -> Result<SourceTaken, StoreError> {
        self.transaction("taking a run's source", async |connection: &mut PgConnection, _| {
            take_source(connection, queue, run, epoch).await
        })
        .await
    }

    async fn source_free(&self, queue: &QueueName, run: &str) -> Result<(), StoreError> {
        let query = sqlx::query(SOURCE_FREE).bind(storable(queue.as_str())).bind(run);
        self.call("freeing a run's source", async |connection: &mut PgConnection| {
            query.execute(connection).await.map(drop)
        })
        .await
    }

    async fn kept_put(&self, kept: &KeptMessage) -> Result<(), StoreError> {
        self.transaction("keeping a message", async |connection: &mut PgConnection, now| {
            keep(connection, std::slice::from_ref(kept), now).await
        })
        .await
    }

    async fn kept_get(&self, letter: &str, kind: KeptKind) -> Result<Option<KeptMessage>, StoreError> {
        let query = sqlx::query(KEPT_GET).bind(kind.as_str()).bind(storable(letter));
        self.call("reading a kept message", async |connection: &mut PgConnection| {
            let row = query.fetch_optional(connection).await?;
            row.as_ref().map(kept_message).transpose()
        })
        .await
    }

    async fn kept_list(&self, query: &KeptQuery) -> Result<Vec<KeptMessage>, StoreError> {
        let letters: Vec<String> = query.letters.iter().map(|letter| storable(letter)).collect();
        let statement = sqlx::query(KEPT)
            .bind(query.kind.as_str())
            .bind(query.after.as_deref().map(storable).unwrap_or_default())
            .bind(query.run.as_deref().map(storable))
            .bind(letters.is_empty())
            .bind(letters)
            .bind(i64::from(query.limit));
        self.call("listing kept messages", async |connection: &mut PgConnection| {
            read(&statement.fetch_all(connection).await?, kept_message)
        })
        .await
    }

    async fn kept_drop(&self, letter: &str, kind: KeptKind) -> Result<bool, StoreError> {
        let query = sqlx::query(KEPT_DROP).bind(kind.as_str()).bind(storable(letter));
        self.call("forgetting a kept message", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }
}

fn read<T>(rows: &[PgRow], parse: impl Fn(&PgRow) -> Result<T, sqlx::Error>) -> Result<Vec<T>, sqlx::Error> {
    rows.iter().map(parse).collect()
}

async fn add(connection: &mut PgConnection, run: &str, items: &[NewItem]) -> Result<(), sqlx::Error> {
    let column = |value: fn(&NewItem) -> Option<String>| items.iter().map(value).collect::<Vec<_>>();
    let query = sqlx::query(ITEMS_ADD)
        .bind(run)
        .bind(items.iter().map(|item| stored(item.ordinal)).collect::<Vec<_>>())
        .bind(column(|item| Some(storable(&item.letter))))
        .bind(column(|item| Some(storable(item.source.as_str()))))
        .bind(column(|item| {
            item.target.as_ref().map(|target| storable(&target.encode()))
        }))
        .bind(items.iter().map(|item| stored(item.bytes)).collect::<Vec<_>>())
        .bind(column(|item| Some(item.state.as_str().to_owned())))
        .bind(column(|item| storable_optional(item.reason.as_ref())));
    query.execute(connection).await.map(drop)
}

async fn take(
    connection: &mut PgConnection,
    run: &str,
    incarnation: IncarnationId,
    now: Timestamp,
) -> Result<RunTaken, sqlx::Error> {
    let found = sqlx::query(RUN_LOCK)
        .bind(storable(run))
        .fetch_optional(&mut *connection)
        .await?;
    let is_alive = |id: IncarnationId| sqlx::query_scalar::<_, bool>(ALIVE).bind(id.0);
    let Some(row) = found else {
        return Ok(RunTaken::Refused);
    };
    if !is_alive(incarnation).fetch_one(&mut *connection).await? {
        return Ok(RunTaken::Refused);
    }
    let record = run_record(&row)?;
    if record.state != RunState::Running {
        return Ok(RunTaken::NotRunning(record.state));
    }
    if let Some(owner) = record.owner
        && owner != incarnation
        && is_alive(owner).fetch_one(&mut *connection).await?
    {
        return Ok(RunTaken::Held(owner));
    }
    let taken = sqlx::query(TAKE)
        .bind(&record.id)
        .bind(incarnation.0)
        .bind(now.micros());
    let row = taken.fetch_one(connection).await?;
    run_record(&row).map(|record| RunTaken::Taken(Box::new(record)))
}

pub(super) async fn step(
    connection: &mut PgConnection,
    (run, epoch): (&str, Epoch),
    advance: &Advance,
    now: Timestamp,
) -> Result<Guarded, sqlx::Error> {
    let guard = sqlx::query(ADVANCE)
        .bind(run)
        .bind(epoch.0)
        .bind(stored(advance.counts.done))
        .bind(stored(advance.counts.failed))
        .bind(stored(advance.counts.skipped))
        .bind(storable_optional(advance.note.as_ref()))
        .bind(now.micros());
    let Some(row) = guard.fetch_optional(&mut *connection).await? else {
        return Ok(Guarded::Lost);
    };
    let state = RunState::parse(&text(&row, "state")?)
        .ok_or_else(|| sqlx::Error::Decode("column state holds no state".into()))?;
    mark(connection, run, &advance.marks).await?;
    keep(connection, &advance.keep, now).await?;
    if !advance.forget.is_empty() {
        let (letters, kinds): (Vec<String>, Vec<&str>) = advance
            .forget
            .iter()
            .map(|(letter, kind)| (storable(letter), kind.as_str()))
            .unzip();
        sqlx::query(FORGET)
            .bind(kinds)
            .bind(letters)
            .execute(connection)
            .await?;
    }
    Ok(Guarded::Held(state))
}

async fn mark(connection: &mut PgConnection, run: &str, marks: &[ItemMark]) -> Result<(), sqlx::Error> {
    if marks.is_empty() {
        return Ok(());
    }
    let query = sqlx::query(MARK)
        .bind(run)
        .bind(marks.iter().map(|mark| stored(mark.ordinal)).collect::<Vec<_>>())
        .bind(marks.iter().map(|mark| mark.state.as_str()).collect::<Vec<_>>())
        .bind(
            marks
                .iter()
                .map(|mark| storable_optional(mark.reason.as_ref()))
                .collect::<Vec<_>>(),
        )
        .bind(
            marks
                .iter()
                .map(|mark| storable_optional(mark.dropped.as_ref()))
                .collect::<Vec<_>>(),
        );
    query.execute(connection).await.map(drop)
}

async fn take_source(
    connection: &mut PgConnection,
    queue: &QueueName,
    run: &str,
    epoch: Epoch,
) -> Result<SourceTaken, sqlx::Error> {
    let holds = sqlx::query(HOLDS_LOCK)
        .bind(run)
        .bind(epoch.0)
        .fetch_optional(&mut *connection)
        .await?;
    if holds.is_none() {
        return Ok(SourceTaken::Lost);
    }
    let queue = storable(queue.as_str());
    let taking = sqlx::query(SOURCE_TAKE).bind(&queue).bind(run);
    if taking.execute(&mut *connection).await?.rows_affected() == 1 {
        return Ok(SourceTaken::Taken);
    }
    let other = sqlx::query_scalar(SOURCE_OF).bind(&queue).fetch_one(connection).await?;
    Ok(SourceTaken::Other(other))
}

async fn keep(connection: &mut PgConnection, kept: &[KeptMessage], now: Timestamp) -> Result<(), sqlx::Error> {
    if kept.is_empty() {
        return Ok(());
    }
    let texts = |value: fn(&KeptMessage) -> Option<String>| kept.iter().map(value).collect::<Vec<_>>();
    let until = |kept: &KeptMessage| kept.keep_for.map(|span| now.plus(span).micros());
    let query = sqlx::query(KEEP)
        .bind(texts(|kept| Some(storable(&kept.letter))))
        .bind(texts(|kept| Some(kept.kind.as_str().to_owned())))
        .bind(texts(|kept| Some(storable(kept.queue.as_str()))))
        .bind(kept.iter().map(|kept| kept.message.clone()).collect::<Vec<_>>())
        .bind(texts(|kept| storable_optional(kept.run.as_ref())))
        .bind(texts(|kept| Some(storable(&kept.actor))))
        .bind(vec![now.micros(); kept.len()])
        .bind(kept.iter().map(until).collect::<Vec<_>>());
    query.execute(connection).await.map(drop)
}
