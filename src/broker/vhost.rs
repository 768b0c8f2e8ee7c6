//! The vhost: that it is there, with all on it that is ours, and which store its messages belong to.

use async_trait::async_trait;

use super::{BrokerError, Owner, Standing, VhostFound};
use crate::domain::id::StoreId;
use crate::domain::numbers::Numbers;

/// The vhost of our settings, and the store that it belongs to.
#[async_trait]
pub trait Vhost: Send + Sync {
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

    /// What stands of all that is ours, and whether publishing and consuming are allowed at this moment: login, vhost,
    /// limits and rights, exchange, queues and identity of `store`. A few questions over AMQP, asked every second by
    /// each daemon; makes nothing that is missing.
    async fn check(&self, store: &StoreId) -> Result<Standing, BrokerError>;

    /// Says on the broker that every queue of the store is bound to the exchange; gone with the exchange.
    async fn mark_bound(&self) -> Result<(), BrokerError>;

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
}
