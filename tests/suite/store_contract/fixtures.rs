//! A store of one's own, and short ways to say what a test is about.

use std::path::PathBuf;
use std::time::Duration;

use redrive::internals::ambient::{self, Clock};
use redrive::internals::domain::attempt::Attempt;
use redrive::internals::domain::endpoint::{Endpoint, EndpointChange};
use redrive::internals::domain::fingerprint::Fingerprint;
use redrive::internals::domain::id::{EndpointEpoch, Epoch, ExecutionId, IncarnationId, NotificationId, QueueName};
use redrive::internals::domain::message::Message;
use redrive::internals::domain::naming::{Naming, QueueType};
use redrive::internals::domain::outcome::OutcomeClass;
use redrive::internals::domain::policy::Phase;
use redrive::internals::domain::queue::{Head, QueueRecord};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::sqlite::SqliteFile;
use redrive::internals::store::postgres::PostgresStore;
use redrive::internals::store::sqlite::SqliteStore;
use redrive::internals::store::{
    Begun, Failure, FailureRecorded, HeadTerms, LearnedQueue, Lease, LeaseOutcome, NewIncarnation, ProcessMark,
    Purpose, Store, StoreError, Success,
};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;

use super::model;

/// What no tool reaches.
const IN_MEMORY: &str = "the model is in memory";

pub(super) const HOUR: Duration = Duration::from_hours(1);

/// A store with the place it is kept in.
pub(super) struct Place {
    pub(super) store: Box<dyn Store>,
    kept: Kept,
}

enum Kept {
    File(TempDir),
    Database {
        url: String,
        admin: String,
        name: String,
    },
    /// The model of simulated runs.
    Model(model::Database),
}

impl Place {
    pub(super) async fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = open_file(directory.path().join("redrive.db")).await.unwrap();
        Self {
            store,
            kept: Kept::File(directory),
        }
    }

    pub(super) async fn postgres() -> Self {
        let admin = std::env::var("REDRIVE_TEST_POSTGRES")
            .expect("REDRIVE_TEST_POSTGRES is not set: run the tests through tests/run, which starts a server");
        let name = format!("store_{}", ambient::new_id().replace('-', ""));
        administer(&admin, &format!("CREATE DATABASE {name}")).await;
        let (server, _) = admin.rsplit_once('/').unwrap();
        let url = format!("{server}/{name}");
        let store: Box<dyn Store> = Box::new(PostgresStore::connect(&url).await.unwrap());
        Self {
            store,
            kept: Kept::Database { url, admin, name },
        }
    }

    pub(super) fn model() -> Self {
        let database = model::Database::new(Clock::system());
        Self {
            store: Box::new(database.handle()),
            kept: Kept::Model(database),
        }
    }

    /// Another handle on the same store, with connections of its own, as another process has.
    pub(super) async fn another(&self) -> Result<Box<dyn Store>, StoreError> {
        match &self.kept {
            Kept::File(directory) => open_file(directory.path().join("redrive.db")).await,
            Kept::Database { url, .. } => Ok(Box::new(PostgresStore::connect(url).await?)),
            Kept::Model(database) => Ok(Box::new(database.handle())),
        }
    }

    /// Takes the store's tables away, as if nobody had been here before.
    pub(super) async fn wipe(&self) {
        match &self.kept {
            Kept::File(directory) => {
                self.store.close().await;
                for name in ["redrive.db", "redrive.db-wal", "redrive.db-shm"] {
                    let _ = std::fs::rename(
                        directory.path().join(name),
                        directory.path().join(format!("old-{name}")),
                    );
                }
            }
            Kept::Database { .. } => self.tamper("DROP SCHEMA redrive CASCADE").await.unwrap(),
            Kept::Model(_) => panic!("{IN_MEMORY}"),
        }
    }

    /// The address of the database; empty for a file.
    pub(super) fn url(&self) -> &str {
        match &self.kept {
            Kept::File(_) | Kept::Model(_) => "",
            Kept::Database { url, .. } => url,
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        match &self.kept {
            Kept::File(directory) => directory.path().join("redrive.db"),
            Kept::Database { .. } | Kept::Model(_) => PathBuf::new(),
        }
    }

    /// A statement past the store, as somebody with the database's own tools would. `TABLE.` before a
    /// table's name stands for the schema.
    pub(super) async fn tamper(&self, statement: &str) -> Result<(), sqlx::Error> {
        match &self.kept {
            Kept::File(directory) => {
                let path = directory.path().join("redrive.db");
                let mut connection = SqliteConnection::connect(&format!("sqlite://{}", path.display())).await?;
                let statement = statement.replace("TABLE.", "");
                sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
                connection.close().await
            }
            Kept::Database { url, .. } => {
                let mut connection = PgConnection::connect(url).await?;
                let statement = statement.replace("TABLE.", "redrive.");
                sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
                connection.close().await
            }
            Kept::Model(_) => panic!("{IN_MEMORY}"),
        }
    }

    /// A statement as in [`Place::tamper`], in a transaction that stays open.
    pub(super) async fn open_transaction(&self, statement: &str) -> OpenTransaction {
        match &self.kept {
            Kept::File(directory) => {
                let path = directory.path().join("redrive.db");
                let mut connection = SqliteConnection::connect(&format!("sqlite://{}", path.display()))
                    .await
                    .unwrap();
                let statement = format!("BEGIN IMMEDIATE; {}", statement.replace("TABLE.", ""));
                sqlx::raw_sql(AssertSqlSafe(statement))
                    .execute(&mut connection)
                    .await
                    .unwrap();
                OpenTransaction::Sqlite(connection)
            }
            Kept::Database { url, .. } => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                let statement = format!("BEGIN; {}", statement.replace("TABLE.", "redrive."));
                sqlx::raw_sql(AssertSqlSafe(statement))
                    .execute(&mut connection)
                    .await
                    .unwrap();
                OpenTransaction::Postgres(connection)
            }
            Kept::Model(_) => panic!("{IN_MEMORY}"),
        }
    }

    /// Until a session waits for a row of another one. A file has one writer: who writes it waits.
    pub(super) async fn somebody_waits(&self) {
        const WAITING: &str = "SELECT count(*) FROM pg_stat_activity \
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let Kept::Database { url, .. } = &self.kept else { return };
        let mut connection = PgConnection::connect(url).await.unwrap();
        for _ in 0..10_000 {
            let waiting: i64 = sqlx::query_scalar(WAITING).fetch_one(&mut connection).await.unwrap();
            if waiting > 0 {
                return;
            }
        }
        panic!("nobody waits");
    }

    pub(super) async fn end(self) {
        self.store.close().await;
        if let Kept::Database { admin, name, .. } = &self.kept {
            administer(admin, &format!("DROP DATABASE {name} WITH (FORCE)")).await;
        }
    }
}

