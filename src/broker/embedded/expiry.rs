//! Queues with a lifetime: gone when nobody consumed them for that long.
//!
//! *Used* is a declare or an attachment, not a publish, as with the other broker. An attachment of this process
//! notes its use again and again, so that other processes see it. A queue that is over is not there for anybody
//! from that moment on; its row goes with the next sweep, which counts what was lost.
//!
//! Promises: a lifetime goes by time in which the broker was there, as with the other broker. A calendar that is set
//! forward, a machine that slept and a file that nobody had open bring no queue nearer to its end: for that long
//! nobody could have used it.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::failure;
use super::shared::Shared;
use super::tables::{self, Expiring};
use crate::ambient::{self, Clock};
use crate::broker::{BrokerError, Signal};
use crate::domain::id::QueueName;
use crate::domain::job::Lifetime;
use crate::domain::time::Timestamp;

/// Between two sweeps at most: another process may have declared something.
const REST_MAX: Duration = Duration::from_secs(60);
/// And at least.
const REST_MIN: Duration = Duration::from_millis(20);

/// Who looks more seldom than this was not there.
const ABSENT: Duration = Duration::from_secs(120);
/// A look is noted so often, at most.
const NOTED: Duration = Duration::from_secs(10);
/// A calendar that goes wrong by less was not set.
const STEP_MIN: Duration = Duration::from_secs(1);

/// What is known of lifetimes beside the queues.
#[derive(Debug)]
pub(super) struct Lifetimes {
    clock: Clock,
    looked: Mutex<(Duration, Timestamp)>,
    /// A queue with a lifetime is new.
    moved: Arc<Notify>,
}

impl Lifetimes {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            looked: Mutex::new((clock.uptime(), clock.now())),
            moved: Arc::default(),
            clock,
        }
    }

    /// A queue with a lifetime is new: the next sweep is due.
    pub(super) fn tell_of_new(&self) {
        self.moved.notify_one();
    }

    /// The time by which they go: the calendar as it was at the last look, and uptime since.
    pub(super) fn now(&self) -> Timestamp {
        let (uptime, then) = *self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        then.plus(self.clock.uptime().saturating_sub(uptime))
    }

    /// Goes by the calendar from `uptime` on, when it said `now`.
    fn looked(&self, uptime: Duration, now: Timestamp) {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = (uptime, now);
    }
}

/// Begins a look, and answers when: takes out what is no time without a use, and goes by the calendar from here on.
///
/// 1. Nobody looked for longer than anybody rests: nobody was there, or the calendar was set far forward.
/// 2. The calendar went further than uptime did: it was set, unless another process took that out before.
pub(super) async fn look(shared: &Shared) -> Result<Timestamp, BrokerError> {
    const OPERATION: &str = "look at lifetimes";
    let (uptime, now) = (shared.clock.uptime(), shared.clock.now());
    let step = now.since(shared.lifetimes.now());
    if expiring(shared).await?.is_empty() {
        shared.lifetimes.looked(uptime, now);
        return Ok(now);
    }
    let looked_at = tables::looked_at(shared.file.readers()).await;
    let is_noted = |at: Timestamp| at <= now && now.since(at) < NOTED && step < STEP_MIN;
    if looked_at.map_err(failure::read(OPERATION))?.is_some_and(is_noted) {
        shared.lifetimes.looked(uptime, now);
        return Ok(now);
    }
    let passed_over = move |looked_at: Option<Timestamp>| {
        let gap = looked_at.map(|then| now.since(then));
        match gap {
            Some(gap) if gap > ABSENT => gap,
            Some(gap) if step > gap => Duration::ZERO,
            Some(_) | None if step >= STEP_MIN => step,
            Some(_) | None => Duration::ZERO,
        }
    };
    let span = shared
        .file
        .write(move |connection| Box::pin(tables::look(connection, now, passed_over)))
        .await
        .map_err(failure::write(OPERATION))?;
    shared.lifetimes.looked(uptime, now);
    if !span.is_zero() {
        tracing::info!(span = ?span, "lifetimes of queues stood still while nobody was there or the calendar was set");
    }
    Ok(now)
}

/// Declares and binds a queue, new or with the same lifetime.
pub(super) async fn declare(shared: &Shared, queue: &QueueName, lifetime: Lifetime) -> Result<(), BrokerError> {
    shared.need_exchange("declare").await?;
    let (name, now) = (queue.clone(), shared.lifetimes.now());
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
            shared.lifetimes.tell_of_new();
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
        let (closed, moved) = (held.closed.clone(), Arc::clone(&held.lifetimes.moved));
        drop(held);
        tokio::select! {
            () = ambient::sleep(rest) => {}
            () = moved.notified() => {}
            () = closed.cancelled() => return,
        }
    }
}

/// One look; answers when the next one is due.
async fn sweep(shared: &Shared) -> Result<Duration, BrokerError> {
    let mut rest = REST_MAX;
    // Whatever happens to this process meanwhile, no time has passed that the look did not see.
    let now = look(shared).await?;
    for queue in expiring(shared).await? {
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
            expire(shared, queue, now).await;
        }
    }
    Ok(rest.max(REST_MIN))
}

async fn expiring(shared: &Shared) -> Result<Vec<Expiring>, BrokerError> {
    let queues = tables::queues_expiring(shared.file.readers()).await;
    queues.map_err(failure::read("look at lifetimes"))
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
pub(super) async fn expire(shared: &Shared, queue: Expiring, now: Timestamp) {
    let id = queue.id;
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
