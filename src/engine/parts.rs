//! A delivery queue as commands see it: its companion, then itself (docs/protocols.md 22).
//!
//! What was put back before the head of a queue waits in its companion `NAME.head` and is delivered first. Whoever
//! browses, skips, purges, deletes or moves messages of a queue, under its lease, goes through its parts in this order,
//! and so does what shows or counts what waits in it.

use std::sync::Arc;

use super::EngineError;
use super::core::Core;
use super::delivery::Delivery;
use super::ending::Held;
use super::manage::ManagedLease;
use super::tell::Ending;
use crate::ambient::HashMap;
use crate::broker::{BrokerError, Deleted, ListedQueue, Look};
use crate::domain::id::QueueName;
use crate::domain::queue::QueueRecord;
use crate::store::QueueMark;

impl Core {
    /// The queues on the broker that a delivery queue consists of, in the order of their messages.
    pub(super) fn parts(&self, row: &QueueRecord) -> Vec<QueueName> {
        let companion = row
            .has_companion
            .then(|| QueueName::parse(&self.settings.naming.companion(&row.name)).ok());
        companion.flatten().into_iter().chain([row.name.clone()]).collect()
    }

    /// An exact look at all of it; missing where no part of it is there.
    pub(super) async fn look_at_parts(&self, row: &QueueRecord) -> Result<Look, BrokerError> {
        let mut all = Look::Missing;
        for part in self.parts(row) {
            all = match (all, self.broker.look(&part).await?) {
                (one, Look::Missing) | (Look::Missing, one) => one,
                (
                    Look::Present { ready, consumers },
                    Look::Present {
                        ready: more,
                        consumers: others,
                    },
                ) => Look::Present {
                    ready: ready + more,
                    consumers: consumers + others,
                },
            };
        }
        Ok(all)
    }

    /// All of it as it is listed.
    pub(super) async fn parts_listed(&self, row: &QueueRecord) -> Result<Option<ListedQueue>, BrokerError> {
        let mut all: Option<ListedQueue> = None;
        for part in self.parts(row) {
            let Some(mut listed) = self.broker.queue_detail(&part).await? else {
                continue;
            };
            if let Some(companion) = &all {
                add(&mut listed, companion);
            }
            listed.name = row.name.clone();
            all = Some(listed);
        }
        Ok(all)
    }

    /// What was listed, each companion counted with its queue and not listed itself. Where only the companion is left it
    /// stands for the queue: what waits in it is delivered.
    pub(super) fn with_companions(&self, listed: Vec<ListedQueue>) -> Vec<ListedQueue> {
        let naming = &self.settings.naming;
        // Hardly ever is there one: very many queues are not moved for it.
        if listed.iter().all(|queue| naming.companion_of(&queue.name).is_none()) {
            return listed;
        }
        let (mut queues, mut companions) = (Vec::with_capacity(listed.len()), HashMap::default());
        for queue in listed {
            match naming.companion_of(&queue.name) {
                Some(of) => {
                    companions.insert(of, queue);
                }
                None => queues.push(queue),
            }
        }
        for queue in &mut queues {
            if let Some(companion) = companions.remove(&queue.name) {
                add(queue, &companion);
            }
        }
        queues.extend(
            companions
                .into_iter()
                .map(|(name, queue)| ListedQueue { name, ..queue }),
        );
        queues
    }
}

/// One number that is not known makes the sum unknown, not smaller.
fn add(queue: &mut ListedQueue, companion: &ListedQueue) {
    let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
    queue.ready = sum(queue.ready, companion.ready);
    queue.unacked = sum(queue.unacked, companion.unacked);
    queue.bytes = sum(queue.bytes, companion.bytes);
    queue.oldest_at = queue.oldest_at.into_iter().chain(companion.oldest_at).min();
}

impl Delivery {
    /// Deletes it if nothing is left in it and nothing comes (docs/protocols.md 8); the companion first.
    pub(super) async fn end_parts(self: &Arc<Self>, lease: &ManagedLease) -> Result<Ending, EngineError> {
        let queue = &lease.record.name;
        for companion in self.parts(&lease.record).iter().filter(|part| *part != queue) {
            self.broker.unbind(companion).await?;
            if self.broker.delete_empty(companion).await? == Deleted::InUse {
                return Ok(Ending::GoesOn);
            }
            let gone = QueueMark::Companion(false);
            if !self.store.queue_mark(queue, lease.epoch, gone).await? {
                return Ok(Ending::Lost);
            }
        }
        let held = Held {
            queue: queue.clone(),
            epoch: lease.epoch,
            incarnation: lease.me,
        };
        Ok(self.end_queue(&held).await)
    }
}
