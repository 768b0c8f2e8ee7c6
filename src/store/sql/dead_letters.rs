//! Dead letters and the looks at their queues. A batch of rows goes in as few statements.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;

use super::{Calls, Driver, Row, Statement, Value, columns, values};
use crate::domain::dead_letter::{DeadLetter, DeadLetterId, EVENT_TABLE};
use crate::domain::id::QueueName;
use crate::store::columns::{Columns, integer};
use crate::store::dead_letters::{
    dead_group, dead_letter, dead_letter_columns, dead_letter_updated, dead_origin, dead_queue, dead_queue_columns,
    dead_span,
};
use crate::store::{
    DeadClaim, DeadGroup, DeadGroupQuery, DeadLetters, DeadLooked, DeadOrigin, DeadQuery, DeadQueue, DeadRow, DeadSpan,
    StoreError,
};

static CLAIM: Statement = Statement::new(
    "INSERT INTO redrive.dead_queues AS q (name, generation, claimed_by, claimed_until, expected) \
     VALUES ($1, 1, $2, redrive.store_now() + $3, $4) ON CONFLICT (name) DO UPDATE SET \
     generation = q.generation + 1, claimed_by = excluded.claimed_by, claimed_until = excluded.claimed_until, \
     seen = 0, expected = excluded.expected \
     WHERE q.claimed_by IS NULL OR q.claimed_by = excluded.claimed_by OR q.claimed_until <= redrive.store_now() \
     RETURNING generation",
);
static HOLD: Statement = Statement::new(
    "UPDATE redrive.dead_queues SET claimed_until = redrive.store_now() + $3, seen = seen + $4 \
     WHERE name = $1 AND generation = $2 AND claimed_by IS NOT NULL",
);
static WRITE: Statement = Statement::new(concat!(
    "INSERT INTO redrive.dead_letters (",
    dead_letter_columns!(),
    ", generation, copy) SELECT ",
    dead_letter_columns!(),
    ", generation, copy FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], \
     $7::text[], $8::text[], $9::text[], $10::text[], $11::bigint[], $12::text[], $13::bigint[], $14::bigint[], \
     $15::bigint[], $16::bigint[], $17::bigint[], $18::text[], $19::text[], $20::text[], $21::bigint[], \
     $22::boolean[], $23::text[], $24::bigint[], $25::bytea[]) AS letters (",
    dead_letter_columns!(),
    ", generation, copy) WHERE TRUE ON CONFLICT (id) DO UPDATE SET ",
    dead_letter_updated!()
));
static FINISH: Statement = Statement::new(
    "UPDATE redrive.dead_queues SET claimed_by = NULL, claimed_until = NULL, \
     looked_at = redrive.store_now(), looks = looks + 1, problem = $3, messages = COALESCE($4, messages) \
     WHERE name = $1 AND generation = $2 AND claimed_by IS NOT NULL",
);
static REMOVE_UNSEEN: Statement =
    Statement::new("DELETE FROM redrive.dead_letters WHERE queue = $1 AND home <> 'event' AND generation < $2");
/// The event table's rows stand under the names of their types.
static REMOVE_UNSEEN_EVENTS: Statement =
    Statement::new("DELETE FROM redrive.dead_letters WHERE home = 'event' AND $1 <> '' AND generation < $2");
static FREE: Statement = Statement::new(
    "UPDATE redrive.dead_queues SET claimed_by = NULL, claimed_until = NULL \
     WHERE name = $1 AND generation = $2 AND claimed_by IS NOT NULL",
);
static STALE: Statement = Statement::new("UPDATE redrive.dead_queues SET looked_at = NULL WHERE name = $1");
static QUEUE: Statement = Statement::new(concat!(
    "SELECT ",
    dead_queue_columns!(),
    " FROM redrive.dead_queues WHERE name = $1"
));
static QUEUES: Statement = Statement::new(concat!(
    "SELECT ",
    dead_queue_columns!(),
    " FROM redrive.dead_queues ORDER BY name LIMIT 10000"
));
static FORGET: Statement = Statement::new(
    "DELETE FROM redrive.dead_queues WHERE name = $1 \
     AND (claimed_by IS NULL OR claimed_until <= redrive.store_now())",
);
static FORGET_ROWS: Statement = Statement::new("DELETE FROM redrive.dead_letters WHERE queue = $1 AND home <> 'event'");
static GET: Statement = Statement::new(concat!(
    "SELECT ",
    dead_letter_columns!(),
    ", copy FROM redrive.dead_letters WHERE id = $1"
));
static REMOVE: Statement = Statement::new("DELETE FROM redrive.dead_letters WHERE id = ANY($1)");
static GROUPS: Statement = Statement::new(
    "SELECT fingerprint, place, what, count(*) AS letters, min(first_failed_at) AS first_failed_at, \
     max(last_failed_at) AS last_failed_at, count(*) FILTER (WHERE last_failed_at >= $2) AS recent, \
     count(*) FILTER (WHERE last_failed_at >= $3 AND last_failed_at < $2) AS earlier \
     FROM redrive.dead_letters WHERE $1::text IS NULL OR queue = $1 GROUP BY fingerprint, place, what \
     ORDER BY letters DESC, max(last_failed_at) DESC NULLS LAST, fingerprint LIMIT $4",
);

