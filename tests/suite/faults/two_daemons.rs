//! Two daemons on PostgreSQL; one dies, or sleeps for longer than its take-over time.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::scene::{BOUND, Scene, begun, executions};
use crate::support::receiver::{Attempt, Behaviour};
use crate::support::wait::{patient, wait_until};

const PAUSE: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_of_a_killed_daemon_are_taken_over_by_the_other() {
    let mut scene = Scene::servers().await;
    scene.hasten();
    scene.receiver.behave("*", Behaviour::Status(200).after(PAUSE));
    let (mut one, mut other) = (scene.installation.daemon().await, scene.installation.daemon().await);
    wait_until("the second daemon to deliver", BOUND, async || {
        (begun(&other) == 1).then_some(())
    })
    .await;
    let faults = async {
        scene.delivered(200).await;
        one.kill().await;
        assert!(scene.receiver.delivered() < 800, "the kill came too late");
    };
    let all = executions(20, 4);
    tokio::join!(scene.publish_all(&all, 40), faults);
    scene.finish(&mut [&mut other], 1).await;
}

/// The fence of the dead one would be open for half a minute: its process is seen to be gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_of_a_daemon_that_is_killed_on_this_machine_are_taken_over_within_seconds() {
    let mut scene = Scene::servers().await;
    scene.installation.set("delivery", "timeout_s", 15);
    scene.installation.set("delivery", "take_over_s", 60);
    scene.receiver.behave("*", Behaviour::Status(200).after(PAUSE));
    let mut one = scene.installation.daemon().await;
    let all = executions(8, 2);
    let killed = async {
        scene.delivered(40).await;
        one.kill().await;
        Instant::now()
    };
    let ((), killed) = tokio::join!(scene.publish_all(&all, 20), killed);
    let mut other = scene.installation.daemon().await;
    let began = Instant::now();
    scene.delivered(160).await;
    let (of_all, of_the_start) = (killed.elapsed(), began.elapsed());
    assert!(
        of_the_start < patient(Duration::from_secs(20)),
        "{of_all:?} after the kill"
    );
    scene.finish(&mut [&mut other], 1).await;
}

/// The rule for a receiver: per queue, refuse only a lower epoch.
fn fencing() -> impl Fn(&Attempt) -> Behaviour + Send + Sync + 'static {
    let highest: Mutex<HashMap<String, u64>> = Mutex::default();
    move |attempt| {
        let mut highest = highest.lock().unwrap();
        let known = highest.entry(attempt.queue().to_owned()).or_default();
        let epoch = attempt.epoch().unwrap_or_default();
        if epoch < *known {
            return Behaviour::Status(412);
        }
        *known = epoch;
        Behaviour::Status(200).after(PAUSE)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_slept_past_its_take_over_time_overlaps_nobody() {
    let mut scene = Scene::servers().await;
    scene.hasten();
    scene.receiver.behave_by("*", fencing());
    let mut sleeper = scene.installation.daemon().await;
    let all = executions(20, 4);
    let falls_asleep = async {
        scene.delivered(100).await;
        sleeper.freeze();
        assert!(scene.receiver.delivered() < 400, "the sleep came too late");
    };
    tokio::join!(scene.publish_all(&all, 20), falls_asleep);
    let incarnations = begun(&sleeper);
    let mut other = scene.installation.daemon().await;
    scene.delivered(400).await;
    sleeper.thaw();
    wait_until("the sleeper to begin anew", BOUND, async || {
        (begun(&sleeper) > incarnations).then_some(())
    })
    .await;
    for (execution, path) in &all {
        for number in 21..=25 {
            scene.publish(execution, path, number).await;
        }
    }
    let mut history = scene.end(&mut [&mut sleeper, &mut other], 1).await;
    // What the sleeper had decided to send before it fell asleep may leave it when it wakes: one for each
    // queue at most, and the receiver refuses it.
    let mut late: HashMap<String, u32> = HashMap::new();
    history.seen.retain(|seen| {
        let refused = seen.status == Some(412);
        *late.entry(seen.queue.clone()).or_default() += u32::from(refused);
        !refused
    });
    assert!(late.values().all(|count| *count <= 1), "{late:?}");
    history.assert_kept();
}
