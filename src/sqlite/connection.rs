//! The one connection that writes, and the statements around a group of writes.
//!
//! Promises: nothing is written through a connection on which a commit failed, nor into a file that is no longer the one
//! that was opened.

use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use super::SqliteError;
use super::error::is_busy;
use super::presence::Presence;
use crate::ambient::{Clock, sleep};

/// Each statement costs two hand-overs between threads, and so do several that are sent as one.
const BEGIN: &str = "BEGIN IMMEDIATE; SAVEPOINT one";
const NEXT: &str = "RELEASE one; SAVEPOINT one";
const UNDO: &str = "ROLLBACK TO one";
const COMMIT: &str = "RELEASE one; COMMIT";
const ROLLBACK: &str = "ROLLBACK";
/// How long other processes may keep the write lock before a write fails.
const BUSY_MAX: Duration = Duration::from_secs(30);
/// Between two tries for the lock.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// Opens the write connection. Two processes that open a new file at once both switch it to WAL, which
/// SQLite refuses without waiting.
pub(super) async fn connect(options: &SqliteConnectOptions) -> Result<SqliteConnection, SqliteError> {
    let clock = Clock::system();
    let start = clock.uptime();
    let mut connection = loop {
        match options.connect().await {
            Ok(connection) => break connection,
            Err(error) if is_busy(&error) && clock.uptime().saturating_sub(start) < BUSY_MAX => {
                sleep(BUSY_PAUSE).await;
            }
            Err(error) => return Err(SqliteError::Open(Arc::new(error))),
        }
    };
    // From here on the writer waits by itself, in short steps, instead of inside SQLite in long ones.
    sqlx::query("PRAGMA busy_timeout = 0")
        .execute(&mut connection)
        .await
        .map_err(|error| SqliteError::Open(Arc::new(error)))?;
    Ok(connection)
}

pub(super) struct WriteConnection {
    /// In use.
    pub(super) sqlite: SqliteConnection,
    /// How the file is opened.
    options: SqliteConnectOptions,
    /// A commit on this connection failed: nothing more is written through it. After a failed write-out nobody knows
    /// which of its pages the disk has, and the next success would stand on them.
    is_spent: bool,
    presence: Presence,
}

impl WriteConnection {
    pub(super) const fn new(sqlite: SqliteConnection, options: SqliteConnectOptions, presence: Presence) -> Self {
        Self {
            sqlite,
            options,
            is_spent: false,
            presence,
        }
    }

    /// Waits for the write lock, bounded.
    pub(super) async fn begin(&mut self, clock: &Clock) -> Result<(), SqliteError> {
        self.renew().await?;
        let start = clock.uptime();
        loop {
            match self.execute(BEGIN).await {
                Ok(()) => return Ok(()),
                Err(error) if !is_busy(&error) => {
                    // Where it did begin and the savepoint failed, it would be in the way of the next one.
                    let _ = self.execute(ROLLBACK).await;
                    // What it read of a file that was put there instead, it would go by when the right one is back.
                    self.is_spent = true;
                    self.presence.check().await?;
                    return Err(SqliteError::RolledBack(Arc::new(error)));
                }
                Err(_) if clock.uptime().saturating_sub(start) > BUSY_MAX => return Err(SqliteError::Busy),
                Err(_) => sleep(BUSY_PAUSE).await,
            }
        }
    }

    /// Opens the file anew when the connection is spent. What was there before is read back from the file.
    async fn renew(&mut self) -> Result<(), SqliteError> {
        if !self.is_spent {
            return Ok(());
        }
        // Else the file that replaced it would be opened.
        self.presence.check().await?;
        let fresh = connect(&self.options).await?;
        let spent = std::mem::replace(&mut self.sqlite, fresh);
        self.is_spent = false;
        self.presence.forget_log();
        if let Err(error) = spent.close().await {
            tracing::debug!(error = ?error, "a connection to the SQLite file that is not used any more did not close in order");
        }
        Ok(())
    }

    /// Keeps the current write, and puts a savepoint behind it. An error means that the whole transaction is lost.
    pub(super) async fn next(&mut self) -> Result<(), SqliteError> {
        let kept = self.execute(NEXT).await;
        kept.map_err(|error| SqliteError::RolledBack(Arc::new(error)))
    }

    /// Takes the current write back. A savepoint that cannot be gone back to went away with its transaction.
    pub(super) async fn undo(&mut self) -> Result<(), SqliteError> {
        let undone = self.execute(UNDO).await;
        undone.map_err(|error| SqliteError::RolledBack(Arc::new(error)))
    }

    /// Commits, unless the file is no longer the one that was opened.
    pub(super) async fn commit(&mut self) -> Result<(), SqliteError> {
        self.presence.check().await?;
        self.execute(COMMIT).await.map_err(|error| {
            self.is_spent = true;
            SqliteError::Commit(Arc::new(error))
        })
    }

    pub(super) async fn roll_back(&mut self) {
        // SQLite may have rolled back already; then this fails, and that is as good.
        let _ = self.execute(ROLLBACK).await;
    }

    async fn execute(&mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        sqlx::query(statement).execute(&mut self.sqlite).await.map(|_| ())
    }

    pub(super) async fn close(self) {
        if let Err(error) = self.sqlite.close().await {
            tracing::warn!(error = ?error, "the SQLite file did not close in order");
        }
    }
}
