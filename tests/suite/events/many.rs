//! Changes of many events: a plan, a run, and a process that dies in the middle of it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::daemon::{Daemon, Installation};
use crate::support::wait::wait_until;

const LONG: Duration = Duration::from_secs(60);
const EVENTS: usize = 2_500;

async fn fill(daemon: &Daemon) {
    let events: Vec<Value> = (0..EVENTS)
        .map(|number| json!({"reference": format!("r{number}"), "nbf": "2100-01-01T00:00:00Z"}))
        .collect();
    for batch in events.chunks(1_000) {
        let pushed = daemon.post("/v1/types/t/events", &json!({"events": batch})).await;
        assert_eq!(pushed.status, 201, "{}", pushed.text());
    }
}

async fn run_of(daemon: &Daemon, id: &Value) -> Value {
    daemon.get(&format!("/v1/runs/{}", id.as_str().unwrap())).await.json()
}

async fn ended(daemon: &Daemon, id: &Value) -> Value {
    wait_until("the end of the run", LONG, async || {
        let run = run_of(daemon, id).await;
        (run["state"] == "done").then_some(run)
    })
    .await
}

async fn count(daemon: &Daemon, filter: &str) -> u64 {
    let counts = daemon.get("/v1/events/counts").await.json();
    let of_state = |row: &&Value| row["state"] == filter;
    let found = counts["items"].as_array().unwrap().iter().find(of_state).cloned();
    found.map_or(0, |row| row["count"].as_u64().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_filter_finds_beyond_one_plan_is_rescheduled_by_a_run_and_cancelled_by_another() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    fill(&daemon).await;
    let order = json!({"filter": "type = t", "at": "2101-01-01T00:00:00Z"});
    let plan = daemon.post("/v1/events/reschedule?dry_run=true", &order).await.json();
    assert_eq!(
        (&plan["command"], &plan["run"]["total"]),
        (&json!("event reschedule"), &json!(EVENTS))
    );
    let run = daemon.post("/v1/events/reschedule", &order).await.json();
    let run = ended(&daemon, &run["id"]).await;
    assert_eq!((&run["done"], &run["skipped"]), (&json!(EVENTS), &json!(0)));
    let moved = daemon.get("/v1/types/t/events/r2499").await.json();
    assert_eq!(moved["items"][0]["nbf"], "2101-01-01T00:00:00Z");
    let cancel = ["--json", "event", "cancel", "--filter", "type = t", "--yes"];
    let cancelled = installation.run(&cancel).await.expect_code(0).json();
    assert_eq!(
        (&cancelled["state"], &cancelled["done"]),
        (&json!("done"), &json!(EVENTS))
    );
    assert_eq!(count(&daemon, "ready").await, 0);
    let audit = installation.run(&["--json", "audit"]).await.json().to_string();
    assert!(
        audit.contains("event cancel") && audit.contains("2500 of 2500 done"),
        "{audit}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_over_events_whose_daemon_is_killed_goes_on_where_it_was() {
    let installation = Installation::embedded();
    let mut daemon = installation.daemon().await;
    fill(&daemon).await;
    let order = json!({"filter": "type = t", "rate": 1000});
    let run = daemon.post("/v1/events/cancel", &order).await.json();
    let begun = wait_until("a window that is done", LONG, async || {
        let done = run_of(&daemon, &run["id"]).await["done"].as_u64()?;
        (done > 0).then_some(done)
    })
    .await;
    daemon.kill().await;
    assert!(begun < EVENTS as u64, "it was over before it was killed");
    let daemon = installation.daemon().await;
    let run = ended(&daemon, &run["id"]).await;
    assert_eq!(
        (&run["done"], &run["skipped"], &run["failed"]),
        (&json!(EVENTS), &json!(0), &json!(0)),
        "nothing was done twice, and nothing is missing"
    );
    assert_eq!(count(&daemon, "ready").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_selection_names_its_field() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    for (body, field) in [
        (json!({}), "ids"),
        (json!({"ids": [1], "filter": "type = t"}), "ids"),
        (json!({"ids": [1], "rate": 5}), "rate"),
        (json!({"filter": "type = t", "rate": 0}), "rate"),
        (json!({"filter": "colour = red"}), "filter"),
    ] {
        let refused = daemon.post("/v1/events/retry", &body).await;
        assert_eq!(refused.status, 400, "{body}: {}", refused.text());
        assert_eq!(refused.json()["field"], field, "{body}");
    }
    let nothing = json!({"filter": "type = t", "rate": 5});
    assert_eq!(daemon.post("/v1/events/retry", &nothing).await.status, 404);
}
