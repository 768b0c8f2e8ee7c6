//! Which errors of PostgreSQL mean *away* (trying again may help), and which mean *wrong*.

use sqlx::error::DatabaseError;

use crate::store::StoreError;

/// Classes and codes of SQLSTATE that pass by themselves: connection exceptions, no resources, shutdown and
/// start, deadlock and serialization, lock and statement time limits, a standby that takes no writes yet.
const PASSING: [&str; 8] = ["08", "53", "57P0", "40001", "40P01", "55P03", "57014", "25006"];

/// An error during `operation`.
pub(super) fn failed(operation: &'static str) -> impl FnOnce(sqlx::Error) -> StoreError {
    move |error| {
        let source = Box::new(error);
        if is_passing(&source) {
            StoreError::Unreachable { operation, source }
        } else {
            StoreError::Failed { operation, source }
        }
    }
}

/// An error of the first connection: what the server refuses is the address' fault.
pub(super) fn connecting(error: sqlx::Error) -> StoreError {
    let refused = error
        .as_database_error()
        .and_then(DatabaseError::code)
        .is_some_and(|code| ["28", "3D", "42501"].iter().any(|prefix| code.starts_with(prefix)));
    if refused || matches!(error, sqlx::Error::Configuration(_) | sqlx::Error::InvalidArgument(_)) {
        refused_address(&error)
    } else {
        failed("connecting")(error)
    }
}

/// The address cannot be used as it is. The text of the error names user and database, never the password.
pub(super) fn refused_address(error: &sqlx::Error) -> StoreError {
    StoreError::Unusable {
        problem: format!(
            "does not work: {error}; give postgres://USER:PASSWORD@HOST:PORT/DATABASE of an existing database and user"
        ),
    }
}

fn is_passing(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(error) => error
            .code()
            .is_some_and(|code| PASSING.iter().any(|prefix| code.starts_with(prefix))),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::BeginFailed => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::failed;
    use crate::store::StoreError;

    #[test]
    fn a_lost_connection_is_worth_another_try_and_a_missing_row_is_not() {
        let lost = failed("testing")(sqlx::Error::PoolTimedOut);
        assert!(matches!(lost, StoreError::Unreachable { .. }));
        let wrong = failed("testing")(sqlx::Error::RowNotFound);
        assert!(matches!(wrong, StoreError::Failed { .. }));
    }
}
