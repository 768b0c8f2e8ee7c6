//! PostgreSQL goes away and comes back.

use std::time::Duration;

use super::scene::{Scene, executions};
use crate::support::receiver::Behaviour;
use crate::support::servers::PrivatePostgres;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_stops_or_is_killed_and_comes_back_loses_nothing() {
    let postgres = PrivatePostgres::start().await;
    let scene = Scene::on_postgres(&postgres.url).await;
    scene
        .receiver
        .behave("*", Behaviour::Status(200).after(Duration::from_millis(10)));
    // One URL fails now and then, so that there is something to record while the database is away.
    scene
        .receiver
        .behave_by("/hook-3", |attempt| match attempt.earlier % 7 {
            3 => Behaviour::Status(503),
            _ => Behaviour::Status(200),
        });
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
