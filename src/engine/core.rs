//! What every service of the engine works with: the store, the broker, the times, and this process's standing.
//!
//! Whatever needs nothing else is a method of it: leases of queues, what a queue consists of, looks, names. What one
//! service alone needs is that service's.

use std::sync::Arc;

use tokio::sync::{broadcast, watch};

use super::EngineSettings;
use super::endpoints::EndpointTable;
use super::event::Event;
use super::failing::Failing;
use super::fence::Fence;
use super::permits::Permits;
use super::published::PublishedLately;
use super::series::Series;
use super::store_time::StoreTime;
use super::unattached::Unattached;
use super::unwritten::Unwritten;
use crate::ambient::Clock;
use crate::broker::BrokerHandle;
use crate::domain::turn::Turn;
use crate::store::StoreHandle;

/// Events that a slow receiver may be behind by.
const EVENTS: usize = 1024;
/// Turns that wait for whoever tells them; the oldest go where there are more.
const TURNS: usize = 1024;

#[derive(Debug)]
pub(super) struct Core {
    pub(super) store: StoreHandle,
    pub(super) broker: BrokerHandle,
    pub(super) settings: EngineSettings,
    pub(super) clock: Clock,
    pub(super) store_time: StoreTime,
    /// Whether this process may still work under its leases.
    pub(super) fence: Arc<Fence>,
    pub(super) seen: Seen,
    /// Filters that compute at present.
    pub(super) sieves: Permits,
    /// What is known of endpoints, and whom to tell of a change.
    pub(super) endpoints: EndpointTable,
    pub(super) news: News,
}

/// What this process sees of the world.
#[derive(Debug)]
pub(super) struct Seen {
    /// What cannot be read at present.
    pub(super) sources: Failing,
    /// How queues and endpoints moved lately.
    pub(super) series: Series,
    /// Queues whose listed count may be older than a publish.
    pub(super) published: PublishedLately,
    /// Queues that could not be attached lately, or whose first message could not be dead-lettered.
    pub(super) unattached: Unattached,
    /// Why what workers have to write down waits for the store at present.
    pub(super) unwritten: Unwritten,
}

/// What happens in this process, for whoever listens.
#[derive(Debug)]
pub(super) struct News {
    pub(super) events: broadcast::Sender<Event>,
    /// Something happened that a look would show.
    pub(super) moved: watch::Sender<()>,
    /// What turned, for whoever tells it.
    pub(super) turned: broadcast::Sender<Turn>,
    /// Whether this process delivers at present.
    pub(super) delivering: watch::Sender<bool>,
}

impl Core {
    pub(super) fn new(store: StoreHandle, broker: BrokerHandle, settings: EngineSettings, clock: Clock) -> Self {
        let fence = Fence::new(clock.clone(), settings.take_over, settings.request_timeout);
        Self {
            fence: Arc::new(fence),
            store_time: StoreTime::new(clock.clone()),
            seen: Seen {
                sources: Failing::default(),
                series: Series::since(clock.uptime()),
                published: PublishedLately::default(),
                unattached: Unattached::default(),
                unwritten: Unwritten::default(),
            },
            sieves: Permits::default(),
            endpoints: EndpointTable::new(settings.rates.clone(), settings.in_flight_per_endpoint),
            news: News {
                events: broadcast::channel(EVENTS).0,
                moved: watch::Sender::new(()),
                turned: broadcast::Sender::new(TURNS),
                delivering: watch::Sender::new(false),
            },
            store,
            broker,
            settings,
            clock,
        }
    }

    /// Tells whoever listens in this process.
    pub(super) fn tell(&self, event: Event) {
        // Attempts are many: what follows from them is seen at the next look.
        if !matches!(event, Event::Attempted(_)) {
            self.news.moved.send_replace(());
        }
        let _ = self.news.events.send(event);
    }
}

/// What the core can do, each of these services can.
macro_rules! over_core {
    ($($service:ty),+) => {
        $(impl std::ops::Deref for $service {
            type Target = $crate::engine::core::Core;

            fn deref(&self) -> &Self::Target {
                &self.core
            }
        })+
    };
}

pub(super) use over_core;
