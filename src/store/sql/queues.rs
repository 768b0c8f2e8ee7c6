//! Delivery-queue records and leases.
//!
//! Locking and changing are two statements everywhere here: the second one sees what the first one waited for, where
//! one statement would change what its older snapshot shows.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;

use super::{Calls, Driver, Row, Session, Statement, columns, endpoints, values};
use crate::domain::endpoint::{Endpoint, EndpointChange};
use crate::domain::id::{Epoch, IncarnationId, QueueName};
use crate::domain::queue::QueueRecord;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::store::columns::{
    Columns, closing_text, head_cleared, integer, number_optional, parsed, queue_columns, queue_record, queue_url,
    storable, text,
};
use crate::store::rules::{due_in, lease_refusal};
use crate::store::{
    HeadScope, HeldLease, LearnedQueue, Lease, LeaseOutcome, NewPause, Purpose, QueueMark, QueueQuery, QueueUrl,
    Queues, QueuesOnly, StoreError, postgres,
};

/// The asking incarnation is locked against being marked dead, the settings against being changed. Its row is locked
/// so that it can still beat: a heartbeat changes no key, and never waits for somebody who takes leases.
static ASKER: Statement = Statement::new(
    "SELECT i.id FROM redrive.incarnations AS i, redrive.settings AS s WHERE i.id = $1 AND i.alive \
     AND i.version >= s.minimum_version AND (i.fingerprint IS NULL OR i.fingerprint = s.fingerprint) \
     FOR KEY SHARE OF i FOR SHARE OF s",
);
static EPOCH: Statement = Statement::new(
    "UPDATE redrive.numbers SET value = GREATEST(value + 1, redrive.store_now() / 1000) \
     WHERE name = 'epoch' RETURNING value",
);
static ROWS_MAKE: Statement = Statement::new(
    "INSERT INTO redrive.delivery_queues (name, active_at, created_at) \
     SELECT DISTINCT asked COLLATE \"C\", $2::bigint, $2::bigint FROM unnest($1::text[]) AS a (asked) \
     WHERE TRUE ORDER BY 1 ON CONFLICT (name) DO NOTHING",
);
static LIFE: Statement = Statement::new("SELECT id, name, alive FROM redrive.incarnations WHERE id = ANY($1)");
static TAKE: Statement = Statement::new(concat!(
    "UPDATE redrive.delivery_queues SET owner = $2, epoch = $3, \
     wanted_by_incarnation = (SELECT i.id FROM redrive.incarnations AS i \
        WHERE i.id = wanted_by_incarnation AND i.alive AND i.id <> $2), \
     closing = CASE WHEN closing = 'closing' THEN 'ended' ELSE closing END WHERE name = ANY($1) RETURNING ",
    queue_columns!()
));
static FREE: Statement = Statement::new(
    "UPDATE redrive.delivery_queues SET owner = NULL WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL",
);
static HELD: Statement = Statement::new(
    "SELECT name, epoch, paused_by IS NOT NULL AS paused, (SELECT i.id FROM redrive.incarnations AS i \
        WHERE i.id = q.wanted_by_incarnation AND i.alive AND i.id <> q.owner) AS wanted_by_incarnation \
     FROM redrive.delivery_queues AS q WHERE owner = $1 ORDER BY name",
);
static LEARN: Statement = Statement::new(
    "INSERT INTO redrive.delivery_queues AS q (name, execution, url, active_at, created_at) \
     SELECT name, execution, url, $4::bigint, $4::bigint \
     FROM unnest($1::text[], $2::text[], $3::text[]) AS learned (name, execution, url) \
     WHERE TRUE ORDER BY name COLLATE \"C\" ON CONFLICT (name) DO UPDATE SET \
     execution = COALESCE(q.execution, excluded.execution), url = COALESCE(q.url, excluded.url), \
     active_at = excluded.active_at",
);
static GET: Statement = Statement::new(concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE name = $1"
));
static URLS: Statement = Statement::new(
    "SELECT q.name, q.url, e.last_success_at IS NOT NULL AS answered FROM redrive.delivery_queues AS q \
     LEFT JOIN redrive.endpoints AS e ON e.url_key = redrive.url_key(q.url) \
     WHERE q.name = ANY($1::text[]) AND q.url IS NOT NULL",
);
pub(in crate::store) static GET_SOME: Statement = Statement::new(concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE name = ANY($1)"
));
pub(super) static PAGE: Statement = Statement::new(concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE name > $1 ORDER BY name LIMIT $2"
));
static PAGE_OF_URL: Statement = Statement::new(concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE name > $1 AND redrive.url_key(url) = redrive.url_key($3) \
     ORDER BY name LIMIT $2"
));
/// Without an index of its own: asked for by a person, one at a time.
static PAGE_WITH_HEAD: Statement = Statement::new(concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE name > $1 AND head_message = $3 ORDER BY name LIMIT $2"
));
static PAGE_UNUSED: Statement = Statement::new(concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE name > $1 AND owner IS NULL AND head_message IS NULL AND active_at < $3 \
     ORDER BY name LIMIT $2"
));
/// What a crash left open comes first. A head or an end is due only where it could be tried: not while a person or
/// a refusal stops its queue, or while its URL is not available.
static DUE: Statement = Statement::new(concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues AS q WHERE (closing = 'closing' \
     OR (decision_id IS NOT NULL AND paused_by IS NULL) \
     OR ((head_next_attempt_at <= redrive.store_now() OR closing = 'ended' OR has_companion) \
         AND paused_by IS NULL AND refused IS NULL AND quarantined IS NULL \
         AND NOT EXISTS (SELECT 1 FROM redrive.endpoints AS e \
             WHERE e.url_key = redrive.url_key(q.url) AND e.state <> 'available'))) \
     AND NOT EXISTS (SELECT 1 FROM redrive.incarnations AS i WHERE i.id = q.owner AND i.alive) \
     ORDER BY COALESCE(head_next_attempt_at, 0), name LIMIT $1"
));
static WAITING: Statement = Statement::new(concat!(
    "SELECT ",
    queue_columns!(),
    " FROM redrive.delivery_queues WHERE head_next_attempt_at IS NOT NULL OR head_parked \
     ORDER BY head_parked, head_next_attempt_at, name LIMIT $1"
));
static PAUSE: Statement = Statement::new(concat!(
    "UPDATE redrive.delivery_queues SET paused_by = $2, paused_reason = $3, \
     paused_at = CASE WHEN $2::text IS NULL THEN NULL ELSE redrive.store_now() END WHERE name = $1 RETURNING ",
    queue_columns!()
));
static WANT: Statement = Statement::new(
    "UPDATE redrive.delivery_queues SET wanted_by_incarnation = $2 WHERE name = $1 \
     AND wanted_by_incarnation IS DISTINCT FROM $2 \
     AND NOT EXISTS (SELECT 1 FROM redrive.incarnations AS i WHERE i.id = wanted_by_incarnation AND i.alive)",
);
static UNWANT: Statement = Statement::new(
    "UPDATE redrive.delivery_queues SET wanted_by_incarnation = NULL WHERE name = $1 AND wanted_by_incarnation = $2",
);
static HEAD_RESET: Statement = Statement::new(concat!(
    "UPDATE redrive.delivery_queues SET refusals_in_row = 0, ",
    head_cleared!(),
    " WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL AND head_message IS NOT NULL RETURNING name"
));
static HEADS_LOCKED: Statement = Statement::new(
    "SELECT name FROM redrive.delivery_queues \
     WHERE redrive.url_key(url) = redrive.url_key($1) AND head_message IS NOT NULL ORDER BY name FOR UPDATE",
);
static HEADS_RESET: Statement = Statement::new(concat!(
    "UPDATE redrive.delivery_queues SET refusals_in_row = 0, ",
    head_cleared!(),
    " WHERE name = ANY($1) RETURNING name"
));
static REFUSALS_BEGIN: Statement =
    Statement::new("UPDATE redrive.delivery_queues SET refusals_in_row = 0 WHERE name = ANY($1)");
