//! Messages of an exchange become events, as the configuration says, on each broker.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::hall::{BOUND, EXCHANGE, Hall, QUEUE, events};
use crate::rabbitmq::raw;
use crate::support::daemon::Daemon;
use crate::support::receiver::Receiver;
use crate::support::wait::{stays_absent, wait_until};

/// No client library reads a message with this content type.
const BAD: &[u8] = b"text/\xff\xfe";

fn message(body: &Value) -> (&'static str, String) {
    ("person.new", body.to_string())
}

async fn dead(daemon: &Daemon, count: usize) -> Vec<Value> {
    wait_until("dead letters", BOUND, async || {
        let found = daemon.get("/v1/events?filter=dead+%3D+true").await.json();
        let found = found["items"].as_array().cloned().unwrap_or_default();
        (found.len() == count).then_some(found)
    })
    .await
}

async fn messages_become_events(hall: &Hall) {
    let daemon = hall.installation.daemon().await;
    hall.publish(&[
        message(&json!({"id": "a", "v": 1})),
        message(&json!({"id": "a", "v": 2})),
        ("person.left.now", json!({"id": 7}).to_string()),
        message(&json!({"id": "a", "nbf": "2100-01-01T00:00:00Z"})),
        message(&json!({"id": "b", "nbf": 1_000_000_000})),
        ("person.new", "{ no JSON \u{7}".to_owned()),
        message(&json!({"v": 1})),
        message(&json!({"id": "c", "nbf": "2500-01-01T00:00:00Z"})),
    ])
    .await;
    hall.taken_in().await;
    let text = daemon.get("/metrics").await.text();
    let unlabelled = |line: &str| {
        line.starts_with("redrive_events_pushed_total ") || line.starts_with("redrive_events_coalesced_total ")
    };
    assert!(!text.lines().any(unlabelled), "{text}");
    let found = events(&daemon, "hr").await;
    let of = |reference: &str, subtype: &str| {
        let is_it = |event: &&Value| event["reference"] == reference && event["subtype"] == subtype;
        found
            .iter()
            .find(is_it)
            .cloned()
            .unwrap_or_else(|| panic!("{reference}: {found:?}"))
    };
    assert_eq!(
        of("a", "")["payload"],
        json!({"id": "a", "v": 2}),
        "the last one counts"
    );
    assert_eq!(of("a", "delayed")["nbf"], "2100-01-01T00:00:00Z");
    assert_eq!(of("b", "delayed")["nbf"], "2001-09-09T01:46:40Z", "due at once");
    assert!(
        of("a", "")["reason"]
            .as_str()
            .unwrap()
            .starts_with("message: queue=q_hr")
    );
    assert_eq!(
        events(&daemon, "leaver").await[0]["reference"],
        "7",
        "the routing key says the type"
    );
    let letters = dead(&daemon, 3).await;
    let about = |part: &str| {
        let is_it = |letter: &&Value| letter["reason"].as_str().is_some_and(|reason| reason.contains(part));
        letters
            .iter()
            .find(is_it)
            .cloned()
            .unwrap_or_else(|| panic!("{part}: {letters:?}"))
    };
    let broken = about("undecodable: not JSON");
    assert_eq!(
        broken["payload_base64"], "eyBubyBKU09OIAc=",
        "its bytes as they came: {broken}"
    );
    assert_eq!(
        (&broken["properties"]["exchange"], &broken["properties"]["routing_key"]),
        (&json!(EXCHANGE), &json!("person.new"))
    );
    about("/id: there is no such value");
    about("undecodable: nbf must be within a hundred years");
    assert!(daemon.log().contains("a message is no event"), "{}", daemon.log());
    let queue = daemon.get(&format!("/v1/queues/{QUEUE}")).await.json();
    assert_eq!(queue["kind"], "intake", "{queue}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_become_events_from_rabbitmq_in_a_file() {
    messages_become_events(&Hall::rabbit().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_become_events_from_rabbitmq_in_postgresql() {
    messages_become_events(&Hall::servers().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_become_events_on_the_embedded_pair() {
    messages_become_events(&Hall::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_reaches_its_program_in_the_directory_that_is_configured() {
    let mut hall = Hall::rabbit().await;
    let work = hall.installation.path("work");
    std::fs::create_dir(&work).unwrap();
    hall.installation.append(&format!(
        "[[handler]]\ntype = \"hr\"\ncommand = [\"/bin/sh\", \"-c\", \"cat >> seen.part && mv seen.part seen\"]\n\
         directory = {}",
        json!(work)
    ));
    let daemon = hall.installation.daemon().await;
    hall.publish(&[message(&json!({"id": "a", "n": 1}))]).await;
    let seen = wait_until("a handled message", BOUND, async || {
        std::fs::read_to_string(work.join("seen")).ok()
    })
    .await;
    assert!(seen.contains("\"payload\":{\"id\":\"a\",\"n\":1}"), "{seen}");
    wait_until("no event", BOUND, async || {
        events(&daemon, "hr").await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_no_client_can_read_is_kept_byte_for_byte_and_the_others_go_on() {
    let hall = Hall::rabbit().await;
    let daemon = hall.installation.daemon().await;
    hall.publish(&[message(&json!({"id": "before"}))]).await;
    let header = raw::header_with_content_type(6, BAD);
    let vhost = &hall.vhost.as_ref().unwrap().name;
    raw::publish_to(vhost, EXCHANGE, "person.new", header, b"poison").await;
    hall.publish(&[message(&json!({"id": "behind"}))]).await;
    let letters = dead(&daemon, 1).await;
    assert_eq!(letters[0]["payload_base64"], "cG9pc29u", "{letters:?}");
    let header = letters[0]["properties"]["header_frame_base64"].as_str().unwrap();
    let header = STANDARD.decode(header).unwrap();
    assert!(header.windows(BAD.len()).any(|part| part == BAD), "{header:?}");
    hall.taken_in().await;
    let mut found: Vec<String> = events(&daemon, "hr")
        .await
        .iter()
        .filter(|event| event["state"] != "dead")
        .map(|event| event["reference"].as_str().unwrap().to_owned())
        .collect();
    found.sort();
    assert_eq!(found, ["before", "behind"]);
}

/// A quorum queue puts what it gets back behind what it got back before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_quorum_queue_only_the_message_that_no_client_can_read_is_kept_as_unreadable() {
    let mut hall = Hall::rabbit().await;
    hall.installation.set("broker", "queue_type", "quorum");
    let mut daemon = hall.installation.daemon().await;
    wait_until("the queue", BOUND, async || hall.waiting().await).await;
    assert_eq!(daemon.stop().await, Some(0));
    let header = raw::header_with_content_type(6, BAD);
    let vhost = &hall.vhost.as_ref().unwrap().name;
    raw::publish_to(vhost, EXCHANGE, "person.new", header, b"poison").await;
    hall.stream(0, 150).await;
    let daemon = hall.installation.daemon().await;
    let letters = dead(&daemon, 1).await;
    assert_eq!(letters[0]["payload_base64"], "cG9pc29u", "{letters:?}");
    // What the broker counts of a quorum queue is late.
    wait_until("the last version of each", BOUND, async || {
        let found = events(&daemon, "hr").await;
        let last = |event: &&Value| event["payload"]["v"].as_u64().is_some_and(|v| v >= 100);
        (found.iter().filter(last).count() == 50).then_some(())
    })
    .await;
    dead(&daemon, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_daemons_reads_the_queue_and_the_other_takes_over_when_it_dies() {
    let hall = Hall::servers().await;
    let mut first = hall.installation.daemon().await;
    hall.publish(&[message(&json!({"id": "a"}))]).await;
    hall.taken_in().await;
    let second = hall.installation.daemon().await;
    let vhost = hall.vhost.as_ref().unwrap();
    let consumers = async || {
        let path = format!("/api/consumers/{}", vhost.name);
        let all = vhost.manage("GET", &path, None).await.json();
        let all = all.as_array().cloned().unwrap_or_default();
        all.iter().filter(|consumer| consumer["queue"]["name"] == QUEUE).count()
    };
    wait_until("one consumer", BOUND, async || (consumers().await == 1).then_some(())).await;
    stays_absent("a second consumer", Duration::from_secs(3), async || {
        let count = consumers().await;
        (count > 1).then_some(count)
    })
    .await;
    first.kill().await;
    hall.publish(&[message(&json!({"id": "b"}))]).await;
    hall.taken_in().await;
    let found = events(&second, "hr").await;
    assert_eq!(found.len(), 2, "{found:?}");
}

/// How `doctor` judges the intake queue: what it found, and the mend.
async fn judged(hall: &Hall) -> (String, Option<String>) {
    let checks = hall.installation.run(&["doctor", "--json"]).await.json();
    let checks = checks.as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == format!("intake: {QUEUE}"));
    let check = check.unwrap_or_else(|| panic!("{checks:?}"));
    let mend = check["mend"].as_str().map(str::to_owned);
    assert_eq!(mend.is_none(), check["result"] == "fine", "{check}");
    (check["found"].as_str().unwrap().to_owned(), mend)
}

async fn says(hall: &Hall, part: &str) {
    wait_until(format!("doctor and why to say {part:?}"), BOUND, async || {
        let (found, mend) = judged(hall).await;
        let why = hall.installation.run(&["queue", "why", QUEUE]).await.stdout;
        let both = found.contains(part) && why.contains(part);
        both.then(|| assert!(mend.is_none_or(|mend| why.contains(&mend)), "{why}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_and_why_say_what_keeps_an_intake_queue_from_being_read() {
    let hall = Hall::rabbit().await;
    says(&hall, "there is no such queue, and no daemon is alive").await;
    let mut daemon = hall.installation.daemon().await;
    says(&hall, "read; nothing waits").await;
    let vhost = hall.vhost.as_ref().unwrap();
    let binding = format!("/api/bindings/{}/e/{EXCHANGE}/q/{QUEUE}/person.%23", vhost.name);
    vhost.manage("DELETE", &binding, None).await;
    says(&hall, "not bound to exchange \"people\" with \"person.#\"").await;
    assert_eq!(daemon.stop().await, Some(0));
    // A daemon binds what it reads.
    let mut daemon = hall.installation.daemon().await;
    says(&hall, "read; nothing waits").await;
    assert_eq!(daemon.stop().await, Some(0));
    hall.publish(&[message(&json!({"id": "a", "v": 1}))]).await;
    says(&hall, "1 message waits: no daemon is alive").await;
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The receiver's spans belong to the trace of whoever caused the event.
async fn a_trace_goes_on(mut hall: Hall) {
    let receiver = Receiver::start().await;
    hall.installation
        .append("\n[[handler]]\ntype = \"hr\"\nwebhook = true\n");
    let daemon = hall.installation.daemon().await;
    let subscribed = json!({"url": receiver.url("/hook"), "options": {}});
    let made = wait_until("the type to be there", BOUND, async || {
        let put = daemon
            .request("PUT", "/v1/types/hr")
            .header("content-type", "application/json");
        Some(put.body("{}").send().await).filter(|answer| answer.status == 200)
    });
    made.await;
    assert_eq!(daemon.post("/v1/types/hr/subscriptions", &subscribed).await.status, 200);

    let headers = [("traceparent", PARENT), ("tracestate", "vendor=1")];
    hall.publish_with(&headers, &[message(&json!({"id": "by-message"}))])
        .await;
    let mut push = daemon.request("POST", "/v1/types/hr/events");
    for (name, value) in headers {
        push = push.header(name, value);
    }
    let pushed = push.json(&json!({"reference": "by-push", "payload": {"id": "by-push"}}));
    assert_eq!(pushed.send().await.status, 201);
    hall.publish(&[message(&json!({"id": "without"}))]).await;
    wait_until("all to be delivered", BOUND, async || {
        (receiver.delivered() == 3).then_some(())
    })
    .await;
    for attempt in receiver.attempts() {
        let body: Value = serde_json::from_slice(&attempt.body).unwrap();
        let expected = (body["id"] != "without").then_some((PARENT, "vendor=1"));
        let found = attempt.header("traceparent").zip(attempt.header("tracestate"));
        assert_eq!(found, expected, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trace_of_an_event_reaches_the_receiver_from_rabbitmq_and_postgresql() {
    a_trace_goes_on(Hall::servers().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trace_of_an_event_reaches_the_receiver_on_the_embedded_pair() {
    a_trace_goes_on(Hall::embedded()).await;
}
