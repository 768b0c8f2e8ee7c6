//! What the embedded broker, its attachments and its listener share, and the steps that several of
//! the seam's methods take.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::expiry::Lifetimes;
use super::registry::Registry;
use super::signals::Signals;
use super::tables::{self, Binding, Counted, Deletion, Removed, Window};
use super::{expiry, failure};
use crate::ambient::Clock;
use crate::broker::{BrokerError, Deleted, ListedQueue, Look, Signal};
use crate::domain::id::QueueName;
use crate::domain::naming::Naming;
use crate::domain::time::Timestamp;
use crate::sqlite::SqliteFile;

/// Bytes of messages that one look shows at most; the first one always.
const BROWSE_BYTES_MAX: i64 = 16 * 1024 * 1024;

/// What the broker shares with its attachments and its listener.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) file: SqliteFile,
    pub(super) naming: Naming,
    pub(super) clock: Clock,
    pub(super) registry: Registry,
    pub(super) signals: Signals,
    pub(super) closed: CancellationToken,
    /// When this process opened the file.
    opened_at: Timestamp,
    pub(super) name: Mutex<String>,
    pub(super) lifetimes: Lifetimes,
    /// Our exchange was seen; it never goes away.
    exchange_seen: AtomicBool,
}

impl Shared {
    /// `opened_behind` is the last message that is in the file already.
    pub(super) fn new(file: SqliteFile, naming: Naming, clock: Clock, opened_behind: i64) -> Self {
        Self {
            file,
            naming,
            registry: Registry::new(opened_behind),
            signals: Signals::new(),
            closed: CancellationToken::new(),
            opened_at: clock.now(),
            name: Mutex::new("embedded".to_owned()),
            lifetimes: Lifetimes::new(clock.clone()),
            exchange_seen: AtomicBool::new(false),
            clock,
        }
    }

