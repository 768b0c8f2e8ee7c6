//! What this process knows of endpoints: their state (docs/protocols.md 13), their slots (16) and how they answer (35).
//!
//! The store has the truth; here is a copy that a worker can ask without waiting. Unknown endpoints
//! are taken as available until a lease or the poll of the generation says otherwise.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::ambient::{HashMap, HashSet};
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::id::{EndpointEpoch, QueueName};
use crate::domain::outcome::{FailureKind, Outcome};
use crate::domain::pace::Pace;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::domain::verdict::REFUSED_BY_RULES_FOR;

/// How long a worker waits for the turn of its URL while others wait for a worker.
pub(in crate::engine) const NEAR: Duration = Duration::from_millis(250);
/// When a URL that takes nothing at present is asked again, unless it is told of before.
pub(in crate::engine) const HELD: Duration = Duration::from_secs(5);
/// A request that is older waits in vain more likely than not: it leaves the workers.
pub(in crate::engine) const SLOW_AFTER: Duration = Duration::from_secs(2);
/// The same, where this process never saw an answer: first contacts would wait for each other (`dispatch/bounds.rs`).
pub(in crate::engine) const SLOW_AFTER_UNSEEN: Duration = Duration::from_millis(500);
/// An endpoint that answers sooner is swift: the way of the next message from the broker takes a part of that time that counts.
const SWIFT: Duration = Duration::from_millis(10);
/// Endpoints kept beyond those in use, at most.
const IDLE_MAX: usize = 20_000;
/// URLs that are known from the store to have answered, at most: half of what is kept, so that there is room for others.
pub(in crate::engine) const REMEMBERED_MAX: u32 = 10_000;

/// One endpoint, shared by the workers on its queues.
#[derive(Debug)]
pub(in crate::engine) struct LiveEndpoint {
    pub(in crate::engine) url: EndpointUrl,
    available: AtomicBool,
    epoch: AtomicI64,
    /// A [`Standing`].
    standing: AtomicU8,
    last_success_us: AtomicI64,
    detail: Mutex<Option<Endpoint>>,
    /// When its epoch was learned, counted in questions to the store.
    learned: AtomicU64,
    questions: Arc<AtomicU64>,
    /// Failures of its schedule that neither the store nor a head counts.
    carried: AtomicU32,
    /// When (uptime) our own address rules refused it first, without an attempt since that came further; 0: they do
    /// not. Not stored: another daemon finds it out itself.
    refused_since_us: AtomicI64,
    /// Requests a second by the configuration, at most.
    rate: Option<u32>,
    /// When the next request of a limited rate may start (uptime).
    next_us: AtomicI64,
    /// Daemons that have a part of a rate each (docs/protocols.md 16).
    sharers: Arc<AtomicI64>,
    /// How fast it goes at present, by what the store says.
    pace: Mutex<Option<Pace>>,
    /// Whether there is one: what is not paced asks nothing else.
    has_pace: AtomicBool,
    /// When its pace was learned, counted in questions to the store.
    pace_learned: AtomicU64,
    /// Workers that hold a message for its turn.
    waiting_for_turn: AtomicU32,
    /// Requests that may be in flight to it.
    in_flight: usize,
    requests: Arc<Semaphore>,
    is_swift: AtomicBool,
}

/// When the store was asked, counted in questions to it. An answer that knows less than what was known before its
/// question comes from a store that went back (docs/protocols.md 34).
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Question(u64);

impl LiveEndpoint {
    fn new(url: EndpointUrl, per_second: Option<u32>, table: &EndpointTable) -> Self {
        Self {
            url,
            learned: AtomicU64::new(0),
            questions: Arc::clone(&table.questions),
            carried: AtomicU32::new(0),
            refused_since_us: AtomicI64::new(0),
            available: AtomicBool::new(true),
            epoch: AtomicI64::new(0),
            standing: AtomicU8::new(Standing::Unmet as u8),
            last_success_us: AtomicI64::new(0),
            detail: Mutex::new(None),
            rate: per_second,
            next_us: AtomicI64::new(0),
            sharers: Arc::clone(&table.sharers),
            pace: Mutex::new(None),
            has_pace: AtomicBool::new(false),
            pace_learned: AtomicU64::new(0),
            waiting_for_turn: AtomicU32::new(0),
            in_flight: table.in_flight.max(1),
            requests: Arc::new(Semaphore::new(table.in_flight.max(1))),
            is_swift: AtomicBool::new(false),
        }
    }

    /// Whether anything may be sent to it that is not a probe.
    pub(in crate::engine) fn is_available(&self) -> bool {
        self.available.load(Ordering::SeqCst)
    }

