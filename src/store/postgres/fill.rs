//! Fills an empty database with all that a SQLite file holds: the way from one machine to many.
//!
//! Both drivers keep the same tables with the same columns, so a table is read as JSON and written by its rows' type,
//! whatever later changes add to it. One transaction of the database, which counts what it took; the file is read as it
//! stands at one moment.

use futures_util::TryStreamExt as _;
use serde_json::Value;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};

use super::PostgresStore;
use super::error::failed;
use super::migrate::tables;
use crate::sqlite::SqliteFile;
use crate::store::StoreError;
use crate::store::columns::storable;

/// What was taken of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilledTable {
    /// Its name.
    pub table: String,
    /// Its rows.
    pub rows: u64,
}

const OPERATION: &str = "filling the store";
/// What goes in one statement: as many rows, or as many bytes, whichever comes first.
const ROWS_MAX: usize = 500;
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// Tables that are made with a row in them.
const MADE_WITH_A_ROW: [&str; 5] = ["settings", "numbers", "janitor", "audit_chain", "forgotten_endpoints"];
const COLUMNS: &str = "SELECT column_name::text, data_type::text, is_identity = 'YES' FROM information_schema.columns \
    WHERE table_schema = 'redrive' AND table_name = $1 AND is_generated = 'NEVER' ORDER BY ordinal_position";
const SEQUENCE: &str = "SELECT setval(pg_get_serial_sequence($1, $2), $3)";
/// A database has no embedded broker: the first one that it is used with is its own.
const NO_EMBEDDED: &str = "UPDATE redrive.settings SET broker = NULL WHERE broker = 'embedded'";
/// Its queues are empty, or the file would not be copied: of those about which there is nothing else to say no broker has
/// to know, and none of them is lost.
const EMPTY_QUEUES: &str = "DELETE FROM redrive.delivery_queues WHERE closing = 'open' \
    AND COALESCE(paused_by, wanted_by, refused, refusing, quarantined, head_message, decision_id) IS NULL";
const TOKENS: &str = "SELECT setval('redrive.event_token', $1)";

struct Column {
    name: String,
    is_bytes: bool,
    is_identity: bool,
}

impl PostgresStore {
    /// Takes all that is in `file`; refuses a database that holds something already. Before it counts, `idle` is asked:
    /// where it says false, somebody works with the file again, and nothing is kept (`None`).
    pub async fn fill(
        &self,
        file: &SqliteFile,
        idle: impl Future<Output = bool>,
    ) -> Result<Option<Vec<FilledTable>>, StoreError> {
        let mut to = self.server.connect().await.map_err(failed(OPERATION))?;
        let filled = filled(&mut to, file, idle).await;
        drop(to.close().await);
        filled
    }
}

async fn filled(
    to: &mut PgConnection,
    file: &SqliteFile,
    idle: impl Future<Output = bool>,
) -> Result<Option<Vec<FilledTable>>, StoreError> {
    let unread = |error| failed("reading the SQLite file")(error);
    let mut reader = file.readers().acquire().await.map_err(unread)?;
    let mut from = reader.begin().await.map_err(unread)?;
    let mut transaction = to.begin().await.map_err(failed(OPERATION))?;
    let tables = tables();
    empty(&mut transaction, &tables).await?;
    let mut filled = Vec::with_capacity(tables.len());
    for table in tables {
        let rows = fill(&mut transaction, &mut from, table).await?;
        filled.push(FilledTable {
            table: table.to_owned(),
            rows,
        });
    }
    let token: i64 = sqlx::query_scalar("SELECT value FROM event_token")
        .fetch_one(&mut *from)
        .await
        .map_err(unread)?;
    if token > 0 {
        let raise = sqlx::query(TOKENS).bind(token).execute(&mut *transaction).await;
        raise.map_err(failed(OPERATION))?;
    }
    let unbound = sqlx::query(NO_EMBEDDED).execute(&mut *transaction).await;
    if unbound.map_err(failed(OPERATION))?.rows_affected() > 0 {
        let forgotten = sqlx::query(EMPTY_QUEUES).execute(&mut *transaction).await;
        forgotten.map_err(failed(OPERATION))?;
    }
    if !idle.await {
        return Ok(None);
    }
    transaction.commit().await.map_err(failed(OPERATION))?;
    Ok(Some(filled))
}

/// Refuses a store that was used, and takes out what every new one is made with.
async fn empty(to: &mut PgConnection, tables: &[&str]) -> Result<(), StoreError> {
    for table in tables {
        let is_made_with_a_row = MADE_WITH_A_ROW.contains(table);
        let used = match (*table, is_made_with_a_row) {
            ("settings", _) => "identity IS NOT NULL OR fingerprint IS NOT NULL",
            (_, true) => "false",
            (_, false) => "true",
        };
        let statement = format!("SELECT EXISTS (SELECT 1 FROM redrive.{table} WHERE {used})");
        let is_used: bool = sqlx::query_scalar(AssertSqlSafe(statement))
            .fetch_one(&mut *to)
            .await
            .map_err(failed(OPERATION))?;
        if is_used {
            return Err(StoreError::Unusable {
                problem: format!("leads to a store that is in use (there are rows in {table}): name an empty database"),
            });
        }
        if is_made_with_a_row {
            let statement = format!("DELETE FROM redrive.{table}");
            let deleted = sqlx::query(AssertSqlSafe(statement)).execute(&mut *to).await;
            deleted.map_err(failed(OPERATION))?;
        }
    }
    Ok(())
}

