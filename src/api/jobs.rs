//! Jobs: submit one, look at one, list them, and a worker's messages. Following one to its result takes messages, which
//! needs a client that says that it has them: that is a command and the library.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::ambient;
use crate::domain::job::{JobId, Lifetime};
use crate::engine::query;
use crate::wire::Whole;
use crate::wire::input;
use crate::wire::job::{JobListedShape, JobMessageSent, JobShape, WrittenMessage, message};
use crate::wire::problem::Problem;

use super::Shared;
use super::extract::{Input, LARGE, NoParams, RawBody, Segment};
use super::guard::Caller;
use super::problem::Json;

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewJob")]
pub(super) struct Submit {
    /// A UUID; without one it is given one.
    id: Option<String>,
    /// Seconds; `null`: for ever.
    #[serde(default)]
    ttl_s: Ttl,
}

#[derive(Default, JsonSchema, Deserialize)]
#[serde(untagged, expecting = "must be a number of seconds, or null for ever")]
#[schemars(inline)]
enum Ttl {
    Seconds(f64),
    Never(()),
    /// As the configuration says.
    #[default]
    #[serde(skip)]
    Usual,
}

/// `POST /v1/jobs`.
pub(super) async fn submit(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    _: NoParams,
    Input(submit): Input<Submit>,
) -> Result<Json<JobShape, 201>, Problem> {
    caller.grant(None)?;
    let id = submit.id.unwrap_or_else(ambient::new_id);
    let (id, engine) = (input::job(&id)?, shared.engine()?);
    let lifetime = match submit.ttl_s {
        Ttl::Seconds(seconds) => {
            Lifetime::from_seconds(seconds).map_err(|error| Problem::field("ttl_s", error.to_string()))?
        }
        Ttl::Never(()) => Lifetime::Never,
        Ttl::Usual => engine.job_lifetime(),
    };
    let job = engine.job_submit(id, lifetime).await?;
    Ok(Json(JobShape::from(&job)))
}

/// `GET /v1/jobs`.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    _: NoParams,
) -> Result<Json<Whole<JobListedShape>>, Problem> {
    let jobs = shared.engine()?.query(query::Jobs()).await?;
    let now = shared.clock.now();
    let list = Whole::of(jobs.iter().map(|job| JobListedShape::new(job, now)), now);
    Ok(Json(list))
}

/// `GET /v1/jobs/{id}`.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Segment(id): Segment,
    _: NoParams,
) -> Result<Json<JobShape>, Problem> {
    let id: JobId = input::job(&id)?;
    let job = shared.engine()?.job_check(&id, None).await?;
    Ok(Json(JobShape::from(&job)))
}

/// `POST /v1/jobs/{id}/messages`: answered after the broker's confirm.
pub(super) async fn publish(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment,
    _: NoParams,
    body: RawBody<WrittenMessage<'static>, LARGE>,
) -> Result<Json<JobMessageSent, 202>, Problem> {
    caller.grant(None)?;
    let id: JobId = input::job(&id)?;
    let message = message(&body.bytes)?;
    let engine = shared.engine()?;
    engine
        .job_publish(&id, message.part, message.content_type, message.body)
        .await?;
    let sent = JobMessageSent {
        id: id.as_str().to_owned(),
        queue: id.queue(message.part).as_str().to_owned(),
    };
    Ok(Json(sent))
}