    /// The epoch that an attempt begins with.
    pub(in crate::engine) fn epoch(&self) -> EndpointEpoch {
        EndpointEpoch(self.epoch.load(Ordering::SeqCst))
    }

    /// How it answers, as far as anybody knows.
    pub(in crate::engine) fn standing(&self) -> Standing {
        match self.standing.load(Ordering::Relaxed) {
            known if known == Standing::Remembered as u8 => Standing::Remembered,
            known if known == Standing::Answering as u8 => Standing::Answering,
            known if known == Standing::Silent as u8 => Standing::Silent,
            _ => Standing::Unmet,
        }
    }

    /// Whether more than one request may be in flight to it.
    pub(in crate::engine) fn is_proven(&self) -> bool {
        self.standing() == Standing::Answering
    }

    /// An attempt ended, at `now` of the store's clock; true when that changes its standing.
    fn answered(&self, answered: Answered, now: Timestamp) -> bool {
        if answered == Answered::Success {
            self.last_success_us.store(now.micros(), Ordering::Relaxed);
            self.carried.store(0, Ordering::Relaxed);
            self.refused_since_us.store(0, Ordering::Relaxed);
        }
        let was = self.standing();
        let standing = was.after(answered);
        if standing != was {
            self.standing.store(standing as u8, Ordering::Relaxed);
        }
        standing != was
    }

    /// An attempt ended so, at `uptime`; whether our own address rules refuse its addresses for so long by now that no
    /// schedule mends it.
    pub(in crate::engine) fn is_refused_by_rules(&self, outcome: Outcome, uptime: Duration) -> bool {
        match outcome {
            Outcome::Failure(FailureKind::AddressRefused) => {
                let now = micros(uptime).max(1);
                let first = self
                    .refused_since_us
                    .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
                first.is_err_and(|first| now - first >= micros(REFUSED_BY_RULES_FOR))
            }
            // These say nothing of its addresses.
            Outcome::Failure(FailureKind::Dns | FailureKind::BadRequest | FailureKind::Stopped) => false,
            Outcome::Status(_) | Outcome::Failure(_) => {
                self.refused_since_us.store(0, Ordering::Relaxed);
                false
            }
        }
    }

