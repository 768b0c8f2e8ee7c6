//! Looking, declaring, binding, deleting: asked on the spare connection.

use std::sync::Arc;
use std::time::Duration;

use super::asks::{self, Unless, flags};
use super::dialer::Dialer;
use super::failure::{CallError, call_error};
use super::frames::ShortString;
use super::spare::Spare;
use crate::ambient;
use crate::broker::{BrokerError, Deleted, Look};
use crate::domain::naming::{Argument, Naming, QueueType, delivery_arguments};

/// Times that a queue is declared which is gone when it is to be bound.
const CREATE_TRIES: u32 = 100;
/// Between two of them.
const CREATE_PAUSE: Duration = Duration::from_millis(50);
/// Looks at an empty quorum queue before a consumer of it is believed to be one.
const QUORUM_LOOKS_MAX: u32 = 20;
/// Between two of them.
const QUORUM_PAUSE: Duration = Duration::from_millis(20);

/// The spare connection and what is done on it.
#[derive(Debug)]
pub(super) struct Admin {
    pub(super) spare: Spare,
    dialer: Arc<Dialer>,
    exchange: ShortString,
    queue_type: QueueType,
    dead_letter_queue: String,
}

impl Admin {
    pub(super) fn new(dialer: Arc<Dialer>, exchange: ShortString, naming: &Naming) -> Self {
        Self {
            spare: Spare::new(Arc::clone(&dialer), "admin"),
            dialer,
            exchange,
            queue_type: naming.queue_type,
            dead_letter_queue: naming.dead_letter_queue(),
        }
    }

    /// Our exchange.
    pub(super) const fn exchange(&self) -> &ShortString {
        &self.exchange
    }

    /// Opens the spare connection, if it is not open.
    pub(super) async fn enter(&self) -> Result<(), BrokerError> {
        self.spare.open().await.map(drop)
    }

    pub(super) async fn look(&self, queue: &ShortString) -> Result<Look, BrokerError> {
        self.spare.look(queue).await.map_err(|error| self.error("look", &error))
    }

