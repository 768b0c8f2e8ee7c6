//! How queues and endpoints moved lately, kept in this process: see `domain/series.rs` for what is kept of each.
//!
//! An attempt costs a few counters of the two meters that its worker holds: no lock, no allocation, no name. Once a
//! minute, by uptime, whoever looks first closes the minute of all of them. What is kept is bounded by a number of meters;
//! a name is kept as its hash, so that two names that have the same share a chart, and nothing else.
//!
//! A process that delivers is told of its own attempts and of each listing; one that only looks, of what it sees.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ambient::HashMap;
use crate::domain::attempt::Attempt;
use crate::domain::id::QueueName;
use crate::domain::naming::{Naming, URL_HASH_LEN};
use crate::domain::series::{BUCKETS, MINUTES, Moving, Point, Rings, SPARK, Span, bucket, packed, quantile};
use crate::domain::url::EndpointUrl;

/// A rate that only passes changes once in so many seconds.
const STEP_S: u64 = 10;
/// Queues and endpoints together, at most: with all that is kept of each, less than 20 MiB.
pub(super) const METERS_MAX: usize = 20_000;
/// From so many on, those that are idle for an hour go.
const CROWDED: usize = METERS_MAX / 4 * 3;
/// A depth that nobody knows.
const NO_DEPTH: u64 = u64::MAX;
const MINUTE: Duration = Duration::from_mins(1);

/// By what a meter is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Queue(u64),
    Endpoint(u64),
}

impl Key {
    /// Of a queue.
    pub(super) fn queue(name: &QueueName) -> Self {
        Self::Queue(hashed(name.as_str()))
    }

    /// Of an endpoint.
    pub(super) fn endpoint(naming: &Naming, url: &EndpointUrl) -> Self {
        Self::Endpoint(hashed(&naming.url_hash(url)))
    }

    /// Of the endpoint of a delivery queue, whose name says it: also where no worker of this process ever had the queue.
    fn endpoint_of(name: &QueueName) -> Option<Self> {
        let (_, hash) = name.as_str().rsplit_once('.')?;
        (hash.len() == URL_HASH_LEN).then(|| Self::Endpoint(hashed(hash)))
    }
}

