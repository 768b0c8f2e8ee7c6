//! Bad turns are told to whoever is configured: a URL, a program, a chat; once, however often and however many see it.

use std::time::Duration;

use redrive::internals::domain::id::NotificationId;
use redrive::internals::domain::signature::SigningSecret;
use serde_json::{Value, json};

use crate::access::{OPERATOR, READER, ask, with_tokens};
use crate::faults::scene::Scene;
use crate::support::daemon::{Daemon, Installation};
use crate::support::receiver::{Attempt, Behaviour, Receiver};
use crate::support::wait::wait_until;

const BOUND: Duration = Duration::from_mins(1);
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What was taken at `path` as JSON, in order.
fn taken(receiver: &Receiver, path: &str) -> Vec<Value> {
    let attempts = receiver.attempts_of(path).into_iter().filter(Attempt::succeeded);
    attempts
        .map(|attempt| serde_json::from_slice(&attempt.body).unwrap())
        .collect()
}

/// The kinds that a message tells.
fn kinds(message: &Value) -> Vec<&str> {
    let turns = message["data"]["turns"].as_array().unwrap().iter();
    turns.map(|turn| turn["kind"].as_str().unwrap()).collect()
}

async fn told(receiver: &Receiver, path: &str, kind: &str) -> Value {
    wait_until(format!("{kind} to be told at {path}"), BOUND, async || {
        let mut messages = taken(receiver, path).into_iter();
        messages.find(|message| kinds(message).contains(&kind))
    })
    .await
}

/// A turn whose sentence has all of these. Groups are told after a look, and a queue is looked at once a minute.
async fn told_saying(receiver: &Receiver, path: &str, words: &[&str]) {
    wait_until(format!("{words:?} to be told"), BOUND * 3, async || {
        let says = |turn: &Value| words.iter().all(|word| turn["text"].as_str().unwrap().contains(word));
        let mut messages = taken(receiver, path).into_iter();
        messages.find(|message| message["data"]["turns"].as_array().unwrap().iter().any(says))
    })
    .await;
}

async fn publish(daemon: &Daemon, url: &str) {
    let answer = daemon
        .post(
            "/v1/notifications",
            &json!({"execution_id": "e", "url": url, "body": "x"}),
        )
        .await;
    assert_eq!(answer.status, 202, "{}", answer.text());
}

