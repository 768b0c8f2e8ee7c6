//! How long rows are waited for that somebody else has locked: our own statements are done with one in a moment, and
//! what a person or a foreign program holds must not keep the other rows of a call. A file has one writer.

use std::collections::HashSet;

use sqlx::Connection;
use sqlx::postgres::{PgConnection, PgRow};

use super::error::is_lock_timeout;
use crate::domain::queue::QueueRecord;
use crate::store::columns::{queue_columns, queue_record};

const LOCKED: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE name = ANY($1) ORDER BY name FOR UPDATE"
);
const LOCKED_FREE: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE name = ANY($1) ORDER BY name FOR UPDATE SKIP LOCKED"
);
const LOCK_PATIENCE: &str = "SET LOCAL lock_timeout = '250ms'";

/// Locks the rows that can be locked; the others are left out when somebody holds them for longer than we wait.
pub(in crate::store) async fn rows_locked(
    connection: &mut PgConnection,
    names: &[String],
) -> Result<Vec<QueueRecord>, sqlx::Error> {
    rows(connection, names).await?.iter().map(queue_record).collect()
}

async fn rows(connection: &mut PgConnection, names: &[String]) -> Result<Vec<PgRow>, sqlx::Error> {
    let free = sqlx::query(LOCKED_FREE).bind(names).fetch_all(&mut *connection).await?;
    let asked: HashSet<&String> = names.iter().collect();
    if free.len() == asked.len() {
        return Ok(free);
    }
    let mut trying = connection.begin().await?;
    sqlx::raw_sql(LOCK_PATIENCE).execute(&mut *trying).await?;
    match sqlx::query(LOCKED).bind(names).fetch_all(&mut *trying).await {
        Ok(rows) => {
            trying.commit().await?;
            Ok(rows)
        }
        Err(error) if is_lock_timeout(&error) => {
            trying.rollback().await?;
            Ok(free)
        }
        Err(error) => Err(error),
    }
}
