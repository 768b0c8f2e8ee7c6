//! A stage: an engine over one pairing, a receiver, and what was published.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redrive::ambient::Clock;
use redrive::broker::BrokerHandle;
use redrive::broker::embedded::Embedded;
use redrive::broker::rabbitmq::{RabbitMq, RabbitSettings};
use redrive::delivery::SenderHandle;
use redrive::delivery::http::{HttpSender, SenderSettings};
use redrive::domain::egress::AddressRules;
use redrive::domain::id::{ExecutionId, QueueName};
use redrive::domain::naming::{Naming, QueueType};
use redrive::domain::policy::RetryPolicy;
use redrive::domain::url::EndpointUrl;
use redrive::engine::view::{EndpointView, QueueView};
use redrive::engine::{Access, Answer, Command, Done, Engine, EngineSettings, NewNotification, Query, Receipt};
use redrive::sqlite::SqliteFile;
use redrive::store::StoreHandle;
use redrive::store::postgres::PostgresStore;
use redrive::store::sqlite::SqliteStore;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::checker::{History, Publish};
use crate::support::receiver::Receiver;
use crate::support::servers::{Database, Vhost, scratch_directory};
use crate::support::wait::wait_until;

/// How long anything may take.
pub(crate) const BOUND: Duration = Duration::from_secs(30);

/// What a pairing stands on; dropped last.
enum Ground {
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
    ground: Ground,
}

fn settings(vhost: &str) -> EngineSettings {
    EngineSettings {
        naming: Naming {
            prefix: "redrive.".to_owned(),
            vhost: vhost.to_owned(),
            url_hash_key: "a test's key".to_owned(),
            queue_type: QueueType::Classic,
        },
        workers: 64,
        prefetch: 1,
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
        rates: HashMap::new(),
    }
}

impl Stage {
    pub(crate) async fn embedded() -> Self {
        Self::on(Ground::Embedded {
            directory: scratch_directory(),
        })
        .await
    }

    pub(crate) async fn rabbit_sqlite() -> Self {
        let vhost = Vhost::create().await;
        Self::on(Ground::RabbitSqlite {
            directory: scratch_directory(),
            vhost,
        })
        .await
    }

    pub(crate) async fn rabbit_postgres() -> Self {
        let vhost = Vhost::create().await;
        Self::on(Ground::RabbitPostgres {
            vhost,
            database: Database::create().await,
        })
        .await
    }

    async fn on(ground: Ground) -> Self {
        let settings = settings(ground.vhost());
        let (store, broker) = ground.open(&settings.naming).await;
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
        stage.history.prefetch = 1;
        stage.broker.prepare().await.unwrap();
        stage.start();
        stage
    }

    fn start(&mut self) {
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
        let receipt = self
            .engine
            .publish(NewNotification {
                id: None,
                execution: ExecutionId::parse(execution).unwrap(),
                url: self.url(path),
                headers: vec![("x-number".to_owned(), number.to_string())],
                content_type: Some("text/plain".to_owned()),
                body: Bytes::from(body.clone()),
                polling_time_s: None,
                restart_count: None,
            })
            .await
            .unwrap();
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
        match self.engine.query(Query::Endpoint(self.url(path))).await {
            Ok(Answer::Endpoint(view)) => Some(*view),
            _ => None,
        }
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
        match self.engine.query(Query::Queue(self.queue(execution, path))).await {
            Ok(Answer::Queue(view)) => Some(*view),
            _ => None,
        }
    }

    pub(crate) async fn queue_is(&self, execution: &str, path: &str, state: &str) -> QueueView {
        wait_until(&format!("the queue of {execution} to be {state}"), BOUND, async || {
            self.queue_view(execution, path)
                .await
                .filter(|view| view.state.is_some_and(|s| s.as_str() == state))
        })
        .await
    }

    pub(crate) async fn execute(&self, command: Command) -> Done {
        let plan = self.engine.plan(command).await.unwrap();
        let grant = Access::Operator.grant("tester", Some("a test".to_owned())).unwrap();
        self.engine.execute(&plan, &grant).await.unwrap()
    }

    /// Everything kept, in order, with no more repeats than faults allow.
    pub(crate) fn assert_kept(&mut self) {
        self.history.seen = self.receiver.seen();
        self.history.assert_kept();
    }
}

impl Ground {
    fn vhost(&self) -> &str {
        match self {
            Self::Embedded { .. } => "embedded",
            Self::RabbitSqlite { vhost, .. } | Self::RabbitPostgres { vhost, .. } => &vhost.name,
        }
    }

    async fn open(&self, naming: &Naming) -> (StoreHandle, BrokerHandle) {
        let clock = Clock::system();
        match self {
            Self::Embedded { directory } => {
                let file = SqliteFile::open(&directory.path().join("redrive.db")).await.unwrap();
                let store = SqliteStore::open(file.clone(), clock.clone()).await.unwrap();
                let broker = Embedded::open(file, naming.clone(), clock).await.unwrap();
                (Arc::new(store), broker)
            }
            Self::RabbitSqlite { directory, vhost } => {
                let file = SqliteFile::open(&directory.path().join("redrive.db")).await.unwrap();
                (
                    Arc::new(SqliteStore::open(file, clock.clone()).await.unwrap()),
                    rabbit(vhost, naming, clock),
                )
            }
            Self::RabbitPostgres { vhost, database } => (
                Arc::new(PostgresStore::connect(&database.url()).await.unwrap()),
                rabbit(vhost, naming, clock),
            ),
        }
    }
}

fn rabbit(vhost: &Vhost, naming: &Naming, clock: Clock) -> BrokerHandle {
    let management = crate::support::servers::variable("REDRIVE_TEST_MANAGEMENT");
    RabbitMq::connect(
        RabbitSettings::new(&vhost.amqp(), Some(&management), naming.clone()),
        clock,
    )
    .unwrap()
}

fn sender(settings: &EngineSettings) -> SenderHandle {
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
