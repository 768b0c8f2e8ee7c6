//! Dead letters and the looks at their queues on PostgreSQL. A batch of rows is one statement over a JSON
//! document: no statement a row, and no limit of parameters.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection};

use super::{PostgresStore, micros_optional, now, storable};
use crate::domain::dead_letter::{DeadLetter, DeadLetterId, EVENT_TABLE};
use crate::domain::id::QueueName;
use crate::domain::naming::hex;
use crate::store::columns::{Columns, micros, stored};
use crate::store::dead_letters::{
    dead_group, dead_letter, dead_letter_columns, dead_letter_updated, dead_queue, dead_queue_columns,
};
use crate::store::{
    DeadClaim, DeadGroup, DeadGroupQuery, DeadLetters, DeadLooked, DeadQuery, DeadQueue, DeadRow, StoreError,
};

const CLAIM: &str = "INSERT INTO redrive.dead_queues AS q (name, generation, claimed_by, claimed_until, expected) \
    VALUES ($1, 1, $2, redrive.store_now() + $3, $4) ON CONFLICT (name) DO UPDATE SET \
    generation = q.generation + 1, claimed_by = excluded.claimed_by, claimed_until = excluded.claimed_until, \
    seen = 0, expected = excluded.expected \
    WHERE q.claimed_by IS NULL OR q.claimed_by = excluded.claimed_by OR q.claimed_until <= redrive.store_now() \
    RETURNING generation";
const HOLD: &str = "UPDATE redrive.dead_queues SET claimed_until = redrive.store_now() + $3, seen = seen + $4 \
    WHERE name = $1 AND generation = $2 AND claimed_by IS NOT NULL";
const WRITE: &str = concat!(
    "INSERT INTO redrive.dead_letters (",
    dead_letter_columns!(),
    ", generation, copy) SELECT ",
    dead_letter_columns!(),
    ", generation, copy FROM json_populate_recordset(NULL::redrive.dead_letters, $1::json) \
     ON CONFLICT (id) DO UPDATE SET ",
    dead_letter_updated!()
);
const FINISH: &str = "UPDATE redrive.dead_queues SET claimed_by = NULL, claimed_until = NULL, \
    looked_at = redrive.store_now(), looks = looks + 1, problem = $3, messages = COALESCE($4, messages) \
    WHERE name = $1 AND generation = $2 AND claimed_by IS NOT NULL";
const REMOVE_UNSEEN: &str = "DELETE FROM redrive.dead_letters WHERE queue = $1 AND home <> 'event' AND generation < $2";
/// The event table's rows stand under the names of their types.
const REMOVE_UNSEEN_EVENTS: &str =
    "DELETE FROM redrive.dead_letters WHERE home = 'event' AND $1 <> '' AND generation < $2";
const FREE: &str = "UPDATE redrive.dead_queues SET claimed_by = NULL, claimed_until = NULL \
    WHERE name = $1 AND generation = $2 AND claimed_by IS NOT NULL";
const STALE: &str = "UPDATE redrive.dead_queues SET looked_at = NULL WHERE name = $1";
const QUEUE: &str = concat!(
    "SELECT ",
    dead_queue_columns!(),
    " FROM redrive.dead_queues WHERE name = $1"
);
const QUEUES: &str = concat!(
    "SELECT ",
    dead_queue_columns!(),
    " FROM redrive.dead_queues ORDER BY name LIMIT 10000"
);
const FORGET: &str = "DELETE FROM redrive.dead_queues WHERE name = $1 \
    AND (claimed_by IS NULL OR claimed_until <= redrive.store_now())";
const FORGET_ROWS: &str = "DELETE FROM redrive.dead_letters WHERE queue = $1 AND home <> 'event'";
const GET: &str = concat!(
    "SELECT ",
    dead_letter_columns!(),
    ", copy FROM redrive.dead_letters WHERE id = $1"
);
const REMOVE: &str = "DELETE FROM redrive.dead_letters WHERE id = ANY($1)";
const GROUPS: &str = "SELECT fingerprint, place, what, count(*) AS letters, min(first_failed_at) AS first_failed_at, \
    max(last_failed_at) AS last_failed_at, count(*) FILTER (WHERE last_failed_at >= $2) AS recent, \
    count(*) FILTER (WHERE last_failed_at >= $3 AND last_failed_at < $2) AS earlier \
    FROM redrive.dead_letters WHERE $1::text IS NULL OR queue = $1 GROUP BY fingerprint, place, what \
    ORDER BY letters DESC, max(last_failed_at) DESC NULLS LAST, fingerprint LIMIT $4";

