//! A stage: an engine over one pairing, a receiver, and what was published.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redrive::internals::ambient::Clock;
use redrive::internals::broker::BrokerHandle;
use redrive::internals::broker::embedded::Embedded;
use redrive::internals::broker::rabbitmq::{RabbitMq, RabbitSettings};
use redrive::internals::certificates::Certificates;
use redrive::internals::delivery::SenderHandle;
use redrive::internals::delivery::http::{HttpSender, SenderSettings};
use redrive::internals::domain::egress::AddressRules;
use redrive::internals::domain::id::{ExecutionId, QueueName};
use redrive::internals::domain::message::Message;
use redrive::internals::domain::naming::{Naming, QueueType};
use redrive::internals::domain::policy::RetryPolicy;
use redrive::internals::domain::retention::Retention;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::engine::query;
use redrive::internals::engine::view::{EndpointView, QueueView};
use redrive::internals::engine::{
    Access, Command, Done, Engine, EngineError, EngineSettings, NewNotification, Receipt,
};
use redrive::internals::sqlite::SqliteFile;
use redrive::internals::store::StoreHandle;
use redrive::internals::store::postgres::PostgresStore;
use redrive::internals::store::sqlite::SqliteStore;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::checker::{History, Publish};
use crate::support::faulty_store::FaultyStore;
use crate::support::receiver::Receiver;
use crate::support::servers::{Database, Vhost, scratch_directory};
use crate::support::wait::wait_until;

/// How long anything may take.
pub(crate) const BOUND: Duration = Duration::from_mins(2);

/// What a pairing stands on; dropped last.
pub(crate) enum Ground {
    Embedded { directory: TempDir },
    RabbitSqlite { directory: TempDir, vhost: Vhost },
    RabbitPostgres { vhost: Vhost, database: Database },
}

/// An engine at work.
pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) receiver: Receiver,
    pub(crate) history: History,
    pub(crate) settings: EngineSettings,
    pub(crate) broker: BrokerHandle,
    pub(crate) store: StoreHandle,
    stop: CancellationToken,
    running: Option<JoinHandle<()>>,
    numbers: HashMap<String, u32>,
    pub(crate) ground: Ground,
}

pub(crate) fn settings(vhost: &str) -> EngineSettings {
    EngineSettings {
        naming: Naming {
            prefix: "redrive.".to_owned(),
            vhost: vhost.to_owned(),
            url_hash_key: "a test's key".to_owned(),
            queue_type: QueueType::Classic,
        },
        workers: 64,
        slow_requests: 64,
        job_queue_ttl: redrive::internals::domain::job::JOB_QUEUE_TTL,
        dead_queues: Vec::new(),
        leftover_pattern: redrive::internals::engine::leftovers(),
        save_before_expiry: false,
        prefetch: 1,
        memory: redrive::internals::budget::Budget::default(),
        request_timeout: Duration::from_secs(2),
        linger: Duration::from_millis(500),
        in_flight_per_endpoint: 16,
        idle_queue_ttl: Duration::from_secs(3600),
        retry_after_cap: Duration::from_secs(3600),
        default_policy: RetryPolicy {
            retries_with_no_delay: 1,
            minimum_delay_retries: 1,
            minimum_delay_s: 1,
            maximum_delay_s: 1,
            maximum_delay_retries: 20,
            backoff_retries: Some(0),
            ..RetryPolicy::default()
        },
        take_over: Duration::from_secs(20),
        drain: Duration::from_secs(5),
        export_time: redrive::internals::engine::dead::EXPORT_TIME,
        discard_keep: Duration::from_hours(7 * 24),
        retention: Retention::default(),
        rates: HashMap::default(),
        events: redrive::internals::engine::events::EventSettings::default(),
        masks: std::sync::Arc::new(redrive::internals::domain::mask::MaskRules::usual()),
        alerts: Vec::new(),
        certificates: Certificates::default(),
    }
}

/// A notification with its number as a header.
pub(crate) fn notification(execution: &str, url: EndpointUrl, number: u32, body: &str) -> NewNotification {
    NewNotification {
        id: None,
        execution: ExecutionId::parse(execution).unwrap(),
        url,
        headers: vec![("x-number".to_owned(), number.to_string())],
        content_type: Some("text/plain".to_owned()),
        body: Bytes::from(body.to_owned()),
        polling_time_s: None,
        restart_count: None,
    }
}

