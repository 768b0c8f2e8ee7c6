//! Attempts, and what follows from them, in a SQLite file.

use std::sync::LazyLock;

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;

use super::error::unread;
use super::{SqliteQuery, SqliteStore, endpoints};
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::{Endpoint, EndpointChange};
use crate::domain::id::{EndpointEpoch, Epoch, QueueName};
use crate::domain::policy::Phase;
use crate::domain::queue::Decision;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::store::columns::{attempt, attempt_columns, head_cleared, number, stored};
use crate::store::rules::SuccessBatch;
use crate::store::{AttemptQuery, Changed, Deliveries, Failure, FailureRecorded, StoreError, Success, Tally};

const ATTEMPT_ADD: &str = concat!(
    "INSERT INTO attempts (",
    attempt_columns!(),
    ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
);
/// Rows of one statement.
const ATTEMPTS_AT_ONCE: usize = 50;
static ATTEMPTS_ADD: LazyLock<String> = LazyLock::new(|| {
    let row = ["?"; 12].join(", ");
    let rows = vec![format!("({row})"); ATTEMPTS_AT_ONCE].join(", ");
    format!(
        concat!("INSERT INTO attempts (", attempt_columns!(), ") VALUES {}"),
        rows
    )
});
const HEAD: &str = "UPDATE delivery_queues SET \
    head_first_failed_at = CASE WHEN head_message = $3 AND COALESCE(head_fingerprint = $17, TRUE) \
        THEN head_first_failed_at ELSE $4 END, head_message = $3, head_fingerprint = $17, \
    head_last_failed_at = $4, head_failures = $5, head_last_status = $6, head_last_error = $7, \
    head_next_attempt_at = $8, head_parked = $9, head_phase = $10, head_attempts_allowed = $11, \
    refusals_in_row = $12, head_event_type = $13, head_polling_time = $14, head_restart_count = $15, \
    head_asked_until = $16, active_at = $4 WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL";
/// One statement for all of a batch: a statement costs more than the row that it changes.
const DELIVERED: &str = "UPDATE delivery_queues SET delivered = delivered + batch.count, last_delivered_at = $2, \
    active_at = $2, refusals_in_row = 0 \
    FROM (SELECT value ->> 0 AS name, value ->> 1 AS count FROM json_each($1)) AS batch \
    WHERE delivery_queues.name = batch.name";
const HEAD_SETTLED: &str = concat!(
    "UPDATE delivery_queues SET ",
    head_cleared!(),
    " WHERE name = $1 AND head_message = $2 AND COALESCE(head_fingerprint = $3, TRUE)"
);
const SUCCEEDED: &str = "UPDATE endpoints SET last_success_at = $2 WHERE url IN (SELECT value FROM json_each($1))";
const FAILING: &str = "SELECT count(*) AS queues, count(*) FILTER (WHERE head_last_failed_at > \
    max(COALESCE($2, 0), COALESCE((SELECT last_success_at FROM endpoints WHERE url = $1), 0))) \
    AS failing FROM delivery_queues WHERE url = $1";
const DECISION_OPEN: &str = "UPDATE delivery_queues SET decision_id = $3, decision_message = $4, \
    decision_reason = $5, decision_fingerprint = $6, decision_epoch = $2 WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL \
    AND (decision_id IS NULL OR decision_id = $3)";
const DECISION_CLOSE: &str = "UPDATE delivery_queues SET decision_id = NULL, decision_message = NULL, \
    decision_fingerprint = NULL, decision_reason = NULL, decision_epoch = NULL WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL \
    AND decision_id = $3";
/// Before the decision is cleared, as it names the message.
const DECIDED_HEAD: &str = concat!(
    "UPDATE delivery_queues SET ",
    head_cleared!(),
    " WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL AND decision_id = $3 AND head_message = decision_message \
     AND COALESCE(head_fingerprint = decision_fingerprint, TRUE)"
);
const OF_MESSAGE: &str = concat!(
    "SELECT ",
    attempt_columns!(),
    " FROM attempts WHERE message_id = $2 AND ($3 IS NULL OR queue = $3) \
     AND ($4 IS NULL OR url = $4) ORDER BY started_at DESC, id DESC LIMIT $1"
);
const OF_QUEUE: &str = concat!(
    "SELECT ",
    attempt_columns!(),
    " FROM attempts WHERE ($2 IS NULL OR message_id = $2) AND queue = $3 \
     AND ($4 IS NULL OR url = $4) ORDER BY started_at DESC, id DESC LIMIT $1"
);
const OF_URL: &str = concat!(
    "SELECT ",
    attempt_columns!(),
    " FROM attempts WHERE ($2 IS NULL OR message_id = $2) AND ($3 IS NULL OR queue = $3) \
     AND url = $4 ORDER BY started_at DESC, id DESC LIMIT $1"
);
const OF_ALL: &str = concat!(
    "SELECT ",
    attempt_columns!(),
    " FROM attempts WHERE ($2 IS NULL OR message_id = $2) AND ($3 IS NULL OR queue = $3) \
     AND ($4 IS NULL OR url = $4) ORDER BY started_at DESC, id DESC LIMIT $1"
);

