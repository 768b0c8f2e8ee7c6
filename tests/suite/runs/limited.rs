//! Runs over a dead-letter queue that counts each look as a delivery, and drops a message that had too many.

use lapin::Channel;
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable, LongString};

use super::scene::{BOUND, DEAD, ORIGIN, Scene, numbers, publish, reject};
use crate::support::wait::wait_until;

async fn limited_queue(channel: &Channel, limit: i32) {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(LongString::from("quorum")));
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(limit));
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel.queue_declare(DEAD.into(), durable, arguments).await.unwrap();
}

/// `count` dead letters in a queue of that limit.
async fn dead(scene: &Scene, limit: i32, count: u32) {
    let (connection, channel) = scene.channel().await;
    limited_queue(&channel, limit).await;
    scene.declare(&channel, ORIGIN, Some(DEAD)).await;
    publish(&channel, ORIGIN, 0..count).await;
    reject(&channel, ORIGIN, count).await;
    connection.close(200, "done".into()).await.unwrap();
    wait_until("dead letters", BOUND, async || {
        (scene.ready(DEAD).await == Some(count)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_take_no_delivery_of_what_was_seen_and_say_what_the_run_takes() {
    let scene = Scene::sqlite().await;
    dead(&scene, 3, 4).await;
    let plan = ["dead", "redrive", "--all", "--dry-run", "--json"];
    // More plans than deliveries.
    for _ in 0..5 {
        let plan = scene.run(&plan).await.expect_code(0).json();
        assert_eq!(plan["run"]["total"], 4, "{plan}");
        let warned = plan["warnings"].to_string();
        assert!(warned.contains("drops a message after 3 deliveries"), "{warned}");
    }
    scene.run(&["dead", "redrive", "--all", "--yes"]).await.expect_code(0);
    assert_eq!(numbers(&scene.take_all(ORIGIN).await), [0, 1, 2, 3]);
    assert_eq!(scene.ready(DEAD).await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn near_the_limit_a_run_is_refused_and_nothing_is_dropped() {
    let scene = Scene::sqlite().await;
    dead(&scene, 2, 3).await;
    let run = scene
        .run(&["dead", "redrive", "--all", "--yes", "--json"])
        .await
        .expect_code(1)
        .json();
    assert_eq!((&run["failed"], &run["done"]), (&3.into(), &0.into()), "{run}");
    assert_eq!(numbers(&scene.take_all(DEAD).await), [0, 1, 2]);
}