impl Stage {
    pub(crate) async fn embedded() -> Self {
        Self::on(Ground::embedded(), |_| {}).await
    }

    pub(crate) async fn rabbit_sqlite() -> Self {
        Self::on(Ground::rabbit_sqlite().await, |_| {}).await
    }

    pub(crate) async fn rabbit_postgres() -> Self {
        Self::on(Ground::rabbit_postgres().await, |_| {}).await
    }

    /// On `ground`, with other settings than usual.
    pub(crate) async fn on(ground: Ground, change: impl FnOnce(&mut EngineSettings)) -> Self {
        let mut stage = Self::quiet(ground, change).await;
        stage.start();
        stage
    }

    /// Everything is there and ready, and nobody delivers.
    pub(crate) async fn quiet(ground: Ground, change: impl FnOnce(&mut EngineSettings)) -> Self {
        Self::quiet_over(ground, change, |store| store).await
    }

    /// [`Stage::quiet`], with a store that fails as its test says.
    pub(crate) async fn quiet_over_faults(
        ground: Ground,
        change: impl FnOnce(&mut EngineSettings),
    ) -> (Self, Arc<FaultyStore>) {
        let mut made = None;
        let stage = Self::quiet_over(ground, change, |store| {
            let faulty = Arc::new(FaultyStore::over(store));
            made = Some(Arc::clone(&faulty));
            faulty
        })
        .await;
        (stage, made.unwrap())
    }

    /// [`Stage::quiet`], with something between the engine and its store.
    pub(crate) async fn quiet_over(
        ground: Ground,
        change: impl FnOnce(&mut EngineSettings),
        between: impl FnOnce(StoreHandle) -> StoreHandle,
    ) -> Self {
        let mut settings = settings(ground.vhost());
        change(&mut settings);
        let (store, broker) = ground.open(&settings.naming).await;
        let store = between(store);
        let mut stage = Self {
            engine: Engine::new(
                Arc::clone(&store),
                Arc::clone(&broker),
                sender(&settings),
                settings.clone(),
                Clock::system(),
            ),
            receiver: Receiver::start().await,
            history: History::default(),
            settings,
            broker,
            store,
            stop: CancellationToken::new(),
            running: None,
            numbers: HashMap::new(),
            ground,
        };
        stage.history.prefetch = u32::from(stage.settings.prefetch);
        stage.broker.prepare().await.unwrap();
        stage
    }

    /// Begins to deliver.
    pub(crate) fn start(&mut self) {
        let (engine, stop) = (self.engine.clone(), self.stop.clone());
        self.running = Some(tokio::spawn(async move { engine.run(stop).await.unwrap() }));
    }

