//! Runs and kept messages in a SQLite file. What comes in hundreds goes in as one JSON document and one statement.

use async_trait::async_trait;
use serde_json::json;
use sqlx::sqlite::SqliteConnection;

use super::SqliteStore;
use super::error::unread;
use super::marks::mark;
use crate::domain::id::{Epoch, IncarnationId, QueueName};
use crate::domain::run::{RunCounts, RunState, Target};
use crate::domain::time::Timestamp;
use crate::store::columns::{
    Columns, item_columns, item_record, kept_columns, kept_message, number, run_columns, run_record, stored, text,
};
use crate::store::{
    Advance, Frozen, Guarded, ItemQuery, ItemRecord, KeptKind, KeptMessage, KeptQuery, NewItem, NewRun, RunQuery,
    RunRecord, RunStop, RunTaken, Runs, SourceTaken, StoreError,
};

const CREATE: &str = "INSERT INTO runs (id, command, state, rate, canary, created_at, updated_at) \
    VALUES ($1, $2, 'planned', $3, $4, $5, $5)";
const IS_DRAFT: &str = "SELECT EXISTS (SELECT 1 FROM runs WHERE id = $1 AND state = 'planned' AND hash = '' \
    AND NOT removing)";
const ITEMS_ADD: &str = "INSERT INTO run_items (run, ordinal, letter, source, target, bytes, state, reason) \
    SELECT $1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6 \
    FROM json_each($2)";
const FREEZE: &str = "UPDATE runs SET total = $2, done = $3, failed = $4, skipped = $5, plan = $6, hash = $7, \
    updated_at = $8 WHERE id = $1 AND state = 'planned' AND hash = '' AND NOT removing";
const START: &str = "UPDATE runs SET state = 'running', actor = $3, reason = $4, started_at = $5, updated_at = $5, \
    broker = (SELECT broker FROM settings) WHERE id = $1 AND state = 'planned' AND hash = $2 AND hash <> '' AND NOT removing";
const GET: &str = concat!("SELECT ", run_columns!(), " FROM runs WHERE id = $1 AND NOT removing");
const LIST: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM runs WHERE ($1 IS NULL OR id < $1) AND ($2 OR state <> 'planned') AND NOT removing \
     ORDER BY id DESC LIMIT $3"
);
/// The condition is the one of its index.
const LIST_OPEN: &str = concat!(
    "SELECT ",
    run_columns!("CAST('' AS text) AS plan"),
    " FROM runs WHERE state IN ('running', 'canary', 'paused') AND ($1 IS NULL OR id < $1) \
     ORDER BY id DESC LIMIT $2"
);
const OPEN: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM runs WHERE state = 'running' AND (owner IS NULL OR owner NOT IN \
     (SELECT id FROM incarnations WHERE alive)) ORDER BY id LIMIT $1"
);
const ALIVE: &str = "SELECT EXISTS (SELECT 1 FROM incarnations WHERE id = $1 AND alive)";
const TAKE: &str = concat!(
    "UPDATE runs SET owner = $2, epoch = max(epoch + 1, $3 / 1000), updated_at = $3 \
     WHERE id = $1 AND state = 'running' AND (owner IS NULL OR owner = $2 OR owner NOT IN \
     (SELECT id FROM incarnations WHERE alive)) RETURNING ",
    run_columns!()
);
const FREE: &str = "UPDATE runs SET owner = NULL WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL";
const CHANGE: &str = "UPDATE runs SET state = $3, note = $4, \
    canary = CASE WHEN state <> 'canary' OR $3 <> 'running' THEN canary END, \
    ended_at = CASE WHEN $3 IN ('done', 'failed', 'cancelled') THEN $5 END, updated_at = $5 \
    WHERE id = $1 AND state IN (SELECT value FROM json_each($2)) AND NOT removing";
const STAGE: &str = "UPDATE runs SET canary = $3, note = NULL, updated_at = $4 \
    WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL AND state = 'running'";
const ADVANCE: &str = "UPDATE runs SET done = $3, failed = $4, skipped = $5, note = $6, updated_at = $7 \
    WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL RETURNING state";
