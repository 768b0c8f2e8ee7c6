//! What workers have to write down waits for the store, though the heartbeats of this process may reach it: those need no
//! room on its disk. `doctor` and `/readyz` tell it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What waits for so long is told of.
const LASTING: Duration = Duration::from_secs(5);

/// Why it waits at present.
#[derive(Debug, Default)]
pub(super) struct Unwritten(Mutex<Option<Waits>>);

#[derive(Debug)]
struct Waits {
    why: String,
    /// Uptime.
    since: Duration,
}

impl Unwritten {
    /// It waits.
    pub(super) fn note(&self, why: String, now: Duration) {
        let mut waits = self.lock();
        let since = waits.as_ref().map_or(now, |waits| waits.since);
        *waits = Some(Waits { why, since });
    }

    /// Some of it was written.
    pub(super) fn clear(&self) {
        *self.lock() = None;
    }

    /// Why, once it has lasted.
    pub(super) fn problem(&self, now: Duration) -> Option<String> {
        let waits = self.lock();
        let lasting = waits
            .as_ref()
            .filter(|waits| now.saturating_sub(waits.since) >= LASTING)?;
        Some(format!(
            "what failed attempts led to is not written down: {}",
            lasting.why
        ))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Waits>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_told_once_it_has_lasted_until_some_of_it_is_written() {
        let at = Duration::from_secs;
        let unwritten = Unwritten::default();
        unwritten.note("no room".to_owned(), at(10));
        assert_eq!(unwritten.problem(at(14)), None);
        unwritten.note("no room".to_owned(), at(14));
        let told = "what failed attempts led to is not written down: no room";
        assert_eq!(unwritten.problem(at(15)).as_deref(), Some(told));
        unwritten.clear();
        assert_eq!(unwritten.problem(at(60)), None);
    }
}