static REFUSAL_FORGET: Statement = Statement::new("DELETE FROM redrive.refused_queues WHERE queue = $1");
static REFUSALS_FORGET: Statement =
    Statement::new("DELETE FROM redrive.refused_queues WHERE url_key = redrive.url_key($1)");
/// Waits for nobody, as the endpoint is locked by then: who holds one of these rows now is about to find
/// the endpoint changed.
static HEADS_LOCKED_FREE: Statement = Statement::new(
    "SELECT name, head_last_status FROM redrive.delivery_queues \
     WHERE redrive.url_key(url) = redrive.url_key($1) AND head_message IS NOT NULL FOR UPDATE SKIP LOCKED",
);
static LOCK: Statement =
    Statement::new("SELECT 1 FROM redrive.delivery_queues WHERE name = ANY($1) ORDER BY name FOR UPDATE");
static FORGET: Statement = Statement::new(
    "DELETE FROM redrive.delivery_queues WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL AND NOT has_companion",
);

/// `$1` and `$2` are name and epoch, `$3` what is marked.
macro_rules! mark {
    ($($assignment:tt)*) => {{
        static MARK: Statement = Statement::new(concat!(
            "UPDATE redrive.delivery_queues SET ",
            $($assignment)*,
            " WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL"
        ));
        &MARK
    }};
}

