//! Events: push, look, and what an operator changes.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::domain::event::{EventType, NewEvent, Reference};
use crate::domain::trace::{TRACEPARENT, TRACESTATE, TraceContext};
use crate::engine::Command;
use crate::engine::events::{EventCommand, EventSelection, EventsQuery};
use crate::engine::query;
use crate::wire::List;
use crate::wire::document;
use crate::wire::event::{
    self as wire, Count, Event, EventFinished, EventsChanged, NewEvents, PushInput, Pushed, PushedList,
};
use crate::wire::plan::{Asked, OneOf};
use crate::wire::problem::Problem;

use super::Shared;
use super::act::{Acted, Because, Options, act};
use super::extract::{Input, LARGE, NoParams, Params, RawBody};
use super::guard::Caller;
use super::limit::Limit;
use super::problem::{Json, Or};

/// A type's name in the path, percent-encoded.
pub(super) struct OfType(pub(super) EventType);

impl FromRequestParts<Arc<Shared>> for OfType {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Shared>) -> Result<Self, Problem> {
        let Path(name): Path<String> = path(parts).await?;
        wire::event_type(&name).map(Self)
    }
}

/// A type and something of it in the path, percent-encoded.
pub(super) struct InType(pub(super) EventType, pub(super) String);

impl InType {
    fn reference(self) -> Result<(EventType, Reference), Problem> {
        let reference = wire::reference(&self.1)?;
        Ok((self.0, reference))
    }
}

impl FromRequestParts<Arc<Shared>> for InType {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Shared>) -> Result<Self, Problem> {
        let Path((name, inner)): Path<(String, String)> = path(parts).await?;
        Ok(Self(wire::event_type(&name)?, inner))
    }
}

async fn path<T: serde::de::DeserializeOwned + Send>(parts: &mut Parts) -> Result<Path<T>, Problem> {
    Path::from_request_parts(parts, &())
        .await
        .map_err(|error| Problem::field("type", error.body_text()))
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    /// The events.
    events: Vec<Box<RawValue>>,
}

/// Whether there are several, told by the key alone.
#[derive(Deserialize)]
struct IsBatch {
    #[serde(default, deserialize_with = "is_there")]
    events: bool,
}

fn is_there<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(value).map(|_| true)
}

/// The events of a list; `None`: it is one event.
fn batch(text: &[u8]) -> Result<Option<Vec<Box<RawValue>>>, Problem> {
    if text.starts_with(b"[") {
        return document::any(text).map(Some);
    }
    let is_batch = serde_json::from_slice::<IsBatch>(text).is_ok_and(|one| one.events);
    if !is_batch {
        return Ok(None);
    }
    document::object::<Batch>(text).map(|batch| Some(batch.events))
}

/// One event, or a list of them (bare or under `events`): applied wholly or not at all.
pub(super) async fn push(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    OfType(event_type): OfType,
    _: NoParams,
    headers: HeaderMap,
    body: RawBody<NewEvents, LARGE>,
) -> Result<Or<Json<Pushed, 201>, Json<PushedList, 201>>, Problem> {
    caller.grant(None)?;
    caller.may_publish_anywhere()?;
    let trace = traced(&headers);
    let engine = shared.engine()?;
    let text = body.bytes.trim_ascii();
    let Some(batch) = batch(text)? else {
        let input: PushInput = document::object(text)?;
        let event = NewEvent {
            trace,
            ..input.event(&event_type)?
        };
        caller.pushes(1, shared.clock.uptime())?;
        let pushed = engine.event_push(event.clone()).await?;
        return Ok(Or::One(Json(Pushed::of(&event, pushed))));
    };
    let mut events = elements(&event_type, &batch)?;
    for event in &mut events {
        event.trace.clone_from(&trace);
    }
    caller.pushes(events.len(), shared.clock.uptime())?;
    let pushed = engine.events_push(events.clone()).await?;
    let items = events.iter().zip(pushed);
    Ok(Or::Other(Json(PushedList {
        items: items.map(|(event, pushed)| Pushed::of(event, pushed)).collect(),
    })))
}

/// What is made of an event belongs to the trace of whoever pushes it.
fn traced(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    TraceContext::of(text(TRACEPARENT), text(TRACESTATE))
}

