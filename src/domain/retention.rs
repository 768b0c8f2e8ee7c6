//! How long what grows is kept.

use std::time::Duration;

use super::time::Timestamp;

/// How long what grows is kept; what is needed stays longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Rows of the attempt log, from their beginning.
    pub attempts: Duration,
    /// Lines of the audit, and versions of policies that are not the newest.
    pub audit: Duration,
    /// Runs, from their end.
    pub runs: Duration,
    /// Endpoints, from when they were used last.
    pub endpoints: Duration,
    /// Messages that no client could decode.
    pub rescued: Duration,
    /// Event types of which nothing is there, from when they were used last.
    pub types: Duration,
}

/// What the store's clock may be ahead of when ages counted last.
const LEAP: Duration = Duration::from_hours(1);
/// For so long ages do not count after a leap: somebody may set the clock right.
const DOUBT: Duration = DAY;

/// When they counted last is known as exactly as this.
const MOVES: Duration = Duration::from_mins(1);

/// Whether the ages of rows count. A clock that went ahead makes everything old at once, and what goes by its age is gone
/// when the clock is right again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    /// When they counted last, by the store's clock; `None` in a new store.
    pub counted_at: Option<Timestamp>,
    /// Since when that clock is ahead of it by more than an hour: it leapt, or nobody trimmed for so long.
    pub leapt_at: Option<Timestamp>,
}

impl Ages {
    /// As it is known at `now` of the store's clock.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        let is_ahead = self.counted_at.is_some_and(|counted| now.since(counted) > LEAP);
        let counted = Self {
            counted_at: Some(now),
            leapt_at: None,
        };
        match self.leapt_at.filter(|leapt| *leapt <= now) {
            _ if !is_ahead => counted,
            Some(leapt) if now.since(leapt) > DOUBT => counted,
            leapt => Self {
                leapt_at: leapt.or(Some(now)),
                ..self
            },
        }
    }

    /// Whether it is to be written down in the place of what was `known`: their time only now and then.
    #[must_use]
    pub fn differ_from(&self, known: &Self) -> bool {
        let moved = match (self.counted_at, known.counted_at) {
            (Some(now), Some(then)) => now.since(then).max(then.since(now)) > MOVES,
            (now, then) => now != then,
        };
        moved || self.leapt_at != known.leapt_at
    }

    /// Until when nothing goes by its age, when that is so.
    #[must_use]
    pub fn doubted_until(&self) -> Option<Timestamp> {
        self.leapt_at.map(|leapt| leapt.plus(DOUBT))
    }

    /// What the clock, which shows `now`, would show had it not leapt: what is over by that is over when somebody sets it
    /// right, too.
    #[must_use]
    pub fn without_leap(&self, now: Timestamp) -> Timestamp {
        let leap = self.leapt_at.zip(self.counted_at);
        leap.map_or(now, |(leapt, counted)| now.minus(leapt.since(counted)))
    }

    /// Whether what is old goes.
    #[must_use]
    pub const fn count(&self) -> bool {
        self.leapt_at.is_none()
    }
}

const DAY: Duration = Duration::from_hours(24);

impl Default for Retention {
    fn default() -> Self {
        Self {
            attempts: DAY * 14,
            audit: DAY * 365,
            runs: DAY * 30,
            endpoints: DAY * 90,
            rescued: DAY * 365,
            types: DAY * 90,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn ages_count_again_when_the_clock_is_right_again_or_a_day_after_it_went_ahead() {
        let begun = Timestamp::from_micros(1_000_000_000_000_000);
        let fine = Ages::default().at(begun);
        assert!(fine.count(), "a new store");
        assert!(fine.at(begun.plus(HOUR)).count());
        assert!(fine.differ_from(&Ages::default()) && fine.at(begun.plus(HOUR)).differ_from(&fine));
        assert!(!fine.at(begun.plus(MOVES)).differ_from(&fine), "not with each page");
        let year = begun.plus(DAY * 365);
        let leapt = fine.at(year);
        assert!(!leapt.count() && !leapt.at(year.plus(DAY)).count(), "whoever looks");
        assert!(leapt.differ_from(&fine) && leapt.doubted_until() == Some(year.plus(DAY)));
        assert!(leapt.at(begun.plus(HOUR)).count(), "it was set right");
        assert_eq!(fine.without_leap(begun.plus(HOUR)), begun.plus(HOUR));
        assert_eq!(leapt.without_leap(year.plus(HOUR)), begun.plus(HOUR));
        let again = leapt.at(year.plus(DAY * 365));
        assert_eq!(again.leapt_at, None, "a day is over, however long it was");
        let later = year.plus(DAY + HOUR);
        assert_eq!(leapt.at(later).counted_at, Some(later));
        // Set back, but not to where it was, a doubt of then is over.
        let back = leapt.at(year.minus(DAY));
        assert_eq!((back.count(), back.leapt_at), (false, Some(year.minus(DAY))));
        assert!(fine.at(begun.minus(DAY)).count(), "behind, nothing is old");
    }
}
