//! The store on PostgreSQL, in a schema of its own (`redrive`), so that it can live in an application's
//! database.
//!
//! Promises: a bounded pool whose sessions commit synchronously and wait for nothing without a bound; the
//! server's restart is survived without a hand, and so is a network that swallows everything; each method
//! locks rows in one order (the epoch, queues by name, endpoints, the generation), so that they do not wait
//! for each other in a circle.
//! A living incarnation has one connection more, which is its evidence of life.

mod connect;
mod error;
pub(super) mod events;
mod fill;
mod incarnations;
pub(super) mod leases;
mod locks;
mod migrate;
mod probe;
mod retention;
mod rights;
mod room;
mod session;
mod version;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::ambient::timeout;
use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{Connection as _, PgConnection, PgPool, Row};

use self::connect::Server;
use self::error::refused_address;
use self::events::gathered::GatheredPushes;
use self::events::signals::Notifier;
pub use self::fill::FilledTable;
use self::incarnations::Living;
pub use self::probe::{Probe, probe};
use self::session::Sessions;
use super::columns::Columns;
use super::events::known::KnownTypes;
use super::sql::{Driver, Session, Work, identity};
use super::{ForeignLock, MissingRights, Store, StoreError, StoreVersion};
use crate::ambient::{self, Clock};
use crate::domain::id::{QueueName, StoreId};
use crate::domain::schema::SchemaMode;
use crate::domain::time::Timestamp;

/// Connections of one process, the evidence of life apart.
const CONNECTIONS_MAX: u32 = 8;
/// How long a call may take, the wait for a connection included, where nobody says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long bringing the schema up to date may take, another process that does it meanwhile included.
const MIGRATION: Duration = Duration::from_mins(1);
/// The class of our advisory locks on incarnations (`rdri`).
const INCARNATION_LOCK: i32 = 0x7264_7269;
/// The class of our advisory locks on single things (`rdrs`): see [`Exclusive`].
const SINGLE_LOCK: i32 = 0x7264_7273;

/// A connected store.
pub struct PostgresStore {
    sessions: Arc<Sessions>,
    server: Server,
    /// How long a call may take.
    patience: Duration,
    /// The connection of each living incarnation of this process; taken out while it is used, so that one
    /// that is dropped half-way is closed.
    living: Mutex<HashMap<i64, Living>>,
    known_types: KnownTypes,
    /// Pushes of one event each, on their way into one statement.
    pushes: GatheredPushes,
    /// Tells other processes of what was pushed.
    notifier: Arc<Notifier>,
}

/// What is done by one session at a time.
#[derive(Clone, Copy)]
pub(super) enum Exclusive {
    Migrating = 1,
    Audit = 2,
    Policies = 3,
    EventTypes = 50,
}

