//! Saved messages, and what the janitor saw, in a SQLite file.

use async_trait::async_trait;
use serde_json::json;
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;

use super::error::unread;
use super::{SqliteStore, micros_optional};
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::time::Timestamp;
use crate::store::columns::stored;
use crate::store::saves::{
    lifetime_columns, lifetime_order, lifetime_record, lifetimes_sweep, save_columns, save_record, saved_columns,
    saved_message, unbinding,
};
use crate::store::{
    LifetimeQuery, LifetimeRecord, Lifetimes, LifetimesSweep, NewSave, SaveBegun, SaveQuery, SaveRecord, SaveTaken,
    SaveWindow, SavedMessage, Saves, StoreError,
};

const LEFT_COUNT: &str = "(SELECT count(*) FROM saved_messages m WHERE m.save = s.id) AS remaining";
const OPEN_OF: &str = "SELECT id, owner IN (SELECT id FROM incarnations WHERE alive) AS alive \
    FROM saves WHERE queue = $1 AND state = 'taking'";
const BEGIN: &str = "INSERT INTO saves (id, queue, arguments, cause, state, owner, actor, reason, at, until) \
    VALUES ($1, $2, $3, $4, 'taking', $5, $6, $7, $8, $9)";
const COUNT: &str = "UPDATE saves SET messages = messages + $3, bytes = bytes + $4 \
    WHERE id = $1 AND owner = $2 AND state = 'taking'";
const KEEP: &str = "INSERT INTO saved_messages (save, place, win, message, bytes, exchange, routing_key) \
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const END: &str = "UPDATE saves SET state = 'kept', owner = NULL WHERE id = $1 AND owner = $2 AND state = 'taking'";
const FORGET_EMPTY: &str = "DELETE FROM saves WHERE id = $1 AND messages = 0";
const TAKE: &str = "UPDATE saves SET owner = $2 WHERE id = $1 AND NOT removing AND (owner IS NULL OR owner = $2 OR owner NOT IN \
    (SELECT id FROM incarnations WHERE alive))";
const FREE: &str = "UPDATE saves SET owner = NULL, state = CASE WHEN state = 'kept' AND NOT EXISTS \
    (SELECT 1 FROM saved_messages m WHERE m.save = saves.id) THEN 'restored' ELSE state END \
    WHERE id = $1 AND owner = $2";
const IS_LEFT: &str = "s.state = 'taking' AND (s.owner IS NULL OR s.owner NOT IN \
    (SELECT id FROM incarnations WHERE alive))";
const MESSAGES: &str = concat!(
    "SELECT ",
    saved_columns!(),
    " FROM saved_messages WHERE save = $1 AND place > $2 ORDER BY place LIMIT $3"
);
const LAST: &str = concat!(
    "SELECT ",
    saved_columns!(),
    " FROM saved_messages WHERE save = $1 AND win >= (SELECT max(win) - 1 FROM saved_messages WHERE save = $1) \
     ORDER BY place"
);
const DROP: &str = "DELETE FROM saved_messages WHERE save = $1 AND place IN (SELECT value FROM json_each($3)) \
    AND EXISTS (SELECT 1 FROM saves WHERE id = $1 AND owner = $2)";
const HOLDS: &str = "SELECT EXISTS (SELECT 1 FROM saves WHERE id = $1 AND owner = $2)";

const JANITOR: &str = "UPDATE janitor SET owner = $1, sweep = sweep + 1 WHERE (owner IS NULL OR owner = $1 \
    OR owner NOT IN (SELECT id FROM incarnations WHERE alive)) \
    AND EXISTS (SELECT 1 FROM incarnations WHERE id = $1 AND alive) RETURNING sweep";
const NOTE: &str = concat!(
    "INSERT INTO lifetimes (",
    lifetime_columns!(),
    ", sweep) SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, \
     value ->> 7, value ->> 8, value ->> 9, value ->> 10, $2 FROM json_each($1) WHERE true \
     ON CONFLICT (name) DO UPDATE SET quorum = excluded.quorum, lifetime_ms = excluded.lifetime_ms, \
     argument_ms = excluded.argument_ms, by_operator = excluded.by_operator, consumers = excluded.consumers, \
     messages = excluded.messages, bytes = excluded.bytes, unused_since = excluded.unused_since, \
     expires_at = excluded.expires_at, seen_at = excluded.seen_at, sweep = excluded.sweep"
);
const IS_SWEEP: &str = "SELECT EXISTS (SELECT 1 FROM janitor WHERE sweep = $1)";
const UNSEEN: &str = concat!("DELETE FROM lifetimes WHERE sweep < $1 RETURNING ", lifetime_columns!());
const SWEPT: &str = "UPDATE janitor SET swept_at = $1, queues = (SELECT count(*) FROM lifetimes), \
    soon = (SELECT count(*) FROM lifetimes WHERE messages > 0 AND expires_at < $2), \
    soon_messages = (SELECT COALESCE(sum(messages), 0) FROM lifetimes WHERE messages > 0 AND expires_at < $2)";
