//! Looking, declaring, binding, deleting: each on a short-lived channel of the spare connection.
//!
//! A wrong guess closes its channel (404, 406), so none of these shares one with anything (trap 12).

use std::sync::Arc;
use std::time::Duration;

use lapin::Channel;
use lapin::options::{QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};

use super::failure::{CallError, call_error};
use super::line::{Dialer, Line, Slot};
use crate::broker::{BrokerError, Deleted, Look};
use crate::domain::naming::{self, Argument, Naming, QueueType};

/// Times that a queue is declared which is gone when it is to be bound.
const CREATE_TRIES: u32 = 100;
/// Between two of them.
const CREATE_PAUSE: Duration = Duration::from_millis(50);

/// The spare connection and what is done on it.
#[derive(Debug)]
pub(super) struct Admin {
    dialer: Arc<Dialer>,
    slot: Slot,
    exchange: ShortString,
    queue_type: QueueType,
    dead_letter_queue: String,
}

impl Admin {
    pub(super) fn new(dialer: Arc<Dialer>, exchange: ShortString, naming: &Naming) -> Self {
        Self {
            dialer,
            slot: Slot::new("admin"),
            exchange,
            queue_type: naming.queue_type,
            dead_letter_queue: naming.dead_letter_queue(),
        }
    }

    /// The spare connection.
    pub(super) async fn line(&self) -> Result<Arc<Line>, BrokerError> {
        self.slot.get(&self.dialer, |_| ()).await
    }

    pub(super) async fn close(&self) {
        self.slot.close().await;
    }

    pub(super) async fn look(&self, queue: &ShortString) -> Result<Look, BrokerError> {
        let line = self.line().await?;
        self.look_on(&line, queue).await
    }

    async fn look_on(&self, line: &Line, queue: &ShortString) -> Result<Look, BrokerError> {
        let options = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let looked = on_channel(line, async |channel: &Channel| {
            line.call(channel.queue_declare(queue.clone(), options, FieldTable::default()))
                .await
        });
        match looked.await {
            Ok(found) => Ok(Look::Present {
                ready: found.message_count().into(),
                consumers: found.consumer_count().into(),
            }),
            Err(error) if error.no_queue() => Ok(Look::Missing),
            Err(error) => Err(self.error("look", &error)),
        }
    }

