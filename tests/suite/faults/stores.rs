//! PostgreSQL goes away and comes back, or takes no writes for a while.

use std::time::Duration;

use redrive::internals::domain::numbers::Numbers;
use serde_json::json;
use sqlx::{Connection, PgConnection, SqliteConnection};

use super::readiness::settle;
use super::scene::{BOUND, Scene, executions};
use crate::engine::stage::{Ground, Stage};
use crate::support::daemon::{Daemon, Installation};
use crate::support::receiver::{Attempt, Behaviour, Receiver};
use crate::support::servers::{Database, PrivatePostgres, Vhost};
use crate::support::wait::{at_moment, wait_until};

async fn administer(postgres: &PrivatePostgres, statements: &'static str) {
    let mut connection = PgConnection::connect(&postgres.url).await.unwrap();
    sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// One URL fails now and then, so that there is something to record while the database is away.
fn fails_now_and_then(scene: &Scene) {
    scene
        .receiver
        .behave("*", Behaviour::Status(200).after(Duration::from_millis(10)));
    scene
        .receiver
        .behave_by("/hook-3", |attempt| match attempt.earlier % 7 {
            3 => Behaviour::Status(503),
            _ => Behaviour::Status(200),
        });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_stops_or_is_killed_and_comes_back_loses_nothing() {
    let postgres = PrivatePostgres::start().await;
    let scene = Scene::on_postgres(&postgres.url).await;
    fails_now_and_then(&scene);
    let mut daemon = scene.installation.daemon().await;
    let faults = async {
        scene.delivered(200).await;
        postgres.stop().await;
        postgres.start_again().await;
        scene.delivered(600).await;
        postgres.kill().await;
        assert!(scene.receiver.delivered() < 1000, "the kill came too late");
        postgres.start_again().await;
    };
    let all = executions(20, 4);
    tokio::join!(scene.publish_all(&all, 50), faults);
    scene.finish(&mut [&mut daemon], 2).await;
}

/// docs/protocols.md 34: what a daemon learned since the backup is not in the store any more, and its own numbers are
/// higher than the store's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_restored_from_a_backup_is_noticed_and_nothing_is_lost_or_sent_again() {
    let postgres = PrivatePostgres::start().await;
    let scene = Scene::on_postgres(&postgres.url).await;
    let mut daemon = scene.installation.daemon().await;
    let before = executions(5, 2);
    scene.publish_all(&before, 4).await;
    scene.delivered(20).await;
    postgres.stop().await;
    postgres.back_up().await;
    postgres.start_again().await;
    // What the backup does not know: queues, an endpoint that was closed and opened, and heartbeats.
    let since: Vec<_> = executions(5, 2)
        .into_iter()
        .map(|(execution, path)| (format!("later-{execution}"), path))
        .collect();
    scene.publish_all(&since, 4).await;
    let url = scene.url("/hook-1");
    let url = url.as_str();
    for run in [&["endpoint", "disable", url, "--yes"][..], &["redeliver", url, "--yes"]] {
        scene.installation.run(run).await.expect_code(0);
    }
    scene.delivered(40).await;
    postgres.stop().await;
    postgres.restore().await;
    postgres.start_again().await;
    wait_until("an audited restore", BOUND, async || {
        let audit = scene.installation.run(&["audit", "--limit", "100", "--json"]).await;
        let lines = audit.expect_code(0).json();
        let went_back = |line: &serde_json::Value| line["detail"].as_str().is_some_and(|it| it.contains("restored"));
        lines.as_array().unwrap().iter().any(went_back).then_some(())
    })
    .await;
    for (execution, path) in before.iter().chain(&since) {
        scene.publish(execution, path, 5).await;
    }
    scene.finish(&mut [&mut daemon], 2).await;
}

async fn went_back(installation: &Installation) -> usize {
    let audit = installation.run(&["audit", "--limit", "100", "--json"]).await;
    let lines = audit.expect_code(0).json().as_array().unwrap().clone();
    lines.iter().filter(|line| line["result"] == "went back").count()
}

/// Epochs of what was delivered, in their order.
fn epochs(receiver: &Receiver) -> Vec<u64> {
    let of = |attempt: Attempt| attempt.header("redrive-epoch")?.parse().ok();
    receiver.attempts().into_iter().filter_map(of).collect()
}

/// The only way to restore a file: nobody runs who could remember.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_restored_while_nothing_ran_is_noticed_by_the_next_daemon() {
    let (vhost, receiver) = (Vhost::create().await, Receiver::start().await);
    let mut installation = Installation::on_rabbit(&vhost);
    installation.set("delivery", "linger_s", 1);
    let (store, backup) = (installation.path("store.db"), installation.path("backup.db"));
    let publish = async |daemon: &Daemon, number: usize| {
        let body = json!({"execution_id": format!("run-{number}"), "url": receiver.url("/hook"), "body": "b"});
        assert_eq!(daemon.post("/v1/notifications", &body).await.status, 202);
        wait_until("a delivery", BOUND, async || {
            (receiver.delivered() >= number).then_some(())
        })
        .await;
    };
    for number in 1..=2 {
        let mut daemon = installation.daemon().await;
        publish(&daemon, number).await;
        assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
        if number == 1 {
            settle(&store).await;
            std::fs::copy(&store, &backup).unwrap();
        }
    }
    assert_eq!(went_back(&installation).await, 0);
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        let _ = std::fs::remove_file(installation.path(name));
    }
    std::fs::copy(&backup, &store).unwrap();

    let mut daemon = installation.daemon().await;
    assert_eq!(went_back(&installation).await, 1, "{}", daemon.log());
    let doctor = installation.run(&["doctor", "--json"]).await.json();
    let restored = |check: &serde_json::Value| check["found"].as_str().is_some_and(|it| it.contains("was restored"));
    assert!(doctor.as_array().unwrap().iter().any(restored), "{doctor}");
    publish(&daemon, 3).await;
    assert!(epochs(&receiver).is_sorted(), "{:?}", epochs(&receiver));
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    // It is said once.
    let mut daemon = installation.daemon().await;
    assert_eq!(went_back(&installation).await, 1, "{}", daemon.log());
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

