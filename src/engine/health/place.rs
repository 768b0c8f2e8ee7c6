//! A store belongs to one broker: what it knows of queues, runs and dead letters is about that one.
//!
//! What proves that they belong together is the store's identity on the broker. Where that is not there (nothing of ours
//! is, or it was deleted), the broker's name tells, which the store keeps from its first use. A name that cannot be read
//! is not compared.

use std::sync::Arc;

use super::numbers::asked;
use crate::broker::Owner;
use crate::domain::id::StoreId;
use crate::engine::EngineError;
use crate::engine::core::{Core, over_core};

/// Which store the broker belongs to, and giving it to one.
#[derive(Debug)]
pub(in crate::engine) struct Ownership {
    core: Arc<Core>,
}

over_core!(Ownership);

impl Ownership {
    pub(in crate::engine) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }

    /// Refuses a broker that is another one than the store's, before anything is made on it.
    pub(in crate::engine) async fn refuse_another_broker(&self, store: &StoreId) -> Result<(), EngineError> {
        if self.store.broker_name().await?.is_none() {
            return Ok(());
        }
        let owner = self.broker.owner(store).await?;
        self.compare_place(&owner).await
    }

    /// The same, of a broker that was looked at.
    pub(super) async fn compare_place(&self, owner: &Owner) -> Result<(), EngineError> {
        if *owner == Owner::Ours && !self.broker.is_embedded() {
            return Ok(());
        }
        let Ok(Some(kept)) = self.store.broker_name().await else {
            return Ok(());
        };
        match self.place().await {
            Some(now) if now != kept => Err(elsewhere(&kept, &now)),
            Some(_) | None => Ok(()),
        }
    }

    /// The broker is the store's: from now on the store says so.
    pub(in crate::engine) async fn keep_place(&self) -> Result<(), EngineError> {
        let Some(now) = self.place().await else {
            return Ok(());
        };
        if self.store.broker_name().await?.as_ref() != Some(&now) {
            self.store.broker_name_keep(&now).await?;
        }
        Ok(())
    }

    /// An order that is carried out is the first use, too: what it leaves is about this broker.
    pub(in crate::engine) async fn keep_first_place(&self) -> Result<(), EngineError> {
        if self.store.broker_name().await?.is_some() {
            return Ok(());
        }
        self.keep_place().await
    }

    /// What rows are told to be of: the store's broker, or, before its first use, the one that is looked at.
    pub(in crate::engine) async fn broker_label(&self) -> Result<Option<String>, EngineError> {
        Ok(match self.store.broker_name().await? {
            Some(kept) => Some(kept),
            None => self.place().await,
        })
    }

    /// Not for long: a broker that hangs is told of by what is asked for.
    async fn place(&self) -> Option<String> {
        let broker = Arc::clone(&self.broker);
        let place = asked(
            "look for the name of the broker",
            async move { Ok(broker.place().await) },
        );
        place.await.ok().flatten()
    }
}

fn elsewhere(kept: &str, now: &str) -> EngineError {
    EngineError::OtherOwner {
        why: format!(
            "the store belongs to the broker {kept:?}, and this configuration leads to {now:?}: correct broker.url, \
             broker.vhost or store.url; where the broker {kept:?} is gone for good, `redrive store adopt` gives this one \
             to the store"
        ),
    }
}
