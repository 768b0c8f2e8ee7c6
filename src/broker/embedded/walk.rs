//! Walking a queue's rows from the first on. Nothing is taken out before it is settled, so giving back is
//! forgetting; a page is all that is in memory.

use std::sync::Arc;

use async_trait::async_trait;

use super::failure;
use super::shared::Shared;
use super::tables::{self, Window};
use crate::broker::{BrokerError, DeliveryTag, Walk, WalkOptions, Walked};

const WALK: &str = "walk";

pub(super) struct Rows {
    shared: Arc<Shared>,
    queue: i64,
    handed_before: i64,
    read_to: i64,
    position: u64,
    bytes: i64,
}

impl Rows {
    pub(super) fn new(shared: Arc<Shared>, queue: i64, options: WalkOptions) -> Self {
        Self {
            handed_before: shared.registry.handed_before(queue),
            shared,
            queue,
            read_to: 0,
            position: 0,
            bytes: i64::try_from(options.window_bytes).unwrap_or(i64::MAX),
        }
    }
}

#[async_trait]
impl Walk for Rows {
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, BrokerError> {
        let window = Window {
            messages: u32::try_from(limit.max(1)).unwrap_or(u32::MAX),
            bytes: self.bytes,
        };
        let stored = tables::messages(self.shared.file.readers(), self.queue, self.read_to, window);
        let stored = stored.await.map_err(failure::read(WALK))?;
        let walked = stored.into_iter().map(|stored| {
            self.read_to = stored.id;
            self.position += 1;
            Walked {
                tag: DeliveryTag(stored.id.unsigned_abs()),
                position: self.position,
                redelivered: stored.id <= self.handed_before,
                exchange: stored.route.exchange,
                routing_key: stored.route.routing_key,
                message: stored.message,
            }
        });
        Ok(walked.collect())
    }

    fn is_cut(&self) -> bool {
        false
    }

    async fn settle(&mut self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        let (queue, tags) = (self.queue, tags.to_vec());
        let settled = self.shared.file.write(move |connection| {
            Box::pin(async move {
                for tag in tags {
                    // One that is gone already was settled by somebody else.
                    tables::message_delete(connection, queue, i64::try_from(tag.0).unwrap_or(0)).await?;
                }
                Ok(())
            })
        });
        settled.await.map_err(failure::write(WALK))
    }

    async fn close(self: Box<Self>) -> Result<u64, BrokerError> {
        // Nothing here counts.
        Ok(0)
    }
}
