//! Faults while events are pushed and handled: none is lost, and none is handled twice but for a reason that is
//! on record.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, SqliteConnection};

use super::hall::{BOUND, events};
use crate::support::daemon::{Daemon, Installation};
use crate::support::relay::Relay;
use crate::support::servers::{Database, PrivatePostgres, Vhost};
use crate::support::wait::{at_moment, wait_until};

/// A program that writes a line for each event that it gets: the event as it was given.
fn with_log(mut installation: Installation) -> (Installation, PathBuf) {
    let log = installation.path("handled");
    let script = format!("printf '%s\\n' \"$(cat)\" >> {}", log.display());
    installation.append(&format!(
        "[[handler]]\ntype = \"t\"\ncommand = {}",
        json!(["/bin/sh", "-c", script])
    ));
    installation.set("events", "backoff_base_s", 1);
    (installation, log)
}

fn lines(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn handled(log: &Path, count: usize) {
    wait_until("handled events", BOUND, async || {
        (lines(log).len() >= count).then_some(())
    })
    .await;
}

/// Pushes `from` to `to`, each until it is confirmed.
async fn push_all(daemon: &Daemon, from: u32, to: u32) {
    for number in from..to {
        let body = json!({"reference": format!("r{number}"), "payload": {"n": number}});
        wait_until("a push that is confirmed", BOUND, async || {
            let request = daemon.request("POST", "/v1/types/t/events").json(&body);
            let answer = request.try_send().await.ok()?;
            (answer.status == 201).then_some(())
        })
        .await;
    }
}

/// Everything is handled; one run for each (event, revision, failures).
async fn all_handled(daemon: &Daemon, log: &Path, count: u32) {
    wait_until("nothing left", BOUND, async || {
        let answer = daemon.request("GET", "/v1/types/t/events").try_send().await.ok()?;
        (answer.status == 200 && answer.json()["items"] == json!([])).then_some(())
    })
    .await;
    let mut runs = HashSet::new();
    let mut references = HashSet::new();
    for line in lines(log) {
        let run = format!("{} {} {}", line["id"], line["revision"], line["attempts"]);
        assert!(runs.insert(run), "twice without a reason: {line}");
        references.insert(line["reference"].to_string());
    }
    assert_eq!(references.len(), count as usize);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_dies_after_its_program_succeeded_runs_it_again_and_says_so() {
    let (database, vhost) = (Database::create().await, Vhost::create().await);
    let relay = Relay::to(&database.url()).await;
    let mut installation = Installation::on_servers(&vhost, &relay.through(&database.url()));
    let (runs, go, done) = (
        installation.path("runs"),
        installation.path("go"),
        installation.path("done"),
    );
    let script = format!(
        "echo x >> {}; while [ ! -e {} ]; do sleep 0.05; done; touch {}",
        runs.display(),
        go.display(),
        done.display()
    );
    installation.append(&format!(
        "[[handler]]\ntype = \"t\"\ncommand = {}",
        json!(["/bin/sh", "-c", script])
    ));
    installation.set("delivery", "timeout_s", 2);
    installation.set("delivery", "take_over_s", 10);
    let mut daemon = installation.daemon().await;
    push_all(&daemon, 0, 1).await;
    wait_until("a program at work", BOUND, async || runs.exists().then_some(())).await;
    relay.silence();
    std::fs::write(&go, "").unwrap();
    wait_until("its success", BOUND, async || done.exists().then_some(())).await;
    daemon.kill().await;
    drop(relay);
    installation.set("store", "url", database.url());
    let daemon = installation.daemon().await;
    let event = wait_until("an attempt that is counted", BOUND, async || {
        let found = events(&daemon, "t").await;
        found.into_iter().find(|event| event["attempts"] == 1)
    })
    .await;
    assert!(event["reason"].as_str().unwrap().contains("error=lost"), "{event}");
    daemon.post("/v1/types/t/events/r0/retry", &json!({})).await;
    wait_until("nothing left", BOUND, async || {
        events(&daemon, "t").await.is_empty().then_some(())
    })
    .await;
    assert_eq!(std::fs::read_to_string(&runs).unwrap().lines().count(), 2);
}

/// A program that takes ten minutes unless it is told to end, and writes down both.
fn with_long_program(mut installation: Installation, log: &Path) -> Installation {
    let log = log.display();
    let script = format!("echo begin >> {log}; trap 'kill $!; echo end >> {log}; exit 1' TERM; sleep 600 & wait");
    installation.append(&format!(
        "[[handler]]\ntype = \"t\"\ncommand = {}",
        json!(["/bin/sh", "-c", script])
    ));
    installation.set("delivery", "timeout_s", 2);
    installation.set("delivery", "take_over_s", 10);
    // A lease that is lost is a failed attempt.
    installation.set("events", "backoff_base_s", 1);
    installation
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_of_a_daemon_that_is_cut_off_its_store_ends_before_another_daemon_has_its_event() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let relay = Relay::to(&database.url()).await;
    let scratch = tempfile::tempdir().unwrap();
    let log = scratch.path().join("runs");
    let written = || std::fs::read_to_string(&log).unwrap_or_default();
    let cut_off = with_long_program(Installation::on_servers(&vhost, &relay.through(&database.url())), &log);
    let daemon = cut_off.daemon().await;
    push_all(&daemon, 0, 1).await;
    wait_until("a program at work", BOUND, async || {
        (written() == "begin\n").then_some(())
    })
    .await;
    let other = with_long_program(Installation::on_servers(&vhost, &database.url()), &log);
    let _other = other.daemon().await;
    relay.silence();
    wait_until("the other daemon has the event", BOUND, async || {
        (written().lines().filter(|line| *line == "begin").count() == 2).then_some(())
    })
    .await;
    assert_eq!(written(), "begin\nend\nbegin\n", "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_ends_all_sessions_stops_and_is_killed_under_load_loses_no_event() {
    let postgres = PrivatePostgres::start().await;
    let vhost = Vhost::create().await;
    let (installation, log) = with_log(Installation::on_servers(&vhost, &postgres.url));
    let mut daemon = installation.daemon().await;
    let faults = async {
        for before in [20, 50] {
            handled(&log, before).await;
            terminate_all(&postgres.url).await;
        }
        handled(&log, 80).await;
        postgres.stop().await;
        postgres.start_again().await;
        handled(&log, 120).await;
        postgres.kill().await;
        postgres.start_again().await;
    };
    tokio::join!(push_all(&daemon, 0, 200), faults);
    all_handled(&daemon, &log, 200).await;
    assert!(daemon.exited().is_none(), "{}", daemon.log());
}

async fn terminate_all(url: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let ended: i64 = sqlx::query_scalar(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert!(ended > 0, "the daemon has sessions");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_somebody_else_locks_for_three_seconds_makes_pushes_wait_and_loses_none() {
    let (installation, log) = with_log(Installation::embedded());
    let mut daemon = installation.daemon().await;
    push_all(&daemon, 0, 10).await;
    let path = installation.path("store.db");
    let locks = async {
        let mut other = SqliteConnection::connect(&format!("sqlite://{}", path.display()))
            .await
            .unwrap();
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
        at_moment(Duration::from_secs(3)).await;
        sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    };
    tokio::join!(push_all(&daemon, 10, 60), locks);
    all_handled(&daemon, &log, 60).await;
    assert!(daemon.exited().is_none(), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_pushes_loses_nothing_that_was_confirmed_and_is_over_when_there_is_room() {
    let installation = Installation::embedded();
    // No file of the daemon may grow past this: writes fail as they do on a full disk.
    let mut daemon = installation.spawn_daemon_after("trap '' XFSZ; ulimit -S -f 8192");
    daemon.wait_until_ready().await;
    let large = "x".repeat(100_000);
    let push = async |number: u32| {
        let body = json!({"reference": format!("r{number}"), "payload": large});
        let request = daemon.request("POST", "/v1/types/t/events").json(&body);
        request.try_send().await.is_ok_and(|answer| answer.status == 201)
    };
    let mut confirmed = 0;
    while confirmed < 500 && push(confirmed).await {
        confirmed += 1;
    }
    assert!((10..500).contains(&confirmed), "{confirmed} were confirmed");
    assert!(!push(1_000).await, "the disk is full");
    let room = ["--pid", &daemon.pid().to_string(), "--fsize=unlimited"];
    assert!(Command::new("prlimit").args(room).status().unwrap().success());
    wait_until("a push that is confirmed", BOUND, async || {
        push(1_001).await.then_some(())
    })
    .await;
    let found: HashSet<String> = events(&daemon, "t")
        .await
        .iter()
        .map(|event| event["reference"].as_str().unwrap().to_owned())
        .collect();
    for number in (0..confirmed).chain([1_001]) {
        assert!(found.contains(&format!("r{number}")), "r{number} was confirmed");
    }
    assert!(daemon.exited().is_none(), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_hang_flood_and_fork_are_ended_with_all_that_they_began() {
    let mut installation = Installation::embedded();
    let child = installation.path("child");
    let script = format!(
        "case \"$REDRIVE_EVENT_REFERENCE\" in \
         hangs) trap '' TERM; sleep 1000 & echo $! > {0}; wait; sleep 1000;; \
         floods) head -c 100000000 /dev/zero | tr '\\0' x; exit 1;; \
         forks) sleep 1000 & exit 0;; esac",
        child.display()
    );
    installation.append(&format!(
        "[[handler]]\ntype = \"t\"\ncommand = {}",
        json!(["/bin/sh", "-c", script])
    ));
    installation.set("events", "lease_s", 10);
    for reference in ["hangs", "floods", "forks"] {
        let push = ["event", "push", "--type", "t", "--reference", reference];
        installation.run(&push).await.expect_code(0);
    }
    let process = ["--json", "event", "process", "--type", "t", "--once"];
    let counts = installation.run(&process).await.expect_code(3).json();
    assert_eq!(
        (&counts["retried"], &counts["done"]),
        (&json!(2), &json!(1)),
        "{counts}"
    );
    let listed = installation.run(&["--json", "event", "list"]).await.json();
    let reason = |reference: &str| {
        let is_it = |event: &&Value| event["reference"] == reference;
        let event = listed.as_array().unwrap().iter().find(is_it).unwrap();
        assert_eq!(event["attempts"], 1, "{event}");
        event["reason"].as_str().unwrap().to_owned()
    };
    assert!(reason("hangs").contains("error=timeout"), "{}", reason("hangs"));
    let flood = reason("floods");
    assert!(
        flood.contains("error=exit 1: xxx") && flood.len() <= 4096,
        "{} bytes",
        flood.len()
    );
    let id = std::fs::read_to_string(&child).unwrap();
    wait_until("the end of its child", BOUND, async || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim()));
        stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
    })
    .await;
}
