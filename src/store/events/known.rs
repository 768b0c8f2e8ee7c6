//! Types that are known to be there, so that a push need not make them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::ambient::Clock;

/// Names that are remembered.
const KNOWN_MAX: usize = 10_000;
/// How long at most: a push of one that is not remembered says that it is used. No type is removed that was used within
/// twice this time, so none that is remembered.
pub const TYPE_REMEMBERED: Duration = Duration::from_hours(1);

/// Types that are there.
#[derive(Debug)]
pub(in crate::store) struct KnownTypes {
    clock: Clock,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    known: HashSet<String>,
    /// When the first of them was learned (uptime).
    since: Duration,
}

impl KnownTypes {
    pub(in crate::store) fn new(clock: Clock) -> Self {
        Self {
            clock,
            names: Mutex::default(),
        }
    }

    /// Those of `names` that are not known to be there, each once.
    pub(in crate::store) fn missing<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<String> {
        let now = self.clock.uptime();
        let mut known = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(known.since) >= TYPE_REMEMBERED {
            *known = Names {
                known: HashSet::new(),
                since: now,
            };
        }
        let mut missing: Vec<String> = names
            .filter(|name| !known.known.contains(*name))
            .map(str::to_owned)
            .collect();
        missing.sort();
        missing.dedup();
        missing
    }

    /// The store went back: none of them need be there.
    pub(in crate::store) fn forget(&self) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).known.clear();
    }

    /// They are committed.
    pub(in crate::store) fn learn(&self, names: Vec<String>) {
        let mut known = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if known.known.len() + names.len() > KNOWN_MAX {
            known.known.clear();
        }
        known.known.extend(names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;

    #[test]
    fn a_type_is_remembered_for_an_hour_and_then_said_to_be_used_again() {
        let clock = Clock::manual(Timestamp::from_micros(7_000_000_000_000));
        let known = KnownTypes::new(clock.clone());
        let missing = || known.missing(["a", "b", "a"].into_iter());
        assert_eq!(missing(), ["a", "b"]);
        known.learn(vec!["a".to_owned()]);
        assert_eq!(missing(), ["b"]);
        clock.advance(TYPE_REMEMBERED / 2);
        known.learn(vec!["b".to_owned()]);
        assert!(missing().is_empty());
        clock.advance(TYPE_REMEMBERED / 2);
        assert_eq!(missing(), ["a", "b"]);
        known.learn(vec!["a".to_owned()]);
        known.forget();
        assert_eq!(missing(), ["a", "b"], "the store went back");
    }

    #[test]
    fn names_without_number_are_not_all_remembered() {
        let known = KnownTypes::new(Clock::system());
        for n in 0..KNOWN_MAX + 10 {
            known.learn(vec![n.to_string()]);
        }
        assert!(known.names.lock().unwrap().known.len() <= KNOWN_MAX);
    }
}
