//! Endpoints and their state in a SQLite file.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::error::unread;
use super::{SqliteStore, micros_optional, queues};
use crate::ambient;
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::{Endpoint, EndpointChange, EndpointState};
use crate::domain::id::{EndpointEpoch, QueueName};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::store::columns::{endpoint, endpoint_columns, endpoint_url, micros, number, stored};
use crate::store::rules::{endpoint_after, raises};
use crate::store::{Changed, EndpointQuery, Endpoints, Numbers, ProbeNext, ProbeOutcome, StoreError};

const NUMBERS: &str = "SELECT (SELECT value FROM numbers WHERE name = 'generation'), \
    (SELECT value FROM numbers WHERE name = 'epoch')";
/// See [`next_number`](crate::store::rules::next_number).
const GENERATION_RAISE: &str = "UPDATE numbers SET value = max(value + 1, $1) WHERE name = 'generation'";
const NUMBER_RAISE: &str = "UPDATE numbers SET value = max(value, $2) WHERE name = $1";
const NOT_AVAILABLE: &str = concat!(
    "SELECT ",
    endpoint_columns!(),
    " FROM endpoints WHERE state <> 'available' ORDER BY url"
);
const ANSWERED: &str = "SELECT url FROM endpoints WHERE last_success_at IS NOT NULL \
    ORDER BY last_success_at DESC LIMIT $1";
const GET: &str = concat!("SELECT ", endpoint_columns!(), " FROM endpoints WHERE url = $1");
const PAGE: &str = concat!(
    "SELECT ",
    endpoint_columns!(),
    ", (SELECT count(*) FROM delivery_queues q WHERE q.url = e.url) AS queues \
     FROM endpoints e WHERE NOT $1 OR state <> 'available' ORDER BY state = 'available', url LIMIT $3 OFFSET $2"
);
const MAKE: &str = "INSERT INTO endpoints (url, epoch, since) SELECT $1, epoch, $2 FROM forgotten_endpoints WHERE true \
    ON CONFLICT (url) DO NOTHING";
const PUT: &str = "UPDATE endpoints SET state = $2, epoch = $3, since = $4, attempts = $5, next_attempt_at = $6, \
    last_status = $7, last_error = $8, probe_queue = $9, probe_message = $10, probe_token = NULL, \
    probe_until = NULL WHERE url = $1";
const CLAIM: &str = concat!(
    "UPDATE endpoints SET probe_token = $3, probe_until = $4 + $5, \
     probe_message = CASE WHEN probe_queue IS NULL THEN NULL ELSE probe_message END, probe_queue = $2 \
     WHERE url = $1 AND state = 'unavailable' AND next_attempt_at <= $4 \
     AND (probe_token IS NULL OR probe_until < $4) AND (probe_queue IS NULL OR probe_queue = $2) RETURNING ",
    endpoint_columns!()
);
const RELEASE: &str = "UPDATE endpoints SET probe_token = NULL, probe_until = NULL \
    WHERE url = $1 AND probe_token = $2";
const RELEASE_ELSEWHERE: &str = "UPDATE endpoints SET probe_token = NULL, probe_until = NULL, probe_queue = NULL, \
    probe_message = NULL, next_attempt_at = $3 WHERE url = $1 AND probe_token = $2";

#[async_trait]
impl Endpoints for SqliteStore {
    async fn generation_raise(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.write("raising the generation", move |connection| {
            Box::pin(generation_raise(connection, now))
        })
        .await
    }

    async fn numbers(&self) -> Result<Numbers, StoreError> {
        let (generation, epoch) = sqlx::query_as(NUMBERS)
            .fetch_one(self.readers())
            .await
            .map_err(unread("reading what only grows"))?;
        Ok(Numbers { generation, epoch })
    }

    async fn numbers_raise(&self, above: Numbers) -> Result<(), StoreError> {
        self.write("raising what only grows", move |connection| {
            Box::pin(async move {
                for (name, above) in [("epoch", above.epoch), ("generation", above.generation)] {
                    let raise = sqlx::query(NUMBER_RAISE).bind(name).bind(above.saturating_add(1));
                    raise.execute(&mut *connection).await?;
                }
                Ok(())
            })
        })
        .await
    }

    async fn endpoints_not_available(&self) -> Result<Vec<Endpoint>, StoreError> {
        let operation = "listing endpoints that are not available";
        let rows = sqlx::query(NOT_AVAILABLE)
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        rows.iter()
            .map(endpoint)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }

    async fn endpoints_answered(&self, limit: u32) -> Result<Vec<EndpointUrl>, StoreError> {
        let operation = "listing endpoints that answered";
        let rows = sqlx::query(ANSWERED)
            .bind(i64::from(limit))
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        rows.iter()
            .map(endpoint_url)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }

    async fn endpoint_get(&self, url: &EndpointUrl) -> Result<Option<Endpoint>, StoreError> {
        let operation = "reading an endpoint";
        let row = sqlx::query(GET)
            .bind(url.as_str())
            .fetch_optional(self.readers())
            .await
            .map_err(unread(operation))?;
        row.as_ref().map(endpoint).transpose().map_err(unread(operation))
    }

    async fn endpoints_page(&self, query: &EndpointQuery) -> Result<Vec<(Endpoint, u64)>, StoreError> {
        let operation = "listing endpoints";
        let rows = sqlx::query(PAGE)
            .bind(query.not_available)
            .bind(stored(query.offset))
            .bind(i64::from(query.limit))
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        let with_count = |row: &SqliteRow| Ok((endpoint(row)?, number(row, "queues")?));
        rows.iter()
            .map(with_count)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }

