//! What this process knows of endpoints: their state (PROTOCOLS.md 13) and their slots (16).
//!
//! The store has the truth; here is a copy that a worker can ask without waiting. Unknown endpoints
//! are taken as available until a lease or the poll of the generation says otherwise.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::id::{EndpointEpoch, QueueName};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

/// How long a worker waits for the turn of its URL while others wait for a worker.
pub(super) const NEAR: Duration = Duration::from_millis(250);
/// Endpoints kept beyond those in use, at most.
const IDLE_MAX: usize = 20_000;

/// One endpoint, shared by the workers on its queues.
#[derive(Debug)]
pub(super) struct LiveEndpoint {
    pub(super) url: EndpointUrl,
    available: AtomicBool,
    epoch: AtomicI64,
    /// It answered since it last failed or timed out: more than one request may be in flight.
    proven: AtomicBool,
    last_success_us: AtomicI64,
    detail: Mutex<Option<Endpoint>>,
    /// Requests a second, at most, and when the next may start.
    rate: Option<Pace>,
}

/// Spaces requests evenly: at most one in each interval.
#[derive(Debug)]
struct Pace {
    per_second: i64,
    /// Daemons that have a part of the rate each (PROTOCOLS.md 16).
    sharers: Arc<AtomicI64>,
    next_us: AtomicI64,
}

impl Pace {
    fn interval_us(&self) -> i64 {
        1_000_000 * self.sharers.load(Ordering::Relaxed).max(1) / self.per_second.max(1)
    }
}

impl LiveEndpoint {
    fn new(url: EndpointUrl, per_second: Option<u32>, sharers: &Arc<AtomicI64>) -> Self {
        Self {
            url,
            available: AtomicBool::new(true),
            epoch: AtomicI64::new(0),
            proven: AtomicBool::new(false),
            last_success_us: AtomicI64::new(0),
            detail: Mutex::new(None),
            rate: per_second.map(|n| Pace {
                per_second: i64::from(n),
                sharers: Arc::clone(sharers),
                next_us: AtomicI64::new(0),
            }),
        }
    }

    /// Whether anything may be sent to it that is not a probe.
    pub(super) fn is_available(&self) -> bool {
        self.available.load(Ordering::SeqCst)
    }

    /// The epoch that an attempt begins with.
    pub(super) fn epoch(&self) -> EndpointEpoch {
        EndpointEpoch(self.epoch.load(Ordering::SeqCst))
    }

    /// Whether more than one request may be in flight to it.
    pub(super) fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Relaxed)
    }

    /// An attempt ended with an answer, or without one.
    pub(super) fn answered(&self, answered: Answered, now: Timestamp) {
        match answered {
            Answered::Success => {
                self.proven.store(true, Ordering::Relaxed);
                self.last_success_us.store(now.micros(), Ordering::Relaxed);
            }
            Answered::Answer => self.proven.store(true, Ordering::Relaxed),
            Answered::Nothing => self.proven.store(false, Ordering::Relaxed),
        }
    }

    /// The last 2xx that this process saw.
    pub(super) fn last_success(&self) -> Option<Timestamp> {
        match self.last_success_us.load(Ordering::Relaxed) {
            0 => None,
            us => Some(Timestamp::from_micros(us)),
        }
    }

    /// What the store last said of it, when it is not available.
    pub(super) fn detail(&self) -> Option<Endpoint> {
        lock(&self.detail).clone()
    }

    /// Takes over what the store says.
    pub(super) fn update(&self, endpoint: &Endpoint) {
        let mut detail = lock(&self.detail);
        if endpoint.epoch.0 < self.epoch.load(Ordering::SeqCst) {
            return;
        }
        self.epoch.store(endpoint.epoch.0, Ordering::SeqCst);
        let available = endpoint.state == EndpointState::Available;
        self.available.store(available, Ordering::SeqCst);
        *detail = (!available).then(|| endpoint.clone());
    }

    /// Whether its rate is limited: then one worker at a time is enough.
    pub(super) const fn is_paced(&self) -> bool {
        self.rate.is_some()
    }

    /// Takes the turn of the next request, by the endpoint's rate; `Err`: it comes after so long. A turn that is
    /// taken late makes the next one no later, as far as that is less than a turn.
    pub(super) fn take_turn(&self, now: Timestamp) -> Result<(), Duration> {
        let Some(pace) = &self.rate else { return Ok(()) };
        let (now, interval) = (now.micros(), pace.interval_us());
        let taken = pace.next_us.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |next| {
            let from = if now - next < interval { next } else { now };
            (next <= now).then_some(from + interval)
        });
        match taken {
            Ok(_) => Ok(()),
            Err(next) => Err(Duration::from_micros(u64::try_from(next - now).unwrap_or(0))),
        }
    }

    /// Whether its turn is so near that a worker may wait for it (PROTOCOLS.md 16).
    pub(super) fn turn_is_near(&self, now: Timestamp) -> bool {
        self.rate.as_ref().is_none_or(|pace| {
            let near = i64::try_from(NEAR.as_micros()).unwrap_or(i64::MAX);
            pace.next_us.load(Ordering::Relaxed) - now.micros() <= near
        })
    }
}

/// How a request ended, as far as the endpoint's liveliness goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// A 2xx.
    Success,
    /// Another answer.
    Answer,
    /// Nothing, or not in time.
    Nothing,
}

