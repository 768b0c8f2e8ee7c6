//! A look at a broker before anything of ours is on it: can it be entered, are the rights there, does the
//! management API answer.
//!
//! Rights are tried, not read: a queue and an exchange under our prefix are made for this connection alone, bound,
//! written and read. The broker removes both when the connection closes, also when this process dies meanwhile.

use std::sync::Arc;

use bytes::Bytes;

use super::asks::{self, Taken, Unless, flags};
use super::failure::CallError;
use super::feed::{Content, Feed};
use super::prepare::short;
use super::{RabbitMq, health, identity};
use crate::ambient;
use crate::broker::{BrokerError, BrokerHealth, Owner};
use crate::domain::id::StoreId;

/// What was found.
#[derive(Debug)]
pub struct Probe {
    /// Whether the vhost can be entered.
    pub entered: Result<(), BrokerError>,
    /// Whether everything that is done there is allowed; `None`: it was not entered.
    pub rights: Option<Result<(), BrokerError>>,
    /// Whether the exchange of these settings is there: something of ours ran here before.
    pub prepared: bool,
    /// Whose daemons deliver what is there; `None`: it cannot be looked at.
    pub owner: Option<Owner>,
    /// Version, management API, alarms.
    pub health: BrokerHealth,
}

/// Looks for the store with this identity, or for one that has none yet, and leaves nothing.
pub(super) async fn probe(broker: &RabbitMq, store: Option<&StoreId>) -> Probe {
    let feed = Feed::open(&broker.dialer, "probe").await;
    let mut health = BrokerHealth {
        reachable: !matches!(feed, Err(BrokerError::Unreachable { .. })),
        ..BrokerHealth::default()
    };
    health::management(broker, &mut health).await;
    let (rights, prepared) = match &feed {
        Ok(feed) => {
            let rights = rights(broker, feed).await;
            let rights = rights.map_err(|error| broker.admin.error("a queue of our prefix", &error));
            (Some(rights), is_prepared(broker).await)
        }
        Err(_) => (None, false),
    };
    let owner = match &feed {
        Ok(_) => identity::owner_for(broker, store).await.ok(),
        Err(_) => None,
    };
    broker.admin.spare.close().await;
    if let Ok(feed) = &feed {
        feed.close().await;
    }
    Probe {
        entered: feed.map(drop),
        rights,
        prepared,
        owner,
        health,
    }
}

/// Everything that a daemon does on a queue and an exchange, once.
async fn rights(broker: &RabbitMq, feed: &Arc<Feed>) -> Result<(), CallError> {
    let prefix = &broker.settings.naming.prefix;
    let name = |what: &str| short(&format!("{prefix}probe.{what}.{}", ambient::new_id()));
    let (Ok(queue), Ok(exchange)) = (name("queue"), name("exchange")) else {
        return Err(CallError::Silent(super::dialer::CALL));
    };
    let tap = feed.channel(queue.as_str()).await?;
    let own = flags::EXCLUSIVE | flags::QUEUE_AUTO_DELETE;
    tap.call(&[
        asks::declare::<&str>(&queue, own, &[]),
        asks::exchange(&exchange, "direct", flags::EXCHANGE_AUTO_DELETE, &[]),
        asks::bind(&queue, &exchange, &queue),
    ])
    .await?;
    // No answer is asked for: a refusal closes the channel.
    drop(tap.publish(vec![Content {
        exchange: exchange.as_str().into(),
        key: queue.as_str().to_owned(),
        properties: vec![0; 2],
        body: Bytes::from_static(b"probe"),
    }])?);
    tap.call(&[asks::get(&queue, Taken::ForGood)]).await?;
    // The exchange goes with its last queue.
    tap.call(&[asks::delete(&queue, Unless::Never)]).await.map(drop)
}

async fn is_prepared(broker: &RabbitMq) -> bool {
    matches!(
        broker.admin.spare.exchange_stands(broker.admin.exchange()).await,
        Ok(true)
    )
}
