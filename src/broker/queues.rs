//! Queues as such: whether they are there, what they are bound to, and their end. What is in them is not looked at.

use async_trait::async_trait;

use super::{BrokerError, Deleted, Look};
use crate::domain::id::QueueName;
use crate::domain::job::Lifetime;
use crate::domain::naming::QueueType;

/// Looks at queues, makes them, binds and unbinds them, deletes them, and says that they have something.
#[async_trait]
pub trait Queues: Send + Sync {
    /// Exact look at a delivery queue, on a channel of its own (AMQP passive declare). An answer that
    /// is neither *there* nor *not there* (node down, right missing) is an error.
    async fn look(&self, queue: &QueueName) -> Result<Look, BrokerError>;

    /// Declares a delivery queue with its fixed arguments and binds it. Only for a queue that
    /// [`Queues::look`] found missing.
    async fn create(&self, queue: &QueueName) -> Result<(), BrokerError>;

    /// Declares a durable queue that the broker deletes after `lifetime` without a consumer (`None`: never),
    /// and binds it by its name. [`BrokerError::OtherArguments`] when it exists with another lifetime.
    async fn declare_expiring(&self, queue: &QueueName, lifetime: Lifetime) -> Result<(), BrokerError>;

    /// Declares a durable queue with the arguments that one of that name was listed with; it may be bound to nothing.
    async fn declare_again(&self, queue: &QueueName, arguments: &[(String, String)]) -> Result<(), BrokerError>;

    /// Begins the time of a queue with a lifetime anew, where a declare does that (not on quorum queues).
    async fn renew(&self, queue: &QueueName) -> Result<Look, BrokerError>;

    /// Unbinds a delivery queue, so that every publisher gets a return.
    async fn unbind(&self, queue: &QueueName) -> Result<(), BrokerError>;

    /// [`Queues::unbind`] for many; after an error nobody knows which are still bound, and it may be done again.
    async fn unbind_all(&self, queues: &[QueueName]) -> Result<(), BrokerError> {
        for queue in queues {
            self.unbind(queue).await?;
        }
        Ok(())
    }

    /// Binds an existing delivery queue again. [`Look::Missing`] when it does not exist.
    async fn bind(&self, queue: &QueueName) -> Result<Look, BrokerError>;

    /// Deletes an unbound, empty, unused delivery queue; never anything else (classic: if-empty and
    /// if-unused; quorum: a second look at the count).
    async fn delete_empty(&self, queue: &QueueName) -> Result<Deleted, BrokerError>;

    /// Deletes a queue of any kind that is empty and unused. Classic: if-empty and if-unused; quorum: a second look
    /// at the count, in hand and ready, which is not atomic.
    async fn delete_unused(&self, queue: &QueueName, queue_type: QueueType) -> Result<Deleted, BrokerError>;

    /// Deletes whatever is in it; only for a plan that said so.
    async fn delete_whole(&self, queue: &QueueName) -> Result<Deleted, BrokerError>;

    /// Says that a queue has something (lossy, at most one a second and queue).
    async fn nudge(&self, queue: &QueueName);
}
