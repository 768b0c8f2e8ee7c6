//! What this process knows of endpoints: their state (docs/protocols.md 13), their slots (16) and how they answer (35).
//!
//! The store has the truth; here is a copy that a worker can ask without waiting. Unknown endpoints
//! are taken as available until a lease or the poll of the generation says otherwise.

mod live;
mod requests;
mod stored;
mod throttle;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

pub(in crate::engine) use self::live::{Answered, LiveEndpoint, SLOW_AFTER, SLOW_AFTER_UNSEEN, Standing};
pub(in crate::engine) use self::requests::InFlight;
use self::requests::Requests;
use self::stored::{Question, Questions};
use self::throttle::{Common, Throttle};
pub(in crate::engine) use self::throttle::{HELD, NEAR};
use crate::ambient::{HashMap, HashSet};
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

/// Endpoints kept beyond those in use, at most.
const IDLE_MAX: usize = 20_000;
/// URLs that are known from the store to have answered, at most: half of what is kept, so that there is room for others.
pub(in crate::engine) const REMEMBERED_MAX: u32 = 10_000;

/// All endpoints that this process met.
#[derive(Debug, Default)]
pub(in crate::engine) struct EndpointTable {
    endpoints: Mutex<Known>,
    /// Those of which something changed since the dispatcher last asked.
    moved: Mutex<HashSet<EndpointUrl>>,
    rates: HashMap<EndpointUrl, u32>,
    /// Requests in flight to each, at most.
    in_flight: usize,
    common: Arc<Common>,
    questions: Questions,
    /// Wakes the dispatcher: some endpoint changed.
    pub(in crate::engine) changed: Notify,
}

#[derive(Debug, Default)]
struct Known {
    by_url: HashMap<EndpointUrl, Arc<LiveEndpoint>>,
    not_available: HashSet<EndpointUrl>,
    /// Those that are paced.
    paced: HashSet<EndpointUrl>,
    /// When the probes of those that are unavailable are due.
    due: BTreeSet<(Timestamp, EndpointUrl)>,
    due_at: HashMap<EndpointUrl, Timestamp>,
    /// Of those that are unavailable: their probe is due, and no queue is known. The next one gives it.
    without_queue: HashSet<EndpointUrl>,
    /// Idle ones are dropped when there are so many.
    sweep_at: usize,
}

impl Known {
    /// Idle ones go. Most of what stays may be in use: then the next sweep comes only when there are many more,
    /// so that it costs little for each that came.
    fn make_room(&mut self) {
        if self.by_url.len() < self.sweep_at.max(IDLE_MAX) {
            return;
        }
        self.by_url
            .retain(|_, live| Arc::strong_count(live) > 1 || !live.is_available() || live.throttle.has_pace());
        self.sweep_at = self.by_url.len() + self.by_url.len() / 2;
    }

    fn due_from(&mut self, url: &EndpointUrl, at: Option<Timestamp>) {
        if let Some(before) = self.due_at.remove(url) {
            self.due.remove(&(before, url.clone()));
        }
        if let Some(at) = at {
            self.due_at.insert(url.clone(), at);
            self.due.insert((at, url.clone()));
        }
    }
}

impl EndpointTable {
    pub(in crate::engine) fn new(rates: HashMap<EndpointUrl, u32>, in_flight: usize) -> Self {
        Self {
            rates,
            in_flight,
            ..Self::default()
        }
    }

    /// The endpoint of `url`, made when it is new.
    pub(in crate::engine) fn get(&self, url: &EndpointUrl) -> Arc<LiveEndpoint> {
        self.get_from(&mut lock(&self.endpoints), url)
    }

    fn get_from(&self, known: &mut Known, url: &EndpointUrl) -> Arc<LiveEndpoint> {
        if let Some(found) = known.by_url.get(url) {
            return Arc::clone(found);
        }
        known.make_room();
        let throttle = Throttle::new(self.rates.get(url).copied(), &self.common);
        let live = Arc::new(LiveEndpoint::new(
            url.clone(),
            throttle,
            Requests::new(self.in_flight.max(1)),
        ));
        known.by_url.insert(url.clone(), Arc::clone(&live));
        live
    }

    /// So many daemons deliver: each has its part of a rate.
    pub(in crate::engine) fn share(&self, daemons: usize) {
        let daemons = i64::try_from(daemons).unwrap_or(1).max(1);
        self.common.sharers.store(daemons, Ordering::Relaxed);
    }

    /// The store's clock stepped so far (microseconds): what paces wait for comes when it would have come.
    pub(in crate::engine) fn stepped(&self, by_us: i64) {
        self.common.stepped_us.fetch_add(by_us, Ordering::Relaxed);
    }

