//! The numbers of the event table, by type, with their handles kept: an event moves several of them.
//!
//! Types are made by those who push, so the number of labels is bounded here: what comes after the first
//! [`TYPES_MAX`] types is counted together.

use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Counter, Histogram, counter, histogram};

use crate::ambient::HashMap;
use crate::domain::event::{EventType, NewEvent};
use crate::store::{Finished, Pushed, PushedHow};
use crate::telemetry::names;

/// Types with numbers of their own.
const TYPES_MAX: usize = 200;
/// The label of all others.
const OTHERS: &str = "(others)";

/// The numbers of each type.
#[derive(Default)]
pub(in crate::engine) struct EventMeters(Mutex<Known>);

#[derive(Default)]
struct Known {
    types: HashMap<EventType, Arc<TypeMeters>>,
    /// Of all that came after the last one that fitted.
    others: Option<Arc<TypeMeters>>,
}

/// The numbers of one type.
pub(super) struct TypeMeters {
    /// What the numbers are labelled with.
    label: String,
    pushed: Counter,
    coalesced: Counter,
    lag: Histogram,
    ended: [Counter; Finished::ALL.len()],
}

impl std::fmt::Debug for EventMeters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventMeters")
    }
}

impl EventMeters {
    /// Those of a type.
    pub(super) fn of(&self, event_type: &EventType) -> Arc<TypeMeters> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.types.get(event_type) {
            return Arc::clone(found);
        }
        if known.types.len() < TYPES_MAX {
            let made = Arc::new(TypeMeters::new(event_type.as_str()));
            known.types.insert(event_type.clone(), Arc::clone(&made));
            return made;
        }
        let others = || Arc::new(TypeMeters::new(OTHERS));
        Arc::clone(known.others.get_or_insert_with(others))
    }

    /// The label of a type.
    pub(super) fn label(&self, event_type: &EventType) -> String {
        self.of(event_type).label.clone()
    }

    /// Pushes of these types were replaced before they were stored.
    pub(super) fn folded(&self, types: &[EventType]) {
        for event_type in types {
            let meters = self.of(event_type);
            meters.pushed.increment(1);
            meters.coalesced.increment(1);
        }
    }

    /// These were pushed.
    pub(super) fn pushed(&self, events: &[NewEvent], pushed: &[Pushed]) {
        let mut last: Option<(&EventType, Arc<TypeMeters>)> = None;
        for (event, pushed) in events.iter().zip(pushed) {
            let meters = match &last {
                Some((known, meters)) if **known == event.event_type => Arc::clone(meters),
                _ => self.of(&event.event_type),
            };
            meters.pushed.increment(1);
            if pushed.how != PushedHow::New {
                meters.coalesced.increment(1);
            }
            last = Some((&event.event_type, meters));
        }
    }
}

impl TypeMeters {
    fn new(label: &str) -> Self {
        let of_type = || label.to_owned();
        Self {
            label: of_type(),
            pushed: counter!(names::EVENTS_PUSHED, "type" => of_type()),
            coalesced: counter!(names::EVENTS_COALESCED, "type" => of_type()),
            lag: histogram!(names::EVENT_LAG, "type" => of_type()),
            ended: Finished::ALL.map(|how| counter!(names::EVENTS_HANDLED, "type" => of_type(), "how" => how.as_str())),
        }
    }

    /// One is in hand, so long after it was due.
    pub(super) fn begun(&self, lag: std::time::Duration) {
        self.lag.record(lag.as_secs_f64());
    }

    /// One ended.
    pub(super) fn ended(&self, how: Finished) {
        for (known, count) in Finished::ALL.iter().zip(&self.ended) {
            if *known == how {
                count.increment(1);
            }
        }
    }
}
