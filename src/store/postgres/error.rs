//! Which errors of PostgreSQL mean *away* (trying again may help), and which mean *wrong*.

use std::fmt;
use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgDatabaseError};
use tokio::time::error::Elapsed;

use super::rights::grants;
use crate::domain::connection;
use crate::store::{RowsLocked, StoreError};

/// Classes and codes of SQLSTATE that pass by themselves: connection exceptions, no resources, shutdown and
/// start, deadlock and serialization, lock and statement time limits.
const PASSING: [&str; 7] = ["08", "53", "57P0", "40001", "40P01", "55P03", "57014"];
/// Of the server, the role or the database.
const TOO_MANY_CONNECTIONS: &str = "53300";
const LOCK_TIMEOUT: &str = "55P03";
const STATEMENT_TIMEOUT: &str = "57014";
const RIGHT_MISSING: &str = "42501";
/// What a session is refused with that would not take writes.
pub(super) const TAKES_NO_WRITES: &str =
    "the server takes no writes: it is a standby or was demoted, or the role may only read";

/// An error during `operation`.
pub(super) fn failed(operation: &'static str) -> impl FnOnce(sqlx::Error) -> StoreError {
    move |error| {
        let (why, passes) = (takes_no_writes(&error), is_passing(&error));
        let source = Box::new(Said(error));
        if let Some(why) = why {
            StoreError::NotWritable { operation, why, source }
        } else if passes {
            StoreError::Unreachable { operation, source }
        } else {
            StoreError::Failed { operation, source }
        }
    }
}

/// An error of PostgreSQL in its own words, without the line of its source that the client's library adds.
#[derive(Debug)]
pub(super) struct Said(pub(super) sqlx::Error);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_database_error() {
            Some(refusal) => write!(f, "error returned from database: {}", refusal.message()),
            None => self.0.fmt(f),
        }
    }
}

impl std::error::Error for Said {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.0.as_database_error() {
            Some(_) => None,
            None => self.0.source(),
        }
    }
}

/// An error of the first connection: what the server refuses is the address' fault.
pub(super) fn connecting(at: &Whereabouts, error: sqlx::Error) -> StoreError {
    let refused = error
        .as_database_error()
        .and_then(DatabaseError::code)
        .is_some_and(|code| ["28", "3D", "42501"].iter().any(|prefix| code.starts_with(prefix)));
    if refused || matches!(error, sqlx::Error::Configuration(_) | sqlx::Error::InvalidArgument(_)) {
        refused_address(Said(error))
    } else {
        at.told(failed("connecting")(error))
    }
}

/// Where the server is, and how long it is waited for: what an error says of a connection that there is not.
#[derive(Clone)]
pub(super) struct Whereabouts {
    at: String,
    user: String,
    patience: Duration,
    /// By a certificate, though the URL does not say so.
    pub(super) must_prove_itself: bool,
}

impl Whereabouts {
    pub(super) fn of(options: &PgConnectOptions, patience: Duration) -> Self {
        Self {
            at: match options.get_socket() {
                Some(socket) => socket.display().to_string(),
                None => format!("{}:{}", options.get_host(), options.get_port()),
            },
            user: options.get_username().to_owned(),
            patience,
            must_prove_itself: false,
        }
    }

    /// In words, why there is no connection, or what a statement lacks.
    pub(super) fn told(&self, error: StoreError) -> StoreError {
        let (operation, source) = match &error {
            StoreError::Unreachable { operation, source } => (operation, source),
            StoreError::Failed { operation, source } => {
                return match self.not_allowed(source.as_ref()) {
                    Some(words) => StoreError::Failed {
                        operation,
                        source: words.into(),
                    },
                    None => error,
                };
            }
            StoreError::NotWritable { .. } | StoreError::Schema(_) | StoreError::Unusable { .. } => return error,
        };
        if source
            .downcast_ref::<Said>()
            .is_some_and(|said| is_lock_timeout(&said.0))
        {
            return locked(operation);
        }
        let full = || self.full(&source.downcast_ref::<Said>()?.0);
        let words = self.unproven(source.as_ref());
        let words = words.or_else(|| connection::told(source.as_ref(), &self.at).or_else(full));
        let silent = || took_too_long(source.as_ref()).then(|| self.silence());
        match words.or_else(silent) {
            Some(words) => StoreError::Unreachable {
                operation,
                source: words.into(),
            },
            None => error,
        }
    }

