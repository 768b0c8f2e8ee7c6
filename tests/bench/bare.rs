//! What the engine is measured against: loops that take the next delivery of each queue, POST it, and ack it, with nothing
//! around it.
//!
//! `bare` is what a careful programmer would write with the usual crates: connections of 64 queues, reqwest, the
//! message's id in a header. `light` is the least that delivers at all: one connection, a channel for each queue, hyper, and
//! nothing read of a message but its body. Both are fixed: a change of them would make figures incomparable with earlier ones.
//!
//! Arguments: virtual host's URL, prefetch, requests in flight at most. Input: a line `QUEUE URL` for each queue, then `go`.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties, Consumer};
use tokio::sync::Semaphore;

/// As many as the engine puts on one connection.
const QUEUES_PER_CONNECTION: usize = 64;

/// The queues and their URLs, as the input names them.
struct Given {
    amqp: String,
    prefetch: u16,
    in_flight: Arc<Semaphore>,
    queues: Vec<(String, String)>,
    input: tokio::sync::mpsc::UnboundedReceiver<String>,
}

impl Given {
    async fn read(arguments: &[String]) -> Self {
        let [amqp, prefetch, in_flight] = arguments else {
            panic!("amqp, prefetch and requests in flight")
        };
        let mut input = crate::process::input();
        let mut queues = Vec::new();
        while let Some(line) = input.recv().await.filter(|line| line != "go") {
            let (queue, url) = line.split_once(' ').unwrap();
            queues.push((queue.to_owned(), url.to_owned()));
        }
        Self {
            amqp: amqp.clone(),
            prefetch: prefetch.parse().unwrap(),
            in_flight: Arc::new(Semaphore::new(in_flight.parse().unwrap())),
            queues,
            input,
        }
    }

    async fn connect(&self) -> Connection {
        Connection::connect(&self.amqp, ConnectionProperties::default())
            .await
            .unwrap()
    }

    async fn consumer(&self, connection: &Connection, queue: &str) -> (Channel, Consumer) {
        let channel = connection.create_channel().await.unwrap();
        channel
            .basic_qos(self.prefetch, BasicQosOptions::default())
            .await
            .unwrap();
        let options = BasicConsumeOptions::default();
        let consumer = channel
            .basic_consume(queue.into(), "".into(), options, FieldTable::default())
            .await
            .unwrap();
        (channel, consumer)
    }

    /// Delivers until the input ends.
    async fn finish(mut self, connections: Vec<Connection>) {
        println!("ready");
        while self.input.recv().await.is_some() {}
        for connection in connections {
            connection.close(200, "done".into()).await.unwrap();
        }
    }
}

pub async fn run(arguments: &[String]) {
    let given = Given::read(arguments).await;
    let client = reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(512)
        .tcp_nodelay(true)
        .build()
        .unwrap();
    let mut connections = Vec::new();
    for part in given.queues.chunks(QUEUES_PER_CONNECTION) {
        let connection = given.connect().await;
        for (queue, url) in part {
            let consumer = given.consumer(&connection, queue).await;
            let (url, slots) = (reqwest::Url::parse(url).unwrap(), Arc::clone(&given.in_flight));
            tokio::spawn(deliver(consumer, client.clone(), url, slots));
        }
        connections.push(connection);
    }
    given.finish(connections).await;
}

async fn deliver(
    (_channel, mut deliveries): (Channel, Consumer),
    client: reqwest::Client,
    url: reqwest::Url,
    slots: Arc<Semaphore>,
) {
    while let Some(Ok(delivery)) = deliveries.next().await {
        let id = delivery
            .properties
            .message_id()
            .as_ref()
            .map(|id| id.as_str().to_owned());
        let request = client
            .post(url.clone())
            .header("content-type", "text/plain")
            .header("webhook-id", id.unwrap_or_default())
            .body(delivery.data);
        let slot = slots.acquire().await.unwrap();
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success());
        answer.bytes().await.unwrap();
        drop(slot);
        delivery.acker.ack(BasicAckOptions::default()).await.unwrap();
    }
}

type Light = Client<HttpConnector, Full<Bytes>>;

pub async fn run_light(arguments: &[String]) {
    let given = Given::read(arguments).await;
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Light = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(512)
        .build(connector);
    let connection = given.connect().await;
    for (queue, url) in &given.queues {
        let consumer = given.consumer(&connection, queue).await;
        let (url, slots) = (url.parse().unwrap(), Arc::clone(&given.in_flight));
        tokio::spawn(deliver_light(consumer, client.clone(), url, slots));
    }
    given.finish(vec![connection]).await;
}

async fn deliver_light(
    (_channel, mut deliveries): (Channel, Consumer),
    client: Light,
    url: hyper::Uri,
    slots: Arc<Semaphore>,
) {
    while let Some(Ok(delivery)) = deliveries.next().await {
        let request = Request::post(url.clone())
            .body(Full::new(Bytes::from(delivery.data)))
            .unwrap();
        let slot = slots.acquire().await.unwrap();
        let answer = client.request(request).await.unwrap();
        assert!(answer.status().is_success());
        answer.into_body().collect().await.unwrap();
        drop(slot);
        delivery.acker.ack(BasicAckOptions::default()).await.unwrap();
    }
}
