//! The bare loop: for each queue the next delivery, the POST, the ack, with nothing around it.
//!
//! Arguments: virtual host's URL, prefetch. Input: a line `QUEUE URL` for each queue, then `go`.

use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};

/// As many as the engine puts on one connection.
const QUEUES_PER_CONNECTION: usize = 64;

pub async fn run(arguments: &[String]) {
    let [amqp, prefetch] = arguments else {
        panic!("amqp and prefetch")
    };
    let mut input = crate::process::input();
    let client = reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(512)
        .tcp_nodelay(true)
        .build()
        .unwrap();
    let mut queues = Vec::new();
    while let Some(line) = input.recv().await.filter(|line| line != "go") {
        let (queue, url) = line.split_once(' ').unwrap();
        queues.push((queue.to_owned(), reqwest::Url::parse(url).unwrap()));
    }
    let mut connections = Vec::new();
    for part in queues.chunks(QUEUES_PER_CONNECTION) {
        let connection = Connection::connect(amqp, ConnectionProperties::default())
            .await
            .unwrap();
        for (queue, url) in part {
            let channel = connection.create_channel().await.unwrap();
            let options = BasicQosOptions::default();
            channel.basic_qos(prefetch.parse().unwrap(), options).await.unwrap();
            tokio::spawn(deliver(channel, queue.clone(), client.clone(), url.clone()));
        }
        connections.push(connection);
    }
    println!("ready");
    while input.recv().await.is_some() {}
    for connection in connections {
        connection.close(200, "done".into()).await.unwrap();
    }
}

async fn deliver(channel: Channel, queue: String, client: reqwest::Client, url: reqwest::Url) {
    let options = BasicConsumeOptions::default();
    let mut deliveries = channel
        .basic_consume(queue.into(), "".into(), options, FieldTable::default())
        .await
        .unwrap();
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
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success());
        answer.bytes().await.unwrap();
        delivery.acker.ack(BasicAckOptions::default()).await.unwrap();
    }
}
