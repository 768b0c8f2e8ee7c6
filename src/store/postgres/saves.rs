//! Saved messages, and what the janitor saw, on PostgreSQL.

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::{PostgresStore, micros_optional, storable, storable_optional};
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

const LEFT_COUNT: &str = "(SELECT count(*) FROM redrive.saved_messages m WHERE m.save = s.id) AS remaining";
const OPEN_OF: &str = "SELECT s.id, EXISTS (SELECT 1 FROM redrive.incarnations i WHERE i.id = s.owner AND i.alive) \
    AS alive FROM redrive.saves s WHERE s.queue = $1 AND s.state = 'taking'";
const BEGIN: &str = "INSERT INTO redrive.saves (id, queue, arguments, cause, state, owner, actor, reason, at, until) \
    VALUES ($1, $2, $3, $4, 'taking', $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING";
const COUNT: &str = "UPDATE redrive.saves SET messages = messages + $3, bytes = bytes + $4 \
    WHERE id = $1 AND owner = $2 AND state = 'taking'";
const KEEP: &str = "INSERT INTO redrive.saved_messages (save, place, win, message, bytes, exchange, routing_key) \
    SELECT $1, place, $2, message, bytes, exchange, routing_key FROM unnest($3::bigint[], $4::bytea[], $5::bigint[], \
    $6::text[], $7::text[]) AS m (place, message, bytes, exchange, routing_key)";
const END: &str = "UPDATE redrive.saves SET state = 'kept', owner = NULL \
    WHERE id = $1 AND owner = $2 AND state = 'taking'";
const FORGET_EMPTY: &str = "DELETE FROM redrive.saves WHERE id = $1 AND messages = 0";
const TAKE: &str = "UPDATE redrive.saves s SET owner = $2 WHERE s.id = $1 AND NOT removing AND (s.owner = $2 OR NOT EXISTS \
    (SELECT 1 FROM redrive.incarnations i WHERE i.id = s.owner AND i.alive))";
const FREE: &str = "UPDATE redrive.saves s SET owner = NULL, state = CASE WHEN state = 'kept' AND NOT EXISTS \
    (SELECT 1 FROM redrive.saved_messages m WHERE m.save = s.id) THEN 'restored' ELSE state END \
    WHERE id = $1 AND owner = $2";
const IS_LEFT: &str = "s.state = 'taking' AND NOT EXISTS \
    (SELECT 1 FROM redrive.incarnations i WHERE i.id = s.owner AND i.alive)";
const MESSAGES: &str = concat!(
    "SELECT ",
    saved_columns!(),
    " FROM redrive.saved_messages WHERE save = $1 AND place > $2 ORDER BY place LIMIT $3"
);
const LAST: &str = concat!(
    "SELECT ",
    saved_columns!(),
    " FROM redrive.saved_messages WHERE save = $1 AND \
     win >= (SELECT max(win) - 1 FROM redrive.saved_messages WHERE save = $1) ORDER BY place"
);
const HOLDS: &str = "SELECT 1 FROM redrive.saves WHERE id = $1 AND owner = $2 FOR UPDATE";
const DROP: &str = "DELETE FROM redrive.saved_messages WHERE save = $1 AND place = ANY($2)";

const JANITOR: &str = "UPDATE redrive.janitor j SET owner = $1, sweep = sweep + 1 WHERE (j.owner = $1 OR NOT EXISTS \
    (SELECT 1 FROM redrive.incarnations i WHERE i.id = j.owner AND i.alive)) \
    AND EXISTS (SELECT 1 FROM redrive.incarnations i WHERE i.id = $1 AND i.alive) RETURNING sweep";
