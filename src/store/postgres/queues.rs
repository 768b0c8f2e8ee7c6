//! Delivery-queue records and leases on PostgreSQL.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{Connection, Postgres};

use super::{PostgresStore, endpoints, storable, storable_optional};
use crate::domain::endpoint::Endpoint;
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

type Statement<'q> = Query<'q, Postgres, PgArguments>;

/// The asking incarnation is locked against being marked dead, the settings against being changed. Its row is locked
/// so that it can still beat: a heartbeat changes no key, and never waits for somebody who takes leases.
const ASKER: &str = "SELECT i.id FROM redrive.incarnations i, redrive.settings s WHERE i.id = $1 AND i.alive \
    AND i.version >= s.minimum_version AND (i.fingerprint IS NULL OR i.fingerprint = s.fingerprint) \
    FOR KEY SHARE OF i FOR SHARE OF s";
const EPOCH: &str = "UPDATE redrive.numbers SET value = GREATEST(value + 1, redrive.store_now() / 1000) \
    WHERE name = 'epoch' RETURNING value";
const ROWS_MAKE: &str = "INSERT INTO redrive.delivery_queues (name, active_at, created_at) \
    SELECT DISTINCT name COLLATE \"C\", $2, $2 FROM unnest($1::text[]) AS asked (name) ORDER BY 1 \
    ON CONFLICT (name) DO NOTHING";
const ROWS_LOCK: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE name = ANY($1) ORDER BY name FOR UPDATE"
);
const ROWS_LOCK_FREE: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE name = ANY($1) ORDER BY name FOR UPDATE SKIP LOCKED"
);
/// How long rows that others have locked are waited for. Our own statements are done with one by then; what a person
/// or a foreign program holds must not keep the other rows of a call.
const LOCK_PATIENCE: &str = "SET LOCAL lock_timeout = '250ms'";
const LIFE: &str = "SELECT id, name, alive FROM redrive.incarnations WHERE id = ANY($1)";
const TAKE: &str = concat!(
    "UPDATE redrive.delivery_queues SET owner = $2, epoch = $3, \
     wanted_by_incarnation = (SELECT i.id FROM redrive.incarnations i \
        WHERE i.id = wanted_by_incarnation AND i.alive AND i.id <> $2), \
     closing = CASE WHEN closing = 'closing' THEN 'ended' ELSE closing END WHERE name = ANY($1) RETURNING ",
    queue_columns!()
);
const FREE: &str =
    "UPDATE redrive.delivery_queues SET owner = NULL WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL";
const HELD: &str = "SELECT name, epoch, paused_by IS NOT NULL AS paused, \
    (SELECT i.id FROM redrive.incarnations i WHERE i.id = q.wanted_by_incarnation AND i.alive AND i.id <> q.owner) \
        AS wanted_by_incarnation \
    FROM redrive.delivery_queues q WHERE owner = $1 ORDER BY name";
const LEARN: &str = "INSERT INTO redrive.delivery_queues AS q (name, execution, url, active_at, created_at) \
    SELECT DISTINCT ON (name COLLATE \"C\") name, execution, url, $4, $4 \
    FROM unnest($1::text[], $2::text[], $3::text[]) AS learned (name, execution, url) ORDER BY name COLLATE \"C\" \
    ON CONFLICT (name) DO UPDATE SET execution = COALESCE(q.execution, excluded.execution), \
    url = COALESCE(q.url, excluded.url), active_at = excluded.active_at";
const GET: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE name = $1"
);
const URLS: &str = "SELECT q.name, q.url, e.last_success_at IS NOT NULL AS answered \
    FROM redrive.delivery_queues q LEFT JOIN redrive.endpoints e ON e.url_key = redrive.url_key(q.url) \
    WHERE q.name = ANY ($1::text[]) AND q.url IS NOT NULL";