/// A transaction of somebody else.
pub(super) enum OpenTransaction {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl OpenTransaction {
    pub(super) async fn commit(self) {
        match self {
            Self::Sqlite(mut connection) => drop(sqlx::raw_sql("COMMIT").execute(&mut connection).await.unwrap()),
            Self::Postgres(mut connection) => drop(sqlx::raw_sql("COMMIT").execute(&mut connection).await.unwrap()),
        }
    }
}

async fn open_file(path: PathBuf) -> Result<Box<dyn Store>, StoreError> {
    let file = SqliteFile::open(&path).await.unwrap();
    Ok(Box::new(SqliteStore::open(file, Clock::system()).await?))
}

async fn administer(url: &str, statement: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

pub(super) fn queue(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

pub(super) fn url(host: &str) -> EndpointUrl {
    EndpointUrl::parse(&format!("https://{host}.example/hook")).unwrap()
}

pub(super) fn message(id: &str) -> NotificationId {
    NotificationId::parse(id).unwrap()
}

pub(super) fn learned(name: &str, host: &str) -> LearnedQueue {
    LearnedQueue {
        name: queue(name),
        execution: ExecutionId::parse("order-7").unwrap(),
        url: url(host),
    }
}

/// Settings that have a name.
pub(super) fn settings(name: &str) -> Naming {
    Naming {
        prefix: format!("{name}."),
        vhost: "/".to_owned(),
        url_hash_key: "key".to_owned(),
        queue_type: QueueType::Classic,
    }
}

/// `with` names its settings.
pub(super) fn daemon(name: &str, with: Option<&str>) -> NewIncarnation {
    NewIncarnation {
        name: name.to_owned(),
        host: "host".to_owned(),
        pid: 7,
        process: ProcessMark {
            machine: Some("a boot".to_owned()),
            started: Some(4_711),
        },
        take_over: Duration::from_mins(1),
        deadline: Duration::from_secs(15),
        version: 1_000,
        naming: with.map(settings),
        replaces_settings: true,
    }
}

pub(super) async fn living(store: &dyn Store) -> IncarnationId {
    match store
        .incarnation_begin(daemon("daemon", Some("settings")))
        .await
        .unwrap()
    {
        Begun::Alive(id) => id,
        other => panic!("it should live: {other:?}"),
    }
}

pub(super) async fn take(store: &dyn Store, incarnation: IncarnationId, purpose: Purpose, name: &str) -> LeaseOutcome {
    let mut outcomes = store.leases_take(incarnation, purpose, &[queue(name)]).await.unwrap();
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

pub(super) async fn taken(store: &dyn Store, incarnation: IncarnationId, name: &str) -> Lease {
    match take(store, incarnation, Purpose::Deliver, name).await {
        LeaseOutcome::Taken(lease) => *lease,
        other => panic!("{name} should be taken: {other:?}"),
    }
}

/// A queue of `host` that a new incarnation holds.
pub(super) async fn held_queue(store: &dyn Store, name: &str, host: &str) -> Lease {
    store.queues_learn(&[learned(name, host)]).await.unwrap();
    let incarnation = living(store).await;
    taken(store, incarnation, name).await
}

pub(super) async fn record(store: &dyn Store, name: &str) -> QueueRecord {
    store
        .queue_get(&queue(name))
        .await
        .unwrap()
        .expect("the queue has a row")
}

pub(super) async fn endpoint(store: &dyn Store, host: &str) -> Endpoint {
    store
        .endpoint_get(&url(host))
        .await
        .unwrap()
        .expect("the endpoint has a row")
}

pub(super) fn attempt(lease: &Lease, host: &str, id: &str, class: OutcomeClass) -> Attempt {
    Attempt {
        message_id: message(id),
        queue: lease.record.name.clone(),
        url: url(host),
        number: 1,
        epoch: lease.epoch,
        started_at: Clock::system().now(),
        duration_ms: 12,
        class,
        status: Some(if class == OutcomeClass::Delivered { 204 } else { 500 }),
        error: (class != OutcomeClass::Delivered).then(|| "no luck".to_owned()),
        response: Some(vec![0, 255, b'x']),
        counted: true,
    }
}

/// Of the message with this id; another body has another one.
pub(super) fn fingerprint(id: &str) -> Fingerprint {
    fingerprint_of(id, "")
}

/// Of the message with this id and body.
pub(super) fn fingerprint_of(id: &str, body: &str) -> Fingerprint {
    Fingerprint::of(&Message {
        message_id: Some(id.to_owned()),
        body: body.as_bytes().to_vec().into(),
        ..Message::default()
    })
}

/// A failure that is the message's own: it waits for `delay` on its queue's schedule.
pub(super) fn failure(lease: &Lease, host: &str, id: &str, delay: Option<Duration>) -> Failure {
    Failure {
        attempt: attempt(lease, host, id, OutcomeClass::Failed),
        head: Head {
            message: message(id),
            fingerprint: Some(fingerprint(id)),
            failures: 1,
            first_failed_at: Timestamp::EPOCH,
            last_failed_at: Timestamp::EPOCH,
            last_status: Some(500),
            last_error: Some("no luck".to_owned()),
            next_attempt_at: None,
            parked: false,
            phase: Some(Phase::Backoff),
            attempts_allowed: 16,
        },
        delay,
        refusals_in_row: 0,
        endpoint: None,
        decision: None,
        terms: HeadTerms::default(),
        paced: None,
    }
}

/// A failure that closes the URL, with this message as the probe.
pub(super) fn closing_failure(lease: &Lease, host: &str, id: &str, delay: Duration) -> Failure {
    let epoch = lease
        .endpoint
        .as_ref()
        .map_or(EndpointEpoch(0), |endpoint| endpoint.epoch);
    Failure {
        endpoint: Some((
            epoch,
            EndpointChange::Close {
                queue: lease.record.name.clone(),
                message: message(id),
                attempts: 1,
                delay,
            },
        )),
        ..failure(lease, host, id, None)
    }
}

pub(super) async fn recorded(store: &dyn Store, failure: &Failure) -> Option<Endpoint> {
    match store.failure_record(failure).await.unwrap() {
        FailureRecorded::Recorded { endpoint, .. } => endpoint.map(|endpoint| *endpoint),
        FailureRecorded::Fenced => panic!("the lease should hold"),
    }
}

pub(super) fn success(lease: &Lease, host: &str, id: &str) -> Success {
    Success {
        attempt: attempt(lease, host, id, OutcomeClass::Delivered),
        settles_head: Some(fingerprint(id)),
        counted: 0,
    }
}

/// An epoch that nobody drew.
pub(super) fn stale(epoch: Epoch) -> Epoch {
    Epoch(epoch.0 - 1)
}
