//! Delivery-queue records and leases in a SQLite file.

use async_trait::async_trait;
use serde_json::json;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::error::unread;
use super::{SqliteStore, endpoints};
use crate::domain::id::{Epoch, IncarnationId, QueueName};
use crate::domain::queue::QueueRecord;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::store::columns::{
    Columns, closing_text, head_cleared, integer, parsed, queue_columns, queue_record, queue_url, text,
};
use crate::store::rules::{due_in, lease_refusal};
use crate::store::{
    HeadScope, HeldLease, LearnedQueue, Lease, LeaseOutcome, NewPause, Purpose, QueueMark, QueueQuery, QueueUrl,
    Queues, StoreError,
};

const ASKER: &str = "SELECT i.id FROM incarnations i, settings s WHERE i.id = $1 AND i.alive \
    AND i.version >= s.minimum_version AND (i.fingerprint IS NULL OR i.fingerprint = s.fingerprint)";
const EPOCH: &str = "UPDATE numbers SET value = max(value + 1, $1 / 1000) WHERE name = 'epoch' RETURNING value";
const ROW_MAKE: &str = "INSERT INTO delivery_queues (name, active_at, created_at) VALUES ($1, $2, $2) \
    ON CONFLICT (name) DO NOTHING";
const LIFE: &str = "SELECT name, alive FROM incarnations WHERE id = $1";
const TAKE: &str = concat!(
    "UPDATE delivery_queues SET owner = $2, epoch = $3, \
     wanted_by_incarnation = (SELECT i.id FROM incarnations i WHERE i.id = wanted_by_incarnation AND i.alive AND i.id <> $2), \
     closing = CASE WHEN closing = 'closing' THEN 'ended' ELSE closing END WHERE name = $1 RETURNING ",
    queue_columns!()
);
const FREE: &str = "UPDATE delivery_queues SET owner = NULL WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL";
const HELD: &str = "SELECT name, epoch, paused_by IS NOT NULL AS paused, \
    (SELECT i.id FROM incarnations i WHERE i.id = q.wanted_by_incarnation AND i.alive AND i.id <> q.owner) \
        AS wanted_by_incarnation \
    FROM delivery_queues q WHERE owner = $1 ORDER BY name";
const LEARN: &str = "INSERT INTO delivery_queues AS q (name, execution, url, active_at, created_at) \
    VALUES ($1, $2, $3, $4, $4) ON CONFLICT (name) DO UPDATE SET \
    execution = COALESCE(q.execution, excluded.execution), url = COALESCE(q.url, excluded.url), \
    active_at = excluded.active_at";
const GET: &str = concat!("SELECT ", queue_columns!(), " FROM delivery_queues WHERE name = $1");
const URLS: &str = "SELECT q.name, q.url, e.last_success_at IS NOT NULL AS answered FROM json_each($1) AS j \
    JOIN delivery_queues AS q ON q.name = j.value LEFT JOIN endpoints AS e ON e.url = q.url WHERE q.url IS NOT NULL";
const GET_SOME: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM delivery_queues WHERE name IN (SELECT value FROM json_each($1))"
);
const PAGE: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM delivery_queues WHERE name > $1 ORDER BY name LIMIT $2"
);
const PAGE_OF_URL: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM delivery_queues WHERE name > $1 AND url = $3 ORDER BY name LIMIT $2"
);
/// What a crash left open comes first. A head or an end is due only where it could be tried: not while a person or
/// a refusal stops its queue, or while its URL is not available.
const DUE: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM delivery_queues q WHERE (closing = 'closing' \
     OR (decision_id IS NOT NULL AND paused_by IS NULL) \
     OR ((head_next_attempt_at <= $2 OR closing = 'ended' OR has_companion) AND paused_by IS NULL AND refused IS NULL AND quarantined IS NULL \
         AND NOT EXISTS (SELECT 1 FROM endpoints e WHERE e.url = q.url AND e.state <> 'available'))) \
     AND NOT EXISTS (SELECT 1 FROM incarnations i WHERE i.id = q.owner AND i.alive) \
     ORDER BY COALESCE(head_next_attempt_at, 0), name LIMIT $1"
);
const WAITING: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM delivery_queues WHERE head_next_attempt_at IS NOT NULL OR head_parked \
     ORDER BY head_parked, head_next_attempt_at, name LIMIT $1"
);
const PAUSE: &str = concat!(
    "UPDATE delivery_queues SET paused_by = $2, paused_reason = $3, paused_at = $4 WHERE name = $1 RETURNING ",
    queue_columns!()
);
const WANT: &str = "UPDATE delivery_queues SET wanted_by_incarnation = $2 WHERE name = $1 \
    AND wanted_by_incarnation IS NOT $2 \
    AND NOT EXISTS (SELECT 1 FROM incarnations i WHERE i.id = wanted_by_incarnation AND i.alive)";