const NOTE: &str = concat!(
    "INSERT INTO redrive.lifetimes (",
    lifetime_columns!(),
    ", sweep) SELECT *, $12::bigint FROM unnest($1::text[], $2::boolean[], $3::bigint[], $4::bigint[], \
     $5::boolean[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[]) \
     ON CONFLICT (name) DO UPDATE SET quorum = excluded.quorum, lifetime_ms = excluded.lifetime_ms, \
     argument_ms = excluded.argument_ms, by_operator = excluded.by_operator, consumers = excluded.consumers, \
     messages = excluded.messages, bytes = excluded.bytes, unused_since = excluded.unused_since, \
     expires_at = excluded.expires_at, seen_at = excluded.seen_at, sweep = excluded.sweep"
);
const IS_SWEEP: &str = "SELECT 1 FROM redrive.janitor WHERE sweep = $1 FOR UPDATE";
const UNSEEN: &str = concat!(
    "DELETE FROM redrive.lifetimes WHERE sweep < $1 RETURNING ",
    lifetime_columns!()
);
const SWEPT: &str = "UPDATE redrive.janitor SET swept_at = $1, queues = (SELECT count(*) FROM redrive.lifetimes), \
    soon = (SELECT count(*) FROM redrive.lifetimes WHERE messages > 0 AND expires_at < $2), \
    soon_messages = (SELECT COALESCE(sum(messages), 0)::bigint FROM redrive.lifetimes \
        WHERE messages > 0 AND expires_at < $2)";
const SWEEP: &str = "SELECT swept_at, queues, soon, soon_messages FROM redrive.janitor";
const LIFETIMES: &str = concat!(
    "SELECT ",
    lifetime_columns!(),
    " FROM redrive.lifetimes ORDER BY ",
    lifetime_order!(),
    " LIMIT $1 OFFSET $2"
);
const LIFETIME: &str = concat!(
    "SELECT ",
    lifetime_columns!(),
    " FROM redrive.lifetimes WHERE name = $1"
);
const LIFETIME_FORGET: &str = concat!(
    "DELETE FROM redrive.lifetimes WHERE name = $1 RETURNING ",
    lifetime_columns!()
);
const UNBINDING: &str = "INSERT INTO redrive.unbindings (queue, owner) VALUES ($1, $2) \
    ON CONFLICT (queue) DO UPDATE SET owner = excluded.owner";
const UNBINDING_HOLDS: &str = "SELECT EXISTS (SELECT 1 FROM redrive.unbindings WHERE queue = $1 AND owner = $2)";
const UNBINDING_FORGET: &str = "DELETE FROM redrive.unbindings WHERE queue = $1";
const UNBINDING_TAKE: &str = "UPDATE redrive.unbindings SET owner = $1 WHERE queue IN (SELECT u.queue \
    FROM redrive.unbindings u WHERE u.owner IS NULL OR u.owner = $1 OR NOT EXISTS \
    (SELECT 1 FROM redrive.incarnations i WHERE i.id = u.owner AND i.alive) ORDER BY u.queue LIMIT $2 \
    FOR UPDATE SKIP LOCKED) RETURNING queue";

#[async_trait]
impl Saves for PostgresStore {
    async fn save_begin(&self, new: &NewSave) -> Result<SaveBegun, StoreError> {
        self.transaction("beginning a save", async |connection: &mut PgConnection, now| {
            begin(connection, new, now).await
        })
        .await
    }

    async fn save_keep(&self, save: &str, owner: IncarnationId, window: &SaveWindow) -> Result<bool, StoreError> {
        self.transaction("saving messages", async |connection: &mut PgConnection, _| {
            keep(connection, save, owner, window).await
        })
        .await
    }

    async fn save_end(&self, save: &str, owner: IncarnationId) -> Result<bool, StoreError> {
        self.transaction("ending a save", async |connection: &mut PgConnection, _| {
            let query = sqlx::query(END).bind(save).bind(owner.0);
            let ended = query.execute(&mut *connection).await?.rows_affected() == 1;
            if ended {
                sqlx::query(FORGET_EMPTY).bind(save).execute(connection).await?;
            }
            Ok(ended)
        })
        .await
    }