const GET_SOME: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE name = ANY($1)"
);
const PAGE: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE name > $1 ORDER BY name LIMIT $2"
);
const PAGE_OF_URL: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE name > $1 AND redrive.url_key(url) = redrive.url_key($3) \
     ORDER BY name LIMIT $2"
);
/// What a crash left open comes first. A head or an end is due only where it could be tried: not while a person or
/// a refusal stops its queue, or while its URL is not available.
const DUE: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues q WHERE (closing = 'closing' \
     OR (decision_id IS NOT NULL AND paused_by IS NULL) \
     OR ((head_next_attempt_at <= redrive.store_now() OR closing = 'ended' OR has_companion) AND paused_by IS NULL AND refused IS NULL \
         AND quarantined IS NULL AND NOT EXISTS (SELECT 1 FROM redrive.endpoints e \
             WHERE e.url_key = redrive.url_key(q.url) AND e.state <> 'available'))) \
     AND NOT EXISTS (SELECT 1 FROM redrive.incarnations i WHERE i.id = q.owner AND i.alive) \
     ORDER BY COALESCE(head_next_attempt_at, 0), name LIMIT $1"
);
const WAITING: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE head_next_attempt_at IS NOT NULL OR head_parked \
     ORDER BY head_parked, head_next_attempt_at, name LIMIT $1"
);
const PAUSE: &str = concat!(
    "UPDATE redrive.delivery_queues SET paused_by = $2, paused_reason = $3, \
     paused_at = CASE WHEN $2::text IS NULL THEN NULL ELSE redrive.store_now() END WHERE name = $1 RETURNING ",
    queue_columns!()
);
const WANT: &str = "UPDATE redrive.delivery_queues SET wanted_by_incarnation = $2 WHERE name = $1 \
    AND wanted_by_incarnation IS DISTINCT FROM $2 \
    AND NOT EXISTS (SELECT 1 FROM redrive.incarnations i WHERE i.id = wanted_by_incarnation AND i.alive)";
const UNWANT: &str = "UPDATE redrive.delivery_queues SET wanted_by_incarnation = NULL \
    WHERE name = $1 AND wanted_by_incarnation = $2";
const HEAD_RESET: &str = concat!(
    "UPDATE redrive.delivery_queues SET refusals_in_row = 0, ",
    head_cleared!(),
    " WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL AND head_message IS NOT NULL RETURNING name"
);
const HEADS_LOCK: &str = "SELECT name FROM redrive.delivery_queues \
    WHERE redrive.url_key(url) = redrive.url_key($1) AND head_message IS NOT NULL ORDER BY name FOR UPDATE";
const HEADS_RESET: &str = concat!(
    "UPDATE redrive.delivery_queues SET refusals_in_row = 0, ",
    head_cleared!(),
    " WHERE name = ANY($1) RETURNING name"
);
/// Waits for nobody, as the endpoint is locked by then: who holds one of these rows now is about to find
/// the endpoint changed.
const HEADS_LOCK_FREE: &str = "SELECT name FROM redrive.delivery_queues \
    WHERE redrive.url_key(url) = redrive.url_key($1) AND head_message IS NOT NULL FOR UPDATE SKIP LOCKED";
const FORGET: &str = "DELETE FROM redrive.delivery_queues WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL \
    AND NOT has_companion";

/// `$1` and `$2` are name and epoch, `$3` what is marked.
macro_rules! mark {
    ($($assignment:tt)*) => {
        concat!(
            "UPDATE redrive.delivery_queues SET ",
            $($assignment)*,
            " WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL"
        )
    };
}

#[async_trait]
impl Queues for PostgresStore {
    async fn leases_take(
        &self,
        incarnation: IncarnationId,
        purpose: Purpose,
        queues: &[QueueName],
    ) -> Result<Vec<LeaseOutcome>, StoreError> {
        if queues.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<String> = queues.iter().map(|queue| storable(queue.as_str())).collect();
        let taken = self.transaction("taking leases", async |connection: &mut PgConnection, now| {
            take(connection, incarnation, purpose, &names, now).await
        });
        let Some(taken) = taken.await? else {
            return Ok(vec![LeaseOutcome::Disowned; queues.len()]);
        };
        Ok(names
            .iter()
            .map(|name| taken.get(name).cloned().unwrap_or(LeaseOutcome::Locked))
            .collect())
    }

