//! What a walk asks for before anybody wants it.

use redrive::internals::broker::{Returns, Walk, WalkOptions};
use redrive::internals::domain::id::QueueName;

use super::bench::{classic, quorum};
use crate::broker_contract::bench::{Bench, numbered, take};

const MESSAGES: u32 = 90;
/// Messages of the first window, and of the next.
const FIRST: u32 = 8;
const WINDOW: u32 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_window_of_a_whole_walk_comes_while_its_caller_works() {
    let bench = classic().await;
    let queue = bench.filled("q", MESSAGES).await;
    let options = WalkOptions {
        window_messages: WINDOW,
        whole: true,
        ..WalkOptions::new(Returns::InPlace)
    };
    let mut walk = bench.broker.walk(&queue, options).await.unwrap().unwrap();
    for _ in 0..FIRST {
        assert_eq!(walk.next(1).await.unwrap().len(), 1);
    }
    bench.wait_ready(&queue, (MESSAGES - FIRST - WINDOW).into()).await;
    walk.close().await.unwrap();
    bench.wait_ready(&queue, MESSAGES.into()).await;
    bench.finish().await;
}

async fn walk(bench: &Bench, queue: &QueueName, options: WalkOptions) -> Box<dyn Walk> {
    bench.broker.walk(queue, options).await.unwrap().unwrap()
}

/// Walks to the end, and gives all back; answers how many were delivered before.
async fn walked_over(bench: &Bench, queue: &QueueName) -> usize {
    let mut walk = walk(bench, queue, WalkOptions::new(Returns::InTurn)).await;
    let mut again = 0;
    loop {
        let walked = walk.next(1_000).await.unwrap();
        if walked.is_empty() {
            break;
        }
        again += walked.iter().filter(|one| one.redelivered).count();
    }
    walk.close().await.unwrap();
    again
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_that_ends_early_keeps_the_order_of_a_quorum_queue_however_it_ends() {
    let bench = quorum().await;
    let queue = bench.filled("q", MESSAGES).await;
    assert_eq!(walked_over(&bench, &queue).await, 0);
    for is_closed in [true, false] {
        let mut early = walk(&bench, &queue, WalkOptions::new(Returns::InTurn)).await;
        assert_eq!(early.next(1).await.unwrap().len(), 1);
        if is_closed {
            early.close().await.unwrap();
        } else {
            drop(early);
        }
        bench.wait_ready(&queue, MESSAGES.into()).await;
    }
    let mut attached = bench.attached(&queue, 1).await;
    let expected: Vec<u32> = (1..=MESSAGES).collect();
    assert_eq!(take(&mut attached, MESSAGES).await, expected);
    attached.close().await;
    bench.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_of_a_quorum_queue_that_ends_early_touches_nothing_behind_what_was_given_back_before() {
    let bench = quorum().await;
    let queue = bench.filled("q", MESSAGES).await;
    for _ in 0..2 {
        let mut early = walk(&bench, &queue, WalkOptions::new(Returns::InTurn)).await;
        assert_eq!(early.next(1).await.unwrap().len(), 1);
        early.close().await.unwrap();
        bench.wait_ready(&queue, MESSAGES.into()).await;
    }
    let again = walked_over(&bench, &queue).await;
    assert!(again < MESSAGES as usize, "{again}");
    bench.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_that_takes_so_many_at_most_gives_back_no_message_behind_them() {
    const TAKEN: usize = 70;
    let bench = quorum().await;
    let queue = bench.filled("q", MESSAGES).await;
    let options = WalkOptions {
        at_most: Some(TAKEN as u64),
        ..WalkOptions::new(Returns::InTurn)
    };
    let mut walk = walk(&bench, &queue, options).await;
    let mut taken = 0;
    while taken < TAKEN {
        // Some of a window are settled while others of it wait to be taken.
        let walked = walk.next(5).await.unwrap();
        taken += walked.len();
        let tags: Vec<_> = walked.iter().map(|one| one.tag).collect();
        walk.settle(&tags).await.unwrap();
        bench.accepted(&queue, &numbered(MESSAGES + 1)).await;
    }
    assert!(walk.next(5).await.unwrap().is_empty());
    walk.close().await.unwrap();
    assert_eq!(taken, TAKEN);
    assert_eq!(walked_over(&bench, &queue).await, 0, "nobody had one of the others");
    bench.finish().await;
}