    /// The store is about to be asked.
    pub(in crate::engine) fn question(&self) -> Question {
        self.questions.next()
    }

    /// Takes over what the store says of one endpoint, unless this process knows more.
    pub(in crate::engine) fn update(&self, endpoint: &Endpoint) -> Arc<LiveEndpoint> {
        self.believe(&endpoint.url, Some(endpoint), Question::WRITTEN_HERE)
    }

    /// Takes over what the store answered to `question` of one endpoint; `None`: it does not know it.
    pub(in crate::engine) fn believe(
        &self,
        url: &EndpointUrl,
        endpoint: Option<&Endpoint>,
        question: Question,
    ) -> Arc<LiveEndpoint> {
        let mut known = lock(&self.endpoints);
        let live = self.get_from(&mut known, url);
        let (was, paced) = (live.is_available(), live.throttle.pace());
        if !live.believe(endpoint, question, self.questions.so_far()) {
            return live;
        }
        if live.throttle.has_pace() {
            known.paced.insert(url.clone());
        } else {
            known.paced.remove(url);
        }
        known.due_from(url, endpoint.and_then(probe_due_at));
        if live.is_available() {
            known.not_available.remove(url);
            known.without_queue.remove(url);
        } else {
            known.not_available.insert(url.clone());
        }
        drop(known);
        if was != live.is_available() || paced != live.throttle.pace() {
            lock(&self.moved).insert(url.clone());
        }
        live
    }

    /// An attempt ended, at `now` of the store's clock; true when the dispatcher has to know.
    pub(in crate::engine) fn answered(
        &self,
        live: &LiveEndpoint,
        (answered, took): (Answered, Duration),
        now: Timestamp,
    ) -> bool {
        let moved = live.answered(answered, took, now);
        if moved {
            lock(&self.moved).insert(live.url.clone());
        }
        moved
    }

    /// Those whose state or standing changed since the last call.
    pub(in crate::engine) fn moved(&self) -> HashSet<EndpointUrl> {
        std::mem::take(&mut lock(&self.moved))
    }

    /// Those that are paced.
    pub(in crate::engine) fn paced(&self) -> Vec<Arc<LiveEndpoint>> {
        let known = lock(&self.endpoints);
        let live = |url| known.by_url.get(url).map(Arc::clone);
        known.paced.iter().filter_map(live).collect()
    }

    /// Takes over the whole set of endpoints that are not available or paced, the answer to `question`; answers those
    /// that were taken for it and are not in it: they have to be read again.
    pub(in crate::engine) fn replace(&self, special: &[Endpoint], question: Question) -> Vec<EndpointUrl> {
        for endpoint in special {
            self.believe(&endpoint.url, Some(endpoint), question);
        }
        let listed: HashSet<&EndpointUrl> = special.iter().map(|e| &e.url).collect();
        let known = lock(&self.endpoints);
        known
            .not_available
            .union(&known.paced)
            .filter(|url| !listed.contains(url))
            .cloned()
            .collect()
    }

    /// Takes the probe that is due longest at `now` of the store's clock: its URL, and the queue that gives it, if that is set. It is
    /// due again when its endpoint is updated, or by [`Self::probe_again_at`].
    pub(in crate::engine) fn take_due(&self, now: Timestamp) -> Option<(EndpointUrl, Option<QueueName>)> {
        let mut known = lock(&self.endpoints);
        let (_, url) = known.due.first().filter(|(at, _)| *at <= now)?.clone();
        known.due_from(&url, None);
        let live = known.by_url.get(&url)?;
        let queue = live.detail().and_then(|detail| detail.probe_queue.clone());
        Some((url, queue))
    }

    /// The probe of an unavailable endpoint was taken, and no queue is known that could give it.
    pub(in crate::engine) fn probe_waits_for_a_queue(&self, url: &EndpointUrl) {
        let mut known = lock(&self.endpoints);
        if known.not_available.contains(url) {
            known.without_queue.insert(url.clone());
        }
    }

    /// A queue of `url` has something to do at `now` of the store's clock: it gives the probe that waited for one.
    pub(in crate::engine) fn queue_waits(&self, url: &EndpointUrl, now: Timestamp) {
        if lock(&self.endpoints).without_queue.remove(url) {
            self.probe_again_at(url, now);
        }
    }

    /// The probe of an unavailable endpoint was taken and nothing came of it: it is due at `at`, unless the store
    /// has said since when it is.
    pub(in crate::engine) fn probe_again_at(&self, url: &EndpointUrl, at: Timestamp) {
        let mut known = lock(&self.endpoints);
        let unavailable = known.by_url.get(url).is_some_and(|live| {
            live.detail()
                .is_some_and(|detail| detail.state == EndpointState::Unavailable && detail.paused().is_none())
        });
        if unavailable && !known.due_at.contains_key(url) {
            known.due_from(url, Some(at));
        }
    }
}

