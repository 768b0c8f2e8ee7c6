//! Attempts, and what follows from them, on PostgreSQL.

use async_trait::async_trait;
use sqlx::postgres::PgConnection;

use super::{PostgresStore, endpoints, storable, storable_optional};
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

const ATTEMPTS_ADD: &str = concat!(
    "INSERT INTO redrive.attempts (",
    attempt_columns!(),
    ") SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], \
     $7::bigint[], $8::text[], $9::bigint[], $10::text[], $11::bytea[], $12::boolean[])"
);
const HEAD: &str = "UPDATE redrive.delivery_queues SET \
    head_first_failed_at = CASE WHEN head_message = $3 AND COALESCE(head_fingerprint = $17, TRUE) \
        THEN head_first_failed_at ELSE $4 END, head_message = $3, head_fingerprint = $17, \
    head_last_failed_at = $4, head_failures = $5, head_last_status = $6, head_last_error = $7, \
    head_next_attempt_at = $8, head_parked = $9, head_phase = $10, head_attempts_allowed = $11, \
    refusals_in_row = $12, head_event_type = $13, head_polling_time = $14, head_restart_count = $15, \
    head_asked_until = $16, active_at = $4 WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL";
const RECORDED: &str = "SELECT EXISTS (SELECT 1 FROM redrive.attempts WHERE queue = $1 AND started_at = $2 \
    AND message_id = $3 AND epoch = $4 AND number = $5)";
const HEAD_OF: &str = "SELECT head_next_attempt_at FROM redrive.delivery_queues \
    WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL AND head_message = $3";
const QUEUES_LOCK: &str = "SELECT 1 FROM redrive.delivery_queues WHERE name = ANY($1) ORDER BY name FOR UPDATE";
const DELIVERED: &str = "UPDATE redrive.delivery_queues q SET delivered = q.delivered + batch.count, \
    last_delivered_at = $3, active_at = $3, refusals_in_row = 0 \
    FROM unnest($1::text[], $2::bigint[]) AS batch (name, count) WHERE q.name = batch.name";
const HEADS_SETTLED: &str = concat!(
    "UPDATE redrive.delivery_queues q SET ",
    head_cleared!(),
    " FROM unnest($1::text[], $2::text[], $3::bytea[]) AS batch (name, message, fingerprint) \
     WHERE q.name = batch.name AND q.head_message = batch.message \
     AND COALESCE(q.head_fingerprint = batch.fingerprint, TRUE)"
);
const ENDPOINTS_LOCK: &str = "SELECT 1 FROM redrive.endpoints \
    WHERE url_key IN (SELECT redrive.url_key(url) FROM unnest($1::text[]) AS batch (url)) \
    ORDER BY url_key FOR UPDATE";
const SUCCEEDED: &str = "UPDATE redrive.endpoints SET last_success_at = $2 \
    WHERE url_key IN (SELECT redrive.url_key(url) FROM unnest($1::text[]) AS batch (url))";
const FAILING: &str = "SELECT count(*) AS queues, count(*) FILTER (WHERE head_last_failed_at > \
    GREATEST($2::bigint, (SELECT last_success_at FROM redrive.endpoints WHERE url_key = redrive.url_key($1)), 0)) \
    AS failing FROM redrive.delivery_queues WHERE redrive.url_key(url) = redrive.url_key($1)";
const DECISION_OPEN: &str = "UPDATE redrive.delivery_queues SET decision_id = $3, decision_message = $4, \
    decision_reason = $5, decision_fingerprint = $6, decision_epoch = $2 WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL \
    AND (decision_id IS NULL OR decision_id = $3)";
const DECISION_CLOSE: &str = "UPDATE redrive.delivery_queues SET decision_id = NULL, decision_message = NULL, \
    decision_fingerprint = NULL, decision_reason = NULL, decision_epoch = NULL WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL \
    AND decision_id = $3";
