//! What processes tell each other of the event table, by `NOTIFY`: which types something was pushed to.
//!
//! Never inside a push: a `NOTIFY` takes a lock over the whole database until its transaction is committed, and
//! pushes would commit one after the other. Here one transaction after the pushes tells of all of them, at most
//! [`A_SECOND`] times a second, and waits for no disk. What is lost is found by those who look now and then.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgConnection;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::{Mutex as AsyncMutex, Notify};

use crate::ambient;
use crate::domain::event::EventType;
use crate::store::postgres::session::Sessions;
use crate::store::{EventSignal, EventSignals};

/// The channel of our notifications.
const CHANNEL: &str = "redrive_events";
/// The payload that tells of the outbox: no name of a type, as those have no control characters.
const OUTBOX: &str = "\n";
/// How often a process tells, at most.
const A_SECOND: u32 = 50;
/// Between two tries to listen.
const RETRY: Duration = Duration::from_secs(1);
const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify('redrive_events', name)::text \
    FROM unnest($1::text[]) AS pushed (name)";

/// Tells other processes.
pub(in crate::store::postgres) struct Notifier {
    untold: Mutex<BTreeSet<String>>,
    more: Notify,
    /// Held while something is told.
    telling: AsyncMutex<()>,
}

impl Notifier {
    pub(in crate::store::postgres) fn begin(sessions: &Arc<Sessions>) -> Arc<Self> {
        let notifier = Arc::new(Self {
            untold: Mutex::default(),
            more: Notify::new(),
            telling: AsyncMutex::default(),
        });
        ambient::spawn("event notifier", tell(Arc::downgrade(&notifier), Arc::clone(sessions)));
        notifier
    }

    /// Something of this type may be due.
    pub(super) fn pushed<'a>(&self, types: impl Iterator<Item = &'a EventType>) {
        self.note(types.map(EventType::as_str));
    }

    /// Something waits in the outbox.
    pub(super) fn stored_notifications(&self) {
        self.note([OUTBOX].into_iter());
    }

    /// Anything may be due.
    pub(super) fn anything(&self) {
        self.note([""].into_iter());
    }

    fn note<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            if !untold.contains(name) {
                untold.insert(name.to_owned());
            }
        }
        drop(untold);
        self.more.notify_one();
    }

    /// Tells what is not told yet.
    pub(in crate::store::postgres) async fn flush(&self, sessions: &Sessions) {
        let _telling = self.telling.lock().await;
        let untold = std::mem::take(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner));
        if untold.is_empty() {
            return;
        }
        let names: Vec<String> = untold.into_iter().collect();
        let told = sessions.call("telling of pushes", async |connection: &mut PgConnection| {
            sqlx::query(NOTIFY).bind(names).execute(connection).await.map(drop)
        });
        if let Err(error) = told.await {
            tracing::debug!(error = ?error, "other processes find by themselves what was pushed");
        }
    }
}

async fn tell(notifier: std::sync::Weak<Notifier>, sessions: Arc<Sessions>) {
    loop {
        let Some(held) = notifier.upgrade() else { return };
        // Ends with its store: nothing else holds the notifier for long.
        let more = ambient::timeout(RETRY, held.more.notified()).await;
        if more.is_ok() {
            held.flush(&sessions).await;
            drop(held);
            ambient::sleep(Duration::from_secs(1) / A_SECOND).await;
        }
    }
}

/// Hears of other processes, on a connection of its own.
pub(super) struct Listening {
    options: PgConnectOptions,
    listener: Option<PgListener>,
}

impl Listening {
    pub(super) fn with(options: PgConnectOptions) -> Self {
        Self {
            options,
            listener: None,
        }
    }

    async fn listen(&self) -> Result<PgListener, sqlx::Error> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_with(self.options.clone())
            .await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.ignore_pool_close_event(true);
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok(listener)
    }
}

#[async_trait]
impl EventSignals for Listening {
    async fn next(&mut self) -> EventSignal {
        loop {
            let Some(listener) = &mut self.listener else {
                match self.listen().await {
                    Ok(listener) => {
                        self.listener = Some(listener);
                        // Nobody knows what was told before.
                        return EventSignal::Anything;
                    }
                    Err(error) => {
                        tracing::debug!(error = ?error, "pushes of other processes are looked for");
                        ambient::sleep(RETRY).await;
                        continue;
                    }
                }
            };
            match listener.try_recv().await {
                Ok(Some(told)) if told.payload() == OUTBOX => return EventSignal::Outbox,
                Ok(Some(told)) => {
                    return EventType::parse(told.payload()).map_or(EventSignal::Anything, EventSignal::Type);
                }
                Ok(None) | Err(_) => self.listener = None,
            }
        }
    }
}