const UNWANT: &str = "UPDATE delivery_queues SET wanted_by_incarnation = NULL \
    WHERE name = $1 AND wanted_by_incarnation = $2";
const HEAD_RESET: &str = concat!(
    "UPDATE delivery_queues SET refusals_in_row = 0, ",
    head_cleared!(),
    " WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL AND head_message IS NOT NULL RETURNING name"
);
const HEADS_RESET: &str = concat!(
    "UPDATE delivery_queues SET refusals_in_row = 0, ",
    head_cleared!(),
    " WHERE url = $1 AND head_message IS NOT NULL RETURNING name"
);
const FORGET: &str = "DELETE FROM delivery_queues WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL \
    AND NOT has_companion";

/// `$1` and `$2` are name and epoch, `$3` what is marked.
macro_rules! mark {
    ($($assignment:tt)*) => {
        concat!(
            "UPDATE delivery_queues SET ",
            $($assignment)*,
            " WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL"
        )
    };
}

#[async_trait]
impl Queues for SqliteStore {
    async fn leases_take(
        &self,
        incarnation: IncarnationId,
        purpose: Purpose,
        queues: &[QueueName],
    ) -> Result<Vec<LeaseOutcome>, StoreError> {
        if queues.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.clock.now();
        let queues = queues.to_vec();
        self.write("taking leases", move |connection| {
            Box::pin(async move { take_all(connection, incarnation, purpose, &queues, now).await })
        })
        .await
    }

    async fn lease_free(&self, queue: &QueueName, epoch: Epoch) -> Result<bool, StoreError> {
        self.guarded("freeing a lease", FREE, (queue, epoch.0)).await
    }

    async fn leases_held(&self, incarnation: IncarnationId) -> Result<Vec<HeldLease>, StoreError> {
        let operation = "reading the leases held";
        let rows = sqlx::query(HELD)
            .bind(incarnation.0)
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        rows.iter()
            .map(held)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }

    async fn queues_learn(&self, learned: &[LearnedQueue]) -> Result<(), StoreError> {
        let now = self.clock.now();
        let learned = learned.to_vec();
        self.write("learning queues", move |connection| {
            Box::pin(async move { learn(connection, &learned, now).await })
        })
        .await
    }

    async fn queue_get(&self, queue: &QueueName) -> Result<Option<QueueRecord>, StoreError> {
        let operation = "reading a queue";
        let row = sqlx::query(GET)
            .bind(queue.as_str())
            .fetch_optional(self.readers())
            .await
            .map_err(unread(operation))?;
        row.as_ref().map(queue_record).transpose().map_err(unread(operation))
    }

    async fn queue_urls(&self, queues: &[QueueName]) -> Result<Vec<QueueUrl>, StoreError> {
        let operation = "reading whose queues some are";
        let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
        let rows = sqlx::query(URLS)
            .bind(json!(names).to_string())
            .fetch_all(self.readers())
            .await
            .map_err(unread(operation))?;
        rows.iter()
            .map(queue_url)
            .collect::<Result<_, _>>()
            .map_err(unread(operation))
    }

    async fn queues_get(&self, queues: &[QueueName]) -> Result<Vec<QueueRecord>, StoreError> {
        let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
        let statement = sqlx::query(GET_SOME).bind(serde_json::json!(names).to_string());
        records("reading queues", statement.fetch_all(self.readers()).await)
    }

    async fn queues_page(&self, query: &QueueQuery) -> Result<Vec<QueueRecord>, StoreError> {
        let after = query.after.as_ref().map_or("", QueueName::as_str);
        let statement = match &query.url {
            Some(url) => sqlx::query(PAGE_OF_URL)
                .bind(after)
                .bind(i64::from(query.limit))
                .bind(url.as_str()),
            None => sqlx::query(PAGE).bind(after).bind(i64::from(query.limit)),
        };
        records("listing queues", statement.fetch_all(self.readers()).await)
    }

    async fn queues_due(&self, limit: u32) -> Result<Vec<QueueRecord>, StoreError> {
        let statement = sqlx::query(DUE).bind(i64::from(limit)).bind(self.clock.now().micros());
        records("listing due queues", statement.fetch_all(self.readers()).await)
    }

