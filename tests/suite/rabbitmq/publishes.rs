//! Publishes side by side: each gets its own answer, also where they share a channel.

use std::sync::Arc;

use redrive::internals::ambient::{self, Clock};
use redrive::internals::broker::rabbitmq::{RabbitMq, RabbitSettings};
use redrive::internals::broker::{BrokerError, BrokerHandle, Published};
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::message::Message;
use redrive::internals::domain::naming::QueueType;
use tokio::sync::Semaphore;

use super::bench;
use crate::broker_contract::bench::{Bench, numbered};
use crate::support::servers::PrivateRabbit;

/// Publishes all of it, so many at once; answers in order.
async fn side_by_side(
    broker: &BrokerHandle,
    at_once: usize,
    messages: Vec<(QueueName, Message)>,
) -> Vec<Result<Published, BrokerError>> {
    let places = Arc::new(Semaphore::new(at_once));
    let publishes = messages.into_iter().map(|(queue, message)| {
        let (broker, places) = (Arc::clone(broker), Arc::clone(&places));
        ambient::spawn("test", async move {
            let _place = places.acquire().await;
            broker.publish(&queue, &message).await
        })
    });
    let mut answers = Vec::new();
    for publish in publishes.collect::<Vec<_>>() {
        answers.push(publish.await.unwrap());
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_at_once_half_of_them_without_a_queue_none_gets_the_answer_of_another() {
    const COUNT: u32 = 4_000;
    let bench = bench::classic().await;
    let there = bench.created("there").await;
    let messages = (0..COUNT).map(|number| {
        let missing = || bench.queue(&format!("none-{}", number % 16));
        let queue = if number % 2 == 0 { there.clone() } else { missing() };
        (queue, numbered(number))
    });
    let answers = side_by_side(&bench.broker, 64, messages.collect()).await;
    for (number, answer) in answers.into_iter().enumerate() {
        let is_returned = answer.unwrap() == Published::Returned;
        assert_eq!(is_returned, number % 2 == 1, "publish {number}");
    }
    bench.wait_ready(&there, u64::from(COUNT) / 2).await;
    bench.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_broker_refuses_takes_nobody_elses_answer_with_it() {
    let bench = bench::classic().await;
    let queue = bench.created("q").await;
    let messages = (0..400).map(|number| {
        let expiration = (number % 10 == 0).then(|| "soon".to_owned());
        let message = Message {
            expiration,
            ..numbered(number)
        };
        (queue.clone(), message)
    });
    let answers = side_by_side(&bench.broker, 64, messages.collect()).await;
    for (number, answer) in answers.into_iter().enumerate() {
        match answer.unwrap() {
            Published::Refused(why) => assert!(number % 10 == 0 && why.contains("soon"), "{number}: {why}"),
            other => assert!(other == Published::Accepted && number % 10 != 0, "{number}: {other:?}"),
        }
    }
    bench.finish().await;
}

/// A limit below what any broker has by itself: the first refusal meets others, which may be told that nobody knows, and
/// none after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_refuses_small_messages_takes_the_answers_of_others_with_it_once() {
    const LARGE: usize = 4_096;
    let node = PrivateRabbit::start().await;
    node.limit_bodies(LARGE / 2).await;
    let naming = bench::settings(QueueType::Classic).naming;
    let settings = RabbitSettings::new(&node.address.amqp, Some(&node.address.management), naming.clone());
    let broker = RabbitMq::connect(settings, Clock::system()).unwrap();
    broker.prepare().await.unwrap();
    let bench = Bench {
        broker,
        naming,
        finish: std::sync::Mutex::new(None),
    };
    let queue = bench.created("q").await;
    let messages = || {
        let message = |number: u32| Message {
            body: vec![b'x'; if number.is_multiple_of(10) { LARGE } else { 1 }].into(),
            ..numbered(number)
        };
        (1..=200)
            .map(|number| (queue.clone(), message(number)))
            .collect::<Vec<_>>()
    };
    for answer in side_by_side(&bench.broker, 64, messages()).await {
        assert!(
            matches!(
                answer,
                Ok(Published::Accepted | Published::Refused(_)) | Err(BrokerError::Unknown { .. })
            ),
            "{answer:?}"
        );
    }
    for (at, answer) in side_by_side(&bench.broker, 64, messages())
        .await
        .into_iter()
        .enumerate()
    {
        let is_refused = matches!(answer.unwrap(), Published::Refused(_));
        assert_eq!(is_refused, (at + 1) % 10 == 0, "publish {}", at + 1);
    }
}