    /// What somebody knew of it before this process does.
    pub(in crate::engine) fn recall(&self, standing: Standing) {
        let (unmet, standing) = (Standing::Unmet as u8, standing as u8);
        // Whatever this process found out itself holds.
        let _ = self
            .standing
            .compare_exchange(unmet, standing, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The last 2xx that this process saw, by the store's clock.
    pub(in crate::engine) fn last_success(&self) -> Option<Timestamp> {
        match self.last_success_us.load(Ordering::Relaxed) {
            0 => None,
            us => Some(Timestamp::from_micros(us)),
        }
    }

    /// What the store last said of it, when it is not available.
    pub(in crate::engine) fn detail(&self) -> Option<Endpoint> {
        lock(&self.detail).clone()
    }

    /// How many failures of its schedule there were before an attempt of a message that failed `own` times itself.
    /// Of one that is not available the store counts them; for all others it is that message's.
    pub(in crate::engine) fn failures(&self, own: u32) -> u32 {
        let counted = self.detail().map_or(own, |detail| detail.attempts);
        counted.saturating_add(self.carried.load(Ordering::Relaxed))
    }

    /// So many failures of its schedule there were, and nothing else will say so for the next attempt: the message has
    /// no attempts left, or probes again at once.
    pub(in crate::engine) fn carry(&self, failures: u32) {
        let stored = self.detail().map_or(0, |detail| detail.attempts);
        self.carried.store(failures.saturating_sub(stored), Ordering::Relaxed);
    }

    /// Takes over what the store answered to `question` (`None`: it does not know this endpoint); false when this
    /// process knows better.
    fn believe(&self, endpoint: Option<&Endpoint>, question: Question) -> bool {
        if endpoint.is_some_and(|endpoint| endpoint.last_success_at.is_some()) {
            self.recall(Standing::Remembered);
        }
        let mut detail = lock(&self.detail);
        let (known, epoch) = (
            self.epoch(),
            endpoint.map_or(EndpointEpoch(0), |endpoint| endpoint.epoch),
        );
        if epoch < known {
            if self.learned.load(Ordering::SeqCst) >= question.0 {
                return false;
            }
            tracing::warn!(url = ?self.url, known = known.0, found = epoch.0, "the store went back: what it says of this endpoint holds");
        }
        if epoch != known {
            self.epoch.store(epoch.0, Ordering::SeqCst);
            self.learned
                .store(self.questions.load(Ordering::SeqCst), Ordering::SeqCst);
            self.carried.store(0, Ordering::Relaxed);
        }
        let not_available = endpoint.filter(|endpoint| endpoint.state != EndpointState::Available);
        self.available.store(not_available.is_none(), Ordering::SeqCst);
        *detail = not_available.cloned();
        self.believe_pace(endpoint.and_then(|endpoint| endpoint.pace.as_ref()), question);
        true
    }

    /// What this process wrote itself is newer than an answer to what it asked before.
    fn believe_pace(&self, pace: Option<&Pace>, question: Question) {
        let wrote = question.0 == 0;
        if !wrote && question.0 <= self.pace_learned.load(Ordering::SeqCst) {
            return;
        }
        if wrote {
            self.pace_learned
                .store(self.questions.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        let mut known = lock(&self.pace);
        if known.as_ref() != pace {
            *known = pace.cloned();
        }
        self.has_pace.store(pace.is_some(), Ordering::SeqCst);
    }

    /// How fast it goes at present, where that is limited by more than the configuration.
    pub(in crate::engine) fn pace(&self) -> Option<Pace> {
        self.of_pace(Pace::clone)
    }

    /// Whether its pace takes nothing at `now` of the store's clock but a probe.
    pub(in crate::engine) fn is_held(&self, now: Timestamp) -> bool {
        self.of_pace(|pace| pace.is_held(now)).unwrap_or(false)
    }

    /// Whether each request is counted in the store before it begins.
    pub(in crate::engine) fn is_canary(&self) -> bool {
        self.of_pace(Pace::is_canary).unwrap_or(false)
    }

    /// Whether anything limits how fast requests begin.
    pub(in crate::engine) fn is_limited(&self) -> bool {
        self.rate.is_some() || self.has_pace()
    }

    /// Whether failures count for its pace.
    pub(in crate::engine) fn has_pace(&self) -> bool {
        self.has_pace.load(Ordering::Relaxed)
    }

    fn of_pace<T>(&self, ask: impl FnOnce(&Pace) -> T) -> Option<T> {
        self.has_pace().then(|| lock(&self.pace).as_ref().map(ask)).flatten()
    }

    /// Workers that hold a message for its turn.
    pub(in crate::engine) fn waiting_for_turn(&self) -> u32 {
        self.waiting_for_turn.load(Ordering::Relaxed)
    }

    /// One more, until the answer is dropped.
    pub(in crate::engine) fn wait_for_turn(self: &Arc<Self>) -> WaitsForTurn {
        self.waiting_for_turn.fetch_add(1, Ordering::Relaxed);
        WaitsForTurn(Arc::clone(self))
    }

    /// One of the requests that may be in flight to it, when it is free.
    pub(in crate::engine) fn try_request(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.requests).try_acquire_owned().ok()
    }

    /// The next of the requests in flight to it that is free, in the order in which they are asked for.
    pub(in crate::engine) async fn request(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.requests).acquire_owned().await.ok()
    }

    /// A request took so long, or is not free for so long.
    pub(in crate::engine) fn took(&self, took: Duration) {
        self.is_swift.store(took < SWIFT, Ordering::Relaxed);
    }

    /// How many workers may be on its queues at `now` of the store's clock: as many as requests may be in flight, so many
    /// times that where it is swift, and no more than requests begin in a second. By the configuration's rate one
    /// worker at a time is enough.
    pub(in crate::engine) fn slots(&self, times_when_swift: usize, now: Timestamp) -> usize {
        if self.rate.is_some() || self.is_canary() {
            return 1;
        }
        let is_swift = self.is_swift.load(Ordering::Relaxed);
        let at_most = self.in_flight * if is_swift { times_when_swift } else { 1 };
        let rate = self.of_pace(|pace| pace.rate_at(now)).flatten();
        rate.map_or(at_most, |rate| at_most.min(usize::try_from(rate).unwrap_or(at_most)))
            .max(1)
    }

    /// Microseconds between two requests of this process; `None`: nothing limits them.
    fn interval_us(&self, now: Timestamp) -> Option<i64> {
        let paced = self.of_pace(|pace| pace.rate_at(now)).flatten();
        let rate = match (self.rate, paced) {
            (Some(one), Some(other)) => one.min(other),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => return None,
        };
        Some(1_000_000 * self.sharers.load(Ordering::Relaxed).max(1) / i64::from(rate).max(1))
    }

    /// Takes the turn of the next request, by the endpoint's rate and pace; `Err`: it comes after so long. A turn that is
    /// taken late makes the next one no later, as far as that is less than a turn.
    /// `uptime` is now, and so is `now` by the store's clock.
    pub(in crate::engine) fn take_turn(&self, uptime: Duration, now: Timestamp) -> Result<(), Duration> {
        let Some(interval) = self.interval_us(now) else {
            return Ok(());
        };
        let now = micros(uptime);
        let taken = self.next_us.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |next| {
            // One that was set by a slower rate.
            let next = next.min(now + interval);
            let from = if now - next < interval { next } else { now };
            (next <= now).then_some(from + interval)
        });
        match taken {
            Ok(_) => Ok(()),
            Err(next) => Err(Duration::from_micros(
                u64::try_from(next.min(now + interval) - now).unwrap_or(0),
            )),
        }
    }

    /// How long it is until its turn is so near that a worker may wait for it (docs/protocols.md 16).
    pub(in crate::engine) fn turn_is_near_in(&self, uptime: Duration, now: Timestamp) -> Duration {
        if self.is_held(now) {
            return HELD;
        }
        let Some(interval) = self.interval_us(now) else {
            return Duration::ZERO;
        };
        let turn_in = (self.next_us.load(Ordering::Relaxed) - micros(uptime)).min(interval);
        Duration::from_micros(u64::try_from(turn_in).unwrap_or(0)).saturating_sub(NEAR)
    }
}

/// A worker that holds a message for its turn.
#[derive(Debug)]
pub(in crate::engine) struct WaitsForTurn(Arc<LiveEndpoint>);

impl Drop for WaitsForTurn {
    fn drop(&mut self) {
        self.0.waiting_for_turn.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a URL answers, as far as anybody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Standing {
    /// It was never tried.
    Unmet,
    /// It answered an earlier process, or its last request here broke off at once.
    Remembered,
    /// It answered this process last time: more than one request may be in flight.
    Answering,
    /// It gave no answer in time, and none since.
    Silent,
}

impl Standing {
    const fn after(self, answered: Answered) -> Self {
        match (self, answered) {
            (_, Answered::Success | Answered::Answer) => Self::Answering,
            (_, Answered::Silence) => Self::Silent,
            // Nobody waited for it: a connection that is refused takes nothing from others.
            (Self::Answering, Answered::BrokeOff) => Self::Remembered,
            (Self::Unmet | Self::Remembered | Self::Silent, Answered::BrokeOff) => self,
        }
    }
}

/// How a request ended, as far as the endpoint's liveliness goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Answered {
    /// A 2xx.
    Success,
    /// Another answer.
    Answer,
    /// No answer, and that was known at once.
    BrokeOff,
    /// No answer in time.
    Silence,
}

/// All endpoints that this process met.
#[derive(Debug, Default)]
pub(in crate::engine) struct EndpointTable {
    endpoints: Mutex<Known>,
    /// Those of which something changed since the dispatcher last asked.
    moved: Mutex<HashSet<EndpointUrl>>,
    rates: HashMap<EndpointUrl, u32>,
    /// Requests in flight to each, at most.
    in_flight: usize,
    sharers: Arc<AtomicI64>,
    /// Questions asked of the store so far.
    questions: Arc<AtomicU64>,
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
            .retain(|_, live| Arc::strong_count(live) > 1 || !live.is_available() || live.has_pace());
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
            sharers: Arc::new(AtomicI64::new(1)),
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
        let live = Arc::new(LiveEndpoint::new(url.clone(), self.rates.get(url).copied(), self));
        known.by_url.insert(url.clone(), Arc::clone(&live));
        live
    }

