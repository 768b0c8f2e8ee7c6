//! A publisher that is not redrive: the sample in `assets`, and one that publishes more than the broker takes later.

use std::path::Path;
use std::process::Command;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use serde_json::{Value, json};

use super::scene::{BOUND, Scene};
use crate::support::daemon::Installation;
use crate::support::receiver::Behaviour;
use crate::support::servers::{PrivateRabbit, variable};
use crate::support::wait::wait_until;

const MIB: usize = 1 << 20;
/// A limit below what an event may carry.
const SMALL: usize = 1 << 18;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_python_sample_publishes_is_delivered_in_order() {
    let scene = Scene::servers().await;
    let mut daemon = scene.installation.daemon().await;
    // The daemon's own configuration is the first that was written.
    let config = scene.installation.path("config-0.toml");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/publish.py");
    let redrive = format!("{} --config {}", env!("CARGO_BIN_EXE_redrive"), config.display());
    let (amqp, url) = (scene.vhost.as_ref().unwrap().amqp(), scene.receiver.url("/hook?ä=1"));
    let bodies: Vec<String> = (1..=20).map(|n| format!("{{\"n\": {n}}}")).collect();
    let mut command = Command::new(variable("REDRIVE_TEST_PYTHON"));
    command.arg(script).args(["--amqp", &amqp, "--redrive", &redrive]);
    command.args(["--execution", "run-1", "--url", &url, "--header", "X-Sample: yes"]);
    command.args(["--header", "X-Sample: no"]);
    command.args(&bodies);
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    scene.delivered(20).await;
    let attempts = scene.receiver.attempts_of("/hook");
    let received: Vec<String> = attempts
        .iter()
        .map(|attempt| String::from_utf8_lossy(&attempt.body).into_owned())
        .collect();
    assert_eq!(received, bodies);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    for (line, attempt) in printed.lines().zip(&attempts) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["id"], attempt.id());
        assert_eq!(line["queue"], attempt.queue());
        assert_eq!(attempt.header("x-sample"), Some("yes, no"));
        assert_eq!(attempt.header("content-type"), Some("application/json"));
    }
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

