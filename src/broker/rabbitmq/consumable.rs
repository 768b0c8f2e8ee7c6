//! Whether redrive may consume a queue of others: an auto-delete queue is gone with all its messages as soon as its last
//! consumer leaves.
//!
//! The management API says it, and what else speaks against it. Where it does not answer, AMQP says it, which needs the right
//! to *configure* the queue. While neither does, nothing is taken.

use std::sync::Arc;

use super::RabbitMq;
use super::failure::call_error;
use super::prepare::short;
use super::spare::Spare;
use super::vhost;
use crate::broker::{AUTO_DELETE, BrokerError, ListedQueue};
use crate::domain::id::QueueName;

/// Refuses what would destroy a queue of others, or cannot work; answers what the management API says of it.
pub(super) async fn may_consume(
    broker: &RabbitMq,
    operation: &'static str,
    of: &str,
    queue: &QueueName,
) -> Result<Option<ListedQueue>, BrokerError> {
    let untold = match detail(broker, of, queue).await {
        Ok(Some(listed)) => {
            let why = listed.not_consumed();
            return why.map_or(Ok(Some(listed)), |why| Err(not_touched(operation, queue, why)));
        }
        Ok(None) => "it knows no such queue".to_owned(),
        Err(error) => error.to_string(),
    };
    let name = short(queue.as_str())?;
    let asked = if of == broker.settings.naming.vhost {
        broker.admin.spare.is_auto_delete(&name).await
    } else {
        let spare = Spare::new(Arc::new(broker.dialer.to(of)), operation);
        let asked = spare.is_auto_delete(&name).await;
        spare.close().await;
        asked
    };
    match asked {
        Ok(false) => Ok(None),
        Ok(true) => Err(not_touched(operation, queue, AUTO_DELETE)),
        Err(error) if error.code() == Some(403) => {
            let why = format!(
                "whether it is auto-delete is not known, and RabbitMQ would delete such a queue as soon as redrive stopped \
                 consuming it. It is consumed once the management API tells of it ({untold}), or user {:?} has the right to \
                 configure it",
                broker.dialer.address.user
            );
            Err(not_touched(operation, queue, &why))
        }
        Err(error) => Err(call_error(operation, &broker.dialer.address, of, &error)),
    }
}

async fn detail(broker: &RabbitMq, of: &str, queue: &QueueName) -> Result<Option<ListedQueue>, BrokerError> {
    let found = broker.management()?.queue(of, queue, &broker.clock).await;
    if of == broker.settings.naming.vhost {
        return vhost::named(broker, found).await;
    }
    found
}

fn not_touched(operation: &'static str, queue: &QueueName, why: &str) -> BrokerError {
    BrokerError::Failed {
        operation,
        detail: format!("queue {:?} is not touched: {why}", queue.as_str()),
    }
}
