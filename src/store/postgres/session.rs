//! Sessions of the pool: one deadline over everything that a call does, from waiting for a connection to the
//! answer to its commit.
//!
//! Promises: a database that fell silent (a split network resets nothing) is *unreachable* when the deadline
//! passes, and what was asked of it is unknown: it may have happened, or happen once the network is back. A
//! session whose call did not come to its end, given up by its deadline or by its caller, is closed at once and
//! never used again. It may be inside a transaction that the driver does not know of: a cancelled `begin` is.
//!
//! A session whose call ended well is kept at hand for the next one. The pool would ask it twice whether it is
//! still there, once when it is given back and once when it is taken: three ways to the server for one statement.
//!
//! Left out on purpose: trying again. Whoever asked knows whether that is safe.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::ambient::timeout;
use sqlx::error::DatabaseError;
use sqlx::pool::PoolConnection;
use sqlx::{Connection, PgConnection, PgPool, Postgres};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::error::Elapsed;

use super::connect::{Refusal, Server, takes_writes};
use super::error::{TAKES_NO_WRITES, failed, took_too_long};
use super::{CONNECTIONS_MAX, PostgresStore, now};
use crate::ambient::{self, Clock};
use crate::domain::time::Timestamp;
use crate::store::StoreError;

/// A session that was used so lately is not asked whether it is still there.
const FRESH: Duration = Duration::from_millis(50);

/// The sessions of one store.
pub(super) struct Sessions {
    pool: PgPool,
    /// How long a call may take.
    pub(super) patience: Duration,
    /// As many as there are connections.
    places: Semaphore,
    at_hand: Mutex<Vec<AtHand>>,
    clock: Clock,
    server: Server,
    /// Somebody asks the server why it gives no session.
    asks_why: Arc<AtomicBool>,
}

/// A session that waits for the next call.
struct AtHand {
    connection: PoolConnection<Postgres>,
    /// Since when (uptime).
    since: Duration,
}

impl Sessions {
    pub(super) fn of(pool: PgPool, patience: Duration, server: &Server) -> Self {
        Self {
            server: server.clone(),
            asks_why: Arc::default(),
            pool,
            patience,
            places: Semaphore::new(CONNECTIONS_MAX as usize),
            at_hand: Mutex::default(),
            clock: Clock::system(),
        }
    }

    /// Runs `work` on a session: one statement, or several that need not be one.
    pub(super) async fn call<T>(
        &self,
        operation: &'static str,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        let asked = async {
            let mut session = self.session().await?;
            let done = work(session.connection()?).await;
            session.end = End::of(done.as_ref().err());
            done
        };
        answered(operation, timeout(self.patience, asked).await).map_err(|error| self.why_none(error))
    }

    /// The pool tries again and again where there is no session to be had, and would only say that it took too long. The
    /// server is asked why, for the next who is told: nobody waits for longer than his patience.
    fn why_none(&self, error: StoreError) -> StoreError {
        let StoreError::Unreachable { operation, source } = &error else {
            return self.server.whereabouts.told(error);
        };
        if !took_too_long(source.as_ref()) {
            return self.server.whereabouts.told(error);
        }
        match self.server.refused.within(self.patience * 2) {
            Some(Refusal::ReadOnly) => failed(operation)(sqlx::Error::Protocol(TAKES_NO_WRITES.to_owned())),
            Some(Refusal::Full(words)) => StoreError::Unreachable {
                operation,
                source: words.into(),
            },
            None => {
                self.ask_why();
                self.server.whereabouts.told(error)
            }
        }
    }

    fn ask_why(&self) {
        if self.asks_why.swap(true, Ordering::Relaxed) {
            return;
        }
        let (server, patience, asks_why) = (self.server.clone(), self.patience, Arc::clone(&self.asks_why));
        drop(ambient::spawn("why there is no session", async move {
            server.ask_why(patience).await;
            asks_why.store(false, Ordering::Relaxed);
        }));
    }

    /// A session: one that was used a moment ago as it is, any other one when its server takes writes.
    async fn session(&self) -> Result<Session<'_>, sqlx::Error> {
        let place = self.places.acquire().await.map_err(|_| sqlx::Error::PoolClosed)?;
        let mut session = Session {
            sessions: self,
            connection: None,
            end: End::Broken,
            _place: place,
        };
        while let Some(known) = self.take_at_hand() {
            let is_fresh = self.clock.uptime().saturating_sub(known.since) < FRESH;
            session.connection = Some(known.connection);
            if is_fresh || matches!(takes_writes(session.connection()?).await, Ok(true)) {
                return Ok(session);
            }
            session.put_away();
        }
        session.connection = Some(self.pool.acquire().await?);
        Ok(session)
    }

    fn take_at_hand(&self) -> Option<AtHand> {
        self.at_hand.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Where one is gone, or its server demoted, the others may be: each is asked before it is used.
    fn doubt(&self) {
        let mut at_hand = self.at_hand.lock().unwrap_or_else(PoisonError::into_inner);
        for known in at_hand.iter_mut() {
            known.since = Duration::ZERO;
        }
    }

    /// Closes every session.
    pub(super) async fn close(&self) {
        let closing = self.pool.close();
        while let Some(known) = self.take_at_hand() {
            give_back(known.connection, self.patience);
        }
        closing.await;
    }
}

