//! A look at a broker before anything of ours is on it: can it be entered, are the rights there, does the
//! management API answer.
//!
//! Rights are tried, not read: a queue and an exchange under our prefix are made for this connection alone, bound,
//! written and read. The broker removes both when the connection closes, also when this process dies meanwhile.

use std::sync::Arc;

use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Channel, ExchangeKind};

use super::failure::CallError;
use super::line::Line;
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
    let line = broker.dialer.open("probe").await;
    let mut health = BrokerHealth {
        reachable: !matches!(line, Err(BrokerError::Unreachable { .. })),
        ..BrokerHealth::default()
    };
    health::management(broker, &mut health).await;
    let (rights, prepared) = match &line {
        Ok(line) => {
            let rights = rights(broker, line).await;
            let rights = rights.map_err(|error| broker.admin.error("a queue of our prefix", &error));
            (Some(rights), is_prepared(broker).await)
        }
        Err(_) => (None, false),
    };
    let owner = match &line {
        Ok(_) => identity::owner_for(broker, store).await.ok(),
        Err(_) => None,
    };
    broker.admin.spare.close().await;
    if let Ok(line) = &line {
        line.close().await;
    }
    Probe {
        entered: line.map(drop),
        rights,
        prepared,
        owner,
        health,
    }
}

/// Everything that a daemon does on a queue and an exchange, once.
async fn rights(broker: &RabbitMq, line: &Arc<Line>) -> Result<(), CallError> {
    let prefix = &broker.settings.naming.prefix;
    let name = |what: &str| short(&format!("{prefix}probe.{what}.{}", ambient::new_id()));
    let (Ok(queue), Ok(exchange)) = (name("queue"), name("exchange")) else {
        return Err(CallError::Silent(super::line::CALL));
    };
    let channel = line.channel().await?;
    make(line, &channel, &queue, &exchange).await?;
    let properties = BasicProperties::default();
    let options = BasicPublishOptions::default();
    line.call(channel.basic_publish(exchange.clone(), queue.clone(), options, b"probe", properties))
        .await?;
    line.call(channel.basic_get(queue.clone(), BasicGetOptions { no_ack: true }))
        .await?;
    // The exchange goes with its last queue.
    line.call(channel.queue_delete(queue.clone(), QueueDeleteOptions::default()))
        .await
        .map(drop)
}

async fn make(line: &Line, channel: &Channel, queue: &ShortString, exchange: &ShortString) -> Result<(), CallError> {
    let own = QueueDeclareOptions {
        exclusive: true,
        auto_delete: true,
        ..QueueDeclareOptions::default()
    };
    line.call(channel.queue_declare(queue.clone(), own, FieldTable::default()))
        .await?;
    let passing = ExchangeDeclareOptions {
        auto_delete: true,
        ..ExchangeDeclareOptions::default()
    };
    line.call(channel.exchange_declare(exchange.clone(), ExchangeKind::Direct, passing, FieldTable::default()))
        .await?;
    let bind = QueueBindOptions::default();
    line.call(channel.queue_bind(
        queue.clone(),
        exchange.clone(),
        queue.clone(),
        bind,
        FieldTable::default(),
    ))
    .await
}

async fn is_prepared(broker: &RabbitMq) -> bool {
    matches!(
        broker.admin.spare.exchange_stands(broker.admin.exchange()).await,
        Ok(true)
    )
}
