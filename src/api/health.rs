//! Alive, ready, metrics, and the description of all routes.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use serde_json::Value;

use crate::engine::query;
use crate::wire::problem::Problem;
use crate::wire::record::{Alive, Part, Readiness, Ready};

use super::Shared;
use super::guard::Caller;
use super::masked::MasksItself;
use super::openapi;
use super::problem::{Json, Or, Text, text};

/// The process answers: nothing more is said.
pub(super) async fn alive() -> Json<Alive> {
    Json(Alive { status: "alive" })
}

/// Ready, or not.
type Answered = Or<Json<Ready>, Json<Ready, 503>>;

/// 200 when the broker lets us work, the store takes writes and this process delivers, else 503; with the reason for
/// those who may look. Reads what was found last: it waits for nothing.
pub(super) async fn ready(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
) -> Result<Answered, Problem> {
    let found = readiness(&shared).await?;
    Ok(if caller.may_look() {
        answered(found.ready, Ready::Whole(Box::new(found)))
    } else {
        without_reasons(&found)
    })
}

/// The same without a reason.
pub(super) async fn ready_or_not(State(shared): State<Arc<Shared>>) -> Result<Answered, Problem> {
    Ok(without_reasons(&readiness(&shared).await?))
}

const fn without_reasons(found: &Readiness) -> Answered {
    answered(found.ready, Ready::Bare { ready: found.ready })
}

const fn answered(is_ready: bool, shape: Ready) -> Answered {
    if is_ready {
        Or::One(Json(shape))
    } else {
        Or::Other(Json(shape))
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
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> MasksItself<Text> {
    let numbers = text((shared.metrics)(), "text/plain; version=0.0.4; charset=utf-8");
    MasksItself(Text(numbers))
}

pub(super) async fn describe() -> Json<Value> {
    Json(openapi::document())
}
