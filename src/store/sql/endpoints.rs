//! Endpoints and their state.

use std::time::Duration;

use async_trait::async_trait;

use super::{Calls, Driver, Row, Session, Statement, queues, values};
use crate::ambient;
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::{Endpoint, EndpointChange, EndpointState};
use crate::domain::id::{EndpointEpoch, QueueName};
use crate::domain::pace::{PaceChange, Request};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::store::columns::{endpoint, endpoint_columns, endpoint_url, integer, number, shown_url};
use crate::store::rules::{endpoint_after, endpoint_after_failure, pace_changed, raises};
use crate::store::{Changed, EndpointQuery, Endpoints, Numbers, PaceChanged, ProbeNext, ProbeOutcome, StoreError};

macro_rules! endpoint_order {
    () => {
        concat!(shown_url!(), ", since, ctid")
    };
}

static NUMBERS: Statement = Statement::new(
    "SELECT (SELECT value FROM redrive.numbers WHERE name = 'generation') AS generation, \
     (SELECT value FROM redrive.numbers WHERE name = 'epoch') AS epoch",
);
/// See [`next_number`](crate::store::rules::next_number).
static GENERATION_RAISE: Statement = Statement::new(
    "UPDATE redrive.numbers SET value = GREATEST(value + 1, redrive.store_now() / 1000) WHERE name = 'generation'",
);
static NUMBER_RAISE: Statement =
    Statement::new("UPDATE redrive.numbers SET value = GREATEST(value, $2) WHERE name = $1");
static NOT_AVAILABLE: Statement = Statement::new(concat!(
    "SELECT ",
    endpoint_columns!(),
    " FROM redrive.endpoints WHERE state <> 'available' ORDER BY ",
    endpoint_order!()
));
static PACED: Statement = Statement::new(concat!(
    "SELECT ",
    endpoint_columns!(),
    " FROM redrive.endpoints WHERE pace IS NOT NULL ORDER BY ",
    endpoint_order!(),
    " LIMIT $1"
));
static PACE: Statement = Statement::new("UPDATE redrive.endpoints SET pace = $2 WHERE url_key = redrive.url_key($1)");
static ANSWERED: Statement = Statement::new(
    "SELECT url FROM redrive.endpoints WHERE last_success_at IS NOT NULL ORDER BY last_success_at DESC LIMIT $1",
);
static GET: Statement = Statement::new(concat!(
    "SELECT ",
    endpoint_columns!(),
    " FROM redrive.endpoints WHERE url_key = redrive.url_key($1)"
));
static LOCKED: Statement = Statement::new(concat!(
    "SELECT ",
    endpoint_columns!(),
    " FROM redrive.endpoints WHERE url_key = redrive.url_key($1) FOR UPDATE"
));
static LOCK: Statement = Statement::new(
    "SELECT 1 FROM redrive.endpoints WHERE url_key IN (SELECT redrive.url_key(asked) \
     FROM unnest($1::text[]) AS a (asked)) ORDER BY url_key FOR UPDATE",
);
static GET_ALL: Statement = Statement::new(concat!(
    "SELECT ",
    endpoint_columns!(),
    " FROM redrive.endpoints WHERE url_key IN (SELECT redrive.url_key(asked) FROM unnest($1::text[]) AS a (asked))"
));
static PAGE: Statement = Statement::new(concat!(
    "SELECT ",
    endpoint_columns!(),
    ", (SELECT count(*) FROM redrive.delivery_queues AS q WHERE redrive.url_key(q.url) = e.url_key) AS queues \
     FROM redrive.endpoints AS e WHERE NOT $1 OR state <> 'available' ORDER BY state = 'available', ",
    endpoint_order!(),
    " LIMIT $3 OFFSET $2"
));
static MAKE: Statement = Statement::new(
    "INSERT INTO redrive.endpoints (url, epoch, since) \
     SELECT DISTINCT asked COLLATE \"C\", epoch, $2 FROM unnest($1::text[]) AS a (asked), redrive.forgotten_endpoints \
     WHERE TRUE ORDER BY 1 ON CONFLICT (url_key) DO NOTHING",
);
static PUT: Statement = Statement::new(
    "UPDATE redrive.endpoints SET state = $2, epoch = $3, since = $4, attempts = $5, next_attempt_at = $6, \
     last_status = $7, last_error = $8, probe_queue = $9, probe_message = $10, pace = $11, probe_token = NULL, \
     probe_until = NULL WHERE url_key = redrive.url_key($1)",
);
static CLAIM: Statement = Statement::new(concat!(
    "UPDATE redrive.endpoints SET probe_token = $3, probe_until = redrive.store_now() + $4, \
     probe_message = CASE WHEN probe_queue IS NULL THEN NULL ELSE probe_message END, probe_queue = $2 \
     WHERE url_key = redrive.url_key($1) AND state = 'unavailable' AND next_attempt_at <= redrive.store_now() \
     AND (probe_token IS NULL OR probe_until < redrive.store_now()) \
     AND (probe_queue IS NULL OR probe_queue = $2) RETURNING ",
    endpoint_columns!()
));
static RELEASE: Statement = Statement::new(
    "UPDATE redrive.endpoints SET probe_token = NULL, probe_until = NULL \
     WHERE url_key = redrive.url_key($1) AND probe_token = $2",
);
static RELEASE_ELSEWHERE: Statement = Statement::new(
    "UPDATE redrive.endpoints SET probe_token = NULL, probe_until = NULL, probe_queue = NULL, probe_message = NULL, \
     next_attempt_at = redrive.store_now() WHERE url_key = redrive.url_key($1) AND probe_token = $2",
);