/// When the probe of an endpoint may be claimed; `None`: it waits for a person, or is available.
fn probe_due_at(endpoint: &Endpoint) -> Option<Timestamp> {
    let is_probed = endpoint.state == EndpointState::Unavailable && endpoint.paused().is_none();
    let claimed_until = endpoint.probe.as_ref().map(|claim| claim.until);
    is_probed.then(|| {
        let at = endpoint.next_attempt_at.max(claimed_until);
        at.unwrap_or(Timestamp::from_micros(0))
    })
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::outcome::{FailureKind, Outcome};
    use crate::domain::pace::{self, Pace, PaceChange, PaceOrder, Ramp};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_000 + seconds)
    }

    fn paced(per_second: u32) -> (EndpointTable, Arc<LiveEndpoint>) {
        let url = EndpointUrl::parse("http://example.com/").unwrap();
        let table = EndpointTable::new(HashMap::from_iter([(url.clone(), per_second)]), 16);
        let live = table.get(&url);
        (table, live)
    }

    /// When turns are taken by one who waits for each and comes so much late, in milliseconds from `begin` on.
    fn turns(live: &LiveEndpoint, begin: i64, late: i64, count: usize) -> Vec<i64> {
        let mut now = begin;
        let take = |_| {
            while let Err(wait) = live
                .throttle
                .take_turn(Duration::from_micros(now.unsigned_abs()), at(0))
            {
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
        let up = |millis: u64| Duration::from_millis(1_000 + millis);
        assert!(live.throttle.turn_is_near_in(up(0), at(0)).is_zero());
        assert_eq!(live.throttle.take_turn(up(0), at(0)), Ok(()));
        assert_eq!(live.throttle.take_turn(up(100), at(0)), Err(Duration::from_millis(900)));
        assert_eq!(
            live.throttle.turn_is_near_in(up(100), at(0)),
            Duration::from_millis(650)
        );
        assert!(live.throttle.turn_is_near_in(up(800), at(0)).is_zero());
    }

    /// As the store has it, with its probe due at once.
    fn unavailable(url: &EndpointUrl) -> Endpoint {
        Endpoint {
            attempts: 1,
            next_attempt_at: Some(Timestamp::from_micros(1)),
            ..Endpoint::of(url.clone(), EndpointState::Unavailable, Timestamp::from_micros(0))
        }
    }

    /// Available, and paced by this order since `at(0)`.
    fn going(table: &EndpointTable, url: &EndpointUrl, order: PaceOrder) -> Arc<LiveEndpoint> {
        table.update(&Endpoint {
            state: EndpointState::Available,
            next_attempt_at: None,
            attempts: 0,
            pace: Some(Pace::new(order, None, at(0))),
            ..unavailable(url)
        })
    }

    #[test]
    fn a_pace_spaces_requests_and_the_slower_one_of_two_rates_holds() {
        let (table, live) = paced(10);
        let slow = PaceOrder {
            rate: Some(5),
            ..PaceOrder::default()
        };
        going(&table, &live.url, slow);
        assert_eq!(turns(&live, 1_000_000, 0, 3), [0, 200, 400]);
        table.share(2);
        assert_eq!(turns(&live, 60_000_000, 0, 3), [0, 400, 800]);
        table.share(1);
        let fast = PaceOrder {
            rate: Some(1_000),
            ..PaceOrder::default()
        };
        going(&table, &live.url, fast);
        assert_eq!(turns(&live, 90_000_000, 0, 3), [0, 100, 200], "the configuration's");
    }

    #[test]
    fn a_rate_that_is_raised_while_a_turn_is_waited_for_holds_at_once() {
        let table = EndpointTable::default();
        let url = EndpointUrl::parse("http://example.com/").unwrap();
        let rate = |rate| PaceOrder {
            rate: Some(rate),
            ..PaceOrder::default()
        };
        let live = going(&table, &url, rate(1));
        let up = |millis: u64| Duration::from_millis(5_000 + millis);
        assert_eq!(live.throttle.take_turn(up(0), at(0)), Ok(()));
        assert_eq!(live.throttle.take_turn(up(1), at(0)), Err(Duration::from_millis(999)));
        going(&table, &url, rate(100));
        assert_eq!(live.throttle.take_turn(up(2), at(0)), Err(Duration::from_millis(10)));
    }

    #[test]
    fn a_step_of_the_stores_clock_ends_no_watch_and_no_ramp() {
        let table = EndpointTable::default();
        let url = EndpointUrl::parse("http://example.com/").unwrap();
        let ramp = PaceOrder {
            ramp: Some(Ramp {
                from: 1,
                factor: 2,
                every_s: 600,
            }),
            ..PaceOrder::default()
        };
        let live = going(&table, &url, ramp);
        let up = |seconds: u64| Duration::from_secs(5_000 + seconds);
        let second = Duration::from_secs(1);
        let turn = |uptime: u64, now: i64| {
            assert_eq!(live.throttle.take_turn(up(uptime), at(now)), Ok(()));
            live.throttle.take_turn(up(uptime), at(now)).unwrap_err()
        };
        assert_eq!(turn(0, 0), second);
        table.stepped(7_200_000_000);
        assert_eq!(turn(10, 7_210), second, "two hours ahead");
        table.stepped(-7_200_000_000);
        assert_eq!(turn(20, 20), second, "and back");
        assert_eq!(turn(610, 610), second / 2, "its time has come");
    }

    #[test]
    fn a_brake_takes_nothing_and_an_older_answer_of_the_store_does_not_release_it() {
        let table = EndpointTable::default();
        let url = EndpointUrl::parse("http://example.com/").unwrap();
        let asked_before = table.question();
        let live = going(&table, &url, PaceOrder::default());
        assert!(!live.throttle.is_held(at(1)));
        let brake = pace::after(
            live.throttle.pace().as_ref(),
            &PaceChange::Brake {
                by: "ana".to_owned(),
                reason: None,
            },
            at(1),
        );
        table.update(&Endpoint {
            state: EndpointState::Available,
            next_attempt_at: None,
            attempts: 0,
            pace: brake.unwrap(),
            ..unavailable(&url)
        });
        assert!(live.throttle.is_held(at(2)));
        assert_eq!(live.throttle.turn_is_near_in(Duration::from_secs(9), at(2)), HELD);
        assert_eq!(table.paced().len(), 1);
        table.believe(&url, Some(&unpaced(&url)), asked_before);
        assert!(live.throttle.is_held(at(2)), "it was read before the brake");
        let question = table.question();
        table.believe(&url, Some(&unpaced(&url)), question);
        assert!(!live.throttle.is_held(at(2)) && table.paced().is_empty());
    }

    fn unpaced(url: &EndpointUrl) -> Endpoint {
        Endpoint::of(url.clone(), EndpointState::Available, Timestamp::from_micros(0))
    }

    #[test]
    fn a_probe_waits_for_a_queue_until_one_comes_or_its_url_is_opened_and_leaves_nothing() {
        let (table, now) = (EndpointTable::default(), Timestamp::from_micros(5));
        let urls: Vec<_> = (0..50)
            .map(|n| EndpointUrl::parse(&format!("http://example.com/{n}")).unwrap())
            .collect();
        let take = || table.take_due(now).map(|(url, _)| url);
        for url in &urls {
            table.update(&unavailable(url));
            assert_eq!(take().as_ref(), Some(url));
            table.probe_waits_for_a_queue(url);
        }
        assert_eq!(take(), None);
        table.queue_waits(&urls[0], now);
        assert_eq!(take(), Some(urls[0].clone()), "its queue gives it");
        for url in &urls {
            let question = table.question();
            table.believe(url, None, question);
            // The answer to a probe that was taken before comes late.
            table.probe_waits_for_a_queue(url);
        }
        assert_eq!(lock(&table.endpoints).without_queue.len(), 0);
    }

    #[test]
    fn a_name_is_refused_by_rules_when_two_lookups_a_minute_apart_say_so_and_none_between_says_otherwise() {
        let (_, live) = paced(1);
        let ended = |outcome, seconds| live.is_refused_by_rules(outcome, Duration::from_secs(seconds));
        let refused = Outcome::Failure(FailureKind::AddressRefused);
        assert!(!ended(refused, 100) && !ended(refused, 159) && ended(refused, 160));
        assert!(!ended(Outcome::Failure(FailureKind::Dns), 170) && ended(refused, 180));
        assert!(!ended(Outcome::Failure(FailureKind::ConnectRefused), 190));
        assert!(!ended(refused, 300) && ended(refused, 360));
        live.answered(Answered::Success, Duration::ZERO, Timestamp::from_micros(1));
        assert!(!ended(refused, 400));
    }

    #[test]
    fn a_url_without_a_rate_waits_for_nothing() {
        let live = unlimited();
        assert_eq!(live.slots(1, at(0)), 16);
        assert_eq!(turns(&live, 1, 0, 3), [0, 0, 0]);
    }

    fn unlimited() -> Arc<LiveEndpoint> {
        let table = EndpointTable::new(HashMap::default(), 16);
        table.get(&EndpointUrl::parse("http://example.com/").unwrap())
    }
}
