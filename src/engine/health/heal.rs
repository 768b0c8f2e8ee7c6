//! What was made at the start is made again (docs/protocols.md 36).
//!
//! Whoever meets its absence makes it: making is idempotent. A new exchange has no bindings, and says so, because the
//! mark that every queue is bound goes with it; whichever daemon takes the lease of that work binds them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::losses::incident;
use super::missing::begin_looking;
use super::numbers::asked;
use crate::broker::{BrokerError, CONNECT, Owner, Standing};
use crate::domain::id::StoreId;
use crate::engine::error::chain;
use crate::engine::health::Healing;
use crate::engine::{EngineError, Event};

/// The result of a line of the audit that tells of a restored store.
pub(crate) const WENT_BACK: &str = "went back";
/// Those of lines that tell of what was gone from the broker, and of a right that was.
const MADE_AGAIN: &str = "made again";
pub(in crate::engine) const ALLOWED_AGAIN: &str = "allowed again";
/// The target of a line about the broker, and the result of one that tells of a broker that was put back.
pub(super) const BROKER: &str = "broker";
pub(in crate::engine) const IS_OLDER: &str = "is older";

impl Healing {
    /// Makes again what is gone, and binds what is not bound.
    pub(super) async fn heal(self: &Arc<Self>, store: &StoreId, found: &Result<Standing, BrokerError>) {
        let (gone, result) = match found {
            Ok(standing) if !standing.missing.is_empty() => (standing.missing.join(", "), MADE_AGAIN),
            Ok(standing) => {
                if !standing.is_bound {
                    drop(self.begin_binding());
                } else if !self.health.binding.load(Ordering::SeqCst) {
                    if self.health.losses.take_was_gone() {
                        begin_looking(self);
                    }
                    if !self.health.losses.is_looking() {
                        self.audit_losses(None).await;
                    }
                }
                return;
            }
            Err(error @ BrokerError::Vhost { .. }) => {
                (format!("vhost {:?} ({error})", self.settings.naming.vhost), MADE_AGAIN)
            }
            // Somebody took it away; or the vhost is a new one, which the user may not enter yet.
            Err(error @ BrokerError::Rights { operation: CONNECT, .. }) => {
                (format!("the right to work on the broker ({error})"), ALLOWED_AGAIN)
            }
            Err(_) => return,
        };
        self.health.losses.something_was_gone();
        match self.make_again(store).await {
            Ok(()) => self.was_healed(&gone, result).await,
            Err(error) => {
                tracing::error!(gone = ?gone, error = ?chain(&error), "something of ours is gone from the broker, and cannot be made again yet");
            }
        }
    }

    async fn make_again(&self, store: &StoreId) -> Result<(), EngineError> {
        self.broker.prepare().await?;
        self.own_broker(store).await
    }

    /// The broker is the store's, or nothing goes on: two stores would each deliver what is on it.
    pub(in crate::engine) async fn own_broker(&self, store: &StoreId) -> Result<(), EngineError> {
        self.ownership.refuse_another_broker(store).await?;
        match self.broker.own(store).await? {
            Owner::Ours => self.ownership.keep_place().await,
            Owner::Nobody | Owner::Other(_) if *self.news.delivering.borrow() => {
                if self.fence.close() {
                    tracing::error!("the broker was given to another store: nothing continues here");
                }
                Err(others(None, store))
            }
            Owner::Nobody => Err(others(None, store)),
            Owner::Other(other) => Err(others(other, store)),
        }
    }

    /// Refuses a broker that is another store's; for commands, which write nothing there. What cannot be looked at
    /// is not refused.
    pub(in crate::engine) async fn compare_owner(&self) -> Result<(), EngineError> {
        let Ok(store) = self.store_identity().await else {
            return Ok(());
        };
        match self.look_at_owner(store.clone()).await {
            Ok(Owner::Other(other)) => Err(others(other, &store)),
            Ok(owner) => self.ownership.compare_place(&owner).await,
            Err(error) => {
                tracing::debug!(error = ?error, "whose the broker is cannot be looked at");
                Ok(())
            }
        }
    }

    /// Not for long: a broker that hangs is told of by what is asked for.
    async fn look_at_owner(&self, store: StoreId) -> Result<Owner, BrokerError> {
        let broker = Arc::clone(&self.broker);
        asked("look for the identity", async move { broker.owner(&store).await }).await
    }

    /// Another store is at the address than the one that this process began with: its work ends here.
    pub(super) async fn compare_store(&self) {
        let (Some(known), Ok(now)) = (self.health.store(), self.store.identity().await) else {
            return;
        };
        if known != now {
            self.health.set_store(now);
            if self.fence.close() {
                tracing::error!("another store is at the configured address: restarting");
            }
        }
    }

    async fn was_healed(&self, gone: &str, result: &'static str) {
        tracing::error!(gone = ?gone, result, "something of ours was gone from the broker");
        self.tell(Event::Incident(format!("gone from the broker and {result}: {gone}")));
        self.audit_heal(BROKER, result, format!("was gone: {gone}")).await;
        self.health.look_now();
    }

    pub(super) async fn audit_heal(&self, target: &str, result: &str, detail: String) {
        incident(&self.store, "daemon", (target, result), detail).await;
    }
}

fn others(other: Option<String>, own: &StoreId) -> EngineError {
    if other.as_deref() == Some(own.as_str()) {
        return EngineError::OtherOwner {
            why: format!(
                "broker.url and broker.management_url lead to two brokers: the one of broker.management_url belongs to \
                 the store {} of this configuration, and the one of broker.url does not; correct one of them",
                own.as_str()
            ),
        };
    }
    let other = other.map_or_else(|| "another store".to_owned(), |other| format!("the store {other}"));
    EngineError::OtherOwner {
        why: format!(
            "the broker is delivered by the daemons of {other}, and this configuration has the store {}: correct \
             store.url or broker.url; where that store is gone for good, `redrive store adopt` gives the broker to this one",
            own.as_str()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_urls_that_lead_to_two_brokers_are_not_called_two_stores() {
        let id = |digit: &str| digit.repeat(36);
        let own = StoreId::parse(&id("a")).unwrap();
        let told = |other: Option<&str>| others(other.map(str::to_owned), &own).to_string();
        let same = told(Some(&id("a")));
        assert!(
            same.starts_with("broker.url and broker.management_url lead to two brokers"),
            "{same}"
        );
        assert!(told(Some(&id("b"))).contains("the daemons of the store b"));
        assert!(told(None).contains("the daemons of another store"));
    }
}
