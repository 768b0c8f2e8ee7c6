//! Event types, their subscriptions, and claims on their events.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::engine::Command;
use crate::engine::events::{ClaimRequest, EventCommand, SubscriptionChoice};
use crate::engine::query;
use crate::wire::List;
use crate::wire::event::{Claim, HandledEvent, MetadataKeys, Released, Subscription, Type, Unsubscribed};
use crate::wire::input;
use crate::wire::plan::Asked;
use crate::wire::problem::Problem;

use super::Shared;
use super::act::{Acted, Because, Options, act};
use super::events::{InType, OfType};
use super::extract::{Input, NoParams, Params, RawBody};
use super::guard::Caller;
use super::limit::Limit;
use super::problem::{Json, Nothing, Or};

pub(super) async fn list(State(shared): State<Arc<Shared>>, _: NoParams) -> Result<Json<List<Type>>, Problem> {
    let types = shared.engine()?.query(query::EventTypes()).await?;
    let list = List::only(types.iter().map(Type::from), shared.clock.now());
    Ok(Json(list))
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    OfType(name): OfType,
    _: NoParams,
) -> Result<Json<Type>, Problem> {
    let record = shared.engine()?.query(query::OneEventType(name)).await?;
    Ok(Json(Type::from(&record)))
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Newest {
    /// How many are answered, at most.
    #[serde(default)]
    limit: Limit,
}

/// Newest first; nothing where the type has no `_history_ttl`.
pub(super) async fn history(
    State(shared): State<Arc<Shared>>,
    OfType(event_type): OfType,
    Params(newest): Params<Newest>,
) -> Result<Json<List<HandledEvent>>, Problem> {
    let (engine, limit) = (shared.engine()?, newest.limit.items()?);
    // One that is not there is told.
    engine.query(query::OneEventType(event_type.clone())).await?;
    let handled = engine.query(query::EventHistory { event_type, limit }).await?;
    let list = List::only(handled.iter().map(HandledEvent::from), shared.clock.now());
    Ok(Json(list))
}

/// The body is the metadata.
pub(super) async fn set(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    OfType(event_type): OfType,
    Params(options): Params<Options>,
    body: RawBody<MetadataKeys>,
) -> Result<Acted<Type>, Problem> {
    let text = body.bytes.trim_ascii();
    if text.is_empty() {
        let why = "the body is empty: send the metadata as a JSON document, or {} for none. Nothing was changed";
        return Err(Problem::new(400, why));
    }
    let document = std::str::from_utf8(text)
        .map_err(|_| Problem::new(400, "the body is not UTF-8: send JSON in UTF-8. Nothing was changed"))?;
    let command = EventCommand::SetType {
        event_type,
        document: document.to_owned(),
    };
    act(&shared, &caller, options, Command::Events(command), Asked::One).await
}

pub(super) async fn subscriptions(
    State(shared): State<Arc<Shared>>,
    OfType(name): OfType,
    _: NoParams,
) -> Result<Json<List<Subscription>>, Problem> {
    let rows = shared.engine()?.query(query::Subscriptions(name)).await?;
    let list = List::only(rows.iter().map(Subscription::from), shared.clock.now());
    Ok(Json(list))
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSubscription {
    /// Where the events go.
    url: String,
    /// A retry policy, and what else it needs.
    #[serde(default)]
    options: Option<Box<RawValue>>,
    /// Why; for the audit.
    reason: Option<String>,
}

pub(super) async fn subscribe(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    OfType(event_type): OfType,
    Params(mut options): Params<Options>,
    Input(new): Input<NewSubscription>,
) -> Result<Acted<Subscription>, Problem> {
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

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unsubscription {
    /// The number of the subscription.
    id: Option<i64>,
    /// Or its URL.
    url: Option<String>,
    /// Answer the plan, and change nothing.
    #[serde(default)]
    dry_run: bool,
    /// Why; for the audit.
    reason: Option<String>,
    /// Carry out the plan of this id, and refuse where it does not fit any more.
    plan: Option<String>,
}

pub(super) async fn unsubscribe(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    OfType(event_type): OfType,
    Params(which): Params<Unsubscription>,
    Input(because): Input<Because>,
) -> Result<Acted<Unsubscribed>, Problem> {
    let choice = match (which.id, which.url) {
        (Some(id), None) => SubscriptionChoice::Id(id),
        (None, Some(url)) => SubscriptionChoice::Url(input::url(&url)?),
        (None, None) => return Err(Problem::field("url", "url is missing; give url or id")),
        (Some(_), Some(_)) => return Err(Problem::field("id", "id and url are both given; give one of them")),
    };
    let options = Options {
        dry_run: which.dry_run,
        reason: because.reason.or(which.reason),
        plan: which.plan,
    };
    let command = EventCommand::Unsubscribe {
        event_type,
        which: choice,
    };
    act(&shared, &caller, options, Command::Events(command), Asked::One).await
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewClaim {
    /// For how many seconds it holds: 60 to 43200.
    #[schemars(extend("minimum" = 60, "maximum" = 43_200))]
    #[serde(default = "span_default")]
    ttl: u64,
    /// How many seconds longer than the claim its events live at least: 60 to 43200. The claim itself ends after `ttl`.
    #[schemars(extend("minimum" = 60, "maximum" = 43_200))]
    #[serde(default = "grace_default")]
    grace: u64,
    /// How many events, at most: 1 to 20.
    #[schemars(extend("minimum" = 1, "maximum" = 20))]
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
    _: NoParams,
    Input(new): Input<NewClaim>,
) -> Result<Or<Json<Claim, 201>, Nothing>, Problem> {
    caller.grant(None)?;
    let request = ClaimRequest {
        event_type,
        ttl_s: new.ttl,
        grace_s: new.grace,
        limit: new.limit,
    };
    match shared.engine()?.claim_create(&request).await? {
        Some(claim) => Ok(Or::One(Json(Claim::of(&request.event_type, &claim)))),
        None => Ok(Or::Other(Nothing)),
    }
}

pub(super) async fn claimed(
    State(shared): State<Arc<Shared>>,
    of: InType,
    _: NoParams,
) -> Result<Json<Claim>, Problem> {
    let InType(event_type, id) = of;
    let question = query::OneClaim(event_type.clone(), id);
    let claim = shared.engine()?.query(question).await?;
    Ok(Json(Claim::of(&event_type, &claim)))
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Renewal {
    /// For how many seconds it holds from now on: 60 to 43200.
    #[schemars(extend("minimum" = 60, "maximum" = 43_200))]
    #[serde(default = "span_default")]
    ttl: u64,
    /// How many seconds longer than the claim its events live at least: 60 to 43200. The claim itself ends after `ttl`.
    grace: Option<u64>,
}

pub(super) async fn renew(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    InType(event_type, id): InType,
    _: NoParams,
    Input(renewal): Input<Renewal>,
) -> Result<Json<Claim>, Problem> {
    caller.grant(None)?;
    let engine = shared.engine()?;
    let claim = engine.claim_renew(&event_type, &id, renewal.ttl, renewal.grace).await?;
    Ok(Json(Claim::of(&event_type, &claim)))
}

pub(super) async fn release(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    InType(event_type, id): InType,
    _: NoParams,
) -> Result<Json<Released>, Problem> {
    caller.grant(None)?;
    let released = shared.engine()?.claim_release(&event_type, &id).await?;
    Ok(Json(Released { id, released }))
}