    async fn endpoint_change(
        &self,
        url: &EndpointUrl,
        expected: Option<EndpointEpoch>,
        change: &EndpointChange,
    ) -> Result<Changed, StoreError> {
        let now = self.clock.now();
        let (url, change) = (url.clone(), change.clone());
        self.write("changing an endpoint", move |connection| {
            Box::pin(async move { apply(connection, &url, expected, (&change, None), now).await })
        })
        .await
    }

    async fn probe_claim(
        &self,
        url: &EndpointUrl,
        queue: &QueueName,
        hold: Duration,
    ) -> Result<ProbeOutcome, StoreError> {
        let now = self.clock.now();
        let token = i64::from_ne_bytes(ambient::random().to_ne_bytes());
        let (url, queue) = (url.clone(), queue.clone());
        self.write("claiming a probe", move |connection| {
            Box::pin(async move { claim(connection, (&url, &queue), token, (now, hold)).await })
        })
        .await
    }

    async fn probe_release(&self, url: &EndpointUrl, token: i64, next: ProbeNext) -> Result<(), StoreError> {
        let now = self.clock.now();
        let url = url.clone();
        self.write("releasing a probe", move |connection| {
            Box::pin(async move { release(connection, &url, token, next, now).await })
        })
        .await
    }
}

/// Changes an endpoint when `expected` is still its epoch.
pub(super) async fn apply(
    connection: &mut SqliteConnection,
    url: &EndpointUrl,
    expected: Option<EndpointEpoch>,
    (change, attempt): (&EndpointChange, Option<&Attempt>),
    now: Timestamp,
) -> Result<Changed, sqlx::Error> {
    let Some(before) = get(connection, url).await? else {
        return Ok(Changed::Unknown);
    };
    if expected.is_some_and(|expected| expected != before.epoch) {
        return Ok(Changed::Stale(Box::new(before)));
    }
    let after = endpoint_after(&before, change, attempt, now);
    put(connection, &after).await?;
    if matches!(change, EndpointChange::Open) {
        queues::heads_reset(connection, url).await?;
    }
    if raises(&before, change) {
        generation_raise(connection, now).await?;
    }
    Ok(Changed::Done {
        before: Box::new(before),
        now: Box::new(after),
    })
}

/// Makes the row when it is missing, available.
pub(super) async fn make(
    connection: &mut SqliteConnection,
    url: &EndpointUrl,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query(MAKE)
        .bind(url.as_str())
        .bind(now.micros())
        .execute(connection)
        .await?;
    Ok(())
}

pub(super) async fn get(connection: &mut SqliteConnection, url: &EndpointUrl) -> Result<Option<Endpoint>, sqlx::Error> {
    let row = sqlx::query(GET).bind(url.as_str()).fetch_optional(connection).await?;
    row.as_ref().map(endpoint).transpose()
}

async fn put(connection: &mut SqliteConnection, endpoint: &Endpoint) -> Result<(), sqlx::Error> {
    sqlx::query(PUT)
        .bind(endpoint.url.as_str())
        .bind(endpoint.state.as_str())
        .bind(endpoint.epoch.0)
        .bind(endpoint.since.micros())
        .bind(i64::from(endpoint.attempts))
        .bind(micros_optional(endpoint.next_attempt_at))
        .bind(endpoint.last_status.map(i64::from))
        .bind(endpoint.last_error.clone())
        .bind(endpoint.probe_queue.as_ref().map(|queue| queue.as_str().to_owned()))
        .bind(
            endpoint
                .probe_message
                .as_ref()
                .map(|message| message.as_str().to_owned()),
        )
        .execute(connection)
        .await?;
    Ok(())
}

async fn claim(
    connection: &mut SqliteConnection,
    (url, queue): (&EndpointUrl, &QueueName),
    token: i64,
    (now, hold): (Timestamp, Duration),
) -> Result<ProbeOutcome, sqlx::Error> {
    let row = sqlx::query(CLAIM)
        .bind(url.as_str())
        .bind(queue.as_str())
        .bind(token)
        .bind(now.micros())
        .bind(micros(hold))
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(row) = row {
        let endpoint = Box::new(endpoint(&row)?);
        return Ok(ProbeOutcome::Claimed { token, endpoint });
    }
    Ok(match get(connection, url).await? {
        Some(endpoint) if endpoint.state == EndpointState::Unavailable => ProbeOutcome::NotYours(Box::new(endpoint)),
        Some(_) | None => ProbeOutcome::NotNeeded,
    })
}

async fn release(
    connection: &mut SqliteConnection,
    url: &EndpointUrl,
    token: i64,
    next: ProbeNext,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let query = match next {
        ProbeNext::Same => sqlx::query(RELEASE).bind(url.as_str()).bind(token),
        ProbeNext::AnyQueue => sqlx::query(RELEASE_ELSEWHERE)
            .bind(url.as_str())
            .bind(token)
            .bind(now.micros()),
    };
    let released = query.execute(&mut *connection).await?;
    if released.rows_affected() == 1 && next == ProbeNext::AnyQueue {
        generation_raise(connection, now).await?;
    }
    Ok(())
}

pub(super) async fn generation_raise(connection: &mut SqliteConnection, now: Timestamp) -> Result<(), sqlx::Error> {
    let clock_ms = now.micros() / 1_000;
    sqlx::query(GENERATION_RAISE).bind(clock_ms).execute(connection).await?;
    Ok(())
}