/// Before the decision is cleared, as it names the message.
const DECIDED_HEAD: &str = concat!(
    "UPDATE redrive.delivery_queues SET ",
    head_cleared!(),
    " WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL AND decision_id = $3 AND head_message = decision_message \
     AND COALESCE(head_fingerprint = decision_fingerprint, TRUE)"
);
const OF_MESSAGE: &str = concat!(
    "SELECT ",
    attempt_columns!(),
    " FROM redrive.attempts WHERE message_id = $2 AND ($3::text IS NULL OR queue = $3) \
     AND ($4::text IS NULL OR url = $4) ORDER BY started_at DESC, id DESC LIMIT $1"
);
const OF_QUEUE: &str = concat!(
    "SELECT ",
    attempt_columns!(),
    " FROM redrive.attempts WHERE ($2::text IS NULL OR message_id = $2) AND queue = $3 \
     AND ($4::text IS NULL OR url = $4) ORDER BY started_at DESC, id DESC LIMIT $1"
);
const OF_URL: &str = concat!(
    "SELECT ",
    attempt_columns!(),
    " FROM redrive.attempts WHERE ($2::text IS NULL OR message_id = $2) AND ($3::text IS NULL OR queue = $3) \
     AND redrive.url_key(url) = redrive.url_key($4) ORDER BY started_at DESC, id DESC LIMIT $1"
);
const OF_ALL: &str = concat!(
    "SELECT ",
    attempt_columns!(),
    " FROM redrive.attempts WHERE ($2::text IS NULL OR message_id = $2) AND ($3::text IS NULL OR queue = $3) \
     AND ($4::text IS NULL OR url = $4) ORDER BY started_at DESC, id DESC LIMIT $1"
);

#[async_trait]
impl Deliveries for PostgresStore {
    async fn failure_record(&self, failure: &Failure) -> Result<FailureRecorded, StoreError> {
        self.transaction(
            "recording a failed attempt",
            async |connection: &mut PgConnection, now| record_failure(connection, failure, now).await,
        )
        .await
    }

    async fn successes_record(&self, successes: &[Success]) -> Result<(), StoreError> {
        if successes.is_empty() {
            return Ok(());
        }
        let batch = SuccessBatch::new(successes);
        self.transaction("recording successes", async |connection: &mut PgConnection, now| {
            record_successes(connection, &batch, now).await
        })
        .await
    }

    async fn attempt_record(&self, attempt: &Attempt) -> Result<(), StoreError> {
        self.call("recording an attempt", async |connection: &mut PgConnection| {
            attempts_add(connection, &[attempt]).await
        })
        .await
    }

    async fn heads_failing(&self, url: &EndpointUrl, since: Option<Timestamp>) -> Result<Tally, StoreError> {
        self.call("counting failing heads", async |connection: &mut PgConnection| {
            let query = sqlx::query(FAILING)
                .bind(url.as_str())
                .bind(since.map(Timestamp::micros));
            let row = query.fetch_one(connection).await?;
            Ok(Tally {
                failing: number(&row, "failing")?,
                queues: number(&row, "queues")?,
            })
        })
        .await
    }

    async fn decision_open(&self, queue: &QueueName, decision: &Decision) -> Result<bool, StoreError> {
        self.call("opening a decision", async |connection: &mut PgConnection| {
            open_decision(connection, queue, decision).await
        })
        .await
    }

    async fn decision_close(&self, queue: &QueueName, epoch: Epoch, decision: &str) -> Result<bool, StoreError> {
        self.transaction("closing a decision", async |connection: &mut PgConnection, _| {
            let mut closed = false;
            for statement in [DECIDED_HEAD, DECISION_CLOSE] {
                let query = sqlx::query(statement)
                    .bind(storable(queue.as_str()))
                    .bind(epoch.0)
                    .bind(decision);
                closed = query.execute(&mut *connection).await?.rows_affected() == 1;
            }
            Ok(closed)
        })
        .await
    }

    async fn attempts(&self, query: &AttemptQuery) -> Result<Vec<Attempt>, StoreError> {
        let statement = match query {
            AttemptQuery { message: Some(_), .. } => OF_MESSAGE,
            AttemptQuery { queue: Some(_), .. } => OF_QUEUE,
            AttemptQuery { url: Some(_), .. } => OF_URL,
            AttemptQuery { .. } => OF_ALL,
        };
        let statement = sqlx::query(statement)
            .bind(i64::from(query.limit))
            .bind(query.message.as_ref().map(AsRef::<str>::as_ref))
            .bind(query.queue.as_ref().map(|queue| storable(queue.as_str())))
            .bind(query.url.as_ref().map(EndpointUrl::as_str));
        self.call("listing attempts", async |connection: &mut PgConnection| {
            let rows = statement.fetch_all(connection).await?;
            rows.iter().map(attempt).collect()
        })
        .await
    }
}

