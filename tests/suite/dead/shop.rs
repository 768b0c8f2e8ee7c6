//! Somebody else's queues on the vhost of a quiet stage, used with the plain client.

use std::time::Duration;

use lapin::options::{
    BasicGetOptions, BasicPublishOptions, BasicRejectOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use redrive::internals::domain::dead_letter::DeadLetter;
use redrive::internals::domain::id::QueueName;
use redrive::internals::engine::EngineError;
use redrive::internals::engine::Query;
use redrive::internals::engine::dead::{DeadDetail, DeadGroup, DeadListQuery, DeadPage, DeadQueueView, DeadSelection};
use redrive::internals::engine::query;

use crate::engine::stage::{Ground, Stage};
use crate::support::wait::wait_until;

pub(crate) const BOUND: Duration = Duration::from_mins(2);

pub(crate) struct Shop {
    pub(crate) stage: Stage,
    pub(crate) channel: Channel,
    pub(crate) connection: Connection,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        Self::on(Ground::rabbit_sqlite().await).await
    }

    pub(crate) async fn on(ground: Ground) -> Self {
        Self::of(Stage::quiet(ground, |_| {}).await).await
    }

    pub(crate) async fn of(stage: Stage) -> Self {
        let amqp = stage.ground.rabbit().amqp();
        let connection = Connection::connect(&amqp, ConnectionProperties::default())
            .await
            .unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Self {
            stage,
            channel,
            connection,
        }
    }

    pub(crate) async fn queue(&self, name: &str, arguments: &[(&str, AMQPValue)]) {
        let mut table = FieldTable::default();
        for (key, value) in arguments {
            table.insert(ShortString::from(*key), value.clone());
        }
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        self.channel.queue_declare(name.into(), options, table).await.unwrap();
    }

    pub(crate) async fn exchange(&self, name: &str, kind: ExchangeKind) {
        let options = ExchangeDeclareOptions::default();
        let declaring = self
            .channel
            .exchange_declare(name.into(), kind, options, FieldTable::default());
        declaring.await.unwrap();
    }

    pub(crate) async fn bind(&self, queue: &str, exchange: &str, key: &str) {
        let options = QueueBindOptions::default();
        let binding = self.channel.queue_bind(
            queue.into(),
            exchange.into(),
            key.into(),
            options,
            FieldTable::default(),
        );
        binding.await.unwrap();
    }

    pub(crate) async fn publish(&self, exchange: &str, key: &str, properties: BasicProperties, body: &str) {
        let options = BasicPublishOptions::default();
        let publishing = self
            .channel
            .basic_publish(exchange.into(), key.into(), options, body.as_bytes(), properties);
        publishing.await.unwrap().await.unwrap();
    }

    /// Publishes bodies `1` to `count`.
    pub(crate) async fn fill(&self, queue: &str, count: u32) {
        let mut confirms = Vec::new();
        for number in 1..=count {
            let (options, body) = (BasicPublishOptions::default(), number.to_string());
            let properties = BasicProperties::default().with_delivery_mode(2);
            let publishing = self
                .channel
                .basic_publish("".into(), queue.into(), options, body.as_bytes(), properties);
            confirms.push(publishing.await.unwrap());
        }
        for confirm in confirms {
            confirm.await.unwrap();
        }
    }

    /// Rejects everything in a queue.
    pub(crate) async fn reject_all(&self, queue: &str) {
        while let Some(got) = self
            .channel
            .basic_get(queue.into(), BasicGetOptions::default())
            .await
            .unwrap()
        {
            let options = BasicRejectOptions { requeue: false };
            self.channel
                .basic_reject(got.delivery.delivery_tag, options)
                .await
                .unwrap();
        }
    }

    /// Takes the bodies out in the order that a consumer gets them.
    pub(crate) async fn drain(&self, queue: &str) -> Vec<String> {
        let mut bodies = Vec::new();
        let options = BasicGetOptions { no_ack: true };
        while let Some(got) = self.channel.basic_get(queue.into(), options).await.unwrap() {
            bodies.push(String::from_utf8(got.delivery.data.clone()).unwrap());
        }
        bodies
    }

    pub(crate) async fn ask<Q: Query>(&self, query: Q) -> Result<Q::Answer, EngineError> {
        self.stage.engine.query(query).await
    }

    pub(crate) async fn list(&self, queue: Option<&str>, filter: Option<&str>) -> DeadPage<DeadLetter> {
        self.ask(query::Dead(query(queue, filter))).await.unwrap()
    }

    pub(crate) async fn groups(&self, filter: Option<&str>) -> Vec<DeadGroup> {
        self.ask(query::DeadGroups(query(None, filter)))
            .await
            .unwrap()
            .page
            .items
    }

    pub(crate) async fn show(&self, letter: &DeadLetter) -> DeadDetail {
        let query = query::OneDeadLetter {
            id: letter.id.as_str().to_owned(),
            patience: BOUND,
        };
        self.ask(query).await.unwrap()
    }

    /// Lists a queue until it has as many.
    pub(crate) async fn listed(&self, queue: &str, count: usize) -> Vec<DeadLetter> {
        wait_until("the dead letters are listed", BOUND, async || {
            let found = self.list(Some(queue), None).await.page.items;
            (found.len() == count).then_some(found)
        })
        .await
    }
}

pub(crate) fn query(queue: Option<&str>, filter: Option<&str>) -> DeadListQuery {
    DeadListQuery {
        selection: DeadSelection {
            queue: queue.map(|name| QueueName::parse(name).unwrap()),
            group: None,
            filter: filter.map(str::to_owned),
        },
        sort: Some("position".to_owned()),
        limit: 1000,
        cursor: None,
        patience: BOUND,
    }
}

pub(crate) fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(text))
}

pub(crate) fn view<'a>(queues: &'a [DeadQueueView], name: &str) -> Option<&'a DeadQueueView> {
    queues.iter().find(|queue| queue.name.as_str() == name)
}
