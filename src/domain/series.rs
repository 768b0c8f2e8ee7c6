//! How a queue or an endpoint moved: an hour by the minute and a week by four hours, packed.
//!
//! A point is eight bytes: counts and times are kept on a scale whose steps are 8 %, which a chart does not show. Pure:
//! the clock is whoever calls.

/// Minutes that are kept each by itself.
pub const MINUTES: usize = 60;
/// Minutes of a coarse point.
pub const COARSE_MINUTES: usize = 240;
/// Coarse points that are kept: a week.
pub const COARSE: usize = 42;
/// Minutes of a sparkline.
pub const SPARK: usize = 10;
/// Buckets of the times that attempts take.
pub const BUCKETS: usize = 40;

/// One step of the scale is larger than the one before by this.
const STEP: f64 = 1.08;
/// The same for buckets of time.
const BUCKET: f64 = 1.4;
/// A depth that nobody knows.
const NO_DEPTH: u16 = u16::MAX;
/// Bits of a depth that are kept exactly.
const EXACT: u32 = 11;

/// A number on the scale.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within 1 and 255"
)]
pub fn packed(number: u64) -> u8 {
    if number == 0 {
        return 0;
    }
    #[expect(clippy::cast_precision_loss, reason = "a step is 8 %")]
    let steps = (number as f64).ln() / STEP.ln();
    (1.0 + steps.round()).min(255.0) as u8
}

/// The number that it stands for.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never negative, and at most 10 to the 9th"
)]
pub fn unpacked(scale: u8) -> u64 {
    match scale {
        0 => 0,
        steps => STEP.powi(i32::from(steps) - 1).round() as u64,
    }
}

/// A depth with its eleven highest bits.
fn packed_depth(depth: Option<u64>) -> u16 {
    let Some(depth) = depth else { return NO_DEPTH };
    let shift = (64 - depth.leading_zeros()).saturating_sub(EXACT).min(30);
    let mantissa = (depth >> shift).min((1 << EXACT) - 1);
    ((shift as u16) << EXACT) | mantissa as u16
}

fn unpacked_depth(packed: u16) -> Option<u64> {
    (packed != NO_DEPTH).then(|| u64::from(packed & ((1 << EXACT) - 1)) << (packed >> EXACT))
}

/// How far back a chart goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The last hour, by the minute.
    Hour,
    /// The last week, by four hours.
    Week,
}

/// What happened in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Point {
    /// Messages at its end, where known.
    pub depth: Option<u64>,
    /// Messages that came.
    pub came: u64,
    /// Messages that were delivered.
    pub sent: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Milliseconds within which half of the attempts ended; 0: there were none.
    pub p50_ms: u64,
    /// The same for 95 of 100.
    pub p95_ms: u64,
    /// The same for 99 of 100.
    pub p99_ms: u64,
}

/// A point as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed {
    depth: u16,
    came: u8,
    sent: u8,
    failed: u8,
    p50: u8,
    p95: u8,
    p99: u8,
}

impl Packed {
    const NOTHING: Self = Self {
        depth: NO_DEPTH,
        came: 0,
        sent: 0,
        failed: 0,
        p50: 0,
        p95: 0,
        p99: 0,
    };

    fn of(point: &Point) -> Self {
        Self {
            depth: packed_depth(point.depth),
            came: packed(point.came),
            sent: packed(point.sent),
            failed: packed(point.failed),
            p50: packed(point.p50_ms),
            p95: packed(point.p95_ms),
            p99: packed(point.p99_ms),
        }
    }

    fn point(self) -> Point {
        Point {
            depth: unpacked_depth(self.depth),
            came: unpacked(self.came),
            sent: unpacked(self.sent),
            failed: unpacked(self.failed),
            p50_ms: unpacked(self.p50),
            p95_ms: unpacked(self.p95),
            p99_ms: unpacked(self.p99),
        }
    }
}

