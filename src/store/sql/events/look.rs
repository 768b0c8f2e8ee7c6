//! Looking at events, and a person's change of one.

use crate::domain::event::{Event, EventLease, EventState, EventType, Reference};
use crate::domain::time::Timestamp;
use crate::store::events::columns::{cancelled, event, event_columns, event_count, handled_event};
use crate::store::sql::{Calls, Driver, Session, Statement, values};
use crate::store::{Acted, EventAct, EventCount, EventQuery, HandledEvent, StoreError};

/// `$2` reference, `$3` state, `$4` part of the reason, `$5` before which id, `$6` how many.
macro_rules! page {
    ($which:literal) => {
        Statement::new(concat!(
            "SELECT ",
            event_columns!(),
            " FROM redrive.events WHERE ",
            $which,
            " AND ($2::text IS NULL OR reference = $2) AND ($3::bigint IS NULL OR state = $3) \
              AND ($4::text IS NULL OR strpos(lower(reason), $4) > 0) AND id < $5 ORDER BY id DESC LIMIT $6"
        ))
    };
}
static PAGE_ALL: Statement = page!("$1::text IS NULL");
static PAGE_TYPE: Statement = page!("type = $1");
static PAGE_DEAD: Statement =
    page!("(state = 2 OR origin IS NOT NULL) AND ($1::text IS NULL OR type = $1 OR origin = $1)");
static GET: Statement = Statement::new(concat!(
    "SELECT ",
    event_columns!(),
    " FROM redrive.events WHERE id = $1"
));
static GET_LOCKED: Statement = Statement::new(concat!(
    "SELECT ",
    event_columns!(),
    " FROM redrive.events WHERE id = $1 FOR UPDATE"
));
static OF_REFERENCE: Statement = Statement::new(concat!(
    "SELECT * FROM (SELECT ",
    event_columns!(),
    " FROM redrive.events WHERE type = $1 AND reference = $2 AND keyed UNION ALL SELECT ",
    event_columns!(),
    " FROM redrive.events WHERE type = $1 AND reference = $2 AND NOT keyed) AS both_kinds \
     ORDER BY subtype, dated, id LIMIT 1000"
));
static COUNTS: Statement = Statement::new(
    "SELECT type, state, count(*) AS count, count(*) FILTER (WHERE state = 0 AND nbf <= $1) AS due, \
    min(nbf) AS first_nbf, min(GREATEST(nbf, created_at)) AS first_ready_at, min(created_at) AS oldest \
    FROM redrive.events GROUP BY type, state ORDER BY type, state",
);
static HISTORY: Statement = Statement::new(
    "SELECT id, reference, revision, attempts, reason, created_at, handled_at \
    FROM redrive.event_history WHERE type = $1 ORDER BY position DESC LIMIT $2",
);
static CANCEL: Statement = Statement::new("DELETE FROM redrive.events WHERE id = $1");
static CANCEL_HANDLED: Statement = Statement::new(concat!(
    "UPDATE redrive.events SET ",
    cancelled!(),
    " WHERE id = $1 RETURNING ",
    event_columns!()
));
/// A lifetime that it may have got as a dead letter ends with that: nobody else would hear of its end. `$3`: the date
/// that its key has from now on, unless another event has that key.
static AGAIN: Statement = Statement::new(concat!(
    "UPDATE redrive.events AS e SET nbf = $2, dated = CASE WHEN subtype = 'delayed' AND NOT EXISTS \
        (SELECT 1 FROM redrive.events AS o WHERE o.keyed AND o.type = COALESCE(e.origin, e.type) \
            AND o.reference = e.reference AND o.subtype = e.subtype AND o.dated = $3::bigint) \
        THEN COALESCE($3, dated) ELSE dated END, attempts = CASE WHEN state = 2 THEN 0 ELSE attempts END, \
        first_failed_at = CASE WHEN state = 2 OR origin IS NOT NULL THEN NULL ELSE first_failed_at END, state = 0, \
        expires_at = CASE WHEN origin IS NULL THEN expires_at END, type = COALESCE(origin, type), keyed = keyed OR origin IS NOT NULL, \
        claim_count = CASE WHEN origin IS NULL THEN claim_count ELSE 0 END, origin = NULL \
     WHERE id = $1 RETURNING ",
    event_columns!()
));
static NEWER: Statement = Statement::new(
    "SELECT 1 FROM redrive.events WHERE keyed AND type = $1 AND reference = $2 \
    AND subtype = $3 AND id <> $4 AND dated = (SELECT dated FROM redrive.events WHERE id = $4) LIMIT 1",
);

