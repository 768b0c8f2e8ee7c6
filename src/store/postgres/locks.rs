//! Who else has locked rows and tables of ours: a person in an open transaction, or a program of others.
//!
//! A row says which transaction locked it last, and the server which session has that transaction. Nothing is locked for
//! looking.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::domain::id::QueueName;
use crate::domain::text;
use crate::domain::words::lasts;
use crate::store::ForeignLock;

/// Columns of a foreign name that are shown.
const NAME_WIDTH_MAX: usize = 60;

macro_rules! sessions {
    ($from:literal) => {
        concat!(
            "SELECT l.pid, COALESCE(a.usename::text, '?') AS who, COALESCE(a.application_name, '') AS program, \
                (extract(epoch FROM clock_timestamp() - a.xact_start) * 1000)::bigint AS millis, \
                string_agg(DISTINCT c.relname::text, ', ') AS tables ",
            $from,
            " LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid \
             WHERE l.granted AND l.pid IS NOT NULL AND a.application_name IS DISTINCT FROM 'redrive' "
        )
    };
}
/// Those that have held locks against writers for five seconds, or nobody knows for how long: only its own role and
/// administrators are told since when.
const ANY: &str = concat!(
    sessions!(
        "FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'redrive'"
    ),
    "AND l.locktype = 'relation' AND c.relkind IN ('r', 'p') \
        AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) \
        AND l.mode IN ('RowShareLock', 'RowExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', \
            'AccessExclusiveLock') \
        AND COALESCE(clock_timestamp() - a.xact_start >= interval '5 s', true) \
     GROUP BY 1, 2, 3, 4 ORDER BY 4 DESC NULLS LAST, 1 LIMIT 10"
);
/// The one that has locked the row of a queue.
const OF_QUEUE: &str = concat!(
    sessions!(
        "FROM redrive.delivery_queues q JOIN pg_catalog.pg_class c ON c.oid = q.tableoid \
         JOIN pg_catalog.pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = q.xmax"
    ),
    "AND q.name = $1 GROUP BY 1, 2, 3, 4 LIMIT 1"
);

pub(super) async fn foreign(
    connection: &mut PgConnection,
    queue: Option<&QueueName>,
) -> Result<Vec<ForeignLock>, sqlx::Error> {
    let rows = match queue {
        None => sqlx::query(ANY).fetch_all(connection).await?,
        Some(queue) => sqlx::query(OF_QUEUE).bind(queue.as_str()).fetch_all(connection).await?,
    };
    rows.iter().map(lock).collect()
}

fn lock(row: &PgRow) -> Result<ForeignLock, sqlx::Error> {
    let (pid, millis): (i32, Option<i64>) = (row.try_get("pid")?, row.try_get("millis")?);
    let (user, program): (String, String) = (row.try_get("who")?, row.try_get("program")?);
    let of_program = match text::show(&program, NAME_WIDTH_MAX) {
        name if name.is_empty() => String::new(),
        name => format!(", {name}"),
    };
    let since = millis
        .and_then(|millis| u64::try_from(millis).ok())
        .map(|millis| format!(", for {}", lasts(Duration::from_millis(millis))))
        .unwrap_or_default();
    Ok(ForeignLock {
        by: format!(
            "session {pid} of the database (user {}{of_program}{since})",
            text::show(&user, NAME_WIDTH_MAX)
        ),
        tables: row.try_get("tables")?,
        mend: format!("end its transaction there, or run `SELECT pg_terminate_backend({pid})`"),
    })
}
