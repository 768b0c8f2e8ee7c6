//! The last hour in numbers, from this console's own samples: sparklines and rates.

use std::collections::VecDeque;

use crate::domain::time::Timestamp;
use crate::engine::snapshot::Snapshot;

/// Samples kept: an hour at one every two seconds.
pub const SAMPLES_MAX: usize = 1_800;

/// What was counted at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Timestamp,
    /// Messages that wait.
    pub waiting: Option<u64>,
    /// Of those, in queues that do not move.
    pub stuck: Option<u64>,
    /// Delivered since the observer began.
    pub delivered: u64,
    /// Endpoints that are not available.
    pub down: u64,
}

/// The samples, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    samples: VecDeque<Sample>,
}

impl History {
    /// Adds what a snapshot says; one that is not newer is left out.
    pub fn record(&mut self, snapshot: &Snapshot) {
        let totals = &snapshot.totals;
        let sample = Sample {
            at: snapshot.taken_at,
            waiting: totals.waiting,
            stuck: totals.stuck,
            delivered: totals.delivered,
            down: totals.endpoints_not_available(),
        };
        if self.samples.back().is_some_and(|last| last.at >= sample.at) {
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Oldest first.
    #[must_use]
    pub fn samples(&self) -> impl ExactSizeIterator<Item = &Sample> + DoubleEndedIterator {
        self.samples.iter()
    }
}