#[async_trait]
impl<D: Driver> Queues for D {
    async fn leases_take(
        &self,
        incarnation: IncarnationId,
        purpose: Purpose,
        queues: &[QueueName],
    ) -> Result<Vec<LeaseOutcome>, StoreError> {
        if queues.is_empty() {
            return Ok(Vec::new());
        }
        let queues = queues.to_vec();
        self.transaction("taking leases", move |mut session, now| {
            Box::pin(async move {
                let names: Vec<String> = queues.iter().map(|queue| storable(queue.as_str())).collect();
                Ok(match take(&mut session, incarnation, purpose, &names, now).await? {
                    None => vec![LeaseOutcome::Disowned; names.len()],
                    Some(taken) => names
                        .iter()
                        .map(|name| taken.get(name).cloned().unwrap_or(LeaseOutcome::Locked))
                        .collect(),
                })
            })
        })
        .await
    }

    async fn lease_free(&self, queue: &QueueName, epoch: Epoch) -> Result<bool, StoreError> {
        Ok(self.change("freeing a lease", &FREE, values![queue, epoch]).await? == 1)
    }

    async fn leases_held(&self, incarnation: IncarnationId) -> Result<Vec<HeldLease>, StoreError> {
        self.list("reading the leases held", &HELD, values![incarnation], held)
            .await
    }

    async fn queues_learn(&self, learned: &[LearnedQueue]) -> Result<(), StoreError> {
        let learned = learned.to_vec();
        self.transaction("learning queues", move |mut session, now| {
            Box::pin(async move { learn(&mut session, &learned, now).await })
        })
        .await
    }

    async fn queue_get(&self, queue: &QueueName) -> Result<Option<QueueRecord>, StoreError> {
        self.find("reading a queue", &GET, values![queue], queue_record).await
    }

    async fn queue_urls(&self, queues: &[QueueName]) -> Result<Vec<QueueUrl>, StoreError> {
        let operation = "reading whose queues some are";
        self.list(operation, &URLS, values![queues.to_vec()], queue_url).await
    }

    async fn queues_get(&self, queues: &[QueueName]) -> Result<Vec<QueueRecord>, StoreError> {
        self.list("reading queues", &GET_SOME, values![queues.to_vec()], queue_record)
            .await
    }

    async fn queues_page(&self, query: &QueueQuery) -> Result<Vec<QueueRecord>, StoreError> {
        let mut values = values![query.after.as_ref().map_or("", QueueName::as_str), query.limit];
        let statement = match &query.only {
            QueuesOnly::All => &PAGE,
            QueuesOnly::OfUrl(url) => {
                values.extend(values![url]);
                &PAGE_OF_URL
            }
            QueuesOnly::WithHead(message) => {
                values.extend(values![message]);
                &PAGE_WITH_HEAD
            }
            QueuesOnly::UnusedSince(since) => {
                values.extend(values![*since]);
                &PAGE_UNUSED
            }
        };
        self.list("listing queues", statement, values, queue_record).await
    }

    async fn queues_due(&self, limit: u32) -> Result<Vec<QueueRecord>, StoreError> {
        self.list("listing due queues", &DUE, values![limit], queue_record)
            .await
    }

    async fn queues_waiting(&self, limit: u32) -> Result<Vec<QueueRecord>, StoreError> {
        self.list("listing waiting queues", &WAITING, values![limit], queue_record)
            .await
    }

    async fn queue_pause(&self, queue: &QueueName, pause: Option<NewPause>) -> Result<Option<QueueRecord>, StoreError> {
        let (by, reason) = pause.map_or((None, None), |pause| (Some(pause.by), pause.reason));
        let paused = self.changed("pausing a queue", &PAUSE, values![queue, by, reason], queue_record);
        Ok(paused.await?.pop())
    }

