//! Better or worse, and how fast: from the samples of the last minutes.

use std::time::Duration;

use super::super::super::history::{History, Sample};
use super::super::super::tracks::Series;
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

/// The greatest number that waited in each part of the reach.
pub(super) fn waiting(history: &History, now: Timestamp, columns: usize) -> Series {
    let reach = reach(history);
    let mut series: Series = vec![None; columns];
    for sample in history.samples() {
        let slot = slot(reach, now, sample.at, columns).and_then(|at| series.get_mut(at));
        if let (Some(slot), Some(waiting)) = (slot, sample.waiting) {
            *slot = Some(slot.map_or(waiting, |known| known.max(waiting)));
        }
    }
    series
}

/// Deliveries a second (thousandths) in each part of the reach.
pub(super) fn delivered(history: &History, now: Timestamp, columns: usize) -> Series {
    let reach = reach(history);
    let mut sums: Vec<(u64, u64)> = vec![(0, 0); columns];
    for (before, after) in history.samples().zip(history.samples().skip(1)) {
        let Some((number, millis)) = slot(reach, now, after.at, columns).and_then(|at| sums.get_mut(at)) else {
            continue;
        };
        *number += after.delivered.saturating_sub(before.delivered);
        *millis += u64::try_from(after.at.since(before.at).as_millis()).unwrap_or(0);
    }
    sums.into_iter()
        .map(|(number, millis)| number.saturating_mul(1_000_000).checked_div(millis))
        .collect()
}

fn slot(reach: Reach, now: Timestamp, at: Timestamp, columns: usize) -> Option<usize> {
    let back = now.since(at).as_millis();
    let columns_wide = u128::try_from(columns).ok()?;
    let from_right = back * columns_wide / (u128::from(reach.seconds) * 1_000);
    columns.checked_sub(1)?.checked_sub(usize::try_from(from_right).ok()?)
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
        let history = history(&[(0, 1, 0), (1_800, 7, 900), (3_600, 3, 2_700)]);
        let now = Timestamp::from_seconds(3_600);
        assert_eq!(waiting(&history, now, 4), [None, Some(7), None, Some(3)]);
        assert_eq!(delivered(&history, now, 4), [None, Some(500), None, Some(1_000)]);
    }
}
