//! Delivery queues that are quorum queues: RabbitMQ puts what comes back behind what came back before, and looks beside
//! a head that fails keep the order all the same.

use redrive::internals::domain::id::QueueName;
use serde_json::json;

use super::scene::BOUND;
use crate::faults::scene::Scene;
use crate::support::daemon::Daemon;
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

/// Until it was sent as often.
async fn tried(scene: &Scene, id: &str, times: usize) {
    wait_until("another attempt", BOUND, async || {
        let seen = scene.receiver.seen();
        (seen.iter().filter(|seen| seen.id == id).count() >= times).then_some(())
    })
    .await;
}

/// A queue with so many messages, of which the first was tried.
async fn with_a_head_that_fails(scene: &Scene, messages: u32) -> (Daemon, QueueName) {
    scene.receiver.behave("*", Behaviour::Status(500));
    let daemon = scene.installation.daemon().await;
    for number in 1..=messages {
        scene.publish("run", "/hook", number).await;
    }
    tried(scene, "run-1", 1).await;
    (daemon, scene.queue("run", "/hook"))
}

async fn browsed(scene: &Scene, queue: &QueueName) -> Vec<String> {
    let browse = ["queue", "browse", queue.as_str(), "--limit", "4", "--json"];
    let browsed = scene.installation.run(&browse).await.expect_code(0).json();
    let id = |one: &serde_json::Value| one["message_id"].as_str().unwrap().to_owned();
    browsed.as_array().unwrap().iter().map(id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_looks_at_a_queue_whose_head_fails_or_skips_it_brings_nothing_out_of_order() {
    let mut scene = Scene::servers().await.with_quorum_queues();
    let hasty = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 100, "minimum_delay": 1, "maximum_delay": 2,
        "maximum_delay_retries": 1, "backoff_retries": 0
    });
    scene.installation.set("delivery", "retry_policy", hasty);
    let (mut daemon, queue) = with_a_head_that_fails(&scene, 5).await;
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
    let mut failed = seen.iter().filter(|seen| seen.status == Some(500));
    assert!(failed.all(|seen| ["run-1", "run-2"].contains(&seen.id.as_str())));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_queue_is_moved_only_while_nothing_is_delivered_from_it() {
    let scene = Scene::servers().await.with_quorum_queues();
    let (mut daemon, queue) = with_a_head_that_fails(&scene, 3).await;
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
