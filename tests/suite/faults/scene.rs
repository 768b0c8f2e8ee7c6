//! A scene: a receiver, an installation of the program, a producer in this process, and the history.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use redrive::internals::ambient::Clock;
use redrive::internals::broker::embedded::Embedded;
use redrive::internals::broker::rabbitmq::{RabbitMq, RabbitSettings};
use redrive::internals::broker::{BrokerHandle, Look};
use redrive::internals::certificates::Certificates;
use redrive::internals::delivery::http::{HttpSender, SenderSettings};
use redrive::internals::domain::egress::AddressRules;
use redrive::internals::domain::id::{ExecutionId, NotificationId, QueueName};
use redrive::internals::domain::naming::{Naming, QueueType};
use redrive::internals::domain::policy::RetryPolicy;
use redrive::internals::domain::retention::Retention;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::engine::{Engine, EngineError, EngineSettings, NewNotification};
use redrive::internals::sqlite::SqliteFile;
use redrive::internals::store::StoreHandle;
use redrive::internals::store::postgres::PostgresStore;
use redrive::internals::store::sqlite::SqliteStore;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::checker::{History, Publish};
use crate::support::daemon::{Daemon, Installation};
use crate::support::receiver::Receiver;
use crate::support::servers::{Database, RabbitAddress, Vhost};
use crate::support::wait::wait_until;

/// How long anything may take, servers that start again included.
pub(crate) const BOUND: Duration = Duration::from_mins(2);

const HASH_KEY: &str = "a test's key";

/// Everything of one test; the servers' parts are dropped last.
pub(crate) struct Scene {
    pub(crate) receiver: Receiver,
    pub(crate) installation: Installation,
    producer: OnceCell<Producer>,
    /// Settled publishes, in their order.
    log: Arc<Mutex<Vec<Line>>>,
    store: StoreAt,
    queue_type: QueueType,
    pub(crate) vhost: Option<Vhost>,
    _database: Option<Database>,
}

/// One line of the producer's log.
struct Line {
    queue: String,
    id: String,
    body: Vec<u8>,
    publishes: u32,
}

/// Publishes, and looks at queues, beside the daemons.
struct Producer {
    engine: Engine,
    broker: BrokerHandle,
}

enum StoreAt {
    File,
    Postgres(String),
}

impl Scene {
    /// `RabbitMQ` and `PostgreSQL` that all tests share.
    pub(crate) async fn servers() -> Self {
        let database = Database::create().await;
        let url = database.url();
        Self::rabbit(&RabbitAddress::shared(), Some((url, Some(database)))).await
    }

    /// SQLite and the embedded broker.
    pub(crate) async fn embedded() -> Self {
        Self::over(Installation::embedded(), StoreAt::File, None, None).await
    }

    /// `RabbitMQ` at an address, and SQLite.
    pub(crate) async fn on_rabbit(node: &RabbitAddress) -> Self {
        Self::rabbit(node, None).await
    }

    /// The shared `RabbitMQ`, and the `PostgreSQL` database at a URL.
    pub(crate) async fn on_postgres(url: &str) -> Self {
        Self::rabbit(&RabbitAddress::shared(), Some((url.to_owned(), None))).await
    }

    /// `RabbitMQ` at an address, and the `PostgreSQL` database at a URL.
    #[allow(dead_code, reason = "the attack on real servers uses it")]
    pub(crate) async fn on_both(node: &RabbitAddress, url: &str) -> Self {
        Self::rabbit(node, Some((url.to_owned(), None))).await
    }

    async fn rabbit(node: &RabbitAddress, postgres: Option<(String, Option<Database>)>) -> Self {
        let vhost = node.vhost().await;
        let mut installation = Installation::on_rabbit(&vhost);
        let (store, database) = match postgres {
            None => (StoreAt::File, None),
            Some((url, database)) => {
                installation.set("store", "url", url.as_str());
                (StoreAt::Postgres(url), database)
            }
        };
        Self::over(installation, store, Some(vhost), database).await
    }

    async fn over(
        mut installation: Installation,
        store: StoreAt,
        vhost: Option<Vhost>,
        database: Option<Database>,
    ) -> Self {
        installation.set("broker", "url_hash_key", HASH_KEY);
        installation.set("delivery", "timeout_s", 5);
        installation.set("delivery", "take_over_s", 20);
        installation.set("delivery", "linger_s", 1);
        installation.set("delivery", "retry_policy", patient());
        Self {
            receiver: Receiver::start().await,
            installation,
            producer: OnceCell::new(),
            log: Arc::default(),
            store,
            queue_type: QueueType::Classic,
            vhost,
            _database: database,
        }
    }

    /// The same with quorum queues; before anything is started or published.
    pub(crate) fn with_quorum_queues(mut self) -> Self {
        self.queue_type = QueueType::Quorum;
        self.installation.set("broker", "queue_type", "quorum");
        self
    }

