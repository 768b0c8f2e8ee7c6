//! Jobs: submit one, look at one, list them, and a worker's messages. Following one to its result takes messages, which
//! needs a client that says that it has them: that is a command and the library.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};

use crate::ambient;
use crate::domain::job::{JobId, Lifetime};
use crate::engine::query;
use crate::wire::Whole;
use crate::wire::input;
use crate::wire::job::{JobListedShape, JobShape, message};
use crate::wire::problem::Problem;

use super::Shared;
use super::extract::{Input, LARGE, Params, RawBody, Segment};
use super::guard::Caller;
use super::problem::answer;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Submit {
    id: Option<String>,
    /// Seconds; `null`: for ever.
    #[serde(default)]
    ttl_s: Ttl,
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Ttl {
    Seconds(f64),
    Never(()),
    /// As the configuration says.
    #[default]
    #[serde(skip)]
    Usual,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// `POST /v1/jobs`.
pub(super) async fn submit(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Input(submit): Input<Submit>,
) -> Result<Response, Problem> {
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
    Ok(answer(StatusCode::CREATED, &JobShape::from(&job)))
}

/// `GET /v1/jobs`.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Params(Nothing {}): Params<Nothing>,
) -> Result<Response, Problem> {
    let jobs = shared.engine()?.query(query::Jobs()).await?;
    let now = shared.clock.now();
    let list = Whole::of(jobs.iter().map(|job| JobListedShape::new(job, now)), now);
    Ok(answer(StatusCode::OK, &list))
}

/// `GET /v1/jobs/{id}`.
pub(super) async fn show(State(shared): State<Arc<Shared>>, Segment(id): Segment) -> Result<Response, Problem> {
    let id: JobId = input::job(&id)?;
    let job = shared.engine()?.job_check(&id, None).await?;
    Ok(answer(StatusCode::OK, &JobShape::from(&job)))
}

#[derive(Serialize)]
struct Sent {
    id: String,
    queue: String,
}

/// `POST /v1/jobs/{id}/messages`: answered after the broker's confirm.
pub(super) async fn publish(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment,
    body: RawBody<LARGE>,
) -> Result<Response, Problem> {
    caller.grant(None)?;
    let id: JobId = input::job(&id)?;
    let message = message(&body.bytes)?;
    let engine = shared.engine()?;
    engine
        .job_publish(&id, message.part, message.content_type, message.body)
        .await?;
    let sent = Sent {
        id: id.as_str().to_owned(),
        queue: id.queue(message.part).as_str().to_owned(),
    };
    Ok(answer(StatusCode::ACCEPTED, &sent))
}