/// Keeps their clocks out of it: what a restored store draws is higher though its clock is behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_a_restored_store_begin_above_those_that_were_kept() {
    let mut stage = Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await;
    let ahead = Numbers {
        generation: 4_000_000_000_000,
        epoch: 4_000_000_000_001,
    };
    let store = stage.store.identity().await.unwrap();
    stage.broker.own(&store).await.unwrap();
    stage.broker.numbers_keep(&store, ahead).await.unwrap();
    let lower = Numbers {
        generation: 1,
        ..Numbers::default()
    };
    stage.broker.numbers_keep(&store, lower).await.unwrap();
    assert_eq!(
        stage.broker.numbers_kept(&store).await.unwrap(),
        Some(ahead),
        "the highest stay"
    );
    stage.start();
    wait_until("numbers above those that were kept", BOUND, async || {
        let now = stage.store.numbers().await.unwrap();
        (now.generation > ahead.generation && now.epoch > ahead.epoch).then_some(())
    })
    .await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_of_one_database_keep_one_set_of_numbers_and_notice_nothing() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let installation = Installation::on_servers(&vhost, &database.url());
    let (mut one, mut two) = (installation.daemon().await, installation.daemon().await);
    let publish = async |daemon: &Daemon, number: u32| {
        let body = json!({"execution_id": format!("run-{number}"), "url": "http://127.0.0.1:9/hook", "body": "b"});
        assert_eq!(daemon.post("/v1/notifications", &body).await.status, 202);
    };
    publish(&one, 1).await;
    publish(&two, 2).await;
    for daemon in [&mut one, &mut two] {
        assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    }
    let mut again = installation.daemon().await;
    assert_eq!(went_back(&installation).await, 0);
    let kept = async || {
        let bindings = vhost
            .manage("GET", &format!("/api/bindings/{}", vhost.name), None)
            .await
            .json();
        let keys = bindings.as_array().unwrap().clone();
        let keys = keys
            .iter()
            .filter_map(|one| one["routing_key"].as_str().map(str::to_owned));
        keys.filter(|key| key.starts_with("numbers.")).collect::<Vec<_>>()
    };
    wait_until("one binding with the numbers", BOUND, async || {
        (kept().await.len() == 1).then_some(())
    })
    .await;
    assert_eq!(again.stop().await, Some(0), "{}", again.log());
}