    /// Deadlines as short as they may be: silence of four of them is death.
    pub(crate) fn hasten(&mut self) {
        self.installation.set("delivery", "timeout_s", 1);
        self.installation.set("delivery", "take_over_s", 4);
    }

    /// The URL of the database.
    pub(crate) fn postgres(&self) -> &str {
        self.database().expect("this scene has a file")
    }

    /// The same, where there is one.
    pub(crate) fn database(&self) -> Option<&str> {
        match &self.store {
            StoreAt::Postgres(url) => Some(url),
            StoreAt::File => None,
        }
    }

    async fn producer(&self) -> &Producer {
        self.producer.get_or_init(async || self.open().await).await
    }

    async fn open(&self) -> Producer {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let clock = Clock::system();
        let naming = self.naming();
        let file = SqliteFile::open(&self.installation.path("store.db")).await.unwrap();
        let store: StoreHandle = match &self.store {
            StoreAt::File => Arc::new(SqliteStore::open(file.clone(), clock.clone()).await.unwrap()),
            StoreAt::Postgres(url) => Arc::new(PostgresStore::connect(url).await.unwrap()),
        };
        let broker = match &self.vhost {
            None => Embedded::open(file, naming.clone(), clock.clone()).await.unwrap(),
            Some(vhost) => {
                let settings = RabbitSettings::new(&vhost.amqp(), Some(&vhost.node.management), naming.clone());
                RabbitMq::connect(settings, clock.clone()).unwrap()
            }
        };
        broker.prepare().await.unwrap();
        let sender = SenderSettings {
            timeout: Duration::from_secs(5),
            response_snippet_bytes: 0,
            rules: AddressRules::default(),
            endpoints: HashMap::new(),
        };
        let sender = HttpSender::new(sender, clock.clone()).unwrap();
        let engine = Engine::new(store, Arc::clone(&broker), sender, publishes_only(&naming), clock);
        Producer { engine, broker }
    }

    pub(crate) fn naming(&self) -> Naming {
        Naming {
            prefix: "redrive.".to_owned(),
            vhost: self.vhost.as_ref().map_or("redrive", |vhost| &vhost.name).to_owned(),
            url_hash_key: HASH_KEY.to_owned(),
            queue_type: self.queue_type,
        }
    }

    pub(crate) fn url(&self, path: &str) -> EndpointUrl {
        EndpointUrl::parse(&self.receiver.url(path)).unwrap()
    }

    pub(crate) fn queue(&self, execution: &str, path: &str) -> QueueName {
        let execution = ExecutionId::parse(execution).unwrap();
        self.naming().delivery_queue(&execution, &self.url(path))
    }

    /// Publishes the next notification of (execution, path), again under the same id until it is confirmed.
    pub(crate) async fn publish(&self, execution: &str, path: &str, number: u32) {
        let producer = self.producer().await;
        let queue = self.queue(execution, path).as_str().to_owned();
        let id = format!("{execution}-{number}");
        let body = format!("{execution} {path} {number}").into_bytes();
        let new = NewNotification {
            id: Some(NotificationId::parse(&id).unwrap()),
            execution: ExecutionId::parse(execution).unwrap(),
            url: self.url(path),
            headers: Vec::new(),
            content_type: Some("text/plain".to_owned()),
            body: Bytes::from(body.clone()),
            polling_time_s: None,
            restart_count: None,
        };
        let mut publishes = 1;
        wait_until(format!("{id} to be confirmed"), BOUND, async || {
            match producer.engine.publish(new.clone()).await {
                Ok(_) => Some(()),
                Err(EngineError::Unconfirmed { .. }) => {
                    publishes += 1;
                    None
                }
                Err(error) => {
                    assert!(error.is_unreachable(), "{id}: {error:?}");
                    None
                }
            }
        })
        .await;
        self.log.lock().unwrap().push(Line {
            queue,
            id,
            body,
            publishes,
        });
    }

    /// Ends the queue of (execution, path): it is deleted once everything in it is delivered.
    #[allow(dead_code, reason = "the attack on real servers uses it")]
    pub(crate) async fn end_of(&self, execution: &str, path: &str) {
        let (producer, execution) = (self.producer().await, ExecutionId::parse(execution).unwrap());
        wait_until(format!("the end of {execution:?}"), BOUND, async || {
            producer.engine.end(execution.clone(), self.url(path)).await.ok()
        })
        .await;
    }

    /// `each` notifications to every queue of `executions`, all queues at once.
    pub(crate) async fn publish_all(&self, executions: &[(String, String)], each: u32) {
        join_all(executions.iter().map(async |(execution, path)| {
            for number in 1..=each {
                self.publish(execution, path, number).await;
            }
        }))
        .await;
    }

