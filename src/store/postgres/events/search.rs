//! Looking for events. The text of a failure is found by its parts of three bytes; where most rows have them, the
//! newest ones are looked through first, which is quicker than to gather all.

use sqlx::{PgConnection, Postgres, QueryBuilder};

use crate::domain::event::{Event, EventState, Reference};
use crate::domain::time::Timestamp;
use crate::store::columns::storable;
use crate::store::events::columns::{event, event_columns};
use crate::store::events::search::{AMONG, AMONG_FIRST, Among, Way, indexed_parts, is_full, page};
use crate::store::postgres::PostgresStore;
use crate::store::within::read_bytes;
use crate::store::{EventSearch, EventsFound, StoreError};

/// Failed rows that are looked through before their parts are looked up.
const AMONG_ERRORS: i64 = 3_000;

/// The rows of a page before which the others have less than the bytes of one read; closed by [`PAGE_END`].
const COLUMNS: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM (SELECT *, sum(COALESCE(octet_length(payload), 0)) OVER (ORDER BY id DESC) \
        - COALESCE(octet_length(payload), 0) AS bytes_before FROM (SELECT * FROM "
);
const PAGE_END: &str = ") AS page) AS page WHERE bytes_before < ";
const IS_ERROR: &str = " AND pg_catalog.\"left\"(reason, 7) = 'retry: '";

impl PostgresStore {
    pub(super) async fn look_for(&self, search: &EventSearch) -> Result<EventsFound, StoreError> {
        let way = Way::of(search);
        if way == Way::ErrorParts {
            let newest = self.found(walked(search, way, Among::Newest(AMONG_ERRORS))).await?;
            if is_full(&newest, search) {
                return Ok(page(newest, search, None));
            }
        }
        if way.is_direct() {
            let found = self.found(led(search, way)).await?;
            return Ok(page(found, search, None));
        }
        let few = self.found(walked(search, way, Among::Newest(AMONG_FIRST))).await?;
        if is_full(&few, search) {
            return Ok(page(few, search, None));
        }
        let mut reached = QueryBuilder::new("SELECT id FROM redrive.events WHERE true");
        way_of(&mut reached, search, way);
        reached
            .push(" ORDER BY id DESC OFFSET ")
            .push_bind(AMONG - 1)
            .push(" LIMIT 1");
        let reached = self
            .call("looking for events", async |connection: &mut PgConnection| {
                reached.build_query_scalar().fetch_optional(connection).await
            })
            .await?;
        let found = self.found(walked(search, way, Among::down_to(reached))).await?;
        Ok(page(found, search, reached))
    }

    async fn found(&self, mut query: QueryBuilder<Postgres>) -> Result<Vec<Event>, StoreError> {
        query.push(PAGE_END).push_bind(read_bytes()).push(" ORDER BY id DESC");
        self.call("looking for events", async |connection: &mut PgConnection| {
            let rows = query.build().fetch_all(connection).await?;
            rows.iter().map(event).collect()
        })
        .await
    }
}

const fn on_the_way(way: Way) -> &'static str {
    match way {
        Way::DeadLetters => " AND (state = 2 OR origin IS NOT NULL)",
        Way::Attempts => " AND attempts > 0",
        Way::ErrorParts => IS_ERROR,
        Way::Reference | Way::Leases | Way::Type | Way::Everything => "",
    }
}

/// Rows of a way, and what of them is looked for.
fn walked(search: &EventSearch, way: Way, among: Among) -> QueryBuilder<Postgres> {
    let mut query = QueryBuilder::new(COLUMNS);
    query.push("(SELECT * FROM redrive.events WHERE true");
    way_of(&mut query, search, way);
    match among {
        Among::Newest(count) => query.push(" ORDER BY id DESC LIMIT ").push_bind(count),
        Among::From(border) => query.push(" AND id >= ").push_bind(border).push(" ORDER BY id DESC"),
    };
    query.push(") AS walked WHERE true");
    conditions(&mut query, search);
    query
        .push(" ORDER BY id DESC LIMIT ")
        .push_bind(i64::from(search.limit));
    query
}

