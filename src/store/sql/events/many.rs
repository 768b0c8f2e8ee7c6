//! Changes of many events, in a run: a window with its journal is one transaction. What was never moved by claims
//! goes in one statement; the others, what a handler has in hand, and those that are not as they were planned, one by
//! one.

use std::collections::HashSet;

use super::look;
use crate::domain::run::RunState;
use crate::domain::time::Timestamp;
use crate::store::columns::integer;
use crate::store::events::verdicts::Journal;
use crate::store::sql::runs::step;
use crate::store::sql::{Driver, Row, Session, Statement, columns, values};
use crate::store::{EventAct, EventsChange, EventsChanged, Guarded, StoreError};

static CANCEL: Statement = Statement::new(
    "DELETE FROM redrive.events WHERE (id, revision) IN \
     (SELECT event, seen FROM unnest($1::bigint[], $2::bigint[]) AS x (event, seen)) \
     AND lease_owner IS NULL RETURNING id",
);
static AGAIN: Statement = Statement::new(
    "UPDATE redrive.events AS e SET nbf = $3, state = 0, \
     attempts = CASE WHEN e.state = 2 THEN 0 ELSE e.attempts END, \
     first_failed_at = CASE WHEN e.state = 2 THEN NULL ELSE e.first_failed_at END \
     FROM unnest($1::bigint[], $2::bigint[]) AS x (event, seen) \
     WHERE e.id = x.event AND e.revision = x.seen AND e.state <> 1 AND e.origin IS NULL \
        AND ($4::bigint IS NULL OR e.subtype = '') RETURNING id",
);

pub(super) async fn change(driver: &impl Driver, asked: &EventsChange) -> Result<EventsChanged, StoreError> {
    let asked = asked.clone();
    driver
        .transaction("changing events", move |mut session, now| {
            Box::pin(async move { window(&mut session, &asked, now).await })
        })
        .await
}

async fn window(session: &mut Session<'_>, asked: &EventsChange, now: Timestamp) -> Result<EventsChanged, sqlx::Error> {
    let run = (asked.run.as_str(), asked.epoch);
    let mut journal = Journal::of(asked);
    match step(session, run, &journal.begin(), now).await? {
        Guarded::Held(RunState::Running) => {}
        Guarded::Held(state) => return Ok(EventsChanged::Asked(state)),
        Guarded::Lost => return Ok(EventsChanged::Lost),
    }
    let changed = at_once(session, asked, now).await?;
    for item in &asked.items {
        let why_not = if changed.contains(&item.id) {
            None
        } else {
            let acted = look::change(session, (item.id, item.revision), asked.act, now).await?;
            acted.why_not()
        };
        journal.note(item.ordinal, why_not);
    }
    step(session, run, &journal.end(), now).await?;
    Ok(EventsChanged::Changed(journal.counts()))
}

async fn at_once(session: &mut Session<'_>, asked: &EventsChange, now: Timestamp) -> Result<HashSet<i64>, sqlx::Error> {
    let items = columns![asked.items => |item| item.id, item.revision];
    let (statement, values) = match asked.act {
        EventAct::Cancel => (&CANCEL, values![items]),
        EventAct::Retry => (&AGAIN, values![items, now, None::<Timestamp>]),
        // The key of a dated one moves with it, which another one may have.
        EventAct::Reschedule(at) => (&AGAIN, values![items, at, Some(at)]),
    };
    let id = |row: &Row| integer(row, "id");
    Ok(session.list(statement, values, id).await?.into_iter().collect())
}
