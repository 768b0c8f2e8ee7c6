//! Queues that this process could not attach, or whose first message it could not dead-letter, because the broker
//! refused it, and why: `why`, `doctor` and `/readyz` tell it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ambient::HashMap;
use crate::domain::id::QueueName;
use crate::domain::text;
use crate::domain::time::Timestamp;
use crate::domain::words::plural_of;

/// A reason is at most this wide.
const WIDTH_MAX: usize = 300;
/// Queues that are remembered, at most.
const QUEUES_MAX: usize = 10_000;
/// How long a refusal is told: a worker tries again sooner, unless another process has the queue.
const TOLD_FOR: Duration = Duration::from_mins(1);

/// The refusals of the last minute.
#[derive(Debug, Default)]
pub(super) struct Unattached {
    queues: Mutex<HashMap<QueueName, Refusal>>,
}

/// What the broker refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Attach,
    DeadLetter,
}

#[derive(Clone, Debug)]
struct Refusal {
    step: Step,
    why: String,
    since: Timestamp,
    /// The last one.
    at: Timestamp,
}

impl Unattached {
    /// The broker refused it.
    pub(super) fn note(&self, queue: &QueueName, step: Step, why: String, now: Timestamp) {
        let mut queues = self.lock();
        if queues.len() >= QUEUES_MAX && !queues.contains_key(queue) {
            return;
        }
        let known = queues.get(queue).filter(|known| now.since(known.at) < TOLD_FOR);
        let since = known.map_or(now, |known| known.since);
        let refusal = Refusal {
            step,
            why,
            since,
            at: now,
        };
        queues.insert(queue.clone(), refusal);
    }

    /// It was done.
    pub(super) fn forget(&self, queue: &QueueName) {
        self.lock().remove(queue);
    }

    /// What could not be done with each, and why.
    pub(super) fn reasons(&self, now: Timestamp) -> HashMap<QueueName, String> {
        let queues = self.recent(now);
        queues
            .iter()
            .map(|(queue, refusal)| {
                let what = match refusal.step {
                    Step::Attach => "could not attach it",
                    Step::DeadLetter => "could not dead-letter its first message",
                };
                let why = text::show(&refusal.why, WIDTH_MAX);
                (
                    queue.clone(),
                    format!("{what}, and tries again every few seconds: {why}"),
                )
            })
            .collect()
    }

    /// All of them in one sentence, and since when; `None`: there are none.
    pub(super) fn problem(&self, now: Timestamp) -> Option<(String, Timestamp)> {
        let queues = self.recent(now);
        let since = queues.values().map(|refusal| refusal.since).min()?;
        let last = queues.values().max_by_key(|refusal| refusal.at)?;
        let count = plural_of(queues.len(), "queue", "queues");
        let what = match last.step {
            Step::Attach => "could not be attached",
            Step::DeadLetter => "could not dead-letter what comes first",
        };
        Some((format!("{count} {what}: {}", last.why), since))
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
        unattached.note(&queue("a"), Step::Attach, "rights".to_owned(), at(10));
        unattached.note(&queue("b"), Step::Attach, "limit".to_owned(), at(40));
        unattached.note(&queue("a"), Step::Attach, "rights".to_owned(), at(50));
        assert_eq!(unattached.reasons(at(51)).len(), 2);
        let told = ("2 queues could not be attached: rights".to_owned(), at(10));
        assert_eq!(unattached.problem(at(51)), Some(told));
        unattached.forget(&queue("a"));
        let told = ("1 queue could not be attached: limit".to_owned(), at(40));
        assert_eq!(unattached.problem(at(51)), Some(told));
        assert_eq!(unattached.problem(at(100)), None);
        unattached.note(&queue("c"), Step::DeadLetter, "its queue is full".to_owned(), at(200));
        let told = "could not dead-letter its first message, and tries again every few seconds: its queue is full";
        assert_eq!(unattached.reasons(at(201))[&queue("c")], told);
        let told = (
            "1 queue could not dead-letter what comes first: its queue is full".to_owned(),
            at(200),
        );
        assert_eq!(unattached.problem(at(201)), Some(told));
    }
}