    async fn lease_free(&self, queue: &QueueName, epoch: Epoch) -> Result<bool, StoreError> {
        let query = sqlx::query(FREE).bind(storable(queue.as_str())).bind(epoch.0);
        self.call("freeing a lease", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }

    async fn leases_held(&self, incarnation: IncarnationId) -> Result<Vec<HeldLease>, StoreError> {
        self.call("reading the leases held", async |connection: &mut PgConnection| {
            let rows = sqlx::query(HELD).bind(incarnation.0).fetch_all(connection).await?;
            rows.iter().map(held).collect()
        })
        .await
    }

    async fn queues_learn(&self, learned: &[LearnedQueue]) -> Result<(), StoreError> {
        self.transaction("learning queues", async |connection: &mut PgConnection, now| {
            learn(connection, learned, now).await
        })
        .await
    }

    async fn queue_get(&self, queue: &QueueName) -> Result<Option<QueueRecord>, StoreError> {
        self.call("reading a queue", async |connection: &mut PgConnection| {
            let query = sqlx::query(GET).bind(storable(queue.as_str()));
            let row = query.fetch_optional(connection).await?;
            row.as_ref().map(queue_record).transpose()
        })
        .await
    }

    async fn queue_urls(&self, queues: &[QueueName]) -> Result<Vec<QueueUrl>, StoreError> {
        let names: Vec<String> = queues.iter().map(|queue| storable(queue.as_str())).collect();
        self.call(
            "reading whose queues some are",
            async |connection: &mut PgConnection| {
                let rows = sqlx::query(URLS).bind(&names).fetch_all(connection).await?;
                rows.iter().map(queue_url).collect()
            },
        )
        .await
    }

    async fn queues_get(&self, queues: &[QueueName]) -> Result<Vec<QueueRecord>, StoreError> {
        let names: Vec<String> = queues.iter().map(|queue| storable(queue.as_str())).collect();
        self.records("reading queues", sqlx::query(GET_SOME).bind(names)).await
    }

    async fn queues_page(&self, query: &QueueQuery) -> Result<Vec<QueueRecord>, StoreError> {
        let after = query
            .after
            .as_ref()
            .map_or_else(String::new, |name| storable(name.as_str()));
        let statement = match &query.url {
            Some(url) => sqlx::query(PAGE_OF_URL)
                .bind(after)
                .bind(i64::from(query.limit))
                .bind(url.as_str()),
            None => sqlx::query(PAGE).bind(after).bind(i64::from(query.limit)),
        };
        self.records("listing queues", statement).await
    }

    async fn queues_due(&self, limit: u32) -> Result<Vec<QueueRecord>, StoreError> {
        let statement = sqlx::query(DUE).bind(i64::from(limit));
        self.records("listing due queues", statement).await
    }

    async fn queues_waiting(&self, limit: u32) -> Result<Vec<QueueRecord>, StoreError> {
        let statement = sqlx::query(WAITING).bind(i64::from(limit));
        self.records("listing waiting queues", statement).await
    }

    async fn queue_pause(&self, queue: &QueueName, pause: Option<NewPause>) -> Result<Option<QueueRecord>, StoreError> {
        let reason = pause
            .as_ref()
            .and_then(|pause| storable_optional(pause.reason.as_ref()));
        let statement = sqlx::query(PAUSE)
            .bind(storable(queue.as_str()))
            .bind(pause.as_ref().map(|pause| storable(&pause.by)))
            .bind(reason);
        Ok(self.records("pausing a queue", statement).await?.pop())
    }

    async fn queue_want(&self, queue: &QueueName, incarnation: IncarnationId) -> Result<(), StoreError> {
        self.wish("wanting a queue", WANT, (queue, incarnation)).await
    }

    async fn queue_unwant(&self, queue: &QueueName, incarnation: IncarnationId) -> Result<(), StoreError> {
        self.wish("wanting a queue no longer", UNWANT, (queue, incarnation))
            .await
    }

    async fn queue_mark(&self, queue: &QueueName, epoch: Epoch, mark: QueueMark) -> Result<bool, StoreError> {
        self.transaction("marking a queue", async |connection: &mut PgConnection, now| {
            set_mark(connection, (queue, epoch), &mark, now).await
        })
        .await
    }

    async fn heads_reset(&self, scope: &HeadScope) -> Result<Vec<QueueName>, StoreError> {
        self.transaction("resetting heads", async |connection: &mut PgConnection, _| {
            reset(connection, scope).await
        })
        .await
    }

    async fn queue_forget(&self, queue: &QueueName, epoch: Epoch) -> Result<bool, StoreError> {
        let query = sqlx::query(FORGET).bind(storable(queue.as_str())).bind(epoch.0);
        self.call("forgetting a queue", async |connection: &mut PgConnection| {
            Ok(query.execute(connection).await?.rows_affected() == 1)
        })
        .await
    }
}

impl PostgresStore {
    async fn wish(
        &self,
        operation: &'static str,
        statement: &'static str,
        (queue, incarnation): (&QueueName, IncarnationId),
    ) -> Result<(), StoreError> {
        let query = sqlx::query(statement)
            .bind(storable(queue.as_str()))
            .bind(incarnation.0);
        self.call(operation, async |connection: &mut PgConnection| {
            query.execute(connection).await.map(drop)
        })
        .await
    }