/// FNV-1a: the same in every process.
fn hashed(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What one queue or endpoint did in this minute, and before.
#[derive(Debug)]
pub(super) struct Meter {
    sent: AtomicU32,
    failed: AtomicU32,
    took: [AtomicU16; BUCKETS],
    depth: AtomicU64,
    depth_before: AtomicU64,
    /// Delivered in all, as a process that only looks saw it last; `NO_DEPTH`: never.
    delivered: AtomicU64,
    rings: Mutex<Rings>,
}

impl Meter {
    fn new() -> Self {
        Self {
            sent: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            took: std::array::from_fn(|_| AtomicU16::new(0)),
            depth: AtomicU64::new(NO_DEPTH),
            depth_before: AtomicU64::new(NO_DEPTH),
            delivered: AtomicU64::new(NO_DEPTH),
            rings: Mutex::default(),
        }
    }

    /// An attempt ended with a delivery.
    pub(super) fn delivered(&self, took: Duration) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.took(took);
    }

    /// An attempt failed.
    pub(super) fn failed(&self, took: Duration) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.took(took);
    }

    fn took(&self, took: Duration) {
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let counted = &self.took[bucket(millis)];
        // A full bucket stays full: the others say enough.
        if counted.load(Ordering::Relaxed) < u16::MAX - 1 {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// So much waits, where known. What waits at the first look has not come since.
    fn waits(&self, depth: Option<u64>) {
        let depth = depth.unwrap_or(NO_DEPTH);
        self.depth.store(depth, Ordering::Relaxed);
        let (is_first, fine) = (NO_DEPTH, Ordering::Relaxed);
        let _ = self.depth_before.compare_exchange(is_first, depth, fine, fine);
    }

    fn counts(&self) -> [u16; BUCKETS] {
        std::array::from_fn(|at| self.took[at].load(Ordering::Relaxed))
    }

    /// Ends its minute.
    fn close(&self, minute: u64) {
        let took = std::array::from_fn(|at| self.took[at].swap(0, Ordering::Relaxed));
        let sent = u64::from(self.sent.swap(0, Ordering::Relaxed));
        let depth = self.depth.load(Ordering::Relaxed);
        let before = self.depth_before.swap(depth, Ordering::Relaxed);
        let point = Point {
            depth: (depth != NO_DEPTH).then_some(depth),
            came: came(before, depth, sent),
            sent,
            failed: u64::from(self.failed.swap(0, Ordering::Relaxed)),
            p50_ms: quantile(&took, 0.5),
            p95_ms: quantile(&took, 0.95),
            p99_ms: quantile(&took, 0.99),
        };
        lock(&self.rings).push(minute, &point);
    }

    /// As far as its last whole minute and what came since say.
    fn moving(&self, minute: u64, into: Duration) -> Moving {
        let (minutes, [last_came, last_sent, last_failed]) = {
            let rings = lock(&self.rings);
            (rings.last_minutes(minute, SPARK), rings.last())
        };
        let last = minutes.last().copied().unwrap_or_default();
        // In steps, so that a row that nothing happens to stays the same for a while.
        let seconds = into.as_secs().min(59) / STEP_S * STEP_S;
        // What is left of the last whole minute counts as if it had been even.
        let rate = |whole: u64, since: u64| {
            let millis = (whole * (60 - seconds) / 60 + since).saturating_mul(1_000) / 60;
            u32::try_from(millis).unwrap_or(u32::MAX)
        };
        let (sent, failed) = (
            u64::from(self.sent.load(Ordering::Relaxed)),
            u64::from(self.failed.load(Ordering::Relaxed)),
        );
        let depth = self.depth.load(Ordering::Relaxed);
        let since = came(self.depth_before.load(Ordering::Relaxed), depth, sent);
        let attempts = last_sent + last_failed + sent + failed;
        let share = ((last_failed + failed) * 1_000).checked_div(attempts);
        let counts = self.counts();
        let is_new = counts.iter().any(|count| *count > 0);
        let time = |of_last: u64, share: f64| {
            let millis = if is_new { quantile(&counts, share) } else { of_last };
            u32::try_from(millis).unwrap_or(u32::MAX)
        };
        let mut moving = Moving {
            out_milli: rate(last_sent, sent),
            came_milli: rate(last_came, since),
            failed_milli: share.and_then(|share| u16::try_from(share).ok()),
            p50_ms: time(last.p50_ms, 0.5),
            p95_ms: time(last.p95_ms, 0.95),
            p99_ms: time(last.p99_ms, 0.99),
            out: [0; SPARK],
            depth: [u8::MAX; SPARK],
        };
        let from = SPARK - minutes.len();
        for (at, point) in minutes.iter().enumerate() {
            moving.out[from + at] = packed(point.sent);
            moving.depth[from + at] = point.depth.map_or(u8::MAX, |depth| packed(depth).min(u8::MAX - 1));
        }
        moving
    }
}

/// What must have come where so much waits now after so much was delivered.
const fn came(before: u64, depth: u64, sent: u64) -> u64 {
    if before == NO_DEPTH || depth == NO_DEPTH {
        return 0;
    }
    depth.saturating_add(sent).saturating_sub(before)
}

/// All meters of this process.
#[derive(Debug, Default)]
pub(super) struct Series {
    meters: Mutex<HashMap<Key, Arc<Meter>>>,
    /// The minute that is not over.
    minute: AtomicU64,
}

impl Series {
    /// Those of a process that begins at `uptime`.
    pub(super) fn since(uptime: Duration) -> Self {
        Self {
            minute: AtomicU64::new(uptime.as_secs() / MINUTE.as_secs()),
            ..Self::default()
        }
    }

    /// The meter of a delivery queue, and that of its endpoint.
    pub(super) fn of(&self, queue: &QueueName) -> [Arc<Meter>; 2] {
        let mut meters = lock(&self.meters);
        let endpoint = Key::endpoint_of(queue).unwrap_or(Key::Endpoint(0));
        [Key::queue(queue), endpoint].map(|key| made(&mut meters, key))
    }

    /// Takes in a listing with all delivery queues: how much waits in each, where known.
    pub(super) fn listed<'a>(&self, queues: impl Iterator<Item = (&'a QueueName, Option<u64>)>) {
        let mut meters = lock(&self.meters);
        let mut sums: HashMap<Key, Option<u64>> = HashMap::default();
        for (name, depth) in queues {
            waits(&mut meters, Key::queue(name), depth);
            if let Some(endpoint) = Key::endpoint_of(name) {
                let sum = sums.entry(endpoint).or_insert(Some(0));
                *sum = sum.zip(depth).map(|(sum, depth)| sum + depth);
            }
        }
        // The last queue of an endpoint may have ended since the listing before.
        for (key, meter) in meters.iter() {
            if matches!(key, Key::Endpoint(_)) && !sums.contains_key(key) {
                meter.waits(Some(0));
            }
        }
        for (endpoint, depth) in sums {
            waits(&mut meters, endpoint, depth);
        }
    }

    /// Takes in what a process that only looks sees of a queue: how many were delivered in all.
    pub(super) fn seen(&self, queue: &QueueName, delivered: u64) {
        let [queue, endpoint] = self.of(queue);
        let before = queue.delivered.swap(delivered, Ordering::Relaxed);
        if before == NO_DEPTH || delivered <= before {
            return;
        }
        let more = u32::try_from(delivered - before).unwrap_or(u32::MAX);
        queue.sent.fetch_add(more, Ordering::Relaxed);
        endpoint.sent.fetch_add(more, Ordering::Relaxed);
    }

    /// Takes in an attempt that another process made: how long it took, and whether it failed. What was delivered is
    /// counted by [`Series::seen`].
    pub(super) fn sampled(&self, attempt: &Attempt) {
        let Some(has_failed) = attempt.class.has_failed() else {
            return;
        };
        for meter in self.of(&attempt.queue) {
            meter.failed.fetch_add(u32::from(has_failed), Ordering::Relaxed);
            meter.took(Duration::from_millis(attempt.duration_ms));
        }
    }

    /// Ends the minutes that are over at `uptime`.
    pub(super) fn roll(&self, uptime: Duration) {
        let now = uptime.as_secs() / MINUTE.as_secs();
        let before = self.minute.swap(now, Ordering::SeqCst);
        if before >= now {
            self.minute.fetch_max(before, Ordering::SeqCst);
            return;
        }
        let mut meters = lock(&self.meters);
        // After a pause nothing is known of the minutes in between.
        let first = before.max(now.saturating_sub(2 * MINUTE.as_secs()));
        for meter in meters.values() {
            meter.close(first);
            for minute in first + 1..now {
                lock(&meter.rings).push(minute, &Point::default());
            }
        }
        if meters.len() >= CROWDED {
            meters.retain(|_, meter| Arc::strong_count(meter) > 1 || !lock(&meter.rings).is_idle());
        }
    }

    /// How something moves; `None`: nothing is known of it, or it does not.
    pub(super) fn moving(&self, key: Key, uptime: Duration) -> Option<Moving> {
        let meter = lock(&self.meters).get(&key).map(Arc::clone)?;
        let minute = self.minute.load(Ordering::SeqCst);
        let into = uptime.saturating_sub(MINUTE.saturating_mul(u32::try_from(minute).unwrap_or(u32::MAX)));
        let moving = meter.moving(minute, into);
        let moves = moving.out_milli > 0
            || moving.came_milli > 0
            || moving.failed_milli.is_some()
            || moving.out.iter().any(|sent| *sent > 0)
            || moving.depth.iter().any(|depth| !matches!(*depth, 0 | u8::MAX));
        moves.then_some(moving)
    }

    /// How much waits there, where known.
    pub(super) fn depth(&self, key: Key) -> Option<u64> {
        let depth = lock(&self.meters).get(&key)?.depth.load(Ordering::Relaxed);
        (depth != NO_DEPTH).then_some(depth)
    }

    /// Its last hour by the minute, or its last week by four hours, oldest first.
    pub(super) fn points(&self, key: Key, span: Span) -> Vec<Point> {
        let Some(meter) = lock(&self.meters).get(&key).map(Arc::clone) else {
            return Vec::new();
        };
        let minute = self.minute.load(Ordering::SeqCst);
        let rings = lock(&meter.rings);
        match span {
            Span::Hour => rings.last_minutes(minute, MINUTES),
            Span::Week => rings.last_week(minute),
        }
    }
}