async fn record_failure(
    connection: &mut PgConnection,
    failure: &Failure,
    now: Timestamp,
) -> Result<FailureRecorded, sqlx::Error> {
    if is_recorded(connection, &failure.attempt).await? {
        return recorded_before(connection, failure).await;
    }
    attempts_add(connection, &[&failure.attempt]).await?;
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

/// Whether this very attempt is in the log: a commit whose answer was lost is asked for again.
async fn is_recorded(connection: &mut PgConnection, attempt: &Attempt) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(RECORDED)
        .bind(storable(attempt.queue.as_str()))
        .bind(attempt.started_at.micros())
        .bind(attempt.message_id.as_str())
        .bind(attempt.epoch.0)
        .bind(i64::from(attempt.number))
        .fetch_one(connection)
        .await
}

/// Everything that follows from a failure was committed together with its attempt: nothing is done twice.
async fn recorded_before(connection: &mut PgConnection, failure: &Failure) -> Result<FailureRecorded, sqlx::Error> {
    let attempt = &failure.attempt;
    let head: Option<Option<i64>> = sqlx::query_scalar(HEAD_OF)
        .bind(storable(attempt.queue.as_str()))
        .bind(attempt.epoch.0)
        .bind(failure.head.message.as_str())
        .fetch_optional(&mut *connection)
        .await?;
    let Some(next_attempt_at) = head else {
        return Ok(FailureRecorded::Fenced);
    };
    let found = endpoints::get_all(connection, std::slice::from_ref(&attempt.url)).await?;
    let endpoint = found.into_iter().next().filter(|_| failure.endpoint.is_some());
    Ok(FailureRecorded::Recorded {
        next_attempt_at: next_attempt_at.map(Timestamp::from_micros),
        endpoint: endpoint.map(Box::new),
        endpoint_changed: true,
    })
}

/// The endpoint after the change, or `None` when somebody changed it first.
async fn endpoint_change(
    connection: &mut PgConnection,
    attempt: &Attempt,
    (expected, change): (EndpointEpoch, &EndpointChange),
    now: Timestamp,
) -> Result<Option<Box<Endpoint>>, sqlx::Error> {
    endpoints::make(connection, &[attempt.url.as_str()], now).await?;
    let changed = endpoints::apply(connection, &attempt.url, Some(expected), (change, Some(attempt)), now).await?;
    Ok(match changed {
        Changed::Done { now, .. } => Some(now),
        Changed::Stale(_) | Changed::Unknown => None,
    })
}

/// False when the lease is no longer held under the attempt's epoch.
async fn head_put(
    connection: &mut PgConnection,
    failure: &Failure,
    next_attempt_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let (head, terms) = (&failure.head, &failure.terms);
    let put = sqlx::query(HEAD)
        .bind(storable(failure.attempt.queue.as_str()))
        .bind(failure.attempt.epoch.0)
        .bind(head.message.as_str())
        .bind(now.micros())
        .bind(i64::from(head.failures))
        .bind(head.last_status.map(i64::from))
        .bind(storable_optional(head.last_error.as_ref()))
        .bind(next_attempt_at.filter(|_| !head.parked).map(Timestamp::micros))
        .bind(head.parked)
        .bind(head.phase.map(Phase::as_str))
        .bind(i64::from(head.attempts_allowed))
        .bind(i64::from(failure.refusals_in_row))
        .bind(storable_optional(terms.event_type.as_ref()))
        .bind(terms.own.polling_time_s.map(i64::from))
        .bind(terms.own.restart_count.map(i64::from))
        .bind(terms.asked.map(|asked| now.plus(asked).micros()))
        .bind(head.fingerprint.as_ref().map(|print| print.as_bytes().as_slice()))
        .execute(connection)
        .await?;
    Ok(put.rows_affected() == 1)
}

