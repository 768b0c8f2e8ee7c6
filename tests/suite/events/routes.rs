//! The routes about events of a running daemon.

use serde_json::{Value, json};

use crate::support::daemon::{Daemon, Installation};
use crate::support::http::Answer;

async fn call(daemon: &Daemon, method: &str, path: &str, body: Value) -> Answer {
    daemon
        .request(method, path)
        .header("content-type", "application/json")
        .body(body.to_string())
        .send()
        .await
}

async fn field(daemon: &Daemon, path: &str, body: Value) -> String {
    let answer = daemon.post(path, &body).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    answer.json()["field"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_pushed_singly_and_in_batches_wholly_or_not_at_all() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    let path = "/v1/types/hr%2Fimport/events";
    let raw = daemon.request("POST", path).header("content-type", "application/json");
    let pushed = raw.body(r#"{"reference": "7", "payload": {"n": 1.0}}"#).send().await;
    assert_eq!(pushed.status, 201, "{}", pushed.text());
    assert_eq!(pushed.json()["type"], "hr/import");
    let batch = json!({"events": [{"reference": "8"}, {"reference": "9", "nbf": "2100-01-01T00:00:00Z"}]});
    assert_eq!(daemon.post(path, &batch).await.json()["items"][1]["subtype"], "delayed");
    let large = "x".repeat(1024 * 1024);
    for (body, wrong) in [
        (json!({"reference": ""}), "reference"),
        (json!({"payload": 1}), "reference"),
        (json!({"reference": "a", "nbf": "soon"}), "nbf"),
        (json!({"reference": "a", "paylod": 1}), "paylod"),
        (json!([{"reference": "x"}, {"reference": "x"}]), "events[1].reference"),
        (
            json!([{"reference": "x"}, {"reference": "y", "nbf": []}]),
            "events[1].nbf",
        ),
        (json!([]), "events"),
        (json!({"reference": "a", "payload": large}), "payload"),
        (
            json!([{"reference": "x"}, {"reference": "y", "payload": large}]),
            "events[1].payload",
        ),
        (json!([{"reference": "x"}, {"reference": ""}]), "events[1].reference"),
        (json!({"reference": "a", "reason": "r".repeat(4097)}), "reason"),
        (json!({"reference": "a", "nbf": 99_999_999_999_u64}), "nbf"),
    ] {
        assert_eq!(
            field(&daemon, path, body.clone()).await,
            wrong,
            "{:.200}",
            body.to_string()
        );
    }
    let listed = daemon.get(path).await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 3, "{listed}");
    let found = daemon.get("/v1/events?filter=reference+%3D+9").await.json();
    assert_eq!(found["items"][0]["nbf"], "2100-01-01T00:00:00Z");
    assert_eq!(daemon.get("/v1/types/nobody/events").await.status, 404);
    assert_eq!(daemon.get("/v1/events?filter=rason+%3D+9").await.status, 400);
    let counts = daemon.get("/v1/events/counts").await.json();
    assert_eq!(counts["items"][0]["count"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_claims_over_http_and_an_operator_acts() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    let claims = "/v1/types/t/claims";
    assert_eq!(
        daemon
            .post(claims, &json!({"ttl": 60, "grace": 60, "limit": 1}))
            .await
            .status,
        404
    );
    let set = call(&daemon, "PUT", "/v1/types/t", json!({"_max_claim_count": 3})).await;
    assert_eq!(set.json()["metadata"]["_max_claim_count"], 3, "{}", set.text());
    assert_eq!(
        daemon
            .post(claims, &json!({"ttl": 60, "grace": 60, "limit": 1}))
            .await
            .status,
        204
    );
    for (body, wrong) in [
        (json!({"ttl": 59, "grace": 60, "limit": 1}), "ttl"),
        (json!({"ttl": 60, "grace": 43201, "limit": 1}), "grace"),
        (json!({"ttl": 60, "grace": 60, "limit": 0}), "limit"),
    ] {
        assert_eq!(field(&daemon, claims, body).await, wrong);
    }
    daemon
        .post("/v1/types/t/events", &json!({"reference": "a/b", "payload": 1}))
        .await;
    let claim = daemon.post(claims, &json!({"ttl": 60, "grace": 60, "limit": 20})).await;
    assert_eq!(
        (claim.status, claim.json()["events"][0]["reference"].clone()),
        (201, json!("a/b"))
    );
    let id = claim.json()["id"].as_str().unwrap().to_owned();
    let one = format!("{claims}/{id}");
    assert_eq!(call(&daemon, "PATCH", &one, json!({"ttl": 120})).await.status, 200);
    let event = "/v1/types/t/events/a%2Fb";
    assert_eq!(
        call(&daemon, "DELETE", &format!("{event}?claim_id=other"), json!({}))
            .await
            .status,
        409
    );
    assert_eq!(
        call(&daemon, "POST", &format!("{event}/retry"), json!({})).await.status,
        409
    );
    assert_eq!(call(&daemon, "DELETE", &one, json!({})).await.json()["released"], 1);
    assert_eq!(call(&daemon, "DELETE", &one, json!({})).await.status, 404);
    let at = json!({"at": 4_102_444_800_u64});
    let moved = call(&daemon, "POST", &format!("{event}/reschedule"), at).await;
    assert_eq!(moved.json()["nbf"], "2100-01-01T00:00:00Z", "{}", moved.text());
    assert_eq!(
        call(&daemon, "POST", &format!("{event}/retry"), json!({})).await.status,
        200
    );
    let plan = call(&daemon, "DELETE", &format!("{event}?dry_run=true"), json!({}))
        .await
        .json();
    assert_eq!(plan["command"], "event cancel");
    assert_eq!(call(&daemon, "DELETE", event, json!({})).await.status, 200);
    assert_eq!(call(&daemon, "DELETE", event, json!({})).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_are_made_listed_and_ended() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    let path = "/v1/types/t/subscriptions";
    let new = json!({"url": "http://example.com/hook", "options": {"headers": {"x-a": "b"}}});
    assert_eq!(daemon.post(path, &new).await.status, 404);
    call(&daemon, "PUT", "/v1/types/t", json!({})).await;
    let made = daemon.post(path, &new).await;
    assert_eq!(made.json()["url"], "http://example.com/hook", "{}", made.text());
    let wrong = json!({"url": "http://example.com/hook", "options": {"_retry_policy": {"minimum_delay": -1}}});
    assert_eq!(field(&daemon, path, wrong).await, "_retry_policy.minimum_delay");
    for (name, value) in [
        ("X Y", "a"),
        ("", "a"),
        ("x-a", "a\r\nhost: b"),
        ("x-a", &"a".repeat(33_000)),
        ("Webhook-Id", "a"),
    ] {
        let wrong = json!({"url": "http://example.com/other", "options": {"headers": {name: value}}});
        let said = field(&daemon, path, wrong).await;
        assert!(
            said == format!("headers.{name}") || said == "headers",
            "{name:?}: {said}"
        );
    }
    assert_eq!(daemon.get(path).await.json()["items"].as_array().unwrap().len(), 1);
    let id = made.json()["id"].to_string();
    assert_eq!(
        call(&daemon, "DELETE", &format!("{path}?id={id}"), json!({}))
            .await
            .json()["removed"],
        true
    );
    assert_eq!(
        call(&daemon, "DELETE", &format!("{path}?id={id}"), json!({}))
            .await
            .status,
        404
    );
}

/// Every digit of it, as programs and subscribers get it.
#[tokio::test(flavor = "multi_thread")]
async fn a_payload_is_shown_as_it_was_pushed() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    let exact = "{\"n\": 123456789012345678901234567890,\n \"z\": 1.10, \"z\": 1.1e1}";
    let raw = daemon
        .request("POST", "/v1/types/t/events")
        .header("content-type", "application/json");
    let event = format!("{{\"reference\": \"exact\", \"payload\": {exact}}}");
    assert_eq!(raw.body(event).send().await.status, 201);
    let shown = daemon.get("/v1/types/t/events/exact").await.text();
    assert!(shown.contains(&exact.replace('\n', " ")), "{shown}");
}

/// A plan may name what was found for it; the call that asks for it is the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_carried_out_by_the_call_that_it_was_made_by() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    call(&daemon, "PUT", "/v1/types/t", json!({})).await;
    for reference in ["a", "b", "c"] {
        daemon
            .post("/v1/types/t/events", &json!({"reference": reference}))
            .await;
    }
    let id = daemon.get("/v1/types/t/events/c").await.json()["items"][0]["id"].clone();
    let (hook, policy) = (json!({"url": "http://example.com/hook"}), json!({"minimum_delay": 5}));
    let of = "?url=http%3A%2F%2Fexample.com%2Fhook";
    for (method, path, body) in [
        (
            "POST",
            "/v1/types/t/events/a/reschedule",
            json!({"at": "2100-01-01T00:00:00Z"}),
        ),
        ("POST", "/v1/types/t/events/a/retry", json!({})),
        ("DELETE", "/v1/types/t/events/a", json!({})),
        ("POST", "/v1/events/retry", json!({"filter": "reference = \"b\""})),
        ("POST", "/v1/events/cancel", json!({"ids": [id]})),
        ("POST", "/v1/types/t/subscriptions", hook),
        ("DELETE", &format!("/v1/types/t/subscriptions{of}"), json!({})),
        ("PUT", &format!("/v1/policies{of}"), policy),
        ("DELETE", &format!("/v1/policies{of}"), json!({})),
    ] {
        let with = |key: &str| format!("{path}{}{key}", if path.contains('?') { '&' } else { '?' });
        let planned = call(&daemon, method, &with("dry_run=true"), body.clone()).await;
        let plan = planned.json()["plan_id"].as_str().map(str::to_owned);
        let plan = plan.unwrap_or_else(|| panic!("{method} {path}: {}", planned.text()));
        let done = call(&daemon, method, &with(&format!("plan={plan}")), body.clone()).await;
        assert_eq!(done.status, 200, "{method} {path}: {}", done.text());
        let again = call(&daemon, method, &with(&format!("plan={plan}")), body).await;
        assert_eq!(again.status, 409, "{method} {path}: {}", again.text());
    }
    let left = daemon.get("/v1/types/t/events").await.json();
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "{left}");
}

/// What cannot be planned is not done when a plan is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_route_without_plans_refuses_to_be_asked_for_one_and_does_nothing() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    call(&daemon, "PUT", "/v1/types/t", json!({})).await;
    daemon.post("/v1/types/t/events", &json!({"reference": "a"})).await;
    let claimed = daemon.post("/v1/types/t/claims", &json!({})).await.json();
    let claim = claimed["id"].as_str().unwrap();
    let job = json!({"id": "018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a"});
    let url = "http://127.0.0.1:9/";
    for (method, path, body) in [
        ("POST", "/v1/notifications", json!({"execution_id": "a", "url": url})),
        ("POST", "/v1/executions/a/end", json!({"url": url})),
        ("POST", "/v1/types/t/events", json!({"reference": "b"})),
        ("POST", "/v1/types/t/claims", json!({})),
        ("DELETE", &format!("/v1/types/t/claims/{claim}"), json!({})),
        ("DELETE", &format!("/v1/types/t/events/a?claim_id={claim}"), json!({})),
        ("POST", "/v1/jobs", job),
    ] {
        let path = format!("{path}{}dry_run=true", if path.contains('?') { '&' } else { '?' });
        let refused = call(&daemon, method, &path, body).await;
        assert_eq!(
            (refused.status, &refused.json()["field"]),
            (400, &json!("dry_run")),
            "{path}"
        );
    }
    let left = daemon.get("/v1/types/t/events").await.json();
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left["items"][0]["state"], "leased", "{left}");
    let queues = daemon.get("/v1/queues").await.json();
    let mut queues = queues["items"].as_array().unwrap().iter();
    assert!(queues.all(|queue| queue["kind"] == "dead_letter"), "{queues:?}");
    assert_eq!(daemon.get("/v1/jobs").await.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letter_types_that_are_missing_or_make_a_chain_are_refused() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    let put = async |name: &str, body: Value| call(&daemon, "PUT", &format!("/v1/types/{name}"), body).await;
    let missing = put("a", json!({"_dead_letter_queue": "b"})).await;
    assert_eq!(
        (missing.status, missing.json()["field"].clone()),
        (400, json!("_dead_letter_queue"))
    );
    put("b", json!({})).await;
    assert_eq!(put("a", json!({"_dead_letter_queue": "b"})).await.status, 200);
    assert_eq!(put("b", json!({"_dead_letter_queue": "a"})).await.status, 409);
    assert_eq!(put("c", json!({"_dead_letter_queue": "a"})).await.status, 409);
    assert_eq!(put("a", json!({"_dead_letter_queue": "a"})).await.status, 400);
    for (body, wrong) in [
        (json!({"_max_claim_count": 0}), "_max_claim_count"),
        (
            json!({"_dead_letter_queue_messages_ttl": 59}),
            "_dead_letter_queue_messages_ttl",
        ),
        (
            json!({"_dead_letter_queue_messages_ttl": 1_209_601}),
            "_dead_letter_queue_messages_ttl",
        ),
        (
            json!({"_retry_policy": {"minimum_delay": -1}}),
            "_retry_policy.minimum_delay",
        ),
        (json!({"_max_claims": 1}), "_max_claims"),
    ] {
        let refused = put("a", body.clone()).await;
        assert_eq!(
            (refused.status, &refused.json()["field"]),
            (400, &json!(wrong)),
            "{body}"
        );
    }
}
