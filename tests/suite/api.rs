//! The HTTP API of a running daemon, over real sockets: who gets in, what is refused, what is answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::support::daemon::{Daemon, Installation};
use crate::support::http::Answer;
use crate::support::receiver::Receiver;
use crate::support::wait::{self, wait_until, within};

/// Nothing listens there: a notification stays where it can be looked at.
const DEAD_URL: &str = "http://127.0.0.1:9/hook";
const BOUND: Duration = Duration::from_mins(1);

/// A policy with which a failure waits long: nothing moves while a test looks.
fn patient() -> Installation {
    let mut installation = Installation::embedded();
    let policy = json!({"retries_with_no_delay": 0, "minimum_delay": 600, "maximum_delay": 600});
    installation.set("delivery", "retry_policy", policy);
    installation
}

fn problem(answer: &Answer, status: u16) -> Value {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let document = answer.json();
    assert_eq!(document["status"], status);
    assert!(
        document["title"].is_string() && document["detail"].is_string(),
        "{document}"
    );
    document
}

/// Ready is not yet delivering: the names on the broker are made in between.
async fn until_it_delivers(daemon: &Daemon) {
    wait_until("a daemon that delivers", Duration::from_mins(1), async || {
        (daemon.get("/readyz").await.json()["delivering"]["ok"] == true).then_some(())
    })
    .await;
}

