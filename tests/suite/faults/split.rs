//! The network between a daemon and PostgreSQL swallows everything, and resets nothing.

use std::time::{Duration, Instant};

use super::scene::{BOUND, Scene, begun, executions};
use crate::support::daemon::Daemon;
use crate::support::receiver::{Attempt, Behaviour};
use crate::support::relay::Relay;
use crate::support::wait::{patient, wait_until};

/// `/readyz` tells of a store that does not answer.
async fn says_unready(daemon: &Daemon) {
    wait_until("a daemon that knows of its silent store", BOUND, async || {
        (daemon.get("/readyz").await.status == 503).then_some(())
    })
    .await;
}

/// The newest epoch that a receiver was shown.
fn newest_epoch(scene: &Scene) -> Option<u64> {
    scene.receiver.attempts().iter().filter_map(Attempt::epoch).max()
}

/// One daemon is cut off its database, another one takes its queues over, and the network heals.
async fn check(heal: fn(&Relay)) {
    let mut scene = Scene::servers().await;
    scene.hasten();
    let direct = scene.postgres().to_owned();
    let relay = Relay::to(&direct).await;
    scene
        .receiver
        .behave("*", Behaviour::Status(200).after(Duration::from_millis(100)));
    scene.installation.set("store", "url", relay.through(&direct));
    let mut split = scene.installation.daemon().await;
    scene.installation.set("store", "url", direct);
    let all = executions(20, 4);
    scene.publish_all(&all, 60).await;
    scene.delivered(100).await;
    relay.silence();
    let incarnations = begun(&split);
    says_unready(&split).await;
    // Nobody else has delivered so far, and without its database it is granted no other lease.
    let of_the_split = newest_epoch(&scene);
    let mut other = scene.installation.daemon().await;
    scene.delivered(1_200).await;
    let attempts = scene.receiver.attempts();
    let is_of_the_other = |attempt: &Attempt| attempt.epoch() > of_the_split;
    let taken_over = attempts.iter().filter(|attempt| is_of_the_other(attempt));
    let taken_over = taken_over.map(|attempt| attempt.started_at).min();
    let taken_over = taken_over.expect("the split came too late: nothing was left to take over");
    let late = attempts
        .iter()
        .filter(|attempt| attempt.started_at >= taken_over && !is_of_the_other(attempt));
    assert_eq!(
        late.count(),
        0,
        "attempts of the daemon that was cut off, after the take-over"
    );
    assert_eq!(begun(&split), incarnations, "it cannot have begun anew");
    heal(&relay);
    wait_until("the daemon of before to begin anew", BOUND, async || {
        (begun(&split) > incarnations).then_some(())
    })
    .await;
    for (execution, path) in &all {
        for number in 61..=65 {
            scene.publish(execution, path, number).await;
        }
    }
    scene.finish(&mut [&mut split, &mut other], 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_split_from_its_database_is_taken_over_and_goes_on_once_it_heals() {
    check(Relay::heal).await;
}

/// As a router does that has forgotten them: nobody tells the daemon that its connections are gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_connections_were_forgotten_in_a_split_goes_on_with_new_ones() {
    check(Relay::heal_for_new_connections).await;
}

/// The server knows at once that the sessions are gone, which says nothing of the daemon: its way to the broker and
/// its requests go on. It has 8 s until its fence closes, and 4 s for its last attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_sessions_are_reset_is_not_taken_over_while_it_delivers() {
    let mut scene = Scene::servers().await;
    scene.installation.set("delivery", "timeout_s", 4);
    scene.installation.set("delivery", "take_over_s", 16);
    scene
        .receiver
        .behave("*", Behaviour::Status(200).after(Duration::from_secs(3)));
    let direct = scene.postgres().to_owned();
    let relay = Relay::to(&direct).await;
    scene.installation.set("store", "url", relay.through(&direct));
    let mut split = scene.installation.daemon().await;
    let all = executions(20, 4);
    scene.publish_all(&all, 8).await;
    scene.delivered(20).await;
    scene.installation.set("store", "url", direct);
    let mut other = scene.installation.daemon().await;
    relay.reset();
    wait_until("the other daemon to take over", BOUND, async || {
        other.log().contains("took over a queue").then_some(())
    })
    .await;
    relay.heal();
    // Each message once, and no request while another one of its queue is in flight.
    scene.finish(&mut [&mut split, &mut other], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_that_is_shorter_than_the_fence_stops_nothing() {
    let mut scene = Scene::servers().await;
    // The fence stays open for 30 s.
    scene.installation.set("delivery", "timeout_s", 15);
    scene.installation.set("delivery", "take_over_s", 60);
    let direct = scene.postgres().to_owned();
    let relay = Relay::to(&direct).await;
    scene.installation.set("store", "url", relay.through(&direct));
    scene
        .receiver
        .behave("*", Behaviour::Status(200).after(Duration::from_millis(50)));
    let mut daemon = scene.installation.daemon().await;
    let all = executions(10, 4);
    let split = async {
        scene.delivered(50).await;
        relay.silence();
        says_unready(&daemon).await;
        relay.heal_for_new_connections();
    };
    tokio::join!(scene.publish_all(&all, 40), split);
    scene.delivered(400).await;
    assert_eq!(begun(&daemon), 1, "{}", daemon.log());
    scene.finish(&mut [&mut daemon], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_whose_database_says_nothing_ends_with_69() {
    let mut scene = Scene::servers().await;
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    let relay = Relay::to(scene.postgres()).await;
    let through = relay.through(scene.postgres());
    relay.silence();
    scene.installation.set("store", "url", through);
    let asked = Instant::now();
    let outcome = scene.installation.run(&["queues", "--json"]).await;
    assert!(
        asked.elapsed() < patient(Duration::from_secs(20)),
        "{:?}",
        asked.elapsed()
    );
    outcome.expect_code(69);
    scene.finish(&mut [&mut daemon], 0).await;
}