    async fn records(&self, operation: &'static str, statement: Statement<'_>) -> Result<Vec<QueueRecord>, StoreError> {
        self.call(operation, async |connection: &mut PgConnection| {
            let rows = statement.fetch_all(connection).await?;
            rows.iter().map(queue_record).collect()
        })
        .await
    }
}

/// Locks the queues of `url` that have a head, by name; answers their names.
///
/// Locking and changing are two statements everywhere here: the second one sees what the first one waited
/// for, where one statement would change what its older snapshot shows.
pub(super) async fn heads_lock(connection: &mut PgConnection, url: &EndpointUrl) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(HEADS_LOCK)
        .bind(url.as_str())
        .fetch_all(connection)
        .await
}

/// Resets the heads of `url` that were locked before, and those that nobody else is changing.
pub(super) async fn heads_reset(connection: &mut PgConnection, url: &EndpointUrl) -> Result<(), sqlx::Error> {
    let names: Vec<String> = sqlx::query_scalar(HEADS_LOCK_FREE)
        .bind(url.as_str())
        .fetch_all(&mut *connection)
        .await?;
    sqlx::query(HEADS_RESET).bind(names).execute(connection).await?;
    Ok(())
}

async fn reset(connection: &mut PgConnection, scope: &HeadScope) -> Result<Vec<QueueName>, sqlx::Error> {
    let rows = match scope {
        HeadScope::Queue(queue, epoch) => {
            let query = sqlx::query(HEAD_RESET).bind(storable(queue.as_str())).bind(epoch.0);
            query.fetch_all(connection).await?
        }
        HeadScope::Url(url) => {
            let names = heads_lock(connection, url).await?;
            sqlx::query(HEADS_RESET).bind(names).fetch_all(connection).await?
        }
    };
    rows.iter().map(|row| parsed(row, "name", QueueName::parse)).collect()
}

/// The outcome for each name, or `None` when the asking incarnation may not hold leases.
async fn take(
    connection: &mut PgConnection,
    incarnation: IncarnationId,
    purpose: Purpose,
    names: &[String],
    now: Timestamp,
) -> Result<Option<HashMap<String, LeaseOutcome>>, sqlx::Error> {
    let asker = sqlx::query(ASKER)
        .bind(incarnation.0)
        .fetch_optional(&mut *connection)
        .await?;
    if asker.is_none() {
        return Ok(None);
    }
    // The epoch's row is locked first: whoever takes leases at the same time waits here.
    let epoch: i64 = sqlx::query_scalar(EPOCH).fetch_one(&mut *connection).await?;
    sqlx::query(ROWS_MAKE)
        .bind(names)
        .bind(now.micros())
        .execute(&mut *connection)
        .await?;
    let rows = rows_lock(connection, names).await?;
    let found = rows.iter().map(queue_record).collect::<Result<Vec<_>, _>>()?;
    let lives = life(connection, &found).await?;
    let is_alive = |id: IncarnationId| lives.get(&id).is_some_and(|(_, alive)| *alive);
    let mut outcomes = HashMap::new();
    let mut free = Vec::new();
    for record in &found {
        match lease_refusal(record, incarnation, is_alive, purpose) {
            Some(refusal) => {
                outcomes.insert(record.name.as_str().to_owned(), refusal);
            }
            None => free.push(record.name.as_str().to_owned()),
        }
    }
    let former: HashMap<&QueueName, IncarnationId> = found
        .iter()
        .filter_map(|record| Some((&record.name, record.owner.filter(|owner| !is_alive(*owner))?)))
        .collect();
    for record in assign(connection, &free, (incarnation, Epoch(epoch))).await? {
        let taken_from = former.get(&record.name).and_then(|owner| lives.get(owner));
        let lease = Lease {
            epoch: record.epoch,
            due_in: due_in(&record, now),
            taken_from: taken_from.map(|(name, _)| name.clone()),
            endpoint: None,
            record,
        };
        outcomes.insert(
            lease.record.name.as_str().to_owned(),
            LeaseOutcome::Taken(Box::new(lease)),
        );
    }
    add_endpoints(connection, &mut outcomes).await?;
    Ok(Some(outcomes))
}

/// Locks the rows that can be locked; the others are left out when somebody holds them for longer than we do.
async fn rows_lock(connection: &mut PgConnection, names: &[String]) -> Result<Vec<PgRow>, sqlx::Error> {
    let free = sqlx::query(ROWS_LOCK_FREE)
        .bind(names)
        .fetch_all(&mut *connection)
        .await?;
    let asked: HashSet<&String> = names.iter().collect();
    if free.len() == asked.len() {
        return Ok(free);
    }
    let mut trying = connection.begin().await?;
    sqlx::raw_sql(LOCK_PATIENCE).execute(&mut *trying).await?;
    match sqlx::query(ROWS_LOCK).bind(names).fetch_all(&mut *trying).await {
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

fn is_lock_timeout(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| code == "55P03")
}

/// Name and life of every owner and of all who want to be, read after the rows are locked: nobody comes back to life.
async fn life(
    connection: &mut PgConnection,
    records: &[QueueRecord],
) -> Result<HashMap<IncarnationId, (String, bool)>, sqlx::Error> {
    let ids = records.iter().flat_map(|record| [record.owner, record.wanted_by]);
    let ids: Vec<i64> = ids.flatten().map(|id| id.0).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query(LIFE).bind(ids).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            Ok((
                IncarnationId(integer(row, "id")?),
                (text(row, "name")?, row.flag("alive")?),
            ))
        })
        .collect()
}