pub(in crate::store) async fn get(driver: &impl Driver, id: i64) -> Result<Option<Event>, StoreError> {
    driver.find("reading an event", &GET, values![id], event).await
}

pub(in crate::store) async fn of_reference(
    driver: &impl Driver,
    event_type: &EventType,
    reference: &Reference,
) -> Result<Vec<Event>, StoreError> {
    let operation = "reading the events of a reference";
    driver
        .list(operation, &OF_REFERENCE, values![event_type, reference], event)
        .await
}

pub(in crate::store) async fn page(driver: &impl Driver, query: &EventQuery) -> Result<Vec<Event>, StoreError> {
    let is_dead = query.dead_letters || query.state == Some(EventState::Dead);
    let statement = match (&query.event_type, is_dead) {
        (_, true) => &PAGE_DEAD,
        (Some(_), false) => &PAGE_TYPE,
        (None, false) => &PAGE_ALL,
    };
    let values = values![
        &query.event_type,
        &query.reference,
        query.state.map(EventState::number),
        query.reason_part.as_deref().map(str::to_lowercase),
        query.before.unwrap_or(i64::MAX),
        query.limit,
    ];
    driver.list("listing events", statement, values, event).await
}

pub(in crate::store) async fn counts(driver: &impl Driver) -> Result<Vec<EventCount>, StoreError> {
    driver
        .read("counting events", |mut session| {
            Box::pin(async move {
                let now = session.now().await?;
                session.list(&COUNTS, values![now], event_count).await
            })
        })
        .await
}

pub(in crate::store) async fn history(
    driver: &impl Driver,
    event_type: &EventType,
    limit: u32,
) -> Result<Vec<HandledEvent>, StoreError> {
    driver
        .list(
            "reading handled events",
            &HISTORY,
            values![event_type, limit],
            handled_event,
        )
        .await
}

pub(in crate::store) async fn act(
    driver: &impl Driver,
    id: i64,
    revision: i64,
    act: EventAct,
) -> Result<Acted, StoreError> {
    driver
        .transaction("changing an event", move |mut session, now| {
            Box::pin(async move { change(&mut session, (id, revision), act, now).await })
        })
        .await
}

/// Of one event, which is locked when it is read.
pub(super) async fn change(
    session: &mut Session<'_>,
    (id, revision): (i64, i64),
    act: EventAct,
    now: Timestamp,
) -> Result<Acted, sqlx::Error> {
    let Some(found) = session.find(&GET_LOCKED, values![id], event).await? else {
        return Ok(Acted::Gone);
    };
    if found.revision != revision {
        return Ok(Acted::Changed);
    }
    let handled = found.lease.as_ref().filter(|lease| lease.owner.is_some());
    // A push since then would have taken that back.
    if handled.is_some_and(EventLease::is_cancelled) && found.expires_at == Some(found.created_at) {
        return Ok(Acted::Gone);
    }
    let (at, dated) = match act {
        EventAct::Cancel => {
            let cancelled = if handled.is_some() {
                session.one(&CANCEL_HANDLED, values![id], event).await?
            } else {
                session.change(&CANCEL, values![id]).await?;
                found
            };
            return Ok(Acted::Done(Box::new(cancelled)));
        }
        EventAct::Retry => (now, None),
        EventAct::Reschedule(at) => (at, Some(at)),
    };
    if found.properties.is_some() {
        return Ok(Acted::NoEvent);
    }
    if found.state == EventState::Leased {
        return Ok(Acted::Leased);
    }
    if let Some(origin) = &found.origin {
        let values = values![origin, &found.reference, found.subtype.as_str(), id];
        if session.has(&NEWER, values).await? {
            return Ok(Acted::Newer);
        }
    }
    let event = session.one(&AGAIN, values![id, at, dated], event).await?;
    Ok(Acted::Done(Box::new(event)))
}
