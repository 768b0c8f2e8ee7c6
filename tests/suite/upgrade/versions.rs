//! A store of the version before, and daemons of two versions on one store.

use crate::support::daemon::Installation;
use crate::support::servers::{Database, Vhost};
use crate::support::wait::wait_until;
use std::time::Duration;

use super::{in_file, on, told};

const BOUND: Duration = Duration::from_secs(60);

/// Kept for ever: the stores that the program of schema 1 left.
const SQLITE_1: &str = include_str!("schema_1/sqlite.sql");
const POSTGRES_1: &str = include_str!("schema_1/postgres.sql");
/// And those that 0.1.0 left: schema 3.
const SQLITE_0_1_0: &str = include_str!("v0_1_0/sqlite.sql");
const POSTGRES_0_1_0: &str = include_str!("v0_1_0/postgres.sql");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_the_version_before_is_brought_up_to_date_with_all_that_is_in_it() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    on(&database.url(), POSTGRES_1).await;
    let server = super::bare(Installation::on_servers(&vhost, &database.url()));
    let file = super::bare(Installation::embedded());
    in_file(&file.path("store.db"), SQLITE_1).await;
    for installation in [&server, &file] {
        let behind = "the store's schema is 1, this program needs 3: run `redrive store migrate`";
        told(installation.run(&["queues"]).await, 78, &[behind]);
        let planned = installation.run(&["store", "migrate", "--dry-run", "--json"]).await;
        assert_eq!(planned.expect_code(0).json()["pending"][0], 2);
        told(installation.run(&["queues"]).await, 78, &[behind]);
        installation.run(&["store", "migrate"]).await.expect_code(0);
        holds_what_it_held(installation).await;
        installation.daemon().await.stop().await;
        holds_what_it_held(installation).await;
    }
}

async fn holds_what_it_held(installation: &Installation) {
    installation.run(&["audit", "verify"]).await.expect_code(0);
    let list = async |command: &[&str]| {
        let listed = installation.run(command).await.expect_code(0).json();
        listed.as_array().unwrap().clone()
    };
    let endpoints = list(&["endpoints", "--json"]).await;
    assert_eq!(endpoints[0]["state"], "disabled", "{endpoints:?}");
    let audit = list(&["audit", "--json"]).await;
    let first = audit.last().unwrap();
    assert_eq!(
        (&first["reason"], &first["broker"]),
        (&"d\u{fc}nn".into(), &serde_json::Value::Null)
    );
    let events = list(&["event", "list", "--type", "t", "--json"]).await;
    assert_eq!(events.len(), 2, "{events:?}");
    let subscriptions = list(&["subscription", "list", "--type", "t", "--json"]).await;
    assert_eq!(subscriptions[0]["url"], "http://127.0.0.1:9/hook");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stores_of_0_1_0_are_gone_on_with() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    on(&database.url(), POSTGRES_0_1_0).await;
    let server = super::bare(Installation::on_servers(&vhost, &database.url()));
    let file = super::bare(Installation::embedded());
    in_file(&file.path("store.db"), SQLITE_0_1_0).await;
    for installation in [&server, &file] {
        installation.run(&["store", "migrate"]).await.expect_code(0);
    }
    // Its broker was another one.
    server.run(&["store", "adopt", "--yes"]).await.expect_code(0);
    for installation in [&server, &file] {
        installation.daemon().await.stop().await;
        installation.run(&["audit", "verify"]).await.expect_code(0);
        let list = async |command: &[&str]| installation.run(command).await.expect_code(0).json();
        let endpoints = list(&["endpoints", "--json"]).await;
        assert_eq!(endpoints[0]["state"], "disabled", "{endpoints}");
        assert_eq!(
            list(&["event", "list", "--type", "t", "--json"])
                .await
                .as_array()
                .unwrap()
                .len(),
            2
        );
        let audit = list(&["audit", "--json"]).await;
        let reasons: Vec<&serde_json::Value> = audit.as_array().unwrap().iter().map(|line| &line["reason"]).collect();
        assert!(reasons.contains(&&"d\u{fc}nn".into()), "{audit}");
        let policies = list(&["policy", "show", "--json"]).await;
        assert!(policies.to_string().contains("127.0.0.1:9/other"), "{policies}");
    }
    // The file has the embedded broker, too.
    let attempts = file.run(&["attempts", "--json"]).await.expect_code(0).json();
    assert_eq!(
        attempts[0]["message_id"], "01a20d77-a200-75f5-a98b-fa64fc74775d",
        "{attempts}"
    );
    let queues = file.run(&["queues", "--json"]).await.expect_code(0).json();
    let waits = |queue: &serde_json::Value| queue["execution_id"] == "run" && queue["ready"] == 1;
    assert!(queues.as_array().unwrap().iter().any(waits), "{queues}");
}

/// The daemon's start is what brings it, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_brings_the_store_of_the_version_before() {
    let file = super::bare(Installation::embedded());
    in_file(&file.path("store.db"), SQLITE_1).await;
    file.daemon().await.stop().await;
    holds_what_it_held(&file).await;
}

/// Additions are what programs of before can live with: versions work beside each other, and one can go back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_newer_program_added_stops_nobody() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let server = super::bare(Installation::on_servers(&vhost, &database.url()));
    let file = super::bare(Installation::embedded());
    for installation in [&server, &file] {
        installation.run(&["store", "migrate"]).await.expect_code(0);
    }
    let newer = "INSERT INTO redrive.schema_additions VALUES (1999, 'of a newer program', 0)";
    on(&database.url(), newer).await;
    let newer = "INSERT INTO schema_changes VALUES ('additions to the store', 1999, 'of a newer program', 0)";
    in_file(&file.path("store.db"), newer).await;
    for installation in [&server, &file] {
        installation.run(&["endpoints"]).await.expect_code(0);
        installation.run(&["store", "migrate"]).await.expect_code(0);
        assert_eq!(installation.daemon().await.stop().await, Some(0));
    }
}

/// Rolling: new daemons come first. Downgrade: an older program is refused what a newer one made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_at_work_goes_on_when_a_newer_one_came_and_starts_no_more() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let server = Installation::on_servers(&vhost, &database.url());
    let file = Installation::on_rabbit(&Vhost::create().await);
    let receiver = crate::support::receiver::Receiver::start().await;
    for installation in [&server, &file] {
        let mut daemon = installation.daemon().await;
        let newer = "INSERT INTO redrive.schema_changes VALUES (99, 'of a newer program', 0)";
        if installation.path("x") == server.path("x") {
            on(&database.url(), newer).await;
        } else {
            let newer = newer.replace("redrive.", "").replace("(99", "('store', 99");
            in_file(&installation.path("store.db"), &newer).await;
        }
        let before = receiver.count();
        let url = receiver.url("/hook");
        let answer = daemon
            .post(
                "/v1/notifications",
                &serde_json::json!({"execution_id": "run", "url": url, "body": "b"}),
            )
            .await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        wait_until("the daemon of before to deliver", BOUND, async || {
            (receiver.count() > before).then_some(())
        })
        .await;
        let refusal = "the store's schema is 99, this program knows 3: use the newer program";
        told(installation.run(&["queues"]).await, 78, &[refusal]);
        assert_eq!(daemon.stop().await, Some(0));
        let mut daemon = installation.spawn_daemon();
        assert_eq!(daemon.wait().await.code(), Some(78));
    }
}
