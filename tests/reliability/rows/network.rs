//! The ways between the daemon and its servers are cut, silent, and slow.

use std::time::Duration;

use crate::attack::{About, Attack, Load};
use crate::scene::Scene;
use crate::support::relay::Relay;
use crate::support::wait::at_moment;

const LOAD: Load = Load::slow(20, 300);

/// A scene whose daemon reaches both servers through relays, and the producer reaches them directly.
async fn apart() -> (Scene, [Relay; 2]) {
    let mut scene = Scene::servers().await;
    let amqp = scene.vhost.as_ref().unwrap().node.amqp.clone();
    let database = scene.postgres().to_owned();
    let ways = [Relay::to(&amqp).await, Relay::to(&database).await];
    scene.installation.set("broker", "url", ways[0].through(&amqp));
    scene.installation.set("store", "url", ways[1].through(&database));
    (scene, ways)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn network_cut() {
    let (scene, ways) = apart().await;
    let about = About {
        order: 40,
        faults: "all connections to RabbitMQ or to PostgreSQL are reset, in turn, for 2 s",
        on: "classic queues, PostgreSQL",
    };
    let mut attack = Attack::on(scene, about);
    let mut daemon = attack.scene.installation.daemon().await;
    attack
        .under(LOAD, 20, async |_, number| {
            let way = &ways[number as usize % 2];
            way.reset();
            at_moment(Duration::from_secs(2)).await;
            way.heal();
        })
        .await;
    attack.end(&mut [&mut daemon]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn network_silent() {
    let (scene, ways) = apart().await;
    let about = About {
        order: 41,
        faults: "the way to RabbitMQ or to PostgreSQL swallows everything, in turn, for 10 s; half of the times it then has forgotten the connections",
        on: "classic queues, PostgreSQL",
    };
    let mut attack = Attack::on(scene, about);
    let mut daemon = attack.scene.installation.daemon().await;
    attack
        .under(LOAD, 8, async |_, number| {
            let way = &ways[number as usize % 2];
            way.silence();
            at_moment(Duration::from_secs(10)).await;
            if number % 4 < 2 {
                way.heal();
            } else {
                way.heal_for_new_connections();
            }
        })
        .await;
    attack.end(&mut [&mut daemon]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn network_slow() {
    let (scene, ways) = apart().await;
    let about = About {
        order: 42,
        faults: "the ways to RabbitMQ and to PostgreSQL take 200 ms in each direction, for 10 s",
        on: "classic queues, PostgreSQL",
    };
    let mut attack = Attack::on(scene, about);
    let mut daemon = attack.scene.installation.daemon().await;
    attack
        .under(LOAD, 4, async |_, _| {
            for way in &ways {
                way.delay(Duration::from_millis(200));
            }
            at_moment(Duration::from_secs(10)).await;
            for way in &ways {
                way.delay(Duration::ZERO);
            }
        })
        .await;
    attack.end(&mut [&mut daemon]).await;
}