const STOP: &str = "UPDATE runs SET state = $3, done = $4, failed = $5, skipped = $6, note = $7, owner = NULL, \
    ended_at = CASE WHEN $3 IN ('done', 'failed', 'cancelled') THEN $8 END, updated_at = $8 \
    WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL AND state = 'running'";
const COUNTS: &str = "SELECT count(*) FILTER (WHERE state = 'settled') AS done, \
    count(*) FILTER (WHERE state IN ('failed', 'returned')) AS failed, \
    count(*) FILTER (WHERE state = 'skipped') AS skipped FROM run_items WHERE run = $1";
const ITEMS: &str = concat!(
    "SELECT ",
    item_columns!(),
    " FROM run_items WHERE run = $1 AND ordinal > $2 AND ($3 IS NULL OR source = $3) \
     AND (NOT $4 OR state IN ('planned', 'journalled', 'published')) ORDER BY ordinal LIMIT $5"
);
const HOLDS: &str = "SELECT EXISTS (SELECT 1 FROM runs WHERE id = $1 AND epoch = $2 AND owner IS NOT NULL)";
const SOURCE_TAKE: &str = "INSERT INTO run_sources (queue, run) VALUES ($1, $2) ON CONFLICT (queue) DO UPDATE \
    SET run = excluded.run WHERE run_sources.run = excluded.run OR run_sources.run NOT IN \
    (SELECT id FROM runs WHERE owner IN (SELECT id FROM incarnations WHERE alive))";
const SOURCE_OF: &str = "SELECT run FROM run_sources WHERE queue = $1";
const SOURCE_FREE: &str = "DELETE FROM run_sources WHERE queue = $1 AND run = $2";
const KEEP: &str = concat!(
    "INSERT INTO kept_messages (",
    kept_columns!(),
    ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (kind, letter) DO UPDATE SET queue = excluded.queue, \
     message = excluded.message, run = excluded.run, actor = excluded.actor, at = excluded.at, until = excluded.until"
);
const KEPT: &str = concat!(
    "SELECT ",
    kept_columns!(),
    " FROM kept_messages WHERE kind = $1 AND letter > $2 AND ($3 IS NULL OR run = $3) \
     AND ($4 OR letter IN (SELECT value FROM json_each($5))) ORDER BY letter LIMIT $6"
);
const KEPT_GET: &str = concat!(
    "SELECT ",
    kept_columns!(),
    " FROM kept_messages WHERE kind = $1 AND letter = $2"
);
const KEPT_DROP: &str = "DELETE FROM kept_messages \
    WHERE (kind, letter) IN (SELECT value ->> 0, value ->> 1 FROM json_each($1))";

