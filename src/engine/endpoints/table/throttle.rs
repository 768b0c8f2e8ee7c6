//! How fast requests to one endpoint begin: no faster than its rate by the configuration, and than its pace by the store.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::stored::Question;
use super::{lock, micros};
use crate::domain::pace::Pace;
use crate::domain::time::Timestamp;

/// How long a worker waits for the turn of its URL while others wait for a worker.
pub(in crate::engine) const NEAR: Duration = Duration::from_millis(250);
/// When a URL that takes nothing at present is asked again, unless it is told of before.
pub(in crate::engine) const HELD: Duration = Duration::from_secs(5);

/// What the throttles of all endpoints share.
#[derive(Debug, Default)]
pub(super) struct Common {
    /// Daemons that have a part of a rate each (docs/protocols.md 16).
    pub(super) sharers: AtomicI64,
    /// How far the store's clock stepped since this process began, in microseconds.
    pub(super) stepped_us: AtomicI64,
}

/// A pace as this process knows it.
#[derive(Debug)]
struct Known {
    pace: Pace,
    /// How far the store's clock had stepped when this revision of it was seen first.
    stepped_us: i64,
}

/// The turns of one endpoint.
#[derive(Debug)]
pub(in crate::engine) struct Throttle {
    /// Requests a second by the configuration, at most.
    rate: Option<u32>,
    /// When the next request of a limited rate may start (uptime).
    next_us: AtomicI64,
    common: Arc<Common>,
    /// How fast it goes at present, by what the store says.
    pace: Mutex<Option<Known>>,
    /// Whether there is one: what is not paced asks nothing else.
    has_pace: AtomicBool,
    /// When its pace was learned, counted in questions to the store.
    learned: AtomicU64,
    /// Workers that hold a message for its turn.
    waiting: Arc<AtomicU32>,
}

impl Throttle {
    pub(super) fn new(rate: Option<u32>, common: &Arc<Common>) -> Self {
        Self {
            rate,
            next_us: AtomicI64::new(0),
            common: Arc::clone(common),
            pace: Mutex::new(None),
            has_pace: AtomicBool::new(false),
            learned: AtomicU64::new(0),
            waiting: Arc::default(),
        }
    }

    /// Takes over what the store answered to `question`, of so many so far. What this process wrote itself is newer than
    /// an answer to what it asked before.
    pub(super) fn believe(&self, pace: Option<&Pace>, question: Question, asked: u64) {
        if !question.is_written_here() && question.is_before(self.learned.load(Ordering::SeqCst)) {
            return;
        }
        if question.is_written_here() {
            self.learned.store(asked, Ordering::SeqCst);
        }
        let mut known = lock(&self.pace);
        if known.as_ref().map(|known| &known.pace) != pace {
            let before = known.take();
            *known = pace.map(|pace| {
                let same = before.filter(|known| known.pace.revision == pace.revision);
                Known {
                    pace: pace.clone(),
                    stepped_us: same.map_or_else(|| self.stepped_us(), |known| known.stepped_us),
                }
            });
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

    /// Whether a person paused it.
    pub(in crate::engine) fn is_braked(&self) -> bool {
        self.of_pace(|pace| pace.brake.is_some()).unwrap_or(false)
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
        self.of_known(|known| ask(&known.pace))
    }

    fn of_known<T>(&self, ask: impl FnOnce(&Known) -> T) -> Option<T> {
        self.has_pace().then(|| lock(&self.pace).as_ref().map(ask)).flatten()
    }

    fn stepped_us(&self) -> i64 {
        self.common.stepped_us.load(Ordering::Relaxed)
    }

    /// What the watch and the ramp of its pace are to take `now` of the store's clock for (docs/protocols.md 37): a step of
    /// that since it was seen first is taken out.
    pub(in crate::engine) fn pace_time(&self, now: Timestamp) -> Timestamp {
        let stepped = self.of_known(|known| self.stepped_us() - known.stepped_us).unwrap_or(0);
        Timestamp::from_micros(now.micros() - stepped)
    }

    /// Requests a second by its pace at `now` of the store's clock.
    fn pace_rate(&self, now: Timestamp) -> Option<u32> {
        let now = self.pace_time(now);
        self.of_pace(|pace| pace.rate_at(now)).flatten()
    }

    /// Workers that hold a message for its turn.
    pub(in crate::engine) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// One more, until the answer is dropped.
    pub(in crate::engine) fn wait(&self) -> Waits {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waits(Arc::clone(&self.waiting))
    }

    /// How many workers may be on its queues at `now` of the store's clock, of `at_most`: no more than requests begin in
    /// a second. By the configuration's rate one worker at a time is enough.
    pub(super) fn slots(&self, at_most: usize, now: Timestamp) -> usize {
        if self.rate.is_some() || self.is_canary() {
            return 1;
        }
        self.pace_rate(now)
            .map_or(at_most, |rate| at_most.min(usize::try_from(rate).unwrap_or(at_most)))
            .max(1)
    }

    /// Microseconds between two requests of this process; `None`: nothing limits them.
    fn interval_us(&self, now: Timestamp) -> Option<i64> {
        let rate = match (self.rate, self.pace_rate(now)) {
            (Some(one), Some(other)) => one.min(other),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => return None,
        };
        Some(1_000_000 * self.common.sharers.load(Ordering::Relaxed).max(1) / i64::from(rate).max(1))
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
pub(in crate::engine) struct Waits(Arc<AtomicU32>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