    /// So many daemons deliver: each has its part of a rate.
    pub(in crate::engine) fn share(&self, daemons: usize) {
        let daemons = i64::try_from(daemons).unwrap_or(1).max(1);
        self.sharers.store(daemons, Ordering::Relaxed);
    }

    /// The store is about to be asked.
    pub(in crate::engine) fn question(&self) -> Question {
        Question(self.questions.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Takes over what the store says of one endpoint, unless this process knows more.
    pub(in crate::engine) fn update(&self, endpoint: &Endpoint) -> Arc<LiveEndpoint> {
        self.believe(&endpoint.url, Some(endpoint), Question(0))
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
        let (was, paced) = (live.is_available(), live.pace());
        if !live.believe(endpoint, question) {
            return live;
        }
        if live.has_pace() {
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
        if was != live.is_available() || paced != live.pace() {
            lock(&self.moved).insert(url.clone());
        }
        live
    }

    /// An attempt ended, at `now` of the store's clock; true when the dispatcher has to know.
    pub(in crate::engine) fn answered(&self, live: &LiveEndpoint, answered: Answered, now: Timestamp) -> bool {
        let moved = live.answered(answered, now);
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
        let queue = lock(&live.detail)
            .as_ref()
            .and_then(|detail| detail.probe_queue.clone());
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
            lock(&live.detail)
                .as_ref()
                .is_some_and(|detail| detail.state == EndpointState::Unavailable)
        });
        if unavailable && !known.due_at.contains_key(url) {
            known.due_from(url, Some(at));
        }
    }
}

/// When the probe of an endpoint may be claimed; `None`: it waits for a person, or is available.
fn probe_due_at(endpoint: &Endpoint) -> Option<Timestamp> {
    let unavailable = endpoint.state == EndpointState::Unavailable;
    let claimed_until = endpoint.probe.as_ref().map(|claim| claim.until);
    unavailable.then(|| {
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
    use crate::domain::pace::{self, PaceChange, PaceOrder};

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
            while let Err(wait) = live.take_turn(Duration::from_micros(now.unsigned_abs()), at(0)) {
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
        assert!(live.turn_is_near_in(up(0), at(0)).is_zero());
        assert_eq!(live.take_turn(up(0), at(0)), Ok(()));
        assert_eq!(live.take_turn(up(100), at(0)), Err(Duration::from_millis(900)));
        assert_eq!(live.turn_is_near_in(up(100), at(0)), Duration::from_millis(650));
        assert!(live.turn_is_near_in(up(800), at(0)).is_zero());
    }

    /// As the store has it, with its probe due at once.
    fn unavailable(url: &EndpointUrl) -> Endpoint {
        Endpoint {
            url: url.clone(),
            state: EndpointState::Unavailable,
            epoch: EndpointEpoch(1),
            since: Timestamp::from_micros(0),
            attempts: 1,
            next_attempt_at: Some(Timestamp::from_micros(1)),
            last_status: None,
            last_error: None,
            last_success_at: None,
            probe_queue: None,
            probe_message: None,
            probe: None,
            pace: None,
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
        assert_eq!(live.take_turn(up(0), at(0)), Ok(()));
        assert_eq!(live.take_turn(up(1), at(0)), Err(Duration::from_millis(999)));
        going(&table, &url, rate(100));
        assert_eq!(live.take_turn(up(2), at(0)), Err(Duration::from_millis(10)));
    }

    #[test]
    fn a_brake_takes_nothing_and_an_older_answer_of_the_store_does_not_release_it() {
        let table = EndpointTable::default();
        let url = EndpointUrl::parse("http://example.com/").unwrap();
        let asked_before = table.question();
        let live = going(&table, &url, PaceOrder::default());
        assert!(!live.is_held(at(1)));
        let brake = pace::after(live.pace().as_ref(), &PaceChange::Brake { by: "ana".to_owned() }, at(1));
        table.update(&Endpoint {
            state: EndpointState::Available,
            next_attempt_at: None,
            attempts: 0,
            pace: brake.unwrap(),
            ..unavailable(&url)
        });
        assert!(live.is_held(at(2)));
        assert_eq!(live.turn_is_near_in(Duration::from_secs(9), at(2)), HELD);
        assert_eq!(table.paced().len(), 1);
        table.believe(&url, Some(&unpaced(&url)), asked_before);
        assert!(live.is_held(at(2)), "it was read before the brake");
        let question = table.question();
        table.believe(&url, Some(&unpaced(&url)), question);
        assert!(!live.is_held(at(2)) && table.paced().is_empty());
    }

    fn unpaced(url: &EndpointUrl) -> Endpoint {
        Endpoint {
            state: EndpointState::Available,
            next_attempt_at: None,
            attempts: 0,
            ..unavailable(url)
        }
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
        live.answered(Answered::Success, Timestamp::from_micros(1));
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

    #[test]
    fn a_swift_url_has_more_queues_at_work_than_requests_in_flight_until_a_request_is_slow() {
        let live = unlimited();
        assert_eq!(live.slots(2, at(0)), 16, "nobody knows how fast it is");
        live.took(Duration::from_millis(2));
        assert_eq!((live.slots(2, at(0)), live.slots(1, at(0))), (32, 16));
        let requests: Vec<_> = std::iter::from_fn(|| live.try_request()).collect();
        assert_eq!(requests.len(), 16);
        live.took(Duration::from_millis(40));
        assert_eq!(live.slots(2, at(0)), 16);
    }
}
