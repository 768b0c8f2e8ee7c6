//! What both sides of a measurement stand on: a virtual host, a store, delivery queues, and what fills them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use redrive::internals::ambient::Clock;
use redrive::internals::broker::rabbitmq::{RabbitMq, RabbitSettings};
use redrive::internals::broker::{BrokerHandle, Look};
use redrive::internals::certificates::Certificates;
use redrive::internals::domain::id::{ExecutionId, NotificationId, QueueName};
use redrive::internals::domain::message::{HeaderValue, Message};
use redrive::internals::domain::naming::{Naming, QueueType};
use redrive::internals::domain::notification::Notification;
use redrive::internals::domain::policy::RetryPolicy;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::engine::{EngineError, EngineSettings};
use redrive::internals::sqlite::SqliteFile;
use redrive::internals::store::postgres::PostgresStore;
use redrive::internals::store::sqlite::SqliteStore;
use redrive::internals::store::{LearnedQueue, StoreHandle};
use tokio::task::{JoinHandle, JoinSet};

use crate::support::servers::{Vhost, variable};

/// Bytes of a body.
pub const BODY_BYTES: usize = 512;

/// A delivery queue with where it goes.
#[derive(Clone, Debug)]
pub struct Queue {
    pub name: QueueName,
    pub execution: ExecutionId,
    pub url: EndpointUrl,
}

impl Queue {
    pub fn new(naming: &Naming, execution: &str, url: &str) -> Self {
        let (execution, url) = (ExecutionId::parse(execution).unwrap(), EndpointUrl::parse(url).unwrap());
        Self {
            name: naming.delivery_queue(&execution, &url),
            execution,
            url,
        }
    }

    /// A notification with a body that begins with the time of day.
    pub fn message(&self) -> Message {
        let mut body = format!("t={} ", crate::receiver::time_us()).into_bytes();
        body.resize(BODY_BYTES, b'x');
        let notification = Notification {
            id: NotificationId::parse(&redrive::internals::ambient::new_id()).unwrap(),
            execution: self.execution.clone(),
            url: self.url.clone(),
            headers: Vec::new(),
            content_type: Some("text/plain".to_owned()),
            body: Bytes::from(body),
            polling_time_s: None,
            restart_count: None,
            created_at: Some(Clock::system().now()),
            event_type: None,
            subscription: None,
        };
        notification.to_message()
    }
}

/// Where a store is: the path of a SQLite file, or a PostgreSQL URL.
pub async fn open_store(address: &str) -> StoreHandle {
    if address.starts_with("postgres") {
        return Arc::new(PostgresStore::connect(address).await.unwrap());
    }
    let file = SqliteFile::open(std::path::Path::new(address)).await.unwrap();
    Arc::new(SqliteStore::open(file, Clock::system()).await.unwrap())
}

pub fn naming(vhost: &str) -> Naming {
    Naming {
        prefix: "redrive.".to_owned(),
        vhost: vhost.to_owned(),
        url_hash_key: "a measurement's key".to_owned(),
        queue_type: QueueType::Classic,
    }
}

pub fn broker(naming: &Naming) -> BrokerHandle {
    let management = variable("REDRIVE_TEST_MANAGEMENT");
    let settings = RabbitSettings::new(&variable("REDRIVE_TEST_AMQP"), Some(&management), naming.clone());
    RabbitMq::connect(settings, Clock::system()).unwrap()
}

/// Does `work` while an engine runs; one that ends meanwhile has failed, and nothing waits for it.
pub async fn beside<T>(running: &mut JoinHandle<Result<(), EngineError>>, work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = work => done,
        ended = running => panic!("the engine ended: {ended:?}"),
    }
}

/// The defaults of the configuration.
pub fn engine_settings(naming: Naming, prefetch: u16) -> EngineSettings {
    EngineSettings {
        naming,
        workers: 512,
        slow_requests: 512,
        prefetch,
        memory: redrive::internals::budget::Budget::default(),
        request_timeout: Duration::from_secs(15),
        linger: Duration::from_secs(5),
        in_flight_per_endpoint: 16,
        idle_queue_ttl: Duration::from_hours(168),
        job_queue_ttl: redrive::internals::domain::job::JOB_QUEUE_TTL,
        retry_after_cap: Duration::from_secs(3600),
        default_policy: RetryPolicy::default(),
        take_over: Duration::from_secs(60),
        drain: Duration::from_secs(20),
        export_time: redrive::internals::engine::dead::EXPORT_TIME,
        discard_keep: Duration::from_hours(168),
        retention: redrive::internals::domain::retention::Retention::default(),
        rates: std::collections::HashMap::default(),
        events: redrive::internals::engine::events::EventSettings::default(),
        masks: std::sync::Arc::new(redrive::internals::domain::mask::MaskRules::usual()),
        alerts: Vec::new(),
        certificates: Certificates::default(),
        dead_queues: Vec::new(),
        leftover_pattern: redrive::internals::engine::leftovers(),
        save_before_expiry: false,
    }
}

