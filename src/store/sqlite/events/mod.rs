//! The event table in a SQLite file: each call is one work of the writer, which groups their commits.

pub(in crate::store) mod finish;
mod gather;
mod inside;
pub(in crate::store) mod outbox;
mod push;
mod search;
pub(in crate::store) mod take;

use async_trait::async_trait;
use tokio::sync::watch;

pub(super) use self::gather::Gathering;
use super::SqliteStore;
use crate::domain::event::EventType;
use crate::store::sql::events::EventDriver;
use crate::store::{
    EventBatch, EventSearch, EventSignal, EventSignals, EventsFound, Finish, Finished, PushOutcome, StoreError,
};

const IDS_RAISE: &str = "UPDATE sqlite_sequence SET seq = max(seq, $1) WHERE name = 'events'";
/// No event was there before.
const IDS_BEGIN: &str = "INSERT INTO sqlite_sequence (name, seq) VALUES ('events', $1)";

/// Any commit of another process may be a push.
struct Elsewhere(watch::Receiver<u64>);

#[async_trait]
impl EventSignals for Elsewhere {
    async fn next(&mut self) -> EventSignal {
        if self.0.changed().await.is_err() {
            // The file is closed: nothing comes any more.
            std::future::pending::<()>().await;
        }
        EventSignal::Anything
    }
}

#[async_trait]
impl EventDriver for SqliteStore {
    async fn push_events(&self, batch: &EventBatch) -> Result<PushOutcome, StoreError> {
        self.push_batch(batch).await
    }

    async fn raise_event_ids(&self) -> Result<(), StoreError> {
        self.known_types.forget();
        let now = self.clock.now().micros();
        self.work("raising the ids of events", move |connection| {
            Box::pin(async move {
                let raised = sqlx::query(IDS_RAISE).bind(now).execute(&mut *connection).await?;
                if raised.rows_affected() == 0 {
                    sqlx::query(IDS_BEGIN).bind(now).execute(connection).await?;
                }
                Ok(())
            })
        })
        .await
    }

    async fn finish_events(&self, finishes: &[Finish]) -> Result<Vec<Finished>, StoreError> {
        self.finish_each(finishes).await
    }

    async fn search_events(&self, search: &EventSearch) -> Result<EventsFound, StoreError> {
        self.look_for(search).await
    }

    fn signals(&self) -> Box<dyn EventSignals> {
        Box::new(Elsewhere(self.file.changed_elsewhere()))
    }

    /// Whoever watches the file sees the commit.
    fn tell(&self, _: Option<&EventType>) {}
}
