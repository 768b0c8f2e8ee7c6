//! What looks cost at queues whose messages outlive a limited number of returns (PROTOCOLS.md 38): noted in the store
//! before each of them, message by message, and refused before the broker's limit is near, whoever looks.

use crate::broker::{BrokerError, ListedQueue};
use crate::domain::broker_rules::{Looks, delivery_limit, too_many};
use crate::domain::id::QueueName;
use crate::domain::message::Message;
use crate::domain::naming::QueueType;
use crate::engine::rules::compiled;
use crate::engine::{EngineError, Inner};

/// What a quorum queue writes of earlier deliveries.
const RETURNS: &str = "x-delivery-count";
/// Times that a note is tried where others note at the same time.
const TRIES: u32 = 10;

/// A look that was noted before it began.
#[derive(Debug)]
pub(in crate::engine) struct Charge {
    queue: QueueName,
    before: Looks,
    noted: String,
    present: Option<u64>,
}

/// How often a message was returned before it was delivered now.
pub(in crate::engine) fn returns_of(message: &Message) -> u64 {
    let returns = message.header_integer(RETURNS).unwrap_or(0);
    u64::try_from(returns).unwrap_or(0)
}

impl Inner {
    /// What looks at a queue cost so far.
    pub(in crate::engine) async fn looks_at(&self, queue: &QueueName) -> Result<Looks, EngineError> {
        let kept = self.store.looks_kept(queue).await?;
        Ok(kept.as_deref().map(Looks::read).unwrap_or_default())
    }

    /// Notes one more look at all `present` messages of a queue whose messages outlive `limit` returns; refuses it where
    /// it could be one too many for one of them.
    pub(in crate::engine) async fn look_begins(
        &self,
        queue: &QueueName,
        limit: u64,
        present: Option<u64>,
    ) -> Result<Charge, EngineError> {
        let charged = |before: &Looks| match too_many(before.worst(present), limit) {
            Some(why) => Err(why),
            None => Ok(before.charged(present)),
        };
        self.note_look(queue, present, charged).await
    }

    /// A run takes and passes messages of such a queue: its plan judged that, message by message.
    pub(in crate::engine) async fn run_passes(&self, queue: &QueueName) -> Result<(), EngineError> {
        self.note_look(queue, None, |before| Ok(before.passed()))
            .await
            .map(drop)
    }

    async fn note_look(
        &self,
        queue: &QueueName,
        present: Option<u64>,
        after: impl Fn(&Looks) -> Result<Looks, String>,
    ) -> Result<Charge, EngineError> {
        for _ in 0..TRIES {
            let kept = self.store.looks_kept(queue).await?;
            let before = kept.as_deref().map(Looks::read).unwrap_or_default();
            let noted = after(&before).map_err(|why| EngineError::Refused {
                why: format!("queue {:?} is not looked at: {why}", queue.as_str()),
            })?;
            let noted = noted.written();
            if self.store.looks_keep(queue, kept.as_deref(), &noted).await? {
                return Ok(Charge {
                    queue: queue.clone(),
                    before,
                    noted,
                    present,
                });
            }
        }
        Err(EngineError::Refused {
            why: format!("queue {:?} is looked at by others; try again", queue.as_str()),
        })
    }

    /// The look saw messages with these numbers of returns, from the head on. Where others looked meanwhile, what they
    /// noted holds, which is more.
    pub(in crate::engine) async fn look_ended(&self, charge: Charge, returns: Vec<u64>) {
        let seen = charge.before.seen(returns, charge.present).written();
        let kept = self.store.looks_keep(&charge.queue, Some(&charge.noted), &seen).await;
        if let Err(error) = kept {
            tracing::debug!(queue = ?charge.queue, error = ?error, "a look counts for all messages that it could have seen");
        }
    }

    /// How many returns a message of this queue outlives; `None`: looks cost nothing.
    pub(in crate::engine) async fn limit_of(&self, listed: &ListedQueue) -> Result<Option<u64>, BrokerError> {
        let declared = listed.declared();
        if declared.queue_type != QueueType::Quorum {
            return Ok(None);
        }
        let policies = compiled(&self.broker.policies().await?);
        Ok(delivery_limit(&declared, &policies, self.broker.version().await))
    }
}
