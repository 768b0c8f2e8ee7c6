//! Dead letters and the looks at their queues in a SQLite file.

use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteConnection;

use super::error::unread;
use super::{SqliteQuery, SqliteStore, micros_optional};
use crate::domain::dead_letter::{DeadLetterId, EVENT_TABLE};
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;
use crate::store::columns::{Columns, stored};
use crate::store::dead_letters::{
    dead_group, dead_letter, dead_letter_columns, dead_letter_updated, dead_queue, dead_queue_columns,
};
use crate::store::{
    DeadClaim, DeadGroup, DeadGroupQuery, DeadLetters, DeadLooked, DeadQuery, DeadQueue, DeadRow, StoreError,
};

const CLAIM: &str = "INSERT INTO dead_queues (name, generation, claimed_by, claimed_until, expected) \
    VALUES ($1, 1, $2, $3, $4) ON CONFLICT (name) DO UPDATE SET generation = generation + 1, \
    claimed_by = excluded.claimed_by, claimed_until = excluded.claimed_until, seen = 0, expected = excluded.expected \
    WHERE dead_queues.claimed_by IS NULL OR dead_queues.claimed_by = excluded.claimed_by \
    OR dead_queues.claimed_until <= $5 RETURNING generation";
const HOLD: &str = "UPDATE dead_queues SET claimed_until = $3, seen = seen + $4 \
    WHERE name = $1 AND generation = $2 AND claimed_by IS NOT NULL";
static WRITE: LazyLock<String> = LazyLock::new(|| write_of(1));
/// Rows of one statement.
const ROWS_AT_ONCE: usize = 40;
static WRITE_MANY: LazyLock<String> = LazyLock::new(|| write_of(ROWS_AT_ONCE));
const FINISH: &str = "UPDATE dead_queues SET claimed_by = NULL, claimed_until = NULL, looked_at = $3, \
    looks = looks + 1, problem = $4, messages = COALESCE($5, messages) \
    WHERE name = $1 AND generation = $2 AND claimed_by IS NOT NULL";
const REMOVE_UNSEEN: &str = "DELETE FROM dead_letters WHERE queue = $1 AND home <> 'event' AND generation < $2";
/// The event table's rows stand under the names of their types.
const REMOVE_UNSEEN_EVENTS: &str = "DELETE FROM dead_letters WHERE home = 'event' AND $1 <> '' AND generation < $2";
const FREE: &str = "UPDATE dead_queues SET claimed_by = NULL, claimed_until = NULL \
    WHERE name = $1 AND generation = $2 AND claimed_by IS NOT NULL";
const STALE: &str = "UPDATE dead_queues SET looked_at = NULL WHERE name = $1";
const QUEUE: &str = concat!("SELECT ", dead_queue_columns!(), " FROM dead_queues WHERE name = $1");
const QUEUES: &str = concat!(
    "SELECT ",
    dead_queue_columns!(),
    " FROM dead_queues ORDER BY name LIMIT 10000"
);
const FORGET: &str = "DELETE FROM dead_queues WHERE name = $1 AND (claimed_by IS NULL OR claimed_until <= $2)";
const FORGET_ROWS: &str = "DELETE FROM dead_letters WHERE queue = $1 AND home <> 'event'";
const GET: &str = concat!(
    "SELECT ",
    dead_letter_columns!(),
    ", copy FROM dead_letters WHERE id = $1"
);
const REMOVE: &str = "DELETE FROM dead_letters WHERE id IN (SELECT value FROM json_each($1))";
const GROUPS: &str = "SELECT fingerprint, place, what, count(*) AS letters, min(first_failed_at) AS first_failed_at, \
    max(last_failed_at) AS last_failed_at, sum(COALESCE(last_failed_at, 0) >= $2) AS recent, \
    sum(COALESCE(last_failed_at, 0) >= $3 AND COALESCE(last_failed_at, 0) < $2) AS earlier \
    FROM dead_letters WHERE $1 IS NULL OR queue = $1 GROUP BY fingerprint, place, what \
    ORDER BY letters DESC, last_failed_at DESC, fingerprint LIMIT $4";

#[async_trait]
impl DeadLetters for SqliteStore {
    async fn dead_claim(
        &self,
        queue: &QueueName,
        who: &str,
        expected: Option<u64>,
        hold: Duration,
    ) -> Result<DeadClaim, StoreError> {
        let (queue, who, now) = (queue.clone(), who.to_owned(), self.clock.now());
        self.write("claiming a dead-letter queue", move |connection| {
            Box::pin(async move { claim(connection, &queue, &who, expected, now, hold).await })
        })
        .await
    }

