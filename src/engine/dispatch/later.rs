//! When a queue is looked at again: by its timer, or when it is listed after it has rested.

use std::time::Duration;

use super::micros;
use super::timers::Timers;
use crate::ambient::{Clock, HashMap};
use crate::domain::id::QueueName;

/// How often everything that rests is woken for the sake of one change, in the long run.
const WAKE_ALL: Duration = Duration::from_secs(10);
/// So many of these may come at once.
const WAKE_ALL_AT_ONCE: u64 = 5;
/// How long it is believed that a head is parked; who changes that says so.
pub(super) const PARKED_FOR: Duration = Duration::from_mins(10);
/// So often in a row the row of a queue is locked, a second apart, before that is told: our own statements are done with
/// one in a moment.
const LOCKED_TOLD: u32 = 5;
/// Queues that rest, at most.
const RESTING_MAX: usize = 200_000;

/// Times in microseconds of uptime.
#[derive(Debug)]
pub(super) struct Later {
    clock: Clock,
    timers: Timers<QueueName>,
    /// Queues that a listing alone does not wake before this time: their head waits, or somebody else has them. A nudge,
    /// a due row or a person does.
    resting: HashMap<QueueName, u64>,
    /// Queues whose head is parked or waits by itself, and until when that is believed: while their URL is not available
    /// they give no probe.
    probeless: HashMap<QueueName, u64>,
    /// Queues whose row somebody else has locked in the database, and how often in a row it was found so.
    locked: HashMap<QueueName, u32>,
    /// Everything that rests is to be woken.
    wake_all: bool,
    /// Up to when wakings of everything are used up.
    wake_all_used: u64,
}

impl Later {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            timers: Timers::new(),
            resting: HashMap::default(),
            probeless: HashMap::default(),
            locked: HashMap::default(),
            wake_all: false,
            wake_all_used: 0,
        }
    }

    fn after(&self, span: Duration) -> u64 {
        micros(self.clock.uptime()).saturating_add(micros(span))
    }

    /// It is looked at again after this.
    pub(super) fn wake_in(&mut self, queue: QueueName, delay: Duration) {
        let at = self.after(delay);
        self.timers.set(queue, at);
    }

    /// A listing alone does not wake it for this long.
    pub(super) fn rest(&mut self, queue: &QueueName, span: Duration) {
        if self.resting.len() >= RESTING_MAX {
            self.resting.clear();
        }
        let until = self.after(span);
        self.resting.insert(queue.clone(), until);
    }

    /// Whether it still rests.
    pub(super) fn rests(&mut self, queue: &QueueName) -> bool {
        let Some(until) = self.resting.get(queue).copied() else {
            return false;
        };
        let rests = self.after(Duration::ZERO) < until;
        if !rests {
            self.resting.remove(queue);
        }
        rests
    }

    /// Its row was locked when it was to be taken. Whether that is to be told now.
    pub(super) fn locked(&mut self, queue: &QueueName) -> bool {
        if self.locked.len() >= RESTING_MAX {
            self.locked.clear();
        }
        let times = self.locked.entry(queue.clone()).or_default();
        *times = times.saturating_add(1);
        *times == LOCKED_TOLD
    }

    /// It is not locked any more. Whether it was told that it is.
    pub(super) fn unlocked(&mut self, queue: &QueueName) -> bool {
        self.locked.remove(queue).is_some_and(|times| times >= LOCKED_TOLD)
    }

    /// Its head gives no probe for so long.
    pub(super) fn gives_no_probe(&mut self, queue: &QueueName, span: Duration) {
        if self.probeless.len() >= RESTING_MAX {
            self.probeless.clear();
        }
        let until = self.after(span);
        self.probeless.insert(queue.clone(), until);
    }

    /// Somebody says that there is something to do.
    pub(super) fn may_probe_again(&mut self, queue: &QueueName) {
        self.probeless.remove(queue);
    }

    pub(super) fn is_probeless(&mut self, queue: &QueueName) -> bool {
        let Some(until) = self.probeless.get(queue).copied() else {
            return false;
        };
        let is_probeless = self.after(Duration::ZERO) < until;
        if !is_probeless {
            self.probeless.remove(queue);
        }
        is_probeless
    }

    /// It rests no more.
    pub(super) fn wake(&mut self, queue: &QueueName) {
        self.resting.remove(queue);
    }

    /// Nothing rests any more, soon.
    pub(super) const fn wake_all(&mut self) {
        self.wake_all = true;
    }

    /// It is gone.
    pub(super) fn forget(&mut self, queue: &QueueName) {
        self.resting.remove(queue);
        self.probeless.remove(queue);
        self.locked.remove(queue);
        self.timers.forget(queue);
    }

    /// The queue whose time came first.
    pub(super) fn take_due(&mut self, now: u64) -> Option<QueueName> {
        self.timers.take_due(now)
    }

    /// When the first timer is due.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.timers.next_at()
    }

    /// A URL that flaps changes something each second: what rests is not looked at again as often.
    pub(super) fn wake_what_rests(&mut self, now: u64) {
        let span = micros(WAKE_ALL);
        if !self.wake_all || self.wake_all_used > now.saturating_add(span * (WAKE_ALL_AT_ONCE - 1)) {
            return;
        }
        self.wake_all_used = self.wake_all_used.max(now).saturating_add(span);
        self.wake_all = false;
        self.resting.clear();
    }
}