#[async_trait]
impl<D: Driver> Endpoints for D {
    async fn generation_raise(&self) -> Result<(), StoreError> {
        let raised = self.change("raising the generation", &GENERATION_RAISE, values![]);
        raised.await.map(drop)
    }

    async fn numbers(&self) -> Result<Numbers, StoreError> {
        let numbers = |row: &Row| {
            Ok(Numbers {
                generation: integer(row, "generation")?,
                epoch: integer(row, "epoch")?,
            })
        };
        self.one("reading what only grows", &NUMBERS, values![], numbers).await
    }

    async fn numbers_raise(&self, above: Numbers) -> Result<(), StoreError> {
        self.transaction("raising what only grows", move |mut session, _| {
            Box::pin(async move {
                for (name, above) in [("epoch", above.epoch), ("generation", above.generation)] {
                    let values = values![name, above.saturating_add(1)];
                    session.change(&NUMBER_RAISE, values).await?;
                }
                Ok(())
            })
        })
        .await
    }

    async fn endpoints_not_available(&self) -> Result<Vec<Endpoint>, StoreError> {
        let operation = "listing endpoints that are not available";
        self.list(operation, &NOT_AVAILABLE, values![], endpoint).await
    }

    async fn endpoints_paced(&self, limit: u32) -> Result<Vec<Endpoint>, StoreError> {
        self.list("listing paced endpoints", &PACED, values![limit], endpoint)
            .await
    }

    async fn endpoint_pace(
        &self,
        url: &EndpointUrl,
        expected: Option<i64>,
        change: &PaceChange,
    ) -> Result<PaceChanged, StoreError> {
        let (url, change) = (url.clone(), change.clone());
        self.transaction("changing the pace of an endpoint", move |mut session, now| {
            Box::pin(async move { change_pace(&mut session, &url, expected, &change, now).await })
        })
        .await
    }

    async fn endpoints_answered(&self, limit: u32) -> Result<Vec<EndpointUrl>, StoreError> {
        let operation = "listing endpoints that answered";
        self.list(operation, &ANSWERED, values![limit], endpoint_url).await
    }

    async fn endpoint_get(&self, url: &EndpointUrl) -> Result<Option<Endpoint>, StoreError> {
        self.find("reading an endpoint", &GET, values![url], endpoint).await
    }

    async fn endpoints_page(&self, query: &EndpointQuery) -> Result<Vec<(Endpoint, u64)>, StoreError> {
        let values = values![query.not_available, query.offset, query.limit];
        let with_count = |row: &Row| Ok((endpoint(row)?, number(row, "queues")?));
        self.list("listing endpoints", &PAGE, values, with_count).await
    }

