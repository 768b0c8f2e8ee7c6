//! A command that waits for a queue ends before it has it: by Ctrl-C, by a stop, by a kill.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;

use super::scene::{BOUND, Scene};
use crate::support::receiver::Behaviour;
use crate::support::wait::{wait_until, within};

/// From the last signal on; the fence of each command would be open for as long.
const GOES_ON: Duration = Duration::from_mins(1);

async fn check(mut scene: Scene) {
    scene.installation.set("delivery", "timeout_s", 90);
    scene.installation.set("delivery", "take_over_s", 360);
    // What the commands wait for: the first attempt of each queue.
    let answers = CancellationToken::new();
    let told = answers.clone();
    scene.receiver.behave_by("*", move |attempt| match attempt.earlier {
        0 => Behaviour::Status(200).once(&told),
        _ => Behaviour::Status(200),
    });
    let mut daemon = scene.installation.daemon().await;
    let ends = [("/int", Signal::INT), ("/term", Signal::TERM), ("/kill", Signal::KILL)];
    for (path, _) in ends {
        for number in 1..=3 {
            scene.publish(&path[1..], path, number).await;
        }
    }
    wait_until("an attempt for each queue", BOUND, async || {
        (scene.receiver.count() >= 3).then_some(())
    })
    .await;
    let commands = ends.map(|(path, signal)| {
        let queue = scene.queue(&path[1..], path);
        let mut browse = scene.installation.program(&["queue", "browse", queue.as_str()]);
        let quiet = browse.stdout(Stdio::null()).stderr(Stdio::null());
        (queue, quiet.spawn().unwrap(), signal)
    });
    for (queue, mut child, signal) in commands {
        wait_until("the wish", BOUND, async || {
            let why = scene.why(&queue).await.to_string();
            why.contains("wants it next").then_some(())
        })
        .await;
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        child.wait().unwrap();
    }
    answers.cancel();
    within(GOES_ON, scene.delivered(9))
        .await
        .expect("no queue is kept for the dead");
    scene.finish(&mut [&mut daemon], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_not_kept_for_a_command_that_was_interrupted_on_the_servers() {
    check(Scene::servers().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_not_kept_for_a_command_that_was_interrupted_on_the_embedded_pair() {
    check(Scene::embedded().await).await;
}
