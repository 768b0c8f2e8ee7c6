//! How the events come and go: samples of what is due, in hand and dead, taken while their types are looked at.

use std::collections::VecDeque;
use std::time::Duration;

use crate::console::state::events::TypeRow;
use crate::domain::event::EventState;
use crate::domain::time::Timestamp;

/// Samples that are kept: ten minutes at one every two seconds.
const SAMPLES_MAX: usize = 300;

/// What was counted at one time, over all types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSample {
    /// When.
    pub at: Timestamp,
    /// Events that could be handled.
    pub due: u64,
    /// Events that are being handled.
    pub leased: u64,
    /// Events that nobody tries again by itself.
    pub dead: u64,
}

/// The samples, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventRates {
    samples: VecDeque<EventSample>,
}

impl EventRates {
    /// Adds what the first row, which is all types together, says.
    pub fn record(&mut self, rows: &[std::sync::Arc<TypeRow>], at: Timestamp) {
        let Some(every) = rows.first() else { return };
        let sample = EventSample {
            at,
            due: every.due,
            leased: every.in_state(EventState::Leased),
            dead: every.in_state(EventState::Dead),
        };
        if self.samples.back().is_some_and(|last| last.at >= at) {
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Oldest first.
    #[must_use]
    pub fn samples(&self) -> impl ExactSizeIterator<Item = &EventSample> + DoubleEndedIterator {
        self.samples.iter()
    }

    /// From the first to the last.
    #[must_use]
    pub fn span(&self) -> Duration {
        match (self.samples.front(), self.samples.back()) {
            (Some(first), Some(last)) => last.at.since(first.at),
            _ => Duration::ZERO,
        }
    }
}
