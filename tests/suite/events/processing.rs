//! Events in the hands of programs and subscribers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redrive::internals::domain::id::NotificationId;
use redrive::internals::domain::signature::SigningSecret;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::support::daemon::{Daemon, Installation};
use crate::support::receiver::{Attempt, Behaviour, Receiver};
use crate::support::wait::wait_until;

const LONG: Duration = Duration::from_secs(30);

fn with_command(script: &str) -> Installation {
    let mut installation = Installation::embedded();
    installation.append(&format!(
        "\n[[handler]]\ntype = \"t\"\ncommand = {}\n",
        json!(["/bin/sh", "-c", script])
    ));
    installation
}

async fn push(installation: &Installation, reference: &str, payload: &str) {
    let arguments = [
        "event",
        "push",
        "--type",
        "t",
        "--reference",
        reference,
        "--payload-file",
        "-",
    ];
    installation
        .run_with_input(&arguments, payload.as_bytes())
        .await
        .expect_code(0);
}

async fn process(installation: &Installation, code: i32) -> Value {
    let arguments = ["--json", "event", "process", "--type", "t", "--once"];
    installation.run(&arguments).await.expect_code(code).json()
}

async fn listed(installation: &Installation) -> Value {
    installation
        .run(&["--json", "event", "list"])
        .await
        .expect_code(0)
        .json()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_each_event_once_and_the_run_ends_when_nothing_is_due() {
    let scratch = tempfile::tempdir().unwrap();
    let seen = scratch.path().join("seen");
    let installation = with_command(&format!("cat >> {0}; echo >> {0}", seen.display()));
    for number in 0..5 {
        push(&installation, &format!("r{number}"), "{\"n\": 1.50}").await;
    }
    assert_eq!(process(&installation, 0).await["done"], 5);
    let seen = std::fs::read_to_string(seen).unwrap();
    assert_eq!(seen.matches("\"payload\":{\"n\": 1.50}").count(), 5, "{seen}");
    assert_eq!(listed(&installation).await, json!([]));
    assert_eq!(process(&installation, 0).await["done"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_handled_is_listed_as_long_as_its_type_keeps_it() {
    let installation = with_command("exit 0");
    let metadata = installation.path("metadata.json");
    std::fs::write(&metadata, r#"{"_history_ttl": 3600}"#).unwrap();
    let metadata = metadata.display().to_string();
    let set = ["event-type", "set", "t", "--metadata", metadata.as_str(), "--yes"];
    installation.run(&set).await.expect_code(0);
    for reference in ["a", "b"] {
        push(&installation, reference, "1").await;
    }
    assert_eq!(process(&installation, 0).await["done"], 2);
    let listed = installation.run(&["event", "history", "--type", "t", "--json"]).await;
    let listed: Vec<Value> = serde_json::from_str(&listed.expect_code(0).stdout).unwrap();
    let of = |key: &str| listed.iter().map(|one| one[key].clone()).collect::<Vec<_>>();
    assert!(of("reference").contains(&json!("a")) && of("reference").contains(&json!("b")));
    assert!(of("handled_at").iter().all(Value::is_string), "{listed:?}");
    let daemon = installation.daemon().await;
    let newest = daemon.get("/v1/types/t/history?limit=1").await;
    assert_eq!(newest.json()["items"], json!([listed[0]]));
    let unknown = installation.run(&["event", "history", "--type", "nothing"]).await;
    unknown.expect_code(4);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_says_decides_what_becomes_of_its_event() {
    let script = "case \"$REDRIVE_EVENT_REFERENCE\" in \
        fails) echo 'no such employee' >&2; exit 1;; \
        later) echo '{\"requeue_at\": \"2100-01-01T00:00:00Z\", \"reason\": \"end=2100\"}'; exit 75;; \
        again) echo '{\"requeue_at\": 4102444800}';; \
        *) exit 0;; esac";
    let installation = with_command(script);
    for reference in ["fails", "later", "again", "done"] {
        push(&installation, reference, "1").await;
    }
    let counts = process(&installation, 3).await;
    assert_eq!(
        (&counts["done"], &counts["requeued"], &counts["retried"]),
        (&json!(1), &json!(2), &json!(1))
    );
    let events = listed(&installation).await;
    let of = |name: &str| {
        let events = events.as_array().unwrap();
        events
            .iter()
            .find(|event| event["reference"] == name)
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(of("later")["reason"], "next-change: end=2100");
    assert_eq!(of("again")["nbf"], "2100-01-01T00:00:00Z");
    assert_eq!(of("fails")["attempts"], 1);
    let reason = of("fails")["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.starts_with("retry: failed_at=") && reason.ends_with("error=exit 1: no such employee"),
        "{reason}"
    );
    let found = ["--json", "event", "search", "error ~ \"employee\" and attempts = 1"];
    assert_eq!(installation.run(&found).await.json()[0]["reference"], "fails");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_allowed_failure_makes_a_dead_letter_that_can_be_retried() {
    let mut installation = with_command("exit 1");
    installation.set("events", "cutoff", 1);
    push(&installation, "a", "1").await;
    assert_eq!(process(&installation, 3).await["dead"], 1);
    let dead = installation
        .run(&["--json", "event", "search", "dead = true"])
        .await
        .json();
    assert_eq!((&dead[0]["state"], &dead[0]["attempts"]), (&json!("dead"), &json!(1)));
    assert_eq!(process(&installation, 0).await["dead"], 0);
    let retry = ["event", "retry", "--yes", "--filter", "dead = true"];
    installation.run(&retry).await.expect_code(0);
    assert_eq!(process(&installation, 3).await["dead"], 1);
}

/// Else nobody took it, and nobody said so.
#[tokio::test(flavor = "multi_thread")]
async fn what_failed_more_often_than_a_lowered_cutoff_allows_is_dead() {
    let mut installation = with_command("exit 1");
    installation.set("events", "backoff_base_s", 1);
    let daemon = installation.daemon().await;
    let set = async |document: Value| {
        let put = daemon
            .request("PUT", "/v1/types/t")
            .header("content-type", "application/json");
        assert_eq!(put.body(document.to_string()).send().await.status, 200);
    };
    daemon.post("/v1/types/t/events", &json!({"reference": "a"})).await;
    let event = async || daemon.get("/v1/types/t/events/a").await.json()["items"][0].clone();
    wait_until("three failures", LONG, async || {
        (event().await["attempts"].as_u64() >= Some(3)).then_some(())
    })
    .await;
    set(json!({"_cutoff": 1})).await;
    wait_until("a dead letter", LONG, async || {
        (event().await["state"] == "dead").then_some(())
    })
    .await;
}

/// A program asks for its event again in a second, ten times: looks every five seconds would take fifty.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_again_soon_does_not_wait_for_the_next_look() {
    let script = "echo \"{\\\"requeue_at\\\": $(($(date +%s) + 1))}\"; date +%s >> \"$SEEN\"; exit 75";
    let scratch = tempfile::tempdir().unwrap();
    let seen = scratch.path().join("seen");
    let installation = with_command(&script.replace("$SEEN", &seen.display().to_string()));
    let daemon = installation.daemon().await;
    daemon.post("/v1/types/t/events", &json!({"reference": "a"})).await;
    let times = wait_until("ten times", LONG * 3, async || {
        let text = std::fs::read_to_string(&seen).ok()?;
        let times: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        (times.len() >= 11).then_some(times)
    })
    .await;
    assert!(times[10] - times[0] < 45, "{times:?}");
}

/// A daemon with a type whose events go to its subscribers, and a receiver for those.
async fn with_subscribers() -> (Receiver, Installation, Daemon) {
    let receiver = Receiver::start().await;
    let mut installation = Installation::embedded();
    installation.append("\n[[handler]]\ntype = \"t\"\nwebhook = true\n");
    let daemon = installation.daemon().await;
    let set = daemon
        .request("PUT", "/v1/types/t")
        .header("content-type", "application/json");
    assert_eq!(set.body("{}").send().await.status, 200);
    (receiver, installation, daemon)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_without_a_subscriber_is_done_and_the_log_says_so() {
    let (_receiver, _installation, daemon) = with_subscribers().await;
    daemon.post("/v1/types/t/events", &json!({"reference": "a"})).await;
    wait_until("an event that is done", LONG, async || {
        let events = daemon.get("/v1/types/t/events").await.json();
        (events["items"] == json!([])).then_some(())
    })
    .await;
    let log = daemon.log();
    assert!(log.contains("nobody subscribes to the events of this type"), "{log}");
}

/// One whose headers cannot be sent was taken before they were checked.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_cannot_be_served_holds_up_no_other() {
    let (receiver, installation, daemon) = with_subscribers().await;
    for hook in ["/bad", "/good"] {
        let subscription = json!({"url": receiver.url(hook), "options": {"headers": {"x-a": "b"}}});
        daemon.post("/v1/types/t/subscriptions", &subscription).await;
    }
    let store = SqliteConnectOptions::new().filename(installation.path("store.db"));
    let mut store = store.connect().await.unwrap();
    sqlx::query("UPDATE subscriptions SET options = '{\"headers\":{\"x a\":\"b\"}}' WHERE url LIKE '%/bad'")
        .execute(&mut store)
        .await
        .unwrap();
    store.close().await.unwrap();
    daemon.post("/v1/types/t/events", &json!({"reference": "a"})).await;
    wait_until("a delivery", LONG, async || (receiver.delivered() == 1).then_some(())).await;
    assert_eq!(receiver.attempts().remove(0).path, "/good");
    let dead = ["--json", "event", "search", "dead = true"];
    let buried = wait_until("a dead letter", LONG, async || {
        let found = installation.run(&dead).await.json();
        found[0]["reason"].as_str().map(str::to_owned)
    })
    .await;
    assert!(buried.contains("headers.x a is not a header name"), "{buried}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_hands_what_is_pushed_to_its_program() {
    let scratch = tempfile::tempdir().unwrap();
    let seen = scratch.path().join("seen");
    let installation = with_command(&format!("cat > {}", seen.display()));
    let daemon = installation.daemon().await;
    daemon
        .post("/v1/types/t/events", &json!({"reference": "a", "payload": [1]}))
        .await;
    wait_until("an event that is handled", LONG, async || {
        let events = daemon.get("/v1/types/t/events").await.json();
        (events["items"] == json!([])).then_some(())
    })
    .await;
    assert!(std::fs::read_to_string(&seen).unwrap().contains("\"payload\":[1]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_whose_daemon_is_killed_while_it_is_handled_is_handled_again_and_counted() {
    let scratch = tempfile::tempdir().unwrap();
    let begun = scratch.path().join("begun");
    let installation = with_command(&format!("echo x >> {}; sleep 600", begun.display()));
    let mut daemon = installation.daemon().await;
    daemon.post("/v1/types/t/events", &json!({"reference": "a"})).await;
    wait_until("a program at work", LONG, async || begun.exists().then_some(())).await;
    daemon.kill().await;
    let daemon = installation.daemon().await;
    let event = wait_until("an attempt that is counted", LONG * 2, async || {
        let event = daemon.get("/v1/types/t/events").await.json()["items"][0].clone();
        (event["attempts"] == 1).then_some(event)
    })
    .await;
    let reason = event["reason"].as_str().unwrap();
    assert!(reason.contains("error=lost: the lease of incarnation"), "{reason}");
    assert_eq!(event["state"], "ready");
}

/// A program that writes when it begins and ends; what it leaves behind would write later.
fn with_slow_program(seconds: u32) -> (tempfile::TempDir, PathBuf, Installation) {
    let scratch = tempfile::tempdir().unwrap();
    let log = scratch.path().join("log");
    let installation = with_command(&format!(
        "cat > {0}.event; echo begin $(grep -o 'n\":[0-9]}}' {0}.event) >> {0}; sleep {seconds}; echo end >> {0}",
        log.display()
    ));
    (scratch, log, installation)
}

async fn logged(log: &Path, lines: usize) -> Vec<String> {
    wait_until("lines of a program", LONG, async || {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        (text.lines().count() >= lines).then(|| text.lines().map(str::to_owned).collect())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_gives_a_program_the_time_that_requests_get() {
    let (_scratch, log, installation) = with_slow_program(3);
    let mut daemon = installation.daemon().await;
    let event = json!({"reference": "a", "payload": {"n": 1}});
    daemon.post("/v1/types/t/events", &event).await;
    logged(&log, 1).await;
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(logged(&log, 1).await, ["begin n\":1}", "end"]);
    assert_eq!(listed(&installation).await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_a_program_that_takes_longer_and_its_event_is_as_it_was() {
    let (_scratch, log, mut installation) = with_slow_program(600);
    installation.set("delivery", "drain_s", 1);
    let mut daemon = installation.daemon().await;
    for number in 0..20 {
        let event = json!({"reference": number.to_string(), "payload": {"n": 1}});
        daemon.post("/v1/types/t/events", &event).await;
    }
    let begun = logged(&log, 8).await;
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(
        logged(&log, 1).await,
        begun,
        "none begins while it stops, and none ends"
    );
    let left = listed(&installation).await;
    let left = left.as_array().unwrap();
    assert_eq!(left.len(), 20);
    for event in left {
        assert_eq!((&event["state"], &event["attempts"]), (&json!("ready"), &json!(0)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_and_its_children_end_with_a_daemon_that_is_killed() {
    let scratch = tempfile::tempdir().unwrap();
    let child = scratch.path().join("child");
    let installation = with_command(&format!("sleep 600 & echo $$ $! > {}; wait", child.display()));
    let mut daemon = installation.daemon().await;
    daemon.post("/v1/types/t/events", &json!({"reference": "a"})).await;
    let ids = wait_until("a program at work", LONG, async || {
        let text = std::fs::read_to_string(&child).unwrap_or_default();
        let ids: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        (ids.len() == 2).then_some(ids)
    })
    .await;
    daemon.kill().await;
    for id in ids {
        wait_until("the end of the program", LONG, async || {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
            let lives = stat.is_ok_and(|stat| !stat.contains(") Z "));
            (!lives).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_an_event_in_hand_ends_its_program_and_what_is_pushed_then_waits_for_that() {
    let (_scratch, log, installation) = with_slow_program(600);
    let daemon = installation.daemon().await;
    let event = |number: u32| json!({"reference": "a", "payload": {"n": number}});
    daemon.post("/v1/types/t/events", &event(1)).await;
    logged(&log, 1).await;
    let began = Instant::now();
    let cancelled = daemon
        .request("DELETE", "/v1/types/t/events/a")
        .header("content-type", "application/json");
    assert_eq!(cancelled.body("{}".to_owned()).send().await.status, 200);
    daemon.post("/v1/types/t/events", &event(2)).await;
    assert_eq!(logged(&log, 2).await, ["begin n\":1}", "begin n\":2}"]);
    assert!(
        began.elapsed() < Duration::from_secs(14),
        "it was told when its lease was to be prolonged"
    );
    let other_process = ["event", "cancel", "--type", "t", "--reference", "a", "--yes"];
    let told = installation.run(&other_process).await.expect_code(0).stdout;
    assert!(told.contains("cancelled") && !told.contains("leased"), "{told}");
    wait_until("the end of the second program", LONG, async || {
        (listed(&installation).await == json!([])).then_some(())
    })
    .await;
    assert!(
        began.elapsed() < Duration::from_secs(28),
        "another process was not heard of"
    );
    assert_eq!(logged(&log, 2).await.len(), 2, "a program was not ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_get_the_events_of_a_type_in_order_with_their_headers() {
    let receiver = Receiver::start().await;
    let mut installation = Installation::embedded();
    installation.append("\n[[handler]]\ntype = \"t\"\nwebhook = true\n");
    let daemon = installation.daemon().await;
    let push = async |number: u32| {
        let body = json!({"reference": "a", "payload": {"n": number}});
        daemon.post("/v1/types/t/events", &body).await
    };
    let set = daemon
        .request("PUT", "/v1/types/t")
        .header("content-type", "application/json");
    assert_eq!(set.body("{}").send().await.status, 200);
    let url = receiver.url("/hook");
    let options = json!({"headers": {"x-from": "events", "ce-subject": "mine"}, "cloudevents": "/shop"});
    let new = json!({"url": url, "options": options});
    assert_eq!(daemon.post("/v1/types/t/subscriptions", &new).await.status, 200);
    for number in 1..=3 {
        push(number).await;
        let expected = usize::try_from(number).unwrap();
        wait_until("a delivery", LONG, async || {
            (receiver.delivered() == expected).then_some(())
        })
        .await;
    }
    let bodies: Vec<Value> = receiver
        .attempts()
        .iter()
        .map(|request| serde_json::from_slice(&request.body).unwrap())
        .collect();
    assert_eq!(bodies, [json!({"n": 1}), json!({"n": 2}), json!({"n": 3})]);
    for request in receiver.attempts() {
        let said = [
            "x-from",
            "ce-specversion",
            "ce-source",
            "ce-type",
            "ce-subject",
            "ce-id",
        ];
        let said = said.map(|name| request.header(name).unwrap_or_default().to_owned());
        assert_eq!(said, ["events", "1.0", "/shop", "t", "mine", request.id()]);
        let time = request.header("ce-time").unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_signs_with_its_own_secret_which_nothing_shows() {
    let (receiver, installation, daemon) = with_subscribers().await;
    let path = "/v1/types/t/subscriptions";
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let url = receiver.url("/hook");
    let wrong = json!({"url": url, "options": {"secret": "hunter2"}});
    assert_eq!(daemon.post(path, &wrong).await.json()["field"], "secret");
    let made = daemon
        .post(path, &json!({"url": url, "options": {"secret": secret}}))
        .await;
    assert_eq!((made.status, &made.json()["options"]["secret"]), (200, &json!("***")));
    assert!(!daemon.get(path).await.text().contains(secret));
    let again = json!({"url": url, "options": {"secret": secret}});
    let plan = daemon.post(&format!("{path}?dry_run=true"), &again).await.text();
    assert!(plan.contains("***") && !plan.contains(secret), "{plan}");
    let body = json!({"reference": "a", "payload": {"n": 1}});
    daemon.post("/v1/types/t/events", &body).await;
    wait_until("a delivery", LONG, async || (receiver.delivered() == 1).then_some(())).await;
    let attempt = receiver.attempts().remove(0);
    let header = |name: &str| {
        let found = attempt.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let id = NotificationId::parse(&header("webhook-id")).unwrap();
    let expected = SigningSecret::parse(secret)
        .unwrap()
        .sign(&id, &header("webhook-timestamp"), &attempt.body);
    assert_eq!(header("webhook-signature"), expected);
    let audit = installation.run(&["audit", "--json"]).await.stdout;
    assert!(!audit.contains(secret) && !daemon.log().contains(secret), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_of_a_subscription_that_was_removed_is_signed_as_before() {
    let (receiver, installation, daemon) = with_subscribers().await;
    receiver.behave("/hook", Behaviour::Status(503));
    let path = "/v1/types/t/subscriptions";
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let url = receiver.url("/hook");
    let new = json!({"url": url, "options": {"secret": secret}});
    let made = daemon.post(path, &new).await;
    assert_eq!(made.status, 200, "{}", made.text());
    daemon.post("/v1/types/t/events", &json!({"reference": "a"})).await;
    wait_until("an attempt", LONG, async || (receiver.count() > 0).then_some(())).await;
    let remove = ["subscription", "remove", "--type", "t", "--url", &url, "--yes"];
    installation.run(&remove).await.expect_code(0);
    receiver.behave("/hook", Behaviour::Status(200));
    // Another process, which knows of no secret from before.
    let mut daemon = daemon;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    let daemon = installation.daemon().await;
    daemon.post("/v1/redeliver", &json!({"url": url})).await;
    wait_until("a delivery", LONG, async || (receiver.delivered() == 1).then_some(())).await;
    let attempt = receiver.attempts().into_iter().find(Attempt::succeeded).unwrap();
    let header = |name: &str| attempt.header(name).unwrap_or_default().to_owned();
    let id = NotificationId::parse(&header("webhook-id")).unwrap();
    let expected = SigningSecret::parse(secret)
        .unwrap()
        .sign(&id, &header("webhook-timestamp"), &attempt.body);
    assert_eq!(header("webhook-signature"), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_store_notifies_under_new_ids() {
    let receiver = Receiver::start().await;
    let mut installation = Installation::embedded();
    installation.append("\n[[handler]]\ntype = \"t\"\nwebhook = true\n");
    // The database is its file, and what of it is still in the log beside it.
    let copy = |from: &str, to: &str| {
        for beside in ["", "-wal", "-shm"] {
            let (from, to) = (format!("{from}{beside}"), format!("{to}{beside}"));
            let _ = std::fs::remove_file(installation.path(&to));
            let _ = std::fs::copy(installation.path(&from), installation.path(&to));
        }
    };
    for round in 1..=2 {
        let mut daemon = installation.daemon().await;
        if round == 1 {
            let set = daemon
                .request("PUT", "/v1/types/t")
                .header("content-type", "application/json");
            assert_eq!(set.body("{}").send().await.status, 200);
            let subscribed = json!({"url": receiver.url("/hook"), "options": {}});
            let made = daemon.post("/v1/types/t/subscriptions", &subscribed).await;
            assert_eq!(made.status, 200, "{}", made.text());
            assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
            copy("store.db", "backup.db");
            daemon = installation.daemon().await;
        }
        let body = json!({"reference": "a", "payload": {"round": round}});
        daemon.post("/v1/types/t/events", &body).await;
        wait_until("a delivery", LONG, async || {
            (receiver.delivered() == round).then_some(())
        })
        .await;
        assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
        // What came after the backup is lost.
        copy("backup.db", "store.db");
    }
    let ids: Vec<String> = receiver
        .attempts()
        .iter()
        .filter_map(|attempt| {
            let mut headers = attempt.headers.iter();
            let id = headers.find(|(name, _)| name.eq_ignore_ascii_case("webhook-id"));
            id.map(|(_, value)| value.clone())
        })
        .collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
}