#[async_trait]
impl DeadLetters for PostgresStore {
    async fn dead_claim(
        &self,
        queue: &QueueName,
        who: &str,
        expected: Option<u64>,
        hold: Duration,
    ) -> Result<DeadClaim, StoreError> {
        let query = sqlx::query_scalar(CLAIM)
            .bind(storable(queue.as_str()))
            .bind(storable(who))
            .bind(micros(hold))
            .bind(expected.map(stored));
        let what = "claiming a dead-letter queue";
        self.transaction(what, async |connection: &mut PgConnection, begun| {
            let generation: Option<i64> = query.fetch_optional(&mut *connection).await?;
            if let Some(generation) = generation {
                return Ok(DeadClaim::Claimed(generation));
            }
            let row = sqlx::query(QUEUE)
                .bind(storable(queue.as_str()))
                .fetch_one(connection)
                .await?;
            Ok(DeadClaim::Busy(dead_queue(&row, begun)?))
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
        let holding = sqlx::query(HOLD)
            .bind(storable(queue.as_str()))
            .bind(generation)
            .bind(micros(hold))
            .bind(stored(rows.len() as u64));
        let document = document(rows, generation);
        self.transaction("keeping dead letters", async |connection: &mut PgConnection, _| {
            if holding.execute(&mut *connection).await?.rows_affected() == 0 {
                return Ok(false);
            }
            sqlx::query(WRITE).bind(document).execute(connection).await?;
            Ok(true)
        })
        .await
    }

    async fn dead_finish(&self, queue: &QueueName, generation: i64, looked: &DeadLooked) -> Result<bool, StoreError> {
        let name = storable(queue.as_str());
        let finishing = sqlx::query(FINISH)
            .bind(&name)
            .bind(generation)
            .bind(looked.problem.as_deref().map(storable))
            .bind(looked.whole.then(|| stored(looked.messages)));
        let what = "ending a look at a dead-letter queue";
        self.transaction(what, async |connection: &mut PgConnection, _| {
            let finished = finishing.execute(&mut *connection).await?.rows_affected() == 1;
            if finished && looked.whole {
                let removing = sqlx::query(unseen(queue)).bind(&name).bind(generation);
                removing.execute(connection).await?;
            }
            Ok(finished)
        })
        .await
    }

    async fn dead_free(&self, queue: &QueueName, generation: i64) -> Result<bool, StoreError> {
        let query = sqlx::query(FREE).bind(storable(queue.as_str())).bind(generation);
        self.call("freeing a dead-letter queue", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }

    async fn dead_stale(&self, queue: &QueueName) -> Result<(), StoreError> {
        let query = sqlx::query(STALE).bind(storable(queue.as_str()));
        self.call("noting that a look is old", async |connection: &mut PgConnection| {
            query.execute(connection).await?;
            Ok(())
        })
        .await
    }

    async fn dead_queues(&self) -> Result<Vec<DeadQueue>, StoreError> {
        self.call("listing dead-letter queues", async |connection: &mut PgConnection| {
            let at = now(connection).await?;
            let rows = sqlx::query(QUEUES).fetch_all(connection).await?;
            rows.iter().map(|row| dead_queue(row, at)).collect()
        })
        .await
    }

    async fn dead_queue_forget(&self, queue: &QueueName) -> Result<bool, StoreError> {
        let name = storable(queue.as_str());
        let what = "forgetting a dead-letter queue";
        self.transaction(what, async |connection: &mut PgConnection, _| {
            let forgetting = sqlx::query(FORGET).bind(&name);
            if forgetting.execute(&mut *connection).await?.rows_affected() == 0 {
                return Ok(false);
            }
            sqlx::query(FORGET_ROWS).bind(&name).execute(connection).await?;
            Ok(true)
        })
        .await
    }

    async fn dead_letters(&self, query: &DeadQuery) -> Result<Vec<DeadLetter>, StoreError> {
        let statement = page(query);
        let (value, id) = query
            .after
            .as_ref()
            .map(|(value, id)| (*value, id.as_str().to_owned()))
            .unzip();
        let mut reading = sqlx::query(AssertSqlSafe(statement))
            .bind(i64::from(query.limit))
            .bind(value)
            .bind(id)
            .bind(query.queue.as_ref().map(|queue| storable(queue.as_str())))
            .bind(query.fingerprint.as_deref().map(storable));
        for (_, text) in &query.exactly {
            reading = reading.bind(storable(text));
        }
        self.call("listing dead letters", async |connection: &mut PgConnection| {
            let rows = reading.fetch_all(connection).await?;
            rows.iter().map(dead_letter).collect()
        })
        .await
    }

    async fn dead_groups(&self, query: &DeadGroupQuery) -> Result<Vec<DeadGroup>, StoreError> {
        let grouping = sqlx::query(GROUPS)
            .bind(query.queue.as_ref().map(|queue| storable(queue.as_str())))
            .bind(query.recent_since.micros())
            .bind(query.before_since.micros())
            .bind(i64::from(query.limit));
        self.call("grouping dead letters", async |connection: &mut PgConnection| {
            let rows = grouping.fetch_all(connection).await?;
            rows.iter().map(dead_group).collect()
        })
        .await
    }

    async fn dead_letter(&self, id: &DeadLetterId) -> Result<Option<DeadRow>, StoreError> {
        let reading = sqlx::query(GET).bind(id.as_str().to_owned());
        self.call("reading a dead letter", async |connection: &mut PgConnection| {
            let Some(row) = reading.fetch_optional(connection).await? else {
                return Ok(None);
            };
            Ok(Some(DeadRow {
                letter: dead_letter(&row)?,
                copy: row.bytes("copy")?,
            }))
        })
        .await
    }

    async fn dead_letters_remove(&self, ids: &[DeadLetterId]) -> Result<u64, StoreError> {
        let ids: Vec<String> = ids.iter().map(|id| id.as_str().to_owned()).collect();
        let removing = sqlx::query(REMOVE).bind(ids);
        self.call("removing dead letters", async |connection: &mut PgConnection| {
            Ok(removing.execute(connection).await?.rows_affected())
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
    // Every parameter is named in it, whether it is used or not.
    let mut conditions = vec![
        "($2::bigint IS NULL OR TRUE) AND ($3::text IS NULL OR TRUE)".to_owned(),
        if query.queue.is_some() {
            "queue = $4"
        } else {
            "$4::text IS NULL"
        }
        .to_owned(),
        if query.fingerprint.is_some() {
            "fingerprint = $5"
        } else {
            "$5::text IS NULL"
        }
        .to_owned(),
    ];
    if query.after.is_some() {
        conditions.push(format!("({order} < $2 OR ({order} = $2 AND id > $3))"));
    }
    for (number, (text, _)) in (6..).zip(&query.exactly) {
        conditions.push(format!("{} = ${number}", text.column()));
    }
    format!(
        concat!(
            "SELECT ",
            dead_letter_columns!(),
            " FROM redrive.dead_letters WHERE {} ORDER BY {} DESC, id LIMIT $1"
        ),
        conditions.join(" AND "),
        order
    )
}

/// The rows as a list of objects with the columns' names; of equal ids the last.
fn document(rows: &[DeadRow], generation: i64) -> String {
    let mut seen = HashSet::new();
    let last_first = rows.iter().rev().filter(|row| seen.insert(&row.letter.id));
    let objects: Vec<Value> = last_first.map(|row| object(row, generation)).collect();
    Value::from(objects).to_string()
}

fn object(row: &DeadRow, generation: i64) -> Value {
    let letter = &row.letter;
    let optional = |text: &Option<String>| text.as_deref().map(storable);
    json!({
        "id": letter.id.as_str(),
        "home": letter.home.as_str(),
        "queue": storable(letter.queue.as_str()),
        "generation": generation,
        "position": stored(letter.position),
        "origin": optional(&letter.origin),
        "message_id": optional(&letter.message_id),
        "url": optional(&letter.url),
        "execution": optional(&letter.execution),
        "reason": storable(&letter.reason),
        "class": optional(&letter.class),
        "status": letter.status,
        "error": optional(&letter.error),
        "attempts": letter.attempts.map(stored),
        "first_failed_at": micros_optional(letter.first_failed_at),
        "last_failed_at": micros_optional(letter.last_failed_at),
        "expires_at": micros_optional(letter.expires_at),
        "redriven": letter.redriven,
        "fingerprint": letter.fingerprint,
        "place": storable(&letter.place),
        "what": storable(&letter.what),
        "size_bytes": stored(letter.size_bytes),
        "redelivered": letter.redelivered,
        "copy": row.copy.as_ref().map(|copy| format!("\\x{}", hex(copy))),
    })
}
