//! Attempts, and what follows from them.

use async_trait::async_trait;

use super::{Calls, Driver, Row, Session, Statement, columns, endpoints, queues, values};
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::{Endpoint, EndpointChange};
use crate::domain::fingerprint::Fingerprint;
use crate::domain::id::{EndpointEpoch, Epoch, QueueName};
use crate::domain::outcome::OutcomeClass;
use crate::domain::policy::Phase;
use crate::domain::queue::Decision;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::store::columns::{attempt, attempt_columns, head_cleared, number, time_optional};
use crate::store::rules::SuccessBatch;
use crate::store::{AttemptQuery, Changed, Deliveries, Failure, FailureRecorded, StoreError, Success, Tally};

static ATTEMPTS_ADD: Statement = Statement::new(concat!(
    "INSERT INTO redrive.attempts (",
    attempt_columns!(),
    ") SELECT ",
    attempt_columns!(),
    " FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], \
     $7::bigint[], $8::text[], $9::bigint[], $10::text[], $11::bytea[], $12::boolean[]) AS a (",
    attempt_columns!(),
    ")"
));
static HEAD: Statement = Statement::new(
    "UPDATE redrive.delivery_queues SET \
     head_first_failed_at = CASE WHEN head_message = $3 AND COALESCE(head_fingerprint = $17, TRUE) \
        THEN head_first_failed_at ELSE $4 END, head_message = $3, head_fingerprint = $17, \
     head_last_failed_at = $4, head_failures = $5, head_last_status = $6, head_last_error = $7, \
     head_next_attempt_at = $8, head_parked = $9, head_phase = $10, head_attempts_allowed = $11, \
     refusals_in_row = $12, head_event_type = $13, head_polling_time = $14, head_restart_count = $15, \
     head_asked_until = $16, active_at = $4 WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL",
);
static RECORDED: Statement = Statement::new(
    "SELECT 1 FROM redrive.attempts WHERE queue = $1 AND started_at = $2 AND message_id = $3 AND epoch = $4 \
     AND number = $5 LIMIT 1",
);
static HEAD_OF: Statement = Statement::new(
    "SELECT head_next_attempt_at FROM redrive.delivery_queues \
     WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL AND head_message = $3",
);
static DELIVERED: Statement = Statement::new(
    "UPDATE redrive.delivery_queues AS q SET delivered = q.delivered + batch.count, last_delivered_at = $3, \
     active_at = $3, refusals_in_row = 0 FROM unnest($1::text[], $2::bigint[]) AS batch (name, count) \
     WHERE q.name = batch.name",
);
static HEADS_SETTLED: Statement = Statement::new(concat!(
    "UPDATE redrive.delivery_queues AS q SET ",
    head_cleared!(),
    " FROM unnest($1::text[], $2::text[], $3::bytea[]) AS batch (name, message, fingerprint) \
     WHERE q.name = batch.name AND q.head_message = batch.message \
     AND COALESCE(q.head_fingerprint = batch.fingerprint, TRUE)"
));
static SUCCEEDED: Statement = Statement::new(
    "UPDATE redrive.endpoints SET last_success_at = $2, \
     last_status = CASE WHEN state = 'available' THEN NULL ELSE last_status END, \
     last_error = CASE WHEN state = 'available' THEN NULL ELSE last_error END \
     WHERE url_key IN (SELECT redrive.url_key(asked) FROM unnest($1::text[]) AS a (asked))",
);
/// What ends a row of failures: `$2`, or what is stored, whichever is later.
macro_rules! last_success {
    () => {
        "GREATEST(COALESCE($2::bigint, 0), \
         COALESCE((SELECT last_success_at FROM redrive.endpoints WHERE url_key = redrive.url_key($1)), 0))"
    };
}
/// A head that failed a second before the last success says nothing of the URL, which took another message since; a success
/// is written down up to a second after it came. A queue whose
/// message was refused may have no head any more, and no row: that message is a dead letter, or its sequence has ended.
static FAILING: Statement = Statement::new(concat!(
    "SELECT count(DISTINCT name) AS queues, count(DISTINCT name) FILTER (WHERE name <> $3 AND failed_at > ",
    last_success!(),
    ") AS failing, NULLIF(",
    last_success!(),
    ", 0) AS last_success FROM (SELECT name, CASE WHEN head_first_failed_at + 1000000 <= ",
    last_success!(),
    " THEN head_first_failed_at ELSE head_last_failed_at END AS failed_at FROM redrive.delivery_queues \
     WHERE redrive.url_key(url) = redrive.url_key($1) \
     UNION ALL SELECT queue, refused_at FROM redrive.refused_queues \
     WHERE url_key = redrive.url_key($1) AND refused_at > ",
    last_success!(),
    ") AS met"
));
/// One that failed before the last success does not count, as above.
static REFUSED: Statement = Statement::new(
    "INSERT INTO redrive.refused_queues (queue, url, refused_at) SELECT $1::text, $2::text, $3::bigint \
     WHERE NOT EXISTS (SELECT 1 FROM redrive.delivery_queues AS q, redrive.endpoints AS e WHERE q.name = $1 \
        AND e.url_key = redrive.url_key($2) AND q.head_first_failed_at + 1000000 <= e.last_success_at) \
     ON CONFLICT (queue) DO UPDATE SET refused_at = excluded.refused_at",
);
static DECISION_OPEN: Statement = Statement::new(
    "UPDATE redrive.delivery_queues SET decision_id = $3, decision_message = $4, decision_reason = $5, \
     decision_fingerprint = $6, decision_epoch = $2 WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL \
     AND (decision_id IS NULL OR decision_id = $3)",
);
static DECISION_CLOSE: Statement = Statement::new(
    "UPDATE redrive.delivery_queues SET decision_id = NULL, decision_message = NULL, decision_fingerprint = NULL, \
     decision_reason = NULL, decision_epoch = NULL WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL \
     AND decision_id = $3",
);
/// Before the decision is cleared, as it names the message.
static DECIDED_HEAD: Statement = Statement::new(concat!(
    "UPDATE redrive.delivery_queues SET ",
    head_cleared!(),
    " WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL AND decision_id = $3 AND head_message = decision_message \
     AND COALESCE(head_fingerprint = decision_fingerprint, TRUE)"
));
/// What is given stands alone, so that its index serves it.
macro_rules! attempts {
    ($message:literal, $queue:literal, $url:literal) => {
        Statement::new(concat!(
            "SELECT ",
            attempt_columns!(),
            " FROM redrive.attempts WHERE ",
            $message,
            " AND ",
            $queue,
            " AND ",
            $url,
            " ORDER BY started_at DESC, id DESC LIMIT $1"
        ))
    };
}
static OF_MESSAGE: Statement = attempts!(
    "message_id = $2",
    "($3::text IS NULL OR queue = $3)",
    "($4::text IS NULL OR url = $4)"
);
static OF_QUEUE: Statement = attempts!(
    "($2::text IS NULL OR message_id = $2)",
    "queue = $3",
    "($4::text IS NULL OR url = $4)"
);
static OF_URL: Statement = attempts!(
    "($2::text IS NULL OR message_id = $2)",
    "($3::text IS NULL OR queue = $3)",
    "redrive.url_key(url) = redrive.url_key($4)"
);
static OF_ALL: Statement = attempts!(
    "($2::text IS NULL OR message_id = $2)",
    "($3::text IS NULL OR queue = $3)",
    "($4::text IS NULL OR url = $4)"
);