static SPANS: Statement = Statement::new(
    "SELECT queue, home, min(first_failed_at) AS first_failed_at, max(last_failed_at) AS last_failed_at \
     FROM redrive.dead_letters GROUP BY queue, home ORDER BY queue, home",
);
static ORIGINS: Statement = Statement::new(
    "SELECT queue, origin, count(*) AS letters FROM redrive.dead_letters \
     WHERE home <> 'event' AND origin IS NOT NULL GROUP BY queue, origin \
     ORDER BY letters DESC, queue, origin LIMIT $1",
);

#[async_trait]
impl<D: Driver> DeadLetters for D {
    async fn dead_claim(
        &self,
        queue: &QueueName,
        who: &str,
        expected: Option<u64>,
        hold: Duration,
    ) -> Result<DeadClaim, StoreError> {
        let (queue, claim) = (queue.clone(), values![queue, who, hold, expected]);
        self.transaction("claiming a dead-letter queue", move |mut session, begun| {
            Box::pin(async move {
                let generation = session.find(&CLAIM, claim, |row| integer(row, "generation"));
                if let Some(generation) = generation.await? {
                    return Ok(DeadClaim::Claimed(generation));
                }
                let found = session.one(&QUEUE, values![queue], |row| dead_queue(row, begun));
                found.await.map(DeadClaim::Busy)
            })
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
        let holding = values![queue, generation, hold, rows.len() as u64];
        let rows = columns_of(rows, generation);
        self.transaction("keeping dead letters", move |mut session, _| {
            Box::pin(async move {
                if session.change(&HOLD, holding).await? == 0 {
                    return Ok(false);
                }
                session.change(&WRITE, values![rows]).await?;
                Ok(true)
            })
        })
        .await
    }

    async fn dead_finish(&self, queue: &QueueName, generation: i64, looked: &DeadLooked) -> Result<bool, StoreError> {
        let is_whole = looked.whole;
        let finishing = values![queue, generation, &looked.problem, is_whole.then_some(looked.messages)];
        let (removing, unseen) = (unseen(queue), values![queue, generation]);
        self.transaction("ending a look at a dead-letter queue", move |mut session, _| {
            Box::pin(async move {
                let finished = session.change(&FINISH, finishing).await? == 1;
                if finished && is_whole {
                    session.change(removing, unseen).await?;
                }
                Ok(finished)
            })
        })
        .await
    }

    async fn dead_free(&self, queue: &QueueName, generation: i64) -> Result<bool, StoreError> {
        let freed = self.change("freeing a dead-letter queue", &FREE, values![queue, generation]);
        Ok(freed.await? == 1)
    }

    async fn dead_stale(&self, queue: &QueueName) -> Result<(), StoreError> {
        let noted = self.change("noting that a look is old", &STALE, values![queue]);
        noted.await.map(drop)
    }

    async fn dead_queues(&self) -> Result<Vec<DeadQueue>, StoreError> {
        self.read("listing dead-letter queues", |mut session| {
            Box::pin(async move {
                let at = session.now().await?;
                session.list(&QUEUES, values![], |row| dead_queue(row, at)).await
            })
        })
        .await
    }

    async fn dead_queue_forget(&self, queue: &QueueName) -> Result<bool, StoreError> {
        let queue = queue.clone();
        self.transaction("forgetting a dead-letter queue", move |mut session, _| {
            Box::pin(async move {
                if session.change(&FORGET, values![&queue]).await? == 0 {
                    return Ok(false);
                }
                session.change(&FORGET_ROWS, values![queue]).await?;
                Ok(true)
            })
        })
        .await
    }

    async fn dead_letters(&self, query: &DeadQuery) -> Result<Vec<DeadLetter>, StoreError> {
        let (text, values) = page(query);
        self.read("listing dead letters", move |mut session| {
            Box::pin(async move { session.list_made(text, values, dead_letter).await })
        })
        .await
    }

    async fn dead_groups(&self, query: &DeadGroupQuery) -> Result<Vec<DeadGroup>, StoreError> {
        let values = values![&query.queue, query.recent_since, query.before_since, query.limit];
        self.list("grouping dead letters", &GROUPS, values, dead_group).await
    }

    async fn dead_spans(&self) -> Result<Vec<DeadSpan>, StoreError> {
        self.list("reading the times of dead letters", &SPANS, values![], dead_span)
            .await
    }

    async fn dead_origins(&self, limit: u32) -> Result<Vec<DeadOrigin>, StoreError> {
        self.list(
            "reading the origins of dead letters",
            &ORIGINS,
            values![limit],
            dead_origin,
        )
        .await
    }

    async fn dead_letter(&self, id: &DeadLetterId) -> Result<Option<DeadRow>, StoreError> {
        let whole = |row: &Row| {
            Ok(DeadRow {
                letter: dead_letter(row)?,
                copy: row.bytes("copy")?,
            })
        };
        self.find("reading a dead letter", &GET, values![id.as_str()], whole)
            .await
    }

    async fn dead_letters_remove(&self, ids: &[DeadLetterId]) -> Result<u64, StoreError> {
        let ids: Vec<&str> = ids.iter().map(DeadLetterId::as_str).collect();
        self.change("removing dead letters", &REMOVE, values![ids]).await
    }
}

/// What removes the rows that a whole look did not see.
fn unseen(queue: &QueueName) -> &'static Statement {
    if queue.as_str() == EVENT_TABLE {
        &REMOVE_UNSEEN_EVENTS
    } else {
        &REMOVE_UNSEEN
    }
}

/// A statement with only the conditions that there are, so that an index serves them.
fn page(query: &DeadQuery) -> (String, Vec<Value>) {
    let order = query.sort.expression();
    let (mut conditions, mut values) = (vec!["TRUE".to_owned()], values![query.limit]);
    if let Some((value, id)) = &query.after {
        conditions.push(format!("({order} < $2 OR ({order} = $2 AND id > $3))"));
        values.extend(values![*value, id.as_str()]);
    }
    let queue = query.queue.as_ref().map(|queue| ("queue", queue.as_str()));
    let fingerprint = query.fingerprint.as_deref().map(|print| ("fingerprint", print));
    let exactly = query
        .exactly
        .iter()
        .map(|(text, value)| (text.column(), value.as_str()));
    for (column, text) in queue.into_iter().chain(fingerprint).chain(exactly) {
        values.extend(values![text]);
        conditions.push(format!("{column} = ${}", values.len()));
    }
    let text = format!(
        concat!(
            "SELECT ",
            dead_letter_columns!(),
            " FROM redrive.dead_letters WHERE {} ORDER BY {} DESC, id LIMIT $1"
        ),
        conditions.join(" AND "),
        order
    );
    (text, values)
}

/// Of equal ids the last.
fn columns_of(rows: &[DeadRow], generation: i64) -> Value {
    let mut seen = HashSet::new();
    let rows: Vec<&DeadRow> = rows.iter().rev().filter(|row| seen.insert(&row.letter.id)).collect();
    columns![rows => |row|
        row.letter.id.as_str(),
        row.letter.home.as_str(),
        &row.letter.queue,
        row.letter.position,
        &row.letter.origin,
        &row.letter.message_id,
        &row.letter.url,
        &row.letter.execution,
        &row.letter.reason,
        &row.letter.class,
        row.letter.status,
        &row.letter.error,
        row.letter.attempts,
        row.letter.first_failed_at,
        row.letter.last_failed_at,
        row.letter.expires_at,
        row.letter.redriven,
        &row.letter.fingerprint,
        &row.letter.place,
        &row.letter.what,
        row.letter.size_bytes,
        row.letter.redelivered,
        &row.letter.begins,
        generation,
        &row.copy,
    ]
}
