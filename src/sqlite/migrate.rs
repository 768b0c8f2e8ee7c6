//! Versions of the tables in a file that several parts share: each namespace counts its own.
//!
//! The version is read and raised in the transaction that applies the statements, so that two
//! processes opening a new file at once apply them once.

use sqlx::sqlite::SqliteConnection;

use super::{SqliteError, SqliteFile};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_version \
    (namespace TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID, STRICT";
const READ: &str = "SELECT version FROM schema_version WHERE namespace = ?";
const RAISE: &str = "INSERT INTO schema_version (namespace, version) VALUES (?, ?) \
    ON CONFLICT (namespace) DO UPDATE SET version = excluded.version";

pub(super) async fn run(
    file: &SqliteFile,
    namespace: &'static str,
    migrations: &'static [(i64, &'static str)],
) -> Result<(), SqliteError> {
    let known = migrations.iter().map(|(version, _)| *version).max().unwrap_or(0);
    let found = file
        .write(move |connection| Box::pin(apply(connection, namespace, migrations, known)))
        .await?;
    if found > known {
        return Err(SqliteError::Newer {
            namespace,
            found,
            known,
        });
    }
    Ok(())
}

/// Answers the version found; changes nothing when that is a newer one.
async fn apply(
    connection: &mut SqliteConnection,
    namespace: &'static str,
    migrations: &'static [(i64, &'static str)],
    known: i64,
) -> Result<i64, sqlx::Error> {
    sqlx::query(TABLE).execute(&mut *connection).await?;
    let found = sqlx::query_scalar(READ)
        .bind(namespace)
        .fetch_optional(&mut *connection)
        .await?
        .unwrap_or(0);
    if found >= known {
        return Ok(found);
    }
    for (_, statements) in migrations.iter().filter(|(version, _)| *version > found) {
        sqlx::raw_sql(*statements).execute(&mut *connection).await?;
    }
    sqlx::query(RAISE)
        .bind(namespace)
        .bind(known)
        .execute(&mut *connection)
        .await?;
    Ok(found)
}
