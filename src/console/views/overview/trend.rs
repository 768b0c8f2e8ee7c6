//! Better or worse, and how fast: from the samples of the last minutes.

use std::time::Duration;

use crate::console::state::history::{History, Sample};
use crate::console::state::tracks::Series;
use crate::domain::time::Timestamp;

/// The trend looks this far back; rates a minute.
const TREND: Duration = Duration::from_secs(300);
const RATE: Duration = Duration::from_secs(60);
/// Less is no trend, and no rate.
const TREND_LEAST: Duration = Duration::from_secs(30);
const RATE_LEAST: Duration = Duration::from_secs(4);

/// How the number of waiting messages moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trend {
    /// There are too few samples.
    Unknown,
    /// It stays.
    Steady,
    /// More and more wait.
    Rising { by: u64, over: Duration },
    /// Fewer and fewer wait.
    Falling { by: u64, over: Duration },
}

/// Messages a second, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rates {
    /// What came in, where the depths are known.
    pub(super) came: Option<u64>,
    pub(super) delivered: u64,
}

/// The trend of the last minutes.
pub(super) fn of(history: &History) -> Trend {
    let Some((before, last)) = ends(history, TREND, TREND_LEAST) else {
        return Trend::Unknown;
    };
    let over = last.at.since(before.at);
    match (before.waiting, last.waiting) {
        (Some(was), Some(is)) if is > was && matters(was, is) => Trend::Rising { by: is - was, over },
        (Some(was), Some(is)) if is < was && matters(was, is) => Trend::Falling { by: was - is, over },
        (Some(_), Some(_)) => Trend::Steady,
        _ => Trend::Unknown,
    }
}

/// A twentieth, and more than one.
const fn matters(was: u64, is: u64) -> bool {
    let by = was.abs_diff(is);
    by > 1 && by.saturating_mul(20) >= was
}

/// The rates of the last minute.
pub(super) fn rates(history: &History) -> Option<Rates> {
    let (before, last) = ends(history, RATE, RATE_LEAST)?;
    let millis = u64::try_from(last.at.since(before.at).as_millis())
        .ok()
        .filter(|millis| *millis > 0)?;
    let a_second = |number: u64| number.saturating_mul(1_000_000) / millis;
    let delivered = last.delivered.saturating_sub(before.delivered);
    let came = match (before.waiting, last.waiting) {
        (Some(was), Some(is)) => Some((is.saturating_add(delivered)).saturating_sub(was)),
        _ => None,
    };
    Some(Rates {
        came: came.map(a_second),
        delivered: a_second(delivered),
    })
}

/// The newest sample, and the oldest one that is at most `back` older.
fn ends(history: &History, back: Duration, shortest: Duration) -> Option<(&Sample, &Sample)> {
    let last = history.samples().next_back()?;
    let from = last.at.minus(back);
    let before = history.samples().rev().take_while(|sample| sample.at >= from).last()?;
    (last.at.since(before.at) >= shortest).then_some((before, last))
}

/// How far back the charts show, and how that is written: no further than there are samples, and an hour at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) seconds: u64,
    pub(super) text: &'static str,
}

const REACHES: [Reach; 4] = [
    Reach {
        seconds: 60,
        text: "1 min",
    },
    Reach {
        seconds: 300,
        text: "5 min",
    },
    Reach {
        seconds: 900,
        text: "15 min",
    },
    Reach {
        seconds: 3_600,
        text: "1 h",
    },
];

/// The reach for these samples.
pub(super) fn reach(history: &History) -> Reach {
    let [.., hour] = REACHES;
    let (first, last) = (history.samples().next(), history.samples().next_back());
    let sampled = first
        .zip(last)
        .map_or(0, |(first, last)| last.at.since(first.at).as_secs());
    REACHES
        .into_iter()
        .find(|reach| sampled < reach.seconds)
        .unwrap_or(hour)
}

/// The columns of a chart: each a part of the reach that begins where the clock says, so that what is shown moves by
/// whole columns and no height depends on when it was drawn. The last one has the newest sample in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    count: usize,
    reach_us: i128,
    /// The place of the last one, counted from the epoch.
    last: i128,
    /// Samples further apart than this have a gap between them.
    apart: Duration,
}