#[async_trait]
impl<D: Driver> Deliveries for D {
    async fn failure_record(&self, failure: &Failure) -> Result<FailureRecorded, StoreError> {
        let failure = failure.clone();
        self.transaction("recording a failed attempt", move |mut session, now| {
            Box::pin(async move { record_failure(&mut session, &failure, now).await })
        })
        .await
    }

    async fn successes_record(&self, successes: &[Success]) -> Result<(), StoreError> {
        if successes.is_empty() {
            return Ok(());
        }
        let successes = successes.to_vec();
        self.transaction("recording successes", move |mut session, now| {
            Box::pin(async move { record_successes(&mut session, &SuccessBatch::new(&successes), now).await })
        })
        .await
    }

    async fn attempt_record(&self, attempt: &Attempt) -> Result<(), StoreError> {
        let added = self.change("recording an attempt", &ATTEMPTS_ADD, attempt_values(&[attempt]));
        added.await.map(drop)
    }

    async fn heads_failing(
        &self,
        url: &EndpointUrl,
        since: Option<Timestamp>,
        but: &QueueName,
    ) -> Result<Tally, StoreError> {
        let tally = |row: &Row| {
            Ok(Tally {
                failing: number(row, "failing")?,
                queues: number(row, "queues")?,
                last_success: time_optional(row, "last_success")?,
            })
        };
        self.one("counting failing heads", &FAILING, values![url, since, but], tally)
            .await
    }

