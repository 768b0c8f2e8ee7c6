//! Asks for the event table: its lists, one event, one type.

use std::sync::Arc;

use super::feed::{batch, left};
use super::{inquire, unexpected};
use crate::console::detail::{EventDetail, TypeDetail};
use crate::console::events::{GroupRow, TypeRow, group_rows, type_rows};
use crate::console::feed::{Batch, Progress};
use crate::domain::event::{Event, EventType};
use crate::engine::events::{EventAnswer, EventQuestion, EventsQuery};
use crate::engine::policies::PolicyView;
use crate::engine::query::PolicyScope;
use crate::engine::{Answer, Engine, Query};

/// Events of one question, at most: payloads come with them.
const PAGE_MAX: u32 = 250;
/// Pages that are asked for before what was found so far is shown: a rare find takes many.
const PAGES_MAX: u32 = 80;
/// Handled events that are shown.
const HANDLED_MAX: u32 = 200;

pub(super) async fn types(engine: &Engine) -> Result<Batch<TypeRow>, String> {
    let (counts, types) = tokio::try_join!(
        question(engine, EventQuestion::Counts),
        question(engine, EventQuestion::Types)
    )?;
    let (EventAnswer::Counts(counts), EventAnswer::Types(types)) = (counts, types) else {
        return Err(unexpected());
    };
    let rows = type_rows(&counts, &types).into_iter().map(Arc::new).collect();
    Ok(batch(rows, false))
}

pub(super) async fn groups(
    engine: &Engine,
    event_type: Option<EventType>,
    filter: Option<String>,
) -> Result<Batch<GroupRow>, String> {
    let query = EventsQuery {
        event_type,
        filter,
        ..EventsQuery::default()
    };
    let EventAnswer::Groups(found) = question(engine, EventQuestion::Groups(query)).await? else {
        return Err(unexpected());
    };
    let progress = found.more.then(|| {
        Progress::Says(format!(
            "the newest {} were looked at; what a group opens is searched in all",
            found.looked
        ))
    });
    let rows = group_rows(found).into_iter().map(Arc::new).collect();
    Ok(Batch {
        progress,
        ..batch(rows, false)
    })
}

pub(super) async fn events(
    engine: &Engine,
    event_type: Option<EventType>,
    filter: Option<String>,
    limit: u32,
) -> Result<Batch<Event>, String> {
    let mut rows: Vec<Arc<Event>> = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let query = EventsQuery {
            event_type: event_type.clone(),
            filter: filter.clone(),
            limit: left(limit, rows.len()).min(PAGE_MAX),
            cursor,
        };
        let EventAnswer::List(page) = question(engine, EventQuestion::List(query)).await? else {
            return Err(unexpected());
        };
        cursor = page.next_cursor;
        rows.extend(page.items.into_iter().map(|event| Arc::new(without_payload(event))));
        if cursor.is_none() || left(limit, rows.len()) == 0 {
            return Ok(batch(rows, cursor.is_some()));
        }
    }
    Ok(Batch {
        progress: Some(Progress::Says(
            "looked through a part; a narrower filter finds the rest".to_owned(),
        )),
        ..batch(rows, false)
    })
}

/// A list holds many of them: what the detail shows is asked for with it.
fn without_payload(event: Event) -> Event {
    Event {
        payload: None,
        properties: None,
        claim_history: None,
        ..event
    }
}

/// An event with what else is known of its key.
pub(super) async fn event(engine: &Engine, id: i64) -> Result<EventDetail, String> {
    let EventAnswer::One(event) = question(engine, EventQuestion::One(id)).await? else {
        return Err(unexpected());
    };
    let of_key = EventQuestion::Of(event.event_type.clone(), event.reference.clone());
    let handled = EventQuestion::History {
        event_type: event.event_type.clone(),
        limit: HANDLED_MAX,
    };
    let (of_key, handled) = tokio::try_join!(question(engine, of_key), question(engine, handled))?;
    let (EventAnswer::Of(mut others), EventAnswer::History(mut handled)) = (of_key, handled) else {
        return Err(unexpected());
    };
    others.retain(|other| other.id != event.id);
    handled.retain(|one| one.reference == event.reference);
    Ok(EventDetail {
        event: *event,
        others,
        handled,
    })
}

/// A type with its subscriptions, its policy and what was handled of it.
pub(super) async fn event_type(engine: &Engine, name: EventType) -> Result<TypeDetail, String> {
    let scope = PolicyScope {
        event_type: Some(name.as_str().to_owned()),
        url: None,
    };
    let handled = EventQuestion::History {
        event_type: name.clone(),
        limit: HANDLED_MAX,
    };
    let (record, subscriptions, handled, policy) = tokio::try_join!(
        question(engine, EventQuestion::Type(name.clone())),
        question(engine, EventQuestion::Subscriptions(name)),
        question(engine, handled),
        policy(engine, scope),
    )?;
    match (record, subscriptions, handled) {
        (EventAnswer::Type(record), EventAnswer::Subscriptions(subscriptions), EventAnswer::History(handled)) => {
            Ok(TypeDetail {
                record,
                subscriptions,
                handled,
                policy,
            })
        }
        _ => Err(unexpected()),
    }
}

async fn policy(engine: &Engine, scope: PolicyScope) -> Result<Box<PolicyView>, String> {
    let Answer::Policy(view) = inquire(engine, Query::Policy(scope)).await? else {
        return Err(unexpected());
    };
    Ok(view)
}

async fn question(engine: &Engine, question: EventQuestion) -> Result<EventAnswer, String> {
    let Answer::Events(answer) = inquire(engine, Query::Events(question)).await? else {
        return Err(unexpected());
    };
    Ok(answer)
}