async fn assign(
    connection: &mut PgConnection,
    names: &[String],
    (incarnation, epoch): (IncarnationId, Epoch),
) -> Result<Vec<QueueRecord>, sqlx::Error> {
    let rows = sqlx::query(TAKE)
        .bind(names)
        .bind(incarnation.0)
        .bind(epoch.0)
        .fetch_all(connection)
        .await?;
    rows.iter().map(queue_record).collect()
}

async fn add_endpoints(
    connection: &mut PgConnection,
    outcomes: &mut HashMap<String, LeaseOutcome>,
) -> Result<(), sqlx::Error> {
    let leases: Vec<&mut Lease> = outcomes
        .values_mut()
        .filter_map(|outcome| match outcome {
            LeaseOutcome::Taken(lease) => Some(lease.as_mut()),
            LeaseOutcome::Held(_) | LeaseOutcome::Reserved(_) | LeaseOutcome::Locked | LeaseOutcome::Disowned => None,
        })
        .collect();
    let urls: Vec<EndpointUrl> = leases.iter().filter_map(|lease| lease.record.url.clone()).collect();
    let found: HashMap<EndpointUrl, Endpoint> = endpoints::get_all(connection, &urls)
        .await?
        .into_iter()
        .map(|endpoint| (endpoint.url.clone(), endpoint))
        .collect();
    for lease in leases {
        lease.endpoint = lease.record.url.as_ref().and_then(|url| found.get(url)).cloned();
    }
    Ok(())
}

async fn learn(connection: &mut PgConnection, learned: &[LearnedQueue], now: Timestamp) -> Result<(), sqlx::Error> {
    let names: Vec<String> = learned.iter().map(|queue| storable(queue.name.as_str())).collect();
    let executions: Vec<&str> = learned.iter().map(|queue| queue.execution.as_str()).collect();
    let urls: Vec<&str> = learned.iter().map(|queue| queue.url.as_str()).collect();
    sqlx::query(LEARN)
        .bind(names)
        .bind(executions)
        .bind(&urls)
        .bind(now.micros())
        .execute(&mut *connection)
        .await?;
    endpoints::make(connection, &urls, now).await
}

async fn set_mark(
    connection: &mut PgConnection,
    (queue, epoch): (&QueueName, Epoch),
    mark: &QueueMark,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let guarded = |statement: &'static str| sqlx::query(statement).bind(storable(queue.as_str())).bind(epoch.0);
    let reason = |reason: &Option<String>| storable_optional(reason.as_ref());
    let query = match mark {
        QueueMark::Closing(closing) => guarded(mark!("closing = $3")).bind(closing_text(*closing)),
        QueueMark::Refused(why) => guarded(mark!("refused = $3")).bind(reason(why)),
        QueueMark::Refusing(why) => guarded(mark!("refusing = $3")).bind(reason(why)),
        QueueMark::Quarantined(why) => guarded(mark!("quarantined = $3")).bind(reason(why)),
        QueueMark::Learned(learned) => guarded(mark!("execution = $3, url = $4"))
            .bind(learned.execution.as_str())
            .bind(learned.url.as_str()),
        QueueMark::Companion(exists) => guarded(mark!("has_companion = $3")).bind(*exists),
        QueueMark::HeadGone => guarded(mark!(head_cleared!())),
        QueueMark::Active => guarded(mark!("active_at = $3")).bind(now.micros()),
    };
    let marked = query.execute(&mut *connection).await?.rows_affected() == 1;
    if let (true, QueueMark::Learned(learned)) = (marked, mark) {
        endpoints::make(connection, &[learned.url.as_str()], now).await?;
    }
    Ok(marked)
}

fn held(row: &PgRow) -> Result<HeldLease, sqlx::Error> {
    Ok(HeldLease {
        queue: parsed(row, "name", QueueName::parse)?,
        epoch: Epoch(integer(row, "epoch")?),
        paused: row.flag("paused")?,
        wanted_by: row.integer("wanted_by_incarnation")?.map(IncarnationId),
    })
}
