//! A session of either database, and the rows that it answers.

use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::sqlite::{SqliteConnection, SqlitePool, SqliteRow};

use super::statement::{ROWS_AT_ONCE, made_for_sqlite};
use super::values::{PostgresQuery, SqliteQuery, bound_postgres, bound_sqlite, split_rows};
use super::{Statement, Value};
use crate::domain::time::Timestamp;
use crate::store::columns::Columns;
use crate::store::postgres::{self, Exclusive};

static TOKEN: Statement = Statement::new("UPDATE event_token SET value = value + 1");

/// Where statements are run.
pub(in crate::store) enum Session<'c> {
    Postgres(&'c mut PgConnection),
    /// The writer of a file, with the time of its work.
    Writer(&'c mut SqliteConnection, Timestamp),
    /// The readers of a file, with the time of the call.
    Readers(&'c SqlitePool, Timestamp),
}

impl Session<'_> {
    /// The rows.
    pub(in crate::store) async fn rows(
        &mut self,
        statement: &'static Statement,
        values: Vec<Value>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        Ok(match self {
            Self::Postgres(connection) => {
                let rows = postgres_query(statement, values).fetch_all(&mut **connection).await?;
                rows.into_iter().map(Row::Postgres).collect()
            }
            Self::Writer(connection, now) => {
                let rows = sqlite_query(statement, values, *now)
                    .fetch_all(&mut **connection)
                    .await?;
                rows.into_iter().map(Row::Sqlite).collect()
            }
            Self::Readers(pool, now) => {
                let rows = sqlite_query(statement, values, *now).fetch_all(*pool).await?;
                rows.into_iter().map(Row::Sqlite).collect()
            }
        })
    }

    /// The first row.
    pub(in crate::store) async fn row(
        &mut self,
        statement: &'static Statement,
        values: Vec<Value>,
    ) -> Result<Option<Row>, sqlx::Error> {
        Ok(match self {
            Self::Postgres(connection) => {
                let row = postgres_query(statement, values)
                    .fetch_optional(&mut **connection)
                    .await?;
                row.map(Row::Postgres)
            }
            Self::Writer(connection, now) => {
                let row = sqlite_query(statement, values, *now)
                    .fetch_optional(&mut **connection)
                    .await?;
                row.map(Row::Sqlite)
            }
            Self::Readers(pool, now) => {
                let row = sqlite_query(statement, values, *now).fetch_optional(*pool).await?;
                row.map(Row::Sqlite)
            }
        })
    }

    /// How many rows the statement changed.
    pub(in crate::store) async fn change(
        &mut self,
        statement: &'static Statement,
        values: Vec<Value>,
    ) -> Result<u64, sqlx::Error> {
        Ok(match self {
            Self::Postgres(connection) => {
                let done = postgres_query(statement, values).execute(&mut **connection).await?;
                done.rows_affected()
            }
            Self::Writer(connection, now) => {
                if let Some(many) = statement.sqlite().of_rows {
                    return change_rows(connection, (statement.sqlite().text, many), values, *now).await;
                }
                let done = sqlite_query(statement, values, *now).execute(&mut **connection).await?;
                done.rows_affected()
            }
            Self::Readers(pool, now) => {
                let done = sqlite_query(statement, values, *now).execute(*pool).await?;
                done.rows_affected()
            }
        })
    }

    /// The store's clock, as it is now.
    pub(in crate::store) async fn now(&mut self) -> Result<Timestamp, sqlx::Error> {
        match self {
            Self::Postgres(connection) => postgres::now(connection).await,
            Self::Writer(_, now) | Self::Readers(_, now) => Ok(*now),
        }
    }

    /// Waits until no other session does `what`, until the end of the transaction. A file has one writer.
    pub(in crate::store) async fn exclusively(&mut self, what: Exclusive) -> Result<(), sqlx::Error> {
        match self {
            Self::Postgres(connection) => postgres::exclusively(connection, what).await,
            Self::Writer(..) | Self::Readers(..) => Ok(()),
        }
    }

    /// Locks rows until the end of the transaction. A file has one writer.
    pub(in crate::store) async fn lock(
        &mut self,
        statement: &'static Statement,
        values: Vec<Value>,
    ) -> Result<(), sqlx::Error> {
        match self {
            Self::Postgres(_) => self.change(statement, values).await.map(drop),
            Self::Writer(..) | Self::Readers(..) => Ok(()),
        }
    }

    /// Whether what was done may be asked for again, as its answer was lost on the way.
    pub(in crate::store) const fn loses_answers(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Draws the token that the next statement gives. PostgreSQL draws it in the statement.
    pub(in crate::store) async fn draw_token(&mut self) -> Result<(), sqlx::Error> {
        match self {
            Self::Postgres(_) => Ok(()),
            Self::Writer(..) | Self::Readers(..) => self.change(&TOKEN, Vec::new()).await.map(drop),
        }
    }

    /// The rows, read.
    pub(in crate::store) async fn list<T>(
        &mut self,
        statement: &'static Statement,
        values: Vec<Value>,
        read: impl Fn(&Row) -> Result<T, sqlx::Error>,
    ) -> Result<Vec<T>, sqlx::Error> {
        self.rows(statement, values).await?.iter().map(read).collect()
    }

    /// The rows of a statement that is made for this call and does not ask the clock, read.
    pub(in crate::store) async fn list_made<T>(
        &mut self,
        text: String,
        values: Vec<Value>,
        read: impl Fn(&Row) -> Result<T, sqlx::Error>,
    ) -> Result<Vec<T>, sqlx::Error> {
        let sqlite = |text: &str| sqlx::query(AssertSqlSafe(made_for_sqlite(text)));
        let rows: Vec<Row> = match self {
            Self::Postgres(connection) => {
                let query = bound_postgres(sqlx::query(AssertSqlSafe(text)), values);
                let rows = query.fetch_all(&mut **connection).await?;
                rows.into_iter().map(Row::Postgres).collect()
            }
            Self::Writer(connection, _) => {
                let rows = bound_sqlite(sqlite(&text), values).fetch_all(&mut **connection).await?;
                rows.into_iter().map(Row::Sqlite).collect()
            }
            Self::Readers(pool, _) => {
                let rows = bound_sqlite(sqlite(&text), values).fetch_all(*pool).await?;
                rows.into_iter().map(Row::Sqlite).collect()
            }
        };
        rows.iter().map(read).collect()
    }

    /// The first row, read.
    pub(in crate::store) async fn find<T>(
        &mut self,
        statement: &'static Statement,
        values: Vec<Value>,
        read: impl Fn(&Row) -> Result<T, sqlx::Error>,
    ) -> Result<Option<T>, sqlx::Error> {
        self.row(statement, values).await?.as_ref().map(read).transpose()
    }

    /// The row that there always is, read.
    pub(in crate::store) async fn one<T>(
        &mut self,
        statement: &'static Statement,
        values: Vec<Value>,
        read: impl Fn(&Row) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        self.find(statement, values, read)
            .await?
            .ok_or(sqlx::Error::RowNotFound)
    }

    /// Whether there is a row.
    pub(in crate::store) async fn has(
        &mut self,
        statement: &'static Statement,
        values: Vec<Value>,
    ) -> Result<bool, sqlx::Error> {
        Ok(self.row(statement, values).await?.is_some())
    }
}

fn postgres_query(statement: &'static Statement, values: Vec<Value>) -> PostgresQuery {
    bound_postgres(sqlx::query(statement.postgres()), values)
}

/// The clock is bound last, where the statement asks for it.
fn sqlite_query(statement: &'static Statement, values: Vec<Value>, now: Timestamp) -> SqliteQuery {
    let made = statement.sqlite();
    let query = bound_sqlite(sqlx::query(made.text), values);
    if made.asks_clock {
        query.bind(now.micros())
    } else {
        query
    }
}

/// As many statements as the rows need, by the texts for one and for many of them.
async fn change_rows(
    connection: &mut SqliteConnection,
    (one, many): (&'static str, &'static str),
    values: Vec<Value>,
    now: Timestamp,
) -> Result<u64, sqlx::Error> {
    let (of_all, of_each) = split_rows(values);
    let (mut rows, mut changed) = (of_each.into_iter(), 0);
    while rows.len() > 0 {
        let (text, count) = if rows.len() < ROWS_AT_ONCE {
            (one, 1)
        } else {
            (many, ROWS_AT_ONCE)
        };
        let query = bound_sqlite(sqlx::query(text), of_all.clone()).bind(now.micros());
        let query = bound_sqlite(query, rows.by_ref().take(count).flatten().collect());
        changed += query.execute(&mut *connection).await?.rows_affected();
    }
    Ok(changed)
}

/// A row of either database.
pub(in crate::store) enum Row {
    Postgres(PgRow),
    Sqlite(SqliteRow),
}

impl Columns for Row {
    fn integer(&self, column: &str) -> Result<Option<i64>, sqlx::Error> {
        match self {
            Self::Postgres(row) => row.integer(column),
            Self::Sqlite(row) => row.integer(column),
        }
    }

    fn text(&self, column: &str) -> Result<Option<String>, sqlx::Error> {
        match self {
            Self::Postgres(row) => row.text(column),
            Self::Sqlite(row) => row.text(column),
        }
    }

    fn bytes(&self, column: &str) -> Result<Option<Vec<u8>>, sqlx::Error> {
        match self {
            Self::Postgres(row) => row.bytes(column),
            Self::Sqlite(row) => row.bytes(column),
        }
    }

    fn flag(&self, column: &str) -> Result<bool, sqlx::Error> {
        match self {
            Self::Postgres(row) => row.flag(column),
            Self::Sqlite(row) => row.flag(column),
        }
    }
}
