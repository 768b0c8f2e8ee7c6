//! What commands say of the queues of other applications.

use lapin::BasicProperties;

use super::error_queues::{given_up, queues};
use super::scene::{BOUND, Scene};
use crate::support::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_of_others_is_explained_in_a_sentence_and_its_messages_are_no_broken_notifications() {
    let scene = Scene::sqlite().await;
    queues(&scene, &["emails"]).await;
    for _ in 0..2 {
        given_up(&scene, "emails", BasicProperties::default(), &[], "hello").await;
    }
    let sentence =
        "redrive does not deliver from it: it is of other applications; 2 messages wait and no consumer has one";
    wait_until("the sentence with what the broker counts", BOUND, async || {
        let why = scene.run(&["queue", "why", "emails"]).await.expect_code(0).stdout;
        why.contains(sentence).then_some(())
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
