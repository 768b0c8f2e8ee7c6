//! Why a SQLite file could not be opened, read or written.
//!
//! [`SqliteError::Commit`] is the only one after which the write may have happened; after every other
//! one it has not.

use std::path::PathBuf;
use std::sync::Arc;

use crate::domain::schema::SchemaRefusal;

const SQLITE_CORRUPT: u32 = 11;
const SQLITE_NOTADB: u32 = 26;

/// Why it did not work. Cheap to clone, as one failure may answer a whole group of writes.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SqliteError {
    /// The file, or its directory, cannot be used.
    #[error("{path:?} {problem}")]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// What is wrong and what is possible.
        problem: String,
    },
    /// SQLite does not open it (not a database, no room, no right).
    #[error("cannot open the SQLite file")]
    Open(#[source] Arc<sqlx::Error>),
    /// Another process kept the write lock for too long.
    #[error("the SQLite file is busy: another process holds its write lock")]
    Busy,
    /// The path leads to another file now, or to none: what is written would be confirmed and never read again.
    #[error(
        "{path:?} was {fate} while it was open: nothing is written any more; put the very file back, or start the \
         program again (until then the open copy is in /proc/{}/fd; to put another file there, stop the program first, \
         and remove its -wal and -shm files)",
        std::process::id()
    )]
    Displaced {
        /// Which file.
        path: PathBuf,
        /// `deleted` or `replaced`.
        fate: &'static str,
    },
    /// The file was closed.
    #[error("the SQLite file is closed")]
    Closed,
    /// The work failed and was undone.
    #[error("a statement failed on the SQLite file")]
    Statement(#[source] Arc<sqlx::Error>),
    /// The transaction was lost together with its group (disk full, input or output error); undone.
    #[error("the transaction on the SQLite file was rolled back")]
    RolledBack(#[source] Arc<sqlx::Error>),
    /// The commit failed: after a crash it may turn out to be there.
    #[error("the commit to the SQLite file is unconfirmed")]
    Commit(#[source] Arc<sqlx::Error>),
    /// The work panicked (a bug, logged) and was undone.
    #[error("the write to the SQLite file panicked")]
    Panicked,
    /// Its tables are not what this program needs, or not ours.
    #[error(transparent)]
    Schema(#[from] SchemaRefusal),
}

impl SqliteError {
    /// Why the file takes no writes, if that is it, and the mend.
    #[must_use]
    pub fn takes_no_writes(&self) -> Option<&'static str> {
        const SQLITE_READONLY: u32 = 8;
        const SQLITE_FULL: u32 = 13;
        let source = match self {
            Self::Statement(source) | Self::Open(source) | Self::RolledBack(source) | Self::Commit(source) => source,
            Self::Busy
            | Self::Closed
            | Self::Displaced { .. }
            | Self::Panicked
            | Self::Schema(_)
            | Self::Unusable { .. } => return None,
        };
        match code(source)? {
            SQLITE_READONLY => Some("its file or directory is read-only: give its owner the right to write"),
            SQLITE_FULL => Some("no room is left on its disk: free some"),
            _ => None,
        }
    }

    /// Whether what was opened is no SQLite file at all.
    pub(super) fn is_no_database(&self) -> bool {
        self.of_reading() == Some(SQLITE_NOTADB)
    }

    /// Whether what was opened is no SQLite file any more, or a damaged one.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.is_no_database() || self.of_reading() == Some(SQLITE_CORRUPT)
    }

    /// The code of SQLite where a file could not be opened or read.
    fn of_reading(&self) -> Option<u32> {
        match self {
            Self::Open(source) | Self::Statement(source) => code(source),
            Self::RolledBack(_)
            | Self::Commit(_)
            | Self::Busy
            | Self::Closed
            | Self::Displaced { .. }
            | Self::Panicked
            | Self::Schema(_)
            | Self::Unusable { .. } => None,
        }
    }

    /// What SQLite says when it opens a file.
    pub(super) fn opening(error: sqlx::Error) -> Self {
        if is_busy(&error) {
            return Self::Busy;
        }
        Self::Open(Arc::new(error))
    }
}

/// A read of a file that was opened.
impl From<sqlx::Error> for SqliteError {
    fn from(error: sqlx::Error) -> Self {
        if is_busy(&error) {
            return Self::Busy;
        }
        Self::Statement(Arc::new(error))
    }
}

/// Whether SQLite says that somebody else holds a lock (any of its extended codes).
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    const SQLITE_BUSY: u32 = 5;
    code(error) == Some(SQLITE_BUSY)
}

/// The code of SQLite without its extension.
pub(super) fn code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code)?;
    Some(code.parse::<u32>().ok()? & 0xff)
}