    /// The server has no room for one more session of ours.
    pub(super) fn full(&self, error: &sqlx::Error) -> Option<String> {
        let refusal = error.as_database_error()?;
        (refusal.code()? == TOO_MANY_CONNECTIONS).then(|| {
            format!(
                "{} takes no more connections ({}): close those that others left open, or raise max_connections of the \
                 server or the limit of the role or database",
                self.at,
                refusal.message()
            )
        })
    }

    /// It does not prove who it is, or speaks no TLS at all, and that it has to is our own choice.
    fn unproven(&self, source: &(dyn std::error::Error + 'static)) -> Option<String> {
        let Said(error @ sqlx::Error::Tls(_)) = source.downcast_ref()? else {
            return None;
        };
        self.must_prove_itself.then(|| {
            let why = connection::told(error, &self.at).unwrap_or_else(|| {
                let cause = std::error::Error::source(error);
                cause.map_or_else(|| error.to_string(), ToString::to_string)
            });
            format!(
                "{why}: a PostgreSQL on another machine has to prove who it is over TLS; give {} a certificate, or write \
                 sslmode= in store.url (sslmode=disable: without TLS)",
                self.at
            )
        })
    }

    /// The tables belong to another user, who has not given this one what it needs.
    fn not_allowed(&self, source: &(dyn std::error::Error + 'static)) -> Option<String> {
        let Said(error) = source.downcast_ref()?;
        let refusal = error.as_database_error()?;
        (refusal.code()? == RIGHT_MISSING).then(|| {
            format!(
                "{}: the owner of the schema has to run `{}`",
                refusal.message(),
                grants(&self.user)
            )
        })
    }

    fn silence(&self) -> String {
        format!("no answer from {} within {} s", self.at, self.patience.as_secs_f64())
    }
}

/// Whether nothing but time was lacking.
pub(super) fn took_too_long(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<Elapsed>() || matches!(error.downcast_ref(), Some(Said(sqlx::Error::PoolTimedOut)))
}

/// The address cannot be used as it is. The text of the error names user and database, never the password.
pub(super) fn refused_address(reason: impl fmt::Display) -> StoreError {
    StoreError::Unusable {
        problem: format!(
            "does not work: {reason}; give postgres://USER:PASSWORD@HOST:PORT/DATABASE of an existing database and user"
        ),
    }
}

/// Why a server that answers takes no writes, if that is it, and the mend. Both pass: another server may take over, and
/// room can be made.
fn takes_no_writes(error: &sqlx::Error) -> Option<&'static str> {
    const READ_ONLY: &str = "it only reads: it is a standby or was demoted, or the role or database is set to read only; \
                             name the server that takes writes, or let this user write";
    if let sqlx::Error::Protocol(said) = error {
        return (said == TAKES_NO_WRITES).then_some(READ_ONLY);
    }
    match error.as_database_error().and_then(DatabaseError::code)?.as_ref() {
        "25006" => Some(READ_ONLY),
        "53100" => Some("no room is left on its disk: free some"),
        _ => None,
    }
}

/// An error of a call that others do not let come to its rows.
pub(super) fn locked(operation: &'static str) -> StoreError {
    StoreError::Unreachable {
        operation,
        source: Box::new(RowsLocked),
    }
}

/// Whether a lock was waited for in vain. One that waits for a row behind another that waits for it waits twice, and the
/// limit of the whole statement may end that first.
pub(super) fn is_lock_timeout(error: &sqlx::Error) -> bool {
    let Some(error) = error.as_database_error() else {
        return false;
    };
    match error.code().as_deref() {
        Some(LOCK_TIMEOUT) => true,
        Some(STATEMENT_TIMEOUT) => {
            let at = error
                .try_downcast_ref::<PgDatabaseError>()
                .and_then(PgDatabaseError::r#where);
            at.is_some_and(|at| at.starts_with("while locking tuple") || at.starts_with("while updating tuple"))
        }
        Some(_) | None => false,
    }
}

fn is_passing(error: &sqlx::Error) -> bool {
    if let Some(code) = error.as_database_error().and_then(DatabaseError::code) {
        return PASSING.iter().any(|prefix| code.starts_with(prefix));
    }
    matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed
    )
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
