//! Events: pushing, looking, acting.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::when::{told, told_or_dash};
use crate::domain::event::{Event as FoundEvent, EventState, EventType, NewEvent, PAYLOAD_BYTES_MAX, Subtype, rfc3339};
use crate::engine::events::{EventCommand, EventSelection, EventsQuery, Finished, Pushed as PushedRow, PushedHow};
use crate::engine::query;
use crate::engine::{Command, EngineError, calls};
use crate::wire::event::{self as wire, Count, Event as EventShape, HandledEvent, Pushed};
use crate::wire::plan::Asked;

use super::done::{How, OfRun};
use super::event_args::{Event, Many, OneOrReference, Push, Selection, Which};
use super::exit::{Exit, Failure};
use super::output::{Column, or_dash};
use super::paged::paged;
use super::{Session, given, say};

const EVENTS: &[Column] = &[
    Column::Number("id"),
    Column::Text("type"),
    Column::Text("subtype"),
    Column::Text("reference"),
    Column::Text("state"),
    Column::Number("attempts"),
    Column::Text("due"),
    Column::Text("reason"),
];
const HANDLED: &[Column] = &[
    Column::Number("id"),
    Column::Text("reference"),
    Column::Number("attempts"),
    Column::Text("created"),
    Column::Text("handled"),
    Column::Text("reason"),
];
const COUNTS: &[Column] = &[
    Column::Text("type"),
    Column::Text("state"),
    Column::Number("count"),
    Column::Number("due"),
    Column::Text("oldest"),
];

pub(super) async fn event(session: &Session<'_>, event: &Event) -> Result<Exit, Failure> {
    match event {
        Event::Push(new) => push(session, new).await,
        Event::List(selection) => list(session, selection).await,
        Event::Search { filter, limit } => {
            let selection = Selection {
                event_type: None,
                filter: Some(filter.clone()),
                limit: *limit,
            };
            list(session, &selection).await
        }
        Event::Show(which) => show(session, which).await,
        Event::Counts => counts(session).await,
        Event::History { event_type, limit } => history(session, event_type, *limit).await,
        Event::Retry(many) => act(session, many, EventCommand::Retry).await,
        Event::Reschedule { which: many, at } => {
            let at = wire::due("at", at)?;
            act(session, many, |events| EventCommand::Reschedule(events, at)).await
        }
        Event::Cancel(many) => act(session, many, EventCommand::Cancel).await,
        Event::Process { event_type, .. } => process(session, event_type).await,
    }
}