async fn open_decision(
    connection: &mut PgConnection,
    queue: &QueueName,
    decision: &Decision,
) -> Result<bool, sqlx::Error> {
    let opened = sqlx::query(DECISION_OPEN)
        .bind(storable(queue.as_str()))
        .bind(decision.epoch.0)
        .bind(&decision.id)
        .bind(decision.message.as_str())
        .bind(storable(&decision.reason))
        .bind(decision.fingerprint.as_ref().map(|print| print.as_bytes().as_slice()))
        .execute(connection)
        .await?;
    Ok(opened.rows_affected() == 1)
}

/// Queues first, then endpoints, each in one statement. A queue that is not known is passed over.
async fn record_successes(
    connection: &mut PgConnection,
    batch: &SuccessBatch<'_>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    attempts_add(connection, &batch.attempts).await?;
    let names: Vec<String> = batch.queues.iter().map(|(name, _)| storable(name.as_str())).collect();
    let counts: Vec<i64> = batch.queues.iter().map(|(_, count)| *count).collect();
    sqlx::query(QUEUES_LOCK).bind(&names).execute(&mut *connection).await?;
    sqlx::query(DELIVERED)
        .bind(names)
        .bind(counts)
        .bind(now.micros())
        .execute(&mut *connection)
        .await?;
    if !batch.settled.is_empty() {
        let names: Vec<String> = batch
            .settled
            .iter()
            .map(|(attempt, _)| storable(attempt.queue.as_str()))
            .collect();
        let messages: Vec<&str> = batch
            .settled
            .iter()
            .map(|(attempt, _)| attempt.message_id.as_str())
            .collect();
        let fingerprints: Vec<&[u8]> = batch
            .settled
            .iter()
            .map(|(_, fingerprint)| fingerprint.as_bytes().as_slice())
            .collect();
        sqlx::query(HEADS_SETTLED)
            .bind(names)
            .bind(messages)
            .bind(fingerprints)
            .execute(&mut *connection)
            .await?;
    }
    let urls: Vec<&str> = batch.urls.iter().map(|url| url.as_str()).collect();
    sqlx::query(ENDPOINTS_LOCK)
        .bind(&urls)
        .execute(&mut *connection)
        .await?;
    sqlx::query(SUCCEEDED)
        .bind(urls)
        .bind(now.micros())
        .execute(connection)
        .await?;
    Ok(())
}

async fn attempts_add(connection: &mut PgConnection, attempts: &[&Attempt]) -> Result<(), sqlx::Error> {
    let of = |read: fn(&Attempt) -> i64| attempts.iter().map(|attempt| read(attempt)).collect::<Vec<i64>>();
    let text = |read: fn(&Attempt) -> &str| {
        attempts
            .iter()
            .map(|attempt| storable(read(attempt)))
            .collect::<Vec<_>>()
    };
    let errors: Vec<Option<String>> = attempts
        .iter()
        .map(|attempt| storable_optional(attempt.error.as_ref()))
        .collect();
    let responses: Vec<Option<Vec<u8>>> = attempts.iter().map(|attempt| attempt.response.clone()).collect();
    let statuses: Vec<Option<i64>> = attempts.iter().map(|attempt| attempt.status.map(i64::from)).collect();
    let counted: Vec<bool> = attempts.iter().map(|attempt| attempt.counted).collect();
    sqlx::query(ATTEMPTS_ADD)
        .bind(text(|attempt| attempt.message_id.as_str()))
        .bind(text(|attempt| attempt.queue.as_str()))
        .bind(text(|attempt| attempt.url.as_str()))
        .bind(of(|attempt| i64::from(attempt.number)))
        .bind(of(|attempt| attempt.epoch.0))
        .bind(of(|attempt| attempt.started_at.micros()))
        .bind(of(|attempt| stored(attempt.duration_ms)))
        .bind(text(|attempt| attempt.class.as_str()))
        .bind(statuses)
        .bind(errors)
        .bind(responses)
        .bind(counted)
        .execute(connection)
        .await?;
    Ok(())
}