/// Where there is no runtime any more, nothing can be said to the server.
impl Drop for Sessions {
    fn drop(&mut self) {
        while let Some(known) = self.take_at_hand() {
            drop(known.connection.leak());
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// See [`Sessions::call`].
    pub(super) fn call<T>(
        &self,
        operation: &'static str,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> impl Future<Output = Result<T, StoreError>> {
        self.sessions.call(operation, work)
    }

    /// Runs `work` in a transaction, with the store's clock as it stood at the begin, and commits.
    pub(super) async fn in_transaction<T>(
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

/// Whether the session lives on after this refusal: class 57P says that the server ended it, and 25006 that it takes
/// no writes, where the next one may be with the server that does.
fn goes_on(refusal: &dyn DatabaseError) -> bool {
    !refusal
        .code()
        .is_some_and(|code| code.starts_with("57P") || code == "25006")
}

/// Waits for an answer, and no longer than `bound`. What is given up is dropped: it must own its connection, or
/// hold a [`Session`].
pub(super) async fn within<T>(
    bound: Duration,
    operation: &'static str,
    asked: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    answered(operation, timeout(bound, asked).await)
}

fn answered<T>(operation: &'static str, answer: Result<Result<T, sqlx::Error>, Elapsed>) -> Result<T, StoreError> {
    match answer {
        Ok(answer) => answer.map_err(failed(operation)),
        Err(late) => Err(StoreError::Unreachable {
            operation,
            source: Box::new(late),
        }),
    }
}

/// How a session's call ended.
#[derive(Clone, Copy)]
enum End {
    /// With an answer, and outside of a transaction.
    Well,
    /// With a refusal: a transaction may be open.
    Doubtful,
    /// Without an answer.
    Broken,
}

impl End {
    fn of(error: Option<&sqlx::Error>) -> Self {
        match error {
            None => Self::Well,
            // The server answered: it is there, and a transaction that is open is rolled back next.
            Some(error) if error.as_database_error().is_some_and(goes_on) => Self::Doubtful,
            Some(_) => Self::Broken,
        }
    }
}

/// A connection that is in use.
struct Session<'a> {
    sessions: &'a Sessions,
    /// There, but for the moment in which it is made.
    connection: Option<PoolConnection<Postgres>>,
    end: End,
    _place: SemaphorePermit<'a>,
}

impl Session<'_> {
    fn connection(&mut self) -> Result<&mut PoolConnection<Postgres>, sqlx::Error> {
        self.connection.as_mut().ok_or(sqlx::Error::PoolClosed)
    }

    fn put_away(&mut self) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        match self.end {
            End::Well if !self.sessions.pool.is_closed() => {
                let since = self.sessions.clock.uptime();
                let at_hand = &self.sessions.at_hand;
                at_hand
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(AtHand { connection, since });
            }
            End::Well | End::Doubtful => give_back(connection, self.sessions.patience),
            End::Broken => {
                connection.close_on_drop();
                self.sessions.doubt();
            }
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.put_away();
    }
}

/// The pool asks a session once more before it takes it back, and would wait for ever.
fn give_back(mut connection: PoolConnection<Postgres>, patience: Duration) {
    let back = connection.return_to_pool();
    drop(ambient::spawn("session", async move {
        let _ = timeout(patience, back).await;
    }));
}