async fn fill(to: &mut PgConnection, from: &mut SqliteConnection, table: &'static str) -> Result<u64, StoreError> {
    let columns: Vec<(String, String, bool)> = sqlx::query_as(COLUMNS)
        .bind(table)
        .fetch_all(&mut *to)
        .await
        .map_err(failed(OPERATION))?;
    let columns: Vec<Column> = columns
        .into_iter()
        .map(|(name, kind, is_identity)| Column {
            is_bytes: kind == "bytea",
            name,
            is_identity,
        })
        .collect();
    let taken = rows(to, from, table, &columns).await.map_err(failed(OPERATION))?;
    let statement = format!("SELECT count(*) FROM redrive.{table}");
    let there: i64 = sqlx::query_scalar(AssertSqlSafe(statement))
        .fetch_one(&mut *to)
        .await
        .map_err(failed(OPERATION))?;
    if u64::try_from(there).ok() != Some(taken) {
        return Err(StoreError::Failed {
            operation: OPERATION,
            source: format!("{table} has {there} rows, and {taken} were taken: nothing is kept").into(),
        });
    }
    for column in columns.iter().filter(|column| column.is_identity) {
        numbered(to, from, table, &column.name)
            .await
            .map_err(failed(OPERATION))?;
    }
    Ok(taken)
}

/// Numbers that were given, to rows that are gone too, are not given again.
async fn numbered(
    to: &mut PgConnection,
    from: &mut SqliteConnection,
    table: &str,
    column: &str,
) -> Result<(), sqlx::Error> {
    let given: Option<i64> = sqlx::query_scalar("SELECT seq FROM sqlite_sequence WHERE name = ?")
        .bind(table)
        .fetch_optional(from)
        .await?;
    if let Some(given) = given.filter(|given| *given > 0) {
        let raise = sqlx::query(SEQUENCE).bind(format!("redrive.{table}")).bind(column);
        raise.bind(given).execute(to).await?;
    }
    Ok(())
}

async fn rows(
    to: &mut PgConnection,
    from: &mut SqliteConnection,
    table: &'static str,
    columns: &[Column],
) -> Result<u64, sqlx::Error> {
    let names: Vec<String> = columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
    let names = names.join(", ");
    let insert = format!(
        "INSERT INTO redrive.{table} ({names}) OVERRIDING SYSTEM VALUE \
         SELECT {names} FROM json_populate_recordset(NULL::redrive.{table}, $1::json)"
    );
    let mut taken = 0;
    let mut batch = Batch::default();
    let read = read_statement(table, columns);
    let mut read = sqlx::query(AssertSqlSafe(read)).fetch(from);
    while let Some(row) = read.try_next().await? {
        batch.push(&storable_row(row.try_get(0)?));
        taken += 1;
        if batch.is_full() {
            send(to, &insert, batch.take()).await?;
        }
    }
    if batch.rows > 0 {
        send(to, &insert, batch.take()).await?;
    }
    Ok(taken)
}

async fn send(to: &mut PgConnection, insert: &str, batch: String) -> Result<(), sqlx::Error> {
    let insert = sqlx::query(AssertSqlSafe(insert.to_owned())).bind(batch);
    insert.execute(to).await.map(drop)
}

/// A row as one JSON object. Lines of the audit come in their order, and a type after the one that it names.
fn read_statement(table: &str, columns: &[Column]) -> String {
    let pairs: Vec<String> = columns
        .iter()
        .map(|Column { name, is_bytes, .. }| {
            if *is_bytes {
                format!("'{name}', CASE WHEN \"{name}\" IS NOT NULL THEN '\\x' || hex(\"{name}\") END")
            } else {
                format!("'{name}', \"{name}\"")
            }
        })
        .collect();
    let order = match table {
        "audit" => " ORDER BY id",
        "event_types" => " ORDER BY dead_letter_type IS NOT NULL",
        _ => "",
    };
    format!("SELECT json_object({}) FROM {table}{order}", pairs.join(", "))
}

/// The database cannot hold U+0000, which the file can.
fn storable_row(row: String) -> String {
    if !row.contains("\\u0000") {
        return row;
    }
    let Ok(Value::Object(mut row)) = serde_json::from_str(&row) else {
        return row;
    };
    for value in row.values_mut() {
        if let Value::String(text) = value {
            *text = storable(text);
        }
    }
    Value::Object(row).to_string()
}

/// Rows of one statement, as an array.
#[derive(Default)]
struct Batch {
    text: String,
    rows: usize,
}

impl Batch {
    fn push(&mut self, row: &str) {
        self.text.push(if self.rows == 0 { '[' } else { ',' });
        self.text.push_str(row);
        self.rows += 1;
    }

    fn is_full(&self) -> bool {
        self.rows >= ROWS_MAX || self.text.len() >= BYTES_MAX
    }

    fn take(&mut self) -> String {
        self.rows = 0;
        let mut text = std::mem::take(&mut self.text);
        text.push(']');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_a_zero_is_made_storable_and_others_are_left_as_they_are() {
        assert_eq!(storable_row(r#"{"a":"x\u0000y"}"#.to_owned()), "{\"a\":\"x\u{fffd}y\"}");
        let kept = r#"{"a":1, "b":"\\x00"}"#;
        assert_eq!(storable_row(kept.to_owned()), kept);
    }
}
