//! Errors of the file, as the store's.

use crate::sqlite::SqliteError;
use crate::store::StoreError;

/// A write that failed during `operation`.
pub(super) fn unwritten(operation: &'static str) -> impl FnOnce(SqliteError) -> StoreError {
    move |error| match error {
        SqliteError::Newer { found, known, .. } => StoreError::Newer { found, known },
        SqliteError::Unusable { path, problem } => StoreError::Unusable {
            problem: format!("names {path:?}, which {problem}"),
        },
        SqliteError::Busy
        | SqliteError::Closed
        | SqliteError::Open(_)
        | SqliteError::RolledBack(_)
        | SqliteError::Commit(_) => StoreError::Unreachable {
            operation,
            source: Box::new(error),
        },
        SqliteError::Statement(_) | SqliteError::Panicked => StoreError::Failed {
            operation,
            source: Box::new(error),
        },
    }
}

/// A read that failed during `operation`.
pub(super) fn unread(operation: &'static str) -> impl FnOnce(sqlx::Error) -> StoreError {
    move |error| {
        let source = Box::new(error);
        if is_passing(&source) {
            StoreError::Unreachable { operation, source }
        } else {
            StoreError::Failed { operation, source }
        }
    }
}

/// Busy, or no connection: both pass.
fn is_passing(error: &sqlx::Error) -> bool {
    const SQLITE_BUSY: u32 = 5;
    match error {
        sqlx::Error::Database(error) => error
            .code()
            .and_then(|code| code.parse::<u32>().ok())
            .is_some_and(|code| code & 0xff == SQLITE_BUSY),
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed | sqlx::Error::Io(_) => true,
        _ => false,
    }
}
