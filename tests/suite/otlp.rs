//! What a collector of OpenTelemetry gets from a daemon: a real receiver over HTTP decodes it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::daemon::Installation;
use crate::support::receiver::{Behaviour, Receiver};
use crate::support::wait::wait_until;

const BOUND: Duration = Duration::from_mins(1);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// The daemon's collector, which wants a credential.
fn tell(installation: &mut Installation, collector: &Receiver) {
    installation.set("telemetry", "otlp", collector.url("").trim_end_matches('/'));
    installation.set("telemetry.headers", "Authorization", "Bearer collect");
}

/// Every document that came on a path.
fn told(collector: &Receiver, path: &str) -> Vec<Value> {
    let came = collector.attempts_of(path).into_iter();
    came.map(|attempt| {
        assert_eq!(attempt.header("content-type"), Some("application/json"));
        assert_eq!(attempt.header("authorization"), Some("Bearer collect"));
        serde_json::from_slice(&attempt.body).expect("a document of OTLP")
    })
    .collect()
}

/// What is inside `resourceX[].scopeX[].x[]`.
fn inside(documents: &[Value], keys: [&str; 3]) -> Vec<Value> {
    keys.iter().fold(documents.to_vec(), |found, key| {
        let lists = found.iter().map(|one| one[key].as_array().expect("a list"));
        lists.flatten().cloned().collect()
    })
}

fn spans(collector: &Receiver) -> Vec<Value> {
    inside(&told(collector, "/v1/traces"), ["resourceSpans", "scopeSpans", "spans"])
}

fn attribute<'a>(of: &'a Value, name: &str) -> &'a Value {
    let mut attributes = of["attributes"].as_array().expect("attributes").iter();
    let found = attributes.find(|attribute| attribute["key"] == name);
    found.map_or(&Value::Null, |attribute| &attribute["value"])
}

/// A span of `publish` or `attempt` is in the trace of its publisher, and says what came of it.
fn check_span(span: &Value) {
    assert_eq!(
        (&span["traceId"], &span["parentSpanId"]),
        (&json!(TRACE), &json!(CALLER)),
        "{span}"
    );
    assert!(span["spanId"].as_str().is_some_and(|id| id.len() == 16), "{span}");
    let is_refused = attribute(span, "messaging.message.id")["stringValue"] == "refused";
    if span["name"] == "attempt" {
        assert_eq!(span["status"]["code"] == 2, is_refused, "{span}");
        let status = if is_refused { "400" } else { "200" };
        assert_eq!(
            attribute(span, "http.response.status_code")["intValue"],
            status,
            "{span}"
        );
        assert!(
            !span.to_string().contains("secret"),
            "a value of a query is shown: {span}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_gets_the_spans_of_a_notification_in_the_trace_of_its_publisher_and_the_numbers() {
    let (collector, receiver) = (Receiver::start().await, Receiver::start().await);
    receiver.behave_by("/hook", |attempt| match attempt.id() {
        "refused" => Behaviour::Status(400),
        _ => Behaviour::Status(200),
    });
    let mut installation = Installation::embedded();
    tell(&mut installation, &collector);
    let mut daemon = installation.daemon().await;
    for id in ["taken", "refused"] {
        let notification = json!({"execution_id": id, "url": receiver.url("/hook?key=secret"), "id": id});
        let request = daemon.request("POST", "/v1/notifications").json(&notification);
        let traced = request.header("traceparent", &format!("00-{TRACE}-{CALLER}-01"));
        assert_eq!(traced.send().await.status, 202);
    }
    wait_until("the spans of publish and attempt", BOUND, async || {
        let spans = spans(&collector);
        let named = |name: &str| spans.iter().filter(|span| span["name"] == name).count();
        (named("publish") >= 2 && named("attempt") >= 2).then_some(())
    })
    .await;
    spans(&collector).iter().for_each(check_span);
    wait_until("the dead letter", BOUND, async || {
        let dead = daemon.get("/v1/dead").await.json();
        (dead["items"].as_array().is_some_and(|items| !items.is_empty())).then_some(())
    })
    .await;
    let run = daemon.post("/v1/dead/redrive", &json!({"all": true})).await;
    assert!(matches!(run.status, 200 | 202), "{}", run.text());
    wait_until("the span of the redrive", BOUND, async || {
        let spans = spans(&collector);
        let redrive = spans.iter().find(|span| span["name"] == "redrive")?;
        assert_eq!(
            (&redrive["traceId"], &redrive["parentSpanId"]),
            (&json!(TRACE), &json!(CALLER)),
            "{redrive}"
        );
        assert!(
            attribute(redrive, "redrive.run")["stringValue"].is_string(),
            "{redrive}"
        );
        Some(())
    })
    .await;
    let keys = ["resourceMetrics", "scopeMetrics", "metrics"];
    wait_until("the numbers", BOUND, async || {
        let numbers = inside(&told(&collector, "/v1/metrics"), keys);
        let attempts = numbers
            .iter()
            .rfind(|metric| metric["name"] == "redrive_attempts_total")?;
        assert_eq!(attempts["sum"]["isMonotonic"], true, "{attempts}");
        let mut points = attempts["sum"]["dataPoints"].as_array()?.iter();
        let delivered = points.find(|point| attribute(point, "class")["stringValue"] == "delivered")?;
        (delivered["asDouble"] == 1.0).then_some(())
    })
    .await;
    let resource = &told(&collector, "/v1/traces")[0]["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name")["stringValue"], "redrive");
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_delays_nothing_and_is_said_once() {
    let (mut collector, receiver) = (Receiver::start().await, Receiver::start().await);
    let mut installation = Installation::embedded();
    tell(&mut installation, &collector);
    collector.stop_listening().await;
    let mut daemon = installation.daemon().await;
    for number in 0..3 {
        let notification = json!({"execution_id": format!("run-{number}"), "url": receiver.url("/hook")});
        assert_eq!(daemon.post("/v1/notifications", &notification).await.status, 202);
        wait_until("its delivery", BOUND, async || {
            (receiver.delivered() == number + 1).then_some(())
        })
        .await;
    }
    let said = "takes no spans and numbers";
    wait_until("what is said of it", BOUND, async || {
        daemon.log().contains(said).then_some(())
    })
    .await;
    collector.listen_again().await;
    let notification = json!({"execution_id": "later", "url": receiver.url("/hook")});
    assert_eq!(daemon.post("/v1/notifications", &notification).await.status, 202);
    wait_until("a span", BOUND, async || (!spans(&collector).is_empty()).then_some(())).await;
    assert_eq!(daemon.log().matches(said).count(), 1, "{}", daemon.log());
    daemon.kill().await;
}
