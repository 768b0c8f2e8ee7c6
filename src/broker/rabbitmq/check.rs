//! Whether everything of ours stands, and whether we may still do with it what we do, asked every second.
//!
//! Rights are tried and not read: the wake queue is declared and bound as it is, which needs *configure* and *write*
//! on it and *read* on the exchange; one nudge is taken from it, which needs *read* and is handed on as if it had
//! been delivered; and a message is published that nothing but our own mark routes, which needs *write* on the
//! exchange. The broker keeps rights per channel for a while, so each check has a channel of its own.
//!
//! What is there already says nothing of a new queue: a limit of the vhost or of the node may be reached, and rights may
//! name the queues that there are. So every other second one is made for this connection alone, and deleted.

use std::sync::PoisonError;
use std::time::Duration;

use lapin::options::{
    BasicGetOptions, ExchangeBindOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, ExchangeKind};

use super::RabbitMq;
use super::admin::{insert, on_channel, text};
use super::failure::CallError;
use super::line::Line;
use super::message;
use super::prepare::{WAKE, short, wake_arguments};
use crate::ambient;
use crate::broker::{BrokerError, Published, Signal, Standing};
use crate::domain::id::{QueueName, StoreId};
use crate::domain::message::Message;

/// The key of the binding that says that every queue is bound. It goes with the exchange, and with the wake queue.
///
/// A message that comes through it proves it only where what no queue takes comes back: a policy can send that
/// elsewhere. So an exchange of ours says it too, which goes by itself with the one that it is bound to.
const BOUND: &str = "bound";

/// A queue that could be made so lately could be made now.
const MADE_LATELY: Duration = Duration::from_millis(1500);

/// Looks, tries the rights, and makes nothing that is missing.
pub(super) async fn check(broker: &RabbitMq, store: &StoreId) -> Result<Standing, BrokerError> {
    let line = broker.admin.line().await?;
    let naming = &broker.settings.naming;
    let (wake, dead) = (short(&naming.wake_queue())?, short(&naming.dead_letter_queue())?);
    let mut missing = Vec::new();
    for exchange in [broker.admin.exchange().clone(), short(&naming.owner_exchange(store))?] {
        if !broker
            .admin
            .exchange_stands(&exchange)
            .await
            .map_err(|error| broker.admin.error("check", &error))?
        {
            missing.push(format!("exchange {:?}", exchange.as_str()));
        }
    }
    for queue in [&wake, &dead] {
        if !queue_stands(broker, &line, queue).await? {
            missing.push(format!("queue {:?}", queue.as_str()));
        }
    }
    if !missing.is_empty() {
        return Ok(Standing {
            missing,
            is_bound: false,
        });
    }
    try_rights(broker, &line, &wake).await?;
    try_new_queue(broker, &line).await?;
    Ok(Standing {
        missing,
        is_bound: is_bound(broker).await?,
    })
}

/// Says that every queue is bound.
pub(super) async fn mark_bound(broker: &RabbitMq) -> Result<(), BrokerError> {
    let naming = &broker.settings.naming;
    let (wake, mark) = (short(&naming.wake_queue())?, short(&naming.bound_exchange())?);
    let line = broker.admin.line().await?;
    let passing = ExchangeDeclareOptions {
        durable: true,
        internal: true,
        auto_delete: true,
        ..ExchangeDeclareOptions::default()
    };
    let marked = on_channel(&line, async |channel: &Channel| {
        line.call(channel.exchange_declare(mark.clone(), ExchangeKind::Fanout, passing, FieldTable::default()))
            .await?;
        let exchange = broker.admin.exchange().clone();
        let (key, options) = ("".into(), ExchangeBindOptions::default());
        line.call(channel.exchange_bind(exchange, mark.clone(), key, options, FieldTable::default()))
            .await
    });
    marked.await.map_err(|error| broker.admin.error("bind", &error))?;
    let bound = broker.admin.bind_with(&wake, &ShortString::from(BOUND)).await;
    bound.map_err(|error| broker.admin.error("bind", &error))
}

async fn queue_stands(broker: &RabbitMq, line: &Line, name: &ShortString) -> Result<bool, BrokerError> {
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let looked = on_channel(line, async |channel: &Channel| {
        let looking = channel.queue_declare(name.clone(), passive, FieldTable::default());
        line.call(looking).await.map(drop)
    });
    match looked.await {
        Ok(()) => Ok(true),
        Err(error) if error.says_missing(name.as_str()) => Ok(false),
        // A queue whose node is away is there, and the rest does not depend on it.
        Err(error) if error.code() == Some(404) => Ok(true),
        Err(error) => Err(broker.admin.error("check", &error)),
    }
}

