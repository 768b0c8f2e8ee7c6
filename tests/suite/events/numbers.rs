//! What a daemon tells of its event table: the numbers by type, for Prometheus and for statsd.

use std::time::Duration;

use serde_json::json;

use crate::support::daemon::{Daemon, Installation};
use crate::support::servers::{Database, Vhost};
use crate::support::statsd::Statsd;
use crate::support::wait::wait_until;

const LONG: Duration = Duration::from_secs(60);

/// Succeeds for references that begin with `good`.
const SCRIPT: &str = "case \"$REDRIVE_EVENT_REFERENCE\" in good*) exit 0;; *) echo no luck >&2; exit 1;; esac";

async fn shows(daemon: &Daemon, lines: &[&str]) {
    wait_until("the numbers", LONG, async || {
        let text = daemon.get("/metrics").await.text();
        lines
            .iter()
            .all(|line| text.lines().any(|found| found == *line))
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_ends_and_what_waits_are_counted_by_type() {
    let mut statsd = Statsd::new();
    let mut installation = Installation::embedded();
    let handler = |event_type: &str| {
        let command = json!(["/bin/sh", "-c", SCRIPT]);
        format!("\n[[handler]]\ntype = \"{event_type}\"\ncommand = {command}\n")
    };
    installation.append(&handler("hr"));
    installation.append(&handler("other"));
    installation.set("events", "cutoff", 2);
    installation.set("metrics", "statsd", statsd.address().to_string());
    installation.set("metrics", "statsd_dialect", "dogstatsd");
    let daemon = installation.daemon().await;
    for reference in ["good-1", "good-2", "bad"] {
        let pushed = daemon
            .post("/v1/types/hr/events", &json!({"reference": reference}))
            .await;
        assert_eq!(pushed.status, 201);
    }
    for _ in 0..2 {
        let later = json!({"reference": "later", "nbf": "2100-01-01T00:00:00Z"});
        daemon.post("/v1/types/waits/events", &later).await;
    }
    let lines = [
        "redrive_events_pushed_total{type=\"hr\"} 3",
        "redrive_events_pushed_total{type=\"waits\"} 2",
        "redrive_events_coalesced_total{type=\"waits\"} 1",
        "redrive_events_handled_total{type=\"hr\",how=\"done\"} 2",
        "redrive_events_handled_total{type=\"hr\",how=\"retried\"} 1",
        "redrive_event_lag_seconds_count{type=\"hr\"} 3",
        "redrive_events{type=\"hr\",state=\"ready\"} 1",
        "redrive_events{type=\"waits\",state=\"ready\"} 1",
        "redrive_events_due{type=\"waits\"} 0",
    ];
    shows(&daemon, &lines).await;
    let retried = daemon.post("/v1/types/hr/events/bad/retry", &json!({})).await;
    assert_eq!(retried.status, 200);
    let lines = [
        "redrive_events_handled_total{type=\"hr\",how=\"dead\"} 1",
        "redrive_events{type=\"hr\",state=\"dead\"} 1",
        "redrive_events{type=\"hr\",state=\"ready\"} 0",
    ];
    shows(&daemon, &lines).await;
    statsd
        .hears(&[
            "redrive_events_pushed_total:1|c|#type:hr",
            "redrive_events_coalesced_total:1|c|#type:waits",
            "redrive_events_handled_total:1|c|#type:hr,how:done",
            "redrive_events_handled_total:1|c|#type:hr,how:retried",
            "redrive_events_handled_total:1|c|#type:hr,how:dead",
        ])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_of_another_process_is_handled_long_before_anybody_looks() {
    wakes(Installation::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_of_another_process_is_handled_long_before_anybody_looks_on_postgresql() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    wakes(Installation::on_servers(&vhost, &database.url())).await;
}

/// The processor sleeps for seconds; what is pushed by a command begins within a fraction of that.
async fn wakes(mut installation: Installation) {
    let scratch = tempfile::tempdir().unwrap();
    let seen = scratch.path().join("seen");
    let command = json!(["/bin/sh", "-c", format!("echo x >> {}", seen.display())]);
    installation.append(&format!("\n[[handler]]\ntype = \"t\"\ncommand = {command}\n"));
    let daemon = installation.daemon().await;
    let lag = async || {
        let text = daemon.get("/metrics").await.text();
        let of = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        };
        of("redrive_event_lag_seconds_count{type=\"t\"}").zip(of("redrive_event_lag_seconds_sum{type=\"t\"}"))
    };
    for number in 1..=5 {
        let reference = format!("r{number}");
        let push = ["event", "push", "--type", "t", "--reference", &reference];
        installation.run(&push).await.expect_code(0);
        wait_until("a handler", LONG, async || {
            (lag().await?.0 >= f64::from(number)).then_some(())
        })
        .await;
    }
    let (count, sum) = lag().await.unwrap();
    assert!(sum / count < 1.0, "{count} events began {sum} s late in all");
}
