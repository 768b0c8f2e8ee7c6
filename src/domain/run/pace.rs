//! A rate as a schedule: which item is due when, as a pure function of the time.

use std::time::Duration;

/// What was missed by less than this is caught up; a longer gap (a pause, an outage) moves the schedule.
const CATCH_UP: Duration = Duration::from_secs(1);

/// A schedule of so many items a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    rate: u32,
    /// When item 0 of the schedule was due (uptime).
    begin: Duration,
    /// Items taken since.
    taken: u64,
}

impl Pace {
    /// `rate` items a second (at least one) from `now` on.
    #[must_use]
    pub const fn new(rate: u32, now: Duration) -> Self {
        Self {
            rate: if rate == 0 { 1 } else { rate },
            begin: now,
            taken: 0,
        }
    }

    /// How long to wait before the next item.
    #[must_use]
    pub fn wait(&self, now: Duration) -> Duration {
        self.due().saturating_sub(now)
    }

    /// The next item is taken.
    pub fn take(&mut self, now: Duration) {
        if now.saturating_sub(self.due()) > CATCH_UP {
            self.begin = now;
            self.taken = 0;
        }
        self.taken += 1;
    }

    fn due(&self) -> Duration {
        let nanos = u128::from(self.taken) * 1_000_000_000 / u128::from(self.rate);
        self.begin + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// How long `left` items take: at the rate, where there is one, or as fast as `done` items in `spent` went.
#[must_use]
pub fn eta(left: u64, rate: Option<u32>, done: u64, spent: Duration) -> Option<Duration> {
    let measured = (done > 0 && !spent.is_zero()).then(|| spent.as_secs_f64() / to_f64(done));
    let allowed = rate.map(|rate| 1.0 / f64::from(rate.max(1)));
    let each = match (measured, allowed) {
        (Some(measured), Some(allowed)) => measured.max(allowed),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return None,
    };
    Duration::try_from_secs_f64(each * to_f64(left)).ok()
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
const fn to_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Items taken until `until` when each one takes `work` beside the wait.
    fn taken(rate: u32, work: Duration, until: Duration) -> u32 {
        let mut now = ms(5_000);
        let end = now + until;
        let mut pace = Pace::new(rate, now);
        let mut count = 0;
        loop {
            now += pace.wait(now);
            if now >= end {
                return count;
            }
            pace.take(now);
            count += 1;
            now += work;
        }
    }

    #[test]
    fn a_rate_holds_over_time_whatever_the_work_between_takes() {
        for work in [ms(0), ms(3), ms(9)] {
            assert_eq!(taken(100, work, Duration::from_secs(30)), 3_000, "{work:?}");
        }
        assert_eq!(taken(3, ms(100), Duration::from_secs(30)), 90);
        assert_eq!(taken(1, ms(0), Duration::from_secs(30)), 30);
    }

    #[test]
    fn a_gap_is_not_caught_up_with_a_burst() {
        let mut pace = Pace::new(10, ms(0));
        pace.take(ms(0));
        let later = Duration::from_mins(1);
        assert_eq!(pace.wait(later), ms(0));
        pace.take(later);
        assert_eq!(pace.wait(later), ms(100));
    }

    #[test]
    fn a_small_delay_is_caught_up() {
        let mut pace = Pace::new(10, ms(0));
        pace.take(ms(0));
        pace.take(ms(350));
        assert_eq!(pace.wait(ms(350)), ms(0));
        pace.take(ms(350));
        assert_eq!(pace.wait(ms(350)), ms(0));
        pace.take(ms(350));
        assert_eq!(pace.wait(ms(350)), ms(50));
    }

    #[test]
    fn an_estimate_is_the_slower_of_rate_and_what_was_seen() {
        assert_eq!(eta(100, Some(10), 0, ms(0)), Some(Duration::from_secs(10)));
        assert_eq!(eta(100, Some(10), 10, ms(2_000)), Some(Duration::from_secs(20)));
        assert_eq!(eta(100, None, 10, ms(1_000)), Some(Duration::from_secs(10)));
        assert_eq!(eta(100, None, 0, ms(0)), None);
    }
}
