//! What is seen of the broker beside the messages, and what is set on it: listings, policies, health. With RabbitMQ the
//! management API tells most of it, and delivery continues without it.

use async_trait::async_trait;

use super::{BrokerError, BrokerHealth, BrokerPolicy, ExchangeDetail, ListRequest, ListedQueue, QueuePage};
use crate::domain::id::QueueName;
use crate::domain::on_broker::{OnBroker, QueueBinding};

/// Lists queues and exchanges, with what is known of them.
#[async_trait]
pub trait Listings: Send + Sync {
    /// Hands on queues, by name, with counts as the broker's statistics have them (they lag some seconds). Where queues
    /// come and go meanwhile, one may be left out or come twice.
    async fn queues_listed(
        &self,
        request: &ListRequest,
        each: &mut (dyn FnMut(ListedQueue) + Send),
    ) -> Result<(), BrokerError>;

    /// All queues in one answer: names, states, arguments and messages, ready and in hand, exact where the
    /// broker says so (its statistics lag some seconds), and nothing else.
    async fn queues_all(&self) -> Result<QueuePage, BrokerError>;

    /// One queue with what is known of it, statistics included.
    async fn queue_detail(&self, queue: &QueueName) -> Result<Option<ListedQueue>, BrokerError>;

    /// One queue as the broker has it, with who consumes it and how it moves; `None`: there is no such queue.
    async fn queue_on_broker(&self, queue: &QueueName) -> Result<Option<OnBroker>, BrokerError> {
        let listed = self.queue_detail(queue).await?;
        Ok(listed.map(|listed| OnBroker {
            queue_type: listed.queue_type,
            state: listed.state,
            consumers: listed.consumers,
            idle_since: listed.idle_since,
            arguments: listed.arguments,
            policy: listed.policy,
            ..OnBroker::default()
        }))
    }

    /// What brings messages into a queue, beside the default exchange; at most [`crate::domain::on_broker::NAMED_MAX`],
    /// and nothing where there is no such queue.
    async fn queue_bindings(&self, queue: &QueueName) -> Result<Vec<QueueBinding>, BrokerError>;

    /// An exchange with what is bound to it; `None`: there is no such exchange.
    async fn exchange_detail(&self, exchange: &str) -> Result<Option<ExchangeDetail>, BrokerError>;
}

/// The policies that people set on the broker.
#[async_trait]
pub trait BrokerPolicies: Send + Sync {
    /// The policies of the vhost, for matching by ourselves.
    async fn policies(&self) -> Result<Vec<BrokerPolicy>, BrokerError>;

    /// Sets a policy, whole.
    async fn policy_put(&self, policy: &BrokerPolicy) -> Result<(), BrokerError>;

    /// Removes a policy; one that is not there is success.
    async fn policy_remove(&self, name: &str) -> Result<(), BrokerError>;
}

/// How the broker is at present.
#[async_trait]
pub trait Health: Send + Sync {
    /// What keeps the broker from taking publishes at present, where that can be found out: cheap enough to
    /// be asked every second.
    async fn blocked(&self) -> Option<String>;

    /// Why what only the management API tells is unknown at present; `None`: it answers, or there is none.
    async fn management_problem(&self) -> Option<String> {
        None
    }

    /// Version, rights, plugins, alarms: for `doctor`, `readyz` and the status line.
    async fn health(&self) -> BrokerHealth;
}