    async fn save_take(&self, save: &str, owner: IncarnationId) -> Result<SaveTaken, StoreError> {
        let save = storable(save);
        self.transaction("taking a save", async |connection: &mut PgConnection, _| {
            let taken = sqlx::query(TAKE).bind(&save).bind(owner.0);
            let taken = taken.execute(&mut *connection).await?.rows_affected() == 1;
            let row = sqlx::query(AssertSqlSafe(listing("WHERE s.id = $1")))
                .bind(&save)
                .fetch_optional(connection)
                .await?;
            match row.as_ref().map(save_record).transpose()? {
                None => Ok(SaveTaken::Missing),
                Some(record) if taken => Ok(SaveTaken::Taken(Box::new(record))),
                Some(_) => Ok(SaveTaken::Busy),
            }
        })
        .await
    }

    async fn save_free(&self, save: &str, owner: IncarnationId) -> Result<(), StoreError> {
        let query = sqlx::query(FREE).bind(save).bind(owner.0);
        self.call("freeing a save", async |connection: &mut PgConnection| {
            query.execute(connection).await.map(drop)
        })
        .await
    }

    async fn save_get(&self, save: &str) -> Result<Option<SaveRecord>, StoreError> {
        let query = sqlx::query(AssertSqlSafe(listing("WHERE s.id = $1"))).bind(storable(save));
        self.call("reading a save", async |connection: &mut PgConnection| {
            let row = query.fetch_optional(connection).await?;
            row.as_ref().map(save_record).transpose()
        })
        .await
    }

    async fn saves(&self, query: &SaveQuery) -> Result<Vec<SaveRecord>, StoreError> {
        let which = "WHERE ($1::text IS NULL OR s.id < $1) AND ($2::text IS NULL OR s.queue = $2) \
            ORDER BY s.id DESC LIMIT $3";
        let query = sqlx::query(AssertSqlSafe(listing(which)))
            .bind(query.before.as_deref().map(storable))
            .bind(query.queue.as_ref().map(|queue| storable(queue.as_str())))
            .bind(i64::from(query.limit));
        self.call("listing saves", async |connection: &mut PgConnection| {
            read(&query.fetch_all(connection).await?, save_record)
        })
        .await
    }

    async fn saves_left(&self, limit: u32) -> Result<Vec<SaveRecord>, StoreError> {
        let which = format!("WHERE {IS_LEFT} ORDER BY s.id LIMIT $1");
        let query = sqlx::query(AssertSqlSafe(listing(&which))).bind(i64::from(limit));
        self.call(
            "looking for saves that were left",
            async |connection: &mut PgConnection| read(&query.fetch_all(connection).await?, save_record),
        )
        .await
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
        self.call("reading saved messages", async |connection: &mut PgConnection| {
            read(&query.fetch_all(connection).await?, saved_message)
        })
        .await
    }

    async fn saved_last(&self, save: &str) -> Result<Vec<SavedMessage>, StoreError> {
        let query = sqlx::query(LAST).bind(save);
        self.call(
            "reading the last saved messages",
            async |connection: &mut PgConnection| read(&query.fetch_all(connection).await?, saved_message),
        )
        .await
    }

    async fn saved_drop(&self, save: &str, owner: IncarnationId, places: &[u64]) -> Result<bool, StoreError> {
        let places: Vec<i64> = places.iter().copied().map(stored).collect();
        self.transaction("forgetting saved messages", async |connection: &mut PgConnection, _| {
            let held = sqlx::query(HOLDS).bind(save).bind(owner.0);
            if held.fetch_optional(&mut *connection).await?.is_none() {
                return Ok(false);
            }
            sqlx::query(DROP).bind(save).bind(places).execute(connection).await?;
            Ok(true)
        })
        .await
    }
}

#[async_trait]
impl Lifetimes for PostgresStore {
    async fn janitor_take(&self, incarnation: IncarnationId) -> Result<Option<i64>, StoreError> {
        let query = sqlx::query_scalar(JANITOR).bind(incarnation.0);
        self.call("beginning a sweep", async |connection: &mut PgConnection| {
            query.fetch_optional(connection).await
        })
        .await
    }

