//! What fails at once, each time, is tried again with pauses: neither the broker nor the log is flooded.

use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::{Connection, SqliteConnection};

use super::behind::Behind;
use crate::engine::stage::{BOUND, Ground, Stage};
use crate::support::daemon::Installation;
use crate::support::receiver::Receiver;
use crate::support::wait::wait_until;

/// Pauses double from 50 ms to two seconds, and each is between half and one and a half of that.
const SHORTEST: Duration = Duration::from_secs(1);
/// Tries until the pauses are that long.
const FIRST: usize = 7;

/// So many tries there may be in this time.
fn tries_max(span: Duration) -> usize {
    FIRST + usize::try_from(span.as_millis() / SHORTEST.as_millis()).unwrap()
}

/// The broker accepts each consume and closes its channel at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_whose_channels_are_closed_at_once_is_consumed_again_with_pauses() {
    let mut stage = Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await;
    let daemon = Behind::start(&stage).await;
    let broker = &daemon.broker;
    stage.publish_many("e", "/ok", 2).await;
    let tried = wait_until("nine tries", BOUND, async || {
        Some(broker.attached()).filter(|tried| tried.len() >= FIRST + 2)
    })
    .await;
    let took = tried[tried.len() - 1] - tried[0];
    assert!(tried.len() <= 1 + tries_max(took), "{} tries in {took:?}", tried.len());
    assert_eq!(stage.receiver.count(), 0);
    broker.heal();
    stage.delivered(2).await;
    daemon.stop().await;
    stage.assert_kept();
}

/// The disk takes no ack: the message comes again each time, and is known.
#[tokio::test(flavor = "multi_thread")]
async fn acks_that_the_disk_does_not_take_are_tried_again_with_pauses_and_sent_once() {
    const FAILS: &str = "CREATE TRIGGER no_acks BEFORE DELETE ON broker_message \
        BEGIN SELECT RAISE(ABORT, 'the disk is full'); END";
    let (at, receiver) = (Installation::embedded(), Receiver::start().await);
    let mut daemon = at.daemon().await;
    let url = format!("sqlite://{}", at.path("store.db").display());
    let mut file = SqliteConnection::connect(&url).await.unwrap();
    sqlx::raw_sql(FAILS).execute(&mut file).await.unwrap();
    let begun = Instant::now();
    let body = json!({"execution_id": "e", "url": receiver.url("/ok"), "body": "x"});
    assert_eq!(daemon.post("/v1/notifications", &body).await.status, 202);
    let failures = || daemon.log().matches("could not be settled").count();
    wait_until("nine failures", BOUND, async || (failures() >= FIRST + 2).then_some(())).await;
    let lines = daemon.log().lines().count();
    let span = begun.elapsed();
    assert!(failures() <= 1 + tries_max(span), "{} failures in {span:?}", failures());
    // One line says that it failed, another that the queue is consumed again.
    assert!(
        lines <= 20 + 3 * tries_max(span),
        "{lines} lines in {span:?}:\n{}",
        daemon.log()
    );
    assert_eq!(receiver.count(), 1, "it was acked before");
    sqlx::raw_sql("DROP TRIGGER no_acks").execute(&mut file).await.unwrap();
    file.close().await.unwrap();
    assert_eq!(daemon.post("/v1/notifications", &body).await.status, 202);
    wait_until("the next one", BOUND, async || {
        (receiver.delivered() == 2).then_some(())
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}