fn way_of(query: &mut QueryBuilder<Postgres>, search: &EventSearch, way: Way) {
    query.push(on_the_way(way));
    if let (Way::Type, Some(name)) = (way, &search.event_type) {
        query.push(" AND type = ").push_bind(name.as_str().to_owned());
    }
    query.push(" AND id < ").push_bind(search.before.unwrap_or(i64::MAX));
}

/// Everything that a way leads to. The order is one that no index has, so that none of them is walked for it.
fn led(search: &EventSearch, way: Way) -> QueryBuilder<Postgres> {
    let mut query = QueryBuilder::new(COLUMNS);
    query.push("(");
    match way {
        Way::Reference => of_reference(&mut query, search),
        Way::ErrorParts => of_parts(&mut query, search),
        Way::Leases | Way::DeadLetters | Way::Attempts | Way::Type | Way::Everything => {
            query.push("SELECT * FROM redrive.events WHERE state = 1");
        }
    }
    query
        .push(") AS led WHERE id < ")
        .push_bind(search.before.unwrap_or(i64::MAX));
    conditions(&mut query, search);
    query
        .push(" ORDER BY id + 0 DESC LIMIT ")
        .push_bind(i64::from(search.limit));
    query
}

fn of_reference(query: &mut QueryBuilder<Postgres>, search: &EventSearch) {
    let reference = search.reference.as_ref().map_or("", Reference::as_str);
    for (union, keyed) in [("", "e.keyed"), (" UNION ALL ", "NOT e.keyed")] {
        query.push(union);
        query.push("SELECT e.* FROM redrive.event_types t JOIN redrive.events e ON e.type = t.name AND ");
        query
            .push(keyed)
            .push(" AND e.reference = ")
            .push_bind(reference.to_owned());
    }
}

fn of_parts(query: &mut QueryBuilder<Postgres>, search: &EventSearch) {
    query
        .push("SELECT * FROM redrive.events WHERE state <> 1")
        .push(IS_ERROR);
    for part in indexed_parts(search) {
        query.push(" AND redrive.text_parts(reason) @> redrive.text_parts(");
        query.push_bind(storable(part)).push(")");
    }
    query
        .push(" UNION ALL SELECT * FROM redrive.events WHERE state = 1")
        .push(IS_ERROR);
}

fn conditions(query: &mut QueryBuilder<Postgres>, search: &EventSearch) {
    if let Some(name) = &search.event_type {
        // A dead letter that claims moved is one of the type that it was moved from, too.
        query.push(" AND (type = ").push_bind(name.as_str().to_owned());
        if search.dead_letters {
            query.push(" OR origin = ").push_bind(name.as_str().to_owned());
        }
        query.push(")");
    }
    if let Some(reference) = &search.reference {
        query.push(" AND reference = ").push_bind(reference.as_str().to_owned());
    }
    if let Some(state) = search.state {
        query.push(" AND state = ").push_bind(EventState::number(state));
    }
    if search.dead_letters {
        query.push(on_the_way(Way::DeadLetters));
    }
    let reasons = search.error_parts.iter().chain(&search.reason_part);
    for (column, part) in reasons
        .map(|part| ("lower(reason)", part))
        .chain(search.reference_part.iter().map(|part| ("lower(reference)", part)))
    {
        query.push(" AND position(").push_bind(storable(part));
        query.push(" IN ").push(column).push(") > 0");
    }
    if let Some(part) = &search.payload_part {
        // Bytes that are no text have no letter case.
        query.push(" AND position(").push_bind(part.clone().into_bytes());
        query.push(" IN redrive.lowered(payload)) > 0");
    }
    if search.attempts_min > 0 {
        query
            .push(" AND attempts >= ")
            .push_bind(i64::from(search.attempts_min));
    }
    for (column, before) in [
        (" AND nbf <= ", search.due_before),
        (" AND created_at <= ", search.created_before),
    ] {
        if let Some(before) = before {
            query.push(column).push_bind(Timestamp::micros(before));
        }
    }
}
