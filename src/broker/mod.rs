//! Ordered, durable queues. One seam, two drivers (RabbitMQ: AMQP and management API; embedded:
//! tables in the SQLite file), one contract suite.
//!
//! The driver knows how to do one thing at a time; the protocols that combine them (publish and
//! declare, close and delete, attach and fence) are the engine's.
//!
//! Promises: a method that returns an error changed nothing that matters, or says [`BrokerError::Unknown`];
//! nothing is ever given back by `nack` or `basic.cancel`; looking never renews, reorders or loses;
//! `Attached::next` may be dropped and called again, everything else is run to completion.

pub mod embedded;
pub mod rabbitmq;
mod types;

use std::sync::Arc;

use async_trait::async_trait;

use crate::domain::broker_rules::Version;
use crate::domain::id::{QueueName, StoreId};
use crate::domain::job::Lifetime;
use crate::domain::message::Message;
use crate::domain::naming::QueueType;
use crate::domain::numbers::Numbers;
use crate::domain::on_broker::OnBroker;

pub use types::*;

/// The operation of an error that came before anything could be asked.
pub const CONNECT: &str = "connect";

/// A handle that is cheap to clone.
pub type BrokerHandle = Arc<dyn Broker>;

/// Why the broker could not do it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BrokerError {
    /// It cannot be reached, or the connection was lost before anything was sent.
    #[error("broker unreachable during {operation}: {detail}")]
    Unreachable {
        /// What was tried.
        operation: &'static str,
        /// Why (never with credentials).
        detail: String,
    },
    /// It was sent, and no answer came: it may have happened.
    #[error("{operation} is unconfirmed: {detail}")]
    Unknown {
        /// What was tried.
        operation: &'static str,
        /// Why.
        detail: String,
    },
    /// It takes nothing at present (memory or disk alarm).
    #[error("broker is blocked: {detail}")]
    Blocked {
        /// The alarm.
        detail: String,
    },
    /// Wrong name or password.
    #[error("broker login failed for user {user:?}: check broker.url and REDRIVE_BROKER_URL")]
    Login {
        /// The user.
        user: String,
    },
    /// A limit of a user, vhost or node is reached: nothing is wrong with the login or the rights.
    #[error("broker refuses {operation}: {said}; {mend}")]
    Limit {
        /// What was tried.
        operation: &'static str,
        /// The broker's own sentence.
        said: String,
        /// How to mend it.
        mend: String,
    },
    /// A right is missing (the management API says 401 for that too).
    #[error("broker refuses {operation}: {right} is missing; {mend}")]
    Rights {
        /// What was tried.
        operation: &'static str,
        /// The right that is missing.
        right: String,
        /// How to grant it.
        mend: String,
    },
    /// The vhost does not exist and could not be made.
    #[error("vhost {vhost:?} does not exist: {mend}")]
    Vhost {
        /// Its name.
        vhost: String,
        /// How to make it.
        mend: String,
    },
    /// The management API is not there or does not answer (delivery goes on without it).
    #[error("management API: {detail}; {mend}")]
    Management {
        /// What happened.
        detail: String,
        /// How to mend it.
        mend: String,
    },
    /// A queue or exchange exists with other arguments (406).
    #[error("queue {queue:?} exists with other arguments: {difference}")]
    OtherArguments {
        /// Its name.
        queue: String,
        /// What differs; it is not deleted.
        difference: String,
    },
    /// The exchange of our settings does not exist: other settings are in use, or nothing is prepared.
    #[error(
        "exchange {exchange:?} does not exist: a daemon with the same prefix, key and queue type makes it, also again when it was deleted"
    )]
    NoExchange {
        /// Its name.
        exchange: String,
    },
    /// A message of the queue cannot be decoded; it can be rescued.
    #[error("a message of queue {queue:?} cannot be decoded: {detail}")]
    Undecodable {
        /// The queue.
        queue: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Anything else that it says.
    #[error("broker failed during {operation}: {detail}")]
    Failed {
        /// What was tried.
        operation: &'static str,
        /// What it said.
        detail: String,
    },
}

/// The ordered queues.
#[async_trait]
pub trait Broker: Send + Sync + std::fmt::Debug {
    /// `rabbitmq` or `embedded`, for people.
    fn kind(&self) -> &'static str;

    /// Whether it is a file of this program: then it has one virtual host, one exchange and no management API, and its
    /// numbers are exact whenever they are read.
    fn is_embedded(&self) -> bool {
        false
    }

    /// Makes sure that vhost, rights, exchange, wake queue and dead-letter queue exist (those that
    /// `provision` allows), idempotently. Called at start and after a lost broker came back.
    async fn prepare(&self) -> Result<(), BrokerError>;

