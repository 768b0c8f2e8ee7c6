//! The last hour of queues and endpoints, each for itself, from this console's own samples.
//!
//! A sample is taken with every snapshot and goes into a part of ten seconds: the greatest depth in it, and what was
//! delivered. A part without a sample is a gap, not a zero; so is what could not be read.
//!
//! Bounded: [`TRACKS_MAX`] tracks of [`PARTS_MAX`] parts of 12 bytes, about 1.1 MiB, however many queues there are. Where there
//! are no more queues and endpoints than that, every one has a track; otherwise those that were looked at lately and
//! those that the overview calls the worst.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::console::state::detail::Subject;
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::snapshot::{EndpointRow, QueueRow, Snapshot};

/// Tracks, at most.
pub const TRACKS_MAX: usize = 256;
/// Parts of a track: an hour.
pub const PARTS_MAX: usize = 360;
/// Seconds of a part.
const PART_S: i64 = 10;
/// Of those that were looked at, so many are kept in mind.
const LOOKED_MAX: usize = 64;
/// Samples further apart than this have a gap between them, unless the configuration looks that seldom.
const APART: Duration = Duration::from_secs(30);
/// Stands for a depth that is not known.
const NO_DEPTH: u32 = u32::MAX;

/// Ten seconds of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    depth: u32,
    delivered: u32,
    /// Of these milliseconds it is known what was delivered.
    millis: u32,
}

const GAP: Part = Part {
    depth: NO_DEPTH,
    delivered: 0,
    millis: 0,
};

/// What was counted of a queue or an endpoint at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    at: Timestamp,
    depth: Option<u64>,
    delivered: Option<u64>,
}

/// The last hour of a queue or an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Oldest first; the last one is that of the last sample.
    parts: VecDeque<Part>,
    since: Timestamp,
    last: Count,
}

/// Numbers over a time, one for each column of a chart; `None` where nothing was sampled.
pub type Series = Vec<Option<u64>>;

impl Track {
    const fn new(at: Timestamp) -> Self {
        Self {
            parts: VecDeque::new(),
            since: at,
            last: Count {
                at,
                depth: None,
                delivered: None,
            },
        }
    }

    /// When its first sample was taken.
    #[must_use]
    pub const fn since(&self) -> Timestamp {
        self.since
    }

    /// When its last sample was taken.
    #[must_use]
    pub const fn until(&self) -> Timestamp {
        self.last.at
    }

    fn record(&mut self, count: Count, apart: Duration) {
        let first = self.parts.is_empty();
        if !first && count.at <= self.last.at {
            return;
        }
        let span = count.at.since(self.last.at);
        let continues = !first && span <= apart;
        let new = if first {
            1
        } else {
            part_of(count.at) - part_of(self.last.at)
        };
        let filler = if continues { pack(self.last.depth) } else { NO_DEPTH };
        for _ in 0..new.min(PARTS_MAX.try_into().unwrap_or(i64::MAX)) {
            if self.parts.len() == PARTS_MAX {
                self.parts.pop_front();
            }
            self.parts.push_back(Part { depth: filler, ..GAP });
        }
        if let Some(part) = self.parts.back_mut() {
            let depth = pack(count.depth);
            // What is filled in for the time before does not count in this part, what was counted in it does.
            part.depth = match (part.depth, depth) {
                (known, NO_DEPTH) if new == 0 => known,
                (known, depth) if new == 0 && known != NO_DEPTH => known.max(depth),
                (_, depth) => depth,
            };
        }
        if let (true, Some(before), Some(after)) = (continues, self.last.delivered, count.delivered) {
            // A count that went back began anew.
            let delivered = after.checked_sub(before).unwrap_or(after);
            self.spread(delivered, span, usize::try_from(new).unwrap_or(0).max(1));
        }
        self.last = count;
    }

