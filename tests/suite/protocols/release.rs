//! Rule 24: what is published while a worker lets go is found.

use std::time::{Duration, Instant};

use crate::engine::stage::{Ground, Stage};
use crate::support::wait::{at_moment, patient, wait_until};

/// Publishes at moments around the end of the linger time, when the worker lets go of its empty queue.
async fn found_at_once(ground: Ground, rounds: u64) {
    let mut stage = Stage::on(ground, |settings| settings.linger = Duration::from_millis(40)).await;
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        stage.publish("a", "/ok").await;
        let published = Instant::now();
        let wanted = usize::try_from(round).unwrap() + 1;
        wait_until(&format!("message {wanted}"), Duration::from_secs(10), async || {
            (stage.receiver.delivered() >= wanted).then_some(())
        })
        .await;
        slowest = slowest.max(published.elapsed());
        at_moment(Duration::from_millis(25 + (round * 7) % 40)).await;
    }
    assert!(
        slowest < patient(Duration::from_millis(2_500)),
        "a message waited {slowest:?}"
    );
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_published_while_its_queue_is_released_is_found() {
    found_at_once(Ground::rabbit_sqlite().await, 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_published_while_its_queue_is_released_is_found_with_the_embedded_broker() {
    found_at_once(Ground::embedded(), 60).await;
}
