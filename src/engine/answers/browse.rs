//! A look at the head of any queue: under its lease where it is ours, beside nobody who consumes it, and within what
//! the broker allows for (PROTOCOLS.md 19, 38).

use std::time::Duration;

use crate::broker::{Browsed, ListedQueue, Look};
use crate::domain::id::QueueName;
use crate::domain::message::Message;
use crate::domain::notification::{Decoded, decode};
use crate::domain::queue::{QueueKind, QueueRecord};
use crate::engine::looks::returns_of;
use crate::engine::view::BrowsedMessage;
use crate::engine::{EngineError, Inner};

/// How long a consumer that leaves may still be counted.
const LEAVES: Duration = Duration::from_secs(2);
/// Between two looks at whether it left.
const AGAIN: Duration = Duration::from_millis(200);

/// What a look at a queue costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    Nothing,
    /// Each look counts, and a message outlives `limit` returns; `in_hand` messages are somebody's.
    Counts {
        limit: u64,
        in_hand: u64,
    },
}

impl Inner {
    pub(super) async fn browse(&self, queue: &QueueName, limit: u32) -> Result<Vec<BrowsedMessage>, EngineError> {
        if !(1..=500).contains(&limit) {
            return Err(EngineError::Invalid {
                field: "limit".to_owned(),
                message: "limit must be 1 to 500".to_owned(),
            });
        }
        let cost = self.cost_of(queue).await?;
        let browsed = if self.kind_of(queue) == QueueKind::Delivery {
            self.under_lease(queue, "browse", |lease| async move {
                self.browse_parts(&lease.record, limit, cost).await
            })
            .await?
        } else {
            self.browse_alone(queue, limit, cost).await?
        };
        Ok(browsed
            .into_iter()
            .map(|one| BrowsedMessage {
                position: one.position,
                foreign: foreign(&one.message),
                message: one.message,
                redelivered: one.redelivered,
            })
            .collect())
    }

    /// What is declared by us costs nothing, and is known without the management API; of what others declared nothing
    /// is known without it.
    async fn cost_of(&self, queue: &QueueName) -> Result<Cost, EngineError> {
        let listed = match self.broker.queue_detail(queue).await {
            Ok(Some(listed)) => listed,
            // The look itself says that there is none.
            Ok(None) => return Ok(Cost::Nothing),
            Err(error) if self.is_declared_by_us(queue) => {
                tracing::debug!(queue = ?queue, error = ?error, "a queue of ours is looked at as it was declared");
                return Ok(Cost::Nothing);
            }
            Err(error) => {
                return Err(EngineError::Refused {
                    why: format!(
                        "queue {:?} is not looked at: whether a look costs its messages a delivery is not known ({})",
                        queue.as_str(),
                        crate::engine::error::chain(&error)
                    ),
                });
            }
        };
        let Some(limit) = self.limit_of(&listed).await? else {
            return Ok(Cost::Nothing);
        };
        self.unless_returned_by_others(queue, &listed, limit).await?;
        Ok(Cost::Counts {
            limit,
            in_hand: listed.unacked.unwrap_or(0),
        })
    }

    fn is_declared_by_us(&self, queue: &QueueName) -> bool {
        match self.kind_of(queue) {
            QueueKind::Delivery | QueueKind::DeadLetter | QueueKind::Wake | QueueKind::Job => true,
            QueueKind::Intake | QueueKind::Foreign => false,
        }
    }

    /// A message shows its returns only once it is in hand, and then it is too late for one that had the last. Before the
    /// first look the broker's own count of redeliveries says how many a message can have had at most.
    async fn unless_returned_by_others(
        &self,
        queue: &QueueName,
        listed: &ListedQueue,
        limit: u64,
    ) -> Result<(), EngineError> {
        let redelivered = listed.redelivered.unwrap_or(0);
        if redelivered == 0 || redelivered + 2 <= limit || self.store.looks_kept(queue).await?.is_some() {
            return Ok(());
        }
        Err(EngineError::Refused {
            why: format!(
                "queue {:?} is not looked at: the broker drops a message after {limit} returns, and delivered messages of it \
                 {redelivered} times again already, so that a look could be the last; raise the limit with a policy that \
                 sets `delivery-limit`",
                queue.as_str()
            ),
        })
    }

    /// Up to `limit` messages of a delivery queue from its head on: what was put before it, then itself.
    async fn browse_parts(&self, row: &QueueRecord, limit: u32, cost: Cost) -> Result<Vec<Browsed>, EngineError> {
        let mut seen: Vec<Browsed> = Vec::new();
        for part in self.parts(row).iter().filter(|part| **part != row.name) {
            if self.broker.look(part).await? != Look::Missing {
                let cost = self.cost_of(part).await?;
                seen = self.browse_alone(part, limit, cost).await?;
            }
        }
        let before = u32::try_from(seen.len()).unwrap_or(limit);
        if before < limit {
            let more = self.browse_alone(&row.name, limit - before, cost).await?;
            seen.extend(more.into_iter().map(|one| Browsed {
                position: one.position + before,
                ..one
            }));
        }
        Ok(seen)
    }

    async fn browse_alone(&self, queue: &QueueName, limit: u32, cost: Cost) -> Result<Vec<Browsed>, EngineError> {
        let ready = self.unconsumed(queue).await?;
        let Cost::Counts {
            limit: allowed,
            in_hand,
        } = cost
        else {
            return Ok(self.broker.browse(queue, limit).await?);
        };
        let charge = self
            .look_begins(queue, allowed, Some(ready.saturating_add(in_hand)))
            .await?;
        let browsed = self.broker.browse(queue, limit).await?;
        let returns = browsed.iter().map(|one| returns_of(&one.message)).collect();
        self.look_ended(charge, returns).await;
        Ok(browsed)
    }

    /// Refuses a queue that somebody consumes; answers how many messages are ready. One of ours that just let go may
    /// be counted for a moment, and on a quorum queue so may a look that ended.
    async fn unconsumed(&self, queue: &QueueName) -> Result<u64, EngineError> {
        let deadline = self.clock.uptime() + LEAVES;
        loop {
            let Look::Present { ready, consumers } = self.broker.look(queue).await? else {
                return Ok(0);
            };
            if consumers == 0 {
                return Ok(ready);
            }
            if self.clock.uptime() >= deadline {
                let s = if consumers == 1 { "" } else { "s" };
                return Err(EngineError::Refused {
                    why: format!(
                        "queue {:?} has {consumers} consumer{s}: a look would take messages out of their hands and bring \
                         them out of order; stop what consumes it first",
                        queue.as_str()
                    ),
                });
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

fn foreign(message: &Message) -> Option<String> {
    match decode(message, &crate::engine::worker::unnamed) {
        Decoded::Foreign(why) => Some(why),
        Decoded::Notification(_) | Decoded::End => None,
    }
}
