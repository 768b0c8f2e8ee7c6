//! Daemons are killed, stopped, and have clocks that step.

use std::path::PathBuf;
use std::time::Duration;

use crate::attack::{About, Attack, Load};
use crate::scene::{BOUND, Scene, begun};
use crate::support::not_run;
use crate::support::servers::RabbitAddress;
use crate::support::wait::{at_moment, wait_until};

const OF_ALL: Load = Load::fast(20, 840);
/// In six rows: a hundred in a hundred thousand deliveries.
const KILLS: u32 = 17;

/// SIGKILL in the middle of deliveries, and a start.
async fn kills(scene: Scene, prefetch: u16, order: u32, on: &'static str) {
    let faults = "the daemon is killed (SIGKILL) and started again";
    let mut attack = Attack::on(scene, About { order, faults, on }).with_prefetch(prefetch);
    let mut daemon = attack.scene.installation.daemon().await;
    attack
        .under(OF_ALL, KILLS, async |scene, _| {
            daemon.kill().await;
            daemon = scene.installation.daemon().await;
        })
        .await;
    attack.end(&mut [&mut daemon]).await;
}

async fn sqlite() -> Scene {
    Scene::on_rabbit(&RabbitAddress::shared()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_killed_classic_postgres() {
    kills(Scene::servers().await, 1, 1, "classic queues, prefetch 1, PostgreSQL").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_killed_classic_postgres_prefetch_32() {
    kills(Scene::servers().await, 32, 2, "classic queues, prefetch 32, PostgreSQL").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_killed_quorum_postgres() {
    let scene = Scene::servers().await.with_quorum_queues();
    kills(scene, 1, 3, "quorum queues, prefetch 1, PostgreSQL").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_killed_classic_sqlite() {
    kills(sqlite().await, 1, 4, "classic queues, prefetch 1, SQLite").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_killed_classic_sqlite_prefetch_32() {
    kills(sqlite().await, 32, 5, "classic queues, prefetch 32, SQLite").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_killed_quorum_sqlite() {
    let scene = sqlite().await.with_quorum_queues();
    kills(scene, 1, 6, "quorum queues, prefetch 1, SQLite").await;
}

/// Two daemons; one at a time sleeps until the other has its queues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_stopped() {
    let mut scene = Scene::servers().await;
    scene.hasten();
    let about = About {
        order: 7,
        faults: "one of two daemons is stopped (SIGSTOP) until the other one has its queues, and goes on then",
        on: "classic queues, PostgreSQL",
    };
    let mut attack = Attack::on(scene, about);
    let mut daemons = [
        attack.scene.installation.daemon().await,
        attack.scene.installation.daemon().await,
    ];
    wait_until("both to deliver", BOUND, async || {
        daemons.iter().all(|daemon| begun(daemon) == 1).then_some(())
    })
    .await;
    let load = Load::slow(20, 400);
    attack
        .under(load, 6, async |_, number| {
            let sleeper = &daemons[number as usize % 2];
            let incarnations = begun(sleeper);
            sleeper.freeze();
            // Silence of four seconds is death here.
            at_moment(Duration::from_secs(8)).await;
            sleeper.thaw();
            wait_until("the sleeper to begin anew", BOUND, async || {
                (begun(sleeper) > incarnations).then_some(())
            })
            .await;
        })
        .await;
    let [one, other] = &mut daemons;
    attack.end(&mut [one, other]).await;
}

fn libfaketime() -> Option<PathBuf> {
    let folders = [
        "/usr/lib/x86_64-linux-gnu/faketime",
        "/usr/lib/aarch64-linux-gnu/faketime",
        "/usr/lib/faketime",
    ];
    let found = folders
        .iter()
        .map(|folder| PathBuf::from(folder).join("libfaketimeMT.so.1"));
    found.into_iter().find(|path| path.exists())
}

/// Its wall clock steps by hours, forth and back, as that of a machine whose time is set; others' clocks stay.
async fn clock_steps(scene: Scene, order: u32, on: &'static str) {
    let Some(library) = libfaketime() else {
        return not_run("libfaketime");
    };
    let faults = "the daemon's clock is set: two hours on, six back, and so on";
    let mut attack = Attack::on(scene, About { order, faults, on });
    let clock = attack.scene.installation.path("clock");
    std::fs::write(&clock, "+0").unwrap();
    let installation = &mut attack.scene.installation;
    installation.set_environment("LD_PRELOAD", library.to_str().unwrap());
    installation.set_environment("FAKETIME_TIMESTAMP_FILE", clock.to_str().unwrap());
    installation.set_environment("FAKETIME_CACHE_DURATION", "1");
    installation.set_environment("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    let mut daemon = installation.daemon().await;
    let load = Load::slow(20, 300);
    attack
        .under(load, 8, async |_, number| {
            let offset = ["+2h", "-4h", "+1h", "-30m"][number as usize % 4];
            std::fs::write(&clock, offset).unwrap();
            // The library looks at its file once a second.
            at_moment(Duration::from_secs(2)).await;
        })
        .await;
    attack.end(&mut [&mut daemon]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_with_clock_steps_postgres() {
    clock_steps(Scene::servers().await, 8, "classic queues, PostgreSQL").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_with_clock_steps_sqlite() {
    clock_steps(sqlite().await, 9, "classic queues, SQLite").await;
}
