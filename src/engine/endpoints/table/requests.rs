//! Requests in flight to one endpoint, and how many of its queues may be at work for them (docs/protocols.md 16).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::micros;

/// An endpoint that answers sooner is swift: the way of the next message from the broker takes a part of that time that
/// counts. It stays so until it takes as long as [`SLOW`].
const SWIFT: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_millis(20);
/// Answers of which the mean is made.
const ANSWERS: i64 = 8;

/// One of the requests that may be in flight, until it is dropped.
pub(in crate::engine) type InFlight = OwnedSemaphorePermit;

/// The requests of one endpoint.
#[derive(Debug)]
pub(in crate::engine) struct Requests {
    at_most: usize,
    free: Arc<Semaphore>,
    /// The mean of the last answers; 0: there were none.
    mean_us: AtomicI64,
    is_swift: AtomicBool,
}

impl Requests {
    pub(super) fn new(at_most: usize) -> Self {
        Self {
            at_most,
            free: Arc::new(Semaphore::new(at_most)),
            mean_us: AtomicI64::new(0),
            is_swift: AtomicBool::new(false),
        }
    }

    /// One of them, when it is free.
    pub(in crate::engine) fn try_begin(&self) -> Option<InFlight> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    /// The next one that is free, in the order in which they are asked for.
    pub(in crate::engine) async fn begin(&self) -> Option<InFlight> {
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    /// One was answered after so long; true when the endpoint is swift by that and was not.
    pub(super) fn answered(&self, took: Duration) -> bool {
        let took = micros(took).max(1);
        let mean = match self.mean_us.load(Ordering::Relaxed) {
            0 => took,
            mean => mean + (took - mean) / ANSWERS,
        };
        self.mean_us.store(mean, Ordering::Relaxed);
        let was = self.is_swift.load(Ordering::Relaxed);
        let is = mean < micros(if was { SLOW } else { SWIFT });
        if is != was {
            self.is_swift.store(is, Ordering::Relaxed);
        }
        is && !was
    }

    /// None was free for so long.
    pub(in crate::engine) fn waited(&self, waited: Duration) {
        self.mean_us.store(micros(waited), Ordering::Relaxed);
        self.is_swift.store(false, Ordering::Relaxed);
    }

    /// Queues that may be at work: one for each request, and so many where the endpoint is swift.
    pub(super) fn queues(&self, each_when_swift: usize) -> usize {
        let is_swift = self.is_swift.load(Ordering::Relaxed);
        self.at_most * if is_swift { each_when_swift } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_swift_by_the_mean_of_its_answers_and_one_that_is_late_changes_nothing() {
        let requests = Requests::new(16);
        let millis = Duration::from_millis;
        assert_eq!(requests.queues(8), 16, "nobody knows how fast it is");
        assert!(requests.answered(millis(4)), "from now on");
        assert!(!requests.answered(millis(4)));
        assert_eq!((requests.queues(8), requests.queues(1)), (128, 16));
        requests.answered(millis(60));
        assert_eq!(requests.queues(8), 128);
        for _ in 0..8 {
            requests.answered(millis(40));
        }
        assert_eq!(requests.queues(8), 16);
    }

    #[test]
    fn one_whose_requests_are_not_free_is_not_swift_until_several_are_answered_soon() {
        let requests = Requests::new(2);
        requests.answered(Duration::from_millis(1));
        let in_flight: Vec<_> = std::iter::from_fn(|| requests.try_begin()).collect();
        assert_eq!(in_flight.len(), 2);
        requests.waited(Duration::from_millis(250));
        assert_eq!(requests.queues(8), 2);
        assert!(!requests.answered(Duration::from_millis(1)));
        let mut answers = std::iter::repeat_with(|| requests.answered(Duration::from_millis(1)));
        assert!(answers.by_ref().take(40).any(|is_new| is_new));
    }
}