    /// Whether the vhost of our settings is there, and who may make it where it is not. Changes nothing.
    async fn vhost(&self) -> Result<VhostFound, BrokerError> {
        Ok(VhostFound::There)
    }

    /// Makes the vhost where it is missing and gives our user every right on it; nothing else of ours is made.
    async fn make_vhost(&self) -> Result<(), BrokerError> {
        Ok(())
    }

    /// The broker's version, where it can be asked: what follows from it is in [`crate::domain::broker_rules::facts`].
    async fn version(&self) -> Option<Version>;

    /// What stands of all that is ours, and whether publishing and consuming are allowed at this moment: login, vhost,
    /// limits and rights, exchange, queues and identity of `store`. A few questions over AMQP, asked every second by
    /// each daemon; makes nothing that is missing.
    async fn check(&self, store: &StoreId) -> Result<Standing, BrokerError>;

    /// Says on the broker that every queue of the store is bound to the exchange; gone with the exchange.
    async fn mark_bound(&self) -> Result<(), BrokerError>;

    /// Which broker and vhost this is, as a person calls it; `None`: nobody tells it now. No two at work have the same,
    /// and a renamed cluster has another one.
    async fn place(&self) -> Option<String>;

    /// Whose the broker is; writes nothing.
    async fn owner(&self, store: &StoreId) -> Result<Owner, BrokerError>;

    /// Makes the broker `store`'s where it is nobody's, and says whose it is then. For daemons.
    async fn own(&self, store: &StoreId) -> Result<Owner, BrokerError>;

    /// Makes the broker `store`'s, whosever it was.
    async fn adopt(&self, store: &StoreId) -> Result<(), BrokerError>;

    /// The highest numbers that daemons of `store`, whose the broker is, kept on it; `None`: none, or nobody can read
    /// them. A store that was restored while nobody looked at it has lower ones.
    async fn numbers_kept(&self, store: &StoreId) -> Result<Option<Numbers>, BrokerError> {
        let _ = store;
        Ok(None)
    }

    /// Keeps these there in place of lower ones. What is kept does not grow with the number of daemons.
    async fn numbers_keep(&self, store: &StoreId, numbers: Numbers) -> Result<(), BrokerError> {
        let _ = (store, numbers);
        Ok(())
    }

    /// Names the connections of this process (shown by the broker, and closed by others when it is dead).
    fn set_name(&self, name: &str);

    /// How often a connection to the broker was lost by now. While it stays the same nothing was forgotten of what
    /// was acked on a channel that was closed in order; a driver whose acks are never forgotten answers 0.
    fn losses(&self) -> u64;

    /// What happens on the broker: nudges, created and deleted queues, alarms. Lossy and bounded; a
    /// receiver that lags misses some. Nudges are only consumed once somebody subscribed with
    /// [`Broker::listen`].
    fn signals(&self) -> tokio::sync::broadcast::Receiver<Signal>;

    /// Starts to consume the wake queue and, where there is one, the event exchange. Idempotent; comes
    /// back by itself after a lost connection.
    async fn listen(&self) -> Result<(), BrokerError>;

    /// Publishes to a delivery queue through our own exchange: persistent, mandatory, confirmed within
    /// a bounded time. Only `Accepted` means that it is stored.
    async fn publish(&self, queue: &QueueName, message: &Message) -> Result<Published, BrokerError>;

    /// Publishes a window of messages to any exchanges, side by side in their order: mandatory and
    /// confirmed. Answers in the order asked; each answer is that of its own message. Waits while an alarm holds.
    async fn publish_many(&self, window: &[Outgoing]) -> Vec<Result<Published, BrokerError>>;

    /// Publishes to the dead-letter queue of our family, declaring it when it is missing.
    async fn publish_dead(&self, message: &Message) -> Result<Published, BrokerError>;

    /// Exact look at a delivery queue, on a channel of its own (AMQP passive declare). An answer that
    /// is neither *there* nor *not there* (node down, right missing) is an error.
    async fn look(&self, queue: &QueueName) -> Result<Look, BrokerError>;

    /// Declares a delivery queue with its fixed arguments and binds it. Only for a queue that
    /// [`Broker::look`] found missing.
    async fn create(&self, queue: &QueueName) -> Result<(), BrokerError>;

    /// Declares a durable queue that the broker deletes after `lifetime` without a consumer (`None`: never),
    /// and binds it by its name. [`BrokerError::OtherArguments`] when it exists with another lifetime.
    async fn declare_expiring(&self, queue: &QueueName, lifetime: Lifetime) -> Result<(), BrokerError>;

