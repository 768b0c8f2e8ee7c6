//! The schema's versions. A version is applied in the transaction that records it, by one process at a
//! time; a user without the right to create tables can use a store that is up to date.

use sqlx::{PgConnection, PgPool};

use super::error::failed;
use super::{Exclusive, exclusively};
use crate::store::StoreError;

/// Version and statements, ascending.
const MIGRATIONS: [(i64, &str); 1] = [(1, include_str!("migrations/0001.sql"))];

const TABLE: &str = "CREATE SCHEMA IF NOT EXISTS redrive; \
    CREATE TABLE IF NOT EXISTS redrive.schema_version \
    (only_row bigint PRIMARY KEY CHECK (only_row = 1), version bigint NOT NULL)";
const READ: &str = "SELECT version FROM redrive.schema_version";
const WRITE: &str = "INSERT INTO redrive.schema_version VALUES (1, $1) \
    ON CONFLICT (only_row) DO UPDATE SET version = excluded.version";

pub(super) async fn run(pool: &PgPool) -> Result<(), StoreError> {
    let operation = "bringing the schema up to date";
    let known = MIGRATIONS.iter().map(|(version, _)| *version).max().unwrap_or(0);
    let mut transaction = pool.begin().await.map_err(failed(operation))?;
    let mut found = version(&mut transaction).await.map_err(failed(operation))?;
    if found < known {
        found = apply(&mut transaction, known).await.map_err(failed(operation))?;
        transaction.commit().await.map_err(failed(operation))?;
    }
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    Ok(())
}

/// The version found, 0 for an empty database.
async fn version(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let exists: bool = sqlx::query_scalar("SELECT to_regclass('redrive.schema_version') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await?;
    if !exists {
        return Ok(0);
    }
    Ok(sqlx::query_scalar(READ).fetch_optional(connection).await?.unwrap_or(0))
}

/// Looks again, now alone, and applies what is missing; answers the version reached.
async fn apply(connection: &mut PgConnection, known: i64) -> Result<i64, sqlx::Error> {
    exclusively(connection, Exclusive::Migrating).await?;
    let found = version(connection).await?;
    if found >= known {
        return Ok(found);
    }
    sqlx::raw_sql(TABLE).execute(&mut *connection).await?;
    for (_, statements) in MIGRATIONS.iter().filter(|(version, _)| *version > found) {
        sqlx::raw_sql(*statements).execute(&mut *connection).await?;
    }
    sqlx::query(WRITE).bind(known).execute(connection).await?;
    Ok(known)
}
