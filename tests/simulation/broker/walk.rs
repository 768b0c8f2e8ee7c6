//! A walk over a queue: everything that it passed is in its hand until it is settled, or the walk ends.

use std::collections::VecDeque;

use async_trait::async_trait;
use redrive::internals::broker::{BrokerError, DeliveryTag, Walk, Walked};

use super::server::Attachment;
use super::{Model, Step, way};

/// A walk.
pub(super) struct Walking {
    pub(super) model: Model,
    pub(super) queue: String,
    pub(super) at: Attachment,
    pub(super) position: u64,
    pub(super) again: u64,
    pub(super) is_closed: bool,
}

impl Walking {
    fn end(&mut self) {
        self.is_closed = true;
        self.model.leave(&self.queue, self.at.id);
    }
}

#[async_trait]
impl Walk for Walking {
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, BrokerError> {
        way().await;
        let mut walked = Vec::new();
        let mut server = self.model.server();
        let rules = server.rules;
        while walked.len() < limit
            && let Some(queue) = server.queues.get_mut(&self.queue)
            && let Some(stored) = queue.take(self.at, rules)
        {
            self.position += 1;
            self.again += u64::from(stored.redelivered);
            walked.push(Walked {
                tag: DeliveryTag(stored.place),
                position: self.position,
                redelivered: stored.redelivered,
                exchange: String::new(),
                routing_key: self.queue.clone(),
                message: stored.message,
            });
        }
        Ok(walked)
    }

    fn is_cut(&self) -> bool {
        false
    }

    async fn settle(&mut self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        way().await;
        let mut places: VecDeque<u64> = tags.iter().map(|tag| tag.0).collect();
        let settled = self.model.server().settle(&self.queue, self.at.id, &mut places);
        for message in &settled {
            self.model.note(Step::Settled, &self.queue, message);
        }
        Ok(())
    }

    async fn close(mut self: Box<Self>) -> Result<u64, BrokerError> {
        way().await;
        self.end();
        Ok(self.again)
    }
}

impl Drop for Walking {
    fn drop(&mut self) {
        if !self.is_closed {
            self.end();
        }
    }
}
