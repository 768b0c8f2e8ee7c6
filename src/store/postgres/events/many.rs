//! Changes of many events, in a run: a window with its journal is one transaction. What was never moved by claims
//! goes in one statement; the others, and those that are not as they were planned, one by one.

use std::collections::HashSet;

use sqlx::PgConnection;

use super::look::change;
use crate::domain::run::RunState;
use crate::domain::time::Timestamp;
use crate::store::events::verdicts::Journal;
use crate::store::postgres::PostgresStore;
use crate::store::postgres::runs::step;
use crate::store::{EventAct, EventsChange, EventsChanged, Guarded, StoreError};

const CANCEL: &str = "DELETE FROM redrive.events e USING unnest($1::bigint[], $2::bigint[]) AS x (event, seen) \
    WHERE e.id = x.event AND e.revision = x.seen RETURNING e.id";
const AGAIN: &str = "UPDATE redrive.events e SET nbf = $3, state = 0, \
        attempts = CASE WHEN e.state = 2 THEN 0 ELSE e.attempts END, \
        first_failed_at = CASE WHEN e.state = 2 THEN NULL ELSE e.first_failed_at END \
    FROM unnest($1::bigint[], $2::bigint[]) AS x (event, seen) \
    WHERE e.id = x.event AND e.revision = x.seen AND e.state <> 1 AND e.origin IS NULL RETURNING e.id";

impl PostgresStore {
    pub(super) async fn change_events(&self, asked: &EventsChange) -> Result<EventsChanged, StoreError> {
        self.transaction("changing events", async |connection: &mut PgConnection, now| {
            window(connection, asked, now).await
        })
        .await
    }
}

async fn window(
    connection: &mut PgConnection,
    asked: &EventsChange,
    now: Timestamp,
) -> Result<EventsChanged, sqlx::Error> {
    let run = (asked.run.as_str(), asked.epoch);
    let mut journal = Journal::of(asked);
    match step(connection, run, &journal.begin(), now).await? {
        Guarded::Held(RunState::Running) => {}
        Guarded::Held(state) => return Ok(EventsChanged::Asked(state)),
        Guarded::Lost => return Ok(EventsChanged::Lost),
    }
    let changed = at_once(connection, asked, now).await?;
    for item in &asked.items {
        let why_not = if changed.contains(&item.id) {
            None
        } else {
            let acted = change(connection, (item.id, item.revision), asked.act, now).await?;
            acted.why_not()
        };
        journal.note(item.ordinal, why_not);
    }
    step(connection, run, &journal.end(), now).await?;
    Ok(EventsChanged::Changed(journal.counts()))
}

async fn at_once(
    connection: &mut PgConnection,
    asked: &EventsChange,
    now: Timestamp,
) -> Result<HashSet<i64>, sqlx::Error> {
    let ids: Vec<i64> = asked.items.iter().map(|item| item.id).collect();
    let revisions: Vec<i64> = asked.items.iter().map(|item| item.revision).collect();
    let at = match asked.act {
        EventAct::Cancel => {
            let query = sqlx::query_scalar(CANCEL).bind(ids).bind(revisions);
            return Ok(query.fetch_all(connection).await?.into_iter().collect());
        }
        EventAct::Retry => now,
        EventAct::Reschedule(at) => at,
    };
    let query = sqlx::query_scalar(AGAIN).bind(ids).bind(revisions).bind(at.micros());
    Ok(query.fetch_all(connection).await?.into_iter().collect())
}
