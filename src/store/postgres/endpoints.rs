//! Endpoints and their state on PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnection, PgRow};

use super::{PostgresStore, micros_optional, queues, storable, storable_optional};
use crate::ambient;
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::{Endpoint, EndpointChange, EndpointState};
use crate::domain::id::{EndpointEpoch, QueueName};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::store::columns::{endpoint, endpoint_columns, endpoint_url, micros, number, stored};
use crate::store::rules::{endpoint_after, raises};
use crate::store::{Changed, EndpointQuery, Endpoints, Numbers, ProbeNext, ProbeOutcome, StoreError};

const NUMBERS: &str = "SELECT (SELECT value FROM redrive.numbers WHERE name = 'generation'), \
    (SELECT value FROM redrive.numbers WHERE name = 'epoch')";
/// See [`next_number`](crate::store::rules::next_number).
const GENERATION_RAISE: &str = "UPDATE redrive.numbers SET value = GREATEST(value + 1, redrive.store_now() / 1000) \
    WHERE name = 'generation'";
const NUMBER_RAISE: &str = "UPDATE redrive.numbers SET value = GREATEST(value, $2) WHERE name = $1";
const NOT_AVAILABLE: &str = concat!(
    "SELECT ",
    endpoint_columns!(),
    " FROM redrive.endpoints WHERE state <> 'available' ORDER BY url"
);
const ANSWERED: &str = "SELECT url FROM redrive.endpoints WHERE last_success_at IS NOT NULL \
    ORDER BY last_success_at DESC LIMIT $1";
const GET: &str = concat!(
    "SELECT ",
    endpoint_columns!(),
    " FROM redrive.endpoints WHERE url_key = redrive.url_key($1)"
);
const LOCK: &str = concat!(
    "SELECT ",
    endpoint_columns!(),
    " FROM redrive.endpoints WHERE url_key = redrive.url_key($1) FOR UPDATE"
);
const GET_ALL: &str = concat!(
    "SELECT ",
    endpoint_columns!(),
    " FROM redrive.endpoints WHERE url_key IN (SELECT redrive.url_key(url) FROM unnest($1::text[]) AS asked (url))"
);
const PAGE: &str = concat!(
    "SELECT ",
    endpoint_columns!(),
    ", (SELECT count(*) FROM redrive.delivery_queues q WHERE redrive.url_key(q.url) = e.url_key) AS queues \
     FROM redrive.endpoints e WHERE NOT $1 OR state <> 'available' ORDER BY state = 'available', url \
     OFFSET $2 LIMIT $3"
);
const MAKE: &str = "INSERT INTO redrive.endpoints (url, epoch, since) \
    SELECT DISTINCT url COLLATE \"C\", epoch, $2 FROM unnest($1::text[]) AS asked (url), redrive.forgotten_endpoints \
    ORDER BY 1 \
    ON CONFLICT (url_key) DO NOTHING";
const PUT: &str = "UPDATE redrive.endpoints SET state = $2, epoch = $3, since = $4, attempts = $5, \
    next_attempt_at = $6, last_status = $7, last_error = $8, probe_queue = $9, probe_message = $10, \
    probe_token = NULL, probe_until = NULL WHERE url_key = redrive.url_key($1)";
const CLAIM: &str = concat!(
    "UPDATE redrive.endpoints SET probe_token = $3, probe_until = redrive.store_now() + $4, \
     probe_message = CASE WHEN probe_queue IS NULL THEN NULL ELSE probe_message END, probe_queue = $2 \
     WHERE url_key = redrive.url_key($1) AND state = 'unavailable' AND next_attempt_at <= redrive.store_now() \
     AND (probe_token IS NULL OR probe_until < redrive.store_now()) \
     AND (probe_queue IS NULL OR probe_queue = $2) RETURNING ",
    endpoint_columns!()
);
const RELEASE: &str = "UPDATE redrive.endpoints SET probe_token = NULL, probe_until = NULL \
    WHERE url_key = redrive.url_key($1) AND probe_token = $2";
