//! Intake queues: bindings to exchanges of others, and many messages in hand at once.
//!
//! A message is handed out by remembering it and settled by deleting its row, so giving everything back is
//! forgetting.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;

use super::registry::Slot;
use super::shared::Shared;
use super::tables::{self, Route, Stored, Window};
use super::{Arrival, failure};
use crate::broker::{Acked, BrokerError, DeliveryTag, Intake, IntakeQueue, Lost, Outgoing, Published, Walked};

const INTAKE: &str = "intake";
/// Bytes of one batch, about.
const BATCH_BYTES: i64 = 8 << 20;

/// Publishes to the queues that are bound to an exchange.
pub(super) async fn publish(shared: &Arc<Shared>, one: &Outgoing) -> Result<Published, BrokerError> {
    let route = Route {
        exchange: one.exchange.clone(),
        routing_key: one.routing_key.clone(),
    };
    let (message, now, shared) = (one.message.clone(), shared.clock.now(), Arc::clone(shared));
    let file = shared.file.clone();
    let stored = file.write(move |connection| {
        Box::pin(async move {
            let queues = tables::message_route(connection, &route, &message, now).await?;
            let arrival = |queue| Arrival {
                shared: Arc::clone(&shared),
                queue,
            };
            Ok(queues.into_iter().map(arrival).collect::<Vec<_>>())
        })
    });
    let arrivals = stored.await.map_err(failure::write("publish"))?;
    Ok(if arrivals.is_empty() {
        Published::Returned
    } else {
        Published::Accepted
    })
}

/// Makes what is missing and consumes.
pub(super) async fn open(
    shared: &Arc<Shared>,
    queue: &IntakeQueue,
    prefetch: u16,
) -> Result<Box<dyn Intake>, BrokerError> {
    let (wanted, now) = (queue.clone(), shared.clock.now());
    let declared = shared.file.write(move |connection| {
        Box::pin(async move {
            let name = wanted.name.as_str();
            tables::queue_declare(&mut *connection, name, now).await?;
            if let Some(exchange) = &wanted.exchange {
                for key in wanted.keys() {
                    tables::bind_key(&mut *connection, name, exchange, key).await?;
                }
            }
            Ok(())
        })
    });
    declared.await.map_err(failure::write(INTAKE))?;
    let Some((id, _)) = shared.find(INTAKE, queue.name.as_str()).await? else {
        return Err(BrokerError::Failed {
            operation: INTAKE,
            detail: format!("queue {:?} was deleted", queue.name.as_str()),
        });
    };
    Ok(Box::new(Taking {
        slot: shared.registry.attach(id),
        shared: Arc::clone(shared),
        queue: id,
        prefetch: usize::from(prefetch.max(1)),
        read_to: 0,
        handed_before: None,
        position: 0,
        unsettled: BTreeSet::new(),
        has_ceased: false,
    }))
}

struct Taking {
    shared: Arc<Shared>,
    queue: i64,
    slot: Arc<Slot>,
    prefetch: usize,
    /// The place of the last message handed out.
    read_to: i64,
    /// What an earlier attachment, or process, may have handed out before; asked at the first message.
    handed_before: Option<i64>,
    position: u64,
    unsettled: BTreeSet<i64>,
    /// Nothing more is handed out.
    has_ceased: bool,
}

impl Taking {
    fn lost(&self) -> Option<Lost> {
        if self.slot.cancelled.load(Ordering::Acquire) {
            return Some(Lost::Cancelled);
        }
        let closed = self.shared.closed.is_cancelled();
        closed.then(|| Lost::Connection("closed by this process".to_owned()))
    }

    /// What is there now. Awaits only before it changes anything, so it may be dropped.
    async fn due(&mut self, limit: usize) -> Result<Vec<Walked>, Lost> {
        let room = self.prefetch.saturating_sub(self.unsettled.len()).min(limit.max(1));
        if room == 0 || !self.shared.registry.is_active(self.queue, &self.slot) {
            return Ok(Vec::new());
        }
        let window = Window {
            messages: u32::try_from(room).unwrap_or(u32::MAX),
            bytes: BATCH_BYTES,
        };
        let readers = self.shared.file.readers();
        let stored = match tables::messages(readers, self.queue, self.read_to, window).await {
            Ok(stored) => stored,
            Err(error @ sqlx::Error::Decode(_)) => return Err(Lost::Undecodable(error.to_string())),
            Err(error) => return Err(Lost::Connection(error.to_string())),
        };
        let taken: Vec<Walked> = stored.into_iter().map(|stored| self.take(stored)).collect();
        self.count();
        Ok(taken)
    }

    fn take(&mut self, stored: Stored) -> Walked {
        let shared = &self.shared;
        let handed_before = *self
            .handed_before
            .get_or_insert_with(|| shared.registry.handed_before(self.queue));
        self.read_to = stored.id;
        self.position += 1;
        self.unsettled.insert(stored.id);
        Walked {
            tag: DeliveryTag(stored.id.unsigned_abs()),
            position: self.position,
            redelivered: stored.id <= handed_before,
            exchange: stored.route.exchange,
            routing_key: stored.route.routing_key,
            message: stored.message,
        }
    }

    fn count(&self) {
        self.slot.in_hand.store(self.unsettled.len() as u64, Ordering::Release);
    }
}

#[async_trait]
impl Intake for Taking {
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, Lost> {
        loop {
            if let Some(lost) = self.lost() {
                return Err(lost);
            }
            if self.has_ceased {
                return Ok(Vec::new());
            }
            let taken = self.due(limit).await?;
            if !taken.is_empty() {
                return Ok(taken);
            }
            tokio::select! {
                () = self.slot.wake.notified() => {}
                () = self.shared.closed.cancelled() => {}
            }
        }
    }

    /// Nobody else removes a binding here.
    async fn bind_again(&mut self) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn cease(&mut self) {
        self.has_ceased = true;
    }

    async fn settle(&mut self, tags: &[DeliveryTag]) -> Acked {
        if self.lost().is_some() {
            return Acked::Lost;
        }
        let ids: Vec<i64> = tags.iter().filter_map(|tag| i64::try_from(tag.0).ok()).collect();
        let (queue, gone) = (self.queue, ids.clone());
        let deleted = self.shared.file.write(move |connection| {
            Box::pin(async move {
                for id in gone {
                    // One that is gone already was settled by somebody else.
                    tables::message_delete(&mut *connection, queue, id).await?;
                }
                Ok(())
            })
        });
        match deleted.await {
            Ok(()) => {
                for id in ids {
                    self.unsettled.remove(&id);
                }
                self.count();
                Acked::Sent
            }
            Err(error) => {
                tracing::warn!(error = ?error, "messages of an intake queue could not be settled");
                Acked::Lost
            }
        }
    }

    async fn close(self: Box<Self>) {}
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.shared.registry.detach(self.queue, &self.slot, self.read_to);
    }
}
