//! Messages that the ordinary client does not survive: found, rescued byte for byte, others go on.

use std::time::Duration;

use redrive::internals::broker::{AttachOutcome, BrokerHandle, Lost, Next};
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::message::HeaderValue;
use redrive::internals::domain::naming::QueueType;
use tokio::time::Instant;

use super::bench::bench;
use super::raw;
use crate::broker_contract::bench::{next, numbered, options, take};
use crate::support::wait::{patient, within};

const BAD: &[u8] = b"text/\xff\xfe";

/// What a worker of the engine does: attach, take, and attach again when the connection is lost.
async fn work(broker: BrokerHandle, queue: QueueName) -> Result<Instant, String> {
    loop {
        let mut attached = match broker.attach(&queue, options(1)).await {
            Ok(AttachOutcome::Attached(attached)) => attached,
            Ok(AttachOutcome::Poison(reason)) => return Err(reason),
            Ok(AttachOutcome::Missing) => panic!("{queue:?} is missing"),
            Err(error) => panic!("{queue:?}: {error}"),
        };
        match attached.next().await {
            Next::Message(delivery) => {
                attached.ack(delivery.tag).await;
                attached.close().await;
                return Ok(Instant::now());
            }
            Next::Lost(Lost::Undecodable(_) | Lost::Connection(_)) => {}
            Next::Lost(Lost::Cancelled) => panic!("{queue:?} was cancelled"),
            Next::Larger(bytes) => panic!("no room was asked for, and {bytes} bytes are too large"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_poisonous_queue_of_fifty_is_convicted_and_the_others_deliver() {
    let bench = bench(QueueType::Classic).await;
    let poisonous = bench.created("poison").await;
    raw::publish(&bench.naming, &poisonous, raw::header_with_content_type(1, BAD), b"x").await;
    let mut innocent = Vec::new();
    for n in 0..49 {
        innocent.push(bench.filled(&format!("q{n}"), 1).await);
    }
    let started = Instant::now();
    let bad = redrive::internals::ambient::spawn("test", work(bench.broker.clone(), poisonous.clone()));
    let good: Vec<_> = innocent
        .into_iter()
        .map(|queue| redrive::internals::ambient::spawn("test", work(bench.broker.clone(), queue)))
        .collect();
    for worker in good {
        let delivered = within(Duration::from_secs(30), worker)
            .await
            .expect("it delivers")
            .unwrap();
        let took = delivered.expect("an innocent queue was convicted") - started;
        assert!(took < patient(Duration::from_secs(5)), "a neighbour waited {took:?}");
    }
    let convicted = within(Duration::from_secs(30), bad)
        .await
        .expect("it is found")
        .unwrap();
    assert!(convicted.is_err(), "the poisonous queue delivered");
    bench.finish().await;
}

/// All fifty are attached and idle when the poison arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_that_arrives_later_is_found_too() {
    let bench = bench(QueueType::Classic).await;
    let mut queues = Vec::new();
    for n in 0..50 {
        queues.push(bench.created(&format!("q{n}")).await);
    }
    let workers: Vec<_> = queues
        .iter()
        .map(|queue| redrive::internals::ambient::spawn("test", work(bench.broker.clone(), queue.clone())))
        .collect();
    for queue in &queues {
        bench
            .wait_look(queue, |look| {
                matches!(look, redrive::internals::broker::Look::Present { consumers: 1, .. })
            })
            .await;
    }
    let started = Instant::now();
    raw::publish(&bench.naming, &queues[17], raw::header_with_content_type(1, BAD), b"x").await;
    for (n, queue) in queues.iter().enumerate().filter(|(n, _)| *n != 17) {
        bench.accepted(queue, &numbered(u32::try_from(n).unwrap())).await;
    }
    for (n, worker) in workers.into_iter().enumerate() {
        let outcome = within(Duration::from_secs(30), worker).await.expect("it ends").unwrap();
        if n == 17 {
            assert!(outcome.is_err(), "the poisonous queue delivered");
        } else {
            let took = outcome.expect("an innocent queue was convicted") - started;
            assert!(took < patient(Duration::from_secs(5)), "a neighbour waited {took:?}");
        }
    }
    bench.finish().await;
}

async fn check_rescue(queue_type: QueueType) {
    let bench = bench(queue_type).await;
    let queue = bench.created("q").await;
    let header = raw::header_with_content_type(3, BAD);
    raw::publish(&bench.naming, &queue, header.clone(), b"\x00\xffz").await;
    bench.accepted(&queue, &numbered(2)).await;
    bench.wait_ready(&queue, 2).await;
    let AttachOutcome::Poison(_) = poisoned(&bench.broker, &queue).await else {
        panic!("it is poison");
    };
    let rescued = bench.broker.rescue(&queue).await.unwrap().expect("it has a head");
    assert_eq!(rescued.body(), b"\x00\xffz");
    if queue_type == QueueType::Classic {
        assert_eq!(rescued.header_frame(), header);
    } else {
        // The broker adds its count of deliveries to the headers; the rest is as it was.
        let kept = rescued.header_frame();
        assert!(kept.windows(BAD.len()).any(|bytes| bytes == BAD), "{kept:?}");
    }
    rescued.settle().await.unwrap();
    let mut attached = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut attached, 1).await, [2]);
    attached.close().await;
    bench.wait_ready(&queue, 0).await;
    bench.finish().await;
}

/// Attaches until the queue is convicted.
async fn poisoned(broker: &BrokerHandle, queue: &QueueName) -> AttachOutcome {
    for _ in 0..5 {
        match broker.attach(queue, options(1)).await.unwrap() {
            AttachOutcome::Attached(mut attached) => {
                let ended = attached.next().await;
                assert!(matches!(ended, Next::Lost(Lost::Undecodable(_))), "{ended:?}");
            }
            outcome @ (AttachOutcome::Poison(_) | AttachOutcome::Missing) => return outcome,
        }
    }
    panic!("it was not convicted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rescue_takes_out_exact_bytes_of_a_classic_queue() {
    check_rescue(QueueType::Classic).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rescue_takes_out_exact_bytes_of_a_quorum_queue() {
    check_rescue(QueueType::Quorum).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn browsing_poison_is_an_error_that_names_it_and_disturbs_nobody() {
    let bench = bench(QueueType::Classic).await;
    let (other, queue) = (bench.filled("other", 1).await, bench.created("q").await);
    raw::publish(&bench.naming, &queue, raw::header_with_content_type(1, BAD), b"x").await;
    let mut attached = bench.attached(&other, 1).await;
    let error = bench.broker.browse(&queue, 5).await.unwrap_err();
    assert!(error.to_string().contains("cannot be decoded"), "{error}");
    assert_eq!(take(&mut attached, 1).await, [1]);
    attached.close().await;
    bench.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_nested_eighteen_thousand_levels_deep_are_survived() {
    let bench = bench(QueueType::Classic).await;
    let queue = bench.created("q").await;
    // The stack that the program gives itself (and this repository's tests get) bears it.
    raw::publish(&bench.naming, &queue, raw::header_with_nesting(1, 18_000), b"1").await;
    bench.accepted(&queue, &numbered(2)).await;
    let mut attached = bench.attached(&queue, 1).await;
    let delivery = next(&mut attached).await;
    let mut value = delivery.message.header("deep").expect("the header");
    let mut levels = 0;
    while let HeaderValue::Table(table) = value {
        (levels, value) = (levels + 1, &table[0].1);
    }
    let HeaderValue::Other(shown) = value else {
        panic!("{value:?}")
    };
    assert!(
        levels < 100 && shown.starts_with(r#"{"k": {"k""#) && shown.len() < 2000,
        "{levels} {shown}"
    );
    attached.ack(delivery.tag).await;
    assert_eq!(take(&mut attached, 1).await, [2]);
    attached.close().await;
    bench.finish().await;
}
