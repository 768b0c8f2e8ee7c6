//! Makes what must exist: vhost, rights, exchange, wake queue, dead-letter queue. Idempotent.
//!
//! AMQP first: an existing vhost with sufficient rights needs no administrator and no management API.
//! Nothing that exists with other arguments is ever deleted; the difference is reported (docs/rabbitmq.md, *Errors that
//! close a channel*).

use std::sync::PoisonError;
use std::time::Duration;

use super::RabbitMq;
use super::admin::CreateError;
use super::asks::{self, flags};
use super::failure::rights;
use super::frames::ShortString;
use crate::broker::BrokerError;
use crate::domain::id::QueueName;
use crate::domain::job::Lifetime;
use crate::domain::naming::{Argument, QueueType, queue_arguments};

/// The routing key of the wake queue.
pub(super) const WAKE: &str = "wake";
/// Nudges that wait at once; older ones are dropped.
const WAKE_LENGTH_MAX: i32 = 10_000;
/// How long a nudge means anything: after that the sweep has found the queue.
const WAKE_TTL_MS: i32 = 60_000;

/// Between two makings of the vhost, or of the rights on it.
const ENTER_EVERY: Duration = Duration::from_mins(1);

/// Makes everything that is missing.
pub(super) async fn prepare(broker: &RabbitMq) -> Result<(), BrokerError> {
    enter(broker).await?;
    exchange(broker).await?;
    let wake = short(&broker.settings.naming.wake_queue())?;
    declared(broker, &wake, &wake_arguments()).await?;
    bound(broker, &wake, &ShortString::ours(WAKE)).await?;
    dead_letter_queue(broker).await
}

/// The dead-letter queue alone, for a publisher that finds it missing.
pub(super) async fn dead_letter_queue(broker: &RabbitMq) -> Result<(), BrokerError> {
    let naming = &broker.settings.naming;
    let dead = short(&naming.dead_letter_queue())?;
    declared(broker, &dead, &queue_arguments(naming.queue_type)).await?;
    bound(broker, &dead, &dead).await
}

/// A delivery queue with its binding.
pub(super) async fn create(broker: &RabbitMq, queue: &ShortString) -> Result<(), BrokerError> {
    match broker.admin.create(queue).await {
        Ok(()) => Ok(()),
        Err(error) => Err(explained(broker, queue, error).await),
    }
}

/// A queue that the broker deletes when nobody used it for `lifetime`. Classic, whatever delivery queues are:
/// only there a publisher cannot lose against the deletion of what it was told exists.
pub(super) async fn expiring(broker: &RabbitMq, queue: &ShortString, lifetime: Lifetime) -> Result<(), BrokerError> {
    let mut arguments = queue_arguments(QueueType::Classic);
    if let Some(millis) = lifetime.millis() {
        arguments.push(("x-expires", Argument::Long(i64::from(millis))));
    }
    declared(broker, queue, &arguments).await?;
    bound(broker, queue, queue).await
}

/// A queue as one of that name was listed, bound to nothing.
pub(super) async fn again(
    broker: &RabbitMq,
    queue: &ShortString,
    arguments: &[(String, String)],
) -> Result<(), BrokerError> {
    let mut table = Vec::new();
    for (name, value) in arguments {
        table.push((short(name)?.as_str().to_owned(), argument(name, value)));
    }
    declared(broker, queue, &table).await
}

/// A listed argument as AMQP has it: the ones that count are numbers, the ones that switch are truth values.
fn argument(name: &str, value: &str) -> Argument {
    let is_text = matches!(
        name,
        "x-queue-type"
            | "x-dead-letter-exchange"
            | "x-dead-letter-routing-key"
            | "x-dead-letter-strategy"
            | "x-overflow"
            | "x-queue-mode"
            | "x-queue-leader-locator"
    );
    match (is_text, value.parse::<i64>(), value.parse::<bool>()) {
        (false, Ok(number), _) => Argument::Long(number),
        (false, _, Ok(flag)) => Argument::Flag(flag),
        (_, _, _) => Argument::Text(value.to_owned()),
    }
}