    /// Declares a queue with the arguments of a delivery queue and binds it with its own name.
    ///
    /// A look finds a queue missing from the moment its process begins to end; its record stays a little
    /// longer. A declare in between finds the record and says that all is well, and a binding made then
    /// routes to the dying process, whose end the broker confirms. So: declare, look whether a living
    /// process answers, and bind only then.
    pub(super) async fn create(&self, queue: &ShortString) -> Result<(), CreateError> {
        let arguments = delivery_arguments(self.queue_type, self.exchange.as_str(), &self.dead_letter_queue);
        let mut vanished = None;
        for _ in 0..CREATE_TRIES {
            match self.declare(queue, arguments.clone()).await {
                Ok(()) => {}
                Err(CreateError::Vanished(error)) => {
                    vanished = Some(error);
                    tokio::time::sleep(CREATE_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(error),
            }
            if self.look(queue).await.map_err(CreateError::Other)? == Look::Missing {
                tokio::time::sleep(CREATE_PAUSE).await;
                continue;
            }
            match self.bind_on_own(queue).await {
                Ok(()) => return Ok(()),
                Err(error) if error.no_queue() => vanished = Some(self.error("bind", &error)),
                Err(error) => return Err(CreateError::Other(self.error("bind", &error))),
            }
        }
        Err(CreateError::Other(vanished.unwrap_or_else(|| BrokerError::Failed {
            operation: "declare",
            detail: "the queue is being deleted and does not go".to_owned(),
        })))
    }

    /// Declares a durable queue.
    pub(super) async fn declare(&self, queue: &ShortString, arguments: FieldTable) -> Result<(), CreateError> {
        let line = self.line().await.map_err(CreateError::Other)?;
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let declared = on_channel(&line, async |channel: &Channel| {
            line.call(channel.queue_declare(queue.clone(), options, arguments.clone()))
                .await
        });
        match declared.await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(406) => Err(CreateError::OtherArguments(error.text())),
            Err(error) if error.no_queue() => Err(CreateError::Vanished(self.error("declare", &error))),
            Err(error) => Err(CreateError::Other(self.error("declare", &error))),
        }
    }

    async fn bind_on_own(&self, queue: &ShortString) -> Result<(), CallError> {
        self.bind_with(queue, queue).await
    }

    /// Binds a queue to our exchange with a key.
    pub(super) async fn bind_with(&self, queue: &ShortString, key: &ShortString) -> Result<(), CallError> {
        let line = self
            .line()
            .await
            .map_err(|error| CallError::Ended(super::failure::Ended::Lost(error.to_string())))?;
        on_channel(&line, async |channel: &Channel| {
            let options = QueueBindOptions::default();
            let binding = channel.queue_bind(
                queue.clone(),
                self.exchange.clone(),
                key.clone(),
                options,
                FieldTable::default(),
            );
            line.call(binding).await
        })
        .await
    }

    pub(super) async fn bind(&self, queue: &ShortString) -> Result<Look, BrokerError> {
        match self.bind_on_own(queue).await {
            Ok(()) => self.look(queue).await,
            Err(error) if error.no_queue() => Ok(Look::Missing),
            Err(error) => Err(self.error("bind", &error)),
        }
    }

    pub(super) async fn unbind(&self, queue: &ShortString) -> Result<(), BrokerError> {
        let line = self.line().await?;
        let unbound = on_channel(&line, async |channel: &Channel| {
            let unbinding = channel.queue_unbind(
                queue.clone(),
                self.exchange.clone(),
                queue.clone(),
                FieldTable::default(),
            );
            line.call(unbinding).await
        });
        match unbound.await {
            Ok(()) => Ok(()),
            // Nothing is bound that is not there.
            Err(error) if error.no_queue() => Ok(()),
            Err(error) => Err(self.error("unbind", &error)),
        }
    }

    pub(super) async fn delete_empty(&self, queue: &ShortString) -> Result<Deleted, BrokerError> {
        match self.queue_type {
            QueueType::Classic => {
                let line = self.line().await?;
                if self.look_on(&line, queue).await? == Look::Missing {
                    return Ok(Deleted::Missing);
                }
                let only_empty = QueueDeleteOptions {
                    if_unused: true,
                    if_empty: true,
                    nowait: false,
                };
                self.delete(&line, queue, only_empty).await
            }
            QueueType::Quorum => self.delete_empty_quorum(queue).await,
        }
    }

    /// Quorum queues answer the flags with 540 and a closed connection (trap 11): two looks, then a plain
    /// delete, on a connection that is thrown away. Not atomic; the caller has unbound it.
    async fn delete_empty_quorum(&self, queue: &ShortString) -> Result<Deleted, BrokerError> {
        let line = self.dialer.open("delete").await?;
        let mut outcome = Ok(Deleted::InUse);
        for look in 0..2 {
            match self.look_on(&line, queue).await {
                Ok(Look::Missing) => {
                    outcome = Ok(Deleted::Missing);
                    break;
                }
                Ok(Look::Present { ready: 0, consumers: 0 }) if look == 0 => {}
                Ok(Look::Present { ready: 0, consumers: 0 }) => {
                    outcome = self.delete(&line, queue, QueueDeleteOptions::default()).await;
                }
                Ok(Look::Present { .. }) => break,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        line.close().await;
        outcome
    }

    pub(super) async fn delete_whole(&self, queue: &ShortString) -> Result<Deleted, BrokerError> {
        let line = self.line().await?;
        if self.look_on(&line, queue).await? == Look::Missing {
            return Ok(Deleted::Missing);
        }
        self.delete(&line, queue, QueueDeleteOptions::default()).await
    }

    async fn delete(
        &self,
        line: &Line,
        queue: &ShortString,
        options: QueueDeleteOptions,
    ) -> Result<Deleted, BrokerError> {
        let deleted = on_channel(line, async |channel: &Channel| {
            line.call(channel.queue_delete(queue.clone(), options)).await
        });
        match deleted.await {
            Ok(_) => Ok(Deleted::Deleted),
            Err(error) if error.code() == Some(406) => Ok(Deleted::InUse),
            Err(error) if error.no_queue() => Ok(Deleted::Missing),
            Err(error) => Err(self.error("delete", &error)),
        }
    }

    /// The seam's wording of a failed call.
    pub(super) fn error(&self, operation: &'static str, error: &CallError) -> BrokerError {
        if error.no_exchange() {
            return BrokerError::NoExchange {
                exchange: self.exchange.as_str().to_owned(),
            };
        }
        call_error(operation, &self.dialer.address, &self.dialer.vhost, error)
    }
}

/// Why a declaration failed.
#[derive(Debug)]
pub(super) enum CreateError {
    /// 406, in the broker's words.
    OtherArguments(String),
    /// 404: a queue of that name is being deleted.
    Vanished(BrokerError),
    Other(BrokerError),
}

/// Runs a step on a channel of its own, which is closed (by dropping it) whatever happens.
pub(super) async fn on_channel<T>(
    line: &Line,
    step: impl AsyncFnOnce(&Channel) -> Result<T, CallError>,
) -> Result<T, CallError> {
    let channel = line.channel().await?;
    step(&channel).await
}

/// The arguments of a delivery queue (trap 13).
pub(super) fn delivery_arguments(queue_type: QueueType, exchange: &str, dead_letter_queue: &str) -> FieldTable {
    table(naming::delivery_arguments(queue_type, exchange, dead_letter_queue))
}

/// A queue of this type whose messages are neither dropped nor reordered when they are returned.
pub(super) fn typed(queue_type: QueueType) -> FieldTable {
    table(naming::queue_arguments(queue_type))
}

fn table(arguments: Vec<(&'static str, Argument)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        let value = match value {
            Argument::Text(value) => text(&value),
            Argument::Integer(value) => AMQPValue::LongInt(value),
            Argument::Flag(value) => AMQPValue::Boolean(value),
        };
        insert(&mut table, name, value);
    }
    table
}

pub(super) fn insert(table: &mut FieldTable, name: &'static str, value: AMQPValue) {
    table.insert(ShortString::from(name), value);
}

pub(super) fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.as_bytes().into())
}
