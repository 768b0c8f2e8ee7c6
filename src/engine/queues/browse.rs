//! A look at the head of any queue: under its lease where it is ours, beside nobody who consumes it, and within what
//! the broker allows for (docs/protocols.md 19, 38).

use super::Queues;
use crate::broker::{Browsed, Look, WalkOptions};
use crate::domain::id::{NotificationId, QueueName};
use crate::domain::message::Message;
use crate::domain::notification::{Decoded, decode};
use crate::domain::queue::{QueueKind, QueueRecord};
use crate::engine::EngineError;
use crate::engine::looks::{Cost, returns_of};
use crate::engine::view::BrowsedMessage;

/// Bytes of bodies in one look; the messages that go over it are the last ones.
const BYTES_MAX: usize = 32 << 20;

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
            let limit = if cost.quorum { 1 } else { limit };
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
        let is_left_over = cost.quorum && cost.limit().is_none() && ready > u64::from(limit);
        let browsed = if is_left_over && self.kind_of(queue) != QueueKind::Delivery {
            browse_in_order(self, queue, limit).await?
        } else {
            self.broker.browse(queue, limit).await?
        };
        if let Some(charge) = charge {
            let returns = browsed.iter().map(|one| returns_of(&one.message)).collect();
            let again = browsed.iter().filter(|one| one.redelivered).count() as u64;
            self.looks.look_ended(charge, returns, again).await;
        }
        Ok(browsed)
    }
}

/// The first messages of a quorum queue, which takes what was given back before too: all of it comes back in its order.
async fn browse_in_order(queues: &Queues, queue: &QueueName, limit: u32) -> Result<Vec<Browsed>, EngineError> {
    let options = WalkOptions {
        quorum: true,
        in_order: true,
        ..WalkOptions::default()
    };
    let Some(mut walk) = queues.walk(queue, options).await? else {
        return Ok(Vec::new());
    };
    let (mut seen, limit) = (Vec::new(), usize::try_from(limit).unwrap_or(usize::MAX));
    let mut bytes = 0;
    while seen.len() < limit && bytes <= BYTES_MAX {
        let walked = walk.next(limit - seen.len()).await?;
        if walked.is_empty() {
            break;
        }
        bytes += walked.iter().map(|one| one.message.body.len()).sum::<usize>();
        seen.extend(walked.into_iter().map(|one| Browsed {
            position: u32::try_from(one.position).unwrap_or(u32::MAX),
            redelivered: one.redelivered,
            message: one.message,
        }));
    }
    walk.close().await?;
    Ok(seen)
}

fn foreign(message: &Message) -> Option<String> {
    match decode(message, &NotificationId::unnamed) {
        Decoded::Foreign(why) => Some(why),
        Decoded::Notification(_) | Decoded::End => None,
    }
}
