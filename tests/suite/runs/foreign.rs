//! What commands say of the queues of other applications.

use std::time::{SystemTime, UNIX_EPOCH};

use lapin::BasicProperties;
use serde_json::Value;

use super::error_queues::{given_up, graves, queues};
use super::scene::{BOUND, Scene};
use crate::support::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_of_others_is_explained_in_a_sentence_and_its_messages_are_no_broken_notifications() {
    let scene = Scene::sqlite().await;
    queues(&scene, &["emails"]).await;
    for _ in 0..2 {
        given_up(&scene, "emails", BasicProperties::default(), &[], "hello").await;
    }
    let parts = [
        "redrive does not deliver from it: it is of other applications; nobody consumes it",
        ": 2 messages wait",
    ];
    wait_until("the sentence with what the broker counts", BOUND, async || {
        let why = scene.run(&["queue", "why", "emails"]).await.expect_code(0).stdout;
        parts.iter().all(|part| why.contains(part)).then_some(())
    })
    .await;
    let answer = scene
        .run(&["queue", "why", "emails", "--json"])
        .await
        .expect_code(0)
        .json();
    assert!(
        answer["text"]
            .as_str()
            .is_some_and(|text| text.contains("does not deliver")),
        "{answer}"
    );
    let browsed = scene.run(&["queue", "browse", "emails"]).await.expect_code(0).stdout;
    assert!(
        browsed.contains("hello") && !browsed.contains("x-redrive-url"),
        "{browsed}"
    );
    assert!(!browsed.contains("notification"), "{browsed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_of_others_that_dead_letters_end_in_is_a_dead_letter_queue_in_every_list() {
    let scene = Scene::sqlite().await;
    graves(&scene).await;
    queues(&scene, &["billing_error", "emails"]).await;
    let kinds = [
        ("grave", "dead_letter"),
        ("billing_error", "dead_letter"),
        ("emails", "foreign"),
        ("work", "foreign"),
    ];
    let listed = scene.run(&["queues", "--json"]).await.expect_code(0).json();
    assert_kinds(&listed, &kinds);
    let dead = ["queues", "--filter", "kind = dead_letter", "--json"];
    let dead = scene.run(&dead).await.expect_code(0).json();
    assert_kinds(&dead, &kinds[..2]);
    let why = scene.run(&["queue", "why", "grave"]).await.expect_code(0).stdout;
    assert!(why.contains("it keeps dead letters"), "{why}");
    let daemon = scene.installation.daemon().await;
    let queue = wait_until("an answer about the queue", BOUND, async || {
        let answer = daemon.get("/v1/queues/grave").await;
        (answer.status == 200).then(|| answer.json())
    })
    .await;
    assert_eq!(queue["kind"], "dead_letter", "{queue}");
    assert_kinds(&daemon.get("/v1/queues").await.json()["items"], &kinds);
}

fn assert_kinds(listed: &Value, kinds: &[(&str, &str)]) {
    for (name, kind) in kinds {
        let found = listed.as_array().unwrap().iter().find(|queue| queue["name"] == *name);
        assert_eq!(
            found.map(|queue| &queue["kind"]),
            Some(&Value::from(*kind)),
            "{name} in {listed}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_whose_age_is_unknown_come_last_whichever_way_they_are_sorted() {
    let scene = Scene::sqlite().await;
    queues(&scene, &["a-empty", "old", "young", "z-empty"]).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for (queue, age) in [("old", 7_200), ("young", 60)] {
        let at = BasicProperties::default().with_timestamp(now - age);
        given_up(&scene, queue, at, &[], "hello").await;
    }
    for (sort, first) in [("age", ["young", "old"]), ("-age", ["old", "young"])] {
        wait_until("the ages in the statistics", BOUND, async || {
            let listed = scene
                .run(&["queues", "--sort", sort, "--json"])
                .await
                .expect_code(0)
                .json();
            let aged = |queue: &&Value| !queue["oldest_age_s"].is_null();
            if listed.as_array().unwrap().iter().filter(aged).count() < 2 {
                return None;
            }
            let names: Vec<&str> = listed
                .as_array()
                .unwrap()
                .iter()
                .map(|queue| queue["name"].as_str().unwrap())
                .collect();
            assert_eq!(names[..2], first, "by {sort}: {listed}");
            Some(())
        })
        .await;
    }
}