const SWEEP: &str = "SELECT swept_at, queues, soon, soon_messages FROM janitor";
const LIFETIMES: &str = concat!(
    "SELECT ",
    lifetime_columns!(),
    " FROM lifetimes ORDER BY ",
    lifetime_order!(),
    " LIMIT $1 OFFSET $2"
);
const LIFETIME: &str = concat!("SELECT ", lifetime_columns!(), " FROM lifetimes WHERE name = $1");
const LIFETIME_FORGET: &str = concat!("DELETE FROM lifetimes WHERE name = $1 RETURNING ", lifetime_columns!());
const UNBINDING: &str = "INSERT INTO unbindings (queue, owner) VALUES ($1, $2) \
    ON CONFLICT (queue) DO UPDATE SET owner = excluded.owner";
const UNBINDING_HOLDS: &str = "SELECT EXISTS (SELECT 1 FROM unbindings WHERE queue = $1 AND owner = $2)";
const UNBINDING_FORGET: &str = "DELETE FROM unbindings WHERE queue = $1";
const UNBINDING_TAKE: &str = "UPDATE unbindings SET owner = $1 WHERE queue IN (SELECT queue FROM unbindings \
    WHERE owner IS NULL OR owner = $1 OR owner NOT IN (SELECT id FROM incarnations WHERE alive) ORDER BY queue LIMIT $2) \
    RETURNING queue";

#[async_trait]
impl Saves for SqliteStore {
    async fn save_begin(&self, new: &NewSave) -> Result<SaveBegun, StoreError> {
        let (new, now) = (new.clone(), self.clock.now());
        self.write("beginning a save", move |connection| {
            Box::pin(async move { begin(connection, new, now).await })
        })
        .await
    }

    async fn save_keep(&self, save: &str, owner: IncarnationId, window: &SaveWindow) -> Result<bool, StoreError> {
        let (save, window) = (save.to_owned(), window.clone());
        self.write("saving messages", move |connection| {
            Box::pin(async move { keep(connection, &save, owner, window).await })
        })
        .await
    }

    async fn save_end(&self, save: &str, owner: IncarnationId) -> Result<bool, StoreError> {
        let save = save.to_owned();
        self.write("ending a save", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(END).bind(&save).bind(owner.0);
                let ended = query.execute(&mut *connection).await?.rows_affected() == 1;
                if ended {
                    sqlx::query(FORGET_EMPTY).bind(&save).execute(connection).await?;
                }
                Ok(ended)
            })
        })
        .await
    }

    async fn save_take(&self, save: &str, owner: IncarnationId) -> Result<SaveTaken, StoreError> {
        let save = save.to_owned();
        self.write("taking a save", move |connection| {
            Box::pin(async move {
                let taken = sqlx::query(TAKE).bind(&save).bind(owner.0);
                let taken = taken.execute(&mut *connection).await?.rows_affected() == 1;
                let statement = listing("WHERE s.id = $1");
                let row = sqlx::query(sqlx::AssertSqlSafe(statement))
                    .bind(&save)
                    .fetch_optional(connection)
                    .await?;
                match row.as_ref().map(save_record).transpose()? {
                    None => Ok(SaveTaken::Missing),
                    Some(record) if taken => Ok(SaveTaken::Taken(Box::new(record))),
                    Some(_) => Ok(SaveTaken::Busy),
                }
            })
        })
        .await
    }

    async fn save_free(&self, save: &str, owner: IncarnationId) -> Result<(), StoreError> {
        let save = save.to_owned();
        self.write("freeing a save", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(FREE).bind(save).bind(owner.0);
                query.execute(connection).await.map(drop)
            })
        })
        .await
    }

    async fn save_get(&self, save: &str) -> Result<Option<SaveRecord>, StoreError> {
        let operation = "reading a save";
        let row = sqlx::query(sqlx::AssertSqlSafe(listing("WHERE s.id = $1")))
            .bind(save)
            .fetch_optional(self.readers())
            .await
            .map_err(unread(operation))?;
        row.as_ref().map(save_record).transpose().map_err(unread(operation))
    }

    async fn saves(&self, query: &SaveQuery) -> Result<Vec<SaveRecord>, StoreError> {
        let which = "WHERE ($1 IS NULL OR s.id < $1) AND ($2 IS NULL OR s.queue = $2) ORDER BY s.id DESC LIMIT $3";
        let rows = sqlx::query(sqlx::AssertSqlSafe(listing(which)))
            .bind(query.before.as_deref())
            .bind(query.queue.as_ref().map(QueueName::as_str))
            .bind(i64::from(query.limit))
            .fetch_all(self.readers())
            .await;
        read("listing saves", rows, save_record)
    }

    async fn saves_left(&self, limit: u32) -> Result<Vec<SaveRecord>, StoreError> {
        let which = format!("WHERE {IS_LEFT} ORDER BY s.id LIMIT $1");
        let rows = sqlx::query(sqlx::AssertSqlSafe(listing(&which)))
            .bind(i64::from(limit))
            .fetch_all(self.readers())
            .await;
        read("looking for saves that were left", rows, save_record)
    }

    async fn saved_messages(
        &self,
        save: &str,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<SavedMessage>, StoreError> {
        let query = sqlx::query(MESSAGES)
            .bind(save)
            .bind(after.map_or(-1, stored))
            .bind(i64::from(limit));
        read(
            "reading saved messages",
            query.fetch_all(self.readers()).await,
            saved_message,
        )
    }

    async fn saved_last(&self, save: &str) -> Result<Vec<SavedMessage>, StoreError> {
        let rows = sqlx::query(LAST).bind(save).fetch_all(self.readers()).await;
        read("reading the last saved messages", rows, saved_message)
    }

    async fn saved_drop(&self, save: &str, owner: IncarnationId, places: &[u64]) -> Result<bool, StoreError> {
        let (save, places) = (save.to_owned(), json!(places).to_string());
        self.write("forgetting saved messages", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(DROP).bind(&save).bind(owner.0).bind(places);
                query.execute(&mut *connection).await?;
                sqlx::query_scalar(HOLDS)
                    .bind(save)
                    .bind(owner.0)
                    .fetch_one(connection)
                    .await
            })
        })
        .await
    }
}