async fn try_rights(broker: &RabbitMq, line: &Line, wake: &ShortString) -> Result<(), BrokerError> {
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    let tried = on_channel(line, async |channel: &Channel| {
        line.call(channel.queue_declare(wake.clone(), durable, wake_arguments()))
            .await?;
        let exchange = broker.admin.exchange().clone();
        let (key, options) = (WAKE.into(), QueueBindOptions::default());
        line.call(channel.queue_bind(wake.clone(), exchange, key, options, FieldTable::default()))
            .await?;
        line.call(channel.basic_get(wake.clone(), BasicGetOptions { no_ack: true }))
            .await
    });
    let taken = match tried.await {
        Ok(taken) => taken,
        // It says nothing of these; the next check does.
        Err(error) if error.is_astray(&[wake.as_str(), broker.admin.exchange().as_str()]) => None,
        Err(error) => return Err(broker.admin.error("check", &error)),
    };
    let nudge = taken.map(|taken| message::received(taken.delivery.properties, taken.delivery.data));
    let queue = nudge.and_then(|nudge| QueueName::parse(std::str::from_utf8(&nudge.body).ok()?).ok());
    if let Some(queue) = queue {
        broker.listeners.tell(Signal::Nudged(queue));
    }
    Ok(())
}

/// Once refused, it is tried each time: what stands is told until it is over.
async fn try_new_queue(broker: &RabbitMq, line: &Line) -> Result<(), BrokerError> {
    let last = || broker.times.made.lock().unwrap_or_else(PoisonError::into_inner);
    let now = broker.clock.uptime();
    if last().is_some_and(|at| now.saturating_sub(at) < MADE_LATELY) {
        return Ok(());
    }
    *last() = None;
    let queue = short(&broker.settings.naming.probe_queue(ambient::random()))?;
    let delete = async |channel: &Channel| {
        line.call(channel.queue_delete(queue.clone(), QueueDeleteOptions::default()))
            .await
    };
    let tried = on_channel(line, async |channel: &Channel| {
        make_and_read(broker, line, channel, &queue).await?;
        delete(channel).await
    });
    match tried.await {
        Ok(_) => {
            *last() = Some(now);
            Ok(())
        }
        // It says nothing of these; the next check does.
        Err(error) if error.is_astray(&[queue.as_str(), broker.admin.exchange().as_str()]) => Ok(()),
        Err(error) => {
            // Refused after it was made; else it would stay for as long as the connection.
            if error.code().is_some() {
                let _ = on_channel(line, delete).await;
            }
            Err(broker.admin.error("a new queue", &error))
        }
    }
}

/// What a delivery queue needs before anything can be in it: *configure*, *write* and *read* on it.
async fn make_and_read(
    broker: &RabbitMq,
    line: &Line,
    channel: &Channel,
    queue: &ShortString,
) -> Result<(), CallError> {
    let own = QueueDeclareOptions {
        exclusive: true,
        auto_delete: true,
        ..QueueDeclareOptions::default()
    };
    let mut arguments = FieldTable::default();
    insert(&mut arguments, "x-queue-type", text("classic"));
    line.call(channel.queue_declare(queue.clone(), own, arguments)).await?;
    let (exchange, options) = (broker.admin.exchange().clone(), QueueBindOptions::default());
    line.call(channel.queue_bind(queue.clone(), exchange, queue.clone(), options, FieldTable::default()))
        .await?;
    line.call(channel.basic_get(queue.clone(), BasicGetOptions { no_ack: true }))
        .await
        .map(drop)
}

/// While an alarm holds, nothing is published, and what was known of the mark stays true.
async fn is_bound(broker: &RabbitMq) -> Result<bool, BrokerError> {
    match broker.publisher.publish(BOUND, &Message::default()).await {
        Ok(Published::Returned) => return Ok(false),
        // What the wake queue refuses has reached it.
        Ok(Published::Accepted | Published::Refused(_) | Published::NotNow(_)) | Err(BrokerError::Blocked { .. }) => {}
        // The publisher waits for as long as a confirm may take, and an alarm may have begun meanwhile.
        Err(BrokerError::Unknown { .. }) if broker.publisher.alarm_reason().is_some() => {}
        Err(error) => return Err(error),
    }
    let mark = short(&broker.settings.naming.bound_exchange())?;
    let stands = broker.admin.exchange_stands(&mark).await;
    stands.map_err(|error| broker.admin.error("check", &error))
}
