//! How fast a run goes at present: by the last ten seconds, so that a pause or a watch before them does not count.

use std::collections::VecDeque;
use std::time::Duration;

use crate::domain::time::Timestamp;

/// What counts as at present.
const WINDOW: Duration = Duration::from_secs(10);
/// Less says nothing.
const LEAST: Duration = Duration::from_secs(1);
/// Samples, at most: whoever looks more often keeps every other one.
const SAMPLES_MAX: usize = 64;

/// How many items were settled when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Speed {
    samples: VecDeque<(Timestamp, u64)>,
}

impl Speed {
    /// So many are settled now.
    pub fn note(&mut self, now: Timestamp, settled: u64) {
        // One that stood still is not as fast as before it did.
        let is_new = self.samples.back().is_none_or(|(at, _)| *at < now);
        if is_new {
            self.samples.push_back((now, settled));
        }
        // One sample that is older is kept: the window begins there.
        while self.samples.get(1).is_some_and(|(at, _)| now.since(*at) >= WINDOW) || self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
    }

    /// What was settled in the last seconds, and in how many; `None` while that is not known.
    #[must_use]
    pub fn recent(&self) -> Option<(u64, Duration)> {
        let ((from, before), (to, now)) = (self.samples.front()?, self.samples.back()?);
        let spent = to.since(*from);
        (spent >= LEAST).then(|| (now.saturating_sub(*before), spent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_seconds_count() {
        let mut speed = Speed::default();
        for second in 0..=60 {
            // A pause of a minute in the middle of nothing, then ten a second.
            let settled = if second < 40 { 5 } else { 5 + (second - 40) * 10 };
            speed.note(Timestamp::from_seconds(second), settled.unsigned_abs());
        }
        assert_eq!(speed.recent(), Some((100, Duration::from_secs(10))));
        assert_eq!(Speed::default().recent(), None);
    }
}