    /// Stops in order.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        if let Some(running) = self.running.take() {
            running.await.unwrap();
        }
        self.engine.close().await;
    }

    /// Stops in order and starts anew on the same ground, with other settings if wanted.
    pub(crate) async fn restart(&mut self, change: impl FnOnce(&mut EngineSettings)) {
        self.stop().await;
        change(&mut self.settings);
        let (store, broker) = self.ground.open(&self.settings.naming).await;
        (self.store, self.broker) = (Arc::clone(&store), Arc::clone(&broker));
        self.stop = CancellationToken::new();
        self.engine = Engine::new(
            store,
            broker,
            sender(&self.settings),
            self.settings.clone(),
            Clock::system(),
        );
        self.start();
    }

    /// Runs statements on the store as somebody with the right to it could; `TABLE.` stands before each table.
    pub(crate) async fn tamper(&self, statements: &str) {
        self.ground.place().tamper(statements).await;
    }

    /// What a query of one number answers from the file of store and embedded broker.
    pub(crate) async fn count(&self, query: &'static str) -> i64 {
        self.ground.place().count(query).await
    }

    pub(crate) fn url(&self, path: &str) -> EndpointUrl {
        EndpointUrl::parse(&self.receiver.url(path)).unwrap()
    }

    pub(crate) fn queue(&self, execution: &str, path: &str) -> QueueName {
        let execution = ExecutionId::parse(execution).unwrap();
        self.settings.naming.delivery_queue(&execution, &self.url(path))
    }

    /// Publishes the next notification of (execution, path) and notes it.
    pub(crate) async fn publish(&mut self, execution: &str, path: &str) -> Receipt {
        let queue = self.queue(execution, path);
        let counted = self.numbers.entry(queue.as_str().to_owned()).or_insert(0);
        *counted += 1;
        let number = *counted;
        let body = format!("{execution} {path} {number}");
        let new = notification(execution, self.url(path), number, &body);
        let receipt = self.engine.publish(new).await.unwrap();
        self.history
            .publish(queue.as_str(), receipt.id.as_str(), body.as_bytes(), Publish::Confirmed);
        receipt
    }

    pub(crate) async fn publish_many(&mut self, execution: &str, path: &str, count: u32) {
        for _ in 0..count {
            self.publish(execution, path).await;
        }
    }

    /// Waits until that many notifications were answered with a 2xx.
    pub(crate) async fn delivered(&self, count: usize) {
        wait_until(&format!("{count} deliveries"), BOUND, async || {
            (self.receiver.delivered() >= count).then_some(())
        })
        .await;
    }

    pub(crate) async fn endpoint(&self, path: &str) -> Option<EndpointView> {
        self.engine.query(query::Endpoint(self.url(path))).await.ok()
    }

    pub(crate) async fn endpoint_is(&self, path: &str, state: &str) -> EndpointView {
        wait_until(&format!("{path} to be {state}"), BOUND, async || {
            self.endpoint(path)
                .await
                .filter(|view| view.endpoint.state.as_str() == state)
        })
        .await
    }

    pub(crate) async fn queue_view(&self, execution: &str, path: &str) -> Option<QueueView> {
        self.engine.query(query::Queue(self.queue(execution, path))).await.ok()
    }

    pub(crate) async fn queue_is(&self, execution: &str, path: &str, state: &str) -> QueueView {
        wait_until(&format!("the queue of {execution} to be {state}"), BOUND, async || {
            self.queue_view(execution, path)
                .await
                .filter(|view| view.state.is_some_and(|s| s.as_str() == state))
        })
        .await
    }

    /// Planned again where what it was made for moves meanwhile, as an operator would.
    pub(crate) async fn execute(&self, command: Command) -> Done {
        let grant = Access::Operator.grant("tester", Some("a test".to_owned())).unwrap();
        for _ in 0..5 {
            let plan = self.engine.plan(command.clone()).await.unwrap();
            match self.engine.execute(&plan, &grant).await {
                Err(EngineError::Refused { why }) if why.contains("plan is stale") => {}
                done => return done.unwrap(),
            }
        }
        panic!("what {command:?} was planned for moves all the time");
    }

    /// The dead-letter queue, once it has that many.
    pub(crate) async fn dead_letters(&self, count: usize) -> Vec<Message> {
        let queue = QueueName::parse(&self.settings.naming.dead_letter_queue()).unwrap();
        wait_until(&format!("{count} dead letters"), BOUND, async || {
            let seen = self.broker.browse(&queue, 100).await.unwrap();
            (seen.len() >= count).then(|| seen.into_iter().map(|one| one.message).collect())
        })
        .await
    }

    /// Everything kept, in order, with no more repeats than faults allow.
    pub(crate) fn assert_kept(&mut self) {
        self.history.seen = self.receiver.seen();
        self.history.assert_kept();
    }
}

impl Ground {
    pub(crate) fn embedded() -> Self {
        Self::Embedded {
            directory: scratch_directory(),
        }
    }

    pub(crate) async fn rabbit_sqlite() -> Self {
        Self::RabbitSqlite {
            directory: scratch_directory(),
            vhost: Vhost::create().await,
        }
    }

    /// With a login that may not go where the broker tells of events.
    pub(crate) async fn rabbit_sqlite_without_events() -> Self {
        Self::RabbitSqlite {
            directory: scratch_directory(),
            vhost: Vhost::create().await.for_its_own_user().await,
        }
    }

    pub(crate) async fn rabbit_postgres() -> Self {
        Self::RabbitPostgres {
            vhost: Vhost::create().await,
            database: Database::create().await,
        }
    }

    fn vhost(&self) -> &str {
        match self {
            Self::Embedded { .. } => "embedded",
            Self::RabbitSqlite { vhost, .. } | Self::RabbitPostgres { vhost, .. } => &vhost.name,
        }
    }

