//! What an operator wants done with events, and what came of it.

use crate::domain::event::{Event, EventType, Reference};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::store::{EventTypeRecord, Subscription};

/// What an operator wants done with events.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum EventCommand {
    /// Make them due now; dead ones get their whole budget back.
    Retry(EventSelection),
    /// Make them due at a time.
    Reschedule(EventSelection, Timestamp),
    /// Remove them.
    Cancel(EventSelection),
    /// Make a type, or give it other metadata, as JSON.
    SetType {
        /// Which.
        event_type: EventType,
        /// The metadata.
        document: String,
    },
    /// Send the events of a type to a URL.
    Subscribe {
        /// Of which type.
        event_type: EventType,
        /// Where to.
        url: EndpointUrl,
        /// Options, as JSON.
        options: String,
    },
    /// End a subscription.
    Unsubscribe {
        /// Of which type.
        event_type: EventType,
        /// Which, by its id or its URL.
        which: SubscriptionChoice,
    },
}

/// A subscription, by what people know of it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum SubscriptionChoice {
    /// Its id.
    Id(i64),
    /// Its URL.
    Url(EndpointUrl),
}

/// Which events.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum EventSelection {
    /// These.
    Ids(Vec<i64>),
    /// These, at these revisions: what a plan names.
    Rows(Vec<(i64, i64)>),
    /// All of a reference.
    Reference(EventType, Reference),
    /// All that a filter finds; more than a plan can name become a run.
    Filter(String),
    /// All that a filter finds, so many a second at most: a run.
    Paced(String, u32),
}

/// What came of a command about events.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum EventsDone {
    /// What was changed, and what was not and why.
    Changed {
        /// The rows after it (before it, where they were removed).
        events: Vec<Event>,
        /// Ids, and why not.
        skipped: Vec<(i64, String)>,
    },
    /// The type as it is now.
    Type(EventTypeRecord),
    /// The subscription as it is now.
    Subscribed(Subscription),
    /// It is no more.
    Unsubscribed(Subscription),
}
