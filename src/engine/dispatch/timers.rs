//! When something is looked at again: one time for each key, the latest that was said.
//!
//! Pure bookkeeping, bounded: what does not fit is found again by the sweep.

use crate::ambient::HashMap;
use std::collections::BTreeSet;
use std::hash::Hash;

/// Keys that wait for their time, at most.
const TIMERS_MAX: usize = 200_000;

/// Times by key, in microseconds of uptime.
#[derive(Debug)]
pub(super) struct Timers<K> {
    at: HashMap<K, u64>,
    order: BTreeSet<(u64, K)>,
}

impl<K: Clone + Eq + Hash + Ord> Timers<K> {
    pub(super) fn new() -> Self {
        Self {
            at: HashMap::default(),
            order: BTreeSet::new(),
        }
    }

    /// The time of `key`, in the place of an earlier one.
    pub(super) fn set(&mut self, key: K, at: u64) {
        if let Some(before) = self.at.remove(&key) {
            self.order.remove(&(before, key.clone()));
        } else if self.at.len() >= TIMERS_MAX {
            return;
        }
        self.at.insert(key.clone(), at);
        self.order.insert((at, key));
    }

    /// What is gone waits for nothing.
    pub(super) fn forget(&mut self, key: &K) {
        if let Some(at) = self.at.remove(key) {
            self.order.remove(&(at, key.clone()));
        }
    }

    /// The key whose time came first, once it came; its time is gone with it.
    pub(super) fn take_due(&mut self, now: u64) -> Option<K> {
        self.order.first().filter(|(at, _)| *at <= now)?;
        let (_, key) = self.order.pop_first()?;
        self.at.remove(&key);
        Some(key)
    }

    /// The first time.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.order.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_time_the_latest_that_was_said() {
        let mut timers = Timers::new();
        for at in 0..10_000 {
            timers.set("a", 5_000 + at % 7);
        }
        timers.set("b", 5_001);
        timers.set("a", 5_003);
        assert_eq!(
            (timers.at.len(), timers.order.len(), timers.next_at()),
            (2, 2, Some(5_001))
        );
        assert_eq!(timers.take_due(5_000), None);
        assert_eq!(timers.take_due(5_003), Some("b"));
        assert_eq!(timers.take_due(5_003), Some("a"));
        assert_eq!((timers.take_due(u64::MAX), timers.next_at()), (None, None));
    }

    #[test]
    fn what_is_gone_has_no_time() {
        let mut timers = Timers::new();
        timers.set("a", 1);
        timers.forget(&"a");
        timers.forget(&"b");
        assert_eq!((timers.at.len(), timers.take_due(u64::MAX)), (0, None));
    }

    #[test]
    fn there_are_no_more_than_the_bound() {
        let mut timers = Timers::new();
        for key in 0..TIMERS_MAX + 10 {
            timers.set(key, 1);
        }
        assert_eq!((timers.at.len(), timers.order.len()), (TIMERS_MAX, TIMERS_MAX));
    }
}
