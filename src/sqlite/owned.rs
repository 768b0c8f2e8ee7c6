//! Whether a SQLite file is ours: its `application_id` says so. A file of something else is refused as it is, before
//! anything is written to it.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};

use crate::ambient::sleep;

use super::error::is_busy;
use super::{BUSY, SqliteError};
use crate::ambient::Clock;
use crate::domain::schema::SchemaRefusal;
use crate::domain::text;

/// `rdrv`.
const APPLICATION_ID: i64 = 0x7264_7276;
const FOUND: &str = "SELECT application_id, (SELECT count(*) FROM sqlite_schema), \
    (SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name LIMIT 1), \
    EXISTS (SELECT 1 FROM sqlite_schema s, pragma_table_info(s.name) c \
    WHERE s.name = 'schema_version' AND c.name = 'namespace') FROM pragma_application_id";
const SIGN: &str = "PRAGMA application_id = 1919185526";
/// Between two tries for the lock.
const PAUSE: Duration = Duration::from_millis(1);
/// Columns of a foreign table's name that are shown.
const NAME_WIDTH_MAX: usize = 60;

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owned {
    /// Nothing is in it.
    Empty,
    /// A file of this program.
    Ours,
}

/// Looks, and changes nothing.
pub(super) async fn look(path: &Path) -> Result<Owned, SqliteError> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .read_only(true)
        .busy_timeout(BUSY);
    look_by(options, path).await
}

/// The same of a file that is opened in this way.
pub(super) async fn look_by(options: SqliteConnectOptions, path: &Path) -> Result<Owned, SqliteError> {
    let mut connection = options.connect().await.map_err(SqliteError::opening)?;
    let found = sqlx::query_as(FOUND).fetch_one(&mut connection).await;
    // It was read only: how it closes changes nothing.
    let _ = connection.close().await;
    let (id, objects, table, is_of_development): (i64, i64, Option<String>, bool) =
        found.map_err(SqliteError::opening)?;
    match (id, objects) {
        (APPLICATION_ID, _) => Ok(Owned::Ours),
        (0, 0) => Ok(Owned::Empty),
        _ if id == 0 && is_of_development => Err(SchemaRefusal::Development.into()),
        _ => Err(foreign(path, id, table.as_deref())),
    }
}

/// Says in an empty file whose it is. Two who open it at once both do.
pub(super) async fn sign(connection: &mut SqliteConnection) -> Result<(), SqliteError> {
    let clock = Clock::system();
    let begun = clock.uptime();
    loop {
        match sqlx::raw_sql(SIGN).execute(&mut *connection).await {
            Ok(_) => return Ok(()),
            Err(error) if is_busy(&error) && clock.uptime().saturating_sub(begun) < BUSY => sleep(PAUSE).await,
            Err(error) => return Err(SqliteError::opening(error)),
        }
    }
}

fn foreign(path: &Path, id: i64, table: Option<&str>) -> SqliteError {
    let found = match table {
        Some(name) => format!("the table {:?}", text::show(name, NAME_WIDTH_MAX)),
        None => format!("the application id {id}"),
    };
    SqliteError::Schema(SchemaRefusal::Foreign {
        what: format!("the SQLite file {:?}", path.display().to_string()),
        found,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_signed_is_what_is_looked_for() {
        assert_eq!(
            super::SIGN,
            format!("PRAGMA application_id = {}", super::APPLICATION_ID)
        );
    }
}