    /// What was delivered since the sample before, over the parts since then.
    fn spread(&mut self, delivered: u64, span: Duration, over: usize) {
        let parts = u64::try_from(over).unwrap_or(1);
        let delivered = clamped(delivered);
        let millis = clamped(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        let skipped = self.parts.len().saturating_sub(over);
        for (at, part) in (0..parts).zip(self.parts.iter_mut().skip(skipped)) {
            let share = |all: u32| u64::from(all) * (at + 1) / parts - u64::from(all) * at / parts;
            part.delivered = part.delivered.saturating_add(clamped(share(delivered)));
            part.millis = part.millis.saturating_add(clamped(share(millis)));
        }
    }

    /// The greatest depth in each column of the time before the last sample.
    #[must_use]
    pub fn depths(&self, reach: Duration, columns: usize) -> Series {
        let depths = |parts: &mut dyn Iterator<Item = &Part>| {
            let known = parts.filter(|part| part.depth != NO_DEPTH);
            known.map(|part| u64::from(part.depth)).max()
        };
        self.columns(reach, columns, depths)
    }

    /// Deliveries a second (thousandths) in each column of that time.
    #[must_use]
    pub fn rates(&self, reach: Duration, columns: usize) -> Series {
        let rates = |parts: &mut dyn Iterator<Item = &Part>| {
            let (delivered, millis) = parts.fold((0_u64, 0_u64), |(delivered, millis), part| {
                (delivered + u64::from(part.delivered), millis + u64::from(part.millis))
            });
            (delivered * 1_000_000).checked_div(millis)
        };
        self.columns(reach, columns, rates)
    }

    fn columns(
        &self,
        reach: Duration,
        columns: usize,
        number: impl Fn(&mut dyn Iterator<Item = &Part>) -> Option<u64>,
    ) -> Series {
        let wanted = usize::try_from(reach.as_secs()).unwrap_or(usize::MAX) / usize::try_from(PART_S).unwrap_or(1);
        let wanted = wanted.clamp(1, PARTS_MAX);
        let column = |column: usize| {
            // Parts from the right; where a part is wider than a column, several columns show it.
            let from = (columns - 1 - column) * wanted / columns;
            let to = ((columns - column) * wanted / columns).max(from + 1);
            let mut parts = self.parts.iter().rev().skip(from).take(to - from);
            number(&mut parts)
        };
        (0..columns).map(column).collect()
    }
}

/// The tracks that there are.
#[derive(Clone, Debug, Default)]
pub struct Tracks {
    tracks: HashMap<Subject, Track>,
    /// What was looked at, the latest last.
    looked: VecDeque<Subject>,
}

impl Tracks {
    /// The track of a queue or an endpoint.
    #[must_use]
    pub fn of(&self, subject: &Subject) -> Option<&Track> {
        self.tracks.get(subject).filter(|track| !track.parts.is_empty())
    }

    /// Somebody looks at it: from now on it has a track.
    pub fn look_at(&mut self, subject: &Subject) {
        if !matches!(subject, Subject::Queue(_) | Subject::Endpoint(_)) {
            return;
        }
        self.looked.retain(|known| known != subject);
        if self.looked.len() == LOOKED_MAX {
            self.looked.pop_front();
        }
        self.looked.push_back(subject.clone());
    }

    /// Adds what a snapshot says; `refresh`: how often there is one.
    pub fn record(&mut self, snapshot: &Snapshot, refresh: Duration) {
        let apart = apart(refresh);
        if snapshot.queues.len() + snapshot.endpoints.len() <= TRACKS_MAX {
            for row in snapshot.queues.iter() {
                self.queue(snapshot, row, apart);
            }
            for row in snapshot.endpoints.iter() {
                self.endpoint(snapshot, row, apart);
            }
        } else {
            self.some(snapshot, apart);
        }
        self.forget(snapshot.taken_at);
    }

    /// Those that were looked at, and the worst.
    fn some(&mut self, snapshot: &Snapshot, apart: Duration) {
        let looked = self.looked.clone();
        let mut urls: HashSet<&EndpointUrl> = HashSet::new();
        for subject in &looked {
            if let Subject::Endpoint(url) = subject {
                urls.insert(url);
            } else if let Subject::Queue(name) = subject
                && let Some(row) = find(&snapshot.queues, name)
            {
                self.queue(snapshot, row, apart);
            }
        }
        for row in &snapshot.worst.queues {
            self.queue(snapshot, row, apart);
        }
        let endpoints = snapshot.endpoints.iter();
        let endpoints = endpoints
            .filter(|row| urls.contains(&row.endpoint.url))
            .take(urls.len());
        for row in endpoints.chain(&snapshot.worst.endpoints) {
            self.endpoint(snapshot, row, apart);
        }
    }

    fn queue(&mut self, snapshot: &Snapshot, row: &QueueRow, apart: Duration) {
        let subject = Subject::Queue(row.name.clone());
        self.add(snapshot, subject, row.depth(), row.delivered(), apart);
    }

    fn endpoint(&mut self, snapshot: &Snapshot, row: &EndpointRow, apart: Duration) {
        let subject = Subject::Endpoint(row.endpoint.url.clone());
        self.add(snapshot, subject, row.waiting, Some(row.delivered), apart);
    }

    /// What could not be read this time is not known, whatever was read before.
    fn add(
        &mut self,
        snapshot: &Snapshot,
        subject: Subject,
        depth: Option<u64>,
        delivered: Option<u64>,
        apart: Duration,
    ) {
        let at = snapshot.taken_at;
        let count = Count {
            at,
            depth: depth.filter(|_| snapshot.broker.problem.is_none()),
            delivered: delivered.filter(|_| snapshot.store.problem.is_none()),
        };
        let track = self.tracks.entry(subject).or_insert_with(|| Track::new(at));
        track.record(count, apart);
    }

