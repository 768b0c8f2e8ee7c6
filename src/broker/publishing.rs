//! How messages come to the broker: each has an answer of its own, and only *accepted* means that it is stored.

use async_trait::async_trait;

use super::{BrokerError, Outgoing, Published};
use crate::domain::id::QueueName;
use crate::domain::message::Message;

/// Publishes messages.
#[async_trait]
pub trait Publishing: Send + Sync {
    /// Publishes to a delivery queue through our own exchange: persistent, mandatory, confirmed within
    /// a bounded time. Only `Accepted` means that it is stored.
    async fn publish(&self, queue: &QueueName, message: &Message) -> Result<Published, BrokerError>;

    /// Publishes a window of messages to any exchanges, side by side in their order: mandatory and
    /// confirmed. Answers in the order asked; each answer is that of its own message. Waits while an alarm holds.
    async fn publish_many(&self, window: &[Outgoing]) -> Vec<Result<Published, BrokerError>>;

    /// Publishes to the dead-letter queue of our family, declaring it when it is missing.
    async fn publish_dead(&self, message: &Message) -> Result<Published, BrokerError>;
}