async fn publish(daemon: &Daemon, body: &Value) -> Answer {
    daemon.post("/v1/notifications", body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_request_without_a_body_says_of_its_body_is_not_looked_at() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    for (method, path, status) in [("GET", "/v1/queues", 200), ("POST", "/v1/nothing", 404)] {
        let latin = daemon
            .request(method, path)
            .header("content-type", "text/plain; charset=iso-8859-1");
        let answer = latin.header("content-encoding", "gzip").send().await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_or_is_not_json_is_a_problem_document() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    problem(&daemon.get("/v1/nothing").await, 404);
    let wrong_method = daemon
        .request("PUT", "/v1/queues")
        .header("content-type", "application/json")
        .send()
        .await;
    problem(&wrong_method, 405);
    assert!(
        wrong_method.header("allow").is_some_and(|allow| allow.contains("GET")),
        "{wrong_method:?}"
    );
    let form = daemon
        .request("POST", "/v1/redeliver")
        .header("content-type", "text/plain")
        .body(r#"{"url":"http://example.com"}"#)
        .send()
        .await;
    problem(&form, 415);
    let bodyless = daemon.request("POST", "/v1/queues/q/pause").send().await;
    problem(&bodyless, 415);
    let nowhere = daemon.request("POST", "/v1/nothing").send().await;
    problem(&nowhere, 404);
    let read_only = daemon.request("POST", "/v1/queues").send().await;
    problem(&read_only, 405);
    for (path, body, field) in [
        ("/v1/notifications", json!({"url": DEAD_URL}), "execution_id"),
        (
            "/v1/notifications",
            json!({"execution_id": "e", "url": "ftp://x"}),
            "url",
        ),
        (
            "/v1/notifications",
            json!({"execution_id": "e", "url": DEAD_URL, "boddy": 1}),
            "boddy",
        ),
        ("/v1/redeliver", json!({}), "url"),
        ("/v1/executions/e/end", json!({"url": ""}), "url"),
    ] {
        assert_eq!(
            problem(&daemon.post(path, &body).await, 400)["field"],
            field,
            "{path} {body}"
        );
    }
    for (path, field) in [
        ("/v1/queues?limit=0", "limit"),
        ("/v1/queues?lmit=1", "lmit"),
        ("/v1/queues?filter=depth+%3E", "filter"),
        ("/v1/endpoints?url=x", "url"),
        ("/v1/audit?cursor=x", "cursor"),
    ] {
        assert_eq!(problem(&daemon.get(path).await, 400)["field"], field, "{path}");
    }
    problem(
        &daemon.get("/v1/endpoints?url=http%3A%2F%2Fexample.com%2Fnever").await,
        404,
    );
    problem(
        &daemon
            .post("/v1/redeliver", &json!({"url": "http://example.com/never"}))
            .await,
        404,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_is_not_sent_is_named_to_who_publishes_it() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    let with = |name: &str| json!({"execution_id": "e", "url": DEAD_URL, "headers": {name: "v"}});
    let told = publish(&daemon, &with("Host")).await;
    assert_eq!(told.status, 202, "{}", told.text());
    let told = told.json();
    let warning = told["warning"].as_str().unwrap();
    assert!(warning.ends_with("are not sent: Host"), "{warning}");
    let silent = publish(&daemon, &with("X-Tenant")).await;
    assert_eq!((silent.status, silent.json().get("warning")), (202, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_idempotency_that_is_not_heeded_is_said_to_be_none() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    let publish = async |name: &str| {
        let request = daemon.request("POST", "/v1/notifications").header(name, "order-18");
        let answer = request
            .json(&json!({"execution_id": "e", "url": DEAD_URL}))
            .send()
            .await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        answer.json()
    };
    let told = publish("Idempotency-Key").await;
    let warning = told["warning"].as_str().unwrap();
    assert!(
        warning.contains("is not heeded") && warning.contains("`id`"),
        "{warning}"
    );
    assert_eq!(publish("X-Key").await.get("warning"), None);
}

/// What is wrong with a request, by its field; nothing was done.
async fn field_of(daemon: &Daemon, (method, path): (&str, &str), body: Option<&str>) -> (Value, String) {
    let mut request = daemon.request(method, path);
    if method != "GET" {
        request = request.header("content-type", "application/json");
    }
    let answer = request.body(body.unwrap_or_default()).send().await;
    let document = problem(&answer, 400);
    let detail = document["detail"].as_str().unwrap().to_owned();
    for of_ours in ["struct", "u32", "u64", "untagged", "Failed to deserialize"] {
        assert!(!detail.contains(of_ours), "{method} {path}: {detail}");
    }
    (document["field"].clone(), detail)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_value_is_named_by_its_field_in_query_and_body() {
    let installation = patient();
    let daemon = installation.daemon().await;
    for (method, path, field) in [
        ("GET", "/v1/endpoints?unavailable=yes", "unavailable"),
        ("GET", "/v1/rates?week=1", "week"),
        ("GET", "/v1/rates?week=true", "week"),
        ("GET", "/v1/rates?queue=a&endpoints=true", "endpoints"),
        ("GET", "/v1/rates?queue=a&limit=5", "limit"),
        ("GET", "/v1/queues?limit=abc", "limit"),
        ("GET", "/v1/queues?limit=-1", "limit"),
        ("GET", "/v1/queues?limit=1&limit=2", "limit"),
        ("GET", "/v1/retries?within=1h", "within"),
        ("GET", "/v1/attempts?message_id=", "message_id"),
        ("GET", "/v1/events/stream?message_id=%20", "message_id"),
        ("GET", "/v1/queue-name?execution_id=a", "url"),
        ("POST", "/v1/redeliver?dry_run=1", "dry_run"),
        ("PUT", "/v1/policies?url=http%3A%2F%2Fa.example&version=x", "version"),
        ("DELETE", "/v1/types/t/subscriptions?id=x", "id"),
    ] {
        let (found, detail) = field_of(&daemon, (method, path), None).await;
        assert_eq!(found, field, "{method} {path}: {detail}");
        assert!(detail.starts_with(field), "{method} {path}: {detail}");
    }
    for (path, body, field) in [
        ("/v1/dead/redrive", r#"{"all": true, "rate": -1}"#, "rate"),
        ("/v1/events/retry", r#"{"ids": "x"}"#, "ids"),
        ("/v1/types/t/claims", r#"{"ttl": "60"}"#, "ttl"),
        ("/v1/types/t/events", r#"{"reference": 5}"#, "reference"),
        ("/v1/types/t/events", r#"{"events": 5}"#, "events"),
        (
            "/v1/types/t/events",
            r#"{"events": [{"reference": 5}]}"#,
            "events[0].reference",
        ),
        (
            "/v1/redeliver?url=http%3A%2F%2Fa.example",
            r#"{"url": "http://b.example"}"#,
            "url",
        ),
        (
            "/v1/endpoints/disable?url=http%3A%2F%2Fa.example",
            r#"{"url": "http://b.example"}"#,
            "url",
        ),
        ("/v1/queues/q/browse", r#"{"limit": "x"}"#, "limit"),
        ("/v1/queues/q/skip", r#"{"to": "zz"}"#, "to"),
        ("/v1/types/t/events/r/reschedule", r#"{"at": "zz"}"#, "at"),
        ("/v1/types/t/events/r/reschedule", r#"{"nbf": "zz"}"#, "nbf"),
        ("/v1/jobs", r#"{"ttl_s": "60"}"#, "ttl_s"),
        (
            "/v1/notifications",
            r#"{"execution_id": 5, "url": "http://a.example/"}"#,
            "execution_id",
        ),
    ] {
        let (found, detail) = field_of(&daemon, ("POST", path), Some(body)).await;
        assert_eq!(found, field, "{path} {body}: {detail}");
    }
    // A list is no object by its places.
    for (path, body) in [
        ("/v1/notifications", r#"["arr", "http://127.0.0.1:9/", {}, "hello"]"#),
        ("/v1/queues/q/pause", r#"["why"]"#),
        ("/v1/types/t/events", r#"[["r", null, "why"]]"#),
    ] {
        let (_, detail) = field_of(&daemon, ("POST", path), Some(body)).await;
        assert!(detail.contains("is a list, and must be an object"), "{path}: {detail}");
    }
    let queues = daemon.get("/v1/queues").await.json();
    let mut queues = queues["items"].as_array().unwrap().iter();
    assert!(queues.all(|queue| queue["kind"] != "delivery"), "nothing was published");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_takes_no_query_refuses_any() {
    let installation = patient();
    let daemon = installation.daemon().await;
    for path in [
        "/v1/types?limit=2",
        "/v1/types/t?limit=2",
        "/v1/types/t/subscriptions?limit=2",
        "/v1/types/t/events/r?limit=2",
        "/v1/events/counts?limit=2",
        "/v1/doctor?limit=2",
        "/v1/audit/verify?limit=2",
        "/v1/queues/q?limit=2",
        "/v1/queues/q/why?limit=2",
        "/v1/queues/q/map?limit=2",
        "/v1/dead/x?limit=2",
    ] {
        assert_eq!(field_of(&daemon, ("GET", path), None).await.0, "limit", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_route_does_not_take_is_refused_and_not_ignored() {
    let installation = patient();
    let daemon = installation.daemon().await;
    let event = json!({"reference": "r", "nbf": "2099-01-01T00:00:00Z"});
    let pushed = daemon.post("/v1/types/t/events", &event).await.json();
    let id = pushed["id"].as_i64().unwrap();
    for (method, path, body, field) in [
        ("GET", "/v1/dead/groups?sort=zzz", "", "sort"),
        ("GET", "/v1/policies?type=t&version=1", "", "version"),
        ("GET", "/v1/policies/history?type=t&dry_run=true", "", "dry_run"),
        ("POST", "/v1/queues/q/browse?dry_run=true", "{}", "dry_run"),
        ("POST", "/v1/queues/q/browse?limit=1", "{}", "limit"),
        (
            "POST",
            "/v1/dead/discard?url=http%3A%2F%2Fa.example%2F",
            "{\"all\": true}",
            "url",
        ),
        ("POST", "/v1/queues/q/pause?method=GET", "{}", "method"),
        (
            "POST",
            "/v1/endpoints/disable",
            "{\"url\": \"http://a.example/\", \"method\": \"GET\"}",
            "method",
        ),
        ("POST", "/v1/types/t/events/r/retry", "{\"at\": 4000000000}", "at"),
        (
            "POST",
            "/v1/expiring/save",
            "{\"queue\": \"q\", \"drop\": true}",
            "drop",
        ),
        ("POST", "/v1/expiring/save", "{\"queue\": \"q\", \"ttl_s\": 5}", "ttl_s"),
        ("POST", "/v1/expiring/purge", "{\"queue\": \"q\", \"to\": \"p\"}", "to"),
        (
            "POST",
            "/v1/expiring/extend",
            "{\"queue\": \"q\", \"drop\": true}",
            "drop",
        ),
        (
            "POST",
            "/v1/expiring/restore",
            "{\"save\": \"s\", \"queue\": \"q\"}",
            "queue",
        ),
        ("GET", "/v1/runs?cursor=zzz", "", "cursor"),
        ("GET", "/v1/runs?cursor=", "", "cursor"),
        ("GET", "/v1/expiring/saves?cursor=zzz", "", "cursor"),
    ] {
        let (found, detail) = field_of(&daemon, (method, path), Some(body)).await;
        assert_eq!(found, field, "{method} {path} {body}: {detail}");
    }
    for verb in ["retry", "cancel"] {
        let body = json!({"ids": [id], "at": "2030-01-01T00:00:00Z"}).to_string();
        let path = format!("/v1/events/{verb}");
        assert_eq!(field_of(&daemon, ("POST", &path), Some(&body)).await.0, "at", "{verb}");
    }
    let left = daemon.get("/v1/types/t/events/r").await.json();
    assert_eq!(
        left["items"][0]["nbf"], "2099-01-01T00:00:00Z",
        "nothing was done: {left}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_replaced_only_by_a_document_and_a_body_may_say_why_a_subscription_ends() {
    let installation = patient();
    let daemon = installation.daemon().await;
    let set = async |body: &[u8]| {
        let request = daemon.request("PUT", "/v1/types/t");
        request
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
    };
    assert_eq!(set(br#"{"team": "a"}"#).await.status, 200);
    for wrong in [&b""[..], b"  ", b"{\"team\": \"\xff\xfe\"}", b"{"] {
        problem(&set(wrong).await, 400);
    }
    let kept = daemon.get("/v1/types/t").await.json();
    assert_eq!(kept["metadata"]["team"], "a", "{kept}");

    let url = json!({"url": DEAD_URL});
    assert_eq!(daemon.post("/v1/types/t/subscriptions", &url).await.status, 200);
    let ended = daemon.request("DELETE", &format!("/v1/types/t/subscriptions?url={DEAD_URL}"));
    let ended = ended.json(&json!({"reason": "the shop closed"})).send().await;
    assert_eq!(ended.status, 200, "{}", ended.text());
    let audit = daemon.get("/v1/audit").await.json();
    assert_eq!(audit["items"][0]["reason"], "the shop closed", "{audit}");
}

/// Queues of a list in pages of one, with what waits in each, and when each page says that it was read.
async fn walked(daemon: &Daemon, after_the_first: impl AsyncFn()) -> Vec<(String, u64, String)> {
    let mut pages = Vec::new();
    let mut cursor = Some(String::new());
    while let Some(from) = cursor {
        let from = if from.is_empty() {
            from
        } else {
            format!("&cursor={from}")
        };
        let path = format!("/v1/queues?filter=kind+%3D+delivery&sort=name&limit=1{from}");
        let page = daemon.get(&path).await.json();
        let queue = &page["items"][0];
        let waits = queue["ready"].as_u64().unwrap() + queue["unacked"].as_u64().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        pages.push((text(&queue["execution_id"]), waits, text(&page["taken_at"])));
        if pages.len() == 1 {
            after_the_first().await;
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
    }
    pages
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_whose_state_changes_between_two_pages_is_in_one_of_them_and_so_are_the_others() {
    let installation = patient();
    let daemon = installation.daemon().await;
    for execution in ["a", "b", "c", "d", "e"] {
        let notification = json!({"execution_id": execution, "url": DEAD_URL, "body": "x"});
        assert_eq!(daemon.post("/v1/notifications", &notification).await.status, 202);
    }
    let list = "/v1/queues?filter=kind+%3D+delivery+and+not+paused+%3D+true&sort=state&limit=2";
    let listed = wait_until("the queues to be listed", BOUND, async || {
        let all = daemon.get("/v1/queues?filter=kind+%3D+delivery").await.json();
        (all["items"].as_array()?.len() == 5).then_some(())
    });
    listed.await;
    let mut names = Vec::new();
    let mut page = daemon.get(list).await.json();
    loop {
        let items = page["items"].as_array().unwrap().clone();
        for queue in &items {
            let name = queue["name"].as_str().unwrap().to_owned();
            let paused = daemon.post(&format!("/v1/queues/{name}/pause"), &json!({})).await;
            assert_eq!(paused.status, 200, "{}", paused.text());
            names.push(name);
        }
        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        page = daemon.get(&format!("{list}&cursor={cursor}")).await.json();
    }
    let once: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!((names.len(), once.len()), (5, 5), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_of_a_list_of_queues_show_one_moment() {
    let installation = patient();
    let daemon = installation.daemon().await;
    let publishes = async |execution: &str| {
        let notification = json!({"execution_id": execution, "url": DEAD_URL});
        assert_eq!(publish(&daemon, &notification).await.status, 202);
    };
    for execution in ["a", "b", "c"] {
        publishes(execution).await;
    }
    // Between the first page and the second one something comes.
    let pages = walked(&daemon, async || publishes("c").await).await;
    let waits = |pages: &[(String, u64, String)]| pages.iter().map(|page| (page.0.clone(), page.1)).collect::<Vec<_>>();
    let of = |counts: [u64; 3]| {
        ["a", "b", "c"]
            .map(str::to_owned)
            .into_iter()
            .zip(counts)
            .collect::<Vec<_>>()
    };
    assert_eq!(waits(&pages), of([1, 1, 1]));
    assert!(pages.iter().all(|page| page.2 == pages[0].2), "{pages:?}");
    // The first page of another walk shows what is there now.
    assert_eq!(waits(&walked(&daemon, async || ()).await), of([1, 1, 2]));
}

/// How fast an endpoint goes is asked for, planned, seen, and changed while it goes.
async fn paced(daemon: &Daemon) {
    for (body, field) in [
        (json!({"url": DEAD_URL, "rate": 0}), "rate"),
        (json!({"url": DEAD_URL, "canary_watch_s": 5}), "canary_watch_s"),
        (json!({"url": DEAD_URL, "ramp": 1}), "ramp"),
    ] {
        let refused = daemon.post("/v1/redeliver", &body).await;
        assert_eq!(problem(&refused, 400)["field"], field, "{body}");
    }
    assert_eq!(
        problem(&daemon.post("/v1/endpoints/pace", &json!({"url": DEAD_URL})).await, 400)["field"],
        "rate"
    );
    let body = json!({"url": DEAD_URL, "rate": 1, "ramp": 2, "stop_after": 0});
    let planned = daemon.post("/v1/redeliver?dry_run=true", &body).await.json();
    assert_eq!(
        (&planned["messages"], &planned["time_to_empty_s"]),
        (&json!(1), &json!(1)),
        "{planned}"
    );
    let redelivered = daemon.post("/v1/redeliver", &body).await;
    assert_eq!(redelivered.status, 200, "{}", redelivered.text());
    let shown = daemon
        .get(&format!(
            "/v1/endpoints?url={}",
            DEAD_URL.replace(':', "%3A").replace('/', "%2F")
        ))
        .await
        .json();
    assert_eq!(
        (&shown["pace"]["rate"], &shown["pace"]["ramp"]),
        (&json!(1), &json!(2)),
        "{shown}"
    );
    let change = async |path: &str, body: Value| daemon.post(&format!("/v1/endpoints/{path}"), &body).await.json();
    let paused = change("pause", json!({"url": DEAD_URL})).await;
    assert_eq!(
        (&paused["pace"]["stage"], &paused["pace"]["empty_in_s"]),
        (&json!("paused"), &Value::Null),
        "{paused}"
    );
    let changed = change("pace", json!({"url": DEAD_URL, "rate": 7})).await;
    assert_eq!(
        (&changed["pace"]["rate"], &changed["pace"]["ramp"]),
        (&json!(7), &Value::Null),
        "{changed}"
    );
    let resumed = change("resume", json!({"url": DEAD_URL})).await;
    assert_eq!(resumed["pace"]["stage"], "steady", "{resumed}");
    let released = change("pace", json!({"url": DEAD_URL, "release": true})).await;
    assert_eq!(released.get("pace"), None, "{released}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_host_or_a_web_page_is_turned_away() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    for (name, value, status) in [
        ("host", "evil.example", 421),
        ("host", "127.0.0.1.evil.example:80", 421),
        ("origin", "http://evil.example", 403),
        ("origin", "null", 403),
        ("sec-fetch-site", "cross-site", 403),
    ] {
        let answer = daemon.request("GET", "/v1/queues").header(name, value).send().await;
        problem(&answer, status);
        assert!(
            answer
                .headers
                .iter()
                .all(|(name, _)| !name.starts_with("access-control")),
            "{answer:?}"
        );
    }
    for host in ["localhost:1", "[::1]", "127.0.0.1"] {
        let answer = daemon.request("GET", "/v1/queues").header("host", host).send().await;
        assert_eq!(answer.status, 200, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    let announced = daemon
        .request("POST", "/v1/notifications")
        .header("content-type", "application/json")
        .body(vec![b' '; 25 * 1024 * 1024]);
    // The server may close while the client still writes: then there is no answer to read.
    if let Ok(answer) = announced.try_send().await {
        problem(&answer, 413);
    }
    let long = "x".repeat(16 * 1024 * 1024 + 1);
    let body = json!({"execution_id": "e", "url": DEAD_URL, "body": long});
    assert_eq!(problem(&publish(&daemon, &body).await, 400)["field"], "body");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_seen_paused_planned_and_deleted_through_its_routes() {
    let installation = patient();
    let daemon = installation.daemon().await;
    until_it_delivers(&daemon).await;
    let body = json!({"execution_id": "run/ 1", "url": DEAD_URL, "body": {"a": 1}, "id": "n-1"});
    let published = publish(&daemon, &body).await;
    assert_eq!(published.status, 202, "{}", published.text());
    assert_eq!(published.json()["id"], "n-1");
    let queue = published.json()["queue"].as_str().unwrap().to_owned();
    assert!(queue.contains("run/ 1"), "{queue}");
    let path = format!("/v1/queues/{}", queue.replace('/', "%2F").replace(' ', "%20"));

    wait_until("an unavailable endpoint", Duration::from_mins(1), async || {
        let answer = daemon.get("/v1/endpoints?unavailable=true").await.json();
        (answer["items"][0]["state"] == "unavailable").then_some(())
    })
    .await;
    let list = daemon.get("/v1/queues").await.json();
    assert!(
        list["taken_at"].is_string() && list.get("next_cursor").is_some(),
        "{list}"
    );
    let mut rows = list["items"].as_array().unwrap().iter();
    assert!(rows.any(|row| row["name"] == *queue), "{list}");
    let one = daemon.get(&path).await.json();
    assert_eq!(
        (one["name"].as_str(), one["state"].as_str()),
        (Some(&*queue), Some("endpoint_unavailable"))
    );
    let why = daemon.get(&format!("{path}/why")).await.json();
    assert_eq!(why["code"], "endpoint_unavailable", "{why}");
    let attempts = daemon.get("/v1/attempts?message_id=n-1").await.json();
    assert_eq!(attempts["items"][0]["message_id"], "n-1", "{attempts}");
    let retries = daemon.get("/v1/retries").await.json();
    assert_eq!(retries["items"][0]["url"], DEAD_URL, "{retries}");

    let planned = daemon
        .post("/v1/redeliver?dry_run=true", &json!({"url": DEAD_URL}))
        .await
        .json();
    assert_eq!(planned["messages"], 1, "{planned}");
    let redelivered = daemon.post("/v1/redeliver", &json!({"url": DEAD_URL})).await;
    assert_eq!(redelivered.status, 200, "{}", redelivered.text());
    let done = redelivered.json();
    assert_eq!((&done["was_unavailable"], &done["queues"]), (&json!(true), &json!(1)));
    paced(&daemon).await;

    let paused = daemon.post(&format!("{path}/pause"), &json!({"reason": "look"})).await;
    assert_eq!(paused.json()["paused"], true, "{}", paused.text());
    let plan = daemon
        .post(&format!("{path}/purge?dry_run=true"), &json!({}))
        .await
        .json();
    assert_eq!(
        (&plan["destroys"], &plan["confirm"]["what"]),
        (&json!(true), &json!("name of the queue")),
        "{plan}"
    );
    let deleted = daemon
        .request("DELETE", &path)
        .header("content-type", "application/json")
        .send()
        .await;
    assert_eq!(deleted.json()["deleted"], true, "{}", deleted.text());
    problem(&daemon.get(&path).await, 404);
    let audit = daemon.get("/v1/audit").await.json();
    assert!(
        audit["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|line| line["reason"] == "look"),
        "{audit}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_described_routes_are_served_and_the_daemon_stops_in_order() {
    let installation = Installation::embedded();
    let mut daemon = installation.daemon().await;
    let description = daemon.get("/openapi.json").await.json();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let path = path.replace("{name}", "q").replace("{id}", "e");
            let request = daemon
                .request(&method.to_uppercase(), &path)
                .header("content-type", "application/json");
            let answer = request.send().await;
            let unserved = answer.status == 405 || answer.text().contains("there is no route");
            assert!(!unserved && answer.status < 500, "{method} {path}: {}", answer.text());
        }
    }
    assert_eq!(daemon.get("/healthz").await.json()["status"], "alive");
    assert_eq!(daemon.get("/readyz").await.json()["ready"], true);
    let metrics = daemon.get("/metrics").await;
    assert!(
        metrics
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("text/plain"))
    );
    assert!(
        daemon.log().contains("listening on http://127.0.0.1:"),
        "{}",
        daemon.log()
    );
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn healthz_answers_and_publishing_says_503_with_the_id_while_the_broker_is_away() {
    let mut installation = Installation::embedded();
    installation.set("broker", "url", "amqp://guest:guest@127.0.0.1:1");
    installation.set("broker", "management_url", "http://127.0.0.1:1");
    let mut daemon = installation.spawn_daemon();
    wait_until("healthz", Duration::from_mins(1), async || {
        daemon
            .request("GET", "/healthz")
            .try_send()
            .await
            .is_ok_and(|answer| answer.status == 200)
            .then_some(())
    })
    .await;
    assert_eq!(daemon.get("/readyz").await.status, 503);
    let answer = publish(&daemon, &json!({"execution_id": "e", "url": DEAD_URL})).await;
    let document = problem(&answer, 503);
    assert!(document["id"].as_str().is_some_and(|id| !id.is_empty()), "{document}");
    assert!(answer.header("retry-after").is_some());
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

/// Queues whose endpoints take a regular expression long.
async fn queues_with_long_endpoints(daemon: &Daemon, count: usize) {
    let path: String = "abcdefghij".chars().cycle().take(6_000).collect();
    for number in 0..count {
        let url = format!("http://127.0.0.1:9/{number}/{path}");
        let body = json!({"execution_id": format!("long-{number}"), "url": url});
        assert_eq!(publish(daemon, &body).await.status, 202);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_that_take_too_long_are_refused_and_hold_nobody_else_up() {
    let installation = patient();
    let (mut daemon, receiver) = (installation.daemon().await, Receiver::start().await);
    until_it_delivers(&daemon).await;
    queues_with_long_endpoints(&daemon, 60).await;
    let store = SqliteConnectOptions::new()
        .filename(installation.path("store.db"))
        .read_only(true);
    let mut store = store.connect().await.unwrap();
    let mut heartbeats = async || {
        let query = sqlx::query_scalar("SELECT max(counter) FROM incarnations WHERE alive = 1");
        query.fetch_one(&mut store).await.unwrap_or(0_i64)
    };
    let worst = "/v1/queues?filter=endpoint%20~%20/([a-j]%7B1,40%7D)%7B1,40%7D[%5E%20-~]/";
    let alone = problem(&daemon.get(worst).await, 400);
    assert_eq!(alone["field"], "filter");
    assert!(alone["detail"].as_str().unwrap().contains("narrow it"), "{alone}");

    let over = AtomicBool::new(false);
    let many = futures_util::future::join_all((0..8).map(|_| async {
        while !over.load(Ordering::Relaxed) {
            let answer = daemon.get(worst).await;
            let document = problem(&answer, answer.status);
            assert!(matches!(answer.status, 400 | 429), "{document}");
        }
    }));
    let others = async {
        // What computes does not hold the daemon's threads: it answers, delivers and lives while filters compute.
        let (before, mut took) = (heartbeats().await, Vec::new());
        for number in 0..20 {
            let begun = Instant::now();
            assert_eq!(daemon.get("/healthz").await.status, 200);
            took.push(begun.elapsed());
            let body = json!({"execution_id": format!("beside-{number}"), "url": receiver.url("/hook")});
            assert_eq!(publish(&daemon, &body).await.status, 202);
        }
        let came = || receiver.delivered() == 20;
        wait_until("deliveries beside filters", BOUND, async || came().then_some(())).await;
        wait_until("heartbeats beside filters", BOUND, async || {
            (heartbeats().await >= before + 2).then_some(())
        })
        .await;
        over.store(true, Ordering::Relaxed);
        took.sort();
        took
    };
    let (_, took) = tokio::join!(many, others);
    // One may have met the machine's other load.
    assert!(took[18] <= wait::patient(Duration::from_millis(50)), "{took:?}");
    // Who leaves gives his turn back: all of theirs would take longer than anybody waits for his own.
    let address = daemon.api.trim_start_matches("http://").to_owned();
    let token = daemon.token.clone().unwrap();
    for _ in 0..60 {
        let mut leaves = TcpStream::connect(&address).await.unwrap();
        let asks = format!("GET {worst} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n");
        leaves.write_all(asks.as_bytes()).await.unwrap();
    }
    let plain = daemon.get("/v1/queues?filter=execution%20~%20beside").await;
    assert_eq!(plain.status, 200, "{}", plain.text());
    assert_eq!(plain.json()["items"].as_array().map(Vec::len), Some(20));
    daemon.stop().await;
}

/// Does `work`; beside it the daemon answers as ever.
async fn beside<T>(daemon: &Daemon, work: impl Future<Output = T>) -> T {
    let over = AtomicBool::new(false);
    let asks = async {
        let mut slowest = Duration::ZERO;
        while !over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            assert_eq!(daemon.get("/healthz").await.status, 200);
            slowest = slowest.max(begun.elapsed());
        }
        slowest
    };
    let work = async {
        let done = work.await;
        over.store(true, Ordering::Relaxed);
        done
    };
    let (done, slowest) = tokio::join!(work, asks);
    assert!(slowest <= wait::patient(Duration::from_secs(1)), "{slowest:?}");
    done
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_over_attempts_that_take_too_long_hold_nobody_up_either() {
    let installation = patient();
    let mut daemon = installation.daemon().await;
    until_it_delivers(&daemon).await;
    queues_with_long_endpoints(&daemon, 20).await;
    wait_until("attempts", BOUND, async || {
        let log = daemon.get("/v1/attempts?limit=100").await.json();
        (log["items"].as_array().map(Vec::len) == Some(20)).then_some(())
    })
    .await;
    let worst = "filter=url%20~%20/([a-j]%7B1,40%7D)%7B1,40%7D[%5E%20-~]/";
    let (list, address) = (
        format!("/v1/attempts?limit=1&{worst}"),
        daemon.api.trim_start_matches("http://"),
    );
    let asked = beside(
        &daemon,
        futures_util::future::join_all((0..4).map(|_| daemon.get(&list))),
    )
    .await;
    for answer in &asked {
        let document = problem(answer, answer.status);
        assert!(matches!(answer.status, 400 | 429), "{document}");
    }
    assert!(asked.iter().any(|answer| answer.text().contains("narrow it")));

    let token = daemon.token.clone().unwrap();
    let mut streams = Vec::new();
    for _ in 0..2 {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut stream = BufReader::new(stream).lines();
        let asks = format!(
            "GET /v1/events/stream?{worst} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        stream.get_mut().write_all(asks.as_bytes()).await.unwrap();
        while stream.next_line().await.unwrap().unwrap() != ":" {}
        streams.push(stream);
    }
    let ended = async {
        queues_with_long_endpoints(&daemon, 40).await;
        for stream in &mut streams {
            while stream.next_line().await.unwrap().unwrap() != "event: problem" {}
            let why = stream.next_line().await.unwrap().unwrap();
            assert!(why.contains("narrow it"), "{why}");
        }
    };
    within(2 * BOUND, beside(&daemon, ended)).await.unwrap();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_tested_by_a_post_with_a_method_that_asks_and_the_audit_names_it() {
    let installation = Installation::embedded();
    let mut daemon = installation.daemon().await;
    until_it_delivers(&daemon).await;
    problem(&daemon.get(&format!("/v1/endpoints/test?url={DEAD_URL}")).await, 405);
    let path = |method: &str| format!("/v1/endpoints/test?url={DEAD_URL}&method={method}");
    let refused = problem(&daemon.post(&path("DELETE"), &json!({})).await, 400);
    assert_eq!(refused["field"], "method");
    assert!(
        refused["detail"].as_str().unwrap().contains("HEAD, GET, OPTIONS, POST"),
        "{refused}"
    );
    let tested = daemon.post(&path("options"), &json!({})).await;
    assert_eq!((tested.status, &tested.json()["method"]), (200, &json!("OPTIONS")));
    let audit = daemon.get("/v1/audit").await.json();
    let rows = audit["items"].as_array().unwrap();
    let of_test = rows.iter().filter(|row| row["command"] == "endpoint test");
    assert!(of_test.clone().count() >= 2, "{audit}");
    assert!(
        of_test
            .clone()
            .all(|row| row["detail"].as_str().unwrap().ends_with("with OPTIONS")),
        "{audit}"
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_ids_than_a_command_can_name_are_refused() {
    let installation = Installation::embedded();
    let mut daemon = installation.daemon().await;
    until_it_delivers(&daemon).await;
    let ids: Vec<String> = (0..10_001).map(|number| format!("{number:040x}")).collect();
    let refused = daemon.post("/v1/dead/redrive?dry_run=true", &json!({"ids": ids})).await;
    let document = problem(&refused, 400);
    assert_eq!(document["field"], "ids");
    assert!(
        document["detail"].as_str().unwrap().contains("use a filter"),
        "{document}"
    );
    daemon.stop().await;
}

const JOB: &str = "018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a";

/// What only commands could do: look at messages, name a queue, check everything, verify the audit, use jobs.
#[tokio::test(flavor = "multi_thread")]
async fn what_commands_do_is_done_by_routes_too() {
    let installation = patient();
    let daemon = installation.daemon().await;
    until_it_delivers(&daemon).await;
    let asked = format!("/v1/queue-name?execution_id=run-1&url={DEAD_URL}");
    let named = daemon.get(&asked).await.json();
    let command = ["queue-name", "--execution", "run-1", "--url", DEAD_URL, "--json"];
    assert_eq!(named, installation.run(&command).await.expect_code(0).json());
    let queue = named["queue"].as_str().unwrap();
    // A look at it before it is there makes no queue of it.
    let browse = format!("/v1/queues/{queue}/browse");
    problem(&daemon.post(&browse, &json!({})).await, 404);
    problem(&daemon.get(&format!("/v1/queues/{queue}")).await, 404);

    let body = json!({"execution_id": "run-1", "url": DEAD_URL, "body": "seen", "id": "n-1"});
    assert_eq!(publish(&daemon, &body).await.status, 202);
    daemon.post(&format!("/v1/queues/{queue}/pause"), &json!({})).await;
    let seen = wait_until("the message to be back in its queue", BOUND, async || {
        let seen = daemon.post(&browse, &json!({"limit": 5})).await.json();
        seen["items"][0].is_object().then_some(seen)
    })
    .await;
    assert_eq!(
        (&seen["items"][0]["message_id"], &seen["items"][0]["body"]),
        (&json!("n-1"), &json!("seen")),
    );
    problem(&daemon.get(&browse).await, 405);
    problem(&daemon.post(&browse, &json!({"limit": 501})).await, 400);

    let checks = daemon.get("/v1/doctor").await.json();
    let store = checks["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == "store");
    assert_eq!(store.unwrap()["result"], "fine", "{checks}");
    let verified = daemon.get("/v1/audit/verify").await.json();
    assert_eq!(verified["intact"], true, "{verified}");
    assert!(
        verified["lines"].as_u64().unwrap() > 0,
        "the pause is in it: {verified}"
    );

    let job = daemon.post("/v1/jobs", &json!({"id": JOB, "ttl_s": 3600})).await;
    assert_eq!(
        (job.status, &job.json()["ttl_s"]),
        (201, &json!(3600.0)),
        "{}",
        job.text()
    );
    let messages = format!("/v1/jobs/{JOB}/messages");
    let said = json!({"part": "result", "body": {"rows": 7}});
    assert_eq!(daemon.post(&messages, &said).await.status, 202);
    problem(&daemon.post(&messages, &json!({"part": "answer"})).await, 400);
    let listed = daemon.get("/v1/jobs").await.json();
    assert_eq!(
        (&listed["items"][0]["id"], &listed["items"][0]["messages"]),
        (&json!(JOB), &json!(1))
    );
    assert_eq!(daemon.get(&format!("/v1/jobs/{JOB}")).await.json()["id"], JOB);
    let other = JOB.replace("018f", "018e");
    problem(&daemon.get(&format!("/v1/jobs/{other}")).await, 404);
    let result = installation.run(&["job", "connect", JOB]).await.expect_code(0);
    assert_eq!(result.stdout.trim(), r#"{"rows":7}"#);
}
