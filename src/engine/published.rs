//! Quorum queues that this process published to a moment ago: the broker lists them with a count that is some seconds old.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ambient::HashMap;
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;

/// How old a listed count may be: the broker counts a quorum queue every five seconds.
const LAG: Duration = Duration::from_secs(10);
/// Queues that are remembered, at most.
const QUEUES_MAX: usize = 10_000;
/// Between two searches for those that may be forgotten, where as many are remembered: a publish waits for none of them.
const SWEEP: Duration = Duration::from_secs(1);

/// What was published last to which of them, in the store's time.
#[derive(Debug, Default)]
pub(super) struct PublishedLately(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    queues: HashMap<QueueName, Timestamp>,
    swept_at: Option<Timestamp>,
}

impl Known {
    fn sweep(&mut self, now: Timestamp) {
        self.queues.retain(|_, at| now.since(*at) < LAG);
        self.swept_at = Some(now);
    }
}

impl PublishedLately {
    /// The broker confirmed what was published at that time.
    pub(super) fn note(&self, queue: &QueueName, at: Timestamp) {
        let mut known = self.lock();
        if known.queues.len() >= QUEUES_MAX && known.swept_at.is_none_or(|swept| at.since(swept) >= SWEEP) {
            known.sweep(at);
        }
        if known.queues.len() < QUEUES_MAX || known.queues.contains_key(queue) {
            known.queues.insert(queue.clone(), at);
        }
    }

    /// A worker found it empty.
    pub(super) fn forget(&self, queue: &QueueName) {
        self.lock().queues.remove(queue);
    }

    /// Those whose listed count may be older, with the time of the last publish.
    pub(super) fn lately(&self, now: Timestamp) -> HashMap<QueueName, Timestamp> {
        let mut known = self.lock();
        known.sweep(now);
        known.queues.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publish_is_remembered_until_it_is_counted_or_a_worker_found_nothing() {
        let published = PublishedLately::default();
        let at = Timestamp::from_seconds;
        let queue = |name: &str| QueueName::parse(name).unwrap();
        published.note(&queue("a"), at(10));
        published.note(&queue("b"), at(12));
        published.note(&queue("c"), at(12));
        published.forget(&queue("c"));
        assert_eq!(published.lately(at(15)).len(), 2);
        assert_eq!(published.lately(at(20)), [(queue("b"), at(12))].into_iter().collect());
    }
}
