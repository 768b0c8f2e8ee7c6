//! How much of the broker a part of the executions or URLs takes: its delivery queues, and the bytes that wait in them.

use super::{Engine, EngineError};
use crate::ambient::HashSet;
use crate::broker::{ListRequest, ListedQueue, WhichQueues};
use crate::domain::id::{ExecutionId, QueueName};
use crate::domain::url::EndpointUrl;
use crate::store::QueuesOnly;

/// What a message counts for beside its body: it takes room even where that is empty.
pub const MESSAGE_BYTES: u64 = 512;

/// What is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The delivery queues.
    pub queues: HashSet<QueueName>,
    /// Bytes of the bodies in them and [`MESSAGE_BYTES`] for each message, as the broker's statistics have it (they lag
    /// some seconds).
    pub bytes: u64,
}

impl Engine {
    /// The queues of which `is_counted` says so, without their bytes. Reads every row of the store.
    ///
    /// # Errors
    /// The store could not be asked.
    pub async fn usage(
        &self,
        is_counted: impl Fn(&ExecutionId, &EndpointUrl) -> bool + Send,
    ) -> Result<Usage, EngineError> {
        let mut usage = Usage::default();
        let mut pages = self.0.queue_pages(QueuesOnly::All);
        while let Some(rows) = pages.next().await? {
            let counted = rows.into_iter().filter(|row| match (&row.execution, &row.url) {
                (Some(execution), Some(url)) => is_counted(execution, url),
                _ => false,
            });
            usage.queues.extend(counted.map(|row| row.name));
        }
        Ok(usage)
    }
}

impl Usage {
    /// The same with their bytes. Reads every queue of the vhost.
    ///
    /// # Errors
    /// The broker could not be asked.
    pub async fn with_bytes(mut self, engine: &Engine) -> Result<Self, EngineError> {
        if self.queues.is_empty() {
            return Ok(self);
        }
        let request = ListRequest {
            which: WhichQueues::All,
            bytes: true,
        };
        let mut bytes = 0;
        let naming = &engine.0.settings.naming;
        let mut each = |queue: ListedQueue| {
            let of = naming.companion_of(&queue.name);
            if self.queues.contains(of.as_ref().unwrap_or(&queue.name)) {
                let messages = queue.ready.unwrap_or(0) + queue.unacked.unwrap_or(0);
                bytes += queue.bytes.unwrap_or(0) + messages.saturating_mul(MESSAGE_BYTES);
            }
        };
        engine.0.broker.queues_listed(&request, &mut each).await?;
        self.bytes += bytes;
        Ok(self)
    }
}
