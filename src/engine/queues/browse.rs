//! A look at the head of any queue: under its lease where it is ours, beside nobody who consumes it, and within what
//! the broker allows for (docs/protocols.md 19, 38).

use super::Queues;
use crate::broker::{Browsed, Look};
use crate::domain::id::{NotificationId, QueueName};
use crate::domain::message::Message;
use crate::domain::notification::{Decoded, decode};
use crate::domain::queue::{QueueKind, QueueRecord};
use crate::engine::EngineError;
use crate::engine::looks::{Cost, returns_of};
use crate::engine::view::BrowsedMessage;

impl Queues {
    pub(in crate::engine) async fn browse(
        &self,
        queue: &QueueName,
        limit: u32,
    ) -> Result<Vec<BrowsedMessage>, EngineError> {
        if !(1..=500).contains(&limit) {
            return Err(EngineError::Invalid {
                field: "limit".to_owned(),
                message: "limit must be 1 to 500".to_owned(),
            });
        }
        let _turn = self.page_with_bodies().await?;
        let cost = self.looks.cost_of(queue).await?;
        let browsed = if self.kind_of(queue) == QueueKind::Delivery {
            // Of several that are given back, a quorum queue would put the first behind the others when a worker gives it back
            // in turn (docs/rabbitmq.md, *Where a returned message goes*).
            let limit = if cost.is_quorum() { 1 } else { limit };
            self.under_lease(queue, "browse", |lease| async move {
                self.browse_parts(&lease.record, limit, cost).await
            })
            .await?
        } else {
            self.browse_alone(queue, limit, cost).await?
        };
        // What other applications have in their queues is no notification, and nothing is wrong with that.
        let is_ours = self.kind_of(queue) == QueueKind::Delivery;
        Ok(browsed
            .into_iter()
            .map(|one| BrowsedMessage {
                position: one.position,
                foreign: foreign(&one.message).filter(|_| is_ours),
                message: one.message,
                redelivered: one.redelivered,
            })
            .collect())
    }

    /// Up to `limit` messages of a delivery queue from its head on: what was put before it, then itself.
    async fn browse_parts(&self, row: &QueueRecord, limit: u32, cost: Cost) -> Result<Vec<Browsed>, EngineError> {
        let mut seen: Vec<Browsed> = Vec::new();
        for part in self.parts(row).iter().filter(|part| **part != row.name) {
            if self.broker.look(part).await? != Look::Missing {
                let cost = self.looks.cost_of(part).await?;
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
        if self.broker.look(queue).await? == Look::Missing {
            return Err(EngineError::NotFound {
                what: format!("queue {:?}", queue.as_str()),
            });
        }
        let ready = self.looks.unconsumed(queue).await?;
        let charge = self.looks.look_begins(queue, &cost, Some(ready)).await?;
        let browsed = self.looks.first(queue, &cost, limit).await?;
        if let Some(charge) = charge {
            let returns = browsed.iter().map(|one| returns_of(&one.message)).collect();
            let again = browsed.iter().filter(|one| one.redelivered).count() as u64;
            self.looks.look_ended(charge, returns, again).await;
        }
        Ok(browsed)
    }
}

fn foreign(message: &Message) -> Option<String> {
    match decode(message, &NotificationId::unnamed) {
        Decoded::Foreign(why) => Some(why),
        Decoded::Notification(_) | Decoded::End => None,
    }
}
