//! Looking, declaring, binding, deleting: each on a short-lived channel of the spare connection.
//!
//! A wrong guess closes its channel (404, 406), so none of these shares one with anything (docs/rabbitmq.md, *Errors
//! that close a channel*).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ExchangeKind};

use super::failure::{CallError, Ended, call_error};
use super::line::{Dialer, Line, Slot};
use crate::ambient;
use crate::broker::{BrokerError, Deleted, Look};
use crate::domain::naming::{self, Argument, Naming, QueueType};

/// Times that a step is repeated whose answer went astray.
const ASTRAY_TRIES: u32 = 20;
/// Times that it is begun where the connection ends meanwhile.
const LOST_TRIES: u32 = 4;
/// After an error that closed a channel: the client needs a moment before its number can be used again.
const ERROR_PAUSE: Duration = Duration::from_millis(2);
/// Times that a queue is declared which is gone when it is to be bound.
const CREATE_TRIES: u32 = 100;
/// Between two of them.
const CREATE_PAUSE: Duration = Duration::from_millis(50);

/// Repeats a step whose answer was about something else (see [`CallError::is_astray`]), each time on a new
/// connection: what else the old one still brings may be astray too. Only for steps that may be done twice.
macro_rules! answered {
    ($admin:expr, $asked:expr, |$line:ident| $step:expr) => {{
        let mut tries = 0;
        loop {
            let $line = match $admin.line().await {
                Ok(line) => line,
                Err(error) => break Err(CallError::Ended(Ended::Lost(error.to_string()))),
            };
            tries += 1;
            match $step.await {
                Err(error) if error.is_astray(&[$asked.as_str(), $admin.exchange.as_str()]) && tries < ASTRAY_TRIES => {
                    tracing::debug!(asked = ?$asked.as_str(), "an answer went astray: asked again");
                    $line.abandon("answers went astray");
                }
                // Somebody else's answer went astray meanwhile, or the connection was lost.
                Err(CallError::Ended(_)) if tries < LOST_TRIES => {}
                answer => break answer,
            }
        }
    }};
}

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

    /// Our exchange.
    pub(super) const fn exchange(&self) -> &ShortString {
        &self.exchange
    }

    /// The spare connection.
    pub(super) async fn line(&self) -> Result<Arc<Line>, BrokerError> {
        self.slot.get(&self.dialer, |_| ()).await
    }

    pub(super) async fn close(&self) {
        self.slot.close().await;
    }

    /// Whether an exchange is there.
    pub(super) async fn exchange_stands(&self, name: &ShortString) -> Result<bool, CallError> {
        let passive = ExchangeDeclareOptions {
            passive: true,
            ..ExchangeDeclareOptions::default()
        };
        let looked = answered!(self, name, |line| on_channel(&line, async |channel: &Channel| {
            let table = FieldTable::default();
            line.call(channel.exchange_declare(name.clone(), ExchangeKind::Direct, passive, table))
                .await
        }));
        match looked {
            Ok(()) => Ok(true),
            Err(error) if error.says_missing_exchange(name.as_str()) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn look(&self, queue: &ShortString) -> Result<Look, BrokerError> {
        answered!(self, queue, |line| passive(&line, queue)).map_err(|error| self.error("look", &error))
    }

    async fn look_on(&self, line: &Line, queue: &ShortString) -> Result<Look, BrokerError> {
        passive(line, queue).await.map_err(|error| self.error("look", &error))
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
                    ambient::sleep(CREATE_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(error),
            }
            if self.look(queue).await.map_err(CreateError::Other)? == Look::Missing {
                ambient::sleep(CREATE_PAUSE).await;
                continue;
            }
            match self.bind_on_own(queue).await {
                Ok(()) => return Ok(()),
                Err(error) if error.says_missing(queue.as_str()) => vanished = Some(self.error("bind", &error)),
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
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let declared = answered!(self, queue, |line| on_channel(&line, async |channel: &Channel| {
            line.call(channel.queue_declare(queue.clone(), options, arguments.clone()))
                .await
        }));
        match declared {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(406) => Err(CreateError::OtherArguments(error.text())),
            Err(error) if error.says_missing(queue.as_str()) => {
                Err(CreateError::Vanished(self.error("declare", &error)))
            }
            Err(error) => Err(CreateError::Other(self.error("declare", &error))),
        }
    }

    async fn bind_on_own(&self, queue: &ShortString) -> Result<(), CallError> {
        self.bind_with(queue, queue).await
    }

    /// Binds a queue to our exchange with a key.
    pub(super) async fn bind_with(&self, queue: &ShortString, key: &ShortString) -> Result<(), CallError> {
        answered!(self, queue, |line| on_channel(&line, async |channel: &Channel| {
            let options = QueueBindOptions::default();
            let (exchange, key) = (self.exchange.clone(), key.clone());
            line.call(channel.queue_bind(queue.clone(), exchange, key, options, FieldTable::default()))
                .await
        }))
    }

    pub(super) async fn bind(&self, queue: &ShortString) -> Result<Look, BrokerError> {
        match self.bind_on_own(queue).await {
            Ok(()) => self.look(queue).await,
            Err(error) if error.says_missing(queue.as_str()) => Ok(Look::Missing),
            Err(error) => Err(self.error("bind", &error)),
        }
    }

    pub(super) async fn unbind(&self, queue: &ShortString) -> Result<(), BrokerError> {
        let unbound = answered!(self, queue, |line| on_channel(&line, async |channel: &Channel| {
            let (exchange, key) = (self.exchange.clone(), queue.clone());
            line.call(channel.queue_unbind(queue.clone(), exchange, key, FieldTable::default()))
                .await
        }));
        match unbound {
            Ok(()) => Ok(()),
            // Nothing is bound that is not there.
            Err(error) if error.says_missing(queue.as_str()) => Ok(()),
            Err(error) => Err(self.error("unbind", &error)),
        }
    }

    /// All on one channel, without waiting for each answer; one by one where that does not do.
    pub(super) async fn unbind_all(&self, queues: &[ShortString]) -> Result<(), BrokerError> {
        if queues.is_empty() {
            return Ok(());
        }
        let line = self.line().await?;
        let unbound = on_channel(&line, async |channel: &Channel| {
            let unbinding = queues.iter().map(|queue| {
                let (exchange, key) = (self.exchange.clone(), queue.clone());
                line.call(channel.queue_unbind(queue.clone(), exchange, key, FieldTable::default()))
            });
            try_join_all(unbinding).await
        });
        if let Err(error) = unbound.await {
            tracing::debug!(error = ?error, "queues are unbound one by one");
            for queue in queues {
                self.unbind(queue).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn delete_empty(
        &self,
        queue: &ShortString,
        queue_type: QueueType,
    ) -> Result<Deleted, BrokerError> {
        match queue_type {
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

    /// Quorum queues answer the flags with 540 and a closed connection (docs/rabbitmq.md, *Deleting a queue*): two
    /// looks, then a plain delete, on a connection that is thrown away. Not atomic; the caller has unbound it.
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
        let channel = match line.channel().await {
            Ok(channel) => channel,
            Err(error) => return Err(self.error("delete", &error)),
        };
        // Never repeated: another delete might meet another queue of that name.
        let deleted = line.call(channel.queue_delete(queue.clone(), options));
        match deleted.await {
            Ok(_) => Ok(Deleted::Deleted),
            Err(error) if error.code() == Some(406) => Ok(Deleted::InUse),
            Err(error) if error.is_astray(&[queue.as_str()]) => Err(BrokerError::Unknown {
                operation: "delete",
                detail: error.text(),
            }),
            Err(error) if error.says_missing(queue.as_str()) => Ok(Deleted::Missing),
            Err(error) => Err(self.error("delete", &error)),
        }
    }

    /// The seam's wording of a failed call.
    pub(super) fn error(&self, operation: &'static str, error: &CallError) -> BrokerError {
        if error.says_missing_exchange(self.exchange.as_str()) {
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
    // One step at a time on a connection: where a channel is opened while another is closed by an error,
    // the client hands that error to the wrong one.
    let _turn = line.turn().await;
    let channel = line.channel().await?;
    let answer = step(&channel).await;
    if answer.is_err() {
        ambient::sleep(ERROR_PAUSE).await;
    }
    answer
}

/// An exact look.
pub(super) async fn passive(line: &Line, queue: &ShortString) -> Result<Look, CallError> {
    let options = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let looked = on_channel(line, async |channel: &Channel| {
        line.call(channel.queue_declare(queue.clone(), options, FieldTable::default()))
            .await
    });
    match looked.await {
        Ok(found) if found.name() != queue => Err(CallError::Ended(Ended::Lost(
            "the answer is about another queue".to_owned(),
        ))),
        Ok(found) => Ok(Look::Present {
            ready: found.message_count().into(),
            consumers: found.consumer_count().into(),
        }),
        Err(error) if error.says_missing(queue.as_str()) => Ok(Look::Missing),
        Err(error) => Err(error),
    }
}

/// The arguments of a delivery queue (docs/rabbitmq.md, *Errors that close a channel*).
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
