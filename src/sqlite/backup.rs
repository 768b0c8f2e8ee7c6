//! A whole copy of a file, made while others write to it, and what is checked of one before it is used.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use super::{Owned, SqliteError, SqliteFile, owned, place, reading};
use crate::domain::schema::SchemaRefusal;

const IS_THERE: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?)";

impl SqliteFile {
    /// Writes what the file holds at this moment into `to`, an empty file of this user. Whoever made that brings it to
    /// the disk.
    pub async fn back_up(&self, to: &Path) -> Result<(), SqliteError> {
        let options = reading(self.path()).pragma("query_only", "OFF");
        let mut connection = options.connect().await.map_err(SqliteError::opening)?;
        let copied = sqlx::query("VACUUM INTO ?")
            .bind(to.to_string_lossy().into_owned())
            .execute(&mut connection)
            .await;
        // Its own connection, which wrote nothing to the file.
        let _ = connection.close().await;
        copied?;
        Ok(())
    }

    /// Refuses what is at `path` when it is no whole copy of a file of ours: also one that was taken from under a program
    /// that had it open, which lacks what stands in its log.
    pub async fn check_backup(path: &Path) -> Result<(), SqliteError> {
        let unusable = |problem: String| SqliteError::Unusable {
            path: path.to_owned(),
            problem,
        };
        place::inspect(path)?;
        if place::has_log(path) {
            return Err(unusable(
                "has a write-ahead log beside it: it is a file in use, and no backup".to_owned(),
            ));
        }
        match owned::look_by(untouched(path), path).await {
            Ok(Owned::Ours) => {}
            Ok(Owned::Empty) => return Err(SchemaRefusal::Missing.into()),
            Err(error) if error.is_no_database() => return Err(unusable("is no SQLite file".to_owned())),
            Err(error) => return Err(error),
        }
        let mut connection = untouched(path).connect().await.map_err(SqliteError::opening)?;
        let found: Result<String, _> = sqlx::query_scalar("PRAGMA quick_check(1)")
            .fetch_one(&mut connection)
            .await;
        // It was only read.
        let _ = connection.close().await;
        match found?.as_str() {
            "ok" => Ok(()),
            broken => Err(unusable(format!("is damaged ({broken}): take another backup"))),
        }
    }

    /// What `rows` finds in the file at `path`, which is opened for this alone; nothing where it has no such table.
    pub async fn rows_of(path: &Path, table: &str, rows: &'static str) -> Result<Vec<(i64, i64, String)>, SqliteError> {
        rows_by(reading(path), table, rows).await
    }

    /// The same of a backup, which stays as it is.
    pub async fn rows_of_backup(
        path: &Path,
        table: &str,
        rows: &'static str,
    ) -> Result<Vec<(i64, i64, String)>, SqliteError> {
        rows_by(untouched(path), table, rows).await
    }

    /// Whether a process has the file open, as far as its log tells; asked after [`SqliteFile::close`].
    #[must_use]
    pub fn is_in_use(path: &Path) -> bool {
        place::has_log(path)
    }
}

/// For a backup, which nobody writes to: nothing is made beside it, as SQLite does for a file with a log.
fn untouched(path: &Path) -> SqliteConnectOptions {
    reading(path).read_only(true).immutable(true)
}

async fn rows_by(
    options: SqliteConnectOptions,
    table: &str,
    rows: &'static str,
) -> Result<Vec<(i64, i64, String)>, SqliteError> {
    let mut connection = options.connect().await.map_err(SqliteError::opening)?;
    let is_there: Result<bool, _> = sqlx::query_scalar(IS_THERE)
        .bind(table)
        .fetch_one(&mut connection)
        .await;
    let found = match is_there {
        Ok(true) => sqlx::query_as(rows).fetch_all(&mut connection).await,
        Ok(false) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    // It was only read.
    let _ = connection.close().await;
    Ok(found?)
}