#[async_trait]
impl Lifetimes for SqliteStore {
    async fn janitor_take(&self, incarnation: IncarnationId) -> Result<Option<i64>, StoreError> {
        self.write("beginning a sweep", move |connection| {
            Box::pin(async move {
                sqlx::query_scalar(JANITOR)
                    .bind(incarnation.0)
                    .fetch_optional(connection)
                    .await
            })
        })
        .await
    }

    async fn lifetimes_note(&self, sweep: i64, seen: &[LifetimeRecord]) -> Result<(), StoreError> {
        let document = document(seen);
        self.write("noting lifetimes", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(NOTE).bind(document).bind(sweep);
                query.execute(connection).await.map(drop)
            })
        })
        .await
    }

    async fn lifetimes_swept(&self, sweep: i64) -> Result<Vec<LifetimeRecord>, StoreError> {
        let now = self.clock.now();
        self.write("ending a sweep", move |connection| {
            Box::pin(async move {
                let is_last: bool = sqlx::query_scalar(IS_SWEEP)
                    .bind(sweep)
                    .fetch_one(&mut *connection)
                    .await?;
                if !is_last {
                    return Ok(Vec::new());
                }
                let rows = sqlx::query(UNSEEN).bind(sweep).fetch_all(&mut *connection).await?;
                let soon = now.plus(crate::store::SOON);
                sqlx::query(SWEPT)
                    .bind(now.micros())
                    .bind(soon.micros())
                    .execute(connection)
                    .await?;
                rows.iter().map(lifetime_record).collect()
            })
        })
        .await
    }

    async fn lifetimes_sweep(&self) -> Result<Option<LifetimesSweep>, StoreError> {
        let operation = "reading the last sweep";
        let row = sqlx::query(SWEEP)
            .fetch_one(self.readers())
            .await
            .map_err(unread(operation))?;
        lifetimes_sweep(&row).map_err(unread(operation))
    }

    async fn lifetimes(&self, query: &LifetimeQuery) -> Result<Vec<LifetimeRecord>, StoreError> {
        let statement = sqlx::query(LIFETIMES)
            .bind(i64::from(query.limit))
            .bind(stored(query.offset));
        let rows = statement.fetch_all(self.readers()).await;
        read("reading lifetimes", rows, lifetime_record)
    }

    async fn lifetime_get(&self, queue: &QueueName) -> Result<Option<LifetimeRecord>, StoreError> {
        let rows = sqlx::query(LIFETIME)
            .bind(queue.as_str())
            .fetch_all(self.readers())
            .await;
        Ok(read("reading a lifetime", rows, lifetime_record)?.pop())
    }

    async fn lifetime_forget(&self, queue: &QueueName) -> Result<Option<LifetimeRecord>, StoreError> {
        let queue = queue.clone();
        self.write("forgetting a lifetime", move |connection| {
            Box::pin(async move {
                let row = sqlx::query(LIFETIME_FORGET)
                    .bind(queue.as_str())
                    .fetch_optional(connection)
                    .await?;
                row.as_ref().map(lifetime_record).transpose()
            })
        })
        .await
    }

    async fn unbinding_note(&self, queue: &QueueName, owner: IncarnationId) -> Result<(), StoreError> {
        let queue = queue.clone();
        self.write("noting that a queue is unbound", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(UNBINDING).bind(queue.as_str()).bind(owner.0);
                query.execute(connection).await.map(drop)
            })
        })
        .await
    }

    async fn unbinding_holds(&self, queue: &QueueName, owner: IncarnationId) -> Result<bool, StoreError> {
        sqlx::query_scalar(UNBINDING_HOLDS)
            .bind(queue.as_str())
            .bind(owner.0)
            .fetch_one(self.readers())
            .await
            .map_err(unread("reading who unbound a queue"))
    }

    async fn unbinding_forget(&self, queue: &QueueName) -> Result<(), StoreError> {
        let queue = queue.clone();
        self.write("forgetting that a queue was unbound", move |connection| {
            Box::pin(async move {
                let query = sqlx::query(UNBINDING_FORGET).bind(queue.as_str());
                query.execute(connection).await.map(drop)
            })
        })
        .await
    }

    async fn unbinding_take(&self, owner: IncarnationId, limit: u32) -> Result<Vec<QueueName>, StoreError> {
        self.write("taking over what was left unbound", move |connection| {
            Box::pin(async move {
                let rows = sqlx::query(UNBINDING_TAKE).bind(owner.0).bind(i64::from(limit));
                let rows = rows.fetch_all(connection).await?;
                rows.iter().map(unbinding).collect()
            })
        })
        .await
    }
}

