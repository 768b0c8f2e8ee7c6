//! Retries, attempts and the audit.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::url::redact_urls;
use crate::engine::EngineError;
use crate::engine::attempts::{self, AttemptFilter, AttemptSieve};
use crate::engine::query;
use crate::engine::query::AttemptQuery;
use crate::wire::handover::Shift;
use crate::wire::problem::Problem;
use crate::wire::rate::{Rate, Series};
use crate::wire::record::{Attempt, Audit, AuditVerified, Check, RescuedListed, RescuedWhole, Retry};
use crate::wire::{List, Whole, input, json};

use super::Shared;
use super::extract::{NoParams, Params, Segment};
use super::limit::Limit;
use super::problem::{Json, Or, Written, text};

/// A shift, where nothing else is asked for.
const SHIFT: &str = "8h";

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Within {
    /// Within so many seconds.
    within: Option<u64>,
    /// How many are answered, at most.
    #[serde(default)]
    limit: Limit,
}

pub(super) async fn retries(
    State(shared): State<Arc<Shared>>,
    Params(params): Params<Within>,
) -> Result<Json<List<Retry>>, Problem> {
    let query = query::Retries {
        within: params.within.map(Duration::from_secs),
        limit: params.limit.items()?,
    };
    let page = shared.engine()?.query(query).await?;
    Ok(Json(List::<Retry>::of(&page)))
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Out {
    /// Out of this queue.
    queue: Option<String>,
    /// Where the page begins: `next_cursor` of the page before.
    cursor: Option<String>,
    /// How many are answered, at most.
    #[serde(default)]
    limit: Limit,
}

/// `GET /v1/rescued`.
pub(super) async fn rescued(
    State(shared): State<Arc<Shared>>,
    Params(out): Params<Out>,
) -> Result<Json<List<RescuedListed>>, Problem> {
    let cursor = out.cursor.as_deref().map(str::parse).transpose();
    let query = query::Rescued {
        queue: out.queue.as_deref().map(input::queue).transpose()?,
        before: cursor.map_err(|_| EngineError::unknown_cursor())?,
        limit: out.limit.items()?,
    };
    let page = shared.engine()?.query(query).await?;
    Ok(Json(List::<RescuedListed>::of(&page)))
}

/// `GET /v1/rescued/{id}`.
pub(super) async fn rescued_one(
    State(shared): State<Arc<Shared>>,
    Segment(id): Segment,
    _: NoParams,
) -> Result<Json<RescuedWhole>, Problem> {
    let unknown = |_| EngineError::NotFound {
        what: format!("rescued message {id:?}"),
    };
    let id = id.parse().map_err(unknown)?;
    let message = shared.engine()?.query(query::OneRescued(id)).await?;
    Ok(Json(RescuedWhole::from(&message)))
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Moved {
    /// Endpoints instead of queues.
    #[serde(default)]
    endpoints: bool,
    /// The series of this queue.
    queue: Option<String>,
    /// The series of this endpoint.
    url: Option<String>,
    /// A week by four hours instead of an hour by the minute.
    #[serde(default)]
    week: bool,
    /// How many are answered, at most.
    #[serde(default)]
    limit: Limit,
}

pub(super) async fn rates(
    State(shared): State<Arc<Shared>>,
    Params(moved): Params<Moved>,
) -> Result<Or<Json<List<Rate>>, Json<Series>>, Problem> {
    let engine = shared.engine()?;
    if moved.queue.is_none() && moved.url.is_none() {
        if moved.week {
            let why = "week is of one queue or of one endpoint: give queue or url too, or leave week out";
            return Err(Problem::field("week", why));
        }
        let query = query::Rates {
            of_endpoints: moved.endpoints,
            limit: moved.limit.items()?,
        };
        let page = engine.query(query).await?;
        return Ok(Or::One(Json(List::<Rate>::of(&page))));
    }
    if moved.endpoints || moved.limit.is_given() {
        let field = if moved.endpoints { "endpoints" } else { "limit" };
        let why = format!("{field} is for the list of all: leave it out, or leave queue and url out");
        return Err(Problem::field(field, why));
    }
    let query = query::RateSeries {
        queue: moved.queue.as_deref().map(input::queue).transpose()?,
        url: moved.url.as_deref().map(input::url).transpose()?,
        week: moved.week,
    };
    let series = engine.query(query).await?;
    Ok(Or::Other(Json(Series::from(&series))))
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Of this queue.
    queue: Option<String>,
    /// The endpoint.
    url: Option<String>,
    /// Of this notification.
    message_id: Option<String>,
    /// A filter, in the filter language.
    filter: Option<String>,
    /// How many are answered, at most.
    #[serde(default)]
    limit: Limit,
}

pub(super) async fn attempts(
    State(shared): State<Arc<Shared>>,
    Params(which): Params<Which>,
) -> Result<Json<List<Attempt>>, Problem> {
    let filter = which.filter.as_deref().map(AttemptFilter::parse).transpose()?;
    let limit = which.limit.items()?;
    let query = query::Attempts(AttemptQuery {
        queue: which.queue.as_deref().map(input::queue).transpose()?,
        url: which.url.as_deref().map(input::url).transpose()?,
        message: which.message_id.as_deref().map(input::message_id).transpose()?,
        limit: attempts::read_for(filter.as_ref(), limit),
    });
    let engine = shared.engine()?;
    let mut page = engine.query(query).await?;
    if let Some(filter) = filter {
        let mut sieve = AttemptSieve::new(filter, engine);
        page.items = sieve.keep(page.items, page.taken_at).await?;
        page.items.truncate(limit as usize);
    }
    Ok(Json(List::<Attempt>::of(&page)))
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Before {
    /// Where the page begins: `next_cursor` of the page before.
    cursor: Option<String>,
    /// How many are answered, at most.
    #[serde(default)]
    limit: Limit,
}

pub(super) async fn audit(
    State(shared): State<Arc<Shared>>,
    Params(before): Params<Before>,
) -> Result<Json<List<Audit>>, Problem> {
    let cursor = before.cursor.as_deref().map(str::parse).transpose();
    let query = query::Audit {
        before: cursor.map_err(|_| EngineError::unknown_cursor())?,
        limit: before.limit.items()?,
    };
    let page = shared.engine()?.query(query).await?;
    Ok(Json(List::<Audit>::of(&page)))
}

/// `GET /v1/audit/verify`.
pub(super) async fn audit_verify(
    State(shared): State<Arc<Shared>>,
    _: NoParams,
) -> Result<Json<AuditVerified>, Problem> {
    let found = shared.engine()?.query(query::AuditVerify()).await?;
    Ok(Json(AuditVerified::from(&found)))
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Since {
    /// A span such as `8h`: what was done in it.
    since: Option<String>,
}

/// `GET /v1/handover`: as the command prints it, without what URLs carry, because it is made to be passed on.
pub(super) async fn handover(
    State(shared): State<Arc<Shared>>,
    Params(params): Params<Since>,
) -> Result<Written<Shift>, Problem> {
    let span = input::span("since", params.since.as_deref().unwrap_or(SHIFT))?;
    let found = shared.engine()?.query(query::Handover(span)).await?;
    if let (true, Some(unread)) = (found.is_empty(), found.problems().pop()) {
        return Err(EngineError::Unread(Box::new(unread)).into());
    }
    let shift = String::from_utf8_lossy(&json::compact(&Shift::from(&found))).into_owned();
    Ok(Written(
        text(redact_urls(&shift).into_owned(), "application/json"),
        PhantomData,
    ))
}

/// `GET /v1/doctor`: what the daemon finds; of its configuration's file only the command knows.
pub(super) async fn doctor(State(shared): State<Arc<Shared>>, _: NoParams) -> Result<Json<Whole<Check>>, Problem> {
    let checks = shared.engine()?.query(query::Doctor()).await?;
    let list = Whole::of(checks.iter().map(Check::from), shared.clock.now());
    Ok(Json(list))
}