    async fn dead_write(
        &self,
        queue: &QueueName,
        generation: i64,
        rows: &[DeadRow],
        hold: Duration,
    ) -> Result<bool, StoreError> {
        let (queue, rows, until) = (queue.clone(), rows.to_vec(), self.clock.now().plus(hold));
        self.write("keeping dead letters", move |connection| {
            Box::pin(async move {
                let claim = sqlx::query(HOLD)
                    .bind(queue.as_str())
                    .bind(generation)
                    .bind(until.micros())
                    .bind(stored(rows.len() as u64))
                    .execute(&mut *connection)
                    .await?;
                if claim.rows_affected() == 0 {
                    return Ok(false);
                }
                keep(connection, &rows, generation).await?;
                Ok(true)
            })
        })
        .await
    }

    async fn dead_finish(&self, queue: &QueueName, generation: i64, looked: &DeadLooked) -> Result<bool, StoreError> {
        let (queue, looked, now) = (queue.clone(), looked.clone(), self.clock.now());
        self.write("ending a look at a dead-letter queue", move |connection| {
            Box::pin(async move {
                let finished = sqlx::query(FINISH)
                    .bind(queue.as_str())
                    .bind(generation)
                    .bind(now.micros())
                    .bind(&looked.problem)
                    .bind(looked.whole.then(|| stored(looked.messages)))
                    .execute(&mut *connection)
                    .await?;
                let finished = finished.rows_affected() == 1;
                if finished && looked.whole {
                    let removing = sqlx::query(unseen(&queue)).bind(queue.as_str()).bind(generation);
                    removing.execute(connection).await?;
                }
                Ok(finished)
            })
        })
        .await
    }

    async fn dead_free(&self, queue: &QueueName, generation: i64) -> Result<bool, StoreError> {
        let queue = queue.clone();
        self.write("freeing a dead-letter queue", move |connection| {
            Box::pin(async move {
                let freeing = sqlx::query(FREE).bind(queue.as_str()).bind(generation);
                Ok(freeing.execute(connection).await?.rows_affected() == 1)
            })
        })
        .await
    }

    async fn dead_stale(&self, queue: &QueueName) -> Result<(), StoreError> {
        let queue = queue.clone();
        self.write("noting that a look is old", move |connection| {
            Box::pin(async move {
                sqlx::query(STALE).bind(queue.as_str()).execute(connection).await?;
                Ok(())
            })
        })
        .await
    }

    async fn dead_queues(&self) -> Result<Vec<DeadQueue>, StoreError> {
        let (operation, now) = ("listing dead-letter queues", self.clock.now());
        let rows = sqlx::query(QUEUES).fetch_all(self.readers()).await;
        let rows = rows.map_err(unread(operation))?;
        let queues = rows.iter().map(|row| dead_queue(row, now));
        queues.collect::<Result<_, _>>().map_err(unread(operation))
    }

    async fn dead_queue_forget(&self, queue: &QueueName) -> Result<bool, StoreError> {
        let (queue, now) = (queue.clone(), self.clock.now());
        self.write("forgetting a dead-letter queue", move |connection| {
            Box::pin(async move {
                let forgetting = sqlx::query(FORGET).bind(queue.as_str()).bind(now.micros());
                if forgetting.execute(&mut *connection).await?.rows_affected() == 0 {
                    return Ok(false);
                }
                sqlx::query(FORGET_ROWS)
                    .bind(queue.as_str())
                    .execute(connection)
                    .await?;
                Ok(true)
            })
        })
        .await
    }

    async fn dead_letters(&self, query: &DeadQuery) -> Result<Vec<crate::domain::dead_letter::DeadLetter>, StoreError> {
        let operation = "listing dead letters";
        let statement = page(query);
        let mut reading = sqlx::query(AssertSqlSafe(statement)).bind(i64::from(query.limit));
        if let Some((value, id)) = &query.after {
            reading = reading.bind(*value).bind(id.as_str().to_owned());
        }
        reading = reading.bind_optional(query.queue.as_ref().map(QueueName::as_str));
        reading = reading.bind_optional(query.fingerprint.as_deref());
        for (_, text) in &query.exactly {
            reading = reading.bind(text.clone());
        }
        let rows = reading.fetch_all(self.readers()).await.map_err(unread(operation))?;
        let letters = rows.iter().map(dead_letter);
        letters.collect::<Result<_, _>>().map_err(unread(operation))
    }

    async fn dead_groups(&self, query: &DeadGroupQuery) -> Result<Vec<DeadGroup>, StoreError> {
        let operation = "grouping dead letters";
        let rows = sqlx::query(GROUPS)
            .bind(query.queue.as_ref().map(QueueName::as_str))
            .bind(query.recent_since.micros())
            .bind(query.before_since.micros())
            .bind(i64::from(query.limit))
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        rows.iter()
            .map(dead_group)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }

    async fn dead_letter(&self, id: &DeadLetterId) -> Result<Option<DeadRow>, StoreError> {
        let operation = "reading a dead letter";
        let row = sqlx::query(GET).bind(id.as_str()).fetch_optional(self.readers()).await;
        let Some(row) = row.map_err(unread(operation))? else {
            return Ok(None);
        };
        let read = || {
            Ok(DeadRow {
                letter: dead_letter(&row)?,
                copy: row.bytes("copy")?,
            })
        };
        read().map(Some).map_err(unread(operation))
    }

