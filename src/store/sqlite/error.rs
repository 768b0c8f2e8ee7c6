//! Errors of the file, as the store's.

use sqlx::error::DatabaseError;

use crate::sqlite::SqliteError;
use crate::store::StoreError;

/// A write that failed during `operation`.
pub(super) fn unwritten(operation: &'static str) -> impl FnOnce(SqliteError) -> StoreError {
    move |error| {
        if let Some(why) = error.takes_no_writes() {
            return StoreError::NotWritable {
                operation,
                why,
                source: Box::new(error),
            };
        }
        passed(operation, error)
    }
}

fn passed(operation: &'static str, error: SqliteError) -> StoreError {
    match error {
        SqliteError::Schema(refusal) => refusal.into(),
        SqliteError::Unusable { .. } => StoreError::Unusable {
            problem: error.to_string(),
        },
        SqliteError::Busy
        | SqliteError::Closed
        | SqliteError::Open(_)
        | SqliteError::Displaced { .. }
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
    if let Some(code) = code(error) {
        return code == SQLITE_BUSY;
    }
    matches!(
        error,
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed | sqlx::Error::Io(_)
    )
}

/// The code of SQLite without its extension.
fn code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error().and_then(DatabaseError::code)?;
    Some(code.parse::<u32>().ok()? & 0xff)
}