/// Opens the spare connection, making the vhost and the rights if it may and must: once a minute at most, so that
/// nobody who takes them away on purpose is worked against.
async fn enter(broker: &RabbitMq) -> Result<(), BrokerError> {
    let Err(refused) = broker.admin.enter().await else {
        return Ok(());
    };
    let missing = match &refused {
        BrokerError::Vhost { .. } => true,
        BrokerError::Rights { .. } => false,
        BrokerError::Unreachable { .. }
        | BrokerError::Unknown { .. }
        | BrokerError::Blocked { .. }
        | BrokerError::Login { .. }
        | BrokerError::Limit { .. }
        | BrokerError::Management { .. }
        | BrokerError::OtherArguments { .. }
        | BrokerError::NoExchange { .. }
        | BrokerError::Undecodable { .. }
        | BrokerError::Failed { .. } => return Err(refused),
    };
    let Some(management) = broker.management.as_ref().filter(|_| broker.settings.provision) else {
        return Err(refused);
    };
    if !may_enter_again(broker) {
        return Err(refused);
    }
    if missing {
        tracing::warn!(vhost = ?broker.dialer.vhost, "the vhost is not there: making it");
        management.vhost_create().await?;
    }
    management.permissions_grant(&broker.dialer.address.user).await?;
    broker.admin.enter().await
}

fn may_enter_again(broker: &RabbitMq) -> bool {
    let now = broker.clock.uptime();
    let mut entered = broker.times.entered.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = entered.is_none_or(|at| now.saturating_sub(at) >= ENTER_EVERY);
    if is_due {
        *entered = Some(now);
    }
    is_due
}

pub(super) async fn exchange(broker: &RabbitMq) -> Result<(), BrokerError> {
    let name = short(&broker.settings.naming.exchange())?;
    let declare = [asks::exchange(&name, "direct", flags::DURABLE, &[])];
    match broker.admin.spare.ask(&declare).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(406) && !error.is_limit() => Err(BrokerError::OtherArguments {
            queue: name.as_str().to_owned(),
            difference: format!(
                "it is an exchange of another type, which routes otherwise; delete it, and a daemon makes it again with \
                 all bindings ({})",
                error.text()
            ),
        }),
        Err(error) if error.code() == Some(403) => Err(rights(
            "declare",
            &format!("configure on exchange {:?}", name.as_str()),
            &broker.dialer.vhost,
            &broker.dialer.address.user,
        )),
        Err(error) => Err(broker.admin.error("declare", &error)),
    }
}

async fn declared<N: AsRef<str>>(
    broker: &RabbitMq,
    queue: &ShortString,
    arguments: &[(N, Argument)],
) -> Result<(), BrokerError> {
    match broker.admin.declare(queue, arguments).await {
        Ok(()) => Ok(()),
        Err(error) => Err(explained(broker, queue, error).await),
    }
}

async fn bound(broker: &RabbitMq, queue: &ShortString, key: &ShortString) -> Result<(), BrokerError> {
    let bound = broker.admin.bind_with(queue, key).await;
    bound.map_err(|error| broker.admin.error("bind", &error))
}

/// Adds to the broker's words, which name one difference, the arguments that the queue really has.
async fn explained(broker: &RabbitMq, queue: &ShortString, error: CreateError) -> BrokerError {
    let said = match error {
        CreateError::Other(error) | CreateError::Vanished(error) => return error,
        CreateError::OtherArguments(said) => said,
    };
    let name = queue.as_str().to_owned();
    let real = match (&broker.management, QueueName::parse(&name)) {
        (Some(management), Ok(queue)) => management
            .queue(management.vhost(), &queue, &broker.clock)
            .await
            .ok()
            .flatten(),
        (None, _) | (_, Err(_)) => None,
    };
    let difference = match real {
        None => said,
        Some(real) => {
            let has: Vec<_> = real
                .arguments
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            format!(
                "{said}; it has type {} and [{}]",
                real.queue_type.unwrap_or_default(),
                has.join(", ")
            )
        }
    };
    BrokerError::OtherArguments {
        queue: name,
        difference,
    }
}

/// Small, lossy and classic, whatever the delivery queues are.
pub(super) fn wake_arguments() -> Vec<(&'static str, Argument)> {
    let mut arguments = queue_arguments(QueueType::Classic);
    arguments.extend([
        ("x-max-length", Argument::Integer(WAKE_LENGTH_MAX)),
        ("x-overflow", Argument::Text("drop-head".to_owned())),
        ("x-message-ttl", Argument::Integer(WAKE_TTL_MS)),
    ]);
    arguments
}

/// A name of ours as AMQP has it.
pub(super) fn short(name: &str) -> Result<ShortString, BrokerError> {
    ShortString::new(name).map_err(|error| BrokerError::Failed {
        operation: "naming",
        detail: format!("{name:?}: {error}"),
    })
}
