//! Quorum queues put what they get back behind what they got back before: looks and runs keep the order all the same.

use redrive::internals::domain::id::QueueName;
use serde_json::json;

use super::scene::{BOUND, DEAD, Scene};
use crate::faults::scene::Scene as Delivering;
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

/// The ids of the first dead letters of the list, which has no order where all died at once.
async fn some_letters(scene: &Scene, count: usize) -> Vec<String> {
    let listed = scene
        .run(&["dead", "list", "--limit", "1000", "--json"])
        .await
        .expect_code(0)
        .json();
    let ids = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|letter| letter["id"].as_str().unwrap().to_owned());
    ids.take(count).collect()
}

async fn numbers(scene: &Scene) -> Vec<u32> {
    scene.take_all(DEAD).await.iter().map(|taken| taken.number).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_run_leaves_in_a_queue_that_was_looked_at_stays_in_its_order() {
    let scene = Scene::sqlite().await.with_quorum_queues();
    scene.die(100).await;
    let ids = some_letters(&scene, 4).await;
    let discard: Vec<&str> = ["dead", "discard", "--yes"]
        .into_iter()
        .chain(ids.iter().map(String::as_str))
        .collect();
    scene.run(&discard).await.expect_code(0);
    scene
        .run(&["queue", "browse", DEAD, "--limit", "3"])
        .await
        .expect_code(0);
    let left = numbers(&scene).await;
    assert!(left.is_sorted() && left.len() == 96, "{left:?}");
}

/// Until it was sent as often.
async fn tried(scene: &Delivering, id: &str, times: usize) {
    wait_until("another attempt", BOUND, async || {
        let seen = scene.receiver.seen();
        (seen.iter().filter(|seen| seen.id == id).count() >= times).then_some(())
    })
    .await;
}

async fn browsed(scene: &Delivering, queue: &QueueName) -> Vec<String> {
    let browse = ["queue", "browse", queue.as_str(), "--limit", "4", "--json"];
    let browsed = scene.installation.run(&browse).await.expect_code(0).json();
    let id = |one: &serde_json::Value| one["message_id"].as_str().unwrap().to_owned();
    browsed.as_array().unwrap().iter().map(id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_looks_at_a_queue_whose_head_fails_or_skips_it_brings_nothing_out_of_order() {
    let mut scene = Delivering::servers().await.with_quorum_queues();
    let hasty = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 100, "minimum_delay": 1, "maximum_delay": 2,
        "maximum_delay_retries": 1, "backoff_retries": 0
    });
    scene.installation.set("delivery", "retry_policy", hasty);
    scene.receiver.behave("*", Behaviour::Status(500));
    let mut daemon = scene.installation.daemon().await;
    let queue = scene.queue("run", "/hook");
    for number in 1..=5 {
        scene.publish("run", "/hook", number).await;
    }
    tried(&scene, "run-1", 1).await;
    assert_eq!(
        browsed(&scene, &queue).await,
        ["run-1"],
        "only the head of a quorum queue is looked at"
    );
    tried(&scene, "run-1", 3).await;
    let skip = ["queue", "skip", queue.as_str(), "--to", "dead", "--yes"];
    scene.installation.run(&skip).await.expect_code(0);
    tried(&scene, "run-2", 2).await;
    assert_eq!(browsed(&scene, &queue).await, ["run-2"]);
    tried(&scene, "run-2", 4).await;
    scene.receiver.behave("*", Behaviour::Status(200));
    scene.delivered(4).await;
    let seen = scene.receiver.seen();
    let delivered: Vec<&str> = seen
        .iter()
        .filter(|seen| seen.status == Some(200))
        .map(|seen| seen.id.as_str())
        .collect();
    assert_eq!(delivered, ["run-2", "run-3", "run-4", "run-5"]);
    let others = seen.iter().filter(|seen| seen.status == Some(500));
    assert!(
        others
            .into_iter()
            .all(|seen| ["run-1", "run-2"].contains(&seen.id.as_str()))
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_queue_is_moved_only_while_nothing_is_delivered_from_it() {
    let scene = Delivering::servers().await.with_quorum_queues();
    scene.receiver.behave("*", Behaviour::Status(500));
    let mut daemon = scene.installation.daemon().await;
    let queue = scene.queue("run", "/hook");
    for number in 1..=3 {
        scene.publish("run", "/hook", number).await;
    }
    tried(&scene, "run-1", 1).await;
    let graves = scene.naming().dead_letter_queue();
    let arguments = ["queue", "move", queue.as_str(), "--to", &graves, "--yes"];
    let refused = scene.installation.run(&arguments).await.expect_code(5);
    assert!(refused.stderr.contains("redrive queue pause"), "{refused:?}");
    let pause = ["queue", "pause", queue.as_str(), "--yes"];
    scene.installation.run(&pause).await.expect_code(0);
    scene.installation.run(&arguments).await.expect_code(0);
    assert_eq!(scene.ready(&queue).await, 0);
    assert_eq!(daemon.stop().await, Some(0));
}
