//! The schema's versions. A version is applied in the transaction that records it, by one process at a
//! time; a user without the right to create tables can use a store that is up to date.

use sqlx::{Connection, PgConnection, PgPool};

use super::session::within;
use super::{Exclusive, MIGRATION, exclusively};
use crate::store::StoreError;

/// Version and statements, ascending.
const MIGRATIONS: &[(i64, &str)] = &[
    (1, include_str!("migrations/0001.sql")),
    (2, include_str!("migrations/0002.sql")),
    (3, include_str!("migrations/0003.sql")),
    (4, include_str!("migrations/0004.sql")),
    (6, include_str!("migrations/0006.sql")),
    (7, include_str!("migrations/0007.sql")),
    (8, include_str!("migrations/0008.sql")),
    (10, include_str!("migrations/0010.sql")),
    (11, include_str!("migrations/0011.sql")),
    (13, include_str!("migrations/0013.sql")),
    (15, include_str!("migrations/0015.sql")),
    (16, include_str!("migrations/0016.sql")),
    (17, include_str!("migrations/0017.sql")),
    (18, include_str!("migrations/0018.sql")),
    (20, include_str!("migrations/0020.sql")),
    (21, include_str!("migrations/0021.sql")),
    (22, include_str!("migrations/0022.sql")),
];

const TABLE: &str = "CREATE SCHEMA IF NOT EXISTS redrive; \
    CREATE TABLE IF NOT EXISTS redrive.schema_version \
    (only_row bigint PRIMARY KEY CHECK (only_row = 1), version bigint NOT NULL)";
const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = 'redrive' AND c.relname = 'schema_version')";
const READ: &str = "SELECT version FROM redrive.schema_version";
const WRITE: &str = "INSERT INTO redrive.schema_version VALUES (1, $1) \
    ON CONFLICT (only_row) DO UPDATE SET version = excluded.version";

pub(super) async fn run(pool: &PgPool) -> Result<(), StoreError> {
    let known = MIGRATIONS.iter().map(|(version, _)| *version).max().unwrap_or(0);
    let bringing = up_to_date(pool, known);
    // What a bound cuts off here is closed with its pool: nobody has a store yet.
    let found = within(MIGRATION, "bringing the schema up to date", bringing).await?;
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    Ok(())
}

/// Applies what is missing; answers the version reached.
async fn up_to_date(pool: &PgPool, known: i64) -> Result<i64, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let found = version(&mut connection).await?;
    if found >= known {
        return Ok(found);
    }
    let mut transaction = connection.begin().await?;
    let reached = apply(&mut transaction, known).await?;
    transaction.commit().await?;
    Ok(reached)
}

/// The version found, 0 for an empty database. The catalogue is read as a table: names that were looked up in
/// vain are remembered by the session, even when another one has made them since.
async fn version(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let exists: bool = sqlx::query_scalar(EXISTS).fetch_one(&mut *connection).await?;
    if !exists {
        return Ok(0);
    }
    Ok(sqlx::query_scalar(READ).fetch_optional(connection).await?.unwrap_or(0))
}

/// Looks again, now alone, and applies what is missing; answers the version reached. The lock is the
/// first thing in the transaction, so that what follows sees all that others did before.
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
