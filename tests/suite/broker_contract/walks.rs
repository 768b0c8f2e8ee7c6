//! Walks: order, what stays in hand, what is given back.

use redrive::internals::broker::{Look, Returns, Walk, WalkOptions};
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::message::Message;

use super::bench::{Bench, full, numbered, take};

fn options(bench: &Bench) -> WalkOptions {
    WalkOptions {
        window_messages: 10,
        ..WalkOptions::new(Returns::of(bench.naming.queue_type, None))
    }
}

async fn walk(bench: &Bench, queue: &QueueName) -> Box<dyn Walk> {
    let walk = bench.broker.walk(queue, options(bench)).await.unwrap();
    walk.expect("the queue exists")
}

fn number(message: &Message) -> u64 {
    std::str::from_utf8(&message.body).unwrap().parse().unwrap()
}

/// Walks to the end and answers the numbers seen.
async fn to_the_end(walk: &mut Box<dyn Walk>) -> Vec<u64> {
    let mut seen = Vec::new();
    loop {
        let walked = walk.next(7).await.unwrap();
        if walked.is_empty() {
            assert!(!walk.is_cut());
            return seen;
        }
        assert!(walked.len() <= 7);
        for one in &walked {
            seen.push(number(&one.message));
            assert_eq!(one.position, seen.len() as u64);
        }
    }
}

pub(crate) async fn walking_passes_everything_in_order_and_gives_it_back(bench: &Bench) {
    let queue = bench.filled("q", 5).await;
    let mut walk = walk(bench, &queue).await;
    assert_eq!(to_the_end(&mut walk).await, [1, 2, 3, 4, 5]);
    bench.accepted(&queue, &numbered(6)).await;
    let late = walk.next(7).await.unwrap();
    assert_eq!(late.iter().map(|one| one.position).collect::<Vec<_>>(), [6]);
    walk.close().await.unwrap();
    let mut attached = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut attached, 6).await, [1, 2, 3, 4, 5, 6]);
    attached.close().await;
}

pub(crate) async fn walking_on_from_window_to_window_keeps_the_order(bench: &Bench) {
    let queue = bench.filled("q", 90).await;
    let all: Vec<u64> = (1..=90).collect();
    for whole in [false, true] {
        let options = WalkOptions {
            whole,
            ..options(bench)
        };
        let mut walk = bench.broker.walk(&queue, options).await.unwrap().unwrap();
        assert_eq!(to_the_end(&mut walk).await, all);
        walk.close().await.unwrap();
    }
    bench
        .wait_look(&queue, |look| {
            look == Look::Present {
                ready: 90,
                consumers: 0,
            }
        })
        .await;
    let mut attached = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut attached, 90).await, (1..=90).collect::<Vec<_>>());
    attached.close().await;
}

pub(crate) async fn what_a_walk_settles_is_gone_and_the_rest_keeps_its_place(bench: &Bench) {
    let queue = bench.filled("q", 40).await;
    let mut walk = walk(bench, &queue).await;
    let mut odd = Vec::new();
    loop {
        let walked = walk.next(7).await.unwrap();
        if walked.is_empty() {
            break;
        }
        odd.extend(
            walked
                .iter()
                .filter(|one| number(&one.message) % 2 == 1)
                .map(|one| one.tag),
        );
    }
    walk.settle(&odd).await.unwrap();
    walk.close().await.unwrap();
    bench.wait_ready(&queue, 20).await;
    let mut attached = bench.attached(&queue, 1).await;
    assert_eq!(
        take(&mut attached, 20).await,
        (1..=20).map(|n| n * 2).collect::<Vec<_>>()
    );
    attached.close().await;
}

pub(crate) async fn a_walk_that_settles_as_it_goes_empties_the_queue(bench: &Bench) {
    let queue = bench.filled("q", 90).await;
    let mut walk = walk(bench, &queue).await;
    let mut seen = Vec::new();
    loop {
        let walked = walk.next(5).await.unwrap();
        if walked.is_empty() {
            break;
        }
        seen.extend(walked.iter().map(|one| number(&one.message)));
        let tags: Vec<_> = walked.iter().map(|one| one.tag).collect();
        walk.settle(&tags).await.unwrap();
    }
    assert_eq!(seen, (1..=90).collect::<Vec<_>>());
    walk.close().await.unwrap();
    bench.wait_ready(&queue, 0).await;
}

pub(crate) async fn a_dropped_walk_gives_everything_back(bench: &Bench) {
    let queue = bench.filled("q", 5).await;
    let mut walk = walk(bench, &queue).await;
    assert_eq!(to_the_end(&mut walk).await.len(), 5);
    drop(walk);
    bench
        .wait_look(&queue, |look| look == Look::Present { ready: 5, consumers: 0 })
        .await;
}

pub(crate) async fn walking_a_missing_queue_finds_nothing(bench: &Bench) {
    let walk = bench.broker.walk(&bench.queue("none"), options(bench)).await.unwrap();
    assert!(walk.is_none());
}

pub(crate) async fn a_walked_message_is_as_it_was_published(bench: &Bench) {
    let queue = bench.created("q").await;
    bench.accepted(&queue, &full()).await;
    let mut walk = walk(bench, &queue).await;
    let walked = walk.next(10).await.unwrap();
    let mut message = walked[0].message.clone();
    message.headers.retain(|(name, _)| name != "x-delivery-count");
    assert_eq!(message, full());
    assert!(message.is_whole());
    walk.close().await.unwrap();
}
