//! Rule 33, for those who deliver nothing: a publisher judges by the set that a daemon keeps in the store.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redrive::internals::ambient::Clock;
use redrive::internals::broker::{BrokerHandle, Look};
use redrive::internals::engine::Engine;
use serde_json::json;

use super::rules::{HEEDED, is_refusing, policy, refused_by};
use crate::engine::stage::{BOUND, Ground, Stage, notification, sender};
use crate::support::daemon::Installation;
use crate::support::servers::Vhost;
use crate::support::wait::wait_until;

/// An engine of another process, which only publishes.
async fn publisher(stage: &Stage) -> (Engine, BrokerHandle) {
    let (store, broker) = stage.ground.place().open(&stage.settings.naming).await;
    let settings = stage.settings.clone();
    let engine = Engine::new(store, broker.clone(), sender(&settings), settings, Clock::system());
    (engine, broker)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_without_a_daemon_of_its_own_refuses_by_the_set_in_the_store_while_that_is_young() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |_| {}).await;
    let (other, broker) = publisher(&stage).await;
    stage.publish("a", "/ok").await;
    wait_until("a set in the store", BOUND, async || {
        stage.store.broker_policies_kept().await.unwrap()
    })
    .await;
    let judged = other.publish(notification("a", stage.url("/ok"), 2, "judged")).await;
    assert_eq!(judged.unwrap().warning, None);
    stage.delivered(2).await;
    policy(&stage, Some(json!({"expires": 3_600_000}))).await;
    wait_until("the queue to be marked", HEEDED, async || {
        is_refusing(&stage, "a", "/ok").await.then_some(())
    })
    .await;
    let why = refused_by(&other, &stage, "a", "/ok").await;
    assert!(why.contains("takes no publishes") && why.contains("meddling"), "{why}");
    // It reads the set once a second: each of these is a queue that is about to be made.
    let asked = AtomicU32::new(0);
    let why = wait_until("the other process to know the set", HEEDED, async || {
        let name = format!("new-{}", asked.fetch_add(1, Ordering::Relaxed));
        let new = notification(&name, stage.url("/ok"), 1, "new");
        let refused = other.publish(new).await.err()?;
        let is_unmade = broker.look(&stage.queue(&name, "/ok")).await.unwrap() == Look::Missing;
        is_unmade.then(|| redrive::internals::engine::error::chain(&refused))
    })
    .await;
    assert!(why.contains("meddling") && why.contains("expires"), "{why}");
    let unmade = stage.queue("later", "/ok");
    refused_by(&other, &stage, "later", "/ok").await;
    assert_eq!(broker.look(&unmade).await.unwrap(), Look::Missing);
    // Nobody keeps the set any more, and it is too old to be believed.
    stage.stop().await;
    stage
        .tamper("UPDATE TABLE.broker_policies SET taken_at = taken_at - 16000000")
        .await;
    let receipt = wait_until("the old set to be told from a young one", BOUND, async || {
        let new = notification("later", stage.url("/ok"), 1, "later");
        other.publish(new).await.ok()
    })
    .await;
    let warning = receipt.warning.expect("it says so");
    assert!(
        warning.contains("policies") && warning.contains("no daemon has read them"),
        "{warning}"
    );
    assert!(matches!(
        broker.look(&unmade).await.unwrap(),
        Look::Present { ready: 1, .. }
    ));
    other.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_says_whether_it_judged_what_it_published() {
    let vhost = Vhost::create().await;
    let installation = Installation::on_rabbit(&vhost);
    let mut daemon = installation.daemon().await;
    let publish = [
        "publish",
        "--execution",
        "run",
        "--url",
        "http://127.0.0.1:9/",
        "--json",
    ];
    wait_until("a publish that was judged", Duration::from_secs(20), async || {
        let outcome = installation.run(&publish).await.expect_code(0);
        (outcome.json().get("warning").is_none() && !outcome.stderr.contains("policies")).then_some(())
    })
    .await;
    let body = json!({"pattern": "^redrive\\.", "apply-to": "queues", "definition": {"expires": 3_600_000}});
    let path = format!("/api/policies/{}/meddling", vhost.name);
    vhost.manage("PUT", &path, Some(&body)).await;
    wait_until("the command to refuse", HEEDED * 2, async || {
        let outcome = installation.run(&publish).await;
        outcome.stderr.contains("meddling").then_some(())
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    vhost.manage("DELETE", &path, None).await;
    let outcome = wait_until("the set to be too old", BOUND, async || {
        let publish = [
            "publish",
            "--execution",
            "later",
            "--url",
            "http://127.0.0.1:9/",
            "--json",
        ];
        let outcome = installation.run(&publish).await;
        (outcome.code == Some(0)).then_some(outcome)
    })
    .await;
    let warning = outcome.json()["warning"].as_str().expect("a warning").to_owned();
    assert!(warning.contains("no daemon has read them"), "{warning}");
    assert!(outcome.stderr.contains(&warning), "{}", outcome.stderr);
}

/// A daemon that cannot read the policies takes publishes all the same, and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_says_that_it_could_not_judge_what_it_published() {
    let vhost = Vhost::create().await;
    let mut installation = Installation::on_rabbit(&vhost);
    installation.set("broker", "management_url", "http://127.0.0.1:9");
    let mut daemon = installation.daemon().await;
    let new = json!({"execution_id": "run", "url": "http://127.0.0.1:9/", "body": 1});
    let answer = daemon.post("/v1/notifications", &new).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let warning = answer.json()["warning"].as_str().expect("a warning").to_owned();
    assert!(warning.contains("no daemon has read them yet"), "{warning}");
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}