    /// The exchange that `prepare` makes stands for the settings: others get an error, not a second queue.
    pub(super) async fn need_exchange(&self, operation: &'static str) -> Result<(), BrokerError> {
        if self.closed.is_cancelled() {
            return Err(BrokerError::Unreachable {
                operation,
                detail: "closed by this process".to_owned(),
            });
        }
        if self.exchange_seen.load(Ordering::Relaxed) {
            return Ok(());
        }
        let exchange = self.naming.exchange();
        let exists = tables::exchange_exists(self.file.readers(), &exchange).await;
        if !exists.map_err(failure::read(operation))? {
            return Err(BrokerError::NoExchange { exchange });
        }
        self.exchange_seen.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(super) async fn find(&self, operation: &'static str, name: &str) -> Result<Option<(i64, bool)>, BrokerError> {
        self.end_if_over(operation, name).await?;
        tables::queue_find(self.file.readers(), name)
            .await
            .map_err(failure::read(operation))
    }

    /// A queue whose lifetime is over is not there, though no sweep has been by. Delivery queues have none.
    pub(super) async fn end_if_over(&self, operation: &'static str, name: &str) -> Result<(), BrokerError> {
        if self.naming.is_delivery_queue(name) {
            return Ok(());
        }
        let now = self.lifetimes.now();
        let over = tables::queue_over(self.file.readers(), name, now).await;
        match over.map_err(failure::read(operation))? {
            Some(over) if self.registry.usage(over.id).consumers == 0 => expiry::expire(self, over, now).await,
            Some(_) | None => {}
        }
        Ok(())
    }

    pub(super) async fn look(&self, operation: &'static str, name: &QueueName) -> Result<Look, BrokerError> {
        self.end_if_over(operation, name.as_str()).await?;
        let counted = tables::queue_counts(self.file.readers(), name.as_str()).await;
        Ok(match counted.map_err(failure::read(operation))? {
            None => Look::Missing,
            Some(counted) => {
                let usage = self.registry.usage(counted.id);
                Look::Present {
                    ready: unsigned(counted.messages).saturating_sub(usage.in_hand),
                    consumers: usage.consumers,
                }
            }
        })
    }

    /// Answers whether the queue exists.
    pub(super) async fn set_binding(
        &self,
        operation: &'static str,
        queue: &QueueName,
        binding: Binding,
    ) -> Result<bool, BrokerError> {
        let name = queue.clone();
        self.file
            .write(move |connection| {
                Box::pin(async move { tables::queue_bind(connection, name.as_str(), binding).await })
            })
            .await
            .map_err(failure::write(operation))
    }

    pub(super) async fn delete(&self, queue: &QueueName, deletion: Deletion) -> Result<Deleted, BrokerError> {
        let by = self.name.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (name, noted) = (queue.clone(), by.clone());
        let removed = self
            .file
            .write(move |connection| {
                Box::pin(async move { tables::queue_delete(connection, name.as_str(), deletion, &noted).await })
            })
            .await
            .map_err(failure::write("delete"))?;
        Ok(match removed {
            Removed::Missing => Deleted::Missing,
            Removed::InUse => Deleted::InUse,
            Removed::Queue(id) => {
                self.registry.deleted(id);
                self.signals.send(Signal::QueueDeleted {
                    queue: queue.clone(),
                    by: Some(by),
                });
                Deleted::Deleted
            }
        })
    }

    /// The first messages of a queue, which must exist, and the queue's id.
    pub(super) async fn first_messages(
        &self,
        operation: &'static str,
        queue: &QueueName,
        messages: u32,
    ) -> Result<(i64, Vec<tables::Stored>), BrokerError> {
        let Some((id, _)) = self.find(operation, queue.as_str()).await? else {
            return Err(BrokerError::Failed {
                operation,
                detail: format!("no queue {:?}", queue.as_str()),
            });
        };
        let window = Window {
            messages,
            bytes: BROWSE_BYTES_MAX,
        };
        let stored = tables::messages(self.file.readers(), id, 0, window).await;
        Ok((id, stored.map_err(failure::read(operation))?))
    }

    /// The first message of a queue, which must exist, and the queue's id; what cannot be read too.
    pub(super) async fn first_for_rescue(
        &self,
        queue: &QueueName,
    ) -> Result<(i64, Option<tables::Stored>), BrokerError> {
        const RESCUE: &str = "rescue";
        let Some((id, _)) = self.find(RESCUE, queue.as_str()).await? else {
            return Err(BrokerError::Failed {
                operation: RESCUE,
                detail: format!("no queue {:?}", queue.as_str()),
            });
        };
        let window = Window {
            messages: 1,
            bytes: BROWSE_BYTES_MAX,
        };
        let first = match tables::messages(self.file.readers(), id, 0, window).await {
            Ok(stored) => stored.into_iter().next(),
            Err(error) if tables::is_damage(&error) => tables::damaged(self.file.readers(), id)
                .await
                .map_err(failure::read(RESCUE))?,
            Err(error) => return Err(failure::read(RESCUE)(error)),
        };
        Ok((id, first))
    }

    pub(super) fn listed(&self, counted: &Counted) -> Option<ListedQueue> {
        let usage = self.registry.usage(counted.id);
        Some(ListedQueue {
            name: QueueName::parse(&counted.name).ok()?,
            queue_type: Some("embedded".to_owned()),
            ready: Some(unsigned(counted.messages).saturating_sub(usage.in_hand)),
            unacked: Some(usage.in_hand),
            bytes: counted.bytes.map(unsigned),
            consumers: Some(usage.consumers),
            // A lifetime counts from the last use, which a publish is not.
            idle_since: (usage.consumers == 0).then(|| match counted.expires_ms {
                Some(_) => counted.declared_use_at,
                None => counted.used_at.max(self.opened_at),
            }),
            oldest_at: counted.oldest_at,
            state: Some("running".to_owned()),
            auto_delete: false,
            arguments: arguments(counted),
            redelivered: None,
            policy: None,
            taken_at: self.clock.now(),
        })
    }
}

fn arguments(counted: &Counted) -> Vec<(String, String)> {
    let fixed = ("x-single-active-consumer".to_owned(), "true".to_owned());
    let lifetime = counted
        .expires_ms
        .map(|millis| ("x-expires".to_owned(), millis.to_string()));
    std::iter::once(fixed).chain(lifetime).collect()
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
