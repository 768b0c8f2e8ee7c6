//! Whether everything that delivery needs works at this moment, and the mend of what a daemon can mend by itself
//! (docs/protocols.md 36).
//!
//! Tasks ask the broker, the management API and the store, each on its own and with a deadline of its own, and keep
//! what they found; whoever wants to know reads that and never waits for a source that hangs.

mod adopt;
mod bind;
mod heal;
mod numbers;
mod place;
mod unbound;
mod vhost;
mod watch;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(super) use self::adopt::Adopt;
pub(super) use self::place::Ownership;
pub(super) use self::vhost::MakeVhost;
use super::core::{Core, over_core};
use super::publisher::Publisher;
use super::rules::PolicyGuard;
use super::settled::Resting;
use super::view::{Degraded, PartState, Readiness};
use crate::ambient::HashMap;
use crate::domain::id::{QueueName, StoreId};
use crate::domain::numbers::Numbers;
use crate::domain::time::Timestamp;
use crate::telemetry::names;

pub(super) use bind::{BOUND, Loss};
pub(super) use heal::{COMMAND, WENT_BACK};
pub(super) use unbound::Unbound;

/// A write of the store that takes longer than this is told as one that is not answered.
const WRITE_MAX: Duration = Duration::from_millis(1500);
/// Queues with something in them whose last known number is kept.
const DEPTHS_MAX: usize = 200_000;

/// What was found last, and since when it is so.
#[derive(Debug, Default)]
pub(super) struct Health {
    found: Mutex<Found>,
    begun: AtomicBool,
    /// Every queue is being bound.
    binding: AtomicBool,
    /// Ends the tasks.
    over: CancellationToken,
    /// Somebody met something that is gone: look at once.
    look_now: Arc<Notify>,
    /// The identity of the store that this process works with.
    store: Mutex<Option<StoreId>>,
    /// As last seen, by whichever incarnation: whoever restores a store ends those that looked at it before.
    numbers: Mutex<Numbers>,
    depths: Mutex<Depths>,
    losses: Mutex<Vec<Loss>>,
    unbound: Arc<Unbound>,
}

#[derive(Debug, Default)]
struct Found {
    broker: Option<PartState>,
    management: Option<PartState>,
    /// Only of a process that does not beat.
    store: Option<PartState>,
    beats: Beats,
    blocked: Option<PartState>,
    /// As it was when somebody asked last.
    delivering: Option<PartState>,
}

/// The writes of this process's own row, each second.
#[derive(Debug, Default)]
struct Beats {
    /// When (uptime) the one was sent that is not answered yet.
    sent: Option<Duration>,
    last: Option<PartState>,
}

/// Messages that queues had when they were listed last; of empty ones nothing is kept.
#[derive(Debug, Default)]
struct Depths {
    ready: HashMap<QueueName, u64>,
    taken_at: Timestamp,
}

impl PartState {
    /// The same state lasts.
    fn follow(last: Option<&Self>, problem: Option<String>, now: Timestamp) -> Self {
        let since = last
            .filter(|last| last.problem.is_some() == problem.is_some())
            .map_or(now, |last| last.since);
        Self { problem, since }
    }
}

/// Whether a source can be read; `None`: nobody asked it yet.
fn up(source: &'static str, is_up: Option<bool>) {
    let value = is_up.map_or(f64::NAN, |up| f64::from(u8::from(up)));
    metrics::gauge!(names::SOURCE_UP, "source" => source).set(value);
}

impl Health {
    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write is on its way since `sent` (uptime).
    pub(super) fn beat_sent(&self, sent: Duration) {
        self.found().beats.sent.get_or_insert(sent);
    }

    /// What came of it.
    pub(super) fn beat_answered(&self, problem: Option<String>, now: Timestamp) {
        let mut found = self.found();
        found.beats.sent = None;
        let is_up = problem.is_none();
        let state = PartState::follow(found.beats.last.as_ref(), problem, now);
        found.beats.last = Some(state);
        drop(found);
        up("store", Some(is_up));
    }

