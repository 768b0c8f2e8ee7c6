//! What services do: publish, ask what became of it, end.

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
use crate::engine::{Ended, Engine, EngineError, NewNotification, Receipt, query};
use crate::wire::input;
use crate::wire::notification::Notification;
use crate::wire::problem::Problem;
use crate::wire::publish::{self, EndedShape, Published, Written};

use super::Shared;
use super::extract::{Execution, Input, LARGE, NoParams, Params, RawBody, Segment};
use super::guard::Caller;
use super::problem::{Json, Or};

/// What some clients send with each request: nothing is deduplicated at publish (docs/architecture.md).
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const NOT_HEEDED: &str = "Idempotency-Key is not heeded: a repeat is published again. Give the notification an `id` of your \
                          own, and repeat it with that: its receiver gets it as webhook-id, and drops what it has";

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
        Ok(receipt) => {
            let mut answer = Published::from(&receipt);
            if headers.contains_key(IDEMPOTENCY_KEY) {
                let warnings: Vec<String> = answer.warning.into_iter().chain([NOT_HEEDED.to_owned()]).collect();
                answer.warning = Some(warnings.join("; "));
            }
            Ok(Json(answer))
        }
        Err(problem) if problem.status >= 500 => Err(problem.with_id(id.as_str())),
        Err(problem) => Err(problem),
    }
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Where {
    /// Only what is known of it in this queue, and what waits there, where nothing is.
    queue: Option<String>,
}

/// `GET /v1/notifications/{id}`.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Segment(id): Segment,
    Params(params): Params<Where>,
) -> Result<Json<Notification>, Problem> {
    let query = query::Notification {
        id: input::id(&id)?,
        queue: params.queue.as_deref().map(input::queue).transpose()?,
    };
    let view = shared.engine()?.query(query).await?;
    Ok(Json(Notification::from(&view)))
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
