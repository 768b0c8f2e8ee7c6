//! Who is woken when something may be due: the processor of a type, by its type; and the pump.
//!
//! A push of a type that nobody here handles wakes nobody. What other processes do is heard of by
//! [`EventTable::hear_of_events`], in processes that handle anything.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::EventTable;
use crate::ambient::HashMap;
use crate::domain::event::EventType;
use crate::store::EventSignal;

/// The processors of this process, by what wakes them.
#[derive(Debug, Default)]
pub(in crate::engine) struct Wakes(Mutex<HashMap<EventType, Arc<Notify>>>);

impl Wakes {
    /// What wakes the processors of this type, from now on.
    pub(super) fn of(&self, event_type: &EventType) -> Arc<Notify> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(event_type.clone()).or_default())
    }

    /// Events of these types may be due.
    pub(super) fn wake<'a>(&self, types: impl Iterator<Item = &'a EventType>) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            return;
        }
        let mut last = None;
        for event_type in types {
            if last != Some(event_type)
                && let Some(waiting) = known.get(event_type)
            {
                waiting.notify_waiters();
            }
            last = Some(event_type);
        }
    }

    /// Events of any type may be due.
    pub(super) fn wake_all(&self) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().for_each(|waiting| waiting.notify_waiters());
    }
}

impl EventTable {
    /// Events of these types may be due.
    pub(super) fn wake<'a>(&self, types: impl Iterator<Item = &'a EventType>) {
        self.wakes.wake(types);
    }

    /// Events of any type may be due.
    pub(super) fn wake_all(&self) {
        self.wakes.wake_all();
    }

    /// Passes on what other processes say, until `stop`.
    pub(super) async fn hear_of_events(self: Arc<Self>, stop: CancellationToken) {
        let mut signals = self.store.event_signals();
        loop {
            let Some(signal) = stop.run_until_cancelled(signals.next()).await else {
                return;
            };
            match signal {
                EventSignal::Type(event_type) => self.wakes.wake(std::iter::once(&event_type)),
                EventSignal::Outbox => self.outbox_filled.notify_one(),
                EventSignal::Anything => {
                    self.wakes.wake_all();
                    self.outbox_filled.notify_one();
                }
            }
        }
    }
}