/// As a failover looks to those who stayed with the old primary: it answers, and refuses what is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_refuses_writes_for_a_while_is_used_again_as_soon_as_it_takes_them() {
    let postgres = PrivatePostgres::start().await;
    administer(
        &postgres,
        "CREATE ROLE writer LOGIN; GRANT ALL ON DATABASE postgres TO writer",
    )
    .await;
    let mut url = url::Url::parse(&postgres.url).unwrap();
    url.set_username("writer").unwrap();
    let scene = Scene::on_postgres(url.as_str()).await;
    fails_now_and_then(&scene);
    let mut daemon = scene.installation.daemon().await;
    let faults = async {
        scene.delivered(200).await;
        administer(
            &postgres,
            "ALTER ROLE writer SET default_transaction_read_only = on; \
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'writer'",
        )
        .await;
        // Meanwhile every session that is made can only read.
        at_moment(Duration::from_secs(5)).await;
        assert!(scene.receiver.delivered() < 1000, "the refusals came too late");
        administer(&postgres, "ALTER ROLE writer RESET default_transaction_read_only").await;
        scene.delivered(1000).await;
    };
    let all = executions(20, 4);
    tokio::join!(scene.publish_all(&all, 50), faults);
    scene.finish(&mut [&mut daemon], 2).await;
}

/// A disk that is full and a file that somebody else has locked refuse the same: each write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_at_the_embedded_store_writes_nothing() {
    let installation = Installation::embedded();
    installation.run(&["queues"]).await.expect_code(0);
    let address = format!("sqlite://{}", installation.path("store.db").display());
    let mut other = SqliteConnection::connect(&address).await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    for look in [&["queues"][..], &["endpoints", "--read-only"], &["retries"], &["audit"]] {
        let outcome = installation.run(look).await.expect_code(0);
        assert!(!outcome.stderr.contains("ERROR"), "{outcome:?}");
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
}

/// A disk that is full lets rows be written over where they stand, so that a small write says nothing. No disk is filled
/// here: the server refuses what would grow, in the words and with the code that it has for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_only_looks_says_that_no_room_is_left_on_the_disk_of_the_database() {
    let postgres = PrivatePostgres::start().await;
    let (vhost, mut installation) = (Vhost::create().await, Installation::embedded());
    installation.set("store", "url", postgres.url.as_str());
    installation.set("broker", "url", vhost.node.amqp.as_str());
    installation.set("broker", "management_url", vhost.node.management.as_str());
    installation.set("broker", "vhost", vhost.name.as_str());
    let store = async || {
        let checks = installation.run(&["doctor", "--json"]).await.json();
        let check = checks.as_array().unwrap().iter().find(|check| check["name"] == "store");
        check.unwrap().clone()
    };
    let fine = store().await;
    assert_ne!(fine["result"], "broken", "{fine}");
    administer(
        &postgres,
        "CREATE FUNCTION no_room() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN \
            RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$; \
         CREATE EVENT TRIGGER no_room ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION no_room()",
    )
    .await;
    let full = store().await;
    assert_eq!(full["result"], "broken", "{full}");
    let (found, mend) = (full["found"].as_str().unwrap(), full["mend"].as_str().unwrap());
    assert!(
        found.contains("no room is left on its disk") && mend.contains("make room"),
        "{full}"
    );
    administer(&postgres, "DROP EVENT TRIGGER no_room").await;
    let again = store().await;
    assert_eq!(again, fine);
}
