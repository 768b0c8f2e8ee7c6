//! Changes of many events, in a run: a window with its journal is one work of the writer.

use sqlx::sqlite::SqliteConnection;

use super::look::change;
use crate::domain::run::RunState;
use crate::domain::time::Timestamp;
use crate::store::events::verdicts::Journal;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::runs::step;
use crate::store::{EventsChange, EventsChanged, Guarded, StoreError};

impl SqliteStore {
    pub(super) async fn change_events(&self, asked: &EventsChange) -> Result<EventsChanged, StoreError> {
        let (asked, now) = (asked.clone(), self.clock.now());
        self.write("changing events", move |connection| {
            Box::pin(async move { window(connection, &asked, now).await })
        })
        .await
    }
}

async fn window(
    connection: &mut SqliteConnection,
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
    for item in &asked.items {
        let acted = change(connection, (item.id, item.revision), asked.act, now).await?;
        journal.note(item.ordinal, acted.why_not());
    }
    step(connection, run, &journal.end(), now).await?;
    Ok(EventsChanged::Changed(journal.counts()))
}