    async fn lifetimes_note(&self, sweep: i64, seen: &[LifetimeRecord]) -> Result<(), StoreError> {
        let numbers = |value: fn(&LifetimeRecord) -> Option<i64>| seen.iter().map(value).collect::<Vec<_>>();
        let query = sqlx::query(NOTE)
            .bind(seen.iter().map(|one| storable(one.name.as_str())).collect::<Vec<_>>())
            .bind(seen.iter().map(|one| one.quorum).collect::<Vec<_>>())
            .bind(numbers(|one| one.lifetime_ms.map(stored)))
            .bind(numbers(|one| one.argument_ms.map(stored)))
            .bind(seen.iter().map(|one| one.by_operator).collect::<Vec<_>>())
            .bind(numbers(|one| one.consumers.map(stored)))
            .bind(numbers(|one| one.messages.map(stored)))
            .bind(numbers(|one| one.bytes.map(stored)))
            .bind(numbers(|one| micros_optional(one.unused_since)))
            .bind(numbers(|one| micros_optional(one.expires_at)))
            .bind(numbers(|one| Some(one.seen_at.micros())))
            .bind(sweep);
        self.call("noting lifetimes", async |connection: &mut PgConnection| {
            query.execute(connection).await.map(drop)
        })
        .await
    }

    async fn lifetimes_swept(&self, sweep: i64) -> Result<Vec<LifetimeRecord>, StoreError> {
        self.transaction("ending a sweep", async |connection: &mut PgConnection, now| {
            let is_last = sqlx::query(IS_SWEEP).bind(sweep);
            if is_last.fetch_optional(&mut *connection).await?.is_none() {
                return Ok(Vec::new());
            }
            let rows = sqlx::query(UNSEEN).bind(sweep).fetch_all(&mut *connection).await?;
            sqlx::query(SWEPT)
                .bind(now.micros())
                .bind(now.plus(crate::store::SOON).micros())
                .execute(connection)
                .await?;
            read(&rows, lifetime_record)
        })
        .await
    }

    async fn lifetimes_sweep(&self) -> Result<Option<LifetimesSweep>, StoreError> {
        self.call("reading the last sweep", async |connection: &mut PgConnection| {
            lifetimes_sweep(&sqlx::query(SWEEP).fetch_one(connection).await?)
        })
        .await
    }

    async fn lifetimes(&self, query: &LifetimeQuery) -> Result<Vec<LifetimeRecord>, StoreError> {
        let statement = sqlx::query(LIFETIMES)
            .bind(i64::from(query.limit))
            .bind(stored(query.offset));
        self.call("reading lifetimes", async |connection: &mut PgConnection| {
            read(&statement.fetch_all(connection).await?, lifetime_record)
        })
        .await
    }

    async fn lifetime_get(&self, queue: &QueueName) -> Result<Option<LifetimeRecord>, StoreError> {
        let query = sqlx::query(LIFETIME).bind(storable(queue.as_str()));
        self.call("reading a lifetime", async |connection: &mut PgConnection| {
            let row = query.fetch_optional(connection).await?;
            row.as_ref().map(lifetime_record).transpose()
        })
        .await
    }

    async fn lifetime_forget(&self, queue: &QueueName) -> Result<Option<LifetimeRecord>, StoreError> {
        let query = sqlx::query(LIFETIME_FORGET).bind(storable(queue.as_str()));
        self.call("forgetting a lifetime", async |connection: &mut PgConnection| {
            let row = query.fetch_optional(connection).await?;
            row.as_ref().map(lifetime_record).transpose()
        })
        .await
    }

    async fn unbinding_note(&self, queue: &QueueName, owner: IncarnationId) -> Result<(), StoreError> {
        let query = sqlx::query(UNBINDING).bind(storable(queue.as_str())).bind(owner.0);
        self.call(
            "noting that a queue is unbound",
            async |connection: &mut PgConnection| query.execute(connection).await.map(drop),
        )
        .await
    }

