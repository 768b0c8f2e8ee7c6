//! Event types, their subscriptions, and claims on their events.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::engine::Command;
use crate::engine::events::{ClaimRequest, EventCommand, SubscriptionChoice};
use crate::engine::query;
use crate::wire::List;
use crate::wire::event::{Claim, Subscription, Type};
use crate::wire::input;
use crate::wire::plan::Asked;
use crate::wire::problem::Problem;

use super::Shared;
use super::act::{Options, act};
use super::events::{InType, OfType};
use super::extract::{Input, Params, RawBody};
use super::guard::Caller;
use super::problem::answer;

pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    let types = shared.engine()?.query(query::EventTypes()).await?;
    let list = List::only(types.iter().map(Type::from), shared.clock.now());
    Ok(answer(StatusCode::OK, &list))
}

pub(super) async fn show(State(shared): State<Arc<Shared>>, OfType(name): OfType) -> Result<Response, Problem> {
    let record = shared.engine()?.query(query::OneEventType(name)).await?;
    Ok(answer(StatusCode::OK, &Type::from(&record)))
}

/// The body is the metadata.
pub(super) async fn set(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    OfType(event_type): OfType,
    Params(options): Params<Options>,
    body: RawBody,
) -> Result<Response, Problem> {
    let text = body.bytes.trim_ascii();
    let document = if text.is_empty() {
        "{}".into()
    } else {
        String::from_utf8_lossy(text)
    };
    let command = EventCommand::SetType {
        event_type,
        document: document.into_owned(),
    };
    act(&shared, &caller, options, Command::Events(command), Asked::One).await
}

pub(super) async fn subscriptions(
    State(shared): State<Arc<Shared>>,
    OfType(name): OfType,
) -> Result<Response, Problem> {
    let rows = shared.engine()?.query(query::Subscriptions(name)).await?;
    let list = List::only(rows.iter().map(Subscription::from), shared.clock.now());
    Ok(answer(StatusCode::OK, &list))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSubscription {
    url: String,
    #[serde(default)]
    options: Option<Box<RawValue>>,
    reason: Option<String>,
}

pub(super) async fn subscribe(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    OfType(event_type): OfType,
    Params(mut options): Params<Options>,
    Input(new): Input<NewSubscription>,
) -> Result<Response, Problem> {
    options.reason = new.reason.or(options.reason);
    let command = EventCommand::Subscribe {
        event_type,
        url: input::url(&new.url)?,
        options: new
            .options
            .map_or_else(|| "{}".to_owned(), |options| options.get().to_owned()),
    };
    act(&shared, &caller, options, Command::Events(command), Asked::One).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unsubscription {
    id: Option<i64>,
    url: Option<String>,
    #[serde(default)]
    dry_run: bool,
    reason: Option<String>,
    plan: Option<String>,
}

pub(super) async fn unsubscribe(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    OfType(event_type): OfType,
    Params(which): Params<Unsubscription>,
) -> Result<Response, Problem> {
    let choice = match (which.id, which.url) {
        (Some(id), None) => SubscriptionChoice::Id(id),
        (None, Some(url)) => SubscriptionChoice::Url(input::url(&url)?),
        (None, None) => return Err(Problem::field("url", "url is missing; give url or id")),
        (Some(_), Some(_)) => return Err(Problem::field("id", "id and url are both given; give one of them")),
    };
    let options = Options {
        dry_run: which.dry_run,
        reason: which.reason,
        plan: which.plan,
        ..Options::default()
    };
    let command = EventCommand::Unsubscribe {
        event_type,
        which: choice,
    };
    act(&shared, &caller, options, Command::Events(command), Asked::One).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewClaim {
    #[serde(default = "span_default")]
    ttl: u64,
    #[serde(default = "grace_default")]
    grace: u64,
    #[serde(default = "limit_default")]
    limit: u32,
}

const fn span_default() -> u64 {
    300
}

const fn grace_default() -> u64 {
    60
}

const fn limit_default() -> u32 {
    10
}

/// 204 when there is nothing.
pub(super) async fn claim(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    OfType(event_type): OfType,
    Input(new): Input<NewClaim>,
) -> Result<Response, Problem> {
    caller.grant(None)?;
    let request = ClaimRequest {
        event_type,
        ttl_s: new.ttl,
        grace_s: new.grace,
        limit: new.limit,
    };
    match shared.engine()?.claim_create(&request).await? {
        Some(claim) => Ok(answer(StatusCode::CREATED, &Claim::of(&request.event_type, &claim))),
        None => Ok(nothing()),
    }
}

pub(super) async fn claimed(State(shared): State<Arc<Shared>>, of: InType) -> Result<Response, Problem> {
    let InType(event_type, id) = of;
    let question = query::OneClaim(event_type.clone(), id);
    let claim = shared.engine()?.query(question).await?;
    Ok(answer(StatusCode::OK, &Claim::of(&event_type, &claim)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Renewal {
    #[serde(default = "span_default")]
    ttl: u64,
    grace: Option<u64>,
}

pub(super) async fn renew(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    InType(event_type, id): InType,
    Input(renewal): Input<Renewal>,
) -> Result<Response, Problem> {
    caller.grant(None)?;
    let engine = shared.engine()?;
    let claim = engine.claim_renew(&event_type, &id, renewal.ttl, renewal.grace).await?;
    Ok(answer(StatusCode::OK, &Claim::of(&event_type, &claim)))
}

pub(super) async fn release(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    InType(event_type, id): InType,
) -> Result<Response, Problem> {
    caller.grant(None)?;
    let released = shared.engine()?.claim_release(&event_type, &id).await?;
    Ok(answer(
        StatusCode::OK,
        &serde_json::json!({"id": id, "released": released}),
    ))
}

fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