/// All endpoints that this process met.
#[derive(Debug, Default)]
pub(super) struct EndpointTable {
    endpoints: Mutex<HashMap<EndpointUrl, Arc<LiveEndpoint>>>,
    rates: HashMap<EndpointUrl, u32>,
    sharers: Arc<AtomicI64>,
}

impl EndpointTable {
    pub(super) fn new(rates: HashMap<EndpointUrl, u32>) -> Self {
        Self {
            endpoints: Mutex::default(),
            rates,
            sharers: Arc::new(AtomicI64::new(1)),
        }
    }

    /// The endpoint of `url`, made when it is new.
    pub(super) fn get(&self, url: &EndpointUrl) -> Arc<LiveEndpoint> {
        let mut endpoints = lock(&self.endpoints);
        if let Some(found) = endpoints.get(url) {
            return Arc::clone(found);
        }
        if endpoints.len() >= IDLE_MAX {
            endpoints.retain(|_, live| Arc::strong_count(live) > 1 || !live.is_available());
        }
        let live = Arc::new(LiveEndpoint::new(
            url.clone(),
            self.rates.get(url).copied(),
            &self.sharers,
        ));
        endpoints.insert(url.clone(), Arc::clone(&live));
        live
    }

    /// So many daemons deliver: each has its part of a rate.
    pub(super) fn share(&self, daemons: usize) {
        let daemons = i64::try_from(daemons).unwrap_or(1).max(1);
        self.sharers.store(daemons, Ordering::Relaxed);
    }

    /// Takes over what the store says of one endpoint.
    pub(super) fn update(&self, endpoint: &Endpoint) -> Arc<LiveEndpoint> {
        let live = self.get(&endpoint.url);
        live.update(endpoint);
        live
    }

    /// Takes over the whole set of endpoints that are not available; answers those that were taken for
    /// not available and are not in it: they have to be read again.
    pub(super) fn replace(&self, not_available: &[Endpoint]) -> Vec<EndpointUrl> {
        for endpoint in not_available {
            self.update(endpoint);
        }
        let listed: std::collections::HashSet<&EndpointUrl> = not_available.iter().map(|e| &e.url).collect();
        let endpoints = lock(&self.endpoints);
        endpoints
            .values()
            .filter(|live| !live.is_available() && !listed.contains(&live.url))
            .map(|live| live.url.clone())
            .collect()
    }

    /// Unavailable endpoints whose probe is due at `now`, with the queue that gives it, if that is set.
    pub(super) fn probes_due(&self, now: Timestamp) -> Vec<(EndpointUrl, Option<QueueName>)> {
        let endpoints = lock(&self.endpoints);
        endpoints
            .values()
            .filter(|live| !live.is_available())
            .filter_map(|live| live.detail())
            .filter(|e| e.state == EndpointState::Unavailable && e.next_attempt_at.is_none_or(|at| at <= now))
            .filter(|e| e.probe.as_ref().is_none_or(|claim| claim.until <= now))
            .map(|e| (e.url, e.probe_queue))
            .collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paced(per_second: u32) -> (EndpointTable, Arc<LiveEndpoint>) {
        let url = EndpointUrl::parse("http://example.com/").unwrap();
        let table = EndpointTable::new(HashMap::from([(url.clone(), per_second)]));
        let live = table.get(&url);
        (table, live)
    }

    /// When turns are taken by one who waits for each and comes so much late, in milliseconds from `begin` on.
    fn turns(live: &LiveEndpoint, begin: i64, late: i64, count: usize) -> Vec<i64> {
        let mut now = begin;
        let take = |_| {
            while let Err(wait) = live.take_turn(Timestamp::from_micros(now)) {
                now += i64::try_from(wait.as_micros()).unwrap() + late;
            }
            (now - begin) / 1_000
        };
        (0..count).map(take).collect()
    }

    #[test]
    fn turns_are_spaced_evenly_and_none_are_saved_up() {
        let (_, live) = paced(10);
        assert_eq!(turns(&live, 1_000_000, 0, 4), [0, 100, 200, 300]);
        assert_eq!(turns(&live, 60_000_000, 0, 3), [0, 100, 200], "a rest earns no burst");
    }

    #[test]
    fn who_comes_a_little_late_keeps_the_rate() {
        let (_, live) = paced(10);
        assert_eq!(turns(&live, 1_000_000, 5_000, 4), [0, 105, 205, 305]);
    }

    #[test]
    fn a_rate_is_divided_by_the_daemons_that_deliver() {
        let (table, live) = paced(10);
        table.share(4);
        assert_eq!(turns(&live, 1_000_000, 0, 3), [0, 400, 800]);
        table.share(0);
        assert_eq!(turns(&live, 60_000_000, 0, 3), [0, 100, 200]);
    }

    #[test]
    fn a_turn_that_is_far_is_waited_for_without_a_worker() {
        let (_, live) = paced(1);
        let at = |millis: i64| Timestamp::from_micros(1_000_000 + millis * 1_000);
        assert!(live.turn_is_near(at(0)));
        assert_eq!(live.take_turn(at(0)), Ok(()));
        assert_eq!(live.take_turn(at(100)), Err(Duration::from_millis(900)));
        assert!(!live.turn_is_near(at(100)) && live.turn_is_near(at(800)));
    }

    #[test]
    fn a_url_without_a_rate_waits_for_nothing() {
        let live = EndpointTable::default().get(&EndpointUrl::parse("http://example.com/").unwrap());
        assert!(!live.is_paced());
        assert_eq!(turns(&live, 1, 0, 3), [0, 0, 0]);
    }
}