const RELEASE_ELSEWHERE: &str = "UPDATE redrive.endpoints SET probe_token = NULL, probe_until = NULL, \
    probe_queue = NULL, probe_message = NULL, next_attempt_at = redrive.store_now() \
    WHERE url_key = redrive.url_key($1) AND probe_token = $2";

#[async_trait]
impl Endpoints for PostgresStore {
    async fn generation_raise(&self) -> Result<(), StoreError> {
        self.call("raising the generation", async |connection: &mut PgConnection| {
            generation_raise(connection).await
        })
        .await
    }

    async fn numbers(&self) -> Result<Numbers, StoreError> {
        let (generation, epoch) = self
            .call("reading what only grows", async |connection: &mut PgConnection| {
                sqlx::query_as(NUMBERS).fetch_one(connection).await
            })
            .await?;
        Ok(Numbers { generation, epoch })
    }

    async fn numbers_raise(&self, above: Numbers) -> Result<(), StoreError> {
        self.transaction("raising what only grows", async |connection: &mut PgConnection, _| {
            for (name, above) in [("epoch", above.epoch), ("generation", above.generation)] {
                let raise = sqlx::query(NUMBER_RAISE).bind(name).bind(above.saturating_add(1));
                raise.execute(&mut *connection).await?;
            }
            Ok(())
        })
        .await
    }

    async fn endpoints_not_available(&self) -> Result<Vec<Endpoint>, StoreError> {
        self.call(
            "listing endpoints that are not available",
            async |connection: &mut PgConnection| {
                let rows = sqlx::query(NOT_AVAILABLE).fetch_all(connection).await?;
                rows.iter().map(endpoint).collect()
            },
        )
        .await
    }

    async fn endpoints_answered(&self, limit: u32) -> Result<Vec<EndpointUrl>, StoreError> {
        let query = sqlx::query(ANSWERED).bind(i64::from(limit));
        self.call(
            "listing endpoints that answered",
            async |connection: &mut PgConnection| {
                let rows = query.fetch_all(connection).await?;
                rows.iter().map(endpoint_url).collect()
            },
        )
        .await
    }

    async fn endpoint_get(&self, url: &EndpointUrl) -> Result<Option<Endpoint>, StoreError> {
        self.call("reading an endpoint", async |connection: &mut PgConnection| {
            let row = sqlx::query(GET).bind(url.as_str()).fetch_optional(connection).await?;
            row.as_ref().map(endpoint).transpose()
        })
        .await
    }

    async fn endpoints_page(&self, query: &EndpointQuery) -> Result<Vec<(Endpoint, u64)>, StoreError> {
        let statement = sqlx::query(PAGE)
            .bind(query.not_available)
            .bind(stored(query.offset))
            .bind(i64::from(query.limit));
        let with_count = |row: &PgRow| Ok((endpoint(row)?, number(row, "queues")?));
        self.call("listing endpoints", async |connection: &mut PgConnection| {
            let rows = statement.fetch_all(connection).await?;
            rows.iter().map(with_count).collect()
        })
        .await
    }

    async fn endpoint_change(
        &self,
        url: &EndpointUrl,
        expected: Option<EndpointEpoch>,
        change: &EndpointChange,
    ) -> Result<Changed, StoreError> {
        self.transaction("changing an endpoint", async |connection: &mut PgConnection, now| {
            apply(connection, url, expected, (change, None), now).await
        })
        .await
    }

