//! Receivers that misbehave delay nobody else, and get everything once they recover.

use super::scene::{BOUND, Scene};
use crate::support::receiver::{Attempt, Behaviour};
use crate::support::wait::wait_until;

async fn check(scene: &mut Scene, behaviour: Behaviour) {
    scene.installation.set("delivery", "timeout_s", 1);
    scene.receiver.behave("/bad", behaviour);
    let mut daemon = scene.installation.daemon().await;
    let mut all = Vec::new();
    for n in 0..5 {
        all.push((format!("bad-{n}"), "/bad".to_owned()));
        all.push((format!("good-{n}"), format!("/good-{n}")));
    }
    scene.publish_all(&all, 10).await;
    scene.delivered(50).await;
    let url = scene.url("/bad");
    let shown = wait_until("an unavailable endpoint", BOUND, async || {
        let shown = scene
            .installation
            .run(&["endpoint", "show", url.as_str(), "--json"])
            .await;
        Some(shown.expect_code(0).json()).filter(|shown| shown["state"] == "unavailable")
    });
    let shown = shown.await;
    assert!(
        shown["last_error"].is_string() && shown["next_attempt_at"].is_string(),
        "{shown}"
    );
    assert!(
        !scene.receiver.attempts_of("/bad").iter().any(Attempt::succeeded),
        "the others were delayed"
    );
    scene.receiver.behave("/bad", Behaviour::Status(200));
    scene.finish(&mut [&mut daemon], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_never_answers_delays_no_other_and_recovers() {
    check(&mut Scene::servers().await, Behaviour::Never).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_resets_delays_no_other_and_recovers() {
    check(&mut Scene::servers().await, Behaviour::Reset).await;
}
