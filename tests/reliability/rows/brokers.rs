//! RabbitMQ is restarted, stopped, and raises alarms.

use std::time::Duration;

use crate::attack::{About, Attack, Load};
use crate::scene::Scene;
use crate::support::servers::PrivateRabbit;
use crate::support::wait::at_moment;

const LOAD: Load = Load::slow(20, 300);

async fn restarts(queue_type: fn(Scene) -> Scene, order: u32, on: &'static str) {
    let node = PrivateRabbit::start().await;
    let scene = queue_type(Scene::on_rabbit(&node.address).await);
    let faults = "RabbitMQ is stopped in order or killed (SIGKILL), in turn, and started again";
    let mut attack = Attack::on(scene, About { order, faults, on });
    let mut daemon = attack.scene.installation.daemon().await;
    attack
        .under(LOAD, 10, async |_, number| {
            if number % 2 == 0 {
                node.stop().await;
            } else {
                node.kill().await;
            }
            node.start_again().await;
        })
        .await;
    attack.end(&mut [&mut daemon]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_restarted_classic() {
    restarts(|scene| scene, 10, "classic queues, SQLite").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_restarted_quorum() {
    restarts(Scene::with_quorum_queues, 11, "quorum queues, SQLite").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_stopped() {
    let node = PrivateRabbit::start().await;
    let about = About {
        order: 12,
        faults: "RabbitMQ is stopped for 15 s (SIGSTOP): its connections stay open, and nothing answers",
        on: "classic queues, SQLite",
    };
    let mut attack = Attack::on(Scene::on_rabbit(&node.address).await, about);
    let mut daemon = attack.scene.installation.daemon().await;
    attack
        .under(LOAD, 4, async |_, _| {
            node.freeze().await;
            at_moment(Duration::from_secs(15)).await;
            node.thaw().await;
        })
        .await;
    attack.end(&mut [&mut daemon]).await;
}

/// Publishers are blocked and deliveries go on: what waits is delivered meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_with_alarms() {
    let node = PrivateRabbit::start().await;
    let about = About {
        order: 13,
        faults: "RabbitMQ raises an alarm for 5 s: of memory or of its disk, in turn",
        on: "classic queues, SQLite",
    };
    let mut attack = Attack::on(Scene::on_rabbit(&node.address).await, about);
    let mut daemon = attack.scene.installation.daemon().await;
    attack
        .under(LOAD, 6, async |_, number| {
            let (raise, lower) = if number % 2 == 0 {
                (
                    ["set_vm_memory_high_watermark", "0.00000001"],
                    ["set_vm_memory_high_watermark", "0.4"],
                )
            } else {
                (["set_disk_free_limit", "1000000GB"], ["set_disk_free_limit", "50MB"])
            };
            node.address.control(&raise).await;
            at_moment(Duration::from_secs(5)).await;
            node.address.control(&lower).await;
        })
        .await;
    attack.end(&mut [&mut daemon]).await;
}