#[async_trait]
impl Runs for SqliteStore {
    async fn run_create(&self, new: &NewRun) -> Result<(), StoreError> {
        let (new, now) = (new.clone(), self.clock.now().micros());
        self.write("planning a run", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(CREATE)
                    .bind(new.id)
                    .bind(new.command)
                    .bind(new.rate.map(i64::from))
                    .bind(new.canary.map(stored))
                    .bind(now);
                query.execute(connection).await.map(drop)
            })
        })
        .await
    }

    async fn run_items_add(&self, run: &str, items: &[NewItem]) -> Result<(), StoreError> {
        let (run, items) = (run.to_owned(), items_document(items));
        self.write("planning a run's items", move |connection| {
            Box::pin(async move {
                let draft: bool = sqlx::query_scalar(IS_DRAFT)
                    .bind(&run)
                    .fetch_one(&mut *connection)
                    .await?;
                if !draft {
                    return Err(sqlx::Error::RowNotFound);
                }
                sqlx::query(ITEMS_ADD)
                    .bind(run)
                    .bind(items)
                    .execute(connection)
                    .await
                    .map(drop)
            })
        })
        .await
    }

    async fn run_freeze(&self, run: &str, frozen: &Frozen) -> Result<bool, StoreError> {
        let (run, frozen, now) = (run.to_owned(), frozen.clone(), self.clock.now().micros());
        self.changed("freezing a plan", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(FREEZE)
                    .bind(run)
                    .bind(stored(frozen.total))
                    .bind(stored(frozen.counts.done))
                    .bind(stored(frozen.counts.failed))
                    .bind(stored(frozen.counts.skipped))
                    .bind(frozen.plan)
                    .bind(frozen.hash)
                    .bind(now);
                Ok(query.execute(connection).await?.rows_affected())
            })
        })
        .await
    }

    async fn run_start(&self, run: &str, hash: &str, actor: &str, reason: Option<&str>) -> Result<bool, StoreError> {
        let (run, hash, actor) = (run.to_owned(), hash.to_owned(), actor.to_owned());
        let (reason, now) = (reason.map(str::to_owned), self.clock.now().micros());
        self.changed("starting a run", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(START)
                    .bind(run)
                    .bind(hash)
                    .bind(actor)
                    .bind(reason)
                    .bind(now);
                Ok(query.execute(connection).await?.rows_affected())
            })
        })
        .await
    }

    async fn run_get(&self, run: &str) -> Result<Option<RunRecord>, StoreError> {
        let operation = "reading a run";
        let row = sqlx::query(GET)
            .bind(run)
            .fetch_optional(self.readers())
            .await
            .map_err(unread(operation))?;
        row.as_ref().map(run_record).transpose().map_err(unread(operation))
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>, StoreError> {
        let before = query.before.as_deref();
        let statement = if query.open {
            sqlx::query(LIST_OPEN).bind(before)
        } else {
            sqlx::query(LIST).bind(before).bind(query.planned)
        };
        let statement = statement.bind(i64::from(query.limit));
        read("listing runs", statement.fetch_all(self.readers()).await, run_record)
    }

    async fn runs_open(&self, limit: u32) -> Result<Vec<RunRecord>, StoreError> {
        let statement = sqlx::query(OPEN).bind(i64::from(limit));
        read(
            "looking for runs",
            statement.fetch_all(self.readers()).await,
            run_record,
        )
    }

    async fn run_take(&self, run: &str, incarnation: IncarnationId) -> Result<RunTaken, StoreError> {
        let (run, now) = (run.to_owned(), self.clock.now().micros());
        self.write("taking a run", move |connection| {
            Box::pin(async move { take(connection, &run, incarnation, now).await })
        })
        .await
    }

    async fn run_free(&self, run: &str, epoch: Epoch) -> Result<bool, StoreError> {
        let run = run.to_owned();
        self.changed("freeing a run", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(FREE).bind(run).bind(epoch.0);
                Ok(query.execute(connection).await?.rows_affected())
            })
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
        let from = json!(from.iter().map(|state| state.as_str()).collect::<Vec<_>>()).to_string();
        let (run, note, now) = (run.to_owned(), note.map(str::to_owned), self.clock.now().micros());
        self.changed("changing a run", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(CHANGE)
                    .bind(run)
                    .bind(from)
                    .bind(to.as_str())
                    .bind(note)
                    .bind(now);
                Ok(query.execute(connection).await?.rows_affected())
            })
        })
        .await
    }

    async fn run_stage(&self, run: &str, epoch: Epoch, canary: u64) -> Result<bool, StoreError> {
        let (run, now) = (run.to_owned(), self.clock.now().micros());
        let done = self.changed("watching a run's next part", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(STAGE)
                    .bind(run)
                    .bind(epoch.0)
                    .bind(stored(canary))
                    .bind(now);
                Ok(query.execute(connection).await?.rows_affected())
            })
        });
        done.await
    }

    async fn run_advance(&self, run: &str, epoch: Epoch, advance: &Advance) -> Result<Guarded, StoreError> {
        let (run, advance, now) = (run.to_owned(), advance.clone(), self.clock.now());
        self.write("recording a run's progress", move |connection| {
            Box::pin(async move { step(connection, (&run, epoch), &advance, now).await })
        })
        .await
    }

    async fn run_stop(&self, run: &str, epoch: Epoch, stop: &RunStop) -> Result<bool, StoreError> {
        let (run, stop, now) = (run.to_owned(), stop.clone(), self.clock.now().micros());
        self.changed("stopping a run", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(STOP)
                    .bind(run)
                    .bind(epoch.0)
                    .bind(stop.state.as_str())
                    .bind(stored(stop.counts.done))
                    .bind(stored(stop.counts.failed))
                    .bind(stored(stop.counts.skipped))
                    .bind(stop.note)
                    .bind(now);
                Ok(query.execute(connection).await?.rows_affected())
            })
        })
        .await
    }

    async fn run_counts(&self, run: &str) -> Result<RunCounts, StoreError> {
        let operation = "counting a run's items";
        let row = sqlx::query(COUNTS)
            .bind(run)
            .fetch_one(self.readers())
            .await
            .map_err(unread(operation))?;
        let counts = || {
            Ok(RunCounts {
                done: number(&row, "done")?,
                failed: number(&row, "failed")?,
                skipped: number(&row, "skipped")?,
            })
        };
        counts().map_err(unread(operation))
    }

    async fn run_items(&self, query: &ItemQuery) -> Result<Vec<ItemRecord>, StoreError> {
        let statement = sqlx::query(ITEMS)
            .bind(&query.run)
            .bind(query.after.map_or(-1, stored))
            .bind(query.source.as_ref().map(QueueName::as_str))
            .bind(query.open)
            .bind(i64::from(query.limit));
        let rows = statement.fetch_all(self.readers()).await;
        read("reading a run's items", rows, item_record)
    }

    async fn source_take(&self, queue: &QueueName, run: &str, epoch: Epoch) -> Result<SourceTaken, StoreError> {
        let (queue, run) = (queue.clone(), run.to_owned());
        self.write("taking a run's source", move |connection| {
            Box::pin(async move { take_source(connection, &queue, &run, epoch).await })
        })
        .await
    }

    async fn source_free(&self, queue: &QueueName, run: &str) -> Result<(), StoreError> {
        let (queue, run) = (queue.clone(), run.to_owned());
        self.write("freeing a run's source", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(SOURCE_FREE).bind(queue.as_str()).bind(run);
                query.execute(connection).await.map(drop)
            })
        })
        .await
    }

    async fn kept_put(&self, kept: &KeptMessage) -> Result<(), StoreError> {
        let (kept, now) = (kept.clone(), self.clock.now());
        self.write("keeping a message", move |connection| {
            Box::pin(async move { keep(connection, &kept, now).await })
        })
        .await
    }

    async fn kept_get(&self, letter: &str, kind: KeptKind) -> Result<Option<KeptMessage>, StoreError> {
        let statement = sqlx::query(KEPT_GET).bind(kind.as_str()).bind(letter);
        let rows = statement.fetch_all(self.readers()).await;
        Ok(read("reading a kept message", rows, kept_message)?.pop())
    }

    async fn kept_list(&self, query: &KeptQuery) -> Result<Vec<KeptMessage>, StoreError> {
        let statement = sqlx::query(KEPT)
            .bind(query.kind.as_str())
            .bind(query.after.as_deref().unwrap_or_default())
            .bind(query.run.as_deref())
            .bind(query.letters.is_empty())
            .bind(json!(query.letters).to_string())
            .bind(i64::from(query.limit));
        let rows = statement.fetch_all(self.readers()).await;
        read("listing kept messages", rows, kept_message)
    }

    async fn kept_drop(&self, letter: &str, kind: KeptKind) -> Result<bool, StoreError> {
        let letter = letter.to_owned();
        self.changed("forgetting a kept message", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(KEPT_DROP).bind(json!([[kind.as_str(), letter]]).to_string());
                Ok(query.execute(connection).await?.rows_affected())
            })
        })
        .await
    }
}

