//! A test of who is told of bad turns.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::wire::problem::Problem;
use crate::wire::record::AlertTested;

use super::Shared;
use super::act::Because;
use super::extract::{Input, Params, Segment};
use super::guard::Caller;
use super::problem::Json;

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reason {
    /// Why; for the audit.
    reason: Option<String>,
}

/// `POST /v1/alerts/{name}/test`.
pub(super) async fn test(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Segment(name): Segment,
    Params(asked): Params<Reason>,
    Input(because): Input<Because>,
) -> Result<Json<AlertTested>, Problem> {
    let grant = caller.grant(because.reason.or(asked.reason))?;
    shared.engine()?.alert_test(&name, &grant).await?;
    Ok(Json(AlertTested {
        alert: name,
        taken: true,
    }))
}
