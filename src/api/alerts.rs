//! A test of who is told of bad turns.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use crate::wire::problem::Problem;

use super::Shared;
use super::act::Because;
use super::extract::{Input, Params};
use super::guard::Caller;
use super::problem::answer;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reason {
    reason: Option<String>,
}

/// `POST /v1/alerts/{name}/test`.
pub(super) async fn test(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Params(asked): Params<Reason>,
    Input(because): Input<Because>,
) -> Result<Response, Problem> {
    let grant = caller.grant(because.reason.or(asked.reason))?;
    shared.engine()?.alert_test(&name, &grant).await?;
    Ok(answer(StatusCode::OK, &json!({"alert": name, "taken": true})))
}
