//! Three nodes of RabbitMQ with quorum queues, reached through something that leads to a node that lives.

use std::time::Duration;

use crate::attack::{About, Attack, Load};
use crate::scene::{BOUND, Scene};
use crate::support::relay::Relay;
use crate::support::servers::{PrivateRabbit, RabbitAddress};
use crate::support::wait::{at_moment, wait_until};

const LOAD: Load = Load::slow(12, 300);

/// The nodes, and the ways to them.
struct Cluster {
    nodes: [PrivateRabbit; 3],
    /// To AMQP and to the management API of any.
    ways: [Relay; 2],
}

impl Cluster {
    async fn start() -> Self {
        let first = PrivateRabbit::start().await;
        let nodes = [first.joined().await, first.joined().await];
        let [second, third] = nodes;
        let nodes = [first, second, third];
        let of = |url: fn(&RabbitAddress) -> &String| {
            nodes.iter().map(|node| url(&node.address).as_str()).collect::<Vec<_>>()
        };
        let ways = [
            Relay::to_any(&of(|address| &address.amqp)).await,
            Relay::to_any(&of(|address| &address.management)).await,
        ];
        Self { nodes, ways }
    }

    fn address(&self) -> RabbitAddress {
        let first = &self.nodes[0].address;
        let [amqp, management] = &self.ways;
        let plain = |url: String| url.trim_end_matches('/').to_owned();
        RabbitAddress {
            amqp: plain(amqp.through(&first.amqp)),
            management: plain(management.through(&first.management)),
            rabbitmqctl: first.rabbitmqctl.clone(),
        }
    }

    /// Until a node sees all three.
    async fn is_whole(&self, asked: usize) {
        wait_until("three nodes that see each other", BOUND, async || {
            let nodes = self.nodes[asked]
                .address
                .request("GET", "/api/nodes")
                .try_send()
                .await
                .ok()?;
            let nodes = (nodes.status == 200).then(|| nodes.json())?;
            let nodes = nodes.as_array()?;
            let runs = |node: &&serde_json::Value| {
                node["running"] == true && node["partitions"].as_array().is_some_and(Vec::is_empty)
            };
            (nodes.iter().filter(runs).count() == 3).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_nodes_killed() {
    let cluster = Cluster::start().await;
    let about = About {
        order: 30,
        faults: "a node of three is killed (SIGKILL), one after the other, and started again",
        on: "quorum queues on three nodes, SQLite",
    };
    let scene = Scene::on_rabbit(&cluster.address()).await.with_quorum_queues();
    let mut attack = Attack::on(scene, about);
    let mut daemon = attack.scene.installation.daemon().await;
    attack
        .under(LOAD, 6, async |scene, number| {
            let killed = number as usize % 3;
            cluster.nodes[killed].kill().await;
            // The others go on without it.
            scene.delivered(scene.receiver.delivered() + 20).await;
            cluster.nodes[killed].start_again().await;
            cluster.is_whole((killed + 1) % 3).await;
        })
        .await;
    attack.end(&mut [&mut daemon]).await;
}

/// A node that is silent for longer than the others wait is outside for them, and finds itself alone when it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_nodes_parted() {
    let cluster = Cluster::start().await;
    let about = About {
        order: 31,
        faults: "a node of three is silent (SIGSTOP) until the others have parted from it, and comes back",
        on: "quorum queues on three nodes, SQLite",
    };
    for node in &cluster.nodes {
        node.address.control(&["eval", "net_kernel:set_net_ticktime(5)."]).await;
    }
    let scene = Scene::on_rabbit(&cluster.address()).await.with_quorum_queues();
    let mut attack = Attack::on(scene, about);
    let mut daemon = attack.scene.installation.daemon().await;
    attack
        .under(LOAD, 3, async |_, number| {
            let parted = number as usize % 3;
            cluster.nodes[parted].freeze().await;
            at_moment(Duration::from_secs(30)).await;
            cluster.nodes[parted].thaw().await;
            cluster.is_whole((parted + 1) % 3).await;
        })
        .await;
    attack.end(&mut [&mut daemon]).await;
}