#[async_trait]
impl Deliveries for SqliteStore {
    async fn failure_record(&self, failure: &Failure) -> Result<FailureRecorded, StoreError> {
        let now = self.clock.now();
        let failure = failure.clone();
        self.write("recording a failed attempt", move |connection| {
            Box::pin(async move { record_failure(connection, &failure, now).await })
        })
        .await
    }

    async fn successes_record(&self, successes: &[Success]) -> Result<(), StoreError> {
        if successes.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        let successes = successes.to_vec();
        self.write("recording successes", move |connection| {
            Box::pin(async move { record_successes(connection, &SuccessBatch::new(&successes), now).await })
        })
        .await
    }

    async fn attempt_record(&self, attempt: &Attempt) -> Result<(), StoreError> {
        let attempt = attempt.clone();
        self.write("recording an attempt", move |connection| {
            Box::pin(async move { attempt_add(connection, &attempt).await })
        })
        .await
    }

    async fn heads_failing(&self, url: &EndpointUrl, since: Option<Timestamp>) -> Result<Tally, StoreError> {
        let operation = "counting failing heads";
        let row = sqlx::query(FAILING)
            .bind(url.as_str())
            .bind(since.map(Timestamp::micros))
            .fetch_one(self.readers())
            .await
            .map_err(unread(operation))?;
        Ok(Tally {
            failing: number(&row, "failing").map_err(unread(operation))?,
            queues: number(&row, "queues").map_err(unread(operation))?,
        })
    }

    async fn decision_open(&self, queue: &QueueName, decision: &Decision) -> Result<bool, StoreError> {
        let (queue, decision) = (queue.clone(), decision.clone());
        self.write("opening a decision", move |connection| {
            Box::pin(async move { open_decision(connection, &queue, &decision).await })
        })
        .await
    }

    async fn decision_close(&self, queue: &QueueName, epoch: Epoch, decision: &str) -> Result<bool, StoreError> {
        let (queue, decision) = (queue.clone(), decision.to_owned());
        self.write("closing a decision", move |connection| {
            Box::pin(async move {
                let mut closed = false;
                for statement in [DECIDED_HEAD, DECISION_CLOSE] {
                    let query = sqlx::query(statement)
                        .bind(queue.as_str())
                        .bind(epoch.0)
                        .bind(&decision);
                    closed = query.execute(&mut *connection).await?.rows_affected() == 1;
                }
                Ok(closed)
            })
        })
        .await
    }

    async fn attempts(&self, query: &AttemptQuery) -> Result<Vec<Attempt>, StoreError> {
        let operation = "listing attempts";
        let statement = match query {
            AttemptQuery { message: Some(_), .. } => OF_MESSAGE,
            AttemptQuery { queue: Some(_), .. } => OF_QUEUE,
            AttemptQuery { url: Some(_), .. } => OF_URL,
            AttemptQuery { .. } => OF_ALL,
        };
        let rows = sqlx::query(statement)
            .bind(i64::from(query.limit))
            .bind(query.message.as_ref().map(AsRef::<str>::as_ref))
            .bind(query.queue.as_ref().map(QueueName::as_str))
            .bind(query.url.as_ref().map(EndpointUrl::as_str))
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        rows.iter()
            .map(attempt)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }
}

async fn record_failure(
    connection: &mut SqliteConnection,
    failure: &Failure,
    now: Timestamp,
) -> Result<FailureRecorded, sqlx::Error> {
    attempt_add(connection, &failure.attempt).await?;
    let next_attempt_at = failure.delay.map(|delay| now.plus(delay));
    if !head_put(connection, failure, next_attempt_at, now).await? {
        return Ok(FailureRecorded::Fenced);
    }
    if let Some(decision) = &failure.decision {
        open_decision(connection, &failure.attempt.queue, decision).await?;
    }
    let mut endpoint = None;
    let mut endpoint_changed = true;
    if let Some((expected, change)) = &failure.endpoint {
        endpoint = endpoint_change(connection, &failure.attempt, (*expected, change), now).await?;
        endpoint_changed = endpoint.is_some();
    }
    Ok(FailureRecorded::Recorded {
        next_attempt_at,
        endpoint,
        endpoint_changed,
    })
}