fn alerting(receiver: &Receiver) -> Installation {
    let mut installation = Installation::embedded();
    let quick =
        json!({"retries_with_no_delay": 0, "minimum_delay": 1, "maximum_delay": 1, "maximum_delay_retries": 900});
    installation.set("delivery", "retry_policy", quick);
    let program = installation.path("told.jsonl");
    let program = program.display();
    installation.append(&format!(
        "\n[[alert]]\nname = \"ops\"\nurl = \"{}\"\nsecret = \"{SECRET}\"\nevery_s = 1\n\
         [[alert]]\nname = \"chat\"\nslack = \"{}\"\non = [\"endpoint_unavailable\"]\nevery_s = 1\n\
         [[alert]]\nname = \"program\"\ncommand = [\"sh\", \"-c\", \"cat >> {program}; echo >> {program}\"]\nevery_s = 1\n",
        receiver.url("/ops?key=hunter2"),
        receiver.url("/chat"),
    ));
    installation
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_goes_down_and_comes_back_is_told_to_url_chat_and_program() {
    let receiver = Receiver::start().await;
    receiver.behave("/hook", Behaviour::Status(503));
    // Nobody takes the first try.
    receiver.behave_by("/ops", |attempt| {
        Behaviour::Status(if attempt.earlier == 0 { 500 } else { 200 })
    });
    let installation = alerting(&receiver);
    let mut daemon = installation.daemon().await;
    publish(&daemon, &receiver.url("/hook")).await;
    let down = told(&receiver, "/ops", "endpoint_unavailable").await;
    assert_eq!(
        (&down["type"], &down["data"]["alert"]),
        (&json!("redrive.alert"), &json!("ops"))
    );
    let turn = &down["data"]["turns"][0];
    assert_eq!(
        (&turn["bad"], &turn["subject"]),
        (&json!(true), &json!(receiver.url("/hook")))
    );
    let tries = receiver.attempts_of("/ops");
    assert_eq!(
        (tries[0].id(), &tries[0].body),
        (tries[1].id(), &tries[1].body),
        "a try is a repetition"
    );
    let id = NotificationId::parse(tries[1].id()).unwrap();
    let timestamp = tries[1].header("webhook-timestamp").unwrap();
    let signature = SigningSecret::parse(SECRET)
        .unwrap()
        .sign(&id, timestamp, &tries[1].body);
    assert_eq!(tries[1].header("webhook-signature"), Some(signature.as_str()));

    receiver.behave("/hook", Behaviour::Status(200));
    told(&receiver, "/ops", "endpoint_available").await;
    let chat = wait_until("the chat to be told both", BOUND, async || {
        Some(taken(&receiver, "/chat")).filter(|messages| messages.len() >= 2)
    })
    .await;
    let text = chat[0]["text"].as_str().unwrap();
    assert!(text.contains("is unavailable") && text.contains("503"), "{text}");
    assert!(
        chat[1]["text"].as_str().unwrap().contains("available again"),
        "{chat:?}"
    );
    let program = wait_until("the program to be told both", BOUND, async || {
        let text = std::fs::read_to_string(installation.path("told.jsonl")).ok()?;
        let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Some(messages.collect::<Vec<_>>()).filter(|messages| messages.len() >= 2)
    })
    .await;
    assert_eq!(
        (kinds(&program[0]), kinds(&program[1])),
        (vec!["endpoint_unavailable"], vec!["endpoint_available"])
    );

    let metrics = daemon.get("/metrics").await.text();
    for line in [
        "redrive_turns_total{kind=\"endpoint_unavailable\"} 1",
        "redrive_turns_total{kind=\"endpoint_available\"} 1",
        "redrive_alerts_total{alert=\"ops\",result=\"failed\"} 1",
        "redrive_alerts_total{alert=\"ops\",result=\"given_up\"} 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    let log = daemon.log();
    assert!(
        log.contains("endpoint_unavailable") && log.contains("endpoint_available"),
        "{log}"
    );
    assert!(!log.contains("hunter2"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_is_tested_by_its_name_and_its_secrets_are_not_shown() {
    let receiver = Receiver::start().await;
    let mut installation = alerting(&receiver);
    installation.append("[[alert]]\nname = \"inside\"\nurl = \"http://169.254.169.254/\"\n");
    installation.run(&["alert", "test", "ops"]).await.expect_code(0);
    let message = taken(&receiver, "/ops").remove(0);
    assert_eq!(
        (&message["type"], kinds(&message)),
        (&json!("redrive.alert.test"), vec!["test"])
    );
    installation.run(&["alert", "test", "program"]).await.expect_code(0);
    let told = std::fs::read_to_string(installation.path("told.jsonl")).unwrap();
    assert!(told.contains("redrive.alert.test"), "{told}");
    let unknown = installation.run(&["alert", "test", "chatt"]).await;
    assert!(unknown.stderr.contains("\"chat\""), "{unknown:?}");
    // The rules for addresses hold for alerts, too.
    let inside = installation.run(&["alert", "test", "inside"]).await;
    assert!(inside.stderr.contains("delivery.allow_networks"), "{inside:?}");
    assert_ne!(inside.code, Some(0));
    receiver.behave("/chat", Behaviour::Status(404));
    let refused = installation.run(&["alert", "test", "chat"]).await;
    assert!(
        refused.stderr.contains("404") && !refused.stderr.contains("/chat"),
        "{refused:?}"
    );
    let shown = installation.run(&["config", "print"]).await.expect_code(0).stdout;
    assert!(shown.contains("name = \"ops\""), "{shown}");
    for secret in ["hunter2", "/chat", "whsec_"] {
        assert!(!shown.contains(secret), "{secret} is in\n{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_is_tested_over_http_by_who_may_operate_and_the_audit_says_who_and_what_came_of_it() {
    let receiver = Receiver::start().await;
    let mut installation = alerting(&receiver);
    with_tokens(&mut installation);
    let mut daemon = installation.daemon().await;
    let test = |name: &str| format!("/v1/alerts/{name}/test");
    let because = || Some(json!({"reason": "INC-42"}));
    let refused = ask(&mut daemon, READER, ("POST", &test("ops"), because())).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert_eq!(taken(&receiver, "/ops").len(), 0);
    let told = ask(&mut daemon, OPERATOR, ("POST", &test("ops"), because())).await;
    assert_eq!(
        (told.status, told.json()),
        (200, json!({"alert": "ops", "taken": true}))
    );
    assert_eq!(kinds(&taken(&receiver, "/ops")[0]), ["test"]);
    receiver.behave("/chat", Behaviour::Status(404));
    let failed = ask(&mut daemon, OPERATOR, ("POST", &test("chat"), because())).await;
    assert_eq!(failed.status, 409, "{}", failed.text());
    let unknown = ask(&mut daemon, OPERATOR, ("POST", &test("chatt"), because())).await;
    assert!(
        unknown.status == 404 && unknown.text().contains("chat"),
        "{}",
        unknown.text()
    );
    let audit = ask(&mut daemon, OPERATOR, ("GET", "/v1/audit", None)).await.json();
    let tests = audit["items"].as_array().unwrap().iter();
    let tests: Vec<_> = tests
        .filter(|line| line["command"] == "alert test")
        .map(|line| (line["target"].clone(), line["result"].clone(), line["reason"].clone()))
        .collect();
    let line = |target: &str, result: &str| (json!(target), json!(result), json!("INC-42"));
    assert_eq!(tests, [line("alert chat", "failed"), line("alert ops", "done")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_daemons_one_tells_and_when_it_dies_the_other_tells_that() {
    let mut scene = Scene::servers().await;
    scene.hasten();
    scene.receiver.behave("/refuses", Behaviour::Status(400));
    scene.receiver.behave("/refuses/too", Behaviour::Status(400));
    let alert = format!(
        "\n[[alert]]\nname = \"ops\"\nurl = \"{}\"\nevery_s = 1\n",
        scene.receiver.url("/ops")
    );
    scene.installation.append(&alert);
    let mut one = scene.installation.daemon().await;
    publish(&one, &scene.receiver.url("/refuses")).await;
    let dead = told(&scene.receiver, "/ops", "dead_letters").await;
    assert_eq!(dead["data"]["turns"][0]["count"], 1);
    told_saying(
        &scene.receiver,
        "/ops",
        &["the first dead letters of a group, 1 so far", "/refuses"],
    )
    .await;
    let mut other = scene.installation.daemon().await;
    publish(&other, &scene.receiver.url("/refuses/too")).await;
    told_saying(
        &scene.receiver,
        "/ops",
        &["the first dead letters of a group, 1 so far", "/refuses/too"],
    )
    .await;
    assert!(!other.log().contains("dead_letters"), "both told: {}", other.log());
    one.kill().await;
    let dead = told(&scene.receiver, "/ops", "daemon_dead").await;
    assert!(
        dead["data"]["turns"][0]["text"]
            .as_str()
            .unwrap()
            .contains("taken over"),
        "{dead}"
    );
    assert_eq!(other.stop().await, Some(0), "{}", other.log());
}

/// Also those that were dead before the daemon began.
#[tokio::test(flavor = "multi_thread")]
async fn dead_events_are_told_by_their_number_again_after_a_restart() {
    let receiver = Receiver::start().await;
    let mut installation = alerting(&receiver);
    installation.set("events", "cutoff", 1);
    installation.append("\n[[handler]]\ntype = \"fails\"\ncommand = [\"/bin/false\"]\n");
    let mut daemon = installation.daemon().await;
    for reference in ["a", "b"] {
        let pushed = daemon
            .post("/v1/types/fails/events", &json!({"reference": reference}))
            .await;
        assert_eq!(pushed.status, 201);
    }
    told_saying(&receiver, "/ops", &["in (event table)", "`redrive dead groups`"]).await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    let again = installation.daemon().await;
    told_saying(&receiver, "/ops", &["2 more dead letters in (event table), 2 in all"]).await;
    drop(again);
}

/// A queue that a policy shortens takes no publishes, whatever else is told of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_takes_no_publishes_any_more_is_told() {
    let mut scene = Scene::servers().await;
    scene.receiver.behave("/down", Behaviour::retry_after(503, "600"));
    let alert = format!(
        "\n[[alert]]\nname = \"ops\"\nurl = \"{}\"\nevery_s = 1\n",
        scene.receiver.url("/ops")
    );
    scene.installation.append(&alert);
    let mut daemon = scene.installation.daemon().await;
    scene.publish("short", "/down", 1).await;
    told(&scene.receiver, "/ops", "endpoint_unavailable").await;
    let (queue, vhost) = (scene.queue("short", "/down"), scene.vhost.as_ref().unwrap());
    let policy = format!("/api/policies/{}/short", vhost.name);
    let pattern = format!("^{}$", queue.as_str().replace('.', "\\."));
    let short = json!({"pattern": pattern, "apply-to": "queues", "definition": {"max-length": 1}});
    vhost.manage("PUT", &policy, Some(&short)).await;
    let refused = told(&scene.receiver, "/ops", "queue_refused").await.to_string();
    assert!(
        refused.contains(queue.as_str()) && refused.contains("takes no publishes"),
        "{refused}"
    );
    vhost.manage("DELETE", &policy, None).await;
    told(&scene.receiver, "/ops", "queue_recovered").await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

/// The receiver's spans belong to the publisher's trace.
#[tokio::test(flavor = "multi_thread")]
async fn the_trace_of_a_publish_reaches_the_receiver() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let receiver = Receiver::start().await;
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    for (id, parent) in [("traced", PARENT), ("broken", "00-nonsense")] {
        let notification = json!({"execution_id": id, "url": receiver.url("/hook"), "id": id});
        let request = daemon.request("POST", "/v1/notifications");
        let request = request.header("traceparent", parent).header("tracestate", "vendor=1");
        assert_eq!(request.json(&notification).send().await.status, 202);
    }
    wait_until("both to be delivered", BOUND, async || {
        (receiver.delivered() == 2).then_some(())
    })
    .await;
    for attempt in receiver.attempts() {
        let expected = (attempt.id() == "traced").then_some((PARENT, "vendor=1"));
        let found = attempt.header("traceparent").zip(attempt.header("tracestate"));
        assert_eq!(found, expected, "{}", attempt.id());
    }
}
