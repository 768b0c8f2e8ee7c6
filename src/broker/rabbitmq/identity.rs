//! Whose the broker is: which store's daemons deliver what is on it.
//!
//! One exchange says it by its arguments, and a declare of it is the claim: RabbitMQ compares `alternate-exchange`
//! and refuses another one, so that of two claims at the same moment one is first. The alternate is an exchange with
//! the store's identity in its name, so that a passive declare, which shows no arguments, tells too. It goes by
//! itself with the first one: it is auto-deleted, and its only binding is to that.

use std::time::Duration;

use super::RabbitMq;
use super::asks::{self, flags};
use super::frames::ShortString;
use super::prepare::short;
use crate::ambient;
use crate::broker::{BrokerError, Owner};
use crate::domain::id::StoreId;
use crate::domain::naming::Argument;

/// The argument with the identity, for people and for the management API.
const ARGUMENT: &str = "x-redrive-store";
/// Between the two exchanges of a claim that is under way.
const CLAIM: Duration = Duration::from_millis(500);

/// Looks, and writes nothing.
pub(super) async fn owner(broker: &RabbitMq, store: &StoreId) -> Result<Owner, BrokerError> {
    for waits in [true, false] {
        if is_there(broker, &broker.settings.naming.owner_exchange(store)).await? {
            return Ok(Owner::Ours);
        }
        if !is_there(broker, &broker.settings.naming.identity_exchange()).await? {
            return Ok(Owner::Nobody);
        }
        if waits {
            ambient::sleep(CLAIM).await;
        }
    }
    Ok(Owner::Other(named(broker).await))
}

/// The same for a store that may have no identity yet: to that one every claim is another's.
pub(super) async fn owner_for(broker: &RabbitMq, store: Option<&StoreId>) -> Result<Owner, BrokerError> {
    match store {
        Some(store) => owner(broker, store).await,
        None if is_there(broker, &broker.settings.naming.identity_exchange()).await? => {
            Ok(Owner::Other(named(broker).await))
        }
        None => Ok(Owner::Nobody),
    }
}

/// Claims it.
pub(super) async fn own(broker: &RabbitMq, store: &StoreId) -> Result<Owner, BrokerError> {
    let naming = &broker.settings.naming;
    let (identity, named_for) = (
        short(&naming.identity_exchange())?,
        short(&naming.owner_exchange(store))?,
    );
    let internal = flags::DURABLE | flags::INTERNAL;
    let text = |name: &ShortString| Argument::Text(name.as_str().to_owned());
    let arguments = [
        ("alternate-exchange", text(&named_for)),
        (ARGUMENT, Argument::Text(store.as_str().to_owned())),
    ];
    let claim = [
        asks::exchange(&identity, "fanout", internal, &arguments),
        asks::exchange(&named_for, "fanout", internal | flags::EXCHANGE_AUTO_DELETE, &[]),
        asks::exchange_bind(&identity, &named_for, &ShortString::ours("")),
    ];
    match broker.admin.spare.ask(&claim).await {
        Ok(_) => Ok(Owner::Ours),
        Err(error) if error.code() == Some(406) => Ok(Owner::Other(named(broker).await)),
        Err(error) => Err(broker.admin.error("declare the identity", &error)),
    }
}

/// Claims it, whosever it was.
pub(super) async fn adopt(broker: &RabbitMq, store: &StoreId) -> Result<(), BrokerError> {
    let identity = short(&broker.settings.naming.identity_exchange())?;
    match broker.admin.spare.ask(&[asks::exchange_delete(&identity)]).await {
        Ok(_) => {}
        Err(error) if error.says_missing_exchange(identity.as_str()) => {}
        Err(error) => return Err(broker.admin.error("delete the identity", &error)),
    }
    match own(broker, store).await? {
        Owner::Ours => Ok(()),
        Owner::Nobody | Owner::Other(_) => Err(BrokerError::Failed {
            operation: "adopt",
            detail: "a daemon of another store claimed the broker in the same moment: stop it, and adopt again"
                .to_owned(),
        }),
    }
}

async fn is_there(broker: &RabbitMq, exchange: &str) -> Result<bool, BrokerError> {
    let stands = broker.admin.spare.exchange_stands(&short(exchange)?).await;
    stands.map_err(|error| broker.admin.error("look for the identity", &error))
}

/// The other store, where the management API tells it.
async fn named(broker: &RabbitMq) -> Option<String> {
    let management = broker.management.as_ref()?;
    let identity = broker.settings.naming.identity_exchange();
    management.exchange_argument(&identity, ARGUMENT).await.ok().flatten()
}
