//! An attachment of a client: what it has in hand is back in its place when its channel ends.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use redrive::internals::ambient;
use redrive::internals::broker::{Acked, Attached, Delivery, DeliveryTag, Lost, Next};
use tokio::time::Instant;

use super::client::Line;
use super::server::Attachment;
use super::{Model, Step, way, way_span};

/// A channel that consumes.
pub(super) struct Consumer {
    pub(super) model: Model,
    pub(super) line: Arc<Line>,
    /// That of the connection that it was opened on.
    pub(super) generation: u64,
    pub(super) queue: String,
    pub(super) at: Attachment,
    /// Delivered here, and not settled.
    in_hand: VecDeque<u64>,
    acks: Arc<Mutex<VecDeque<u64>>>,
    last_ack_at: Instant,
    is_closed: bool,
    /// It was told that nothing more comes.
    is_over: bool,
}

impl Consumer {
    pub(super) fn new(model: Model, line: Arc<Line>, generation: u64, queue: String, at: Attachment) -> Self {
        Self {
            model,
            line,
            generation,
            queue,
            at,
            in_hand: VecDeque::new(),
            acks: Arc::default(),
            last_ack_at: Instant::now(),
            is_closed: false,
            is_over: false,
        }
    }

    fn is_lost(&self) -> bool {
        self.line.generation() != self.generation
    }

    /// What is due now; `None`: nothing.
    fn due(&self) -> Option<Next> {
        if self.is_lost() {
            return Some(Next::Lost(Lost::Connection("the connection was cut".to_owned())));
        }
        let mut server = self.model.server();
        let rules = server.rules;
        let Some(queue) = server.queues.get_mut(&self.queue) else {
            return Some(Next::Lost(Lost::Cancelled));
        };
        if !queue.consumers.iter().any(|one| one.id == self.at.id) {
            return Some(Next::Lost(Lost::Connection("the channel was closed".to_owned())));
        }
        let next = queue.take(self.at, rules)?;
        if !rules.unsettled_comes_again {
            queue.messages.retain(|one| one.place != next.place);
        }
        Some(Next::Message(Box::new(Delivery {
            tag: DeliveryTag(next.place),
            redelivered: next.redelivered,
            addressed_to: None,
            message: next.message,
        })))
    }

    pub(super) fn arrive(model: &Model, queue: &str, consumer: u64, acks: &Mutex<VecDeque<u64>>) {
        let mut acks = acks.lock().unwrap_or_else(PoisonError::into_inner);
        let settled = model.server().settle(queue, consumer, &mut acks);
        for message in &settled {
            model.note(Step::Settled, queue, message);
        }
    }

    pub(super) fn leave(model: &Model, queue: &str, consumer: u64, acks: &Mutex<VecDeque<u64>>) {
        Self::arrive(model, queue, consumer, acks);
        model.leave(queue, consumer);
    }
}

#[async_trait]
impl Attached for Consumer {
    async fn next(&mut self) -> Next {
        way().await;
        loop {
            let changed = {
                let server = self.model.server();
                server.queues.get(&self.queue).map(|queue| Arc::clone(&queue.changed))
            };
            let Some(changed) = changed else {
                self.is_over = true;
                return self.due().unwrap_or(Next::Lost(Lost::Cancelled));
            };
            let changed = changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(next) = self.due() {
                match &next {
                    Next::Message(delivery) => self.in_hand.push_back(delivery.tag.0),
                    Next::Lost(_) => self.is_over = true,
                    Next::Larger(_) => {}
                }
                return next;
            }
            changed.await;
        }
    }

    /// The socket has it; the server a moment later, after all that was sent before it.
    async fn ack(&mut self, tag: DeliveryTag) -> Acked {
        let settled = self.in_hand.iter().position(|one| *one == tag.0);
        let is_in_hand = settled.and_then(|at| self.in_hand.remove(at)).is_some();
        if !is_in_hand || self.is_over || self.is_lost() {
            return Acked::Lost;
        }
        let at = self.last_ack_at.max(Instant::now() + way_span());
        self.last_ack_at = at;
        self.acks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(tag.0);
        let (queue, consumer, acks) = (self.queue.clone(), self.at.id, Arc::clone(&self.acks));
        self.model
            .later(at.saturating_duration_since(Instant::now()), move |model| {
                Self::arrive(model, &queue, consumer, &acks);
            });
        if ambient::random().is_multiple_of(2) {
            way().await;
        }
        Acked::Sent
    }

    async fn close(mut self: Box<Self>) {
        way().await;
        if !self.is_lost() {
            self.is_closed = true;
            Self::leave(&self.model, &self.queue, self.at.id, &self.acks);
        }
        way().await;
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        if self.is_closed || self.is_lost() {
            // Whoever cut the connection says when the server notices.
            return;
        }
        let (queue, consumer, acks) = (self.queue.clone(), self.at.id, Arc::clone(&self.acks));
        self.model.later(way_span(), move |model| {
            Self::leave(model, &queue, consumer, &acks);
        });
    }
}
