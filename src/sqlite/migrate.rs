//! The tables of a file that several parts share: each namespace counts its own changes.
//!
//! What is missing is read and applied in one transaction, so that two processes opening a new file at once apply it
//! once. A file in which nothing is missing is only read.

use sqlx::sqlite::SqliteConnection;

use super::{SqliteError, SqliteFile};
use crate::ambient::Clock;
use crate::domain::schema::{self, Applied, Change, SchemaRefusal};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_changes (namespace TEXT NOT NULL, number INTEGER NOT NULL, \
    checksum TEXT NOT NULL, applied_at INTEGER NOT NULL, PRIMARY KEY (namespace, number)) WITHOUT ROWID, STRICT";
const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_changes')";
const READ: &str = "SELECT number, checksum FROM schema_changes WHERE namespace = ? ORDER BY number";
const NOTE: &str = "INSERT INTO schema_changes (namespace, number, checksum, applied_at) VALUES (?, ?, ?, ?)";
const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table'";

/// Applies what is missing.
pub(super) async fn bring(
    file: &SqliteFile,
    namespace: &'static str,
    known: &'static [Change],
) -> Result<(), SqliteError> {
    if !missing(file, namespace, known).await?.is_empty() {
        let now = Clock::system().now().micros();
        file.write(move |connection| Box::pin(apply(connection, namespace, known, now)))
            .await??;
    }
    complete(file, known).await
}

/// Refuses a file that is not as this program needs it.
pub(super) async fn expect(
    file: &SqliteFile,
    namespace: &'static str,
    known: &'static [Change],
) -> Result<(), SqliteError> {
    schema::expect(&applied(file, namespace).await?, known)?;
    complete(file, known).await
}

/// The changes that [`bring`] would apply.
pub(super) async fn missing(
    file: &SqliteFile,
    namespace: &'static str,
    known: &'static [Change],
) -> Result<&'static [Change], SqliteError> {
    Ok(schema::missing(&applied(file, namespace).await?, known)?)
}

/// A table that is gone is missed now, and not when somebody needs it.
async fn complete(file: &SqliteFile, known: &'static [Change]) -> Result<(), SqliteError> {
    let there: Vec<String> = sqlx::query_scalar(TABLES).fetch_all(file.readers()).await?;
    let lost = |table: &&str| there.iter().all(|one| one != table);
    match schema::tables(known).into_iter().find(lost) {
        None => Ok(()),
        Some(table) => Err(SqliteError::Schema(SchemaRefusal::Damaged {
            table: table.to_owned(),
        })),
    }
}

async fn applied(file: &SqliteFile, namespace: &'static str) -> Result<Applied, SqliteError> {
    let mut reader = file.readers().acquire().await?;
    Ok(read(&mut reader, namespace).await?)
}

async fn read(connection: &mut SqliteConnection, namespace: &'static str) -> Result<Applied, sqlx::Error> {
    let exists: bool = sqlx::query_scalar(EXISTS).fetch_one(&mut *connection).await?;
    if !exists {
        return Ok(Applied::new());
    }
    sqlx::query_as(READ).bind(namespace).fetch_all(connection).await
}

/// A refusal is a value here: as an error it would be one of a statement.
async fn apply(
    connection: &mut SqliteConnection,
    namespace: &'static str,
    known: &'static [Change],
    now: i64,
) -> Result<Result<(), SchemaRefusal>, sqlx::Error> {
    sqlx::query(TABLE).execute(&mut *connection).await?;
    let applied = read(connection, namespace).await?;
    let missing = match schema::missing(&applied, known) {
        Ok(missing) => missing,
        Err(refusal) => return Ok(Err(refusal)),
    };
    for (number, statements) in missing {
        sqlx::raw_sql(*statements).execute(&mut *connection).await?;
        sqlx::query(NOTE)
            .bind(namespace)
            .bind(number)
            .bind(schema::checksum(statements))
            .bind(now)
            .execute(&mut *connection)
            .await?;
    }
    Ok(Ok(()))
}
