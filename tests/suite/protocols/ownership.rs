//! Rules 1 to 5 and 7: who holds a queue, how its death is known, and how it stops by itself.

use std::time::Duration;

use redrive::engine::EngineError;

use super::life::Life;
use crate::engine::stage::{BOUND, Ground, Stage};
use crate::support::receiver::{Attempt, Behaviour};
use crate::support::servers::{Database, PrivatePostgres, Vhost};
use crate::support::wait::{stays_absent, wait_until};

/// A daemon dies with messages in hand; another takes its queues over.
async fn takes_over(ground: Ground, bound: Duration) {
    let mut stage = Stage::quiet(ground, |_| {}).await;
    stage
        .receiver
        .behave("/ok", Behaviour::Status(200).after(Duration::from_millis(30)));
    for n in 0..8 {
        stage.publish_many(&format!("e{n}"), "/ok", 12).await;
    }
    let life = Life::start(&stage);
    stage.delivered(20).await;
    life.crash();
    let before = stage.receiver.attempts().iter().filter_map(Attempt::epoch).max();
    stage.start();
    wait_until("everything of the dead daemon", bound, async || {
        (stage.receiver.delivered() >= 96).then_some(())
    })
    .await;
    stage.stop().await;
    let after = stage.receiver.attempts().iter().filter_map(Attempt::epoch).max();
    assert!(after > before, "the new owner has a higher epoch: {after:?} {before:?}");
    stage.history.faults_of_all = 1;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_daemons_queues_are_taken_over_at_once_where_its_file_lock_is_free() {
    takes_over(Ground::rabbit_sqlite().await, Duration::from_secs(20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_daemons_queues_are_taken_over_within_seconds_where_its_session_is_gone() {
    takes_over(Ground::rabbit_postgres().await, Duration::from_secs(30)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_daemons_queues_are_taken_over_with_the_embedded_broker() {
    takes_over(Ground::embedded(), Duration::from_secs(20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_daemons_share_the_queues_and_no_queue_has_two_workers() {
    let mut stage = Stage::on(Ground::rabbit_postgres().await, |settings| {
        settings.workers = 4;
        settings.linger = Duration::from_millis(50);
    })
    .await;
    stage
        .receiver
        .behave("*", Behaviour::Status(200).after(Duration::from_millis(10)));
    let life = Life::start(&stage);
    for _ in 0..10 {
        for n in 0..12 {
            stage.publish(&format!("e{n}"), &format!("/{}", n % 3)).await;
        }
    }
    stage.delivered(120).await;
    life.stop().await.unwrap();
    stage.stop().await;
    stage.assert_kept();
}

/// Nothing can be read from the store or written to it; deliveries that need neither go on for as long as
/// others cannot take the queues, and no longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_store_does_not_answer_stops_by_itself_and_goes_on_when_it_does() {
    let postgres = PrivatePostgres::start().await;
    let ground = Ground::RabbitPostgres {
        vhost: Vhost::create().await,
        database: Database::create_on(&postgres.url).await,
    };
    let mut stage = Stage::on(ground, |settings| {
        settings.take_over = Duration::from_secs(6);
        settings.request_timeout = Duration::from_secs(1);
    })
    .await;
    stage
        .receiver
        .behave("/ok", Behaviour::Status(200).after(Duration::from_millis(100)));
    for n in 0..4 {
        stage.publish_many(&format!("e{n}"), "/ok", 100).await;
    }
    stage.delivered(8).await;
    postgres.freeze().await;
    let frozen = std::time::Instant::now();
    // Six seconds less two deadlines after the last heartbeat.
    let mut last = stage.receiver.count();
    let mut still = std::time::Instant::now();
    wait_until("the attempts to stop", Duration::from_secs(15), async || {
        let now = stage.receiver.count();
        if now != last {
            (last, still) = (now, std::time::Instant::now());
        }
        (still.elapsed() >= Duration::from_secs(1)).then_some(())
    })
    .await;
    let attempts = stage.receiver.attempts();
    let latest = attempts.iter().map(|attempt| attempt.started_at).max().unwrap();
    assert!(
        latest.saturating_duration_since(frozen) <= Duration::from_millis(4_500),
        "an attempt began {:?} after the store fell silent",
        latest.saturating_duration_since(frozen)
    );
    assert!(stage.receiver.delivered() < 400, "nothing was left to go on with");
    let silent = stage.receiver.count();
    stays_absent("an attempt while fenced", Duration::from_secs(4), async || {
        (stage.receiver.count() > silent).then_some(())
    })
    .await;
    postgres.thaw().await;
    wait_until("it to go on", Duration::from_secs(15), async || {
        (stage.receiver.count() > silent).then_some(())
    })
    .await;
    wait_until("all of it", BOUND, async || {
        (stage.receiver.delivered() >= 400).then_some(())
    })
    .await;
    stage.stop().await;
    stage.history.faults_of_all = 1;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_with_other_settings_does_not_begin_and_says_which_must_stay() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |_| {}).await;
    stage.publish("a", "/ok").await;
    stage.delivered(1).await;
    let settings = stage.settings.clone();
    stage.settings.naming.url_hash_key = "another key".to_owned();
    let mut other = Life::start(&stage);
    let error = other.result().await.unwrap_err();
    let EngineError::Refused { why } = &error else {
        panic!("{error:?}")
    };
    assert!(
        why.contains("url_hash_key") && why.contains("1 delivery queues"),
        "{why}"
    );
    stage.settings = settings;
    stage.publish("a", "/ok").await;
    stage.delivered(2).await;
    stage.stop().await;
    stage.assert_kept();
}
