//! Alive, ready, metrics, and the description of all routes.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::engine::query;
use crate::wire::problem::Problem;
use crate::wire::record::{Part, Readiness};

use super::Shared;
use super::guard::Caller;
use super::masked::MasksItself;
use super::openapi;
use super::problem::{answer, text};

/// The process answers: nothing more is said.
pub(super) async fn alive() -> Response {
    answer(StatusCode::OK, &serde_json::json!({"status": "alive"}))
}

/// 200 when the broker lets us work, the store takes writes and this process delivers, else 503; with the reason for
/// those who may look. Reads what was found last: it waits for nothing.
pub(super) async fn ready(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let found = readiness(&shared).await?;
    Ok(if caller.may_look() {
        answer(status(&found), &found)
    } else {
        without_reasons(&found)
    })
}

/// The same without a reason.
pub(super) async fn ready_or_not(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    Ok(without_reasons(&readiness(&shared).await?))
}

fn without_reasons(found: &Readiness) -> Response {
    answer(status(found), &serde_json::json!({"ready": found.ready}))
}

const fn status(found: &Readiness) -> StatusCode {
    if found.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

async fn readiness(shared: &Shared) -> Result<Readiness, Problem> {
    let Ok(engine) = shared.engine() else {
        let part = Part::broken(&shared.backend.waiting());
        return Ok(Readiness {
            ready: false,
            broker: part.clone(),
            store: part.clone(),
            delivering: part,
            management: None,
            degraded: Vec::new(),
        });
    };
    let readiness = engine.query(query::IsReady()).await?;
    Ok(Readiness::from(&readiness))
}

/// Numbers, with labels of our own.
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let numbers = text((shared.metrics)(), "text/plain; version=0.0.4; charset=utf-8");
    MasksItself::said_of(numbers)
}

pub(super) async fn describe() -> Response {
    answer(StatusCode::OK, &openapi::document())
}
