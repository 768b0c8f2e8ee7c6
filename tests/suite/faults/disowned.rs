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
async fn a_daemon_whose_settings_were_replaced_does_not_take_them_back() {
    let mut scene = Scene::servers().await;
    let mut first = scene.installation.daemon().await;
    wait_until("the first daemon's settings", BOUND, async || {
        (fingerprint(&scene).await == scene.naming().fingerprint()).then_some(())
    })
    .await;
    scene.installation.set("broker", "url_hash_key", "another key");
    let mut second = scene.installation.daemon().await;
    assert_eq!(first.wait().await.code(), Some(78), "{}", first.log());
    let log = first.log();
    assert!(
        log.contains("use other settings now") && log.contains("broker.url_hash_key"),
        "{log}"
    );
    assert_ne!(fingerprint(&scene).await, scene.naming().fingerprint());
    assert_eq!(second.stop().await, Some(0), "{}", second.log());
}