    async fn decision_open(&self, queue: &QueueName, decision: &Decision) -> Result<bool, StoreError> {
        let opened = self.change("opening a decision", &DECISION_OPEN, decision_values(queue, decision));
        Ok(opened.await? == 1)
    }

    async fn decision_close(&self, queue: &QueueName, epoch: Epoch, decision: &str) -> Result<bool, StoreError> {
        let closing = values![queue, epoch, decision];
        self.transaction("closing a decision", move |mut session, _| {
            Box::pin(async move {
                session.change(&DECIDED_HEAD, closing.clone()).await?;
                Ok(session.change(&DECISION_CLOSE, closing).await? == 1)
            })
        })
        .await
    }

    async fn attempts(&self, query: &AttemptQuery) -> Result<Vec<Attempt>, StoreError> {
        let statement = match query {
            AttemptQuery { message: Some(_), .. } => &OF_MESSAGE,
            AttemptQuery { queue: Some(_), .. } => &OF_QUEUE,
            AttemptQuery { url: Some(_), .. } => &OF_URL,
            AttemptQuery { .. } => &OF_ALL,
        };
        let message = query.message.as_ref().map(AsRef::<str>::as_ref);
        let values = values![query.limit, message, &query.queue, &query.url];
        self.list("listing attempts", statement, values, attempt).await
    }
}

async fn record_failure(
    session: &mut Session<'_>,
    failure: &Failure,
    now: Timestamp,
) -> Result<FailureRecorded, sqlx::Error> {
    let attempt = &failure.attempt;
    if session.loses_answers() && is_recorded(session, attempt).await? {
        return recorded_before(session, failure).await;
    }
    session.change(&ATTEMPTS_ADD, attempt_values(&[attempt])).await?;
    let next_attempt_at = failure.delay.map(|delay| now.plus(delay));
    if session
        .change(&HEAD, head_values(failure, next_attempt_at, now))
        .await?
        != 1
    {
        return Ok(FailureRecorded::Fenced);
    }
    if let Some(decision) = &failure.decision {
        let values = decision_values(&attempt.queue, decision);
        session.change(&DECISION_OPEN, values).await?;
    }
    let mut endpoint = None;
    let mut endpoint_changed = true;
    if let Some((expected, change)) = &failure.endpoint {
        endpoint = endpoint_change(session, attempt, (*expected, change), now).await?;
        endpoint_changed = endpoint.is_some();
    }
    if let Some(request) = failure.paced
        && endpoint_changed
        && let Some(after) = endpoints::failed_at_its_pace(session, (attempt, request), now).await?
    {
        endpoint = Some(after);
    }
    // Last, behind the endpoint, as where a person opens that.
    if attempt.class == OutcomeClass::Refused {
        session
            .change(&REFUSED, values![&attempt.queue, &attempt.url, now])
            .await?;
    }
    Ok(FailureRecorded::Recorded {
        next_attempt_at,
        endpoint,
        endpoint_changed,
    })
}

/// Whether this very attempt is in the log: a commit whose answer was lost is asked for again.
async fn is_recorded(session: &mut Session<'_>, attempt: &Attempt) -> Result<bool, sqlx::Error> {
    let values = values![
        &attempt.queue,
        attempt.started_at,
        &attempt.message_id,
        attempt.epoch,
        attempt.number,
    ];
    session.has(&RECORDED, values).await
}

