//! Walks of the broker's queues, each with its share of the memory for the window that it has before it.

use async_trait::async_trait;

use super::core::Core;
use crate::broker::{BrokerError, DeliveryTag, Walk, WalkOptions, Walked};
use crate::budget::{SMALL_BYTES, Share, Use};
use crate::domain::id::QueueName;

impl Core {
    /// Walks a queue of the broker. With the whole window that is wished where there is memory for it; else with a
    /// small one, which comes soon: whoever walks may hold a lease, and does not wait for what hangs.
    pub(super) async fn walk(
        &self,
        queue: &QueueName,
        options: WalkOptions,
    ) -> Result<Option<Box<dyn Walk>>, BrokerError> {
        let memory = &self.settings.memory;
        let share = match memory.try_take(Use::InHand, options.window_bytes) {
            Some(share) => share,
            None => memory.take(Use::InHand, SMALL_BYTES).await,
        };
        let options = WalkOptions {
            window_bytes: share.bytes(),
            ..options
        };
        let walk = self.broker.walk(queue, options).await?;
        Ok(walk.map(|walk| -> Box<dyn Walk> { Box::new(SharedWalk { walk, _share: share }) }))
    }
}

struct SharedWalk {
    walk: Box<dyn Walk>,
    _share: Share,
}

#[async_trait]
impl Walk for SharedWalk {
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, BrokerError> {
        self.walk.next(limit).await
    }

    fn is_cut(&self) -> bool {
        self.walk.is_cut()
    }

    async fn settle(&mut self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        self.walk.settle(tags).await
    }

    async fn close(self: Box<Self>) -> Result<u64, BrokerError> {
        self.walk.close().await
    }
}