    async fn queues_waiting(&self, limit: u32) -> Result<Vec<QueueRecord>, StoreError> {
        let statement = sqlx::query(WAITING).bind(i64::from(limit));
        records("listing waiting queues", statement.fetch_all(self.readers()).await)
    }

    async fn queue_pause(&self, queue: &QueueName, pause: Option<NewPause>) -> Result<Option<QueueRecord>, StoreError> {
        let now = self.clock.now().micros();
        let queue = queue.clone();
        self.write("pausing a queue", move |connection| {
            Box::pin(async move {
                let row = sqlx::query(PAUSE)
                    .bind(queue.as_str())
                    .bind(pause.as_ref().map(|pause| pause.by.as_str()))
                    .bind(pause.as_ref().and_then(|pause| pause.reason.as_deref()))
                    .bind(pause.as_ref().map(|_| now))
                    .fetch_optional(connection)
                    .await?;
                row.as_ref().map(queue_record).transpose()
            })
        })
        .await
    }

    async fn queue_want(&self, queue: &QueueName, incarnation: IncarnationId) -> Result<(), StoreError> {
        let wish = (queue, incarnation.0);
        self.guarded("wanting a queue", WANT, wish).await.map(drop)
    }

    async fn queue_unwant(&self, queue: &QueueName, incarnation: IncarnationId) -> Result<(), StoreError> {
        let wish = (queue, incarnation.0);
        self.guarded("wanting a queue no longer", UNWANT, wish).await.map(drop)
    }

    async fn queue_mark(&self, queue: &QueueName, epoch: Epoch, mark: QueueMark) -> Result<bool, StoreError> {
        let now = self.clock.now();
        let queue = queue.clone();
        self.write("marking a queue", move |connection| {
            Box::pin(async move { set_mark(connection, (&queue, epoch), &mark, now).await })
        })
        .await
    }

    async fn heads_reset(&self, scope: &HeadScope) -> Result<Vec<QueueName>, StoreError> {
        let scope = scope.clone();
        self.write("resetting heads", move |connection| {
            Box::pin(async move {
                let statement = match &scope {
                    HeadScope::Queue(queue, epoch) => sqlx::query(HEAD_RESET).bind(queue.as_str()).bind(epoch.0),
                    HeadScope::Url(url) => sqlx::query(HEADS_RESET).bind(url.as_str()),
                };
                let rows = statement.fetch_all(connection).await?;
                rows.iter().map(|row| parsed(row, "name", QueueName::parse)).collect()
            })
        })
        .await
    }

    async fn queue_forget(&self, queue: &QueueName, epoch: Epoch) -> Result<bool, StoreError> {
        self.guarded("forgetting a queue", FORGET, (queue, epoch.0)).await
    }
}

impl SqliteStore {
    /// A statement over a name and the number that guards it; whether it changed the row.
    async fn guarded(
        &self,
        operation: &'static str,
        statement: &'static str,
        (queue, number): (&QueueName, i64),
    ) -> Result<bool, StoreError> {
        let queue = queue.clone();
        let changed = self
            .write(operation, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query(statement).bind(queue.as_str()).bind(number);
                    Ok(query.execute(connection).await?.rows_affected())
                })
            })
            .await?;
        Ok(changed == 1)
    }
}

/// Resets every head of `url`.
pub(super) async fn heads_reset(connection: &mut SqliteConnection, url: &EndpointUrl) -> Result<(), sqlx::Error> {
    sqlx::query(HEADS_RESET).bind(url.as_str()).execute(connection).await?;
    Ok(())
}

async fn take_all(
    connection: &mut SqliteConnection,
    incarnation: IncarnationId,
    purpose: Purpose,
    queues: &[QueueName],
    now: Timestamp,
) -> Result<Vec<LeaseOutcome>, sqlx::Error> {
    let asker = sqlx::query(ASKER)
        .bind(incarnation.0)
        .fetch_optional(&mut *connection)
        .await?;
    if asker.is_none() {
        return Ok(vec![LeaseOutcome::Disowned; queues.len()]);
    }
    let epoch: i64 = sqlx::query_scalar(EPOCH)
        .bind(now.micros())
        .fetch_one(&mut *connection)
        .await?;
    let mut outcomes = Vec::with_capacity(queues.len());
    for queue in queues {
        outcomes.push(take(connection, (incarnation, Epoch(epoch)), purpose, queue, now).await?);
    }
    Ok(outcomes)
}