/// So much waits at `key`. Of what nobody knows yet and where nothing waits, nothing is kept.
fn waits(meters: &mut HashMap<Key, Arc<Meter>>, key: Key, depth: Option<u64>) {
    match meters.get(&key) {
        Some(meter) => meter.waits(depth),
        None if depth.is_some_and(|depth| depth > 0) => made(meters, key).waits(depth),
        None => {}
    }
}

/// The meter of `key`. Where there is no room for it, one that nobody looks at.
fn made(meters: &mut HashMap<Key, Arc<Meter>>, key: Key) -> Arc<Meter> {
    if let Some(meter) = meters.get(&key) {
        return Arc::clone(meter);
    }
    let meter = Arc::new(Meter::new());
    if meters.len() < METERS_MAX {
        meters.insert(key, Arc::clone(&meter));
    }
    meter
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::ExecutionId;
    use crate::domain::naming::QueueType;

    /// The queue of one execution at each of many endpoints.
    fn queue(number: usize) -> QueueName {
        queue_of("order-7", number)
    }

    fn queue_of(execution: &str, number: usize) -> QueueName {
        naming().delivery_queue(&ExecutionId::parse(execution).unwrap(), &url(number))
    }

    fn url(number: usize) -> EndpointUrl {
        EndpointUrl::parse(&format!("https://receiver-{number}.example/hook")).unwrap()
    }

    fn endpoint(number: usize) -> Key {
        Key::endpoint(&naming(), &url(number))
    }

    fn naming() -> Naming {
        Naming {
            prefix: "redrive.".to_owned(),
            vhost: "redrive".to_owned(),
            url_hash_key: "key".to_owned(),
            queue_type: QueueType::Classic,
        }
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn ten_thousand_queues_and_their_endpoints_take_less_than_twenty_mebibytes() {
        // Beside the value: both counters of its Arc, and in the map key, pointer and a byte, of a table that is at
        // least half full.
        let each = size_of::<Meter>() + 2 * size_of::<usize>() + 2 * (size_of::<(Key, Arc<Meter>)>() + 1);
        let all = each * METERS_MAX;
        assert!(all <= 20 << 20, "{each} bytes each, {} KiB", all >> 10);
        let series = Series::default();
        for number in 0..15_000 {
            series.of(&queue(number));
        }
        assert_eq!(lock(&series.meters).len(), METERS_MAX, "the bound holds");
        // Nothing happened to any of them: they make room.
        series.roll(at(60));
        assert_eq!(lock(&series.meters).len(), 0);
    }

    #[test]
    fn rates_shares_and_times_are_those_of_the_last_minute() {
        let series = Series::default();
        let queue = queue(1);
        let [first, of_endpoint] = series.of(&queue);
        series.listed([(&queue, Some(100))].into_iter());
        series.roll(at(60));
        for number in 0..60_u64 {
            for meter in [&first, &of_endpoint] {
                if number % 4 == 0 {
                    meter.failed(Duration::from_millis(100));
                } else {
                    meter.delivered(Duration::from_millis(100));
                }
            }
        }
        series.listed([(&queue, Some(85))].into_iter());
        series.roll(at(120));
        for key in [Key::queue(&queue), endpoint(1)] {
            let moving = series.moving(key, at(120)).unwrap();
            assert_eq!((moving.out_milli, moving.failed_milli), (750, Some(250)));
            assert_eq!(moving.came_milli, 500, "45 went, 15 fewer wait");
            assert!((85..=119).contains(&moving.p95_ms), "{moving:?}");
            assert_eq!(moving.out[9], packed(45));
        }
        // Half a minute on, half of it has gone.
        assert_eq!(series.moving(Key::queue(&queue), at(150)).unwrap().out_milli, 366);
        let points = series.points(Key::queue(&queue), Span::Hour);
        let (last, before) = (points[points.len() - 1], points[points.len() - 2]);
        assert_eq!((before.depth, last.depth, last.failed), (Some(100), Some(85), 15));
        assert_eq!(series.points(Key::queue(&self::queue(2)), Span::Hour), []);
    }

    #[test]
    fn a_process_that_only_looks_counts_what_it_sees() {
        let series = Series::default();
        for delivered in [1_000, 1_030, 1_060] {
            series.seen(&queue(1), delivered);
        }
        series.roll(at(60));
        let moving = series.moving(endpoint(1), at(60)).unwrap();
        assert_eq!((moving.out_milli, moving.failed_milli), (1_000, Some(0)));
        assert_eq!(moving.p95_ms, 0);
    }

    #[test]
    fn what_waits_at_the_first_look_has_not_come_since_and_what_waits_beyond_it_has() {
        let series = Series::default();
        let queue = queue(1);
        let came = |depth| {
            series.listed([(&queue, Some(depth))].into_iter());
            series.moving(Key::queue(&queue), at(1)).map(|moving| moving.came_milli)
        };
        assert_eq!((came(100), came(160)), (None, Some(1_000)));
    }

    #[test]
    fn all_queues_of_an_endpoint_count_whether_or_not_this_process_ever_delivered_from_them() {
        let series = Series::default();
        let [own, others] = ["order-1", "order-2"].map(|execution| queue_of(execution, 1));
        series.of(&own);
        let waiting = |queues: &[(&QueueName, Option<u64>)]| {
            series.listed(queues.iter().copied());
            series.depth(endpoint(1))
        };
        assert_eq!(waiting(&[(&own, Some(3)), (&others, Some(4))]), Some(7));
        assert_eq!(waiting(&[(&others, Some(4)), (&queue(2), Some(9))]), Some(4));
        assert_eq!(series.depth(endpoint(2)), Some(9), "no worker had any of its queues");
        assert_eq!(
            waiting(&[(&own, Some(3)), (&others, None)]),
            None,
            "one count is missing"
        );
        assert_eq!(waiting(&[]), Some(0), "its queues ended");
    }

    #[test]
    fn what_happened_before_the_first_look_counts_however_long_the_machine_runs() {
        let series = Series::since(at(54_030));
        let [meter, _] = series.of(&queue(1));
        meter.failed(Duration::from_millis(5));
        series.roll(at(54_031));
        let moving = series.moving(Key::queue(&queue(1)), at(54_031)).unwrap();
        assert_eq!(moving.failed_milli, Some(1_000));
    }

    #[test]
    fn minutes_in_which_nobody_looked_are_empty() {
        let series = Series::default();
        let [meter, _] = series.of(&queue(1));
        meter.delivered(Duration::from_millis(5));
        series.roll(at(60));
        series.roll(at(5 * 60));
        series.roll(at(4 * 60));
        let sent: Vec<u64> = series
            .points(Key::queue(&queue(1)), Span::Hour)
            .iter()
            .map(|point| point.sent)
            .collect();
        assert_eq!(sent, [1, 0, 0, 0, 0]);
    }
}