/// Each element by itself, so that an error says which one it is.
fn elements(event_type: &EventType, batch: &[Box<RawValue>]) -> Result<Vec<NewEvent>, Problem> {
    let element = |(index, text): (usize, &RawValue)| {
        let within = |problem: Problem| {
            let field = problem.field.as_deref().unwrap_or_default();
            Problem::field(format!("events[{index}].{field}").trim_end_matches('.'), problem.detail)
        };
        let input: PushInput = document::object(text.get().as_bytes()).map_err(within)?;
        input
            .event(event_type)
            .map_err(|error| Problem::from(error.in_element(index)))
    };
    batch.iter().map(|text| &**text).enumerate().map(element).collect()
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Selection {
    /// A filter, in the filter language.
    filter: Option<String>,
    /// How many are answered, at most.
    #[serde(default)]
    limit: Limit,
    /// Where the page begins: `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Of all types.
pub(super) async fn search(
    State(shared): State<Arc<Shared>>,
    Params(selection): Params<Selection>,
) -> Result<Json<List<Event>>, Problem> {
    page(&shared, None, selection).await
}

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    OfType(event_type): OfType,
    Params(selection): Params<Selection>,
) -> Result<Json<List<Event>>, Problem> {
    page(&shared, Some(event_type), selection).await
}

async fn page(
    shared: &Shared,
    event_type: Option<EventType>,
    selection: Selection,
) -> Result<Json<List<Event>>, Problem> {
    let query = EventsQuery {
        event_type,
        filter: selection.filter,
        limit: selection.limit.items()?,
        cursor: selection.cursor,
    };
    let page = shared.engine()?.query(query::Events(query)).await?;
    Ok(Json(List::<Event>::of(&page)))
}

pub(super) async fn counts(State(shared): State<Arc<Shared>>, _: NoParams) -> Result<Json<List<Count>>, Problem> {
    let counts = shared.engine()?.query(query::EventCounts()).await?;
    let list = List::only(counts.iter().map(Count::from), shared.clock.now());
    Ok(Json(list))
}

/// All of a reference: what is due now, and what is dated.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    about: InType,
    _: NoParams,
) -> Result<Json<List<Event>>, Problem> {
    let (event_type, reference) = about.reference()?;
    let events = shared.engine()?.query(query::EventsOf(event_type, reference)).await?;
    let list = List::only(events.iter().map(Event::from), shared.clock.now());
    Ok(Json(list))
}

#[derive(Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Reschedule")]
pub(super) struct When {
    /// When it is due: RFC 3339, or seconds since 1970.
    at: Option<serde_json::Value>,
    /// The same.
    nbf: Option<serde_json::Value>,
    /// Why; for the audit.
    reason: Option<String>,
}

pub(super) async fn retry(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    about: InType,
    Params(mut options): Params<Options>,
    Input(because): Input<Because>,
) -> Result<Acted<OneOf<Event, EventsChanged>>, Problem> {
    options.reason = because.reason.or(options.reason);
    let (event_type, reference) = about.reference()?;
    let command = EventCommand::Retry(EventSelection::Reference(event_type, reference));
    act(&shared, &caller, options, Command::Events(command), Asked::One).await
}

pub(super) async fn reschedule(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    about: InType,
    Params(mut options): Params<Options>,
    Input(when): Input<When>,
) -> Result<Acted<OneOf<Event, EventsChanged>>, Problem> {
    options.reason = when.reason.or(options.reason);
    let (event_type, reference) = about.reference()?;
    let at = match (&when.at, &when.nbf) {
        (Some(_), Some(_)) => return Err(Problem::field("nbf", "at and nbf are both given: give one of them")),
        (None, Some(_)) => wire::due_json("nbf", when.nbf.as_ref())?,
        (_, None) => wire::due_json("at", when.at.as_ref())?,
    };
    let command = EventCommand::Reschedule(EventSelection::Reference(event_type, reference), at);
    act(&shared, &caller, options, Command::Events(command), Asked::One).await
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Removal {
    /// The claim that has it, which is done with it.
    claim_id: Option<String>,
    /// Answer the plan, and change nothing.
    #[serde(default)]
    dry_run: bool,
    /// Why; for the audit.
    reason: Option<String>,
    /// Carry out the plan of this id, and refuse where it does not fit any more.
    plan: Option<String>,
}

/// With the claim's id it is done; without one an operator removes it.
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    about: InType,
    Params(removal): Params<Removal>,
    Input(because): Input<Because>,
) -> Result<Or<Json<EventFinished>, Acted<OneOf<Event, EventsChanged>>>, Problem> {
    let (event_type, reference) = about.reference()?;
    if let Some(claim) = removal.claim_id {
        if removal.dry_run || removal.plan.is_some() {
            let field = if removal.dry_run { "dry_run" } else { "plan" };
            let problem = "a claim's event is finished without a plan: give claim_id alone. Nothing was done";
            return Err(Problem::field(field, problem));
        }
        caller.grant(None)?;
        let finished = shared.engine()?.claim_done(&event_type, &reference, &claim).await?;
        return Ok(Or::One(Json(EventFinished {
            reference: reference.as_str().to_owned(),
            result: finished.as_str(),
        })));
    }
    let options = Options {
        dry_run: removal.dry_run,
        reason: because.reason.or(removal.reason),
        plan: removal.plan,
    };
    let command = EventCommand::Cancel(EventSelection::Reference(event_type, reference));
    act(&shared, &caller, options, Command::Events(command), Asked::One)
        .await
        .map(Or::Other)
}
