//! What grows has an end, from outside: the audit that is verified, and a daemon that trims.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use crate::support::daemon::Installation;
use crate::support::receiver::Receiver;
use crate::support::wait::wait_until;

const BOUND: Duration = Duration::from_secs(30);

/// Past the program, as somebody with the database's own tools.
async fn tamper(at: &Installation, statements: &str) {
    let url = format!("sqlite://{}", at.path("store.db").display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned()))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

/// A queue that was paused and resumed, so that the audit has some lines.
async fn audited(at: &Installation) -> String {
    let publish = [
        "publish",
        "--execution",
        "e",
        "--url",
        "http://127.0.0.1:9/hook",
        "--json",
    ];
    let published = at.run(&publish).await.expect_code(0).json();
    let queue = published["queue"].as_str().unwrap().to_owned();
    for change in ["pause", "resume"] {
        at.run(&["queue", change, &queue, "--yes", "--reason", "a test"])
            .await
            .expect_code(0);
    }
    queue
}

async fn verified(at: &Installation, code: i32) -> Value {
    at.run(&["audit", "verify", "--json"]).await.expect_code(code).json()
}

/// Stopped at different moments of its beginning, when it opens what it reads with.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_stops_in_order_leaves_one_file() {
    for round in 0..8 {
        let at = Installation::embedded();
        let mut daemon = at.daemon().await;
        let publish = json!({"execution_id": "e", "url": "http://127.0.0.1:9/hook", "body": "x"});
        for _ in 0..round {
            assert_eq!(daemon.post("/v1/notifications", &publish).await.status, 202);
        }
        assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
        for beside in ["store.db-wal", "store.db-shm"] {
            assert!(!at.path(beside).exists(), "round {round}: {beside} is left");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_is_verified_and_the_first_broken_link_is_named() {
    let at = Installation::embedded();
    audited(&at).await;
    let whole = verified(&at, 0).await;
    assert_eq!(
        (&whole["intact"], &whole["removed"]),
        (&json!(true), &json!(0)),
        "{whole}"
    );
    let newest = whole["newest"].as_i64().unwrap();
    assert!(newest >= 4, "{whole}");

    tamper(
        &at,
        "DROP TRIGGER audit_refuses_update; UPDATE audit SET reason = 'another' WHERE id = 2",
    )
    .await;
    let changed = verified(&at, 1).await;
    assert_eq!(
        (&changed["intact"], &changed["broken_at"]),
        (&json!(false), &json!(2)),
        "{changed}"
    );
    let told = at.run(&["audit", "verify"]).await.expect_code(1);
    assert!(told.stdout.contains("breaks at line"), "{told:?}");
    tamper(&at, "UPDATE audit SET reason = 'a test' WHERE id = 2").await;
    verified(&at, 0).await;

    // The last line leaves nothing behind it that would not follow.
    tamper(
        &at,
        "DROP TRIGGER audit_refuses_delete; DELETE FROM audit WHERE id = (SELECT max(id) FROM audit)",
    )
    .await;
    let cut = verified(&at, 1).await;
    assert_eq!(cut["broken_at"], json!(newest), "{cut}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_trims_what_is_kept_for_seconds_and_a_forgotten_endpoint_is_404() {
    let mut at = Installation::embedded();
    at.set(
        "store",
        "retention",
        json!({"attempts_s": 1, "audit_s": 1, "runs_s": 1, "endpoints_s": 1}),
    );
    audited(&at).await;
    let receiver = Receiver::start().await;
    let url = receiver.url("/hook");
    let mut daemon = at.daemon().await;
    let publish = json!({"execution_id": "short", "url": url, "body": "x"});
    assert_eq!(daemon.post("/v1/notifications", &publish).await.status, 202);
    let ended = daemon.post("/v1/executions/short/end", &json!({"url": url})).await;
    assert_eq!(ended.status, 202, "{}", ended.text());
    wait_until("the endpoint to be forgotten", BOUND, async || {
        let endpoints = daemon.get("/v1/endpoints").await.json();
        let is_it = |one: &Value| one["url"] == url.as_str();
        (!endpoints["items"].as_array().unwrap().iter().any(is_it)).then_some(())
    })
    .await;
    let redeliver = daemon.post("/v1/redeliver", &json!({"url": url})).await;
    assert_eq!(redeliver.status, 404, "{}", redeliver.text());
    wait_until("the attempts to be gone", BOUND, async || {
        let attempts = daemon.get("/v1/attempts").await.json();
        let of_it = |line: &Value| line["url"] == url.as_str();
        (!attempts["items"].as_array().unwrap().iter().any(of_it)).then_some(())
    })
    .await;
    wait_until("the audit to be trimmed", BOUND, async || {
        let chain = verified(&at, 0).await;
        (chain["removed"].as_i64().unwrap() >= 4).then_some(())
    })
    .await;
    // The other URL has a queue, and stays.
    at.run(&["endpoint", "show", "http://127.0.0.1:9/hook"])
        .await
        .expect_code(0);
    // One that comes back is delivered to as ever.
    let again = json!({"execution_id": "again", "url": url, "body": "y"});
    assert_eq!(daemon.post("/v1/notifications", &again).await.status, 202);
    wait_until("the endpoint that came back to answer", BOUND, async || {
        (receiver.count() >= 2).then_some(())
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}
