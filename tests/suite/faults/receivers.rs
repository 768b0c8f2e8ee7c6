//! Receivers that misbehave delay nobody else, and get everything once they recover.

use serde_json::{Value, json};

use super::scene::{BOUND, Scene};
use crate::support::daemon::Installation;
use crate::support::receiver::{Attempt, Behaviour, Receiver};
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

/// The name of this machine, which leads inside of it.
const NAME: &str = "localhost";

async fn endpoint(installation: &Installation, url: &str) -> Value {
    let shown = installation.run(&["endpoint", "show", url, "--json"]).await;
    shown.expect_code(0).json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_our_own_rules_refuse_is_parked_with_the_mend_and_probed_after_a_start_with_rules_that_allow_it() {
    let receiver = Receiver::start().await;
    let url = receiver.url("/hook").replace("127.0.0.1", NAME);
    let mut installation = Installation::embedded();
    installation.set("delivery", "allow_networks", Vec::<String>::new());
    let patient =
        json!({"retries_with_no_delay": 1, "minimum_delay": 20, "maximum_delay": 20, "maximum_delay_retries": 900});
    installation.set("delivery", "retry_policy", patient);
    let mut daemon = installation.daemon().await;
    let message = json!({"execution_id": "e", "url": url, "body": "x"});
    assert_eq!(daemon.post("/v1/notifications", &message).await.status, 202);
    let parked = wait_until("the URL to be parked", 2 * BOUND, async || {
        Some(endpoint(&installation, &url).await).filter(|shown| shown["state"] == "parked")
    })
    .await;
    let attempts = parked["attempts"].as_u64().unwrap();
    assert!((3..=6).contains(&attempts), "of 900, within a minute or two: {parked}");
    let error = parked["last_error"].as_str().unwrap();
    assert!(
        error.contains("add its network to delivery.allow_networks"),
        "the mend is missing: {error}"
    );
    let queues = installation.run(&["queues"]).await.expect_code(0).stdout;
    assert!(queues.contains("address rules"), "the queue does not say why: {queues}");

    // The same rules refuse the same: nothing is tried.
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    let mut daemon = installation.daemon().await;
    let other = json!({"execution_id": "f", "url": receiver.url("/other").replace("127.0.0.1", NAME), "body": "x"});
    assert_eq!(daemon.post("/v1/notifications", &other).await.status, 202);
    wait_until("another name to be refused", BOUND, async || {
        let shown = endpoint(&installation, other["url"].as_str().unwrap()).await;
        (shown["state"] == "unavailable").then_some(())
    })
    .await;
    let still = endpoint(&installation, &url).await;
    assert_eq!(
        (&still["state"], &still["attempts"]),
        (&json!("parked"), &json!(attempts))
    );

    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    installation.set("delivery", "allow_networks", vec!["127.0.0.0/8", "::1"]);
    let mut daemon = installation.daemon().await;
    wait_until("what waited to be delivered", BOUND, async || {
        receiver
            .attempts_of("/hook")
            .first()
            .filter(|attempt| attempt.succeeded())
            .map(drop)
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}
