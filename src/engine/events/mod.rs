//! The event table at work: what services push and claim, what operators look at and change, and the processor
//! that hands events to their handlers.
//!
//! What a service does is done at once; what an operator does is a plan first. Every event of a plan is named by
//! its id and revision, so that what was pushed since the plan is not touched by it.

mod act;
mod census;
pub(super) mod command;
mod documents;
mod fields;
mod groups;
mod handler;
mod hands;
mod intake;
mod json;
mod look;
mod many;
mod meters;
mod outbox;
mod policy;
mod processor;
mod running;
mod secrets;
mod service;
mod wakes;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::domain::event::{EventError, EventType, HandlingRules};
pub use crate::store::{
    Claim, ClaimSpan, EventCount, EventTypeRecord, Finished, HandledEvent, NamedLease, Pushed, PushedHow, Subscription,
};

use super::EngineError;
use super::core::{Core, over_core};
use super::policies::Policies;
use super::publisher::Publisher;
use super::rules::{PolicyGuard, Rules};

pub use command::{EventCommand, EventSelection, EventsDone, SubscriptionChoice};
pub use documents::{check_metadata, check_options};
pub use fields::EVENT_FIELDS;
pub use groups::{EventGroup, EventGroups};
pub use handler::{EventHandler, Handled};
use meters::EventMeters;
pub use processor::Processed;
use running::EventHandlers;
use secrets::Secrets;
use wakes::Wakes;

/// So much work is taken ahead for a handler in this process, when nobody says otherwise.
pub const AHEAD: Duration = Duration::from_millis(100);

/// The event table: what is pushed, taken in, handled, handed to a notification, and kept.
#[derive(Debug)]
pub(super) struct EventTable {
    core: Arc<Core>,
    publisher: Arc<Publisher>,
    /// What the broker's policies say of intake queues.
    rules: Arc<Rules>,
    /// Who waits for events that are due.
    wakes: Wakes,
    meters: EventMeters,
    /// A notification waits in the outbox.
    outbox_filled: Notify,
    /// Handlers of the embedding program.
    handlers: EventHandlers,
    /// What notifications of subscriptions are signed with.
    secrets: Secrets,
}

impl EventTable {
    pub(super) fn new(core: &Arc<Core>, publisher: &Arc<Publisher>, policy_guard: &PolicyGuard) -> Self {
        Self {
            core: Arc::clone(core),
            publisher: Arc::clone(publisher),
            rules: Arc::clone(&policy_guard.rules),
            wakes: Wakes::default(),
            meters: EventMeters::default(),
            outbox_filled: Notify::new(),
            handlers: EventHandlers::default(),
            secrets: Secrets::default(),
        }
    }
}

/// What a person asks of the event table and changes in it.
#[derive(Debug)]
pub(super) struct EventOperations {
    core: Arc<Core>,
    publisher: Arc<Publisher>,
    policies: Arc<Policies>,
    pub(super) table: Arc<EventTable>,
}

over_core!(EventTable, EventOperations);

impl EventOperations {
    pub(super) fn new(core: &Arc<Core>, policies: &Arc<Policies>, table: &Arc<EventTable>) -> Self {
        Self {
            core: Arc::clone(core),
            publisher: Arc::clone(&table.publisher),
            policies: Arc::clone(policies),
            table: Arc::clone(table),
        }
    }
}

/// What the engine has to know of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSettings {
    /// What follows from a failure, where the type says nothing else.
    pub rules: HandlingRules,
    /// How long a handler may take.
    pub lease: Duration,
    /// Events handled at once.
    pub workers: usize,
    /// How much work is taken ahead for a handler in this process; nothing is, for programs.
    pub ahead: Duration,
    /// What is done with the events of a type.
    pub handlers: Vec<HandlerSettings>,
    /// The intake queues.
    pub consumers: Vec<IntakeSettings>,
}

impl Default for EventSettings {
    fn default() -> Self {
        Self {
            rules: HandlingRules::default(),
            lease: Duration::from_mins(5),
            workers: 8,
            ahead: AHEAD,
            handlers: Vec::new(),
            consumers: Vec::new(),
        }
    }
}

/// What is done with the events of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerSettings {
    /// The type.
    pub event_type: EventType,
    /// What is done.
    pub action: HandlerAction,
}

/// What is done with an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerAction {
    /// A program gets it.
    Command {
        /// The program, and its arguments.
        command: Vec<String>,
        /// Where it runs; where this process does without.
        directory: Option<PathBuf>,
    },
    /// The subscribers of its type get it.
    Webhook,
}

/// An intake queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntakeSettings {
    /// Its name, for the operator.
    pub name: String,
    /// The vhost of the queue.
    pub vhost: String,
    /// The queue.
    pub queue: String,
    /// The exchange that it is bound to.
    pub exchange: Option<String>,
    /// The routing keys that it is bound with.
    pub bindings: Vec<String>,
    /// The type of its events.
    pub event_type: EventType,
    /// Routing keys, or patterns of them, whose messages have another type; the first that matches counts.
    pub types: Vec<(String, EventType)>,
    /// JSON pointer to the reference.
    pub reference: String,
    /// JSON pointer to the time before which the event is not due.
    pub nbf: Option<String>,
    /// JSON pointer to the payload; the whole message without.
    pub payload: Option<String>,
}

/// Which events are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EventsQuery {
    /// Of this type.
    pub event_type: Option<EventType>,
    /// A filter expression over [`EVENT_FIELDS`].
    pub filter: Option<String>,
    /// At most this many (1 to 1,000).
    pub limit: u32,
    /// Where to go on.
    pub cursor: Option<String>,
}

/// A claim that a consumer wants.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ClaimRequest {
    /// Of which type.
    pub event_type: EventType,
    /// How long, in seconds.
    pub ttl_s: u64,
    /// How much longer its events live at least, in seconds.
    pub grace_s: u64,
    /// At most this many events.
    pub limit: u32,
}

impl From<EventError> for EngineError {
    fn from(error: EventError) -> Self {
        Self::Invalid {
            field: error.field,
            message: match error.nearest {
                Some(nearest) => format!("{}; did you mean {nearest}?", error.message),
                None => error.message,
            },
        }
    }
}