impl SqliteStore {
    /// A write that counts the rows it changes; whether there was one.
    async fn changed<F>(&self, operation: &'static str, work: F) -> Result<bool, StoreError>
    where
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> futures_util::future::BoxFuture<'c, Result<u64, sqlx::Error>>
            + Send
            + 'static,
    {
        Ok(self.write(operation, work).await? == 1)
    }
}

fn read<T>(
    operation: &'static str,
    rows: Result<Vec<sqlx::sqlite::SqliteRow>, sqlx::Error>,
    parse: impl Fn(&sqlx::sqlite::SqliteRow) -> Result<T, sqlx::Error>,
) -> Result<Vec<T>, StoreError> {
    let rows = rows.map_err(unread(operation))?;
    rows.iter()
        .map(parse)
        .collect::<Result<_, _>>()
        .map_err(unread(operation))
}

fn items_document(items: &[NewItem]) -> String {
    let rows: Vec<_> = items
        .iter()
        .map(|item| {
            json!([
                item.ordinal,
                item.letter,
                item.source.as_str(),
                item.target.as_ref().map(Target::encode),
                item.bytes,
                item.state.as_str(),
                item.reason
            ])
        })
        .collect();
    json!(rows).to_string()
}

async fn take(
    connection: &mut SqliteConnection,
    run: &str,
    incarnation: IncarnationId,
    now: i64,
) -> Result<RunTaken, sqlx::Error> {
    let alive: bool = sqlx::query_scalar(ALIVE)
        .bind(incarnation.0)
        .fetch_one(&mut *connection)
        .await?;
    if !alive {
        return Ok(RunTaken::Refused);
    }
    let taken = sqlx::query(TAKE).bind(run).bind(incarnation.0).bind(now);
    if let Some(row) = taken.fetch_optional(&mut *connection).await? {
        return run_record(&row).map(|record| RunTaken::Taken(Box::new(record)));
    }
    let Some(row) = sqlx::query(GET).bind(run).fetch_optional(connection).await? else {
        return Ok(RunTaken::Refused);
    };
    let record = run_record(&row)?;
    Ok(match record.owner {
        Some(owner) if record.state == RunState::Running => RunTaken::Held(owner),
        _ => RunTaken::NotRunning(record.state),
    })
}

pub(super) async fn step(
    connection: &mut SqliteConnection,
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
        .bind(advance.note.as_deref())
        .bind(now.micros());
    let Some(row) = guard.fetch_optional(&mut *connection).await? else {
        return Ok(Guarded::Lost);
    };
    let state = state_of(&row)?;
    mark(connection, run, &advance.marks).await?;
    for kept in &advance.keep {
        keep(connection, kept, now).await?;
    }
    if !advance.forget.is_empty() {
        let forget = advance.forget.iter().map(|(letter, kind)| (kind.as_str(), letter));
        let query = sqlx::query(KEPT_DROP).bind(json!(forget.collect::<Vec<_>>()).to_string());
        query.execute(&mut *connection).await?;
    }
    Ok(Guarded::Held(state))
}

fn state_of(row: &impl Columns) -> Result<RunState, sqlx::Error> {
    RunState::parse(&text(row, "state")?).ok_or_else(|| sqlx::Error::Decode("column state holds no state".into()))
}

async fn take_source(
    connection: &mut SqliteConnection,
    queue: &QueueName,
    run: &str,
    epoch: Epoch,
) -> Result<SourceTaken, sqlx::Error> {
    let holds: bool = sqlx::query_scalar(HOLDS)
        .bind(run)
        .bind(epoch.0)
        .fetch_one(&mut *connection)
        .await?;
    if !holds {
        return Ok(SourceTaken::Lost);
    }
    let taking = sqlx::query(SOURCE_TAKE).bind(queue.as_str()).bind(run);
    if taking.execute(&mut *connection).await?.rows_affected() == 1 {
        return Ok(SourceTaken::Taken);
    }
    let other = sqlx::query_scalar(SOURCE_OF)
        .bind(queue.as_str())
        .fetch_one(connection)
        .await?;
    Ok(SourceTaken::Other(other))
}

async fn keep(connection: &mut SqliteConnection, kept: &KeptMessage, now: Timestamp) -> Result<(), sqlx::Error> {
    let query = sqlx::query(KEEP)
        .bind(&kept.letter)
        .bind(kept.kind.as_str())
        .bind(kept.queue.as_str())
        .bind(&kept.message)
        .bind(&kept.run)
        .bind(&kept.actor)
        .bind(now.micros())
        .bind(kept.keep_for.map(|span| now.plus(span).micros()));
    query.execute(connection).await.map(drop)
}