    async fn queue_want(&self, queue: &QueueName, incarnation: IncarnationId) -> Result<(), StoreError> {
        let wanted = self.change("wanting a queue", &WANT, values![queue, incarnation]);
        wanted.await.map(drop)
    }

    async fn queue_unwant(&self, queue: &QueueName, incarnation: IncarnationId) -> Result<(), StoreError> {
        let unwanted = self.change("wanting a queue no longer", &UNWANT, values![queue, incarnation]);
        unwanted.await.map(drop)
    }

    async fn queue_mark(&self, queue: &QueueName, epoch: Epoch, mark: QueueMark) -> Result<bool, StoreError> {
        let queue = queue.clone();
        self.transaction("marking a queue", move |mut session, now| {
            Box::pin(async move { set_mark(&mut session, (&queue, epoch), &mark, now).await })
        })
        .await
    }

    async fn heads_reset(&self, scope: &HeadScope) -> Result<Vec<QueueName>, StoreError> {
        let scope = scope.clone();
        self.transaction("resetting heads", move |mut session, _| {
            Box::pin(async move {
                match scope {
                    HeadScope::Queue(queue, epoch) => {
                        let reset = session.list(&HEAD_RESET, values![&queue, epoch], name).await?;
                        session.change(&REFUSAL_FORGET, values![queue]).await?;
                        Ok(reset)
                    }
                    HeadScope::Url(url) => {
                        let names = heads_lock(&mut session, &url).await?;
                        let reset = session.list(&HEADS_RESET, values![names], name).await?;
                        session.change(&REFUSALS_FORGET, values![url]).await?;
                        Ok(reset)
                    }
                }
            })
        })
        .await
    }

    async fn queue_forget(&self, queue: &QueueName, epoch: Epoch) -> Result<bool, StoreError> {
        Ok(self
            .change("forgetting a queue", &FORGET, values![queue, epoch])
            .await?
            == 1)
    }
}

fn name(row: &Row) -> Result<QueueName, sqlx::Error> {
    parsed(row, "name", QueueName::parse)
}

/// Locks queues, by name.
pub(super) async fn lock(session: &mut Session<'_>, names: Vec<QueueName>) -> Result<(), sqlx::Error> {
    session.lock(&LOCK, values![names]).await
}

/// Locks the queues of `url` that have a head, by name; answers their names.
pub(super) async fn heads_lock(session: &mut Session<'_>, url: &EndpointUrl) -> Result<Vec<QueueName>, sqlx::Error> {
    session.list(&HEADS_LOCKED, values![url], name).await
}

/// What opening `url` by `change` does to its heads that were locked before, and to those that nobody else is changing.
pub(super) async fn heads_opened(
    session: &mut Session<'_>,
    url: &EndpointUrl,
    change: &EndpointChange,
) -> Result<(), sqlx::Error> {
    let head = |row: &Row| Ok((name(row)?, number_optional(row, "head_last_status")?));
    let heads = session.list(&HEADS_LOCKED_FREE, values![url], head).await?;
    let (reset, kept): (Vec<_>, Vec<_>) = heads.into_iter().partition(|(_, status)| change.resets(*status));
    let names = |heads: Vec<(QueueName, _)>| heads.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    session.change(&HEADS_RESET, values![names(reset)]).await?;
    session.change(&REFUSALS_BEGIN, values![names(kept)]).await?;
    session.change(&REFUSALS_FORGET, values![url]).await.map(drop)
}

