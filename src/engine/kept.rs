//! What takes long to read and is asked for again soon: it is kept for a while.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a reading is good at least; one that took long as many times that, so that a client who asks for page after
/// page has it read for a twentieth of the time.
const GOOD: Duration = Duration::from_secs(10);
const GOOD_TIMES: u32 = 20;

/// Until when something is good that was begun to be read at `began` and is there at `now` (uptime, all of them).
pub(super) fn good_until(began: Duration, now: Duration) -> Duration {
    now + GOOD.max(now.saturating_sub(began) * GOOD_TIMES)
}

/// What was read last, and until when it is good.
#[derive(Debug)]
pub(super) struct Kept<T>(Mutex<Option<(Arc<T>, Duration)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Kept<T> {
    /// What was read last, where it is good at `now`.
    pub(super) fn good(&self, now: Duration) -> Option<Arc<T>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (read, _) = kept.as_ref().filter(|(_, until)| now < *until)?;
        Some(Arc::clone(read))
    }

    /// What was read last, good or old.
    pub(super) fn last(&self) -> Option<Arc<T>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().map(|(read, _)| Arc::clone(read))
    }

    pub(super) fn keep(&self, read: Arc<T>, until: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((read, until));
    }

    pub(super) fn drop_it(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