async fn take(
    connection: &mut SqliteConnection,
    (incarnation, epoch): (IncarnationId, Epoch),
    purpose: Purpose,
    queue: &QueueName,
    now: Timestamp,
) -> Result<LeaseOutcome, sqlx::Error> {
    sqlx::query(ROW_MAKE)
        .bind(queue.as_str())
        .bind(now.micros())
        .execute(&mut *connection)
        .await?;
    let row = sqlx::query(GET)
        .bind(queue.as_str())
        .fetch_one(&mut *connection)
        .await?;
    let record = queue_record(&row)?;
    let owner = life(connection, record.owner).await?;
    let wisher = life(connection, record.wanted_by).await?;
    let is_alive = |id| {
        let known = if record.owner == Some(id) { &owner } else { &wisher };
        known.as_ref().is_some_and(|(_, alive)| *alive)
    };
    if let Some(refusal) = lease_refusal(&record, incarnation, is_alive, purpose) {
        return Ok(refusal);
    }
    let row = sqlx::query(TAKE)
        .bind(queue.as_str())
        .bind(incarnation.0)
        .bind(epoch.0)
        .fetch_one(&mut *connection)
        .await?;
    let record = queue_record(&row)?;
    let endpoint = match &record.url {
        Some(url) => endpoints::get(connection, url).await?,
        None => None,
    };
    Ok(LeaseOutcome::Taken(Box::new(Lease {
        due_in: due_in(&record, now),
        record,
        endpoint,
        epoch,
        taken_from: owner.filter(|(_, alive)| !alive).map(|(name, _)| name),
    })))
}

/// Name and life of an owner, or of one who wants to be.
async fn life(
    connection: &mut SqliteConnection,
    id: Option<IncarnationId>,
) -> Result<Option<(String, bool)>, sqlx::Error> {
    let Some(id) = id else {
        return Ok(None);
    };
    let row = sqlx::query(LIFE).bind(id.0).fetch_optional(connection).await?;
    row.map(|row| Ok((text(&row, "name")?, row.flag("alive")?))).transpose()
}

async fn learn(connection: &mut SqliteConnection, learned: &[LearnedQueue], now: Timestamp) -> Result<(), sqlx::Error> {
    for queue in learned {
        sqlx::query(LEARN)
            .bind(queue.name.as_str())
            .bind(queue.execution.as_str())
            .bind(queue.url.as_str())
            .bind(now.micros())
            .execute(&mut *connection)
            .await?;
        endpoints::make(connection, &queue.url, now).await?;
    }
    Ok(())
}

async fn set_mark(
    connection: &mut SqliteConnection,
    (queue, epoch): (&QueueName, Epoch),
    mark: &QueueMark,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let guarded = |statement: &'static str| sqlx::query(statement).bind(queue.as_str().to_owned()).bind(epoch.0);
    let query = match mark {
        QueueMark::Closing(closing) => guarded(mark!("closing = $3")).bind(closing_text(*closing)),
        QueueMark::Refused(why) => guarded(mark!("refused = $3")).bind(why.as_deref()),
        QueueMark::Refusing(why) => guarded(mark!("refusing = $3")).bind(why.as_deref()),
        QueueMark::Quarantined(why) => guarded(mark!("quarantined = $3")).bind(why.as_deref()),
        QueueMark::Learned(learned) => guarded(mark!("execution = $3, url = $4"))
            .bind(learned.execution.as_str())
            .bind(learned.url.as_str()),
        QueueMark::Companion(exists) => guarded(mark!("has_companion = $3")).bind(*exists),
        QueueMark::HeadGone => guarded(mark!(head_cleared!())),
        QueueMark::Active => guarded(mark!("active_at = $3")).bind(now.micros()),
    };
    let marked = query.execute(&mut *connection).await?.rows_affected() == 1;
    if let (true, QueueMark::Learned(learned)) = (marked, mark) {
        endpoints::make(connection, &learned.url, now).await?;
    }
    Ok(marked)
}

fn held(row: &SqliteRow) -> Result<HeldLease, sqlx::Error> {
    Ok(HeldLease {
        queue: parsed(row, "name", QueueName::parse)?,
        epoch: Epoch(integer(row, "epoch")?),
        paused: row.flag("paused")?,
        wanted_by: row.integer("wanted_by_incarnation")?.map(IncarnationId),
    })
}

fn records(operation: &'static str, rows: Result<Vec<SqliteRow>, sqlx::Error>) -> Result<Vec<QueueRecord>, StoreError> {
    rows.and_then(|rows| rows.iter().map(queue_record).collect())
        .map_err(unread(operation))
}
