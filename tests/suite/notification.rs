//! What became of one notification, asked for by its id.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::daemon::{Daemon, Installation};
use crate::support::receiver::{Behaviour, Receiver};
use crate::support::servers::Vhost;
use crate::support::wait::wait_until;

const BOUND: Duration = Duration::from_mins(1);

/// An installation whose heads wait for long.
fn waiting(mut installation: Installation) -> Installation {
    let policy = json!({"retries_with_no_delay": 0, "minimum_delay": 600, "maximum_delay": 600});
    installation.set("delivery", "retry_policy", policy);
    installation
}

async fn publish(daemon: &Daemon, execution: &str, url: &str) -> (String, String) {
    let answer = daemon
        .post("/v1/notifications", &json!({"execution_id": execution, "url": url}))
        .await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let text = |key: &str| answer.json()[key].as_str().unwrap().to_owned();
    (text("id"), text("queue"))
}

/// As the command and the route tell it, once it stands so.
async fn stands(installation: &Installation, daemon: &Daemon, id: &str, state: &str) -> Value {
    let told = wait_until(&format!("{id} {state}"), BOUND, async || {
        let answer = daemon.get(&format!("/v1/notifications/{id}")).await;
        let document = answer.json();
        (document["state"] == state).then_some(document)
    })
    .await;
    let shown = installation.run(&["notification", "show", id, "--json"]).await;
    let shown = shown.expect_code(0).json();
    for key in ["id", "state", "queue", "url", "delivered_at", "attempts"] {
        assert_eq!(shown[key], told[key], "{key}: {shown}");
    }
    told
}

async fn that_it_is_dead_is_told(installation: &Installation, daemon: &Daemon, url: &str) {
    let (id, _) = publish(daemon, "c", url).await;
    let told = stands(installation, daemon, &id, "dead").await;
    assert_eq!(
        (&told["dead"][0]["message_id"], &told["last_attempt"]["status"]),
        (&json!(id), &json!(422))
    );
    let letter = told["dead"][0]["id"].as_str().unwrap();
    assert!(
        told["text"]
            .as_str()
            .unwrap()
            .contains(&format!("redrive dead show {letter}")),
        "{told}"
    );
    installation.run(&["dead", "show", letter]).await.expect_code(0);
    installation
        .run(&["dead", "discard", letter, "--yes"])
        .await
        .expect_code(0);
    let told = stands(installation, daemon, &id, "attempted").await;
    assert!(told["text"].as_str().unwrap().contains("discarded"), "{told}");
}

async fn each_is_told_from_what_is_on_record(installation: Installation) {
    let installation = waiting(installation);
    let daemon = installation.daemon().await;
    let receiver = Receiver::start().await;
    receiver.behave("/down", Behaviour::Status(503));
    receiver.behave("/no", Behaviour::Status(422));

    let (id, queue) = publish(&daemon, "a", &receiver.url("/hook")).await;
    let told = stands(&installation, &daemon, &id, "delivered").await;
    assert_eq!(
        (&told["queue"], &told["attempts"]),
        (&json!(queue), &json!(1)),
        "{told}"
    );
    assert!(told["delivered_at"].is_string() && told["dead"] == json!([]), "{told}");
    assert_eq!(told["last_attempt"]["status"], 200);

    let (id, queue) = publish(&daemon, "b", &receiver.url("/down")).await;
    let told = stands(&installation, &daemon, &id, "waiting").await;
    assert_eq!(
        (&told["queue"], &told["head"]["attempts"]),
        (&json!(queue), &json!(1)),
        "{told}"
    );
    assert!(
        told["next_attempt_at"].is_string() && told["delivered_at"].is_null(),
        "{told}"
    );
    assert_eq!(told["why"]["code"], "endpoint_unavailable", "{told}");
    let page = installation.run(&["notification", "show", &id]).await.expect_code(0);
    assert!(
        page.stdout.contains("next attempt") && page.stdout.contains(&queue),
        "{page:?}"
    );

    // Nothing was tried with the one behind it.
    let (behind, queue) = publish(&daemon, "b", &receiver.url("/down")).await;
    let unknown = installation
        .run(&["notification", "show", &behind])
        .await
        .expect_code(4);
    assert!(
        unknown.stderr.contains("it was not attempted yet") && unknown.stderr.contains("name the queue"),
        "{unknown:?}"
    );
    let untried = daemon.get(&format!("/v1/notifications/{behind}?queue={queue}")).await;
    let untried = untried.json();
    assert_eq!(
        (&untried["state"], &untried["queue"]),
        (&json!("untried"), &json!(queue)),
        "{untried}"
    );
    assert!(
        untried["text"]
            .as_str()
            .unwrap()
            .contains("no attempt at it is on record")
            && untried["head"].is_null(),
        "{untried}"
    );

    that_it_is_dead_is_told(&installation, &daemon, &receiver.url("/no")).await;

    let never = daemon.get("/v1/notifications/order-18.3").await;
    assert_eq!(never.status, 404);
    assert!(never.text().contains("attempts are kept for"), "{}", never.text());
    let wrong = daemon.get("/v1/notifications/%C3%A4").await;
    assert_eq!((wrong.status, &wrong.json()["field"]), (400, &json!("id")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_became_of_a_notification_is_told_from_what_is_on_record() {
    each_is_told_from_what_is_on_record(Installation::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_became_of_a_notification_is_told_on_rabbitmq() {
    let vhost = Vhost::create().await;
    each_is_told_from_what_is_on_record(Installation::on_rabbit(&vhost)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_that_is_parked_says_so_however_long_ago_it_was_tried() {
    let mut installation = Installation::embedded();
    let policy = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 0, "backoff_retries": 0, "maximum_delay_retries": 0,
    });
    installation.set("delivery", "retry_policy", policy);
    // Its attempts go at once.
    installation.set("store", "retention", json!({"attempts_s": 1}));
    let daemon = installation.daemon().await;
    let (id, _) = publish(&daemon, "a", "http://127.0.0.1:9/hook").await;
    stands(&installation, &daemon, &id, "parked").await;
    let told = wait_until("its attempts are gone", BOUND, async || {
        let told = daemon.get(&format!("/v1/notifications/{id}")).await.json();
        told["last_attempt"].is_null().then_some(told)
    })
    .await;
    assert_eq!(
        (&told["state"], &told["head"]["message_id"]),
        (&json!("parked"), &json!(id)),
        "{told}"
    );
}
