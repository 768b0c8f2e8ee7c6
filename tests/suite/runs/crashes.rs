//! Crashes in the middle of what is not a plain redrive, and a way that closes in the middle of one.

use lapin::options::{BasicPublishOptions, ExchangeDeclareOptions, QueueBindOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, ExchangeKind};
use serde_json::json;

use super::scene::{BOUND, DEAD, ORIGIN, Scene, assert_run, numbers, reject};
use crate::support::daemon::Daemon;
use crate::support::wait::wait_until;

/// Messages of the largest window.
const WINDOW: u32 = 1_000;

/// Starts a run, kills the daemon once the dead-letter queue has as many as `middle` says, and has the next daemon
/// end it.
async fn killed_in_the_middle(scene: &Scene, route: &str, middle: impl Fn(u32) -> bool) {
    let mut daemon = scene.installation.daemon().await;
    let started = daemon.post(route, &json!({"all": true})).await;
    assert_eq!(started.status, 200, "{}", started.text());
    wait_until("the middle of the run", BOUND, async || {
        scene.ready(DEAD).await.is_some_and(&middle).then_some(())
    })
    .await;
    daemon.kill().await;
    let mut daemon: Daemon = scene.installation.daemon().await;
    let run = scene.run_is(&["done", "failed"]).await;
    assert_eq!((&run["state"], &run["done"]), (&"done".into(), &run["total"]), "{run}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_discarded_and_restored_survives_two_crashes() {
    let count = 4_000;
    let scene = Scene::sqlite().await;
    scene.die(count).await;
    killed_in_the_middle(&scene, "/v1/dead/discard", |ready| ready < count - 500).await;
    assert_eq!(scene.ready(DEAD).await, Some(0));
    killed_in_the_middle(&scene, "/v1/dead/restore", |ready| ready > 500).await;
    let mut back = numbers(&scene.take_all(DEAD).await);
    let taken = u32::try_from(back.len()).unwrap();
    back.sort_unstable();
    back.dedup();
    assert_eq!(back, (0..count).collect::<Vec<_>>(), "nothing is lost");
    assert!(taken - count <= WINDOW, "{} are there twice", taken - count);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edited_one_is_sent_as_edited_after_a_crash_too() {
    let scene = Scene::sqlite().await;
    scene.die(200).await;
    let shown = scene
        .run(&["dead", "list", "--limit", "200", "--json"])
        .await
        .expect_code(0)
        .json();
    let last = shown
        .as_array()
        .unwrap()
        .iter()
        .find(|letter| letter["message_id"] == "m-150");
    let id = last.unwrap()["id"].as_str().unwrap();
    let edit = [
        "dead",
        "edit",
        id,
        "--body-file",
        "-",
        "--header",
        "mended: yes",
        "--yes",
    ];
    scene.installation.run_with_input(&edit, b"7777").await.expect_code(0);
    let mut daemon = scene.installation.daemon().await;
    let order = json!({"all": true, "rate": 100});
    let started = daemon.post("/v1/dead/redrive", &order).await;
    assert_eq!(started.status, 200, "{}", started.text());
    wait_until("the middle of the run", BOUND, async || {
        (scene.ready(ORIGIN).await >= Some(50)).then_some(())
    })
    .await;
    daemon.kill().await;
    let mut daemon = scene.installation.daemon().await;
    let run = scene.run_is(&["done", "failed"]).await;
    assert_run(&run, "done", 200);
    assert_eq!(daemon.stop().await, Some(0));
    let taken = scene.take_all(ORIGIN).await;
    assert!(
        taken.len() <= 201,
        "paced: one twice at most, not {}",
        taken.len() - 200
    );
    assert!(taken.iter().any(|one| one.number == 7777 && one.has("mended")));
    assert!(taken.iter().all(|one| one.number != 150), "the original was sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_returned_in_the_middle_stays_where_it_was_and_is_said_to_be() {
    let scene = Scene::sqlite().await;
    let (_connection, channel) = scene.channel().await;
    scene.declare(&channel, DEAD, None).await;
    scene.declare(&channel, ORIGIN, Some(DEAD)).await;
    let (exchange, key) = ("shop", "order");
    let declaring = channel.exchange_declare(
        exchange.into(),
        ExchangeKind::Direct,
        ExchangeDeclareOptions::default(),
        FieldTable::default(),
    );
    declaring.await.unwrap();
    let (options, none) = (QueueBindOptions::default(), FieldTable::default());
    let binding = channel.queue_bind(ORIGIN.into(), exchange.into(), key.into(), options, none.clone());
    binding.await.unwrap();
    for number in 0..300 {
        let properties = BasicProperties::default().with_delivery_mode(2);
        let body = number.to_string();
        let publishing = channel.basic_publish(
            exchange.into(),
            key.into(),
            BasicPublishOptions::default(),
            body.as_bytes(),
            properties,
        );
        publishing.await.unwrap();
    }
    reject(&channel, ORIGIN, 300).await;
    wait_until("dead letters", BOUND, async || {
        (scene.ready(DEAD).await == Some(300)).then_some(())
    })
    .await;
    let paced = ["dead", "redrive", "--all", "--rate", "100", "--yes", "--json"];
    let closing = async {
        wait_until("some are sent", BOUND, async || {
            (scene.ready(ORIGIN).await >= Some(50)).then_some(())
        })
        .await;
        let unbinding = channel.queue_unbind(ORIGIN.into(), exchange.into(), key.into(), none);
        unbinding.await.unwrap();
    };
    let (outcome, ()) = tokio::join!(scene.run(&paced), closing);
    let run = outcome.expect_code(3).json();
    assert_eq!(run["state"], "done", "{run}");
    let (done, failed) = (run["done"].as_u64().unwrap(), run["failed"].as_u64().unwrap());
    assert!(done >= 50 && done + failed == 300, "{run}");
    assert_eq!(scene.ready(DEAD).await.map(u64::from), Some(failed));
    let shown = ["run", "show", run["id"].as_str().unwrap(), "--limit", "1000", "--json"];
    let shown = scene.run(&shown).await.expect_code(0).json();
    let returned = shown["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["state"] == "returned");
    assert!(returned.clone().count() > 0 && returned.clone().all(|item| item["reason"].is_string()));
    // Of the one in hand a copy may have arrived.
    let arrived = u64::from(scene.ready(ORIGIN).await.unwrap());
    assert!(
        arrived == done || arrived == done + 1,
        "{arrived} arrived, {done} are done"
    );
}