fn listing(which: &str) -> String {
    format!(
        concat!(
            "SELECT ",
            save_columns!(),
            ", {} FROM (SELECT * FROM saves WHERE NOT removing) s {}"
        ),
        LEFT_COUNT, which
    )
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

async fn begin(connection: &mut SqliteConnection, new: NewSave, now: Timestamp) -> Result<SaveBegun, sqlx::Error> {
    let open = sqlx::query(OPEN_OF)
        .bind(new.queue.as_str())
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(open) = open {
        let alive: Option<bool> = open.try_get("alive")?;
        return Ok(if alive == Some(true) {
            SaveBegun::Busy
        } else {
            SaveBegun::Left(open.try_get("id")?)
        });
    }
    let query = sqlx::query(BEGIN)
        .bind(new.id)
        .bind(new.queue.as_str())
        .bind(new.arguments)
        .bind(new.cause.as_str())
        .bind(new.owner.0)
        .bind(new.actor)
        .bind(new.reason)
        .bind(now.micros())
        .bind(now.plus(new.keep_for).micros());
    query.execute(connection).await.map(|_| SaveBegun::Begun)
}

async fn keep(
    connection: &mut SqliteConnection,
    save: &str,
    owner: IncarnationId,
    window: SaveWindow,
) -> Result<bool, sqlx::Error> {
    let bytes: u64 = window.messages.iter().map(|message| message.bytes).sum();
    let counted = sqlx::query(COUNT)
        .bind(save)
        .bind(owner.0)
        .bind(stored(window.messages.len() as u64))
        .bind(stored(bytes))
        .execute(&mut *connection)
        .await?;
    if counted.rows_affected() == 0 {
        return Ok(false);
    }
    for message in window.messages {
        let query = sqlx::query(KEEP)
            .bind(save)
            .bind(stored(message.place))
            .bind(stored(window.number))
            .bind(message.message)
            .bind(stored(message.bytes))
            .bind(message.exchange)
            .bind(message.routing_key);
        query.execute(&mut *connection).await?;
    }
    Ok(true)
}

fn document(seen: &[LifetimeRecord]) -> String {
    let rows: Vec<_> = seen
        .iter()
        .map(|record| {
            json!([
                record.name.as_str(),
                u8::from(record.quorum),
                record.lifetime_ms.map(stored),
                record.argument_ms.map(stored),
                u8::from(record.by_operator),
                record.consumers.map(stored),
                record.messages.map(stored),
                record.bytes.map(stored),
                micros_optional(record.unused_since),
                micros_optional(record.expires_at),
                record.seen_at.micros(),
            ])
        })
        .collect();
    json!(rows).to_string()
}
