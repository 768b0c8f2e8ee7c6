//! A scene for runs: foreign queues of one vhost, filled with real dead letters, beside an installation.

use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{
    BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicNackOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};
use serde_json::Value;

use crate::support::daemon::{Installation, Outcome};
use crate::support::servers::{Database, RabbitAddress, Vhost};
use crate::support::wait::wait_until;

pub(crate) const BOUND: Duration = Duration::from_mins(2);
/// Where messages die.
pub(crate) const ORIGIN: &str = "orders";
/// Where they go then.
pub(crate) const DEAD: &str = "orders.dead";

/// What a run says of itself.
pub(crate) fn assert_run(run: &Value, state: &str, done: u64) {
    assert_eq!((&run["state"], &run["done"]), (&state.into(), &done.into()), "{run}");
}

pub(crate) struct Scene {
    pub(crate) installation: Installation,
    pub(crate) vhost: Vhost,
    quorum: bool,
    _database: Option<Database>,
}

impl Scene {
    /// The shared broker, and SQLite.
    pub(crate) async fn sqlite() -> Self {
        Self::on(&RabbitAddress::shared()).await
    }

    /// A broker of its own, and SQLite.
    pub(crate) async fn on(node: &RabbitAddress) -> Self {
        let vhost = node.vhost().await;
        Self {
            installation: Installation::on_rabbit(&vhost),
            vhost,
            quorum: false,
            _database: None,
        }
    }

    /// The shared broker and PostgreSQL.
    pub(crate) async fn postgres() -> Self {
        let database = Database::create().await;
        let vhost = RabbitAddress::shared().vhost().await;
        Self {
            installation: Installation::on_servers(&vhost, &database.url()),
            vhost,
            quorum: false,
            _database: Some(database),
        }
    }

    /// The same with quorum queues; before anything is declared.
    pub(crate) fn with_quorum_queues(mut self) -> Self {
        self.quorum = true;
        self
    }

    pub(crate) async fn connect(&self) -> Connection {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Connection::connect(&self.vhost.amqp(), ConnectionProperties::default())
            .await
            .unwrap()
    }

    pub(crate) async fn channel(&self) -> (Connection, Channel) {
        let connection = self.connect().await;
        let channel = connection.create_channel().await.unwrap();
        (connection, channel)
    }

    /// A durable queue; with a dead-letter queue where asked.
    pub(crate) async fn declare(&self, channel: &Channel, name: &str, dead: Option<&str>) {
        let mut arguments = FieldTable::default();
        let mut set = |name: &str, value: &str| {
            arguments.insert(name.into(), AMQPValue::LongString(LongString::from(value.as_bytes())));
        };
        if self.quorum {
            set("x-queue-type", "quorum");
        }
        if let Some(dead) = dead {
            set("x-dead-letter-exchange", "");
            set("x-dead-letter-routing-key", dead);
        }
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        channel
            .queue_declare(ShortString::from(name), durable, arguments)
            .await
            .unwrap();
    }

    /// `count` messages that died in [`ORIGIN`] by the hand of a consumer, their bodies 0, 1, 2, …
    pub(crate) async fn die(&self, count: u32) {
        let (connection, channel) = self.channel().await;
        self.declare(&channel, DEAD, None).await;
        self.declare(&channel, ORIGIN, Some(DEAD)).await;
        publish(&channel, ORIGIN, 0..count).await;
        reject(&channel, ORIGIN, count).await;
        wait_until("dead letters", BOUND, async || {
            (self.ready(DEAD).await == Some(count)).then_some(())
        })
        .await;
        connection.close(200, "done".into()).await.unwrap();
    }

    /// Messages ready; `None` for a queue that is not there.
    pub(crate) async fn ready(&self, queue: &str) -> Option<u32> {
        let (connection, channel) = self.channel().await;
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let found = channel
            .queue_declare(ShortString::from(queue), passive, FieldTable::default())
            .await;
        let _ = connection.close(200, "done".into()).await;
        found.ok().map(|queue| queue.message_count())
    }

    /// Takes everything out of a queue; bodies as numbers, in order.
    pub(crate) async fn take_all(&self, queue: &str) -> Vec<Taken> {
        let (connection, channel) = self.channel().await;
        let mut taken = Vec::new();
        let options = BasicGetOptions { no_ack: true };
        while let Some(got) = channel.basic_get(ShortString::from(queue), options).await.unwrap() {
            let headers = got.properties.headers().clone().unwrap_or_default();
            taken.push(Taken {
                number: String::from_utf8(got.delivery.data.clone()).unwrap().parse().unwrap(),
                headers,
                routing_key: got.routing_key.as_str().to_owned(),
            });
        }
        connection.close(200, "done".into()).await.unwrap();
        taken
    }

