//! What the management API says, and what others say in its place.

use std::sync::{Arc, Mutex};

use lapin::options::{BasicGetOptions, BasicPublishOptions};
use lapin::{Connection, ConnectionProperties};
use redrive::internals::ambient::Clock;
use redrive::internals::broker::rabbitmq::RabbitMq;
use redrive::internals::broker::{BrokerError, BrokerHandle, Deleted, WhichQueues};
use redrive::internals::domain::naming::QueueType;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::bench;
use crate::broker_contract::bench::SOON;
use crate::support::wait::wait_until;

type Answers = Arc<Mutex<dyn FnMut(&str) -> (u16, String) + Send>>;

/// Answers every request by its path and query; it ends with this value.
struct Impostor {
    url: String,
    task: JoinHandle<()>,
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Impostor {
    async fn saying(answers: impl FnMut(&str) -> (u16, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers: Answers = Arc::new(Mutex::new(answers));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&answers)));
            }
        });
        Self { url, task }
    }

    fn broker(&self) -> BrokerHandle {
        let mut settings = bench::settings(QueueType::Classic);
        settings.management_url = Some(self.url.clone());
        RabbitMq::connect(settings, Clock::system()).unwrap()
    }
}

async fn answer(mut stream: TcpStream, answers: Answers) {
    let (mut request, mut bytes) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(read) => request.extend(&bytes[..read]),
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let target = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let (status, body) = (answers.lock().unwrap())(&target);
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // A client that hung up needs no answer.
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn success_with_something_that_is_no_answer_is_a_failure_and_never_an_empty_list() {
    for lie in [
        "",
        "null",
        "{",
        "[{\"name\":\"a\"",
        "<html><title>log in</title></html>",
        "{}",
        "7",
        "\"ok\"",
        "[7]",
        "[{}]",
        "[null]",
    ] {
        let said = lie.to_owned();
        let impostor = Impostor::saying(move |_| (200, said.clone())).await;
        let broker = impostor.broker();
        let queue = redrive::internals::domain::id::QueueName::parse("q").unwrap();
        let all = WhichQueues::All.into();
        let failed = |what: &str, error: Option<BrokerError>| {
            let error = error.unwrap_or_else(|| panic!("{what} believes {lie:?}"));
            assert!(
                error.to_string().contains("not understood"),
                "{what} of {lie:?}: {error}"
            );
        };
        failed("the listing", broker.queues_all().await.err());
        failed("the pages", broker.queues_listed(&all, &mut |_| {}).await.err());
        failed("a queue", broker.queue_detail(&queue).await.err());
        failed("the policies", broker.policies().await.err());
        failed("an exchange", broker.exchange_detail("x").await.err());
        if serde_json::from_str::<Vec<serde_json::Value>>(lie).is_err() {
            failed("the connections", broker.connections_close("x").await.err());
        }
        let health = broker.health().await;
        assert!(
            !health.management && health.management_problem.is_some(),
            "{lie:?}: {health:?}"
        );
        broker.close().await;
    }
}

/// What a vhost with very many queues does: the one answer does not come, pages do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_all_queues_are_too_many_for_one_answer_they_are_listed_by_pages() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let mut deleted = false;
    let impostor = Impostor::saying(move |target| {
        noted.lock().unwrap().push(target.to_owned());
        let Some((_, rest)) = target.split_once("?page=") else {
            return (500, "{\"reason\":\"timeout\"}".to_owned());
        };
        let page: u64 = rest.split('&').next().unwrap().parse().unwrap();
        // While the pages are read the first time, the first queue is deleted: one of page 2 moves to page 1.
        let all: Vec<u64> = (u64::from(deleted)..1201).collect();
        let items: Vec<_> = all
            .iter()
            .skip(usize::try_from((page - 1) * 500).unwrap())
            .take(500)
            .map(|number| serde_json::json!({"name": format!("q{number:05}"), "messages_ready": number}))
            .collect();
        deleted = true;
        let answer = serde_json::json!({"items": items, "page_count": 3, "filtered_count": all.len()});
        (200, answer.to_string())
    })
    .await;
    let broker = impostor.broker();
    for _ in 0..2 {
        let listed = broker.queues_all().await.unwrap();
        let mut last = listed.queues.iter().rev();
        assert_eq!(last.next().unwrap().ready, Some(1200));
        let names: std::collections::BTreeSet<_> = listed.queues.iter().map(|queue| queue.name.as_str()).collect();
        assert!(names.contains("q00500"), "the one that moved");
        assert_eq!((listed.queues.len(), listed.total), (1200, Some(1200)));
    }
    let asked = asked.lock().unwrap();
    let whole = asked.iter().filter(|target| !target.contains("page=")).count();
    assert_eq!(whole, 1, "it is not tried each time: {asked:?}");
    drop(broker);
}

/// What somebody has in hand is not ready, and is not counted by AMQP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_queue_whose_only_message_is_in_somebodys_hand_is_not_deleted_as_empty() {
    let bench = bench::quorum().await;
    let queue = redrive::internals::domain::id::QueueName::parse("foreign").unwrap();
    let arguments = [("x-queue-type".to_owned(), "quorum".to_owned())];
    bench.broker.declare_again(&queue, &arguments).await.unwrap();
    let url = format!("{}/{}", bench::amqp(), bench.naming.vhost);
    let connection = Connection::connect(&url, ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    let (options, properties) = (BasicPublishOptions::default(), lapin::BasicProperties::default());
    channel
        .basic_publish("".into(), "foreign".into(), options, b"kept", properties)
        .await
        .unwrap()
        .await
        .unwrap();
    let got = wait_until("the message", SOON, async || {
        let options = BasicGetOptions::default();
        channel.basic_get("foreign".into(), options).await.unwrap()
    })
    .await;
    wait_until("the broker to tell that it is in hand", SOON * 2, async || {
        let deleted = bench.broker.queue_detail(&queue).await.unwrap()?;
        (deleted.unacked == Some(1)).then_some(())
    })
    .await;
    let deleted = bench.broker.delete_unused(&queue, QueueType::Quorum).await.unwrap();
    assert_eq!(deleted, Deleted::InUse);
    drop(got);
    channel.close(200, "done".into()).await.unwrap();
    connection.close(200, "done".into()).await.unwrap();
    let left = bench.broker.browse(&queue, 10).await.unwrap();
    assert_eq!(left.len(), 1);
    bench.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_broker_does_not_count_is_not_zero() {
    let queue = redrive::internals::domain::id::QueueName::parse("q").unwrap();
    for (overview, stats, counted) in [
        (r#""rates_mode":"basic""#, "", Some(0)),
        (r#""rates_mode":"basic""#, r#","message_stats":{"publish":1}"#, Some(0)),
        (
            r#""rates_mode":"basic""#,
            r#","message_stats":{"redeliver":7}"#,
            Some(7),
        ),
        (r#""rates_mode":"basic""#, r#","message_stats":{"redeliver":"7"}"#, None),
        (r#""rates_mode":"none""#, "", None),
        (r#""rates_mode":"basic","disable_stats":true"#, "", None),
        (r#""something":"else""#, "", None),
    ] {
        let impostor = Impostor::saying(move |path| {
            let body = if path.contains("overview") {
                format!(r#"{{"rabbitmq_version":"3.10.8",{overview}}}"#)
            } else {
                format!(r#"{{"name":"q"{stats}}}"#)
            };
            (200, body)
        })
        .await;
        let listed = impostor.broker().queue_detail(&queue).await.unwrap().unwrap();
        assert_eq!(listed.redelivered, counted, "{overview} {stats}");
    }
}