    async fn probe_claim(
        &self,
        url: &EndpointUrl,
        queue: &QueueName,
        hold: Duration,
    ) -> Result<ProbeOutcome, StoreError> {
        let token = i64::from_ne_bytes(ambient::random().to_ne_bytes());
        let statement = sqlx::query(CLAIM)
            .bind(url.as_str())
            .bind(storable(queue.as_str()))
            .bind(token)
            .bind(micros(hold));
        let claimed = self.call("claiming a probe", async |connection: &mut PgConnection| {
            let row = statement.fetch_optional(connection).await?;
            row.as_ref().map(endpoint).transpose()
        });
        if let Some(endpoint) = claimed.await? {
            let endpoint = Box::new(endpoint);
            return Ok(ProbeOutcome::Claimed { token, endpoint });
        }
        Ok(match self.endpoint_get(url).await? {
            Some(endpoint) if endpoint.state == EndpointState::Unavailable => {
                ProbeOutcome::NotYours(Box::new(endpoint))
            }
            Some(_) | None => ProbeOutcome::NotNeeded,
        })
    }

    async fn probe_release(&self, url: &EndpointUrl, token: i64, next: ProbeNext) -> Result<(), StoreError> {
        let statement = match next {
            ProbeNext::Same => RELEASE,
            ProbeNext::AnyQueue => RELEASE_ELSEWHERE,
        };
        self.transaction("releasing a probe", async |connection: &mut PgConnection, _| {
            let query = sqlx::query(statement).bind(url.as_str()).bind(token);
            let released = query.execute(&mut *connection).await?;
            if released.rows_affected() == 1 && next == ProbeNext::AnyQueue {
                generation_raise(connection).await?;
            }
            Ok(())
        })
        .await
    }
}

/// Changes an endpoint when `expected` is still its epoch. Opening locks the heads of the URL first, as
/// queues are locked before endpoints.
pub(super) async fn apply(
    connection: &mut PgConnection,
    url: &EndpointUrl,
    expected: Option<EndpointEpoch>,
    (change, attempt): (&EndpointChange, Option<&Attempt>),
    now: Timestamp,
) -> Result<Changed, sqlx::Error> {
    if matches!(change, EndpointChange::Open) {
        queues::heads_lock(connection, url).await?;
    }
    let Some(row) = sqlx::query(LOCK)
        .bind(url.as_str())
        .fetch_optional(&mut *connection)
        .await?
    else {
        return Ok(Changed::Unknown);
    };
    let before = endpoint(&row)?;
    if expected.is_some_and(|expected| expected != before.epoch) {
        return Ok(Changed::Stale(Box::new(before)));
    }
    let now = endpoint_after(&before, change, attempt, now);
    put(connection, &now).await?;
    if matches!(change, EndpointChange::Open) {
        queues::heads_reset(connection, url).await?;
    }
    if raises(&before, change) {
        generation_raise(connection).await?;
    }
    Ok(Changed::Done {
        before: Box::new(before),
        now: Box::new(now),
    })
}

/// Makes the rows that are missing, available.
pub(super) async fn make(connection: &mut PgConnection, urls: &[&str], now: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query(MAKE)
        .bind(urls)
        .bind(now.micros())
        .execute(connection)
        .await?;
    Ok(())
}

pub(super) async fn get_all(connection: &mut PgConnection, urls: &[EndpointUrl]) -> Result<Vec<Endpoint>, sqlx::Error> {
    if urls.is_empty() {
        return Ok(Vec::new());
    }
    let urls: Vec<&str> = urls.iter().map(EndpointUrl::as_str).collect();
    let rows = sqlx::query(GET_ALL).bind(urls).fetch_all(connection).await?;
    rows.iter().map(endpoint).collect()
}

async fn put(connection: &mut PgConnection, endpoint: &Endpoint) -> Result<(), sqlx::Error> {
    sqlx::query(PUT)
        .bind(endpoint.url.as_str())
        .bind(endpoint.state.as_str())
        .bind(endpoint.epoch.0)
        .bind(endpoint.since.micros())
        .bind(i64::from(endpoint.attempts))
        .bind(micros_optional(endpoint.next_attempt_at))
        .bind(endpoint.last_status.map(i64::from))
        .bind(storable_optional(endpoint.last_error.as_ref()))
        .bind(endpoint.probe_queue.as_ref().map(|queue| storable(queue.as_str())))
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

pub(super) async fn generation_raise(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query(GENERATION_RAISE).execute(connection).await?;
    Ok(())
}