/// The outcome for each name, or `None` when the asking incarnation may not hold leases.
async fn take(
    session: &mut Session<'_>,
    incarnation: IncarnationId,
    purpose: Purpose,
    names: &[String],
    now: Timestamp,
) -> Result<Option<HashMap<String, LeaseOutcome>>, sqlx::Error> {
    if !session.has(&ASKER, values![incarnation]).await? {
        return Ok(None);
    }
    // The epoch's row is locked first: whoever takes leases at the same time waits here.
    let epoch = session.one(&EPOCH, values![], |row| integer(row, "value")).await?;
    session.change(&ROWS_MAKE, values![names.to_vec(), now]).await?;
    let found = rows_locked(session, names).await?;
    let lives = life(session, &found).await?;
    let is_alive = |id: IncarnationId| lives.get(&id).is_some_and(|(_, alive)| *alive);
    let mut outcomes = HashMap::new();
    let mut free = Vec::new();
    for record in &found {
        match lease_refusal(record, incarnation, is_alive, purpose) {
            Some(refusal) => {
                outcomes.insert(record.name.as_str().to_owned(), refusal);
            }
            None => free.push(record.name.clone()),
        }
    }
    let former: HashMap<&QueueName, IncarnationId> = found
        .iter()
        .filter_map(|record| Some((&record.name, record.owner.filter(|owner| !is_alive(*owner))?)))
        .collect();
    for record in session
        .list(&TAKE, values![free, incarnation, epoch], queue_record)
        .await?
    {
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
    add_endpoints(session, &mut outcomes).await?;
    Ok(Some(outcomes))
}

/// The rows, locked; without those that somebody else holds for longer than we wait.
async fn rows_locked(session: &mut Session<'_>, names: &[String]) -> Result<Vec<QueueRecord>, sqlx::Error> {
    match session {
        Session::Postgres(connection) => postgres::leases::rows_locked(connection, names).await,
        Session::Writer(..) | Session::Readers(..) => {
            session.list(&GET_SOME, values![names.to_vec()], queue_record).await
        }
    }
}

/// Name and life of every owner and of all who want to be, read after the rows are locked: nobody comes back to life.
async fn life(
    session: &mut Session<'_>,
    records: &[QueueRecord],
) -> Result<HashMap<IncarnationId, (String, bool)>, sqlx::Error> {
    let ids = records.iter().flat_map(|record| [record.owner, record.wanted_by]);
    let ids: Vec<IncarnationId> = ids.flatten().collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let life = |row: &Row| {
        let id = IncarnationId(integer(row, "id")?);
        Ok((id, (text(row, "name")?, row.flag("alive")?)))
    };
    Ok(session.list(&LIFE, values![ids], life).await?.into_iter().collect())
}

async fn add_endpoints(
    session: &mut Session<'_>,
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
    let found: HashMap<EndpointUrl, Endpoint> = endpoints::get_all(session, urls)
        .await?
        .into_iter()
        .map(|endpoint| (endpoint.url.clone(), endpoint))
        .collect();
    for lease in leases {
        lease.endpoint = lease.record.url.as_ref().and_then(|url| found.get(url)).cloned();
    }
    Ok(())
}

/// Of a queue that is there twice, the first.
async fn learn(session: &mut Session<'_>, learned: &[LearnedQueue], now: Timestamp) -> Result<(), sqlx::Error> {
    let mut names = HashSet::new();
    let is_new = |queue: &&LearnedQueue| names.insert(storable(queue.name.as_str()));
    let queues: Vec<_> = learned.iter().filter(is_new).collect();
    let queues = columns![queues => |queue| &queue.name, &queue.execution, &queue.url];
    session.change(&LEARN, values![queues, now]).await?;
    let urls = learned.iter().map(|queue| queue.url.clone());
    endpoints::make(session, urls.collect(), now).await
}

async fn set_mark(
    session: &mut Session<'_>,
    (queue, epoch): (&QueueName, Epoch),
    mark: &QueueMark,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let (statement, marked) = match mark {
        QueueMark::Closing(closing) => (mark!("closing = $3"), values![closing_text(*closing)]),
        QueueMark::Refused(why) => (mark!("refused = $3"), values![why]),
        QueueMark::Refusing(why) => (mark!("refusing = $3"), values![why]),
        QueueMark::Quarantined(why) => (mark!("quarantined = $3"), values![why]),
        QueueMark::Learned(learned) => (
            mark!("execution = $3, url = $4"),
            values![&learned.execution, &learned.url],
        ),
        QueueMark::Companion(exists) => (mark!("has_companion = $3"), values![*exists]),
        QueueMark::HeadGone => (mark!(head_cleared!()), values![]),
        QueueMark::Active => (mark!("active_at = $3"), values![now]),
    };
    let mut values = values![queue, epoch];
    values.extend(marked);
    let marked = session.change(statement, values).await? == 1;
    if let (true, QueueMark::Learned(learned)) = (marked, mark) {
        endpoints::make(session, vec![learned.url.clone()], now).await?;
    }
    Ok(marked)
}

fn held(row: &Row) -> Result<HeldLease, sqlx::Error> {
    Ok(HeldLease {
        queue: name(row)?,
        epoch: Epoch(integer(row, "epoch")?),
        paused: row.flag("paused")?,
        wanted_by: row.integer("wanted_by_incarnation")?.map(IncarnationId),
    })
}