    /// Until the broker's statistics, which lag, count a consumer.
    pub(crate) async fn listed_with_a_consumer(&self, queue: &str) {
        self.listed_with_consumers(queue, 1).await;
    }

    /// Statistics say how many consumers a queue has only some time after it was made.
    pub(crate) async fn listed_with_consumers(&self, queue: &str, consumers: u32) {
        let path = format!("/api/queues/{}/{queue}", self.vhost.name);
        wait_until("the consumers to be counted", BOUND, async || {
            let listed = self.vhost.node.request("GET", &path).send().await;
            (listed.json()["consumers"] == consumers).then_some(())
        })
        .await;
    }

    pub(crate) async fn delete(&self, queue: &str) {
        let (connection, channel) = self.channel().await;
        let options = QueueDeleteOptions::default();
        channel.queue_delete(ShortString::from(queue), options).await.unwrap();
        connection.close(200, "done".into()).await.unwrap();
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> Outcome {
        self.installation.run(arguments).await
    }

    /// Goes on with a run that asks.
    pub(crate) async fn resume(&self, run: &str) -> Outcome {
        self.run(&["run", "resume", run, "--yes", "--json"]).await
    }

    /// The newest run.
    pub(crate) async fn newest_run(&self) -> Value {
        let runs = self.run(&["run", "list", "--json"]).await.expect_code(0).json();
        runs[0].clone()
    }

    /// Until the newest run is in one of these states.
    pub(crate) async fn run_is(&self, states: &[&str]) -> Value {
        wait_until(format!("a run that is {states:?}"), BOUND, async || {
            let run = self.newest_run().await;
            states.iter().any(|state| run["state"] == *state).then_some(run)
        })
        .await
    }
}

/// A message that was taken out.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) number: u32,
    pub(crate) headers: FieldTable,
    pub(crate) routing_key: String,
}

impl Taken {
    pub(crate) fn has(&self, header: &str) -> bool {
        self.headers.inner().contains_key(header)
    }
}

pub(crate) fn numbers(taken: &[Taken]) -> Vec<u32> {
    taken.iter().map(|one| one.number).collect()
}

/// Numbered messages, confirmed.
pub(crate) async fn publish(channel: &Channel, queue: &str, numbers: std::ops::Range<u32>) {
    publish_with(channel, ("", queue), numbers).await;
}

/// The same through an exchange.
pub(crate) async fn publish_through(channel: &Channel, exchange: &str, numbers: std::ops::Range<u32>) {
    publish_with(channel, (exchange, "k"), numbers).await;
}

async fn publish_with(channel: &Channel, (exchange, key): (&str, &str), numbers: std::ops::Range<u32>) {
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let mut confirms = Vec::new();
    for number in numbers {
        let properties = BasicProperties::default()
            .with_delivery_mode(2)
            .with_message_id(format!("m-{number}").into());
        let body = number.to_string();
        let sent = channel.basic_publish(
            ShortString::from(exchange),
            ShortString::from(key),
            BasicPublishOptions::default(),
            body.as_bytes(),
            properties,
        );
        confirms.push(sent.await.unwrap());
    }
    for confirm in confirms {
        assert!(confirm.await.unwrap().is_ack());
    }
}

/// Takes what is in a queue and keeps it in hand, as long as the value lives.
pub(crate) async fn consume(channel: &Channel, queue: &str) -> Consumer {
    let options = BasicConsumeOptions::default();
    let consuming = channel.basic_consume(ShortString::from(queue), "keeps".into(), options, FieldTable::default());
    consuming.await.unwrap()
}

/// Rejects the first `count` messages of a queue.
pub(crate) async fn reject(channel: &Channel, queue: &str, count: u32) {
    channel.basic_qos(1000, BasicQosOptions::default()).await.unwrap();
    let mut consumer = channel
        .basic_consume(
            ShortString::from(queue),
            "rejects".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await
        .unwrap();
    for _ in 0..count {
        let delivery = consumer.next().await.unwrap().unwrap();
        let nack = BasicNackOptions {
            multiple: false,
            requeue: false,
        };
        channel.basic_nack(delivery.delivery_tag, nack).await.unwrap();
    }
    channel
        .basic_cancel("rejects".into(), BasicCancelOptions::default())
        .await
        .unwrap();
}
