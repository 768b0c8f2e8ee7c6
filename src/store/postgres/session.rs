//! Sessions of the pool: one deadline over everything that a call does, from waiting for a connection to the
//! answer to its commit.
//!
//! Promises: a database that fell silent (a split network resets nothing) is *unreachable* when the deadline
//! passes, and what was asked of it is unknown: it may have happened, or happen once the network is back. A
//! session whose call did not come to its end, given up by its deadline or by its caller, is closed at once and
//! never used again. It may be inside a transaction that the driver does not know of: a cancelled `begin` is.
//!
//! Left out on purpose: trying again. Whoever asked knows whether that is safe.

use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Connection, PgConnection, PgPool, Postgres};
use tokio::time::timeout;

use super::error::failed;
use super::{PostgresStore, now};
use crate::ambient;
use crate::domain::time::Timestamp;
use crate::store::StoreError;

impl PostgresStore {
    /// Runs `work` on a session: one statement, or several that need not be one.
    pub(super) async fn call<T>(
        &self,
        operation: &'static str,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        self.call_within(self.patience, operation, work).await
    }

    /// [`PostgresStore::call`] with another bound.
    pub(super) async fn call_within<T>(
        &self,
        bound: Duration,
        operation: &'static str,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        within(bound, operation, async {
            let mut session = Session::of(&self.pool, self.patience).await?;
            let done = work(&mut session.connection).await;
            session.sound = match &done {
                Ok(_) => true,
                // The server answered: it is there, and a transaction that is open is rolled back next.
                Err(error) => error.as_database_error().is_some(),
            };
            done
        })
        .await
    }

    /// Runs `work` in a transaction, with the store's clock as it stood at the begin, and commits.
    pub(super) async fn transaction<T>(
        &self,
        operation: &'static str,
        work: impl AsyncFnOnce(&mut PgConnection, Timestamp) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        self.call(operation, async |connection: &mut PgConnection| {
            let mut transaction = connection.begin().await?;
            let begun = now(&mut transaction).await?;
            let done = work(&mut transaction, begun).await?;
            transaction.commit().await?;
            Ok(done)
        })
        .await
    }
}

/// Waits for an answer, and no longer than `bound`. What is given up is dropped: it must own its connection, or
/// hold a [`Session`].
pub(super) async fn within<T>(
    bound: Duration,
    operation: &'static str,
    asked: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    match timeout(bound, asked).await {
        Ok(answer) => answer.map_err(failed(operation)),
        Err(late) => Err(StoreError::Unreachable {
            operation,
            source: Box::new(late),
        }),
    }
}

/// A connection that is in use.
struct Session {
    connection: PoolConnection<Postgres>,
    /// Its call came to its end.
    sound: bool,
    patience: Duration,
}

impl Session {
    async fn of(pool: &PgPool, patience: Duration) -> Result<Self, sqlx::Error> {
        Ok(Self {
            connection: pool.acquire().await?,
            sound: false,
            patience,
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.sound {
            // The pool asks a session once more before it takes it back, and would wait for ever.
            let (back, patience) = (self.connection.return_to_pool(), self.patience);
            drop(ambient::spawn("session", async move {
                let _ = timeout(patience, back).await;
            }));
        } else {
            self.connection.close_on_drop();
        }
    }
}
