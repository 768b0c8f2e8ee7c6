//! The store's clock, as this process can tell it without asking (docs/protocols.md 37).
//!
//! Promises: what the store wrote a time for is compared with this and never with the host's calendar, which may be
//! hours away. Between two readings it goes by uptime, so that a step of the host's calendar does not move it. It is
//! at most as wrong as the last reading took; whatever follows from it is guarded by the store once more.

use std::sync::Mutex;
use std::time::Duration;

use crate::ambient::Clock;
use crate::domain::time::Timestamp;

/// What a reading may differ from what was to be expected: more is a step.
const STEP: Duration = Duration::from_secs(10);
/// A reading that took longer says too little to take the place of an earlier one.
const READING_MAX: Duration = Duration::from_secs(1);

/// The store's clock.
#[derive(Debug)]
pub(super) struct StoreTime {
    clock: Clock,
    /// A moment by uptime, and what the store said then; before the first reading, the host's calendar.
    read: Mutex<Option<(Duration, Timestamp)>>,
}

impl StoreTime {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            read: Mutex::new(None),
        }
    }

    /// The store said `time` to a question that was sent at `sent` (uptime). The answer is how far its clock stepped since
    /// the last one, in microseconds: 0 where it only went on.
    pub(super) fn heard(&self, sent: Duration, time: Timestamp) -> i64 {
        let took = self.clock.uptime().saturating_sub(sent);
        let mut read = self.lock();
        if took > READING_MAX && read.is_some() {
            return 0;
        }
        let at = sent + took / 2;
        let Some((read_at, said)) = read.replace((at, time)) else {
            return 0;
        };
        let expected = said.plus(at.saturating_sub(read_at));
        if time.since(expected).max(expected.since(time)) > STEP {
            time.micros() - expected.micros()
        } else {
            0
        }
    }

    /// What its clock shows now.
    pub(super) fn now(&self) -> Timestamp {
        match *self.lock() {
            Some((at, time)) => time.plus(self.clock.uptime().saturating_sub(at)),
            None => self.clock.now(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Duration, Timestamp)>> {
        self.read.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_hosts_calendar_does_not_move_the_stores_clock() {
        let host = Timestamp::from_seconds(1_000_000);
        let clock = Clock::manual(host);
        let time = StoreTime::new(clock.clone());
        assert_eq!(time.now(), host, "nothing better is known");
        let store = Timestamp::from_seconds(1_003_600);
        time.heard(clock.uptime(), store);
        clock.advance(Duration::from_secs(5));
        clock.set(Timestamp::from_seconds(17));
        assert_eq!(time.now(), store.plus(Duration::from_secs(5)));
    }

    #[test]
    fn a_step_of_the_stores_clock_is_told_from_its_going_on() {
        let clock = Clock::manual(Timestamp::from_seconds(1_000));
        let time = StoreTime::new(clock.clone());
        let heard = |seconds: i64| time.heard(clock.uptime(), Timestamp::from_seconds(seconds));
        assert_eq!(heard(5_000), 0, "nothing was known");
        clock.advance(Duration::from_secs(60));
        assert_eq!(heard(5_063), 0, "a little fast");
        assert_eq!(heard(5_063 + 7_200), 7_200_000_000);
        clock.advance(Duration::from_secs(6));
        assert_eq!(heard(5_069), -7_200_000_000, "and back");
    }

    #[test]
    fn a_reading_counts_for_the_middle_of_its_way_and_a_slow_one_not_at_all() {
        let clock = Clock::manual(Timestamp::from_seconds(1_000));
        let time = StoreTime::new(clock.clone());
        let sent = clock.uptime();
        clock.advance(Duration::from_millis(200));
        time.heard(sent, Timestamp::from_seconds(5_000));
        assert_eq!(time.now(), Timestamp::from_micros(5_000_100_000));
        let sent = clock.uptime();
        clock.advance(Duration::from_secs(30));
        time.heard(sent, Timestamp::from_seconds(5_000));
        assert_eq!(time.now(), Timestamp::from_micros(5_030_100_000));
    }
}
