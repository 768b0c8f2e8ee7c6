//! A delivery queue as commands see it: its companion, then itself (docs/protocols.md 22).
//!
//! What was put back before the head of a queue waits in its companion `NAME.head` and is delivered first. Whoever
//! browses, skips, purges, deletes or moves messages of a queue, under its lease, goes through its parts in this order.

use std::sync::Arc;

use super::EngineError;
use super::core::Core;
use super::delivery::Delivery;
use super::ending::Held;
use super::manage::ManagedLease;
use super::tell::Ending;
use crate::broker::{Deleted, Look};
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

    /// The messages that wait in all of it; `None` where the broker does not tell.
    pub(super) async fn depth_of_parts(&self, row: &QueueRecord) -> Option<u64> {
        let mut depth = 0;
        for part in self.parts(row) {
            match self.broker.look(&part).await {
                Ok(Look::Present { ready, .. }) => depth += ready,
                Ok(Look::Missing) => {}
                Err(_) => return None,
            }
        }
        Some(depth)
    }
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