    /// What has had no sample for an hour goes; of too many those whose last one is oldest.
    fn forget(&mut self, now: Timestamp) {
        let hour = Duration::from_secs(3_600);
        self.tracks.retain(|_, track| now.since(track.last.at) < hour);
        let over = self.tracks.len().saturating_sub(TRACKS_MAX);
        if over == 0 {
            return;
        }
        let mut ages: Vec<(bool, Timestamp, Subject)> = self
            .tracks
            .iter()
            .map(|(subject, track)| (self.looked.contains(subject), track.last.at, subject.clone()))
            .collect();
        ages.sort_by_key(|(looked, at, _)| (*looked, *at));
        for (.., subject) in ages.into_iter().take(over) {
            self.tracks.remove(&subject);
        }
    }

    /// How many there are.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn len(&self) -> usize {
        self.tracks.len()
    }

    /// Whether there is none.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }
}

/// Samples further apart than this have a gap between them, where there is one every `refresh`.
pub(in crate::console) fn apart(refresh: Duration) -> Duration {
    APART.max(refresh.saturating_mul(3))
}

fn find<'a>(rows: &'a [Arc<QueueRow>], name: &QueueName) -> Option<&'a Arc<QueueRow>> {
    let place = rows.binary_search_by(|row| row.name.cmp(name)).ok()?;
    rows.get(place)
}

const fn part_of(at: Timestamp) -> i64 {
    at.seconds().div_euclid(PART_S)
}

fn pack(depth: Option<u64>) -> u32 {
    depth.map_or(NO_DEPTH, |depth| clamped(depth).min(NO_DEPTH - 1))
}

fn clamped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Depth and delivered at times, in seconds.
    fn track(counts: &[(i64, Option<u64>, Option<u64>)]) -> Track {
        let mut track = Track::new(Timestamp::from_seconds(counts[0].0));
        for (at, depth, delivered) in counts {
            let count = Count {
                at: Timestamp::from_seconds(*at),
                depth: *depth,
                delivered: *delivered,
            };
            track.record(count, APART);
        }
        track
    }

    #[test]
    fn a_part_has_the_greatest_depth_and_the_rate_of_what_was_delivered() {
        let track = track(&[
            (100, Some(5), Some(0)),
            (104, Some(9), Some(40)),
            (108, Some(7), Some(80)),
            (110, Some(1), Some(80)),
            (120, Some(0), Some(100)),
        ]);
        assert_eq!(track.depths(Duration::from_secs(30), 3), [Some(9), Some(1), Some(0)]);
        assert_eq!(
            track.rates(Duration::from_secs(30), 3),
            [Some(10_000), Some(0), Some(2_000)]
        );
    }

    #[test]
    fn what_was_not_sampled_is_a_gap_and_no_zero() {
        let unknown = track(&[(100, Some(5), Some(1)), (110, None, None), (120, Some(3), Some(1))]);
        assert_eq!(
            unknown.depths(Duration::from_secs(40), 4),
            [None, Some(5), None, Some(3)]
        );
        assert_eq!(unknown.rates(Duration::from_secs(40), 4), [None; 4]);
        let away = track(&[
            (100, Some(5), Some(0)),
            (200, Some(4), Some(900)),
            (205, Some(4), Some(905)),
        ]);
        let depths = away.depths(MINUTE * 2, 12);
        assert_eq!(depths.iter().flatten().count(), 2);
        assert_eq!((depths[1], depths[11]), (Some(5), Some(4)));
        assert_eq!(
            away.rates(MINUTE * 2, 12)[11],
            Some(1_000),
            "what came in the gap is of no known time"
        );
    }

    #[test]
    fn samples_that_are_seldom_leave_no_gap() {
        let track = track(&[(100, Some(5), Some(0)), (130, Some(8), Some(30))]);
        assert_eq!(
            track.depths(Duration::from_secs(40), 4),
            [Some(5), Some(5), Some(5), Some(8)]
        );
        assert_eq!(
            track.rates(Duration::from_secs(40), 4),
            [None, Some(1_000), Some(1_000), Some(1_000)]
        );
    }

    #[test]
    fn a_count_that_began_anew_is_not_negative() {
        let track = track(&[(100, Some(0), Some(500)), (110, Some(0), Some(20))]);
        assert_eq!(track.rates(Duration::from_secs(10), 1), [Some(2_000)]);
    }

    #[test]
    fn a_wide_chart_shows_a_part_in_several_columns() {
        let track = track(&[(100, Some(1), None), (110, Some(2), None)]);
        assert_eq!(
            track.depths(Duration::from_secs(20), 4),
            [Some(1), Some(1), Some(2), Some(2)]
        );
    }

    proptest! {
        #[test]
        fn no_times_or_counts_break_it(
            counts in prop::collection::vec((0_i64..20_000, prop::option::of(any::<u64>()), prop::option::of(any::<u64>())), 1..60),
            columns in 0_usize..400,
            reach in 0_u64..10_000,
        ) {
            let track = track(&counts);
            prop_assert!(track.parts.len() <= PARTS_MAX);
            prop_assert_eq!(track.depths(Duration::from_secs(reach), columns).len(), columns);
            prop_assert_eq!(track.rates(Duration::from_secs(reach), columns).len(), columns);
        }
    }
}
