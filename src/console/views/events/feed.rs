//! What the event table asks of the engine for its lists.

use std::sync::Arc;
use std::time::Duration;

use crate::console::state::events::{EventsView, GroupRow, TypeRow, every, group_filter, group_rows, type_rows};
use crate::console::state::feed::{Batch, FedRows, FeedQuery, Progress, Source};
use crate::console::state::inquire::{inquire, left};
use crate::domain::event::{Event, EventType};
use crate::engine::events::EventsQuery;
use crate::engine::{EngineHandle, query};

/// Events of one question, at most: payloads come with them.
const PAGE_MAX: u32 = 250;
/// Pages that are asked for before what was found so far is shown: a rare find takes many.
const PAGES_MAX: u32 = 80;

/// Where the types come from.
pub(in crate::console) static TYPES: Source = Source {
    name: "event_types",
    every_min: Duration::ZERO,
    ask: |engine, _| Box::pin(async move { types(&engine).await.map(FedRows::from) }),
};

/// Where the groups come from.
pub(in crate::console) static GROUPS: Source = Source {
    name: "event_groups",
    every_min: Duration::ZERO,
    ask: |engine, query| Box::pin(async move { groups(&engine, query).await.map(FedRows::from) }),
};

/// Where events come from.
pub(in crate::console) static EVENTS: Source = Source {
    name: "events",
    every_min: Duration::ZERO,
    ask: |engine, query| Box::pin(async move { events(&engine, query).await.map(FedRows::from) }),
};

/// What the list in front asks.
pub(super) fn asks(view: &EventsView) -> FeedQuery {
    let Some(choice) = &view.choice else {
        return FeedQuery::all(&TYPES);
    };
    let of = choice.one().map(|name| name.as_str().to_owned());
    match &view.group {
        None => FeedQuery {
            of,
            filter: view.groups.table.filter.written(),
            ..FeedQuery::all(&GROUPS)
        },
        Some(group) => FeedQuery {
            of,
            filter: every([
                group.id.as_deref().map(group_filter),
                view.events.table.filter.written(),
            ]),
            ..FeedQuery::first(&EVENTS, view.events.feed.limit)
        },
    }
}

/// The type that a question is about; of every type without.
fn type_of(query: &FeedQuery) -> Option<EventType> {
    EventType::parse(query.of.as_deref()?).ok()
}

async fn types(engine: &EngineHandle) -> Result<Batch<TypeRow>, String> {
    let (counts, types) = tokio::try_join!(
        inquire(engine, query::EventCounts()),
        inquire(engine, query::EventTypes())
    )?;
    let rows = type_rows(&counts, &types).into_iter().map(Arc::new).collect();
    Ok(Batch::new(rows, false))
}

async fn groups(engine: &EngineHandle, query: FeedQuery) -> Result<Batch<GroupRow>, String> {
    let query = EventsQuery {
        event_type: type_of(&query),
        filter: query.filter,
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
        ..Batch::new(rows, false)
    })
}

async fn events(engine: &EngineHandle, query: FeedQuery) -> Result<Batch<Event>, String> {
    let (event_type, limit) = (type_of(&query), query.limit());
    let mut rows: Vec<Arc<Event>> = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let next = EventsQuery {
            event_type: event_type.clone(),
            filter: query.filter.clone(),
            limit: left(limit, rows.len()).min(PAGE_MAX),
            cursor,
        };
        let page = inquire(engine, query::Events(next)).await?;
        cursor = page.next_cursor;
        rows.extend(page.items.into_iter().map(|event| Arc::new(without_payload(event))));
        if cursor.is_none() || left(limit, rows.len()) == 0 {
            return Ok(Batch::new(rows, cursor.is_some()));
        }
    }
    Ok(Batch {
        progress: Some(Progress::Says(
            "looked through a part; a narrower filter finds the rest".to_owned(),
        )),
        ..Batch::new(rows, false)
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
