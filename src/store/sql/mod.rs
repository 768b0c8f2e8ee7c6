//! What both databases are asked in the same words: one text for each statement, and one function that binds it,
//! runs it and reads its rows.
//!
//! Promises: a statement says on both databases what its text says ([`Statement`] has the few rules); which call is a
//! transaction stands at the call. What a database has to be asked in its own way (pushes, taking events, ends of
//! leases, evidence of life) stays with its driver, `postgres` or `sqlite`, and says why.

mod broker_facts;
mod dead_letters;
mod deliveries;
mod endpoints;
pub(super) mod events;
pub(super) mod identity;
pub(super) mod incarnations;
mod kept_messages;
mod policies;
mod queues;
mod records;
mod retention;
mod runs;
mod saves;
mod session;
mod statement;
mod stored_letters;
mod values;

use futures_util::future::BoxFuture;

use super::StoreError;
use crate::domain::time::Timestamp;

pub(super) use super::postgres::Exclusive;
pub(super) use session::{Row, Session};
pub(super) use statement::Statement;
pub(super) use values::{IntoValue, Value, columns, values};

/// What a call does on its session.
pub(super) type Work<'c, T> = BoxFuture<'c, Result<T, sqlx::Error>>;

/// A database that is asked by statements.
///
/// On PostgreSQL, a read and a write are a session outside of a transaction: each statement is one of its own. On
/// SQLite, a read sees what is committed, a write and a transaction are one work of the writer.
pub(super) trait Driver: Send + Sync {
    /// Reads; several statements may see several states.
    fn read<T, F>(&self, operation: &'static str, work: F) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Session<'c>) -> Work<'c, T> + Send + 'static;

    /// Writes with one statement, or with several that need not be one.
    fn write<T, F>(&self, operation: &'static str, work: F) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Session<'c>) -> Work<'c, T> + Send + 'static;

    /// Forgets endpoints that nobody needs and that were used last before this, at most `rows`; how many went.
    fn endpoints_trim(&self, before: Timestamp, rows: u32) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Writes all or nothing; the work is told the store's clock as it stood at the begin.
    fn transaction<T, F>(&self, operation: &'static str, work: F) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Session<'c>, Timestamp) -> Work<'c, T> + Send + 'static;
}

/// Calls of one statement.
pub(super) trait Calls: Driver {
    /// The rows that are found.
    fn list<T: Send + 'static>(
        &self,
        operation: &'static str,
        statement: &'static Statement,
        values: Vec<Value>,
        read: impl Fn(&Row) -> Result<T, sqlx::Error> + Send + 'static,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send {
        self.read(operation, move |mut session| {
            Box::pin(async move { session.list(statement, values, read).await })
        })
    }

    /// The row that is found.
    fn find<T: Send + 'static>(
        &self,
        operation: &'static str,
        statement: &'static Statement,
        values: Vec<Value>,
        read: impl Fn(&Row) -> Result<T, sqlx::Error> + Send + 'static,
    ) -> impl Future<Output = Result<Option<T>, StoreError>> + Send {
        self.read(operation, move |mut session| {
            Box::pin(async move { session.find(statement, values, read).await })
        })
    }

    /// The row that there always is.
    fn one<T: Send + 'static>(
        &self,
        operation: &'static str,
        statement: &'static Statement,
        values: Vec<Value>,
        read: impl Fn(&Row) -> Result<T, sqlx::Error> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send {
        self.read(operation, move |mut session| {
            Box::pin(async move { session.one(statement, values, read).await })
        })
    }

    /// How many rows a change changed.
    fn change(
        &self,
        operation: &'static str,
        statement: &'static Statement,
        values: Vec<Value>,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        self.write(operation, move |mut session| {
            Box::pin(async move { session.change(statement, values).await })
        })
    }

    /// The row that an addition answers.
    fn added<T: Send + 'static>(
        &self,
        operation: &'static str,
        statement: &'static Statement,
        values: Vec<Value>,
        read: impl Fn(&Row) -> Result<T, sqlx::Error> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send {
        self.write(operation, move |mut session| {
            Box::pin(async move { session.one(statement, values, read).await })
        })
    }

    /// The rows that a change answers.
    fn changed<T: Send + 'static>(
        &self,
        operation: &'static str,
        statement: &'static Statement,
        values: Vec<Value>,
        read: impl Fn(&Row) -> Result<T, sqlx::Error> + Send + 'static,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send {
        self.write(operation, move |mut session| {
            Box::pin(async move { session.list(statement, values, read).await })
        })
    }
}

impl<D: Driver> Calls for D {}

/// What writes was called as what reads, or the other way round.
pub(super) fn read_only() -> sqlx::Error {
    sqlx::Error::Protocol("a statement was asked of a session that does not take it".to_owned())
}
