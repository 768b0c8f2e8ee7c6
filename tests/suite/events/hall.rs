//! Where messages of others come in: an installation that reads an intake queue, and somebody who publishes to it.

use std::sync::Arc;
use std::time::Duration;

use redrive::internals::ambient::Clock;
use redrive::internals::broker::embedded::Embedded;
use redrive::internals::broker::rabbitmq::{RabbitMq, RabbitSettings};
use redrive::internals::broker::{BrokerHandle, Look, Outgoing, Published};
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::message::{HeaderValue, Message};
use redrive::internals::domain::naming::{Naming, QueueType};
use redrive::internals::sqlite::SqliteFile;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::support::daemon::{Daemon, Installation};
use crate::support::servers::{Database, RabbitAddress, Vhost};
use crate::support::wait::wait_until;

pub(super) const BOUND: Duration = Duration::from_mins(2);
pub(super) const EXCHANGE: &str = "people";
pub(super) const QUEUE: &str = "q_hr";

/// The servers' parts are dropped last.
pub(super) struct Hall {
    pub(super) installation: Installation,
    publisher: OnceCell<BrokerHandle>,
    pub(super) vhost: Option<Vhost>,
    pub(super) database: Option<Database>,
}

impl Hall {
    pub(super) fn embedded() -> Self {
        Self::of(Installation::embedded(), None, None)
    }

    /// With the record in a file.
    pub(super) async fn rabbit() -> Self {
        Self::on(&RabbitAddress::shared()).await
    }

    pub(super) async fn on(node: &RabbitAddress) -> Self {
        let vhost = node.vhost().await;
        Self::of(Installation::on_rabbit(&vhost), Some(vhost), None)
    }

    /// With the record in a database.
    pub(super) async fn servers() -> Self {
        let database = Database::create().await;
        Self::on_postgres(&database.url(), Some(database)).await
    }

    pub(super) async fn on_postgres(url: &str, database: Option<Database>) -> Self {
        let vhost = Vhost::create().await;
        Self::of(Installation::on_servers(&vhost, url), Some(vhost), database)
    }

    fn of(mut installation: Installation, vhost: Option<Vhost>, database: Option<Database>) -> Self {
        let on = vhost.as_ref().map_or("/", |vhost| &vhost.name);
        installation.append(&format!(
            "[[consumer]]\nname = \"hr\"\nvhost = \"{on}\"\nqueue = \"{QUEUE}\"\nexchange = \"{EXCHANGE}\"\n\
             bindings = [\"person.#\"]\ntype = \"hr\"\nreference = \"/id\"\nnbf = \"/nbf\"\n\
             types = [{{ key = \"person.left.#\", type = \"leaver\" }}]"
        ));
        installation.set("delivery", "timeout_s", 2);
        installation.set("delivery", "take_over_s", 10);
        Self {
            installation,
            publisher: OnceCell::new(),
            vhost,
            database,
        }
    }

    async fn publisher(&self) -> &BrokerHandle {
        self.publisher.get_or_init(async || self.connect().await).await
    }

    async fn connect(&self) -> BrokerHandle {
        let naming = Naming {
            prefix: "publisher.".to_owned(),
            vhost: self.vhost.as_ref().map_or("redrive", |vhost| &vhost.name).to_owned(),
            url_hash_key: "a publisher's".to_owned(),
            queue_type: QueueType::Classic,
        };
        match &self.vhost {
            None => {
                let file = SqliteFile::open(&self.installation.path("store.db")).await.unwrap();
                Embedded::open(file, naming, Clock::system()).await.unwrap()
            }
            Some(vhost) => {
                let settings = RabbitSettings::new(&vhost.amqp(), Some(&vhost.node.management), naming);
                RabbitMq::connect(settings, Clock::system()).unwrap()
            }
        }
    }

    /// Publishes in order, again from the first that was not accepted.
    pub(super) async fn publish(&self, messages: &[(&str, String)]) {
        self.publish_with(&[], messages).await;
    }

    /// The same, each with these headers.
    pub(super) async fn publish_with(&self, headers: &[(&str, &str)], messages: &[(&str, String)]) {
        let broker = Arc::clone(self.publisher().await);
        let header = |(name, value): &(&str, &str)| ((*name).to_owned(), HeaderValue::text(value));
        let headers: Vec<_> = headers.iter().map(header).collect();
        let outgoing = |(key, body): &(&str, String)| Outgoing {
            exchange: EXCHANGE.to_owned(),
            routing_key: (*key).to_owned(),
            message: Message {
                body: body.clone().into(),
                headers: headers.clone(),
                ..Message::default()
            },
        };
        let mut left: Vec<Outgoing> = messages.iter().map(outgoing).collect();
        wait_until("messages that are accepted", BOUND, async || {
            let answers = broker.publish_many(&left).await;
            let accepted = |answer: &Result<Published, _>| matches!(answer, Ok(Published::Accepted));
            let done = answers.iter().take_while(|answer| accepted(answer)).count();
            left.drain(..done);
            left.is_empty().then_some(())
        })
        .await;
    }

    /// Versions `from` to `to` of fifty references, in windows.
    pub(super) async fn stream(&self, from: u32, to: u32) {
        let versions: Vec<u32> = (from..to).collect();
        for window in versions.chunks(100) {
            let message = |v: &u32| ("person.new", format!("{{\"id\": \"r{}\", \"v\": {v}}}", v % 50));
            let messages: Vec<(&str, String)> = window.iter().map(message).collect();
            self.publish(&messages).await;
        }
    }

    /// Every reference stands once, as its last message said.
    pub(super) async fn assert_last_versions(&self, daemon: &Daemon, to: u32) {
        let events = events(daemon, "hr").await;
        assert_eq!(events.len(), 50, "{events:?}");
        for event in events {
            let reference: u32 = event["reference"].as_str().unwrap()[1..].parse().unwrap();
            let last = (0..to).rev().find(|v| v % 50 == reference);
            assert_eq!(event["payload"]["v"], Value::from(last), "{event}");
        }
    }

    /// Until nothing is in the queue, in hand neither.
    pub(super) async fn taken_in(&self) {
        wait_until("an empty intake queue", BOUND, async || {
            (self.waiting().await == Some(0)).then_some(())
        })
        .await;
    }

    /// Messages in the queue, in hand too; `None` while there is no queue.
    pub(super) async fn waiting(&self) -> Option<u64> {
        let Some(vhost) = &self.vhost else {
            let look = self.publisher().await.look(&QueueName::parse(QUEUE).unwrap()).await;
            return match look.unwrap() {
                Look::Missing => None,
                Look::Present { ready, .. } => Some(ready),
            };
        };
        let request = vhost.node.request(
            "GET",
            &format!("/api/queues/{}?disable_stats=true&enable_queue_totals=true", vhost.name),
        );
        let queues = request
            .try_send()
            .await
            .ok()
            .filter(|answer| answer.status == 200)?
            .json();
        let queue = queues.as_array()?.iter().find(|queue| queue["name"] == QUEUE)?;
        queue["messages"].as_u64()
    }
}

/// The events of a type.
pub(super) async fn events(daemon: &Daemon, event_type: &str) -> Vec<Value> {
    let answer = daemon.get(&format!("/v1/types/{event_type}/events?limit=1000")).await;
    answer.json()["items"].as_array().cloned().unwrap_or_default()
}