/// Points of one queue or endpoint. Where in the rings a minute stands is the matter of all of them together.
#[derive(Clone, Debug)]
pub struct Rings {
    minutes: [Packed; MINUTES],
    coarse: [Packed; COARSE],
    /// Of the coarse point that is not over.
    came: u32,
    sent: u32,
    failed: u32,
    /// What came, was delivered and failed in the last minute, exactly.
    last: [u32; 3],
}

impl Default for Rings {
    fn default() -> Self {
        Self {
            minutes: [Packed::NOTHING; MINUTES],
            coarse: [Packed::NOTHING; COARSE],
            came: 0,
            sent: 0,
            failed: 0,
            last: [0; 3],
        }
    }
}

impl Rings {
    /// Minute number `minute` is over.
    pub fn push(&mut self, minute: u64, point: &Point) {
        let add = |sum: u32, more: u64| sum.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        self.minutes[place(minute, MINUTES)] = Packed::of(point);
        self.last = [point.came, point.sent, point.failed].map(|number| add(0, number));
        self.came = add(self.came, point.came);
        self.sent = add(self.sent, point.sent);
        self.failed = add(self.failed, point.failed);
        let steps = COARSE_MINUTES as u64;
        if (minute + 1).is_multiple_of(steps) {
            // Of the minutes that are still there, the slowest one says how long attempts took.
            let worst = |of: fn(&Packed) -> u8| self.minutes.iter().map(of).max().unwrap_or(0);
            self.coarse[place(minute / steps, COARSE)] = Packed {
                depth: packed_depth(point.depth),
                came: packed(self.came.into()),
                sent: packed(self.sent.into()),
                failed: packed(self.failed.into()),
                p50: worst(|one| one.p50),
                p95: worst(|one| one.p95),
                p99: worst(|one| one.p99),
            };
            (self.came, self.sent, self.failed) = (0, 0, 0);
        }
    }

    /// What came, was delivered and failed in the last minute.
    #[must_use]
    pub fn last(&self) -> [u64; 3] {
        self.last.map(u64::from)
    }

    /// The last `count` minutes before `minute`, oldest first.
    #[must_use]
    pub fn last_minutes(&self, minute: u64, count: usize) -> Vec<Point> {
        points(&self.minutes, minute, count.min(MINUTES))
    }

    /// The last week before `minute`, oldest first.
    #[must_use]
    pub fn last_week(&self, minute: u64) -> Vec<Point> {
        points(&self.coarse, minute / COARSE_MINUTES as u64, COARSE)
    }

    /// Whether nothing happened in the last hour, and nothing waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.minutes.iter().all(|one| {
            one.sent == 0 && one.came == 0 && one.failed == 0 && matches!(unpacked_depth(one.depth), None | Some(0))
        })
    }
}

fn points(ring: &[Packed], end: u64, count: usize) -> Vec<Point> {
    let first = end.saturating_sub(count as u64);
    (first..end).map(|at| ring[place(at, ring.len())].point()).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "below the length of a ring")]
const fn place(number: u64, length: usize) -> usize {
    (number % length as u64) as usize
}

/// The bucket of an attempt that took so many milliseconds.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a logarithm between 0 and 40"
)]
pub fn bucket(millis: u64) -> usize {
    let at = (millis.max(1) as f64).ln() / BUCKET.ln();
    (at as usize).min(BUCKETS - 1)
}

/// Milliseconds within which `share` of those ended, by how many are in each bucket; 0: there are none.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "counts of one minute, and a time in between two bounds"
)]
pub fn quantile(counts: &[u16; BUCKETS], share: f64) -> u64 {
    let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    if all == 0 {
        return 0;
    }
    let wanted = (all as f64 * share).ceil().max(1.0);
    let mut seen = 0.0;
    for (at, count) in counts.iter().enumerate() {
        let count = f64::from(*count);
        if seen + count >= wanted {
            let from = BUCKET.powi(i32::try_from(at).unwrap_or(i32::MAX));
            return (from * BUCKET.powf((wanted - seen) / count)).round() as u64;
        }
        seen += count;
    }
    0
}