    /// Until that many notifications were answered with a 2xx.
    pub(crate) async fn delivered(&self, count: usize) {
        wait_until(format!("{count} deliveries"), BOUND, async || {
            (self.receiver.delivered() >= count).then_some(())
        })
        .await;
    }

    /// The broker's own count of what is ready in a queue.
    pub(crate) async fn ready(&self, queue: &QueueName) -> u64 {
        let producer = self.producer().await;
        wait_until("a look at a queue", BOUND, async || {
            match producer.broker.look(queue).await {
                Ok(Look::Missing) => Some(0),
                Ok(Look::Present { ready, .. }) => Some(ready),
                Err(_) => None,
            }
        })
        .await
    }

    /// Whether the broker has no such queue; an answer that does not say so counts as no.
    pub(crate) async fn is_missing(&self, queue: &QueueName) -> bool {
        matches!(self.producer().await.broker.look(queue).await, Ok(Look::Missing))
    }

    /// What `queue why --json` says.
    pub(crate) async fn why(&self, queue: &QueueName) -> Value {
        let outcome = self.installation.run(&["queue", "why", queue.as_str(), "--json"]).await;
        outcome.expect_code(0).json()
    }

    /// The history up to now.
    pub(crate) async fn history(&self, faults: u32) -> History {
        let mut history = History {
            faults_of_all: faults,
            prefetch: 1,
            seen: self.receiver.seen(),
            ..History::default()
        };
        let mut queues = Vec::new();
        for line in self.log.lock().unwrap().iter() {
            history.publish(&line.queue, &line.id, &line.body, Publish::Confirmed);
            if let Some(published) = history.published.last_mut() {
                published.publishes = line.publishes;
            }
            queues.push(QueueName::parse(&line.queue).unwrap());
        }
        queues.sort();
        queues.dedup();
        for queue in queues {
            history
                .depth
                .insert(queue.as_str().to_owned(), self.ready(&queue).await);
        }
        history
    }

    /// Everything published is delivered; the daemons stop in order; everything was kept, and the broker is
    /// empty.
    pub(crate) async fn finish(&self, daemons: &mut [&mut Daemon], faults: u32) {
        let history = self.end(daemons, faults).await;
        history.assert_kept();
    }

    /// Until nothing is ready in any queue that was published to: what a fault brings again is settled too.
    async fn drained(&self) {
        let mut names: Vec<String> = self.log.lock().unwrap().iter().map(|line| line.queue.clone()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let queue = QueueName::parse(&name).unwrap();
            wait_until(format!("{name} to be empty"), BOUND, async || {
                (self.ready(&queue).await == 0).then_some(())
            })
            .await;
        }
    }

    /// [`Scene::finish`] without the judgement.
    pub(crate) async fn end(&self, daemons: &mut [&mut Daemon], faults: u32) -> History {
        let published = self.log.lock().unwrap().len();
        self.delivered(published).await;
        self.drained().await;
        for daemon in daemons {
            assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
        }
        let dead = QueueName::parse(&self.naming().dead_letter_queue()).unwrap();
        assert_eq!(self.ready(&dead).await, 0, "dead letters");
        self.history(faults).await
    }
}

/// Retries for as long as any test takes, once a second.
pub(crate) fn patient() -> Value {
    json!({
        "retries_with_no_delay": 1, "minimum_delay_retries": 1, "minimum_delay": 1, "maximum_delay": 1,
        "maximum_delay_retries": 500, "backoff_retries": 0
    })
}

/// `count` executions spread over `paths` URLs.
pub(crate) fn executions(count: u32, paths: u32) -> Vec<(String, String)> {
    (0..count)
        .map(|n| (format!("run-{n}"), format!("/hook-{}", n % paths)))
        .collect()
}

/// Incarnations that a daemon has begun.
pub(crate) fn begun(daemon: &Daemon) -> usize {
    let log = daemon.log();
    let begins =
        |line: &&str| line.contains("delivering") && line.contains("incarnation") && !line.contains("no longer");
    log.lines().filter(begins).count()
}

fn publishes_only(naming: &Naming) -> EngineSettings {
    EngineSettings {
        memory: redrive::internals::budget::Budget::default(),
        naming: naming.clone(),
        workers: 1,
        slow_requests: 1,
        job_queue_ttl: redrive::internals::domain::job::JOB_QUEUE_TTL,
        dead_queues: Vec::new(),
        leftover_pattern: redrive::internals::engine::leftovers(),
        save_before_expiry: false,
        prefetch: 1,
        request_timeout: Duration::from_secs(5),
        linger: Duration::from_secs(1),
        in_flight_per_endpoint: 1,
        idle_queue_ttl: Duration::from_hours(1),
        retry_after_cap: Duration::from_hours(1),
        default_policy: RetryPolicy::default(),
        take_over: Duration::from_mins(1),
        drain: Duration::from_secs(1),
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