async fn push(session: &Session<'_>, new: &Push) -> Result<Exit, Failure> {
    let payload = new.payload_file.as_deref();
    let payload = payload
        .map(|file| given::bytes("--payload-file", file, PAYLOAD_BYTES_MAX))
        .transpose()?;
    let event = NewEvent {
        event_type: wire::event_type(&new.event_type)?,
        reference: wire::reference(&new.reference)?,
        nbf: new.nbf.as_deref().map(|text| wire::due("nbf", text)).transpose()?,
        reason: session.cli.global.reason.clone(),
        payload,
        lifetime: new.ttl.map(std::time::Duration::from_secs),
        trace: None,
    };
    let pushed = if session.cli.global.dry_run {
        say("not pushed: this is what would be");
        would_push(session, &event).await?
    } else {
        let event = event.clone();
        session
            .engine
            .call(calls::PushEvent { event }, &session.grant()?)
            .await?
    };
    let shape = Pushed::of(&event, pushed);
    let facts = [
        ("id", Some(shape.id.to_string())),
        ("type", Some(shape.r#type.clone())),
        ("reference", Some(shape.reference.clone())),
        ("revision", Some(shape.revision.to_string())),
        ("result", Some(shape.result.to_owned())),
    ];
    session.output.facts(&shape, &facts)?;
    Ok(Exit::Done)
}

/// What a push would find: its key is that of one that waits, or of a dead letter, or of none.
async fn would_push(session: &Session<'_>, event: &NewEvent) -> Result<PushedRow, Failure> {
    let query = query::EventsOf(event.event_type.clone(), event.reference.clone());
    let found = match session.engine.query(query).await {
        Ok(found) => found,
        Err(EngineError::NotFound { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    // What is dead of another type, and what never was an event, are no events of this key.
    let is_keyed = |one: &&FoundEvent| one.origin.is_none() && one.properties.is_none();
    let is_same = |one: &&FoundEvent| match (one.subtype, event.nbf) {
        (Subtype::Immediate, None) => true,
        // An older daemon does not say which date its key has.
        (Subtype::Delayed, Some(at)) => one.dated.unwrap_or(one.nbf) == at,
        (Subtype::Immediate | Subtype::Delayed, _) => false,
    };
    Ok(match found.iter().filter(is_keyed).find(is_same) {
        None => PushedRow {
            id: 0,
            revision: 0,
            how: PushedHow::New,
        },
        Some(one) => PushedRow {
            id: one.id,
            revision: one.revision + 1,
            how: match one.state {
                EventState::Dead => PushedHow::Revived,
                EventState::Ready | EventState::Leased | EventState::Held => PushedHow::Coalesced,
            },
        },
    })
}

/// How many events of a type would be handled.
async fn due(session: &Session<'_>, event_type: &str) -> Result<Exit, Failure> {
    let due = due_of(session, &wire::event_type(event_type)?).await?;
    say("nothing was handled: this is how many are due");
    session
        .output
        .facts(&serde_json::json!({ "due": due }), &[("due", Some(due.to_string()))])?;
    Ok(Exit::Done)
}

/// Events of a type that are due.
pub(super) async fn due_of(session: &Session<'_>, event_type: &EventType) -> Result<u64, Failure> {
    let counts = session.engine.query(query::EventCounts()).await?;
    let of_type = counts.iter().filter(|count| count.event_type == *event_type);
    Ok(of_type.map(|count| count.due).sum())
}

/// Exit 3 where some of them failed.
async fn process(session: &Session<'_>, event_type: &str) -> Result<Exit, Failure> {
    if session.cli.global.dry_run {
        return due(session, event_type).await;
    }
    let stop = CancellationToken::new();
    let mut signals = [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
    let event_type = wire::event_type(event_type)?;
    let working = session
        .engine
        .here("handling events")?
        .process_once(&event_type, stop.clone());
    tokio::pin!(working);
    let [interrupted, terminated] = &mut signals;
    let processed = loop {
        tokio::select! {
            processed = &mut working => break processed?,
            _ = interrupted.recv() => stop.cancel(),
            _ = terminated.recv() => stop.cancel(),
        }
    };
    let counts = wire::processed(&processed);
    let facts: Vec<(&str, Option<String>)> = processed
        .ended
        .iter()
        .map(|(how, count)| (how.as_str(), Some(count.to_string())))
        .collect();
    session.output.facts(&counts, &facts)?;
    let failed = processed
        .ended
        .iter()
        .any(|(how, _)| matches!(how, Finished::Retried | Finished::Dead));
    Ok(if failed { Exit::Partly } else { Exit::Done })
}

async fn list(session: &Session<'_>, selection: &Selection) -> Result<Exit, Failure> {
    let event_type = selection.event_type.as_deref().map(wire::event_type).transpose()?;
    let page = |limit, cursor| {
        query::Events(EventsQuery {
            event_type: event_type.clone(),
            filter: selection.filter.clone(),
            limit,
            cursor,
        })
    };
    let list = paged(
        session,
        selection.limit,
        "events",
        "raise --limit, or use --filter",
        page,
    )
    .await?;
    let events: Vec<EventShape> = list.items.iter().map(EventShape::from).collect();
    print(session, &events)
}

pub(super) fn print(session: &Session<'_>, events: &[EventShape]) -> Result<Exit, Failure> {
    session.output.list(events, EVENTS, |event| {
        vec![
            event.id.to_string(),
            event.r#type.clone(),
            or_dash(subtype(event)),
            event.reference.clone(),
            state(event).to_owned(),
            event.attempts.to_string(),
            or_dash(event.nbf.as_deref()),
            or_dash(event.reason.as_deref()),
        ]
    })?;
    Ok(Exit::Done)
}

/// Beside its type, so that the type can be asked for as it is printed.
fn subtype(event: &EventShape) -> Option<&str> {
    Some(event.subtype).filter(|subtype| !subtype.is_empty())
}

/// What was handled of a type.
async fn history(session: &Session<'_>, event_type: &str, limit: u32) -> Result<Exit, Failure> {
    let event_type = wire::event_type(event_type)?;
    session.engine.query(query::OneEventType(event_type.clone())).await?;
    let handled = session.engine.query(query::EventHistory { event_type, limit }).await?;
    let handled: Vec<HandledEvent> = handled.iter().map(HandledEvent::from).collect();
    session.output.list(&handled, HANDLED, |one| {
        vec![
            one.id.to_string(),
            one.reference.clone(),
            one.attempts.to_string(),
            or_dash(one.created_at.as_deref()),
            or_dash(one.handled_at.as_deref()),
            or_dash(one.reason.as_deref()),
        ]
    })?;
    Ok(Exit::Done)
}

/// One that was cancelled in hand is there until its handler has ended.
fn state(event: &EventShape) -> &'static str {
    match &event.lease {
        Some(lease) if lease.cancelled => "cancelled",
        Some(_) | None => event.state,
    }
}

async fn show(session: &Session<'_>, which: &OneOrReference) -> Result<Exit, Failure> {
    let engine = session.engine;
    let mut events = match (which.id, &which.event_type, &which.reference) {
        (Some(id), ..) => vec![engine.query(query::OneEvent(id)).await?],
        (None, Some(event_type), Some(reference)) => {
            let query = query::EventsOf(wire::event_type(event_type)?, wire::reference(reference)?);
            engine.query(query).await?
        }
        _ => return Err(Failure::new(Exit::Usage, "give one id, or --type and --reference")),
    };
    if events.len() > 1 {
        return print(session, &events.iter().map(EventShape::from).collect::<Vec<_>>());
    }
    // A reference without any is not found.
    let Some(event) = events.pop() else {
        return Ok(Exit::Done);
    };
    let shape = EventShape::from(&event);
    let payload = event
        .payload
        .as_deref()
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let facts = [
        ("id", Some(shape.id.to_string())),
        ("type", Some(shape.r#type.clone())),
        ("subtype", subtype(&shape).map(str::to_owned)),
        ("reference", Some(shape.reference.clone())),
        ("state", Some(state(&shape).to_owned())),
        ("due", Some(told(&rfc3339(event.nbf)))),
        ("created", Some(told(&rfc3339(event.created_at)))),
        ("attempts", Some(shape.attempts.to_string())),
        ("reason", shape.reason.clone()),
        ("revision", Some(shape.revision.to_string())),
        ("merged", Some(shape.merged.to_string())),
        ("claims", Some(shape.claim_count.to_string())),
        ("moved from", shape.origin.clone()),
        ("ends", shape.expires_at.as_deref().map(told)),
        ("payload", payload),
    ];
    session.output.facts(&shape, &facts)?;
    Ok(Exit::Done)
}

async fn counts(session: &Session<'_>) -> Result<Exit, Failure> {
    let counts = session.engine.query(query::EventCounts()).await?;
    let counts: Vec<Count> = counts.iter().map(Count::from).collect();
    session.output.list(&counts, COUNTS, |count| {
        vec![
            count.r#type.clone(),
            count.state.to_owned(),
            count.count.to_string(),
            count.due.to_string(),
            told_or_dash(count.oldest_created_at.as_deref()),
        ]
    })?;
    Ok(Exit::Done)
}

async fn act(
    session: &Session<'_>,
    many: &Many,
    command: impl FnOnce(EventSelection) -> EventCommand,
) -> Result<Exit, Failure> {
    let selection = match (selection(&many.which)?, many.rate) {
        (EventSelection::Filter(filter), Some(rate)) => EventSelection::Paced(filter, rate),
        (selection, _) => selection,
    };
    let asked = match &selection {
        EventSelection::Ids(ids) if ids.len() == 1 => Asked::One,
        EventSelection::Reference(..) => Asked::One,
        EventSelection::Ids(_) | EventSelection::Rows(_) | EventSelection::Filter(_) | EventSelection::Paced(..) => {
            Asked::Several
        }
    };
    let how = How::of(asked).run(OfRun::started(many.detach));
    session.act(Command::Events(command(selection)), how).await
}

fn selection(which: &Which) -> Result<EventSelection, Failure> {
    match (&which.event_type, &which.reference, &which.filter) {
        (Some(event_type), Some(reference), None) => Ok(EventSelection::Reference(
            wire::event_type(event_type)?,
            wire::reference(reference)?,
        )),
        (None, None, Some(filter)) => Ok(EventSelection::Filter(filter.clone())),
        _ if which.ids.is_empty() => Err(Failure::new(
            Exit::Usage,
            "which events? give ids, --type with --reference, or --filter",
        )),
        _ => Ok(EventSelection::Ids(which.ids.clone())),
    }
}
