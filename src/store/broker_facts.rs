//! What a daemon knows of the broker and others read from the store: its policies, and what looks at queues with a
//! delivery limit cost so far (docs/protocols.md 33, 38).

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use crate::domain::id::QueueName;

/// How long it is kept what looks at a queue cost, after the last one: what waits longer was not looked at for so long.
pub(super) const LOOKS_KEPT: Duration = Duration::from_hours(90 * 24);
/// Rows that go in one statement, at most.
pub(super) const LOOKS_TRIMMED: i64 = 1_000;

/// The broker's policies as a daemon read them last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPolicies {
    /// As the engine wrote them.
    pub document: String,
    /// How old that is, by the store's clock.
    pub age: Duration,
}

/// What is known of the broker.
#[async_trait]
pub trait BrokerFacts: Send + Sync {
    /// The name of the broker that the store belongs to; `None`: nobody used it yet.
    async fn broker_name(&self) -> Result<Option<String>, StoreError>;

    /// Says whose the store is from now on, whosever it was.
    async fn broker_name_keep(&self, name: &str) -> Result<(), StoreError>;

    /// The broker's policies as they are now; the ones before are forgotten.
    async fn broker_policies_keep(&self, document: &str) -> Result<(), StoreError>;

    /// The broker's policies as they were kept last; `None`: never.
    async fn broker_policies_kept(&self) -> Result<Option<KeptPolicies>, StoreError>;

    /// What looks at this queue cost its messages now, where it is still `before` in the store: of two who look at the
    /// same time one is told that it has to read anew. What was kept for 90 days without a look goes.
    async fn looks_keep(&self, queue: &QueueName, before: Option<&str>, seen: &str) -> Result<bool, StoreError>;

    /// What looks at this queue cost its messages so far; `None`: nobody looked, or long ago.
    async fn looks_kept(&self, queue: &QueueName) -> Result<Option<String>, StoreError>;
}
