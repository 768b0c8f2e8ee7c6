//! Looking for events. The text of a failure is found by its parts of three characters.

use sqlx::{QueryBuilder, Sqlite};

use crate::domain::event::{Event, EventState, Reference};
use crate::domain::time::Timestamp;
use crate::store::events::columns::{event, event_columns};
use crate::store::events::search::{AMONG, AMONG_FIRST, Among, Way, indexed_parts, is_full, page, payload_bytes};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::error::unread;
use crate::store::within::within;
use crate::store::{EventSearch, EventsFound, StoreError};

const OPERATION: &str = "looking for events";
const COLUMNS: &str = concat!("SELECT ", event_columns!(), " FROM ");

impl SqliteStore {
    pub(super) async fn look_for(&self, search: &EventSearch) -> Result<EventsFound, StoreError> {
        let way = Way::of(search);
        if way.is_direct() {
            return Ok(page(self.found(led(search, way)).await?, search, None));
        }
        let few = self.found(walked(search, way, Among::Newest(AMONG_FIRST))).await?;
        if is_full(&few, search) {
            return Ok(page(few, search, None));
        }
        let mut query = QueryBuilder::new("SELECT id FROM events WHERE true");
        way_of(&mut query, search, way);
        query.push(" ORDER BY id DESC LIMIT 1 OFFSET ").push_bind(AMONG - 1);
        let reached = query.build_query_scalar().fetch_optional(self.readers()).await;
        let reached = reached.map_err(unread(OPERATION))?;
        let found = self.found(walked(search, way, Among::down_to(reached))).await?;
        Ok(page(found, search, reached))
    }

    async fn found(&self, mut query: QueryBuilder<Sqlite>) -> Result<Vec<Event>, StoreError> {
        let rows = query.build().fetch(self.readers());
        within(rows, event, payload_bytes).await.map_err(unread(OPERATION))
    }
}

/// Rows of a way, and what of them is looked for. All that are read are sorted, however few are wanted.
fn walked(search: &EventSearch, way: Way, among: Among) -> QueryBuilder<Sqlite> {
    let mut query = QueryBuilder::new(COLUMNS);
    query.push("(SELECT * FROM events WHERE true");
    way_of(&mut query, search, way);
    match among {
        Among::Newest(count) => query.push(" ORDER BY id DESC LIMIT ").push_bind(count),
        Among::From(border) => query.push(" AND id >= ").push_bind(border).push(" ORDER BY id DESC"),
    };
    query.push(") WHERE true");
    conditions(&mut query, search);
    query
        .push(" ORDER BY id DESC LIMIT ")
        .push_bind(i64::from(search.limit));
    query
}

fn way_of(query: &mut QueryBuilder<Sqlite>, search: &EventSearch, way: Way) {
    query.push(match way {
        Way::DeadLetters => " AND (state = 2 OR origin IS NOT NULL)",
        Way::Attempts => " AND attempts > 0",
        Way::Reference | Way::ErrorParts | Way::Leases | Way::Type | Way::Everything => "",
    });
    if let (Way::Type, Some(name)) = (way, &search.event_type) {
        query.push(" AND type = ").push_bind(name.as_str().to_owned());
    }
    query.push(" AND id < ").push_bind(search.before.unwrap_or(i64::MAX));
}

/// Everything that a way leads to.
fn led(search: &EventSearch, way: Way) -> QueryBuilder<Sqlite> {
    let mut query = QueryBuilder::new(COLUMNS);
    query.push("events WHERE id IN (");
    match way {
        Way::Reference => of_reference(&mut query, search),
        Way::ErrorParts => of_parts(&mut query, search),
        Way::Leases | Way::DeadLetters | Way::Attempts | Way::Type | Way::Everything => {
            query.push("SELECT id FROM events WHERE state = 1");
        }
    }
    query.push(")");
    conditions(&mut query, search);
    query.push(" AND +id < ").push_bind(search.before.unwrap_or(i64::MAX));
    query
        .push(" ORDER BY id DESC LIMIT ")
        .push_bind(i64::from(search.limit));
    query
}

fn of_reference(query: &mut QueryBuilder<Sqlite>, search: &EventSearch) {
    let reference = search.reference.as_ref().map_or("", Reference::as_str);
    for (union, keyed) in [("", "e.keyed"), (" UNION ALL ", "NOT e.keyed")] {
        query.push(union);
        // Not the other way round: there are few types.
        query.push("SELECT e.id FROM event_types AS t CROSS JOIN events AS e ON e.type = t.name AND ");
        query
            .push(keyed)
            .push(" AND e.reference = ")
            .push_bind(reference.to_owned());
    }
}

/// The newest of them first, and no more than are looked through where no index leads.
fn of_parts(query: &mut QueryBuilder<Sqlite>, search: &EventSearch) {
    let phrases: Vec<String> = indexed_parts(search)
        .map(|part| format!("\"{}\"", part.replace('"', "\"\"")))
        .collect();
    query.push("SELECT rowid FROM event_errors WHERE event_errors MATCH ");
    query.push_bind(phrases.join(" AND "));
    query.push(" AND rowid < ").push_bind(search.before.unwrap_or(i64::MAX));
    query.push(" ORDER BY rowid DESC");
    if is_only_parts(search) {
        query.push(" LIMIT ").push_bind(i64::from(search.limit));
    }
}

/// Whether the index alone decides.
fn is_only_parts(search: &EventSearch) -> bool {
    let rest = EventSearch {
        error_parts: search.error_parts.clone(),
        before: search.before,
        limit: search.limit,
        ..EventSearch::default()
    };
    rest == *search && indexed_parts(search).count() == search.error_parts.len()
}

/// What an index leads to is only compared here: `+` keeps every other index out.
fn conditions(query: &mut QueryBuilder<Sqlite>, search: &EventSearch) {
    if let Some(name) = &search.event_type {
        // A dead letter that claims moved is one of the type that it was moved from, too.
        query.push(" AND (+type = ").push_bind(name.as_str().to_owned());
        if search.dead_letters {
            query.push(" OR +origin = ").push_bind(name.as_str().to_owned());
        }
        query.push(")");
    }
    if let Some(reference) = &search.reference {
        query
            .push(" AND +reference = ")
            .push_bind(reference.as_str().to_owned());
    }
    if let Some(state) = search.state {
        query.push(" AND +state = ").push_bind(EventState::number(state));
    }
    if search.dead_letters {
        query.push(" AND (+state = 2 OR +origin IS NOT NULL)");
    }
    let reasons = search.error_parts.iter().chain(&search.reason_part);
    for (column, part) in reasons
        .map(|part| (" AND instr(lower(reason), ", part))
        .chain(
            search
                .reference_part
                .iter()
                .map(|part| (" AND instr(lower(reference), ", part)),
        )
        .chain(
            search
                .payload_part
                .iter()
                .map(|part| (" AND instr(lower(CAST(payload AS TEXT)), ", part)),
        )
    {
        query.push(column).push_bind(part.clone()).push(") > 0");
    }
    if search.attempts_min > 0 {
        query
            .push(" AND +attempts >= ")
            .push_bind(i64::from(search.attempts_min));
    }
    for (column, before) in [
        (" AND +nbf <= ", search.due_before),
        (" AND +created_at <= ", search.created_before),
    ] {
        if let Some(before) = before {
            query.push(column).push_bind(Timestamp::micros(before));
        }
    }
}
