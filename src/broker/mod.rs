//! Ordered, durable queues. One seam, two drivers (RabbitMQ: AMQP and management API; embedded:
//! tables in the SQLite file), one contract suite.
//!
//! The driver knows how to do one thing at a time; the protocols that combine them (publish and
//! declare, close and delete, attach and fence) are the engine's.
//!
//! Promises: a method that returns an error changed nothing that matters, or says [`BrokerError::Unknown`];
//! nothing is ever given back by `nack` or `basic.cancel`; looking never renews, reorders or loses;
//! `Attached::next` may be dropped and called again, everything else is run to completion.
//!
//! The seam is several traits behind one handle, [`Broker`].

pub mod embedded;
mod error;
mod management;
mod properties;
mod publishing;
mod queues;
pub mod rabbitmq;
mod reading;
mod types;
mod vhost;

use std::sync::Arc;

use async_trait::async_trait;

use crate::domain::broker_rules::Version;

pub use error::BrokerError;
pub use management::{BrokerPolicies, Health, Listings};
pub use publishing::Publishing;
pub use queues::Queues;
pub use reading::{Attached, Intake, Reading, Rescued, Walk};
pub use types::*;
pub use vhost::Vhost;

/// The operation of an error that came before anything could be asked.
pub const CONNECT: &str = "connect";

/// A handle that is cheap to clone.
pub type BrokerHandle = Arc<dyn Broker>;

/// The ordered queues, and the connection to them.
#[async_trait]
pub trait Broker: Vhost + Publishing + Queues + Reading + Listings + BrokerPolicies + Health + std::fmt::Debug {
    /// `rabbitmq` or `embedded`, for people.
    fn kind(&self) -> &'static str;

    /// Whether it is a file of this program: then it has one virtual host, one exchange and no management API, and its
    /// numbers are exact whenever they are read.
    fn is_embedded(&self) -> bool {
        false
    }

    /// The broker's version, where it can be asked: what follows from it is in [`crate::domain::broker_rules::facts`].
    async fn version(&self) -> Option<Version>;

    /// Which broker and vhost this is, as a person calls it; `None`: nobody tells it now. No two at work have the same,
    /// and a renamed cluster has another one.
    async fn place(&self) -> Option<String>;

    /// Names the connections of this process (shown by the broker, and closed by others when it is dead).
    fn set_name(&self, name: &str);

    /// What happens on the broker: nudges, created and deleted queues, alarms. Lossy and bounded; a
    /// receiver that lags misses some. Nudges are only consumed once somebody subscribed with
    /// [`Broker::listen`].
    fn signals(&self) -> tokio::sync::broadcast::Receiver<Signal>;

    /// Starts to consume the wake queue and, where there is one, the event exchange. Idempotent; comes
    /// back by itself after a lost connection.
    async fn listen(&self) -> Result<(), BrokerError>;

    /// How often a connection to the broker was lost by now. While it stays the same nothing was forgotten of what
    /// was acked on a channel that was closed in order; a driver whose acks are never forgotten answers 0.
    fn losses(&self) -> u64;

    /// Closes the connections of a dead daemon by their name; only hastens what the broker does anyway.
    async fn connections_close(&self, name: &str) -> Result<u32, BrokerError>;

    /// Closes every connection in order.
    async fn close(&self);
}