/// A notification of a stranger's, with a body of this size; without an id where that is empty.
async fn stranger(scene: &Scene, execution: &str, path: &str, id: &str, bytes: usize) {
    let amqp = scene.vhost.as_ref().unwrap().amqp();
    let connection = Connection::connect(&amqp, ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let text = |text: &str| AMQPValue::LongString(LongString::from(text));
    let mut headers = FieldTable::default();
    headers.insert("x-redrive-execution".into(), text(execution));
    headers.insert("x-redrive-url".into(), text(scene.url(path).as_str()));
    let mut properties = BasicProperties::default().with_delivery_mode(2).with_headers(headers);
    if !id.is_empty() {
        properties = properties.with_message_id(id.into());
    }
    let (exchange, queue, body) = (
        scene.naming().exchange(),
        scene.queue(execution, path),
        vec![b'x'; bytes],
    );
    let sent = channel.basic_publish(
        exchange.as_str().into(),
        queue.as_str().into(),
        BasicPublishOptions::default(),
        &body,
        properties,
    );
    assert!(sent.await.unwrap().await.unwrap().is_ack());
    connection.close(200, "done".into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_messages_without_an_id_have_one_id_and_the_log_says_so() {
    let scene = Scene::servers().await;
    scene.publish("run-1", "/hook", 1).await;
    for _ in 0..2 {
        stranger(&scene, "run-1", "/hook", "", 5).await;
    }
    let daemon = scene.installation.daemon().await;
    let attempts = wait_until("three deliveries", BOUND, async || {
        let attempts = scene.receiver.attempts_of("/hook");
        (attempts.len() == 3).then_some(attempts)
    })
    .await;
    assert_eq!(attempts[1].id(), attempts[2].id());
    let log = daemon.log();
    assert!(log.contains("a message has no message_id"), "{log}");
}

async fn ok(installation: &Installation, arguments: &[&str]) -> Value {
    let all = [&["--json"], arguments].concat();
    installation.run(&all).await.expect_code(0).json()
}

/// What is dead, once there are as many.
async fn dead(installation: &Installation, count: usize) -> Vec<Value> {
    wait_until(format!("{count} dead letters"), BOUND, async || {
        let letters = ok(installation, &["dead", "list"]).await;
        let letters = letters.as_array().unwrap().clone();
        (letters.len() == count).then_some(letters)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_over_the_brokers_limit_is_in_the_store_and_can_be_handled_like_any_other() {
    let node = PrivateRabbit::start().await;
    let scene = Scene::on_rabbit(&node.address).await;
    let refusing = |attempt: &crate::support::receiver::Attempt| {
        Behaviour::Status(if attempt.body.len() > MIB { 422 } else { 200 })
    };
    scene.receiver.behave_by("*", refusing);
    scene.publish("run-1", "/hook", 1).await;
    stranger(&scene, "run-1", "/hook", "large", 2 * MIB).await;
    scene.publish("run-1", "/hook", 2).await;
    node.limit_bodies(MIB).await;
    let mut daemon = scene.installation.daemon().await;
    scene.delivered(2).await;
    let installation = &scene.installation;
    let is_stored = |letter: &Value| {
        let queue = scene.queue("run-1", "/hook");
        assert_eq!(
            (&letter["home"], &letter["queue"]),
            (&json!("store"), &json!("(store)"))
        );
        assert_eq!(
            (&letter["message_id"], &letter["size_bytes"]),
            (&json!("large"), &json!(2 * MIB))
        );
        assert_eq!(
            (&letter["origin"], &letter["status"]),
            (&json!(queue.as_str()), &json!(422))
        );
        letter["id"].as_str().unwrap().to_owned()
    };
    let id = is_stored(&dead(installation, 1).await[0]);
    let shown = ok(installation, &["dead", "show", &id]).await;
    assert_eq!(shown["body"].as_str().map(str::len), Some(2 * MIB));

    let again = ["--json", "dead", "redrive", &id, "--yes"];
    let run = installation.run(&again).await.expect_code(1).json();
    assert_eq!(run["failed"], 1, "{run}");
    let run = ok(installation, &["run", "show", run["id"].as_str().unwrap()]).await;
    let why = run["items"][0]["reason"].as_str().unwrap();
    assert!(why.contains(&MIB.to_string()), "{why}");
    ok(installation, &["dead", "discard", &id, "--yes"]).await;
    dead(installation, 0).await;
    ok(installation, &["dead", "restore", &id, "--yes"]).await;
    assert_eq!(is_stored(&dead(installation, 1).await[0]), id);

    node.limit_bodies(16 * MIB).await;
    assert_eq!(daemon.stop().await, Some(0));
    scene.receiver.behave("*", Behaviour::Status(200));
    let mut daemon = scene.installation.daemon().await;
    ok(installation, &["dead", "redrive", &id, "--yes"]).await;
    scene.delivered(3).await;
    dead(installation, 0).await;
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_over_the_brokers_limit_is_refused_for_good_and_holds_back_nothing() {
    let node = PrivateRabbit::start().await;
    node.limit_bodies(SMALL).await;
    let mut scene = Scene::on_rabbit(&node.address).await;
    scene
        .installation
        .append("\n[[handler]]\ntype = \"t\"\nwebhook = true\n");
    let mut daemon = scene.installation.daemon().await;

    let (large, url) = ("x".repeat(2 * SMALL), scene.receiver.url("/hook"));
    let new = json!({"execution_id": "run-1", "url": url, "body": large});
    let refused = daemon.post("/v1/notifications", &new).await;
    assert_eq!(refused.status, 413, "{}", refused.text());
    assert!(refused.text().contains(&SMALL.to_string()), "{}", refused.text());
    let publish = ["publish", "--execution", "run-1", "--url", &url, "--body-file", "-"];
    let refused = scene.installation.run_with_input(&publish, large.as_bytes()).await;
    let refused = refused.expect_code(1).stderr;
    assert!(
        refused.contains(&SMALL.to_string()) && !refused.contains("again"),
        "{refused}"
    );

    let set = daemon
        .request("PUT", "/v1/types/t")
        .header("content-type", "application/json");
    assert_eq!(set.body("{}").send().await.status, 200);
    let new = json!({"url": url, "options": {"headers": {}}});
    assert_eq!(daemon.post("/v1/types/t/subscriptions", &new).await.status, 200);
    let push = async |payload: Value| {
        let body = json!({"reference": "a", "payload": payload});
        assert!(daemon.post("/v1/types/t/events", &body).await.status < 300);
    };
    push(json!({"large": large})).await;
    let letter = &dead(&scene.installation, 1).await[0];
    assert_eq!((&letter["home"], &letter["queue"]), (&json!("event"), &json!("t")));
    let why = letter["error"].as_str().unwrap();
    assert!(why.contains(&SMALL.to_string()), "{why}");
    for number in 1..=3 {
        push(json!({"n": number})).await;
        scene.delivered(number).await;
    }
    assert_eq!(daemon.stop().await, Some(0));
}
