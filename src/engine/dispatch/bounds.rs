//! How many of each kind may be worked on at once (docs/protocols.md 16, 35).
//!
//! Pure. `workers` bounds attempts that can still proceed: a share of them is kept for URLs that nobody has tried,
//! and at most half is theirs, so that those which answer and those which were never asked do not wait for each
//! other. A quarter is kept for those that answer this process: that a URL answered an earlier one is no reason that it
//! does today, and of those there may be any number. A request that hangs leaves the workers and counts among the slow ones. At the bound of these nothing is
//! begun that is likely to hang: URLs known for it wait. A request that was begun in good faith and turns out slow
//! leaves the workers even so, up to some times the bound: it would stand in the way of those that proceed.
//!
//! Why some times, and why sooner than after two seconds where nobody has answered this process: 1,350 of 1,500 new URLs
//! hang, with 512 workers and 512 slow requests. Half of the workers are for first contacts, 256. If each left after
//! two seconds, the last would be begun after 1,350 / 256 × 2 s = 10.5 s; if only 512 might leave, the workers of all
//! first contacts would be taken after 768 of them, until the first requests end by their timeout. Neither begins each
//! first contact within ten seconds. With half a second and four times the bound it is 2.6 s.

use crate::engine::candidates::Line;
use crate::engine::holdings::Places;

/// What one slow request may hold of bodies, on average.
const SLOW_BYTES_EACH: usize = 256 * 1024;
/// So many times the bound of slow requests are there at most.
const SLOW_TIMES_MAX: usize = 4;
/// One of so many workers is kept for URLs that nobody has tried.
const KEPT_FOR_FIRST: usize = 8;
/// So many queues of a URL are at work for each request that may be in flight to it, where it is swift and workers are free:
/// the next message is there when a request ends, instead of a way to the broker and back later.
const QUEUES_PER_REQUEST: usize = 8;
/// One of so many is kept for those that answer this process.
const KEPT_FOR_ANSWERING: usize = 4;

/// Whether URLs that nobody has tried wait in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstContacts {
    /// At least one does.
    Wait,
    /// None does.
    Absent,
}

/// The bounds of a daemon.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) workers: usize,
    pub(super) slow_requests: usize,
    /// Bytes that requests which hang hold.
    pub(super) slow_bytes: usize,
}

impl Bounds {
    pub(super) const fn new(workers: usize, slow_requests: usize) -> Self {
        Self {
            workers,
            slow_requests,
            slow_bytes: 0,
        }
    }

    /// Whether one more from `line` may be begun.
    pub(super) fn admits(self, line: Line, places: Places, first: FirstContacts) -> bool {
        let has_worker = places.workers() < self.workers;
        let for_first = self.workers / KEPT_FOR_FIRST;
        let unproven_max = self.workers - self.workers / KEPT_FOR_ANSWERING;
        let may_hang = has_worker && places.remembered + places.first < unproven_max;
        let leaves_first =
            first == FirstContacts::Absent || places.answering + places.remembered < self.workers - for_first;
        match line {
            Line::Answering => has_worker && leaves_first,
            Line::Remembered => may_hang && leaves_first && places.remembered < unproven_max - for_first,
            Line::First => may_hang && places.first < (self.workers / 2).max(1),
            Line::Silent => !self.slow_is_full(places),
        }
    }

    /// How many queues of a swift URL may be at work for each request that may be in flight to it: what waits for a
    /// request takes no worker of those that are scarce.
    pub(super) const fn queues_per_request(self, places: Places) -> usize {
        if places.workers() < self.workers / 2 {
            QUEUES_PER_REQUEST
        } else {
            1
        }
    }

    /// Whether one more probe may be begun: its URL is in trouble, and others of that kind wait too.
    pub(super) fn admits_probe(self, places: Places, probes: usize) -> bool {
        !self.slow_is_full(places) && probes < self.slow_requests.div_ceil(2)
    }

    /// Whether nothing more is begun that is likely to hang.
    pub(super) const fn slow_is_full(self, places: Places) -> bool {
        places.slow >= self.slow_requests || self.slow_bytes >= self.slow_requests.saturating_mul(SLOW_BYTES_EACH)
    }

