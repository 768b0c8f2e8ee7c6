//! What would be logged again and again is logged once in a while.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Between two lines about the same.
const EVERY: Duration = Duration::from_mins(1);
/// It was not logged yet.
const NEVER: u64 = u64::MAX;

/// When a line was logged last.
#[derive(Debug)]
pub struct LoggedAt(AtomicU64);

impl LoggedAt {
    /// Not yet.
    #[must_use]
    pub const fn never() -> Self {
        Self(AtomicU64::new(NEVER))
    }

    /// Whether to log it now (uptime); then it counts as logged.
    pub fn is_due(&self, now: Duration) -> bool {
        let now_us = u64::try_from(now.as_micros()).unwrap_or(0);
        let last = self.0.load(Ordering::Relaxed);
        let is_due = last == NEVER || u128::from(now_us.saturating_sub(last)) >= EVERY.as_micros();
        is_due
            && self
                .0
                .compare_exchange(last, now_us, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_logged_at_once_and_then_once_a_minute() {
        let logged = LoggedAt::never();
        let due: Vec<u64> = (100..300)
            .filter(|second| logged.is_due(Duration::from_secs(*second)))
            .collect();
        assert_eq!(due, [100, 160, 220, 280]);
    }
}
