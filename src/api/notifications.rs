//! What services do: publish, end.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use crate::ambient;
use crate::engine::Ended;
use crate::wire::input;
use crate::wire::problem::Problem;
use crate::wire::publish::{self, EndedShape, Published};

use super::Shared;
use super::extract::{Execution, Input, LARGE, RawBody};
use super::guard::Caller;
use super::problem::answer;

/// 202 after the broker's confirm. The id is given before anything is tried, so that a caller who
/// gets a 503 can repeat with it.
pub(super) async fn publish(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    body: RawBody<LARGE>,
) -> Result<Response, Problem> {
    caller.grant(None)?;
    let mut new = publish::notification(&body.bytes)?;
    caller.may_publish(&new.execution, &new.url)?;
    let id = match new.id.take() {
        Some(id) => id,
        None => input::id(&ambient::new_id())?,
    };
    new.id = Some(id.clone());
    if let Ok(engine) = shared.engine() {
        caller.publishes(engine, &new, &shared.clock).await?;
    }
    let published = match shared.engine() {
        Ok(engine) => match engine.check_url(&new.url) {
            Ok(()) => engine.publish(new).await.map_err(Problem::from),
            Err(refused) => Err(refused.into()),
        },
        Err(problem) => Err(problem),
    };
    match published {
        Ok(receipt) => Ok(answer(StatusCode::ACCEPTED, &Published::from(&receipt))),
        Err(problem) if problem.status >= 500 => Err(problem.with_id(id.as_str())),
        Err(problem) => Err(problem),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndRequest {
    url: String,
}

/// 202 when the mark is stored, 200 when there is nothing to end.
pub(super) async fn end(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Execution(execution): Execution,
    Input(request): Input<EndRequest>,
) -> Result<Response, Problem> {
    caller.grant(None)?;
    let url = input::url(&request.url)?;
    caller.may_publish(&execution, &url)?;
    let ended = shared.engine()?.end(execution, url).await?;
    let status = match &ended {
        Ended::Marked(_) => StatusCode::ACCEPTED,
        Ended::NoQueue(_) => StatusCode::OK,
    };
    Ok(answer(status, &EndedShape::from(&ended)))
}
