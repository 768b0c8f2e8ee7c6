//! The daemon is told to stop in the middle of its work.

use std::time::Duration;

use serde_json::json;

use super::scene::{BOUND, Scene, executions};
use crate::support::daemon::{Daemon, free_port};
use crate::support::http::Request;
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

/// Until the receiver has an attempt in hand.
async fn in_flight(scene: &Scene) {
    wait_until("an attempt in flight", BOUND, async || {
        let attempts = scene.receiver.attempts();
        attempts.iter().any(|attempt| attempt.end.is_none()).then_some(())
    })
    .await;
}

async fn check_drain(scene: Scene) {
    scene
        .receiver
        .behave("*", Behaviour::Status(200).after(Duration::from_millis(50)));
    let mut daemon = scene.installation.daemon().await;
    let stops = async {
        for count in [30, 90] {
            scene.delivered(count).await;
            in_flight(&scene).await;
            assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
            assert!(scene.receiver.delivered() < 200, "the stop came too late");
            daemon = scene.installation.daemon().await;
        }
    };
    let all = executions(10, 4);
    tokio::join!(scene.publish_all(&all, 20), stops);
    // A stop in order is no fault: not one repeat.
    scene.finish(&mut [&mut daemon], 0).await;
}

/// A daemon that was told to stop, and waits for an answer that does not come.
async fn draining(scene: &mut Scene) -> Daemon {
    for (key, seconds) in [("timeout_s", 300), ("take_over_s", 1200), ("drain_s", 300)] {
        scene.installation.set("delivery", key, seconds);
    }
    scene.receiver.behave("*", Behaviour::Never);
    let daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    in_flight(scene).await;
    daemon.signal_stop();
    daemon
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_in_the_middle_finishes_what_is_in_flight_and_repeats_nothing_on_the_servers() {
    check_drain(Scene::servers().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_in_the_middle_finishes_what_is_in_flight_and_repeats_nothing_on_the_embedded_pair() {
    check_drain(Scene::embedded().await).await;
}

/// A policy under which one failure would park the message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_a_stop_interrupts_is_not_a_failed_one() {
    let mut scene = Scene::servers().await;
    let policy = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 0, "backoff_retries": 0, "maximum_delay_retries": 0
    });
    scene.installation.set("delivery", "retry_policy", policy);
    scene.installation.set("delivery", "timeout_s", 60);
    scene.installation.set("delivery", "take_over_s", 240);
    scene.installation.set("delivery", "drain_s", 1);
    scene.receiver.behave("*", Behaviour::Never);
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    in_flight(&scene).await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    let attempts = scene.installation.run(&["attempts", "--json"]).await.expect_code(0);
    assert_eq!(attempts.json()[0]["class"], "interrupted", "{attempts:?}");
    scene.receiver.behave("*", Behaviour::Status(200));
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 2).await;
    scene.finish(&mut [&mut daemon], 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_stops_at_once() {
    let mut scene = Scene::servers().await;
    let mut daemon = draining(&mut scene).await;
    wait_until("the first signal to be heard", BOUND, async || {
        daemon.log().contains("a second signal stops at once").then_some(())
    })
    .await;
    assert!(daemon.exited().is_none(), "it drains");
    assert_eq!(daemon.stop().await, Some(1));
    scene.receiver.behave("*", Behaviour::Status(200));
    let mut daemon = scene.installation.daemon().await;
    scene.finish(&mut [&mut daemon], 1).await;
}

/// A shell and the system both say that a terminal is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_that_is_closed_stops_a_daemon_in_order() {
    let scene = Scene::embedded().await;
    scene
        .receiver
        .behave("*", Behaviour::Status(200).after(Duration::from_millis(500)));
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    in_flight(&scene).await;
    daemon.hang_up();
    daemon.hang_up();
    assert_eq!(daemon.wait().await.code(), Some(0), "{}", daemon.log());
    scene.delivered(1).await;
    let mut daemon = scene.installation.daemon().await;
    scene.finish(&mut [&mut daemon], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_was_started_to_outlive_its_terminal_does() {
    let scene = Scene::embedded().await;
    let mut daemon = scene.installation.spawn_daemon_after("trap '' HUP");
    daemon.wait_until_ready().await;
    daemon.hang_up();
    scene.publish("run", "/hook", 1).await;
    scene.delivered(1).await;
    assert!(!daemon.log().contains("stopping"), "{}", daemon.log());
    scene.finish(&mut [&mut daemon], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_drains_is_alive_and_not_ready_for_its_probe() {
    let mut scene = Scene::embedded().await;
    let probe = format!("127.0.0.1:{}", free_port());
    scene.installation.set("api", "probe", probe.as_str());
    let mut daemon = draining(&mut scene).await;
    let get = async |path: &str| Request::new("GET", &format!("http://{probe}{path}")).send().await;
    wait_until("a probe that finds it not ready", BOUND, async || {
        (get("/readyz").await.status == 503).then_some(())
    })
    .await;
    assert_eq!(get("/healthz").await.status, 200);
    assert_eq!(daemon.stop().await, Some(1));
}
