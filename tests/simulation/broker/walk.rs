//! A walk over a queue: everything that it passed is in its hand until it is settled, or the walk ends.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use redrive::internals::broker::{BrokerError, DeliveryTag, Walk, Walked};

use super::client::{Line, unreachable};
use super::consumer::Consumer;
use super::server::Attachment;
use super::{Model, way, way_span};

/// A walk.
pub(super) struct Walking {
    model: Model,
    line: Arc<Line>,
    /// That of the connection that it was opened on.
    generation: u64,
    queue: String,
    at: Attachment,
    position: u64,
    again: u64,
    /// Settled here; the server has it a moment later, and certainly where the walk is closed.
    acks: Arc<Mutex<VecDeque<u64>>>,
    is_closed: bool,
}

impl Walking {
    pub(super) fn new(model: Model, line: Arc<Line>, generation: u64, queue: String, at: Attachment) -> Self {
        Self {
            model,
            line,
            generation,
            queue,
            at,
            position: 0,
            again: 0,
            acks: Arc::default(),
            is_closed: false,
        }
    }

    /// The connection was cut, or the server closed the channel, or deleted the queue.
    fn is_lost(&self) -> bool {
        let server = self.model.server();
        let queue = server.queues.get(&self.queue);
        let is_there = queue.is_some_and(|queue| queue.consumers.iter().any(|one| one.id == self.at.id));
        self.line.generation() != self.generation || !is_there
    }
}

#[async_trait]
impl Walk for Walking {
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, BrokerError> {
        way().await;
        if self.is_lost() {
            return Err(unreachable("walk"));
        }
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
        if self.is_lost() {
            return Err(unreachable("settle"));
        }
        let mut acks = self.acks.lock().unwrap_or_else(PoisonError::into_inner);
        acks.extend(tags.iter().map(|tag| tag.0));
        let (queue, consumer, acks) = (self.queue.clone(), self.at.id, Arc::clone(&self.acks));
        self.model.later(way_span(), move |model| {
            Consumer::arrive(model, &queue, consumer, &acks);
        });
        Ok(())
    }

    async fn close(mut self: Box<Self>) -> Result<u64, BrokerError> {
        way().await;
        if self.is_lost() {
            return Err(unreachable("close"));
        }
        self.is_closed = true;
        Consumer::leave(&self.model, &self.queue, self.at.id, &self.acks);
        way().await;
        if self.line.generation() != self.generation {
            return Err(unreachable("close"));
        }
        Ok(self.again)
    }
}

impl Drop for Walking {
    fn drop(&mut self) {
        if self.is_closed || self.line.generation() != self.generation {
            // Whoever cut the connection says when the server notices.
            return;
        }
        let (queue, consumer, acks) = (self.queue.clone(), self.at.id, Arc::clone(&self.acks));
        self.model.later(way_span(), move |model| {
            Consumer::leave(model, &queue, consumer, &acks);
        });
    }
}
