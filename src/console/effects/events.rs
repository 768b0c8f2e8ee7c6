//! Asks for the event table: its lists, one event, one type.

use std::sync::Arc;

use super::feed::{batch, left};
use super::inquire;
use crate::console::detail::{EventDetail, TypeDetail};
use crate::console::events::{GroupRow, TypeRow, group_rows, type_rows};
use crate::console::feed::{Batch, Progress};
use crate::domain::event::{Event, EventType};
use crate::engine::Engine;
use crate::engine::events::EventsQuery;
use crate::engine::policies::PolicyView;
use crate::engine::query;
use crate::engine::query::PolicyScope;

/// Events of one question, at most: payloads come with them.
const PAGE_MAX: u32 = 250;
/// Pages that are asked for before what was found so far is shown: a rare find takes many.
const PAGES_MAX: u32 = 80;
/// Handled events that are shown.
const HANDLED_MAX: u32 = 200;

pub(super) async fn types(engine: &Engine) -> Result<Batch<TypeRow>, String> {
    let (counts, types) = tokio::try_join!(
        inquire(engine, query::EventCounts()),
        inquire(engine, query::EventTypes())
    )?;
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
    let found = inquire(engine, query::EventGroups(query)).await?;
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
        let page = inquire(engine, query::Events(query)).await?;
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
    let event = inquire(engine, query::OneEvent(id)).await?;
    let of_key = query::EventsOf(event.event_type.clone(), event.reference.clone());
    let handled = query::EventHistory {
        event_type: event.event_type.clone(),
        limit: HANDLED_MAX,
    };
    let (mut others, mut handled) = tokio::try_join!(inquire(engine, of_key), inquire(engine, handled))?;
    others.retain(|other| other.id != event.id);
    handled.retain(|one| one.reference == event.reference);
    Ok(EventDetail { event, others, handled })
}

/// A type with its subscriptions, its policy and what was handled of it.
pub(super) async fn event_type(engine: &Engine, name: EventType) -> Result<TypeDetail, String> {
    let scope = PolicyScope {
        event_type: Some(name.as_str().to_owned()),
        url: None,
    };
    let handled = query::EventHistory {
        event_type: name.clone(),
        limit: HANDLED_MAX,
    };
    let (record, subscriptions, handled, policy) = tokio::try_join!(
        inquire(engine, query::OneEventType(name.clone())),
        inquire(engine, query::Subscriptions(name)),
        inquire(engine, handled),
        policy(engine, scope),
    )?;
    Ok(TypeDetail {
        record,
        subscriptions,
        handled,
        policy,
    })
}

async fn policy(engine: &Engine, scope: PolicyScope) -> Result<Box<PolicyView>, String> {
    inquire(engine, query::Policy(scope)).await.map(Box::new)
}
