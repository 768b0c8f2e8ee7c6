//! The event table: how fast events are pushed, handled and found.
//!
//! - *drain*: 20,000 events are there; from the start of their handling to the removal of the last one, handler
//!   empty. *One at a time* is ten handlers of one event each with nothing taken ahead, against graphile-worker with
//!   its defaults and ten jobs at once; *in batches* is the processor as it is, against graphile-worker with its local
//!   queue of 500. Both on the same PostgreSQL with `synchronous_commit` on, by turns. The peer runs where
//!   `REDRIVE_BENCH_PEER` names a folder with its packages.
//! - *held snapshot*: the same batches while another session keeps a snapshot open that was taken before.
//! - *push*: to keys that mostly wait already, so that most pushes coalesce; answered after the durable commit.
//! - *wake*: from the call of a push to the start of the handler; across processes the push is another process's.
//! - *search*: a million rows, the first page of a hundred.

mod drain;
mod push;
mod search;
mod side;
mod wake;

pub use side::run as run_side;

use redrive::internals::domain::event::{EventType, NewEvent, Reference};
use redrive::internals::store::{EventBatch, StoreHandle};

use crate::ground::open_store;
use crate::support::servers::{Database, scratch_directory};

/// The type of all events.
pub const TYPE: &str = "bench";

pub async fn run(parts: &[String]) {
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    if wanted("drain") {
        drain::run().await;
    }
    if wanted("push") {
        push::run().await;
    }
    if wanted("wake") {
        wake::run().await;
    }
    if wanted("search") {
        search::run().await;
    }
}

pub fn event_type() -> EventType {
    EventType::parse(TYPE).unwrap()
}

/// An event with a payload as imports have it.
pub fn event(number: usize) -> NewEvent {
    NewEvent {
        event_type: event_type(),
        reference: Reference::parse(&format!("employee-{number:07}")).unwrap(),
        nbf: None,
        reason: Some("message: hr.import".to_owned()),
        payload: Some(
            format!(r#"{{"employee_number": {number}, "changed": ["name", "unit"]}}"#)
                .into_bytes()
                .into(),
        ),
        lifetime: None,
        trace: None,
    }
}

/// Pushes events `from..to` in batches.
pub async fn fill(store: &StoreHandle, from: usize, to: usize) {
    for start in (from..to).step_by(1_000) {
        let batch = EventBatch {
            events: (start..to.min(start + 1_000)).map(event).collect(),
            ..EventBatch::default()
        };
        store.events_push(&batch).await.unwrap();
    }
}

/// A place for a store, gone with its value.
pub enum Place {
    Postgres(Database),
    Sqlite(tempfile::TempDir),
}

impl Place {
    pub async fn postgres() -> Self {
        Self::Postgres(Database::create().await)
    }

    pub fn sqlite() -> Self {
        Self::Sqlite(scratch_directory())
    }

    pub fn address(&self) -> String {
        match self {
            Self::Postgres(database) => database.url(),
            Self::Sqlite(directory) => directory.path().join("redrive.db").to_str().unwrap().to_owned(),
        }
    }

    pub async fn store(&self) -> StoreHandle {
        open_store(&self.address()).await
    }
}
