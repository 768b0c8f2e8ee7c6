//! The event table in a SQLite file: each call is one work of the writer, which groups their commits.

mod claims;
mod finish;
mod gather;
mod inside;
mod look;
mod many;
mod outbox;
mod push;
mod search;
mod take;
mod types;

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

pub(super) use self::gather::Gathering;
use super::SqliteStore;
use crate::domain::event::{Event, EventType, HandlingRules, LeaseKey, Reference};
use crate::store::{
    Acted, EventAct, EventBatch, EventClaim, EventCount, EventQuery, EventSearch, EventSignal, EventSignals, Events,
    EventsChange, EventsChanged, EventsFound, Expired, Finish, Finished, HandledEvent, PushOutcome, Reaped, StoreError,
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
impl Events for SqliteStore {
    async fn events_push(&self, batch: &EventBatch) -> Result<PushOutcome, StoreError> {
        self.push_events(batch).await
    }

    async fn event_ids_raise(&self) -> Result<(), StoreError> {
        let now = self.clock.now().micros();
        self.write("raising the ids of events", move |connection| {
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

    async fn events_claim(&self, claim: &EventClaim) -> Result<Vec<Event>, StoreError> {
        self.take_events(claim).await
    }

    async fn events_finish(&self, finishes: &[Finish]) -> Result<Vec<Finished>, StoreError> {
        self.finish_events(finishes).await
    }

    async fn events_renew(&self, leases: &[LeaseKey], span: Duration) -> Result<Vec<i64>, StoreError> {
        self.renew_events(leases, span).await
    }

    async fn events_reap(&self, limit: u32, configured: HandlingRules) -> Result<Vec<Reaped>, StoreError> {
        self.reap_events(limit, configured).await
    }

    async fn events_next_due(&self, event_type: &EventType) -> Result<Option<Duration>, StoreError> {
        self.next_due_event(event_type).await
    }

    fn event_signals(&self) -> Box<dyn EventSignals> {
        Box::new(Elsewhere(self.file.changed_elsewhere()))
    }

    async fn events_give_up(&self, event_type: &EventType, cutoff: u32) -> Result<u64, StoreError> {
        self.give_up_events(event_type, cutoff).await
    }

    async fn events_expire(&self, limit: u32) -> Result<Expired, StoreError> {
        self.expire_events(limit).await
    }

    async fn event_get(&self, id: i64) -> Result<Option<Event>, StoreError> {
        self.get_event(id).await
    }

    async fn events_of(&self, event_type: &EventType, reference: &Reference) -> Result<Vec<Event>, StoreError> {
        self.events_of_reference(event_type, reference).await
    }

    async fn events_page(&self, query: &EventQuery) -> Result<Vec<Event>, StoreError> {
        self.page_events(query).await
    }

    async fn events_search(&self, search: &EventSearch) -> Result<EventsFound, StoreError> {
        self.search_events(search).await
    }

    async fn events_counts(&self) -> Result<Vec<EventCount>, StoreError> {
        self.count_events().await
    }

    async fn event_act(&self, id: i64, revision: i64, act: EventAct) -> Result<Acted, StoreError> {
        self.act_on_event(id, revision, act).await
    }

    async fn events_change(&self, change: &EventsChange) -> Result<EventsChanged, StoreError> {
        self.change_events(change).await
    }

    async fn event_history(&self, event_type: &EventType, limit: u32) -> Result<Vec<HandledEvent>, StoreError> {
        self.history_of(event_type, limit).await
    }
}