    async fn dead_letters_remove(&self, ids: &[DeadLetterId]) -> Result<u64, StoreError> {
        let ids: Vec<&str> = ids.iter().map(DeadLetterId::as_str).collect();
        let ids = serde_json::json!(ids).to_string();
        self.write("removing dead letters", move |connection| {
            Box::pin(async move {
                let removing = sqlx::query(REMOVE).bind(ids);
                Ok(removing.execute(connection).await?.rows_affected())
            })
        })
        .await
    }
}

/// What removes the rows that a whole look did not see.
fn unseen(queue: &QueueName) -> &'static str {
    if queue.as_str() == EVENT_TABLE {
        REMOVE_UNSEEN_EVENTS
    } else {
        REMOVE_UNSEEN
    }
}

/// A statement with only the conditions that there are, so that an index serves them.
fn page(query: &DeadQuery) -> String {
    let order = query.sort.expression();
    let mut number = 1;
    let mut conditions = Vec::new();
    if query.after.is_some() {
        conditions.push(format!("({order} < $2 OR ({order} = $2 AND id > $3))"));
        number = 3;
    }
    for (column, is_some) in [
        ("queue", query.queue.is_some()),
        ("fingerprint", query.fingerprint.is_some()),
    ] {
        if is_some {
            number += 1;
            conditions.push(format!("{column} = ${number}"));
        }
    }
    for (text, _) in &query.exactly {
        number += 1;
        conditions.push(format!("{} = ${number}", text.column()));
    }
    let conditions = match conditions.as_slice() {
        [] => String::new(),
        some => format!(" WHERE {}", some.join(" AND ")),
    };
    format!(
        concat!(
            "SELECT ",
            dead_letter_columns!(),
            " FROM dead_letters{} ORDER BY {} DESC, id LIMIT $1"
        ),
        conditions, order
    )
}

/// Binds a value only when there is one, as its condition is there only then.
trait BindOptional: Sized {
    fn bind_optional(self, value: Option<&str>) -> Self;
}

impl BindOptional for SqliteQuery<'_> {
    fn bind_optional(self, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.bind(value.to_owned()),
            None => self,
        }
    }
}

async fn claim(
    connection: &mut SqliteConnection,
    queue: &QueueName,
    who: &str,
    expected: Option<u64>,
    now: Timestamp,
    hold: Duration,
) -> Result<DeadClaim, sqlx::Error> {
    let generation: Option<i64> = sqlx::query_scalar(CLAIM)
        .bind(queue.as_str())
        .bind(who)
        .bind(now.plus(hold).micros())
        .bind(expected.map(stored))
        .bind(now.micros())
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(generation) = generation {
        return Ok(DeadClaim::Claimed(generation));
    }
    let row = sqlx::query(QUEUE).bind(queue.as_str()).fetch_one(connection).await?;
    Ok(DeadClaim::Busy(dead_queue(&row, now)?))
}

/// A statement costs more than the row that it writes.
async fn keep(connection: &mut SqliteConnection, rows: &[DeadRow], generation: i64) -> Result<(), sqlx::Error> {
    let (many, rest) = rows.as_chunks::<ROWS_AT_ONCE>();
    for some in many {
        let query = sqlx::query(WRITE_MANY.as_str());
        let query = some.iter().fold(query, |query, row| values_of(query, row, generation));
        query.execute(&mut *connection).await?;
    }
    for row in rest {
        let query = values_of(sqlx::query(WRITE.as_str()), row, generation);
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

fn write_of(rows: usize) -> String {
    let row = format!("({})", ["?"; 24].join(", "));
    format!(
        concat!(
            "INSERT INTO dead_letters (",
            dead_letter_columns!(),
            ", generation, copy) VALUES {} ON CONFLICT (id) DO UPDATE SET ",
            dead_letter_updated!()
        ),
        vec![row; rows].join(", ")
    )
}

/// Binds the values of one row.
fn values_of<'q>(query: SqliteQuery<'q>, row: &'q DeadRow, generation: i64) -> SqliteQuery<'q> {
    let letter = &row.letter;
    query
        .bind(letter.id.as_str())
        .bind(letter.home.as_str())
        .bind(letter.queue.as_str())
        .bind(stored(letter.position))
        .bind(&letter.origin)
        .bind(&letter.message_id)
        .bind(&letter.url)
        .bind(&letter.execution)
        .bind(&letter.reason)
        .bind(&letter.class)
        .bind(letter.status.map(i64::from))
        .bind(&letter.error)
        .bind(letter.attempts.map(stored))
        .bind(micros_optional(letter.first_failed_at))
        .bind(micros_optional(letter.last_failed_at))
        .bind(micros_optional(letter.expires_at))
        .bind(i64::from(letter.redriven))
        .bind(&letter.fingerprint)
        .bind(&letter.place)
        .bind(&letter.what)
        .bind(stored(letter.size_bytes))
        .bind(i64::from(letter.redelivered))
        .bind(generation)
        .bind(&row.copy)
}