    async fn unbinding_holds(&self, queue: &QueueName, owner: IncarnationId) -> Result<bool, StoreError> {
        let query = sqlx::query_scalar(UNBINDING_HOLDS)
            .bind(storable(queue.as_str()))
            .bind(owner.0);
        self.call("reading who unbound a queue", async |connection: &mut PgConnection| {
            query.fetch_one(connection).await
        })
        .await
    }

    async fn unbinding_forget(&self, queue: &QueueName) -> Result<(), StoreError> {
        let query = sqlx::query(UNBINDING_FORGET).bind(storable(queue.as_str()));
        self.call(
            "forgetting that a queue was unbound",
            async |connection: &mut PgConnection| query.execute(connection).await.map(drop),
        )
        .await
    }

    async fn unbinding_take(&self, owner: IncarnationId, limit: u32) -> Result<Vec<QueueName>, StoreError> {
        let query = sqlx::query(UNBINDING_TAKE).bind(owner.0).bind(i64::from(limit));
        self.call(
            "taking over what was left unbound",
            async |connection: &mut PgConnection| {
                let rows = query.fetch_all(connection).await?;
                read(&rows, unbinding)
            },
        )
        .await
    }
}

fn listing(which: &str) -> String {
    format!(
        concat!(
            "SELECT ",
            save_columns!(),
            ", {} FROM (SELECT * FROM redrive.saves WHERE NOT removing) s {}"
        ),
        LEFT_COUNT, which
    )
}

fn read<T>(rows: &[PgRow], parse: impl Fn(&PgRow) -> Result<T, sqlx::Error>) -> Result<Vec<T>, sqlx::Error> {
    rows.iter().map(parse).collect()
}

async fn begin(connection: &mut PgConnection, new: &NewSave, now: Timestamp) -> Result<SaveBegun, sqlx::Error> {
    let open = sqlx::query(OPEN_OF)
        .bind(storable(new.queue.as_str()))
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(open) = open {
        return Ok(if open.try_get("alive")? {
            SaveBegun::Busy
        } else {
            SaveBegun::Left(open.try_get("id")?)
        });
    }
    let query = sqlx::query(BEGIN)
        .bind(&new.id)
        .bind(storable(new.queue.as_str()))
        .bind(storable(&new.arguments))
        .bind(new.cause.as_str())
        .bind(new.owner.0)
        .bind(storable(&new.actor))
        .bind(storable_optional(new.reason.as_ref()))
        .bind(now.micros())
        .bind(now.plus(new.keep_for).micros());
    // Nothing is inserted where somebody else began at the same time.
    Ok(match query.execute(connection).await?.rows_affected() {
        0 => SaveBegun::Busy,
        _ => SaveBegun::Begun,
    })
}

async fn keep(
    connection: &mut PgConnection,
    save: &str,
    owner: IncarnationId,
    window: &SaveWindow,
) -> Result<bool, sqlx::Error> {
    let messages = &window.messages;
    let bytes: u64 = messages.iter().map(|message| message.bytes).sum();
    let counted = sqlx::query(COUNT)
        .bind(save)
        .bind(owner.0)
        .bind(stored(messages.len() as u64))
        .bind(stored(bytes))
        .execute(&mut *connection)
        .await?;
    if counted.rows_affected() == 0 {
        return Ok(false);
    }
    let query = sqlx::query(KEEP)
        .bind(save)
        .bind(stored(window.number))
        .bind(messages.iter().map(|one| stored(one.place)).collect::<Vec<_>>())
        .bind(messages.iter().map(|one| one.message.as_slice()).collect::<Vec<_>>())
        .bind(messages.iter().map(|one| stored(one.bytes)).collect::<Vec<_>>())
        .bind(messages.iter().map(|one| storable(&one.exchange)).collect::<Vec<_>>())
        .bind(
            messages
                .iter()
                .map(|one| storable(&one.routing_key))
                .collect::<Vec<_>>(),
        );
    query.execute(connection).await?;
    Ok(true)
}
