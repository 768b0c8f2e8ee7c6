//! Alive, ready, metrics, and the description of all routes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::engine::{Answer, Query};
use crate::wire::problem::Problem;
use crate::wire::record::{Part, Readiness};

use super::Shared;
use super::openapi;
use super::problem::{answer, text};
use super::queues::mismatch;

/// The process answers: nothing more is said.
pub(super) async fn alive() -> Response {
    answer(StatusCode::OK, &serde_json::json!({"status": "alive"}))
}

/// 200 when the broker lets us work, the store takes writes and this process delivers, else 503 with the reason.
/// Reads what was found last: it waits for nothing.
pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    let Ok(engine) = shared.engine() else {
        let part = Part::broken(&shared.backend.waiting());
        let starting = Readiness {
            ready: false,
            broker: part.clone(),
            store: part.clone(),
            delivering: part,
            degraded: Vec::new(),
        };
        return Ok(answer(StatusCode::SERVICE_UNAVAILABLE, &starting));
    };
    let Answer::Readiness(readiness) = engine.query(Query::Readiness).await? else {
        return Err(mismatch());
    };
    let shape = Readiness::from(&readiness);
    let status = if shape.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    Ok(answer(status, &shape))
}

pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    text((shared.metrics)(), "text/plain; version=0.0.4; charset=utf-8")
}

pub(super) async fn describe() -> Response {
    answer(StatusCode::OK, &openapi::document())
}
