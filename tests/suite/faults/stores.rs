//! PostgreSQL goes away and comes back, or takes no writes for a while.

use std::time::Duration;

use sqlx::{Connection, PgConnection};

use super::scene::{BOUND, Scene, executions};
use crate::support::receiver::Behaviour;
use crate::support::servers::PrivatePostgres;
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

/// PROTOCOLS.md 34: what a daemon learned since the backup is not in the store any more, and its own numbers are
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
