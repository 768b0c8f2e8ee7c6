//! A million events, one in ten of them failed before and one in a hundred dead: the first page of a hundred for
//! what people look for. A page may be short when a find is rare and no index leads to it; how many were found is
//! shown with the time.

use std::time::Instant;

use redrive::internals::engine::Engine;
use redrive::internals::engine::events::EventsQuery;
use redrive::internals::engine::query;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor, PgConnection};

use super::{Place, side};
use crate::numbers::{Spread, rounds, row};
use crate::support::servers::scratch_directory;

const FILTERS: [&str; 12] = [
    "",
    "type = t-7",
    "reference = r-0424242",
    "error ~ \"host-77777:\"",
    "error ~ timeout",
    "error ~ timeout and error ~ \"host-12\"",
    "dead = true",
    "state = dead and error ~ \"host-9\"",
    "type = t-3 and attempts >= 4",
    "attempts > 4 and overdue < 1s",
    "reference ~ \"-0042\"",
    "payload ~ \"no such text\"",
];

/// `n` runs from 1 to a million; both databases know these expressions.
const COLUMNS: &str = "'t-' || (n % 20), '', 'r-' || substr('000000' || n, -7), 0, \
    CASE WHEN n % 100 = 0 THEN 2 ELSE 0 END, 4000000000000000 + n, 1700000000000000 + n, 1700000000000000 + n, \
    CASE WHEN n % 10 = 0 THEN n / 10 % 5 + 1 ELSE 0 END, \
    CASE WHEN n % 10 = 0 THEN 'retry: failed_at=2026-11-20T10:00:00Z error=exit 1: connect to host-' || n || \
        ': ' || CASE WHEN n % 3 = 0 THEN 'timeout after 30 s' ELSE 'connection refused' END \
        ELSE 'message: hr.import' END, \
    CASE WHEN n % 10 = 0 THEN 1700000000000000 + n END, CASE WHEN n % 10 = 0 THEN 1700000000000000 + n END";
const INTO: &str = "events (type, subtype, reference, dated, state, nbf, created_at, first_at, attempts, reason, \
    first_failed_at, last_failed_at, payload)";

pub async fn run() {
    let sqlite = Place::sqlite();
    sqlite.store().await.close().await;
    fill_sqlite(&sqlite.address()).await;
    measure("SQLite", &sqlite.address()).await;
    let postgres = Place::postgres().await;
    postgres.store().await.close().await;
    fill_postgres(&postgres.address()).await;
    measure("PostgreSQL", &postgres.address()).await;
}

async fn fill_sqlite(path: &str) {
    let mut connection = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    for name in 0..20 {
        let make = format!("INSERT INTO event_types (name, created_at, updated_at) VALUES ('t-{name}', 1, 1)");
        connection.execute(sqlx::AssertSqlSafe(make)).await.unwrap();
    }
    let fill = format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000000) \
         INSERT INTO {INTO} SELECT {COLUMNS}, CAST('{{\"employee_number\": ' || n || '}}' AS BLOB) FROM numbers"
    );
    connection.execute(sqlx::AssertSqlSafe(fill)).await.unwrap();
    connection.execute("ANALYZE").await.unwrap();
    connection.close().await.unwrap();
}

async fn fill_postgres(url: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    for name in 0..20 {
        let make = format!("INSERT INTO redrive.event_types (name, created_at, updated_at) VALUES ('t-{name}', 1, 1)");
        connection.execute(sqlx::AssertSqlSafe(make)).await.unwrap();
    }
    let columns = COLUMNS.replace("substr('000000' || n, -7)", "right('000000' || n, 7)");
    let fill = format!(
        "INSERT INTO redrive.{INTO} SELECT {columns}, convert_to('{{\"employee_number\": ' || n || '}}', 'UTF8') \
         FROM generate_series(1::bigint, 1000000) AS numbers (n)"
    );
    connection.execute(sqlx::AssertSqlSafe(fill)).await.unwrap();
    connection.execute("VACUUM ANALYZE redrive.events").await.unwrap();
    connection.close().await.unwrap();
}

async fn measure(name: &str, address: &str) {
    let scratch = scratch_directory();
    let engine = side::engine(address, 8, 0, scratch.path()).await;
    for filter in FILTERS {
        let mut took = Vec::new();
        let mut found = 0;
        for _ in 0..rounds() {
            let begun = Instant::now();
            found = first_page(&engine, filter).await;
            took.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
        let what = format!("first page of 1,000,000, {name}, `{filter}` ({found} found)");
        row(&what, &format!("{} ms", Spread::of(&took)), "200 ms");
    }
    engine.close().await;
}

async fn first_page(engine: &Engine, filter: &str) -> usize {
    let query = EventsQuery {
        filter: (!filter.is_empty()).then(|| filter.to_owned()),
        limit: 100,
        ..EventsQuery::default()
    };
    let answer = engine.query(query::Events(query)).await.unwrap();
    let page = answer;
    page.items.len()
}
