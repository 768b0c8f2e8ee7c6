//! Claims on dead-letter queues. Looks at them keep no rows here: whoever plans walks the queues.

use std::time::Duration;

use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::time::Timestamp;
use redrive::internals::store::{DeadClaim, DeadLooked, DeadQueue, DeadRow};

use super::Rows;

/// A queue with the end of the claim on it.
#[derive(Clone, Debug)]
pub(super) struct Claimed {
    queue: DeadQueue,
    until: Timestamp,
}

impl Rows {
    /// The row of a queue that is claimed under this generation.
    fn dead_held(&mut self, queue: &QueueName, generation: i64) -> Option<&mut Claimed> {
        let held = |one: &&mut Claimed| one.queue.generation == generation && one.queue.claimed_by.is_some();
        self.claims.get_mut(queue).filter(held)
    }

    pub(super) fn dead_claim(
        &mut self,
        now: Timestamp,
        queue: &QueueName,
        who: &str,
        expected: Option<u64>,
        hold: Duration,
    ) -> DeadClaim {
        let until = now.plus(hold);
        let claimed = self.claims.entry(queue.clone()).or_insert_with(|| Claimed {
            queue: DeadQueue {
                name: queue.clone(),
                generation: 0,
                claimed_by: None,
                seen: 0,
                expected: None,
                looked_at: None,
                messages: None,
                looks: 0,
                problem: None,
            },
            until,
        });
        let other = claimed.queue.claimed_by.as_ref().filter(|by| *by != who);
        if other.is_some() && claimed.until > now {
            return DeadClaim::Busy(claimed.queue.clone());
        }
        claimed.until = until;
        claimed.queue.generation += 1;
        claimed.queue.claimed_by = Some(who.to_owned());
        claimed.queue.seen = 0;
        claimed.queue.expected = expected;
        DeadClaim::Claimed(claimed.queue.generation)
    }

    pub(super) fn dead_write(
        &mut self,
        now: Timestamp,
        queue: &QueueName,
        generation: i64,
        rows: &[DeadRow],
        hold: Duration,
    ) -> bool {
        let held = self.dead_held(queue, generation);
        held.map(|claimed| {
            claimed.until = now.plus(hold);
            claimed.queue.seen += rows.len() as u64;
        })
        .is_some()
    }

    pub(super) fn dead_finish(
        &mut self,
        now: Timestamp,
        queue: &QueueName,
        generation: i64,
        looked: &DeadLooked,
    ) -> bool {
        let held = self.dead_held(queue, generation);
        held.map(|claimed| {
            claimed.queue.claimed_by = None;
            claimed.queue.looked_at = Some(now);
            claimed.queue.looks += 1;
            claimed.queue.problem.clone_from(&looked.problem);
            claimed.queue.messages = looked.whole.then_some(looked.messages).or(claimed.queue.messages);
        })
        .is_some()
    }

    pub(super) fn dead_free(&mut self, _: Timestamp, queue: &QueueName, generation: i64) -> bool {
        let held = self.dead_held(queue, generation);
        held.map(|claimed| claimed.queue.claimed_by = None).is_some()
    }

    pub(super) fn dead_stale(&mut self, _: Timestamp, queue: &QueueName) {
        if let Some(claimed) = self.claims.get_mut(queue) {
            claimed.queue.looked_at = None;
        }
    }

    pub(super) fn dead_queues(&mut self, now: Timestamp) -> Vec<DeadQueue> {
        let known = self.claims.values().map(|claimed| {
            let claimed_by = claimed.queue.claimed_by.clone().filter(|_| claimed.until > now);
            DeadQueue {
                claimed_by,
                ..claimed.queue.clone()
            }
        });
        known.collect()
    }
}
