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

use super::RabbitMq;
use super::asks::{self, Taken, Unless, flags};
use super::frames::ShortString;
use super::message;
use super::prepare::{self, WAKE, short, wake_arguments};
use crate::ambient;
use crate::broker::{BrokerError, Look, Published, Signal, Standing};
use crate::domain::id::{QueueName, StoreId};
use crate::domain::message::Message;
use crate::domain::naming::{QueueType, queue_arguments};

/// The key of the binding that says that every queue is bound. It goes with the exchange, and with the wake queue.
///
/// A message that comes through it proves it only where what no queue takes comes back: a policy can send that
/// elsewhere. So an exchange of ours says it too, which goes by itself with the one that it is bound to.
const BOUND: &str = "bound";

/// Between two declarations of the exchange by a user who may not.
const REFUSED_LATELY: Duration = Duration::from_mins(1);

/// A queue that could be made so lately could be made now.
const MADE_LATELY: Duration = Duration::from_millis(1500);

/// Looks, tries the rights, and makes nothing that is missing.
pub(super) async fn check(broker: &RabbitMq, store: &StoreId) -> Result<Standing, BrokerError> {
    let naming = &broker.settings.naming;
    let (wake, dead) = (short(&naming.wake_queue())?, short(&naming.dead_letter_queue())?);
    let mut missing = Vec::new();
    for exchange in [broker.admin.exchange().clone(), short(&naming.owner_exchange(store))?] {
        if !broker
            .admin
            .spare
            .exchange_stands(&exchange)
            .await
            .map_err(|error| broker.admin.error("check", &error))?
        {
            missing.push(format!("exchange {:?}", exchange.as_str()));
        }
    }
    for queue in [&wake, &dead] {
        if !queue_stands(broker, queue).await? {
            missing.push(format!("queue {:?}", queue.as_str()));
        }
    }
    if !missing.is_empty() {
        return Ok(Standing {
            missing,
            is_bound: false,
        });
    }
    exchange_as_it_is(broker).await?;
    try_rights(broker, &wake).await?;
    try_new_queue(broker).await?;
    Ok(Standing {
        missing,
        is_bound: is_bound(broker).await?,
    })
}

/// Declares the exchange as it is, because a look does not tell of which type it is. Who may not do that is not asked again
/// each second: the broker logs every refusal.
async fn exchange_as_it_is(broker: &RabbitMq) -> Result<(), BrokerError> {
    let refused = || broker.times.not_declared.lock().unwrap_or_else(PoisonError::into_inner);
    let now = broker.clock.uptime();
    if refused().is_some_and(|at| now.saturating_sub(at) < REFUSED_LATELY) {
        return Ok(());
    }
    let declared = prepare::exchange(broker).await;
    *refused() = match declared {
        Err(error @ BrokerError::OtherArguments { .. }) => return Err(error),
        Err(ref error @ BrokerError::Rights { .. }) => {
            tracing::warn!(error = %error, "the exchange could not be made again if it were gone");
            Some(now)
        }
        Ok(()) | Err(_) => None,
    };
    Ok(())
}

/// Says that every queue is bound.
pub(super) async fn mark_bound(broker: &RabbitMq) -> Result<(), BrokerError> {
    let naming = &broker.settings.naming;
    let (wake, mark) = (short(&naming.wake_queue())?, short(&naming.bound_exchange())?);
    let passing = flags::DURABLE | flags::INTERNAL | flags::EXCHANGE_AUTO_DELETE;
    let mark = [
        asks::exchange(&mark, "fanout", passing, &[]),
        asks::exchange_bind(broker.admin.exchange(), &mark, &ShortString::ours("")),
    ];
    let marked = broker.admin.spare.ask(&mark).await;
    marked.map_err(|error| broker.admin.error("bind", &error))?;
    let bound = broker.admin.bind_with(&wake, &ShortString::ours(BOUND)).await;
    bound.map_err(|error| broker.admin.error("bind", &error))
}

async fn queue_stands(broker: &RabbitMq, name: &ShortString) -> Result<bool, BrokerError> {
    match broker.admin.spare.look(name).await {
        Ok(look) => Ok(look != Look::Missing),
        // A queue whose node is away is there, and the rest does not depend on it.
        Err(error) if error.code() == Some(404) => Ok(true),
        Err(error) => Err(broker.admin.error("check", &error)),
    }
}

async fn try_rights(broker: &RabbitMq, wake: &ShortString) -> Result<(), BrokerError> {
    let steps = [
        asks::declare(wake, flags::DURABLE, &wake_arguments()),
        asks::bind(wake, broker.admin.exchange(), &ShortString::ours(WAKE)),
        asks::get(wake, Taken::ForGood),
        asks::look(wake),
    ];
    let answer = broker.admin.spare.ask(&steps).await;
    let taken = answer.map_err(|error| broker.admin.error("check", &error))?.got;
    // Anybody may write there: what is no name is nothing.
    let nudge = taken.and_then(|taken| message::came(&taken.properties, taken.body).ok());
    let queue = nudge.and_then(|nudge| QueueName::parse(std::str::from_utf8(&nudge.body).ok()?).ok());
    match queue {
        Some(queue) if broker.listeners.have_begun() => broker.listeners.tell(Signal::Nudged(queue)),
        // A command delivers nothing: it gives back what was for a daemon.
        Some(queue) => broker.nudges.send(&broker.publisher, &queue, broker.clock.uptime()),
        None => {}
    }
    Ok(())
}

/// Once refused, it is tried each time: what stands is told until it is over.
async fn try_new_queue(broker: &RabbitMq) -> Result<(), BrokerError> {
    let last = || broker.times.made.lock().unwrap_or_else(PoisonError::into_inner);
    let now = broker.clock.uptime();
    if last().is_some_and(|at| now.saturating_sub(at) < MADE_LATELY) {
        return Ok(());
    }
    *last() = None;
    let queue = short(&broker.settings.naming.probe_queue(ambient::random()))?;
    let passing = flags::EXCLUSIVE | flags::QUEUE_AUTO_DELETE;
    // What a delivery queue needs before anything can be in it: *configure*, *write* and *read* on it.
    let steps = [
        asks::declare(&queue, passing, &queue_arguments(QueueType::Classic)),
        asks::bind(&queue, broker.admin.exchange(), &queue),
        asks::get(&queue, Taken::ForGood),
        asks::delete(&queue, Unless::Never),
    ];
    match broker.admin.spare.ask(&steps).await {
        Ok(_) => {
            *last() = Some(now);
            Ok(())
        }
        Err(error) => {
            // Refused after it was made; else it would stay for as long as the connection.
            if error.code().is_some() {
                let _ = broker
                    .admin
                    .spare
                    .ask_once(&[asks::delete(&queue, Unless::Never)])
                    .await;
            }
            Err(broker.admin.error("a new queue", &error))
        }
    }
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
    let stands = broker.admin.spare.exchange_stands(&mark).await;
    stands.map_err(|error| broker.admin.error("check", &error))
}