    /// Whether a request that turned out slow may leave the workers.
    pub(super) const fn takes_one_more_slow(self, places: Places) -> bool {
        let requests_max = self.slow_requests.saturating_mul(SLOW_TIMES_MAX);
        places.slow < requests_max && self.slow_bytes < requests_max.saturating_mul(SLOW_BYTES_EACH)
    }
}

#[cfg(test)]
mod tests {
    use super::FirstContacts::{Absent, Wait};
    use super::*;

    const BOUNDS: Bounds = Bounds::new(16, 8);

    /// While requests that hang hold so many bytes.
    const fn holding(slow_bytes: usize) -> Bounds {
        Bounds { slow_bytes, ..BOUNDS }
    }

    fn places(answering: usize, first: usize, slow: usize) -> Places {
        Places {
            answering,
            first,
            slow,
            ..Places::default()
        }
    }

    #[test]
    fn whatever_hangs_of_those_that_never_answered_this_process_a_quarter_is_left_for_those_that_do() {
        let mut places = places(0, 0, 32);
        for line in [Line::Remembered, Line::First].into_iter().cycle().take(64) {
            if holding(usize::MAX).admits(line, places, Wait) {
                if line == Line::Remembered {
                    places.remembered += 1;
                } else {
                    places.first += 1;
                }
            }
        }
        assert_eq!(places.workers(), 12);
        assert!(holding(usize::MAX).admits(Line::Answering, places, Absent));
        (places.remembered, places.first) = (10, 0);
        assert!(!holding(usize::MAX).admits(Line::Remembered, places, Absent));
        assert!(
            holding(usize::MAX).admits(Line::First, places, Wait),
            "and an eighth for first contacts"
        );
    }

    #[test]
    fn those_that_answer_and_first_contacts_leave_each_other_workers() {
        let cases = [
            // Answering, first, whether a first contact waits: what each line may.
            ((0, 0, Wait), (true, true)),
            ((13, 0, Wait), (true, true)),
            ((14, 0, Wait), (false, true)),
            ((14, 0, Absent), (true, true)),
            ((14, 2, Wait), (false, false)),
            ((0, 8, Wait), (true, false)),
            ((7, 8, Wait), (true, false)),
            ((8, 8, Absent), (false, false)),
        ];
        for ((answering, first, waiting), (answering_may, first_may)) in cases {
            let places = places(answering, first, 0);
            let may = |line| BOUNDS.admits(line, places, waiting);
            assert_eq!(
                (may(Line::Answering), may(Line::First)),
                (answering_may, first_may),
                "{places:?}"
            );
        }
    }

    #[test]
    fn what_hangs_takes_nothing_from_those_that_proceed() {
        let full = places(0, 0, 32);
        assert!(holding(usize::MAX).admits(Line::Answering, full, Wait));
        assert!(holding(usize::MAX).admits(Line::First, full, Wait));
        assert!(!BOUNDS.admits(Line::Silent, full, Wait));
        assert!(
            BOUNDS.admits(Line::Silent, places(16, 0, 7), Wait),
            "it needs no worker"
        );
    }

    #[test]
    fn slow_requests_are_counted_in_bytes_too() {
        let few = places(0, 0, 1);
        assert!(!holding(8 * SLOW_BYTES_EACH - 1).slow_is_full(few));
        assert!(holding(8 * SLOW_BYTES_EACH).slow_is_full(few));
        assert!(holding(8 * SLOW_BYTES_EACH).takes_one_more_slow(few));
        assert!(!holding(32 * SLOW_BYTES_EACH).takes_one_more_slow(few));
        assert!(BOUNDS.takes_one_more_slow(places(0, 0, 31)));
        assert!(!BOUNDS.takes_one_more_slow(places(0, 0, 32)));
    }

    #[test]
    fn a_url_has_more_queues_at_work_than_requests_while_half_of_the_workers_are_free() {
        assert_eq!(BOUNDS.queues_per_request(places(7, 0, 99)), QUEUES_PER_REQUEST);
        assert_eq!(BOUNDS.queues_per_request(places(4, 4, 0)), 1);
    }

    #[test]
    fn a_single_worker_takes_whoever_comes() {
        let one = Bounds::new(1, 1);
        for line in [Line::Answering, Line::Remembered, Line::First, Line::Silent] {
            assert!(one.admits(line, Places::default(), Wait), "{line:?}");
        }
    }
}