/// A virtual host with its broker handle.
pub struct Ground {
    pub vhost: Vhost,
    pub naming: Naming,
    pub broker: BrokerHandle,
}

/// From so many queues on, a broker needs more of the machine's memory than the share at which it stops its publishers.
const MANY: usize = 10_000;

impl Ground {
    /// For so many queues.
    pub async fn prepare_for(queues: usize) -> Self {
        let ground = Self::prepare().await;
        if queues > MANY {
            let share = ["set_vm_memory_high_watermark", "0.85"];
            ground.vhost.node.control(&share).await;
        }
        ground
    }

    pub async fn prepare() -> Self {
        let vhost = Vhost::create().await;
        let naming = naming(&vhost.name);
        let broker = broker(&naming);
        broker.prepare().await.unwrap();
        Self { vhost, naming, broker }
    }

    /// So many delivery queues, each of an execution of its own; none is made yet.
    pub fn queues(&self, count: usize, url: impl Fn(usize) -> String) -> Vec<Queue> {
        let queue = |n: usize| Queue::new(&self.naming, &format!("run-{n}"), &url(n));
        (0..count).map(queue).collect()
    }

    /// Makes the queues, and their rows in each store, as a publisher would have done.
    pub async fn create(&self, queues: &[Queue], stores: &[&str]) {
        let mut tasks = JoinSet::new();
        for part in queues.chunks(queues.len().div_ceil(32)) {
            let (broker, part) = (Arc::clone(&self.broker), part.to_vec());
            tasks.spawn(async move {
                for queue in part {
                    broker.create(&queue.name).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        for address in stores {
            let store = open_store(address).await;
            for part in queues.chunks(500) {
                let learned = |queue: &Queue| LearnedQueue {
                    name: queue.name.clone(),
                    execution: queue.execution.clone(),
                    url: queue.url.clone(),
                };
                store
                    .queues_learn(&part.iter().map(learned).collect::<Vec<_>>())
                    .await
                    .unwrap();
            }
            store.close().await;
        }
    }

    /// Puts `count` messages into each queue, confirmed.
    pub async fn fill(&self, queues: &[Queue], count: usize) {
        let connection = Connection::connect(&self.vhost.amqp(), ConnectionProperties::default())
            .await
            .unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let exchange = self.naming.exchange();
        for _ in 0..count {
            for part in queues.chunks(1000) {
                let mut confirms = Vec::new();
                for queue in part {
                    let message = queue.message();
                    let sent = channel.basic_publish(
                        exchange.as_str().into(),
                        queue.name.as_str().into(),
                        BasicPublishOptions::default(),
                        &message.body,
                        properties(&message),
                    );
                    confirms.push(sent.await.unwrap());
                }
                if confirms.len() > 1 {
                    for confirm in confirms {
                        assert!(confirm.await.unwrap().is_ack());
                    }
                }
            }
        }
        channel.wait_for_confirms().await.unwrap();
        connection.close(200, "filled".into()).await.unwrap();
    }

    pub async fn nudge(&self, queues: &[Queue]) {
        for queue in queues {
            self.broker.nudge(&queue.name).await;
        }
    }

    /// Nothing is left: everything was acked.
    pub async fn assert_empty(&self, queues: &[Queue]) {
        for queue in queues {
            let look = self.broker.look(&queue.name).await.unwrap();
            assert!(matches!(look, Look::Present { ready: 0, .. }), "{look:?}");
        }
    }
}

fn properties(message: &Message) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in &message.headers {
        if let HeaderValue::Text(text) = value {
            headers.insert(
                name.as_str().into(),
                AMQPValue::LongString(LongString::from(text.to_vec())),
            );
        }
    }
    BasicProperties::default()
        .with_delivery_mode(2)
        .with_content_type("text/plain".into())
        .with_message_id(message.message_id.clone().unwrap().into())
        .with_type("notification".into())
        .with_headers(headers)
}
