//! Dead letters of our own delivery, and the heads of delivery queues.

use std::time::Duration;

use serde_json::json;

use crate::faults::scene::{BOUND, Scene};
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

/// What the receiver saw answered with a 2xx, in order.
fn delivered(scene: &Scene) -> Vec<String> {
    let seen = scene.receiver.seen();
    seen.iter()
        .filter(|seen| seen.status == Some(200))
        .map(|seen| seen.id.clone())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_ones_are_redriven_before_what_waits_when_asked() {
    let scene = Scene::servers().await;
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    let queue = scene.queue("run", "/hook");
    for number in 1..=2 {
        scene.publish("run", "/hook", number).await;
    }
    let dead = redrive::domain::id::QueueName::parse(&scene.naming().dead_letter_queue()).unwrap();
    wait_until("two dead letters", BOUND, async || {
        (scene.ready(&dead).await == 2).then_some(())
    })
    .await;
    scene
        .installation
        .run(&["queue", "pause", queue.as_str(), "--yes"])
        .await
        .expect_code(0);
    // Paused is said once its worker has let go.
    wait_until("a queue that is let go", BOUND, async || {
        let row = daemon.get(&format!("/v1/queues/{}", queue.as_str())).await.json();
        (row["state"] == "paused").then_some(())
    })
    .await;
    scene.publish("run", "/hook", 3).await;
    scene.receiver.behave("*", Behaviour::Status(200));
    let started = daemon
        .post("/v1/dead/redrive", &json!({"all": true, "head": true}))
        .await;
    assert_eq!(started.status, 200, "{}", started.text());
    let id = started.json()["id"].as_str().unwrap().to_owned();
    let run = wait_until("its end", BOUND, async || {
        let run = daemon.get(&format!("/v1/runs/{id}")).await.json();
        (run["state"] == "done").then_some(run)
    })
    .await;
    assert_eq!(run["done"], 2, "{run}");
    scene
        .installation
        .run(&["queue", "resume", queue.as_str(), "--yes"])
        .await
        .expect_code(0);
    scene.delivered(3).await;
    assert_eq!(delivered(&scene), ["run-1", "run-2", "run-3"]);
    let companion = redrive::domain::id::QueueName::parse(&scene.naming().companion(&queue)).unwrap();
    wait_until("no companion", BOUND, async || {
        let listed = scene
            .installation
            .run(&["queues", "--json"])
            .await
            .expect_code(0)
            .json();
        let has = listed.as_array()?.iter().any(|row| row["name"] == companion.as_str());
        (!has).then_some(())
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_waits_is_skipped_to_the_dead_letters() {
    let mut scene = Scene::servers().await;
    let patient = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 1, "minimum_delay": 600, "maximum_delay": 600,
        "maximum_delay_retries": 1, "backoff_retries": 0
    });
    scene.installation.set("delivery", "retry_policy", patient);
    // The message's own fault: the queue waits alone.
    scene.receiver.behave("*", Behaviour::Status(500));
    let mut daemon = scene.installation.daemon().await;
    let queue = scene.queue("run", "/hook");
    for number in 1..=2 {
        scene.publish("run", "/hook", number).await;
    }
    wait_until("a head that waits", BOUND, async || {
        scene.why(&queue).await["head"].is_object().then_some(())
    })
    .await;
    scene.receiver.behave("*", Behaviour::Status(200).after(Duration::ZERO));
    scene
        .installation
        .run(&["queue", "skip", queue.as_str(), "--to", "dead", "--yes"])
        .await
        .expect_code(0);
    scene
        .installation
        .run(&["redeliver", "--all", "--yes"])
        .await
        .expect_code(0);
    scene.delivered(1).await;
    assert_eq!(delivered(&scene), ["run-2"]);
    let dead = redrive::domain::id::QueueName::parse(&scene.naming().dead_letter_queue()).unwrap();
    assert_eq!(scene.ready(&dead).await, 1);
    assert_eq!(daemon.stop().await, Some(0));
}
