//! The store in a SQLite file, which it shares with the embedded broker.
//!
//! Promises: each write is one work of the file's writer, durable when it is answered, and sees what
//! every earlier one did; several processes may use the file. Reads see what is committed.
//!
//! Left out on purpose: row locks. There is one writer.

mod error;
pub(super) mod events;
mod incarnations;
mod restoring;
mod retention;

pub use self::incarnations::is_locked;
pub use self::restoring::{Lost, check_triggers, lost_by_restore};

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqlitePool, SqliteRow};

use self::error::{unread, unwritten};
use self::events::Gathering;
use super::columns::Columns;
use super::events::known::KnownTypes;
use super::sql::{Driver, Session, Work, identity};
use super::{Store, StoreError, StoreVersion, rules};
use crate::ambient::{self, Clock};
use crate::domain::id::StoreId;
use crate::domain::schema::{Change, SchemaMode};
use crate::domain::time::Timestamp;
use crate::sqlite::SqliteFile;

/// Number and statements, ascending. A change is never edited once it is released: the next one follows it.
const CHANGES: &[Change] = &[
    (1, include_str!("migrations/0001.sql")),
    (2, include_str!("migrations/0002.sql")),
    (3, include_str!("migrations/0003.sql")),
];
/// What programs of before can live with.
const ADDITIONS: &[Change] = &[
    (1_001, include_str!("additions/1001.sql")),
    (1_002, include_str!("additions/1002.sql")),
    (1_003, include_str!("additions/1003.sql")),
    (1_004, include_str!("additions/1004.sql")),
    (1_005, include_str!("additions/1005.sql")),
    (1_006, include_str!("additions/1006.sql")),
    (1_007, include_str!("additions/1007.sql")),
];
/// What the changes are counted for in the file, and what its additions are.
const NAMESPACES: [(&str, &[Change]); 2] = [("store", CHANGES), ("additions to the store", ADDITIONS)];

/// How long the close of the file waits for those that still read it.
const CLOSING: Duration = Duration::from_secs(5);

/// What only this file answers, whoever writes it over.
const MARK: &str = "SELECT identity, (SELECT value FROM numbers WHERE name = 'epoch') FROM settings";
const IDENTITY_RENEW: &str = "UPDATE settings SET identity = $1";
const EMBEDDED_TABLE: &str =
    "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'broker_message')";

/// A store in an open file.
#[derive(Debug)]
pub struct SqliteStore {
    file: SqliteFile,
    clock: Clock,
    /// The locked file of each living incarnation of this process: its evidence of life.
    living: Mutex<HashMap<i64, File>>,
    known_types: KnownTypes,
    gathering: Arc<Gathering>,
    owns_file: bool,
}

impl SqliteStore {
    /// Brings the file's tables to this program's version. Times are those of `clock`.
    pub async fn open(file: SqliteFile, clock: Clock) -> Result<Self, StoreError> {
        Self::open_with(file, clock, SchemaMode::Bring).await
    }

    /// [`SqliteStore::open`], with the tables as `mode` says.
    pub async fn open_with(file: SqliteFile, clock: Clock, mode: SchemaMode) -> Result<Self, StoreError> {
        for (namespace, changes) in NAMESPACES {
            match mode {
                SchemaMode::Bring => file.migrate(namespace, changes).await,
                SchemaMode::Expect => file.expect(namespace, changes).await,
            }
            .map_err(unwritten("bringing the tables up to date"))?;
        }
        Ok(Self {
            file,
            known_types: KnownTypes::new(clock.clone()),
            clock,
            living: Mutex::default(),
            gathering: Arc::default(),
            owns_file: false,
        })
    }

    /// The identity of the store in the file at `path`, where there is one; makes nothing.
    pub async fn identity_at(path: &Path) -> Option<StoreId> {
        let file = SqliteFile::open_existing(path).await.ok()?;
        let found: Result<Option<String>, _> = sqlx::query_scalar(identity::IDENTITY.sqlite().text)
            .fetch_one(file.readers())
            .await;
        file.close().await;
        StoreId::parse(&found.ok()??).ok()
    }

