//! What a failure of the SQLite file means in the broker's words.
//!
//! Only an unconfirmed commit is [`BrokerError::Unknown`]; everything else changed nothing.

use crate::broker::BrokerError;
use crate::sqlite::SqliteError;

const SQLITE_FULL: u32 = 13;

/// A write, migration or opening that failed.
pub(super) fn write(operation: &'static str) -> impl FnOnce(SqliteError) -> BrokerError {
    move |error| match &error {
        SqliteError::Commit(source) => BrokerError::Unknown {
            operation,
            detail: error
                .takes_no_writes()
                .map_or_else(|| source.to_string(), ToOwned::to_owned),
        },
        SqliteError::Statement(source) | SqliteError::RolledBack(source) => statement(operation, source),
        SqliteError::Busy
        | SqliteError::Closed
        | SqliteError::Open(_)
        | SqliteError::Displaced { .. }
        | SqliteError::Unusable { .. } => BrokerError::Unreachable {
            operation,
            detail: error.to_string(),
        },
        SqliteError::Panicked | SqliteError::Schema(_) => BrokerError::Failed {
            operation,
            detail: error.to_string(),
        },
    }
}

/// A read that failed.
pub(super) fn read(operation: &'static str) -> impl FnOnce(sqlx::Error) -> BrokerError {
    use sqlx::Error::{PoolClosed, PoolTimedOut, WorkerCrashed};
    move |error| {
        if matches!(error, PoolClosed | PoolTimedOut | WorkerCrashed) {
            return BrokerError::Unreachable {
                operation,
                detail: error.to_string(),
            };
        }
        statement(operation, &error)
    }
}

/// A full disk is the alarm of this broker: it takes nothing until there is room.
fn statement(operation: &'static str, error: &sqlx::Error) -> BrokerError {
    let code = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .and_then(|code| code.parse::<u32>().ok());
    if code.is_some_and(|code| code & 0xff == SQLITE_FULL) {
        return BrokerError::Blocked {
            detail: "no room is left on the disk of the SQLite file: free some".to_owned(),
        };
    }
    BrokerError::Failed {
        operation,
        detail: error.to_string(),
    }
}