    /// Declares a durable queue with the arguments that one of that name was listed with; it may be bound to nothing.
    async fn declare_again(&self, queue: &QueueName, arguments: &[(String, String)]) -> Result<(), BrokerError>;

    /// Begins the time of a queue with a lifetime anew, where a declare does that (not on quorum queues).
    async fn renew(&self, queue: &QueueName) -> Result<Look, BrokerError>;

    /// Unbinds a delivery queue, so that every publisher gets a return.
    async fn unbind(&self, queue: &QueueName) -> Result<(), BrokerError>;

    /// [`Broker::unbind`] for many; after an error nobody knows which are still bound, and it may be done again.
    async fn unbind_all(&self, queues: &[QueueName]) -> Result<(), BrokerError> {
        for queue in queues {
            self.unbind(queue).await?;
        }
        Ok(())
    }

    /// Binds an existing delivery queue again. [`Look::Missing`] when it does not exist.
    async fn bind(&self, queue: &QueueName) -> Result<Look, BrokerError>;

    /// Deletes an unbound, empty, unused delivery queue; never anything else (classic: if-empty and
    /// if-unused; quorum: a second look at the count).
    async fn delete_empty(&self, queue: &QueueName) -> Result<Deleted, BrokerError>;

    /// Deletes a queue of any kind that is empty and unused. Classic: if-empty and if-unused; quorum: a second look
    /// at the count, in hand and ready, which is not atomic.
    async fn delete_unused(&self, queue: &QueueName, queue_type: QueueType) -> Result<Deleted, BrokerError>;

    /// Deletes whatever is in it; only for a plan that said so.
    async fn delete_whole(&self, queue: &QueueName) -> Result<Deleted, BrokerError>;

    /// Says that a queue has something (lossy, at most one a second and queue).
    async fn nudge(&self, queue: &QueueName);

    /// Opens a channel of its own on a consuming connection with room, binds when `options` say so,
    /// sets prefetch and consumes. The caller holds the lease.
    async fn attach(&self, queue: &QueueName, options: AttachOptions) -> Result<AttachOutcome, BrokerError>;

    /// Takes up to `limit` messages into view on a connection of its own and gives them back by closing
    /// it. The caller holds the lease of a delivery queue, or the queue is not one.
    async fn browse(&self, queue: &QueueName, limit: u32) -> Result<Vec<Browsed>, BrokerError>;

    /// Walks a queue from its head on, on a connection of its own, holding everything that is not settled.
    /// `None`: there is no such queue. The caller holds the lease of a delivery queue, or the queue is not
    /// one; nobody else should consume it. The broker marks what was walked over as redelivered.
    async fn walk(&self, queue: &QueueName, options: WalkOptions) -> Result<Option<Box<dyn Walk>>, BrokerError>;

    /// Takes the first message out byte for byte with a reader that survives what the ordinary one does
    /// not; it is only gone after [`Rescued::settle`]. The caller holds the lease.
    async fn rescue(&self, queue: &QueueName) -> Result<Option<Box<dyn Rescued>>, BrokerError>;

    /// Makes an intake queue, its exchange (topic) and its bindings as far as they are missing, and consumes it
    /// with this prefetch, on a connection of its own. What exists is taken as it is.
    async fn intake(&self, queue: &IntakeQueue, prefetch: u16) -> Result<Box<dyn Intake>, BrokerError>;

    /// [`Broker::rescue`] of an intake queue; nobody consumes it meanwhile.
    async fn intake_rescue(&self, queue: &IntakeQueue) -> Result<Option<Box<dyn Rescued>>, BrokerError>;

    /// A page of queues with counts as the broker's statistics have them (they lag some seconds).
    async fn queues_page(&self, page: &PageRequest) -> Result<QueuePage, BrokerError>;

    /// All queues in one answer: names, states, arguments and messages, ready and in hand, exact where the
    /// broker says so (its statistics lag some seconds), and nothing else.
    async fn queues_all(&self) -> Result<QueuePage, BrokerError>;

    /// One queue with what is known of it, statistics included.
    async fn queue_detail(&self, queue: &QueueName) -> Result<Option<ListedQueue>, BrokerError>;

    /// One queue as the broker has it, with who consumes it and how it moves; `None`: there is no such queue.
    async fn queue_on_broker(&self, queue: &QueueName) -> Result<Option<OnBroker>, BrokerError> {
        let listed = self.queue_detail(queue).await?;
        Ok(listed.map(|listed| OnBroker {
            queue_type: listed.queue_type,
            state: listed.state,
            consumers: listed.consumers,
            idle_since: listed.idle_since,
            arguments: listed.arguments,
            policy: listed.policy,
            ..OnBroker::default()
        }))
    }