    /// The virtual host on RabbitMQ.
    pub(crate) fn rabbit(&self) -> &Vhost {
        match self {
            Self::Embedded { .. } => panic!("the embedded broker has no virtual host"),
            Self::RabbitSqlite { vhost, .. } | Self::RabbitPostgres { vhost, .. } => vhost,
        }
    }

    /// Where the file is.
    pub(crate) fn directory(&self) -> &Path {
        match self {
            Self::Embedded { directory } | Self::RabbitSqlite { directory, .. } => directory.path(),
            Self::RabbitPostgres { .. } => panic!("a server has no file"),
        }
    }

    /// Where everything is, so that another process could be started on it.
    pub(crate) fn place(&self) -> Place {
        let file = |directory: &TempDir| directory.path().join("redrive.db");
        match self {
            Self::Embedded { directory } => Place {
                file: Some(file(directory)),
                postgres: None,
                rabbit: None,
            },
            Self::RabbitSqlite { directory, vhost } => Place {
                file: Some(file(directory)),
                postgres: None,
                rabbit: Some((vhost.amqp(), vhost.node.management.clone())),
            },
            Self::RabbitPostgres { vhost, database } => Place {
                file: None,
                postgres: Some(database.url()),
                rabbit: Some((vhost.amqp(), vhost.node.management.clone())),
            },
        }
    }

    async fn open(&self, naming: &Naming) -> (StoreHandle, BrokerHandle) {
        self.place().open(naming).await
    }
}

/// Where store and broker are.
#[derive(Clone)]
pub(crate) struct Place {
    file: Option<PathBuf>,
    pub(crate) postgres: Option<String>,
    rabbit: Option<(String, String)>,
}

impl Place {
    pub(crate) async fn open(&self, naming: &Naming) -> (StoreHandle, BrokerHandle) {
        let clock = Clock::system();
        let file = match &self.file {
            Some(path) => Some(SqliteFile::open(path).await.unwrap()),
            None => None,
        };
        let store: StoreHandle = match (&self.postgres, &file) {
            (Some(url), _) => Arc::new(PostgresStore::connect(url).await.unwrap()),
            (None, Some(file)) => Arc::new(SqliteStore::open(file.clone(), clock.clone()).await.unwrap()),
            (None, None) => unreachable!("every ground has a store"),
        };
        let broker = match (self.rabbit_settings(naming), file) {
            (Some(settings), _) => RabbitMq::connect(settings, clock).unwrap(),
            (None, Some(file)) => Embedded::open(file, naming.clone(), clock).await.unwrap(),
            (None, None) => unreachable!("every ground has a broker"),
        };
        (store, broker)
    }

    async fn tamper(&self, statements: &str) {
        if let Some(url) = &self.postgres {
            let statements = AssertSqlSafe(statements.replace("TABLE.", "redrive."));
            let mut connection = PgConnection::connect(url).await.unwrap();
            sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        } else {
            let statements = AssertSqlSafe(statements.replace("TABLE.", ""));
            let mut connection = self.file().await;
            sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        }
    }

    async fn count(&self, query: &'static str) -> i64 {
        let mut connection = self.file().await;
        let count = sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        count
    }

    async fn file(&self) -> SqliteConnection {
        let path = self.file.as_ref().expect("a file");
        SqliteConnection::connect(&format!("sqlite://{}", path.display()))
            .await
            .unwrap()
    }

    pub(crate) fn rabbit_settings(&self, naming: &Naming) -> Option<RabbitSettings> {
        let (amqp, management) = self.rabbit.as_ref()?;
        Some(RabbitSettings::new(amqp, Some(management), naming.clone()))
    }
}

pub(crate) fn sender(settings: &EngineSettings) -> SenderHandle {
    let _ = rustls::crypto::ring::default_provider().install_default();
    HttpSender::new(
        SenderSettings {
            timeout: settings.request_timeout,
            response_snippet_bytes: 2048,
            rules: AddressRules {
                allow: vec!["127.0.0.0/8".parse().unwrap()],
                ..AddressRules::default()
            },
            endpoints: HashMap::new(),
        },
        Clock::system(),
    )
    .unwrap()
}
