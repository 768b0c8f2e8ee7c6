//! What services do: publish, end.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::ambient;
use crate::budget::{SMALL_BYTES, Share};
use crate::domain::notification::HEADERS_MAX;
use crate::domain::trace::{self, TRACEPARENT, TRACESTATE};
use crate::engine::{Ended, Engine, EngineError, NewNotification, Receipt};
use crate::wire::input;
use crate::wire::problem::Problem;
use crate::wire::publish::{self, EndedShape, Published, Written};

use super::Shared;
use super::extract::{Execution, Input, LARGE, NoParams, RawBody};
use super::guard::Caller;
use super::problem::{Json, Or};

/// 202 after the broker's confirm. The id is given before anything is tried, so that a caller who
/// gets a 503 can repeat with it.
pub(super) async fn publish(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    _: NoParams,
    headers: HeaderMap,
    body: RawBody<Written<'static>, LARGE>,
) -> Result<Json<Published, 202>, Problem> {
    caller.grant(None)?;
    let RawBody { bytes, memory, .. } = body;
    let mut new = publish::notification(&bytes)?;
    // What goes on is a copy.
    drop(bytes);
    trace_on(&mut new, &headers);
    let id = match new.id.take() {
        Some(id) => id,
        None => input::id(&ambient::new_id())?,
    };
    new.id = Some(id.clone());
    let published = match caller.begins_publish(&shared, &new).await {
        Ok(engine) => published(engine, new, memory).await.map_err(Problem::from),
        Err(problem) => Err(problem),
    };
    match published {
        Ok(receipt) => Ok(Json(Published::from(&receipt))),
        Err(problem) if problem.status >= 500 => Err(problem.with_id(id.as_str())),
        Err(problem) => Err(problem),
    }
}

/// The receiver's spans belong to the trace of whoever publishes.
fn trace_on(new: &mut NewNotification, headers: &HeaderMap) {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let has = |name: &str| new.headers.iter().any(|(one, _)| one.eq_ignore_ascii_case(name));
    let traced = trace::context(text(TRACEPARENT), text(TRACESTATE), has);
    if new.headers.len() + traced.len() <= HEADERS_MAX {
        new.headers.extend(traced);
    }
}

/// A publish that has begun goes on when its client leaves, and its bytes are counted until it has ended.
async fn published(engine: &Engine, new: NewNotification, memory: Share) -> Result<Receipt, EngineError> {
    if memory.bytes() <= SMALL_BYTES {
        return engine.publish(new).await;
    }
    let (engine, asked) = (engine.clone(), memory.bytes());
    let task = ambient::spawn("publish what is large", async move {
        let receipt = engine.publish(new).await;
        drop(memory);
        receipt
    });
    task.await.unwrap_or_else(|error| {
        Err(EngineError::Refused {
            why: format!("the publish of {asked} bytes broke off: {error}"),
        })
    })
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Url")]
pub(super) struct EndRequest {
    /// The URL whose sequence ends.
    url: String,
}

/// 202 when the mark is stored, 200 when there is nothing to end.
pub(super) async fn end(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Execution(execution): Execution,
    _: NoParams,
    Input(request): Input<EndRequest>,
) -> Result<Or<Json<EndedShape, 202>, Json<EndedShape>>, Problem> {
    caller.grant(None)?;
    let url = input::url(&request.url)?;
    let engine = caller.begins_end(&shared, &execution, &url).await?;
    let ended = engine.end(execution, url).await?;
    let shape = EndedShape::from(&ended);
    Ok(match ended {
        Ended::Marked(_) => Or::One(Json(shape)),
        Ended::NoQueue(_) => Or::Other(Json(shape)),
    })
}