/// The endpoint after the change, or `None` when somebody changed it first.
async fn endpoint_change(
    connection: &mut SqliteConnection,
    attempt: &Attempt,
    (expected, change): (EndpointEpoch, &EndpointChange),
    now: Timestamp,
) -> Result<Option<Box<Endpoint>>, sqlx::Error> {
    endpoints::make(connection, &attempt.url, now).await?;
    let changed = endpoints::apply(connection, &attempt.url, Some(expected), (change, Some(attempt)), now).await?;
    Ok(match changed {
        Changed::Done { now, .. } => Some(now),
        Changed::Stale(_) | Changed::Unknown => None,
    })
}

/// False when the lease is no longer held under the attempt's epoch.
async fn head_put(
    connection: &mut SqliteConnection,
    failure: &Failure,
    next_attempt_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let (head, terms) = (&failure.head, &failure.terms);
    let put = sqlx::query(HEAD)
        .bind(failure.attempt.queue.as_str())
        .bind(failure.attempt.epoch.0)
        .bind(head.message.as_str())
        .bind(now.micros())
        .bind(i64::from(head.failures))
        .bind(head.last_status.map(i64::from))
        .bind(&head.last_error)
        .bind(next_attempt_at.filter(|_| !head.parked).map(Timestamp::micros))
        .bind(head.parked)
        .bind(head.phase.map(Phase::as_str))
        .bind(i64::from(head.attempts_allowed))
        .bind(i64::from(failure.refusals_in_row))
        .bind(terms.event_type.as_deref())
        .bind(terms.own.polling_time_s.map(i64::from))
        .bind(terms.own.restart_count.map(i64::from))
        .bind(terms.asked.map(|asked| now.plus(asked).micros()))
        .bind(head.fingerprint.as_ref().map(|print| print.as_bytes().as_slice()))
        .execute(connection)
        .await?;
    Ok(put.rows_affected() == 1)
}

async fn open_decision(
    connection: &mut SqliteConnection,
    queue: &QueueName,
    decision: &Decision,
) -> Result<bool, sqlx::Error> {
    let opened = sqlx::query(DECISION_OPEN)
        .bind(queue.as_str())
        .bind(decision.epoch.0)
        .bind(&decision.id)
        .bind(decision.message.as_str())
        .bind(&decision.reason)
        .bind(decision.fingerprint.as_ref().map(|print| print.as_bytes().as_slice()))
        .execute(connection)
        .await?;
    Ok(opened.rows_affected() == 1)
}

/// A queue that is not known is passed over.
async fn record_successes(
    connection: &mut SqliteConnection,
    batch: &SuccessBatch<'_>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    attempts_add(connection, &batch.attempts).await?;
    let queues: Vec<_> = batch
        .queues
        .iter()
        .map(|(queue, count)| (queue.as_str(), *count))
        .collect();
    sqlx::query(DELIVERED)
        .bind(serde_json::json!(queues).to_string())
        .bind(now.micros())
        .execute(&mut *connection)
        .await?;
    for (attempt, fingerprint) in &batch.settled {
        sqlx::query(HEAD_SETTLED)
            .bind(attempt.queue.as_str())
            .bind(attempt.message_id.as_str())
            .bind(fingerprint.as_bytes().as_slice())
            .execute(&mut *connection)
            .await?;
    }
    let urls: Vec<_> = batch.urls.iter().map(|url| url.as_str()).collect();
    sqlx::query(SUCCEEDED)
        .bind(serde_json::json!(urls).to_string())
        .bind(now.micros())
        .execute(connection)
        .await?;
    Ok(())
}

async fn attempts_add(connection: &mut SqliteConnection, attempts: &[&Attempt]) -> Result<(), sqlx::Error> {
    let (many, rest) = attempts.as_chunks::<ATTEMPTS_AT_ONCE>();
    for some in many {
        let query = some.iter().fold(sqlx::query(ATTEMPTS_ADD.as_str()), |query, attempt| {
            values_of(query, attempt)
        });
        query.execute(&mut *connection).await?;
    }
    for attempt in rest {
        attempt_add(&mut *connection, attempt).await?;
    }
    Ok(())
}

async fn attempt_add(connection: &mut SqliteConnection, attempt: &Attempt) -> Result<(), sqlx::Error> {
    values_of(sqlx::query(ATTEMPT_ADD), attempt).execute(connection).await?;
    Ok(())
}

/// Binds the values of one row.
fn values_of<'q>(query: SqliteQuery<'q>, attempt: &'q Attempt) -> SqliteQuery<'q> {
    query
        .bind(attempt.message_id.as_str())
        .bind(attempt.queue.as_str())
        .bind(attempt.url.as_str())
        .bind(i64::from(attempt.number))
        .bind(attempt.epoch.0)
        .bind(attempt.started_at.micros())
        .bind(stored(attempt.duration_ms))
        .bind(attempt.class.as_str())
        .bind(attempt.status.map(i64::from))
        .bind(&attempt.error)
        .bind(&attempt.response)
        .bind(attempt.counted)
}