/// Everything that follows from a failure was committed together with its attempt: nothing is done twice.
async fn recorded_before(session: &mut Session<'_>, failure: &Failure) -> Result<FailureRecorded, sqlx::Error> {
    let attempt = &failure.attempt;
    let values = values![&attempt.queue, attempt.epoch, &failure.head.message];
    let head = session.find(&HEAD_OF, values, |row| time_optional(row, "head_next_attempt_at"));
    let Some(next_attempt_at) = head.await? else {
        return Ok(FailureRecorded::Fenced);
    };
    let found = endpoints::get_all(session, vec![attempt.url.clone()]).await?;
    let endpoint = found
        .into_iter()
        .next()
        .filter(|_| failure.endpoint.is_some() || failure.paced.is_some());
    Ok(FailureRecorded::Recorded {
        next_attempt_at,
        endpoint: endpoint.map(Box::new),
        endpoint_changed: true,
    })
}

/// The endpoint after the change, or `None` when somebody changed it first.
async fn endpoint_change(
    session: &mut Session<'_>,
    attempt: &Attempt,
    (expected, change): (EndpointEpoch, &EndpointChange),
    now: Timestamp,
) -> Result<Option<Box<Endpoint>>, sqlx::Error> {
    endpoints::make(session, vec![attempt.url.clone()], now).await?;
    let changed = endpoints::apply(session, &attempt.url, Some(expected), (change, Some(attempt)), now).await?;
    Ok(match changed {
        Changed::Done { now, .. } => Some(now),
        Changed::Stale(_) | Changed::Unknown => None,
    })
}

/// They change nothing when the lease is no longer held under the attempt's epoch.
fn head_values(failure: &Failure, next_attempt_at: Option<Timestamp>, now: Timestamp) -> Vec<super::Value> {
    let (head, terms) = (&failure.head, &failure.terms);
    values![
        &failure.attempt.queue,
        failure.attempt.epoch,
        &head.message,
        now,
        head.failures,
        head.last_status,
        &head.last_error,
        next_attempt_at.filter(|_| !head.parked),
        head.parked,
        head.phase.map(Phase::as_str),
        head.attempts_allowed,
        failure.refusals_in_row,
        &terms.event_type,
        terms.own.polling_time_s,
        terms.own.restart_count,
        terms.asked.map(|asked| now.plus(asked)),
        head.fingerprint.as_ref().map(bytes_of),
    ]
}

fn decision_values(queue: &QueueName, decision: &Decision) -> Vec<super::Value> {
    values![
        queue,
        decision.epoch,
        &decision.id,
        &decision.message,
        &decision.reason,
        decision.fingerprint.as_ref().map(bytes_of),
    ]
}

fn bytes_of(fingerprint: &Fingerprint) -> &[u8] {
    fingerprint.as_bytes().as_slice()
}

/// Queues first, then endpoints, each in one statement. A queue that is not known is passed over.
async fn record_successes(
    session: &mut Session<'_>,
    batch: &SuccessBatch<'_>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    session.change(&ATTEMPTS_ADD, attempt_values(&batch.attempts)).await?;
    let names = batch.queues.iter().map(|(name, _)| (*name).clone());
    queues::lock(session, names.collect()).await?;
    let delivered = columns![batch.queues => |one| one.0, one.1];
    session.change(&DELIVERED, values![delivered, now]).await?;
    if !batch.settled.is_empty() {
        let settled = columns![batch.settled => |one|
            &one.0.queue,
            &one.0.message_id,
            bytes_of(&one.1),
        ];
        session.change(&HEADS_SETTLED, values![settled]).await?;
    }
    let urls: Vec<EndpointUrl> = batch.urls.iter().map(|url| (*url).clone()).collect();
    endpoints::lock(session, urls.clone()).await?;
    session.change(&SUCCEEDED, values![urls, now]).await.map(drop)
}

fn attempt_values(attempts: &[&Attempt]) -> Vec<super::Value> {
    let columns = columns![attempts => |attempt|
        &attempt.message_id,
        &attempt.queue,
        &attempt.url,
        attempt.number,
        attempt.epoch,
        attempt.started_at,
        attempt.duration_ms,
        attempt.class.as_str(),
        attempt.status,
        &attempt.error,
        &attempt.response,
        attempt.counted,
    ];
    values![columns]
}