impl PostgresStore {
    /// Connects, and brings the schema to this program's version.
    ///
    /// An address, user or database that the server refuses, and a pooler in transaction mode, are
    /// [`StoreError::Unusable`]; a server that does not answer is [`StoreError::Unreachable`], one that
    /// takes no writes [`StoreError::NotWritable`].
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::connect_with_patience(url, PATIENCE).await
    }

    /// [`PostgresStore::connect`]; each call waits for `patience`, and is *unreachable* after it.
    pub async fn connect_with_patience(url: &str, patience: Duration) -> Result<Self, StoreError> {
        Self::connect_to(url, patience, SchemaMode::Bring).await
    }

    /// [`PostgresStore::connect_with_patience`], with the schema as `mode` says.
    pub async fn connect_to(url: &str, patience: Duration, mode: SchemaMode) -> Result<Self, StoreError> {
        let (server, pool) = Self::reach(url, patience).await?;
        migrate::run(&pool, mode).await?;
        let sessions = Arc::new(Sessions::of(pool, patience, &server));
        Ok(Self {
            pushes: GatheredPushes::begin(&sessions),
            notifier: Notifier::begin(&sessions),
            sessions,
            server,
            patience,
            living: Mutex::default(),
            known_types: KnownTypes::new(Clock::system()),
        })
    }

    /// The numbers of the changes that the schema at `url` lacks; changes nothing.
    pub async fn pending(url: &str, patience: Duration) -> Result<Vec<i64>, StoreError> {
        let (_, pool) = Self::reach(url, patience).await?;
        let pending = migrate::pending(&pool).await;
        let _ = timeout(patience, pool.close()).await;
        Ok(pending?.iter().map(|(number, _)| *number).collect())
    }

    async fn reach(url: &str, patience: Duration) -> Result<(Server, PgPool), StoreError> {
        if !["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            return Err(refused_address("it has another scheme"));
        }
        let server = Server::of(url, patience)?;
        // The pool tries again and again, and would only say that it took too long.
        let first = timeout(patience, server.connect()).await;
        let first = first
            .unwrap_or(Err(sqlx::Error::PoolTimedOut))
            .map_err(|error| server.connecting(error))?;
        let pool = match server.pool(patience).await {
            Ok(pool) => pool,
            Err(error) => return Err(server.filling(patience, error).await),
        };
        drop(ambient::spawn("first session", first.close()));
        server.refuse_shared_sessions(&pool, patience).await?;
        Ok((server, pool))
    }

    fn living_put(&self, id: i64, living: Living) {
        self.living
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, living);
    }

    fn living_take(&self, id: i64) -> Option<Living> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn kind(&self) -> &'static str {
        "postgres"
    }

    async fn version(&self) -> Result<StoreVersion, StoreError> {
        self.call("reading the version", async |connection: &mut PgConnection| {
            version::version(connection).await
        })
        .await
    }

    async fn missing_rights(&self) -> Result<Option<MissingRights>, StoreError> {
        self.call("reading the rights", async |connection: &mut PgConnection| {
            rights::lacking(connection).await
        })
        .await
    }

    async fn foreign_locks(&self, queue: Option<&QueueName>) -> Result<Vec<ForeignLock>, StoreError> {
        self.call("looking for locks of others", async |connection: &mut PgConnection| {
            locks::foreign(connection, queue).await
        })
        .await
    }

    async fn find_room(&self) -> Result<(), StoreError> {
        self.in_transaction(
            "looking for room on its disk",
            async |connection: &mut PgConnection, _| room::look(connection).await,
        )
        .await
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.call("reading the clock", async |connection: &mut PgConnection| {
            now(connection).await
        })
        .await
    }

    async fn identity(&self) -> Result<StoreId, StoreError> {
        identity::identity(self).await
    }

    async fn close(&self) {
        let living = std::mem::take(&mut *self.living.lock().unwrap_or_else(PoisonError::into_inner));
        let closing = async {
            for living in living.into_values() {
                // A connection that is lost already has nothing left to say goodbye to.
                let _ = living.end().await;
            }
            self.notifier.flush(&self.sessions).await;
            self.sessions.close().await;
        };
        // What does not close in order ends with the process.
        let _ = timeout(self.patience, closing).await;
    }
}

impl Driver for PostgresStore {
    async fn read<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Session<'c>) -> Work<'c, T> + Send + 'static,
    {
        self.call(operation, async move |connection: &mut PgConnection| {
            work(Session::Postgres(connection)).await
        })
        .await
    }

    async fn write<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Session<'c>) -> Work<'c, T> + Send + 'static,
    {
        self.read(operation, work).await
    }

    async fn transaction<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Session<'c>, Timestamp) -> Work<'c, T> + Send + 'static,
    {
        self.in_transaction(operation, async move |connection: &mut PgConnection, now| {
            work(Session::Postgres(connection), now).await
        })
        .await
    }

    async fn endpoints_trim(&self, before: Timestamp, rows: u32) -> Result<u64, StoreError> {
        self.in_transaction("trimming", async |connection: &mut PgConnection, _| {
            retention::endpoints_trim(connection, before, rows).await
        })
        .await
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("host", &self.server.options.get_host())
            .field("database", &self.server.options.get_database())
            .finish_non_exhaustive()
    }
}

pub(super) async fn now(connection: &mut PgConnection) -> Result<Timestamp, sqlx::Error> {
    let micros: i64 = sqlx::query_scalar("SELECT redrive.store_now()")
        .fetch_one(connection)
        .await?;
    Ok(Timestamp::from_micros(micros))
}

/// Waits until no other session does `what`, until the end of the transaction.
pub(super) async fn exclusively(connection: &mut PgConnection, what: Exclusive) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT pg_advisory_xact_lock($1, $2)")
        .bind(SINGLE_LOCK)
        .bind(what as i32)
        .execute(connection)
        .await?;
    Ok(())
}

impl Columns for PgRow {
    fn integer(&self, column: &str) -> Result<Option<i64>, sqlx::Error> {
        self.try_get(column)
    }

    fn text(&self, column: &str) -> Result<Option<String>, sqlx::Error> {
        self.try_get(column)
    }

    fn bytes(&self, column: &str) -> Result<Option<Vec<u8>>, sqlx::Error> {
        self.try_get(column)
    }

    fn flag(&self, column: &str) -> Result<bool, sqlx::Error> {
        Ok(self.try_get::<Option<bool>, _>(column)?.unwrap_or(false))
    }
}