    /// The highest numbers of the store that this process saw.
    fn numbers(&self) -> Numbers {
        *self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what the store had, or gave to this process, a moment ago.
    pub(super) fn saw(&self, now: Numbers) {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        *numbers = numbers.highest(now);
    }

    /// Looks at the broker at once: something of ours is not there.
    pub(super) fn look_now(&self) {
        self.look_now.notify_one();
    }

    /// To be told of something that is gone.
    pub(super) fn looks(&self) -> Arc<Notify> {
        Arc::clone(&self.look_now)
    }

    /// To tell of queues without a binding.
    pub(super) fn unbound(&self) -> Arc<Unbound> {
        Arc::clone(&self.unbound)
    }

    /// Nothing is asked any more.
    pub(super) fn end(&self) {
        self.over.cancel();
    }

    /// The identity of the store, as it was when this process began to work with it.
    pub(super) fn store(&self) -> Option<StoreId> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_store(&self, store: StoreId) {
        // Another store counts for itself.
        *self.numbers.lock().unwrap_or_else(PoisonError::into_inner) = Numbers::default();
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Some(store);
    }

    /// Takes in a listing: what is in which queue.
    pub(super) fn listed(&self, ready: impl Iterator<Item = (QueueName, u64)>, taken_at: Timestamp) {
        *self.depths.lock().unwrap_or_else(PoisonError::into_inner) = Depths {
            ready: ready.filter(|(_, ready)| *ready > 0).take(DEPTHS_MAX).collect(),
            taken_at,
        };
    }

    /// The last known number of messages, and when it was read; `None`: it was not listed with any.
    fn last_known(&self, queue: &QueueName) -> Option<(u64, Timestamp)> {
        let depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        depths.ready.get(queue).map(|ready| (*ready, depths.taken_at))
    }
}

/// Watches whether broker and store can be worked with, and makes what is gone again.
#[derive(Debug)]
pub(super) struct Healing {
    core: Arc<Core>,
    pub(super) health: Arc<Health>,
    pub(super) ownership: Arc<Ownership>,
    publisher: Arc<Publisher>,
    pub(super) policy_guard: Arc<PolicyGuard>,
    /// What was delivered lately, by queue.
    pub(super) settled: Arc<Resting>,
    /// The broker came back: list at once.
    pub(super) sweep_now: Notify,
}

over_core!(Healing);

impl Healing {
    pub(super) fn new(
        core: &Arc<Core>,
        ownership: &Arc<Ownership>,
        publisher: &Arc<Publisher>,
        policy_guard: &Arc<PolicyGuard>,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            health: Arc::clone(&publisher.health),
            ownership: Arc::clone(ownership),
            publisher: Arc::clone(publisher),
            policy_guard: Arc::clone(policy_guard),
            settled: Arc::default(),
            sweep_now: Notify::new(),
        }
    }

    /// What is known now; asks nothing and waits for nothing.
    pub(super) fn readiness(self: &Arc<Self>) -> Readiness {
        self.watch_health();
        let now = self.clock.now();
        let unknown = |what: &str| PartState {
            problem: Some(format!("{what} was not asked yet")),
            since: now,
        };
        let mut found = self.health.found();
        let delivering = *self.news.delivering.borrow() && self.fence.is_open();
        let problem = (!delivering).then(|| "this process does not deliver at present".to_owned());
        let delivering = PartState::follow(found.delivering.as_ref(), problem, now);
        found.delivering = Some(delivering.clone());
        Readiness {
            broker: found.broker.clone().unwrap_or_else(|| unknown("the broker")),
            store: self.store_state(&found, now).unwrap_or_else(|| unknown("the store")),
            delivering,
            management: (!self.broker.is_embedded()).then(|| {
                found
                    .management
                    .clone()
                    .unwrap_or_else(|| unknown("the management API"))
            }),
            degraded: degraded(&found, self.policy_guard.rules.exchange_at_risk()),
        }
    }

    fn store_state(&self, found: &Found, now: Timestamp) -> Option<PartState> {
        let waits = found.beats.sent.map(|sent| self.clock.uptime().saturating_sub(sent));
        if let Some(waits) = waits.filter(|waits| *waits > WRITE_MAX) {
            return Some(PartState {
                problem: Some(format!("a write is not answered since {} s", waits.as_secs())),
                since: now.minus(waits),
            });
        }
        found.beats.last.clone().or_else(|| found.store.clone())
    }

    /// Begins the tasks, once in the life of an engine.
    pub(super) fn watch_health(self: &Arc<Self>) {
        if !self.health.begun.swap(true, Ordering::SeqCst) {
            watch::begin(self);
        }
    }
}

/// What does not work and stops nothing.
fn degraded(found: &Found, at_risk: Option<(String, Timestamp)>) -> Vec<Degraded> {
    let parts = [("management", &found.management), ("publishing", &found.blocked)];
    let degraded = parts.into_iter().filter_map(|(part, state)| {
        let state = state.as_ref()?;
        Some(Degraded {
            part,
            problem: state.problem.clone()?,
            since: state.since,
        })
    });
    let exchange = at_risk.map(|(problem, since)| Degraded {
        part: "publishing",
        problem,
        since,
    });
    degraded.chain(exchange).collect()
}