impl Columns {
    /// So many for these samples.
    pub(super) fn of(history: &History, count: usize, apart: Duration) -> Self {
        let mut columns = Self {
            count,
            reach_us: i128::from(reach(history).seconds) * 1_000_000,
            last: 0,
            apart,
        };
        if let Some(newest) = history.samples().next_back() {
            columns.last = columns.place(newest.at);
        }
        columns
    }

    fn wide(&self) -> i128 {
        i128::try_from(self.count.max(1)).unwrap_or(i128::MAX)
    }

    fn place(&self, at: Timestamp) -> i128 {
        (i128::from(at.micros()) * self.wide()).div_euclid(self.reach_us)
    }

    /// The column of a place; `None`: it is out of reach.
    fn column(&self, place: i128) -> Option<usize> {
        let from_right = usize::try_from(self.last - place).ok()?;
        self.count.checked_sub(1)?.checked_sub(from_right)
    }

    /// The columns that a time touches, each with how much of it, in microseconds times the number of columns.
    fn touched(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = (usize, u128)> {
        let (wide, reach) = (self.wide(), self.reach_us);
        let (from, to) = (i128::from(from.micros()) * wide, i128::from(to.micros()) * wide);
        let first = from.div_euclid(reach).max(self.last - wide + 1);
        (first..=to.div_euclid(reach)).filter_map(move |place| {
            let inside = to.min((place + 1) * reach) - from.max(place * reach);
            Some((
                self.column(place)?,
                u128::try_from(inside).ok().filter(|inside| *inside > 0)?,
            ))
        })
    }
}

/// The greatest number that waited in each column. Between two samples there is what the first of them said.
pub(super) fn waiting(history: &History, columns: Columns) -> Series {
    let mut series: Series = vec![None; columns.count];
    let mut put = |place: i128, waiting: u64| {
        if let Some(slot) = columns.column(place).and_then(|at| series.get_mut(at)) {
            *slot = Some(slot.map_or(waiting, |known| known.max(waiting)));
        }
    };
    let mut before: Option<&Sample> = None;
    for sample in history.samples() {
        let place = columns.place(sample.at);
        let held = before.filter(|before| sample.at.since(before.at) <= columns.apart);
        if let Some((held, waiting)) = held.and_then(|held| Some((held, held.waiting?))) {
            let first = (columns.place(held.at) + 1).max(columns.last - columns.wide() + 1);
            (first..place).for_each(|between| put(between, waiting));
        }
        if let Some(waiting) = sample.waiting {
            put(place, waiting);
        }
        before = Some(sample);
    }
    series
}

/// Deliveries a second (thousandths) in each column: what was delivered between two samples, spread over their time.
pub(super) fn delivered(history: &History, columns: Columns) -> Series {
    let mut sums: Vec<(u128, u128)> = vec![(0, 0); columns.count];
    for (before, after) in history.samples().zip(history.samples().skip(1)) {
        let span = after.at.since(before.at);
        if span > columns.apart || span.is_zero() {
            continue;
        }
        let number = u128::from(after.delivered.saturating_sub(before.delivered));
        for (column, inside) in columns.touched(before.at, after.at) {
            if let Some((numbers, insides)) = sums.get_mut(column) {
                *numbers += number.saturating_mul(1_000_000_000).saturating_mul(inside) / span.as_micros();
                *insides += inside;
            }
        }
    }
    let rate = |(number, inside): (u128, u128)| {
        let rounded = number.checked_add(inside / 2)?.checked_div(inside)?;
        u64::try_from(rounded).ok()
    };
    sums.into_iter().map(rate).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::snapshot::Snapshot;

    fn history(samples: &[(i64, u64, u64)]) -> History {
        let mut history = History::default();
        for (at, waiting, delivered) in samples {
            let mut snapshot = Snapshot {
                taken_at: Timestamp::from_seconds(*at),
                ..Snapshot::default()
            };
            snapshot.totals.waiting = Some(*waiting);
            snapshot.totals.delivered = *delivered;
            history.record(&Arc::new(snapshot));
        }
        history
    }

    #[test]
    fn the_trend_compares_with_five_minutes_ago() {
        let over = Duration::from_secs(300);
        assert_eq!(
            of(&history(&[(0, 99, 0), (100, 10, 0), (400, 22, 0)])),
            Trend::Rising { by: 12, over }
        );
        assert_eq!(
            of(&history(&[(100, 22, 0), (400, 10, 0)])),
            Trend::Falling { by: 12, over }
        );
        assert_eq!(of(&history(&[(100, 1_000, 0), (400, 1_010, 0)])), Trend::Steady);
        assert_eq!(of(&history(&[(390, 10, 0), (400, 22, 0)])), Trend::Unknown);
        assert_eq!(of(&History::default()), Trend::Unknown);
    }

    #[test]
    fn rates_are_those_of_the_last_minute() {
        let rates = rates(&history(&[(0, 5, 0), (40, 10, 100), (100, 40, 700)]));
        assert_eq!(
            rates,
            Some(Rates {
                came: Some(10_500),
                delivered: 10_000
            })
        );
    }

    #[test]
    fn the_charts_reach_no_further_than_the_samples() {
        let text = |seconds| reach(&history(&[(0, 1, 0), (seconds, 1, 0)])).text;
        assert_eq!(
            [10, 60, 400, 1_000, 9_000].map(text),
            ["1 min", "5 min", "15 min", "1 h", "1 h"]
        );
        assert_eq!(reach(&History::default()).text, "1 min");
    }

    #[test]
    fn the_hour_is_told_from_left_to_right_and_gaps_stay_gaps() {
        let history = history(&[
            (0, 1, 0),
            (1_790, 7, 880),
            (1_800, 6, 900),
            (3_590, 3, 2_680),
            (3_600, 2, 2_700),
        ]);
        let columns = Columns::of(&history, 4, Duration::from_secs(30));
        assert_eq!(waiting(&history, columns), [Some(7), Some(6), Some(3), Some(2)]);
        let minutes = Columns::of(&history, 60, Duration::from_secs(30));
        assert_eq!(waiting(&history, minutes).iter().flatten().count(), 4);
        let known: Vec<u64> = delivered(&history, minutes).into_iter().flatten().collect();
        assert_eq!(known, [2_000, 2_000], "what came in a gap is of no known time");
    }

    /// Samples at these times in milliseconds, of something that waits and is delivered evenly.
    fn steady(times: impl IntoIterator<Item = i64>) -> History {
        let mut history = History::default();
        for at in times {
            let mut snapshot = Snapshot {
                taken_at: Timestamp::from_micros(at * 1_000),
                ..Snapshot::default()
            };
            snapshot.totals.waiting = Some(40);
            snapshot.totals.delivered = u64::try_from(at).unwrap();
            history.record(&Arc::new(snapshot));
        }
        history
    }

    #[test]
    fn what_is_steady_has_no_holes_and_no_teeth_however_uneven_the_samples_are() {
        let apart = Duration::from_secs(30);
        let uneven = |after: i64| {
            (0..60).scan(1_000_000, move |at, step| {
                *at += [2_000, 2_350, 1_900, 2_600, 3_000][usize::try_from(step).unwrap() % 5] + after;
                Some(*at)
            })
        };
        for (after, count) in [(0, 60), (0, 88), (0, 120), (0, 200), (7, 168), (4_000, 120)] {
            let history = steady(uneven(after));
            let columns = Columns::of(&history, count, apart);
            let waits = waiting(&history, columns);
            let first = waits.iter().position(Option::is_some).unwrap();
            assert!(waits[first..].iter().all(|one| *one == Some(40)), "{count}: {waits:?}");
            let rates = delivered(&history, columns);
            let first = rates.iter().position(Option::is_some).unwrap();
            let even = |one: &Option<u64>| one.is_some_and(|rate| rate.abs_diff(1_000_000) < 2_000);
            assert!(rates[first..].iter().all(even), "{count}: {rates:?}");
        }
    }

    #[test]
    fn what_was_drawn_moves_by_whole_columns_and_keeps_its_heights() {
        let times: Vec<i64> = (0..30).map(|at| 1_000_000 + at * 1_970).collect();
        let drawn = |until: usize| {
            let history = steady(times[..until].iter().copied());
            let columns = Columns::of(&history, 60, Duration::from_secs(30));
            (columns.last, delivered(&history, columns))
        };
        let ((was, before), (is, after)) = (drawn(28), drawn(29));
        let moved = usize::try_from(is - was).unwrap();
        assert_eq!(after[..59 - moved], before[moved..59]);
    }
}
