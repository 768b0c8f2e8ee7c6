//! Queues that this process could not attach, because the broker refused it, and why: `why` and `/readyz` tell it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ambient::HashMap;
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;
use crate::domain::words::plural_of;

/// Queues that are remembered, at most.
const QUEUES_MAX: usize = 10_000;
/// How long a refusal is told: a worker tries again sooner, unless another process has the queue.
const TOLD_FOR: Duration = Duration::from_mins(1);

/// The refusals of the last minute.
#[derive(Debug, Default)]
pub(super) struct Unattached {
    queues: Mutex<HashMap<QueueName, Refusal>>,
}

#[derive(Clone, Debug)]
struct Refusal {
    why: String,
    since: Timestamp,
    /// The last one.
    at: Timestamp,
}

impl Unattached {
    /// The broker refused it.
    pub(super) fn note(&self, queue: &QueueName, why: String, now: Timestamp) {
        let mut queues = self.lock();
        if queues.len() >= QUEUES_MAX && !queues.contains_key(queue) {
            return;
        }
        let known = queues.get(queue).filter(|known| now.since(known.at) < TOLD_FOR);
        let since = known.map_or(now, |known| known.since);
        queues.insert(queue.clone(), Refusal { why, since, at: now });
    }

    /// It is attached.
    pub(super) fn forget(&self, queue: &QueueName) {
        self.lock().remove(queue);
    }

    /// Why each could not be attached.
    pub(super) fn reasons(&self, now: Timestamp) -> HashMap<QueueName, String> {
        let queues = self.recent(now);
        queues
            .iter()
            .map(|(queue, refusal)| (queue.clone(), refusal.why.clone()))
            .collect()
    }

    /// All of them in one sentence, and since when; `None`: there are none.
    pub(super) fn problem(&self, now: Timestamp) -> Option<(String, Timestamp)> {
        let queues = self.recent(now);
        let since = queues.values().map(|refusal| refusal.since).min()?;
        let last = queues.values().max_by_key(|refusal| refusal.at)?;
        let count = plural_of(queues.len(), "queue", "queues");
        Some((format!("{count} could not be attached: {}", last.why), since))
    }

    fn recent(&self, now: Timestamp) -> MutexGuard<'_, HashMap<QueueName, Refusal>> {
        let mut queues = self.lock();
        queues.retain(|_, refusal| now.since(refusal.at) < TOLD_FOR);
        queues
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<QueueName, Refusal>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_until_the_queue_is_attached_or_nobody_tries_any_more() {
        let unattached = Unattached::default();
        let at = Timestamp::from_seconds;
        let queue = |name: &str| QueueName::parse(name).unwrap();
        assert_eq!(unattached.problem(at(0)), None);
        unattached.note(&queue("a"), "rights".to_owned(), at(10));
        unattached.note(&queue("b"), "limit".to_owned(), at(40));
        unattached.note(&queue("a"), "rights".to_owned(), at(50));
        assert_eq!(unattached.reasons(at(51)).len(), 2);
        let told = ("2 queues could not be attached: rights".to_owned(), at(10));
        assert_eq!(unattached.problem(at(51)), Some(told));
        unattached.forget(&queue("a"));
        let told = ("1 queue could not be attached: limit".to_owned(), at(40));
        assert_eq!(unattached.problem(at(51)), Some(told));
        assert_eq!(unattached.problem(at(100)), None);
    }
}
