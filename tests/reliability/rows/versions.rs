//! Daemons of the first version and of this one take turns, and deliver beside each other.

use std::path::PathBuf;

use crate::attack::{About, Attack, Load};
use crate::scene::Scene;
use crate::support::daemon::Daemon;
use crate::support::not_run;
use crate::support::servers::RabbitAddress;

const LOAD: Load = Load::fast(20, 400);

/// Both programs: the other one is built by `tests/reliability/run`.
fn programs() -> Option<[PathBuf; 2]> {
    let other = std::env::var_os("REDRIVE_RELIABILITY_OTHER")?;
    Some([other.into(), env!("CARGO_BIN_EXE_redrive").into()])
}

/// Every second one has no time to say goodbye.
async fn end(daemon: &mut Daemon, number: u32) {
    if number.is_multiple_of(2) {
        daemon.kill().await;
    } else {
        assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    }
}

/// Two daemons on one broker and database. One after the other becomes this version, then the first version again: at every
/// second moment both versions deliver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_beside_each_other() {
    let Some(programs) = programs() else {
        return not_run("another version (tests/reliability/run builds it)");
    };
    let faults = "one of two daemons is stopped or killed, in turn, and goes on as the other version: v0.1.0, this one, and back";
    let on = "classic queues, PostgreSQL";
    let mut attack = Attack::on(Scene::servers().await, About { order: 14, faults, on });
    attack.scene.installation.set_program(&programs[0]);
    let mut daemons = [
        attack.scene.installation.daemon().await,
        attack.scene.installation.daemon().await,
    ];
    attack
        .under(LOAD, 12, async |scene, number| {
            let at = number as usize - 1;
            end(&mut daemons[at % 2], number.div_ceil(3)).await;
            scene.installation.set_program(&programs[(at / 2 + 1) % 2]);
            daemons[at % 2] = scene.installation.daemon().await;
        })
        .await;
    let [one, other] = &mut daemons;
    attack.end(&mut [one, other]).await;
}

/// The same file, which one daemon has at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_after_each_other() {
    let Some(programs) = programs() else {
        return not_run("another version (tests/reliability/run builds it)");
    };
    let faults =
        "the daemon is stopped or killed, in turn, and goes on as the other version: v0.1.0, this one, and back";
    let on = "classic queues, SQLite";
    let scene = Scene::on_rabbit(&RabbitAddress::shared()).await;
    let mut attack = Attack::on(scene, About { order: 15, faults, on });
    attack.scene.installation.set_program(&programs[0]);
    let mut daemon = attack.scene.installation.daemon().await;
    attack
        .under(LOAD, 8, async |scene, number| {
            end(&mut daemon, number.div_ceil(2)).await;
            scene.installation.set_program(&programs[number as usize % 2]);
            daemon = scene.installation.daemon().await;
        })
        .await;
    attack.end(&mut [&mut daemon]).await;
}