    async fn endpoint_change(
        &self,
        url: &EndpointUrl,
        expected: Option<EndpointEpoch>,
        change: &EndpointChange,
    ) -> Result<Changed, StoreError> {
        let (url, change) = (url.clone(), change.clone());
        self.transaction("changing an endpoint", move |mut session, now| {
            Box::pin(async move { apply(&mut session, &url, expected, (&change, None), now).await })
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
        let claimed = self.changed("claiming a probe", &CLAIM, values![url, queue, token, hold], endpoint);
        if let Some(endpoint) = claimed.await?.pop() {
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
        let values = values![url, token];
        self.transaction("releasing a probe", move |mut session, _| {
            Box::pin(async move {
                match next {
                    ProbeNext::Same => session.change(&RELEASE, values).await.map(drop),
                    ProbeNext::AnyQueue if session.change(&RELEASE_ELSEWHERE, values).await? == 1 => {
                        generation_raise(&mut session).await
                    }
                    ProbeNext::AnyQueue => Ok(()),
                }
            })
        })
        .await
    }
}

/// Changes an endpoint when `expected` is still its epoch. Opening locks the heads of the URL first, as
/// queues are locked before endpoints.
pub(super) async fn apply(
    session: &mut Session<'_>,
    url: &EndpointUrl,
    expected: Option<EndpointEpoch>,
    (change, attempt): (&EndpointChange, Option<&Attempt>),
    now: Timestamp,
) -> Result<Changed, sqlx::Error> {
    if change.opens() {
        queues::heads_lock(session, url).await?;
    }
    let Some(before) = session.find(&LOCKED, values![url], endpoint).await? else {
        return Ok(Changed::Unknown);
    };
    if expected.is_some_and(|expected| expected != before.epoch) {
        return Ok(Changed::Stale(Box::new(before)));
    }
    let now = endpoint_after(&before, change, attempt, now);
    put(session, &now).await?;
    if change.opens() {
        queues::heads_opened(session, url, change).await?;
    }
    if raises(&before, change) {
        generation_raise(session).await?;
    }
    Ok(Changed::Done {
        before: Box::new(before),
        now: Box::new(now),
    })
}

async fn change_pace(
    session: &mut Session<'_>,
    url: &EndpointUrl,
    expected: Option<i64>,
    change: &PaceChange,
    now: Timestamp,
) -> Result<PaceChanged, sqlx::Error> {
    let Some(before) = session.find(&LOCKED, values![url], endpoint).await? else {
        return Ok(PaceChanged::Unknown);
    };
    let changed = pace_changed(before, expected, change, now);
    if let PaceChanged::Done(after) = &changed {
        session.change(&PACE, values![url, pace_text(after)]).await?;
        if change.raises() {
            generation_raise(session).await?;
        }
    }
    Ok(changed)
}

/// An attempt failed: where the endpoint is paced that counts, and may close it. `None`: it is not.
pub(super) async fn failed_at_its_pace(
    session: &mut Session<'_>,
    (attempt, request): (&Attempt, Request),
    now: Timestamp,
) -> Result<Option<Box<Endpoint>>, sqlx::Error> {
    let Some(before) = session.find(&LOCKED, values![&attempt.url], endpoint).await? else {
        return Ok(None);
    };
    let Some(after) = endpoint_after_failure(&before, (attempt, request), now) else {
        return Ok(None);
    };
    if after.epoch == before.epoch {
        session.change(&PACE, values![&after.url, pace_text(&after)]).await?;
    } else {
        put(session, &after).await?;
    }
    generation_raise(session).await?;
    Ok(Some(Box::new(after)))
}

fn pace_text(endpoint: &Endpoint) -> Option<String> {
    endpoint.pace.as_ref().and_then(|pace| serde_json::to_string(pace).ok())
}

/// Locks endpoints, after queues.
pub(super) async fn lock(session: &mut Session<'_>, urls: Vec<EndpointUrl>) -> Result<(), sqlx::Error> {
    session.lock(&LOCK, values![urls]).await
}

/// Makes the rows that are missing, available.
pub(super) async fn make(session: &mut Session<'_>, urls: Vec<EndpointUrl>, now: Timestamp) -> Result<(), sqlx::Error> {
    session.change(&MAKE, values![urls, now]).await.map(drop)
}

pub(super) async fn get_all(session: &mut Session<'_>, urls: Vec<EndpointUrl>) -> Result<Vec<Endpoint>, sqlx::Error> {
    if urls.is_empty() {
        return Ok(Vec::new());
    }
    session.list(&GET_ALL, values![urls], endpoint).await
}

async fn put(session: &mut Session<'_>, endpoint: &Endpoint) -> Result<(), sqlx::Error> {
    let values = values![
        &endpoint.url,
        endpoint.state.as_str(),
        endpoint.epoch,
        endpoint.since,
        endpoint.attempts,
        endpoint.next_attempt_at,
        endpoint.last_status,
        &endpoint.last_error,
        &endpoint.probe_queue,
        &endpoint.probe_message,
        pace_text(endpoint),
    ];
    session.change(&PUT, values).await.map(drop)
}

pub(super) async fn generation_raise(session: &mut Session<'_>) -> Result<(), sqlx::Error> {
    session.change(&GENERATION_RAISE, values![]).await.map(drop)
}
