//! Errors of the file, as the store's.

use sqlx::error::DatabaseError;

use crate::sqlite::SqliteError;
use crate::store::StoreError;

/// A write that failed during `operation`.
pub(super) fn unwritten(operation: &'static str) -> impl FnOnce(SqliteError) -> StoreError {
    move |error| {
        if let Some(why) = statement(&error).and_then(takes_no_writes) {
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

/// SQLite's own words, where it answered.
fn statement(error: &SqliteError) -> Option<&sqlx::Error> {
    match error {
        SqliteError::Statement(source)
        | SqliteError::Open(source)
        | SqliteError::RolledBack(source)
        | SqliteError::Commit(source) => Some(source),
        SqliteError::Busy
        | SqliteError::Closed
        | SqliteError::Displaced { .. }
        | SqliteError::Panicked
        | SqliteError::Schema(_)
        | SqliteError::Unusable { .. } => None,
    }
}

/// Why the file takes no writes, if that is it, and the mend.
fn takes_no_writes(error: &sqlx::Error) -> Option<&'static str> {
    const SQLITE_READONLY: u32 = 8;
    const SQLITE_FULL: u32 = 13;
    match code(error)? {
        SQLITE_READONLY => Some("its file or directory is read-only: give its owner the right to write"),
        SQLITE_FULL => Some("no room is left on its disk: free some"),
        _ => None,
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
