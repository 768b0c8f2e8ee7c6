//! The daemon is killed in the middle of its deliveries, again and again.

use std::time::Duration;

use super::scene::{BOUND, Scene, executions};
use crate::support::daemon::Installation;
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

/// Publishes `each` notifications to every queue and kills the daemon `kills` times meanwhile.
async fn check(scene: &Scene, queues: u32, each: u32, kills: u32, prefetch: u16) {
    scene
        .receiver
        .behave("*", Behaviour::Status(200).after(Duration::from_millis(10)));
    let executions = executions(queues, 4);
    let total = (queues * each) as usize;
    let mut daemon = scene.installation.daemon().await;
    let faults = async {
        for kill in 1..=kills {
            scene.delivered(total * kill as usize / (kills as usize + 1)).await;
            daemon.kill().await;
            assert!(scene.receiver.delivered() < total, "kill {kill} came too late");
            daemon = scene.installation.daemon().await;
        }
    };
    tokio::join!(scene.publish_all(&executions, each), faults);
    let mut history = scene.end(&mut [&mut daemon], kills).await;
    history.prefetch = u32::from(prefetch);
    history.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_kills_in_two_thousand_deliveries_lose_nothing_on_the_servers() {
    check(&Scene::servers().await, 20, 100, 5, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_nothing_with_quorum_queues() {
    check(&Scene::servers().await.with_quorum_queues(), 10, 60, 3, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_nothing_with_a_higher_prefetch() {
    let mut scene = Scene::servers().await;
    scene.installation.set("delivery", "prefetch", 16);
    check(&scene, 10, 100, 2, 16).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_kills_lose_nothing_on_the_embedded_pair() {
    check(&Scene::embedded().await, 10, 60, 5, 1).await;
}

/// No other daemon has marked it dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_daemon_is_not_told_as_alive() {
    let installation = Installation::embedded();
    let mut daemon = installation.daemon().await;
    let of_daemon = async || {
        let checks = installation.run(&["doctor", "--json"]).await.json();
        let checks = checks.as_array().unwrap().clone();
        checks.into_iter().find(|check| check["name"] == "daemon").unwrap()
    };
    assert_eq!(of_daemon().await["found"], "1 alive");
    daemon.kill().await;
    wait_until("nobody to be alive", BOUND, async || {
        (of_daemon().await["found"] == "none is alive").then_some(())
    })
    .await;
}