    /// Declares a queue with the arguments of a delivery queue and binds it with its own name.
    ///
    /// A look finds a queue missing from the moment its process begins to end; its record stays a little
    /// longer. A declare in between finds the record and says that all is well, and a binding made then
    /// routes to the dying process, whose end the broker confirms. So: declare, look whether a living
    /// process answers, and bind only then. All is sent at once: what follows a refused step is not done.
    ///
    /// A quorum queue is not declared again where no answer came: the broker may still delete what it then says is there
    /// (docs/rabbitmq.md, *Quorum queues that are being made*). Publishers look first.
    pub(super) async fn create(&self, queue: &ShortString) -> Result<(), CreateError> {
        let arguments = delivery_arguments(self.queue_type, self.exchange.as_str(), &self.dead_letter_queue);
        let steps = [
            asks::declare(queue, flags::DURABLE, &arguments),
            asks::look(queue),
            asks::bind(queue, &self.exchange, queue),
        ];
        let mut tries = 0;
        loop {
            tries += 1;
            let made = match self.queue_type {
                QueueType::Classic => self.spare.ask(&steps).await,
                QueueType::Quorum => self.spare.ask_once(&steps).await,
            };
            match made.map_err(|error| self.not_made(queue, error)) {
                Ok(_) => return Ok(()),
                Err(CreateError::Vanished(_)) if tries < CREATE_TRIES => ambient::sleep(CREATE_PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Declares a durable queue.
    pub(super) async fn declare<N: AsRef<str>>(
        &self,
        queue: &ShortString,
        arguments: &[(N, Argument)],
    ) -> Result<(), CreateError> {
        let declared = self.spare.ask(&[asks::declare(queue, flags::DURABLE, arguments)]).await;
        declared.map(drop).map_err(|error| self.not_made(queue, error))
    }

    fn not_made(&self, queue: &ShortString, error: CallError) -> CreateError {
        match error {
            error if error.code() == Some(406) && !error.is_limit() => CreateError::OtherArguments(error.text()),
            error if error.says_missing(queue.as_str()) => CreateError::Vanished(self.error("declare", &error)),
            error => CreateError::Other(self.error("declare", &error)),
        }
    }

    /// Binds a queue to our exchange with a key.
    pub(super) async fn bind_with(&self, queue: &ShortString, key: &ShortString) -> Result<(), CallError> {
        self.spare
            .ask(&[asks::bind(queue, &self.exchange, key)])
            .await
            .map(drop)
    }

    /// Binds it with its own name, and looks at it.
    pub(super) async fn bind(&self, queue: &ShortString) -> Result<Look, BrokerError> {
        let steps = [asks::bind(queue, &self.exchange, queue), asks::look(queue)];
        match self.spare.ask(&steps).await {
            Ok(answer) => answer.looked().map_err(|error| self.error("bind", &error)),
            Err(error) if error.says_missing(queue.as_str()) => Ok(Look::Missing),
            Err(error) => Err(self.error("bind", &error)),
        }
    }

    pub(super) async fn unbind(&self, queue: &ShortString) -> Result<(), BrokerError> {
        match self.spare.ask(&[asks::unbind(queue, &self.exchange, queue)]).await {
            Ok(_) => Ok(()),
            // Nothing is bound that is not there.
            Err(error) if error.says_missing(queue.as_str()) => Ok(()),
            Err(error) => Err(self.error("unbind", &error)),
        }
    }

    /// All at once; one by one where that does not do.
    pub(super) async fn unbind_all(&self, queues: &[ShortString]) -> Result<(), BrokerError> {
        let unbinding = queues.iter().map(|queue| asks::unbind(queue, &self.exchange, queue));
        let unbinding: Vec<_> = unbinding.collect();
        if unbinding.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.spare.ask_once(&unbinding).await {
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
                if self.look(queue).await? == Look::Missing {
                    return Ok(Deleted::Missing);
                }
                self.delete(queue, Unless::InUse).await
            }
            QueueType::Quorum => self.delete_empty_quorum(queue).await,
        }
    }

    /// Quorum queues answer the flags with 540 and a closed connection (docs/rabbitmq.md, *Deleting a queue*): two
    /// looks, then a plain delete. Not atomic; the caller has unbound it. They count a consumer for a moment after its
    /// channel was closed.
    async fn delete_empty_quorum(&self, queue: &ShortString) -> Result<Deleted, BrokerError> {
        let mut idle = 0;
        for _ in 0..QUORUM_LOOKS_MAX {
            match self.look(queue).await? {
                Look::Missing => return Ok(Deleted::Missing),
                Look::Present { ready: 0, consumers: 0 } if idle == 0 => idle = 1,
                Look::Present { ready: 0, consumers: 0 } => return self.delete(queue, Unless::Never).await,
                Look::Present { ready: 0, .. } => {
                    idle = 0;
                    ambient::sleep(QUORUM_PAUSE).await;
                }
                Look::Present { .. } => return Ok(Deleted::InUse),
            }
        }
        Ok(Deleted::InUse)
    }

    pub(super) async fn delete_whole(&self, queue: &ShortString) -> Result<Deleted, BrokerError> {
        if self.look(queue).await? == Look::Missing {
            return Ok(Deleted::Missing);
        }
        self.delete(queue, Unless::Never).await
    }

    /// Never repeated: another delete might meet another queue of that name.
    async fn delete(&self, queue: &ShortString, unless: Unless) -> Result<Deleted, BrokerError> {
        match self.spare.ask_once(&[asks::delete(queue, unless)]).await {
            Ok(_) => Ok(Deleted::Deleted),
            Err(error) if error.code() == Some(406) => Ok(Deleted::InUse),
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
