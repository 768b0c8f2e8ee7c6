//! The store's settings or minimum version change under a daemon that runs: it stops, says why, and ends.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::scene::{BOUND, Scene, executions};
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

async fn execute(scene: &Scene, statement: &str) {
    let mut connection = PgConnection::connect(scene.postgres()).await.unwrap();
    let statement = AssertSqlSafe(statement.to_owned());
    sqlx::query(statement).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// The fingerprint that the store's daemons share.
async fn fingerprint(scene: &Scene) -> String {
    let mut connection = PgConnection::connect(scene.postgres()).await.unwrap();
    let found = sqlx::query_scalar("SELECT fingerprint FROM redrive.settings");
    let found = found.fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    found
}

/// `change` of the settings' row disowns the daemon, which says `words`; `back` undoes it.
async fn check(change: &str, words: &[&str], back: &str) {
    let scene = Scene::servers().await;
    scene
        .receiver
        .behave("*", Behaviour::Status(200).after(Duration::from_millis(100)));
    let mut daemon = scene.installation.daemon().await;
    let own = fingerprint(&scene).await;
    let statement = |change: &str| format!("UPDATE redrive.settings SET {}", change.replace("OWN", &own));
    scene.publish_all(&executions(5, 2), 80).await;
    scene.delivered(20).await;
    execute(&scene, &statement(change)).await;
    let ended = daemon.wait().await;
    assert_eq!(ended.code(), Some(78), "{}", daemon.log());
    let delivered = scene.receiver.delivered();
    assert!(delivered < 400, "it went on to the end");
    for word in words {
        assert!(daemon.log().contains(word), "no {word:?} in:\n{}", daemon.log());
    }
    execute(&scene, &statement(back)).await;
    let mut daemon = scene.installation.daemon().await;
    scene.finish(&mut [&mut daemon], 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_raised_minimum_version_ends_a_running_daemon_with_its_reason() {
    check(
        "minimum_version = 99000000",
        &["disowned", "demands version 99000000"],
        "minimum_version = 0",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_settings_in_the_store_end_a_running_daemon_with_its_reason() {
    check(
        "fingerprint = 'other'",
        &["disowned", "fingerprint other", "broker.url_hash_key"],
        "fingerprint = 'OWN'",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_with_other_settings_ousts_nobody_and_its_publishers_make_no_queue() {
    const KEY: &str = "the key of the first";
    let publish = ["publish", "--execution", "e", "--url", "http://127.0.0.1:9/"];
    let mut scene = Scene::servers().await;
    scene.installation.set("broker", "url_hash_key", KEY);
    let mut first = scene.installation.daemon().await;
    wait_until("the first daemon's settings", BOUND, async || {
        (!fingerprint(&scene).await.is_empty()).then_some(())
    })
    .await;
    let own = fingerprint(&scene).await;
    scene.installation.set("broker", "url_hash_key", "another key");
    refused(&scene).await;
    assert_eq!(fingerprint(&scene).await, own);
    // One that was killed is not waited for.
    first.kill().await;
    let mut second = scene.installation.daemon().await;
    assert_ne!(fingerprint(&scene).await, own);
    scene.installation.set("broker", "url_hash_key", KEY);
    let outcome = scene.installation.run(&publish).await.expect_code(78);
    assert!(outcome.stderr.contains("the queue is not made"), "{outcome:?}");
    refused(&scene).await;
    assert_eq!(told_of_settings(&scene).await, "broken");
    assert_eq!(second.stop().await, Some(0), "{}", second.log());
    // Nobody is alive, and no queue is there: the next daemon says whose settings hold.
    assert_eq!(told_of_settings(&scene).await, "warning");
    let outcome = scene.installation.run(&publish).await.expect_code(78);
    assert!(
        outcome.stderr.contains("start a daemon with these first"),
        "{outcome:?}"
    );
    let mut first = scene.installation.daemon().await;
    assert_eq!(fingerprint(&scene).await, own);
    scene.installation.run(&publish).await.expect_code(0);
    assert_eq!(first.stop().await, Some(0), "{}", first.log());
}

/// How bad it is for `doctor` that the store knows other settings.
async fn told_of_settings(scene: &Scene) -> String {
    let checks = scene.installation.run(&["doctor", "--json"]).await.json();
    let found = checks
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == "settings");
    let check = found.unwrap_or_else(|| panic!("no settings: {checks}"));
    assert!(check["found"].as_str().unwrap().contains("or had them last"), "{check}");
    check["result"].as_str().unwrap().to_owned()
}

/// A daemon does not start while one with other settings is alive.
async fn refused(scene: &Scene) {
    let mut daemon = scene.installation.spawn_daemon();
    let ended = daemon.wait().await;
    let log = daemon.log();
    assert_eq!(ended.code(), Some(78), "{log}");
    for word in [
        "works with other settings",
        "broker.url_hash_key",
        "stop that daemon first",
    ] {
        assert!(log.contains(word), "no {word:?} in:\n{log}");
    }
}
