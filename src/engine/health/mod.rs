//! Whether everything that delivery needs works at this moment, and the mend of what a daemon can mend by itself
//! (docs/protocols.md 36).
//!
//! Tasks ask the broker, the management API and the store, each on its own and with a deadline of its own, and keep
//! what they found; whoever wants to know reads that and never waits for a source that hangs.

mod adopt;
mod bind;
mod found;
mod heal;
mod losses;
mod missing;
mod numbers;
mod place;
mod unbound;
mod vhost;
mod watch;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Notify;

pub(super) use self::adopt::Adopt;
pub(super) use self::place::Ownership;
pub(super) use self::vhost::MakeVhost;
use super::core::{Core, over_core};
use super::publisher::Publisher;
use super::rules::PolicyGuard;
use super::settled::Resting;
use super::view::{Degraded, PartState, Readiness};
use crate::domain::time::Timestamp;

pub(super) use bind::BOUND;
pub(super) use found::Health;
use found::{Found, asked, unasked};
pub(crate) use heal::WENT_BACK;
pub(super) use heal::{ALLOWED_AGAIN, IS_OLDER};
pub(crate) use losses::COMMAND;
pub(super) use losses::Depth;
pub(super) use missing::{look_at_one, was_deleted, was_made};

/// A write of the store that takes longer than this is told as one that is not answered.
const WRITE_MAX: Duration = Duration::from_millis(1500);
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
        let problem = (!delivering).then(|| match &found.waits_for {
            Some(why) => format!("this process does not deliver at present: {why}"),
            None => "this process does not deliver at present".to_owned(),
        });
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
            degraded: degraded(
                &found,
                self.policy_guard.rules.exchange_at_risk(),
                self.seen.unattached.problem(now),
            ),
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
        let is_problem = |state: &&PartState| state.problem.is_some();
        let (last, unwritten) = (found.beats.last.as_ref(), found.beats.unwritten.as_ref());
        let problem = last.filter(is_problem).or(unwritten.filter(is_problem));
        problem.or(last).or(found.store.as_ref()).cloned()
    }

    /// Begins the tasks, once in the life of an engine.
    pub(super) fn watch_health(self: &Arc<Self>) {
        if !self.health.begun.swap(true, Ordering::SeqCst) {
            watch::begin(self);
        }
    }
}

/// What does not work and stops nothing.
fn degraded(
    found: &Found,
    at_risk: Option<(String, Timestamp)>,
    unattached: Option<(String, Timestamp)>,
) -> Vec<Degraded> {
    let parts = [("management", &found.management), ("publishing", &found.blocked)];
    let degraded = parts.into_iter().filter_map(|(part, state)| {
        let state = state.as_ref()?;
        Some(Degraded {
            part,
            problem: state.problem.clone()?,
            since: state.since,
        })
    });
    let told = |part| move |(problem, since)| Degraded { part, problem, since };
    let exchange = at_risk.map(told("publishing"));
    let queues = unattached.map(told("queues"));
    degraded.chain(exchange).chain(queues).collect()
}
