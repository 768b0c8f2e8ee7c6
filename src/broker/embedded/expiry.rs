//! Queues with a lifetime: gone when nobody consumed them for that long.
//!
//! *Used* is a declare or an attachment, not a publish, as with the other broker. An attachment of this process
//! notes its use again and again, so that other processes see it. A queue that is over is not there for anybody
//! from that moment on; its row goes with the next sweep, which counts what was lost.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::failure;
use super::shared::Shared;
use super::tables::{self, Expiring};
use crate::broker::{BrokerError, Signal};
use crate::domain::id::QueueName;
use crate::domain::job::Lifetime;

/// Between two sweeps at most: another process may have declared something.
const REST_MAX: Duration = Duration::from_secs(60);
/// And at least.
const REST_MIN: Duration = Duration::from_millis(20);

/// Declares and binds a queue, new or with the same lifetime.
pub(super) async fn declare(shared: &Shared, queue: &QueueName, lifetime: Lifetime) -> Result<(), BrokerError> {
    shared.need_exchange("declare").await?;
    let (name, now) = (queue.clone(), shared.clock.now());
    let millis = lifetime.millis().map(i64::from);
    let declared = shared
        .file
        .write(move |connection| {
            Box::pin(async move { tables::queue_declare_expiring(connection, name.as_str(), millis, now).await })
        })
        .await
        .map_err(failure::write("declare"))?;
    match declared {
        tables::Declared::New => {
            shared.signals.send(Signal::QueueCreated(queue.clone()));
            shared.expiry_moved.notify_one();
            Ok(())
        }
        tables::Declared::Same => Ok(()),
        tables::Declared::Other(has) => Err(BrokerError::OtherArguments {
            queue: queue.as_str().to_owned(),
            difference: has.map_or_else(
                || "it has no x-expires".to_owned(),
                |millis| format!("it has x-expires={millis}"),
            ),
        }),
    }
}

/// The lifetime that listed arguments say.
pub(super) fn lifetime_in(arguments: &[(String, String)]) -> Lifetime {
    let millis = arguments
        .iter()
        .find(|(name, _)| name == "x-expires")
        .and_then(|(_, millis)| millis.parse().ok());
    millis
        .and_then(|millis| Lifetime::of(Duration::from_millis(millis)).ok())
        .unwrap_or(Lifetime::Never)
}

/// Sweeps when something is over, until the broker is closed.
pub(super) async fn run(shared: Weak<Shared>) {
    loop {
        let Some(held) = shared.upgrade() else { return };
        let rest = match sweep(&held).await {
            Ok(rest) => rest,
            Err(error) => {
                tracing::warn!(error = ?error, "queues with a lifetime cannot be looked through");
                REST_MAX
            }
        };
        let (closed, moved) = (held.closed.clone(), Arc::clone(&held.expiry_moved));
        drop(held);
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            () = moved.notified() => {}
            () = closed.cancelled() => return,
        }
    }
}

/// One look; answers when the next one is due.
async fn sweep(shared: &Shared) -> Result<Duration, sqlx::Error> {
    let now = shared.clock.now();
    let mut rest = REST_MAX;
    for queue in tables::queues_expiring(shared.file.readers()).await? {
        let idle = now.since(queue.used_at);
        let is_used = shared.registry.usage(queue.id).consumers > 0;
        let due = if is_used { queue.lifetime / 3 } else { queue.lifetime };
        if idle < due {
            rest = rest.min(due.saturating_sub(idle));
            continue;
        }
        if is_used {
            note_use(shared, queue.id).await;
            rest = rest.min(queue.lifetime / 3);
        } else {
            expire(shared, queue).await;
        }
    }
    Ok(rest.max(REST_MIN))
}

async fn note_use(shared: &Shared, queue: i64) {
    let now = shared.clock.now();
    let noted = shared
        .file
        .write(move |connection| Box::pin(tables::queue_used(connection, queue, now)));
    if let Err(error) = noted.await {
        tracing::warn!(error = ?error, "the use of a queue with a lifetime was not noted");
    }
}

/// Deletes one that is still over, and says what went with it.
pub(super) async fn expire(shared: &Shared, queue: Expiring) {
    let (id, now) = (queue.id, shared.clock.now());
    let gone = shared
        .file
        .write(move |connection| Box::pin(tables::queue_expire(connection, id, now)))
        .await;
    let name = match (gone, QueueName::parse(&queue.name)) {
        (Ok(true), Ok(name)) => name,
        (Ok(_), _) => return,
        (Err(error), _) => {
            tracing::warn!(error = ?error, "a queue whose lifetime is over was not deleted");
            return;
        }
    };
    tracing::info!(queue = ?queue.name, messages = queue.messages, "a queue's lifetime is over: it is deleted");
    shared.registry.deleted(id);
    shared.signals.send(Signal::QueueDeleted { queue: name, by: None });
}
