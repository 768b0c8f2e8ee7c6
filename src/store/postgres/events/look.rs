//! Looking at events, and a person's change of one.

use sqlx::PgConnection;

use crate::domain::event::{Event, EventState, EventType, Reference};
use crate::domain::time::Timestamp;
use crate::store::events::columns::{event, event_columns, event_count, handled_event};
use crate::store::postgres::{PostgresStore, storable};
use crate::store::{Acted, EventAct, EventCount, EventQuery, HandledEvent, StoreError};

/// `$2` reference, `$3` state, `$4` part of the reason, `$5` before which id, `$6` how many.
macro_rules! page {
    ($which:literal) => {
        concat!(
            "SELECT ",
            event_columns!(),
            " FROM redrive.events WHERE ",
            $which,
            " AND ($2::text IS NULL OR reference = $2) AND ($3::bigint IS NULL OR state = $3) \
              AND ($4::text IS NULL OR position($4 IN lower(reason)) > 0) AND id < $5 ORDER BY id DESC LIMIT $6"
        )
    };
}
const PAGE_ALL: &str = page!("$1::text IS NULL");
const PAGE_TYPE: &str = page!("type = $1");
const PAGE_DEAD: &str = page!("(state = 2 OR origin IS NOT NULL) AND ($1::text IS NULL OR type = $1 OR origin = $1)");
const GET: &str = concat!("SELECT ", event_columns!(), " FROM redrive.events WHERE id = $1");
const GET_LOCKED: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM redrive.events WHERE id = $1 FOR UPDATE"
);
const OF_REFERENCE: &str = concat!(
    "SELECT * FROM (SELECT ",
    event_columns!(),
    ", dated FROM redrive.events WHERE type = $1 AND reference = $2 AND keyed UNION ALL SELECT ",
    event_columns!(),
    ", dated FROM redrive.events WHERE type = $1 AND reference = $2 AND NOT keyed) AS both_kinds \
     ORDER BY subtype, dated, id LIMIT 1000"
);
const COUNTS: &str = "SELECT type, state, count(*) AS count, count(*) FILTER (WHERE state = 0 AND nbf <= $1) AS due, \
    min(nbf) AS first_nbf, min(created_at) AS oldest FROM redrive.events GROUP BY type, state ORDER BY type, state";
const HISTORY: &str = "SELECT id, reference, revision, attempts, reason, created_at, handled_at \
    FROM redrive.event_history WHERE type = $1 ORDER BY position DESC LIMIT $2";
const CANCEL: &str = "DELETE FROM redrive.events WHERE id = $1";
const AGAIN: &str = concat!(
    "UPDATE redrive.events SET nbf = $2, attempts = CASE WHEN state = 2 THEN 0 ELSE attempts END, \
        first_failed_at = CASE WHEN state = 2 THEN NULL ELSE first_failed_at END, state = 0, \
        type = COALESCE(origin, type), keyed = keyed OR origin IS NOT NULL, \
        claim_count = CASE WHEN origin IS NULL THEN claim_count ELSE 0 END, origin = NULL \
     WHERE id = $1 RETURNING ",
    event_columns!()
);
const NEWER: &str = "SELECT EXISTS (SELECT 1 FROM redrive.events WHERE keyed AND type = $1 AND reference = $2 \
    AND subtype = $3 AND id <> $4 AND dated = (SELECT dated FROM redrive.events WHERE id = $4))";

impl PostgresStore {
    pub(super) async fn get_event(&self, id: i64) -> Result<Option<Event>, StoreError> {
        self.call("reading an event", async |connection: &mut PgConnection| {
            let row = sqlx::query(GET).bind(id).fetch_optional(connection).await?;
            row.as_ref().map(event).transpose()
        })
        .await
    }

    pub(super) async fn events_of_reference(
        &self,
        event_type: &EventType,
        reference: &Reference,
    ) -> Result<Vec<Event>, StoreError> {
        self.call(
            "reading the events of a reference",
            async |connection: &mut PgConnection| {
                let query = sqlx::query(OF_REFERENCE)
                    .bind(event_type.as_str())
                    .bind(reference.as_str());
                query.fetch_all(connection).await?.iter().map(event).collect()
            },
        )
        .await
    }

    pub(super) async fn page_events(&self, query: &EventQuery) -> Result<Vec<Event>, StoreError> {
        let statement = match (
            &query.event_type,
            query.dead_letters || query.state == Some(EventState::Dead),
        ) {
            (_, true) => PAGE_DEAD,
            (Some(_), false) => PAGE_TYPE,
            (None, false) => PAGE_ALL,
        };
        let part = query.reason_part.as_deref().map(|part| storable(&part.to_lowercase()));
        let asked = sqlx::query(statement)
            .bind(query.event_type.as_ref().map(EventType::as_str))
            .bind(query.reference.as_ref().map(Reference::as_str))
            .bind(query.state.map(EventState::number))
            .bind(part)
            .bind(query.before.unwrap_or(i64::MAX))
            .bind(i64::from(query.limit));
        self.call("listing events", async |connection: &mut PgConnection| {
            asked.fetch_all(connection).await?.iter().map(event).collect()
        })
        .await
    }

    pub(super) async fn count_events(&self) -> Result<Vec<EventCount>, StoreError> {
        self.call("counting events", async |connection: &mut PgConnection| {
            let now = super::super::now(connection).await?;
            let rows = sqlx::query(COUNTS).bind(now.micros()).fetch_all(connection).await?;
            rows.iter().map(event_count).collect()
        })
        .await
    }

    pub(super) async fn history_of(&self, event_type: &EventType, limit: u32) -> Result<Vec<HandledEvent>, StoreError> {
        self.call("reading handled events", async |connection: &mut PgConnection| {
            let query = sqlx::query(HISTORY).bind(event_type.as_str()).bind(i64::from(limit));
            query.fetch_all(connection).await?.iter().map(handled_event).collect()
        })
        .await
    }

    pub(super) async fn act_on_event(&self, id: i64, revision: i64, act: EventAct) -> Result<Acted, StoreError> {
        self.transaction("changing an event", async |connection: &mut PgConnection, now| {
            change(connection, (id, revision), act, now).await
        })
        .await
    }
}

pub(super) async fn change(
    connection: &mut PgConnection,
    (id, revision): (i64, i64),
    act: EventAct,
    now: Timestamp,
) -> Result<Acted, sqlx::Error> {
    let Some(row) = sqlx::query(GET_LOCKED)
        .bind(id)
        .fetch_optional(&mut *connection)
        .await?
    else {
        return Ok(Acted::Gone);
    };
    let found = event(&row)?;
    if found.revision != revision {
        return Ok(Acted::Changed);
    }
    let at = match act {
        EventAct::Cancel => {
            sqlx::query(CANCEL).bind(id).execute(connection).await?;
            return Ok(Acted::Done(Box::new(found)));
        }
        EventAct::Retry => now,
        EventAct::Reschedule(at) => at,
    };
    if found.state == EventState::Leased {
        return Ok(Acted::Leased);
    }
    if let Some(origin) = &found.origin {
        let query = sqlx::query_scalar(NEWER)
            .bind(origin.as_str())
            .bind(found.reference.as_str())
            .bind(found.subtype.as_str())
            .bind(id);
        if query.fetch_one(&mut *connection).await? {
            return Ok(Acted::Newer);
        }
    }
    let row = sqlx::query(AGAIN)
        .bind(id)
        .bind(at.micros())
        .fetch_one(connection)
        .await?;
    Ok(Acted::Done(Box::new(event(&row)?)))
}