/// How it moves at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Moving {
    /// Delivered in the last minute, in thousandths a second.
    pub out_milli: u32,
    /// Came in the last minute, in thousandths a second.
    pub came_milli: u32,
    /// Failed attempts of the last minute among all of them, in thousandths; `None`: there were none.
    pub failed_milli: Option<u16>,
    /// Milliseconds within which half of them ended; 0: there were none.
    pub p50_ms: u32,
    /// The same for 95 of 100.
    pub p95_ms: u32,
    /// The same for 99 of 100.
    pub p99_ms: u32,
    /// Delivered in each of the last ten minutes, oldest first, [packed].
    pub out: [u8; SPARK],
    /// What waited at the end of each of them, [packed]; 255: nobody knows.
    pub depth: [u8; SPARK],
}

impl Moving {
    /// How long `waiting` messages take at the rate of the last minute; `None`: they do not become fewer.
    #[must_use]
    pub fn time_to_empty(&self, waiting: u64) -> Option<std::time::Duration> {
        if waiting == 0 {
            return Some(std::time::Duration::ZERO);
        }
        let drains = u64::from(self.out_milli.saturating_sub(self.came_milli));
        let millis = waiting.saturating_mul(1_000_000).checked_div(drains)?;
        Some(std::time::Duration::from_millis(millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_exact_and_large_ones_within_a_step() {
        for number in (0..=12).chain([100, 1_000, 65_000, 1_000_000, 50_000_000]) {
            let read = unpacked(packed(number));
            let within = number / 25;
            assert!(read.abs_diff(number) <= within, "{number} is read as {read}");
        }
        for depth in [
            Some(0),
            Some(1),
            Some(2_047),
            Some(1_000_000),
            Some(7_000_000_000),
            None,
        ] {
            let read = unpacked_depth(packed_depth(depth));
            let near = depth
                .zip(read)
                .is_none_or(|(depth, read)| depth.abs_diff(read) <= depth / 1_000);
            assert!(
                near && depth.is_some() == read.is_some(),
                "{depth:?} is read as {read:?}"
            );
        }
    }

    #[test]
    fn an_hour_is_kept_by_the_minute_and_a_week_by_four_hours() {
        let mut rings = Rings::default();
        let week = (COARSE * COARSE_MINUTES) as u64;
        for minute in 0..week {
            let point = Point {
                depth: Some(minute % 60),
                came: 1,
                sent: 2,
                failed: u64::from(minute % 240 == 7),
                p95_ms: 40,
                ..Point::default()
            };
            rings.push(minute, &point);
        }
        let hour = rings.last_minutes(week, 60);
        assert_eq!((hour.len(), hour[0].depth, hour[59].depth), (60, Some(0), Some(59)));
        let coarse = rings.last_week(week);
        assert_eq!((coarse.len(), coarse[0].failed, coarse[41].failed), (42, 1, 1));
        assert!(coarse[3].sent.abs_diff(480) <= 20 && coarse[3].came.abs_diff(240) <= 10);
        assert!(!rings.is_idle() && Rings::default().is_idle());
        assert_eq!(rings.last_minutes(week, SPARK).len(), SPARK);
    }

    #[test]
    fn a_quantile_is_within_a_bucket_of_what_was_measured() {
        let mut counts = [0; BUCKETS];
        for millis in 1..=1_000_u64 {
            counts[bucket(millis)] += 1;
        }
        for (share, is) in [(0.5, 500_u64), (0.95, 950), (0.99, 990)] {
            let read = quantile(&counts, share);
            assert!(read.abs_diff(is) <= is / 5, "{share}: {read}");
        }
        assert_eq!(quantile(&[0; BUCKETS], 0.5), 0);
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn what_drains_says_when_it_is_empty() {
        let moving = Moving {
            out_milli: 10_000,
            came_milli: 2_000,
            ..Moving::default()
        };
        assert_eq!(moving.time_to_empty(80), Some(std::time::Duration::from_secs(10)));
        assert_eq!(Moving::default().time_to_empty(80), None);
        assert_eq!(Moving::default().time_to_empty(0), Some(std::time::Duration::ZERO));
    }
}