    /// The numbers of all changes: what a file that is not there lacks.
    #[must_use]
    pub fn all_changes() -> Vec<i64> {
        let changes = NAMESPACES.iter().flat_map(|(_, changes)| changes.iter());
        changes.map(|(number, _)| *number).collect()
    }

    /// The numbers of the changes that the file lacks; changes nothing.
    pub async fn pending(file: &SqliteFile) -> Result<Vec<i64>, StoreError> {
        let mut pending = Vec::new();
        for (namespace, changes) in NAMESPACES {
            let missing = file.missing(namespace, changes).await;
            let missing = missing.map_err(unwritten("reading the version of the tables"))?;
            pending.extend(missing.iter().map(|(number, _)| *number));
        }
        Ok(pending)
    }

    /// Whether messages of the embedded broker wait in the file.
    pub async fn holds_embedded_messages(&self) -> Result<bool, StoreError> {
        let operation = "looking for messages of the embedded broker";
        let has_tables: bool = sqlx::query_scalar(EMBEDDED_TABLE)
            .fetch_one(self.readers())
            .await
            .map_err(unread(operation))?;
        if !has_tables {
            return Ok(false);
        }
        sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM broker_message)")
            .fetch_one(self.readers())
            .await
            .map_err(unread(operation))
    }

    /// The file is another store from now on: what it was goes on elsewhere.
    pub async fn identity_renew(&self) -> Result<(), StoreError> {
        let new = rules::new_store_id();
        self.work("making another store of the file", move |connection| {
            Box::pin(async move {
                sqlx::query(IDENTITY_RENEW)
                    .bind(new)
                    .execute(connection)
                    .await
                    .map(drop)
            })
        })
        .await
    }

    /// Its close closes the file too, so that nothing is left beside it: for a process that is over then.
    #[must_use]
    pub const fn owning_its_file(mut self) -> Self {
        self.owns_file = true;
        self
    }

    async fn work<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + 'static,
    {
        self.file.write(work).await.map_err(unwritten(operation))
    }

    fn readers(&self) -> &SqlitePool {
        self.file.readers()
    }

    fn living_put(&self, id: i64, lock: File) {
        self.living
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, lock);
    }

    fn living_take(&self, id: i64) -> Option<File> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn kind(&self) -> &'static str {
        "sqlite"
    }

    /// That of the library, which is a part of this program.
    async fn version(&self) -> Result<StoreVersion, StoreError> {
        let text = sqlx::query_scalar("SELECT sqlite_version()")
            .fetch_one(self.readers())
            .await
            .map_err(unread("reading the version"))?;
        Ok(StoreVersion { text, warning: None })
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }

    async fn identity(&self) -> Result<StoreId, StoreError> {
        let identity = identity::identity(self).await?;
        self.file
            .know(MARK, identity.as_str())
            .map_err(unwritten("reading the identity"))?;
        Ok(identity)
    }

    /// The file itself stays open: it belongs to whoever opened it.
    async fn close(&self) {
        self.living.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if self.owns_file && ambient::timeout(CLOSING, self.file.close()).await.is_err() {
            tracing::debug!("something still reads the SQLite file: it is not closed in order");
        }
    }
}

impl Driver for SqliteStore {
    async fn read<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Session<'c>) -> Work<'c, T> + Send + 'static,
    {
        let session = Session::Readers(self.readers(), self.clock.now());
        work(session).await.map_err(unread(operation))
    }

    async fn write<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Session<'c>) -> Work<'c, T> + Send + 'static,
    {
        let now = self.clock.now();
        self.work(operation, move |connection| work(Session::Writer(connection, now)))
            .await
    }

    async fn transaction<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Session<'c>, Timestamp) -> Work<'c, T> + Send + 'static,
    {
        let now = self.clock.now();
        self.work(operation, move |connection| work(Session::Writer(connection, now), now))
            .await
    }

    async fn endpoints_trim(&self, before: Timestamp, rows: u32) -> Result<u64, StoreError> {
        self.endpoints_unneeded_remove(before, rows).await
    }
}

impl Columns for SqliteRow {
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
        Ok(self.try_get::<Option<i64>, _>(column)?.unwrap_or(0) != 0)
    }
}