    /// An exchange with what is bound to it; `None`: there is no such exchange.
    async fn exchange_detail(&self, exchange: &str) -> Result<Option<ExchangeDetail>, BrokerError>;

    /// The policies of the vhost, for matching by ourselves.
    async fn policies(&self) -> Result<Vec<BrokerPolicy>, BrokerError>;

    /// Sets a policy, whole.
    async fn policy_put(&self, policy: &BrokerPolicy) -> Result<(), BrokerError>;

    /// Removes a policy; one that is not there is success.
    async fn policy_remove(&self, name: &str) -> Result<(), BrokerError>;

    /// Closes the connections of a dead daemon by their name; only hastens what the broker does anyway.
    async fn connections_close(&self, name: &str) -> Result<u32, BrokerError>;

    /// What keeps the broker from taking publishes at present, where that can be found out: cheap enough to
    /// be asked every second.
    async fn blocked(&self) -> Option<String>;

    /// Why what only the management API tells is unknown at present; `None`: it answers, or there is none.
    async fn management_problem(&self) -> Option<String> {
        None
    }

    /// Version, rights, plugins, alarms: for `doctor`, `readyz` and the status line.
    async fn health(&self) -> BrokerHealth;

    /// Closes every connection in order.
    async fn close(&self);
}

/// A queue that this process consumes. Dropping it closes its channel.
#[async_trait]
pub trait Attached: Send {
    /// The next message, or why there will be none. May be dropped and called again.
    async fn next(&mut self) -> Next;

    /// The next message as [`Attached::next`], but for one that is larger than `room` where that is known before it is
    /// in memory: [`Next::Larger`]. What is read ahead is within `room`, too.
    async fn next_within(&mut self, room: usize) -> Next {
        let _ = room;
        self.next().await
    }

    /// Settles a message. `Lost` means that nothing was sent: do not go on.
    async fn ack(&mut self, tag: DeliveryTag) -> Acked;

    /// Settles a message and does not wait until the socket has it: it goes out before all that is done after
    /// it here, and the next settlement waits for it. `Lost` as with [`Attached::ack`]; what is lost later
    /// comes again, like everything unsettled.
    async fn ack_soon(&mut self, tag: DeliveryTag) -> Acked {
        self.ack(tag).await
    }

    /// Closes the channel and waits until the broker has it: everything not acked is back in its place.
    async fn close(self: Box<Self>);
}

/// An intake queue that this process consumes. Dropping it closes its connection: what is not settled comes again.
#[async_trait]
pub trait Intake: Send {
    /// The next messages, at least one and at most `limit`: waits for the first and takes what is there behind it.
    /// May be dropped and called again. The error says why there will be none.
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, Lost>;

    /// Settles messages. `Lost` means that they may come again, and that nothing more comes here.
    async fn settle(&mut self, tags: &[DeliveryTag]) -> Acked;

    /// Ends it and waits until the broker has everything back that is not settled.
    async fn close(self: Box<Self>);
}

/// A walk over a queue. Everything that it passed is in its hand until it is settled or the walk ends;
/// ending (dropping too) puts the rest back in its place. What is in memory is bounded, however long it is.
/// A broker's consumer timeout bounds its time (30 minutes by default).
#[async_trait]
pub trait Walk: Send {
    /// The next messages in order, up to `limit`. Empty: the end, as of now, or [`Walk::is_cut`]; it may be
    /// called again. Never waits long. [`BrokerError::Undecodable`]: the next one cannot be read, and the
    /// walk is over.
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, BrokerError>;

    /// Whether the last answer was empty because no more may be held at once: settle some and go on.
    fn is_cut(&self) -> bool;

    /// Takes messages out of the queue for good. It is certain once [`Walk::close`] succeeded; what an
    /// error leaves open comes again.
    async fn settle(&mut self, tags: &[DeliveryTag]) -> Result<(), BrokerError>;

    /// Gives the rest back in its place and waits until the broker has it. Answers how many of its messages were
    /// delivered before, those that the broker sent ahead included: it counts each of them.
    async fn close(self: Box<Self>) -> Result<u64, BrokerError>;
}

/// A message that was taken out byte for byte.
#[async_trait]
pub trait Rescued: Send {
    /// The AMQP content header frame's payload.
    fn header_frame(&self) -> &[u8];
    /// The body.
    fn body(&self) -> &[u8];
    /// Removes it from the queue (after the copy is stored).
    async fn settle(self: Box<Self>) -> Result<(), BrokerError>;
    /// Puts it back in its place.
    async fn release(self: Box<Self>);
}
