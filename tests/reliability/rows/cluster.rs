//! Three nodes of RabbitMQ with quorum queues, reached through something that leads to a node that lives.

use std::process::Command;
use std::time::Duration;

use crate::attack::{About, Attack, Load};
use crate::scene::{BOUND, Scene};
use crate::support::not_run;
use crate::support::relay::Relay;
use crate::support::servers::{PrivateRabbit, RabbitAddress};
use crate::support::wait::{at_moment, wait_until};

const LOAD: Load = Load::slow(12, 300);

/// What a port of a bridge does with frames (linux/if_bridge.h).
const BR_STATE_DISABLED: u8 = 0;
const BR_STATE_FORWARDING: u8 = 3;

/// The nodes, and the ways to them.
struct Cluster {
    nodes: [PrivateRabbit; 3],
    /// To AMQP and to the management API of any.
    ways: [Relay; 2],
}

impl Cluster {
    async fn start() -> Self {
        let first = PrivateRabbit::start().await;
        let others = [first.joined().await, first.joined().await];
        Self::of(first, others).await
    }

    /// Each node at one end of these wires.
    async fn at(wires: &Wires) -> Self {
        let [namespace, others @ ..] = &wires.namespaces();
        let first = PrivateRabbit::start_in(namespace).await;
        let others = [first.joined_in(&others[0]).await, first.joined_in(&others[1]).await];
        Self::of(first, others).await
    }

    async fn of(first: PrivateRabbit, [second, third]: [PrivateRabbit; 2]) -> Self {
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
            (self.seen_by(asked).await? == 3).then_some(())
        })
        .await;
    }

    /// How many nodes run, as far as one of them knows, and have not parted from any.
    async fn seen_by(&self, asked: usize) -> Option<usize> {
        let nodes = self.nodes[asked]
            .address
            .request("GET", "/api/nodes")
            .try_send()
            .await
            .ok()?;
        let nodes = (nodes.status == 200).then(|| nodes.json())?;
        let runs = |node: &&serde_json::Value| {
            node["running"] == true && node["partitions"].as_array().is_some_and(Vec::is_empty)
        };
        Some(nodes.as_array()?.iter().filter(runs).count())
    }

    /// For nodes that are to notice each other's silence while a test waits for it.
    async fn notice_silence_within(&self, seconds: u32) {
        // At once: while it changes slowly, a node of RabbitMQ 3.10 opens no channel.
        let ticks = format!("net_kernel:set_net_ticktime({seconds}, 0).");
        for node in &self.nodes {
            node.address.control(&["eval", &ticks]).await;
        }
    }
}

/// A network of its own for each of three nodes, wired to a switch at which this machine is, too. Without the right to
/// make one there is none.
struct Wires;

impl Wires {
    const SWITCH: &str = "redrive";
    const ENDS: [&str; 3] = ["redrive1", "redrive2", "redrive3"];

    /// Set apart for measurements of networks (RFC 2544): nobody else is reached there.
    fn address(host: usize) -> String {
        format!("198.18.31.{host}")
    }

    /// With a node at each end, which notices within 10 s that another one is silent.
    async fn with_cluster() -> Option<(Self, Cluster)> {
        let Some(wires) = Self::lay() else {
            not_run("right to make network namespaces (root, and iproute2)");
            return None;
        };
        let cluster = Cluster::at(&wires).await;
        cluster.notice_silence_within(10).await;
        Some((wires, cluster))
    }

    fn lay() -> Option<Self> {
        // What a run left that was killed.
        drop(Self);
        let wires = Self;
        let switch = Self::SWITCH;
        let here = Self::address(1);
        let laid = ip(&format!("link add {switch} type bridge"))
            && ip(&format!("address add {here}/24 dev {switch}"))
            && ip(&format!("link set {switch} up"))
            && Self::ENDS.iter().enumerate().all(|(number, end)| {
                let there = Self::address(11 + number);
                ip(&format!("netns add {end}"))
                    && ip(&format!("link add {end} type veth peer name eth0 netns {end}"))
                    && ip(&format!("link set {end} master {switch} up"))
                    && ip(&format!("-n {end} address add {there}/24 dev eth0"))
                    && ip(&format!("-n {end} link set eth0 up"))
                    && ip(&format!("-n {end} link set lo up"))
            });
        laid.then_some(wires)
    }

    /// As [`PrivateRabbit::start_in`] takes them.
    fn namespaces(&self) -> [String; 3] {
        std::array::from_fn(|number| format!("{}:{}", Self::ENDS[number], Self::address(11 + number)))
    }

    /// Whether anything goes to or from that end; nobody is told.
    fn set_up(&self, end: usize, up: bool) {
        let state = if up { BR_STATE_FORWARDING } else { BR_STATE_DISABLED };
        self.set(end, &format!("state {state}"));
    }

    /// Whether nothing goes from one end to another; this machine reaches each of them.
    fn set_isolated(&self, isolated: bool) {
        let isolated = if isolated { "on" } else { "off" };
        (0..Self::ENDS.len()).for_each(|end| self.set(end, &format!("isolated {isolated}")));
    }

    fn set(&self, end: usize, what: &str) {
        let end = Self::ENDS[end];
        assert!(did("bridge", &format!("link set dev {end} {what}")), "{end} {what}");
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        for end in Self::ENDS {
            ip(&format!("netns delete {end}"));
            // Where something still lives in it, its end would stay.
            ip(&format!("link delete {end}"));
        }
        ip(&format!("link delete {}", Self::SWITCH));
    }
}

fn ip(words: &str) -> bool {
    did("ip", words)
}

/// Whether a program did what its words say.
fn did(program: &str, words: &str) -> bool {
    let output = Command::new(program).args(words.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

/// A cluster with quorum queues under load, to which something happens so many times.
async fn attacked(
    cluster: &Cluster,
    (order, faults): (u32, &'static str),
    times: u32,
    fault: impl AsyncFnMut(&Scene, u32),
) {
    let scene = Scene::on_rabbit(&cluster.address()).await.with_quorum_queues();
    let on = "quorum queues on three nodes, SQLite";
    let mut attack = Attack::on(scene, About { order, faults, on });
    let mut daemon = attack.scene.installation.daemon().await;
    attack.under(LOAD, times, fault).await;
    attack.end(&mut [&mut daemon]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_nodes_killed() {
    let cluster = Cluster::start().await;
    let faults = "a node of three is killed (SIGKILL), one after the other, and started again";
    attacked(&cluster, (30, faults), 6, async |scene, number| {
        let killed = number as usize % 3;
        cluster.nodes[killed].kill().await;
        // The others go on without it.
        scene.delivered(scene.receiver.delivered() + 20).await;
        cluster.nodes[killed].start_again().await;
        cluster.is_whole((killed + 1) % 3).await;
    })
    .await;
}

/// A node that is silent for longer than the others wait is outside for them, and finds itself alone when it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_nodes_parted() {
    let cluster = Cluster::start().await;
    cluster.notice_silence_within(5).await;
    let faults = "a node of three is silent (SIGSTOP) until the others have parted from it, and comes back";
    attacked(&cluster, (31, faults), 3, async |_, number| {
        let parted = number as usize % 3;
        cluster.nodes[parted].freeze().await;
        at_moment(Duration::from_secs(30)).await;
        cluster.nodes[parted].thaw().await;
        cluster.is_whole((parted + 1) % 3).await;
    })
    .await;
}

/// A node whose network is gone hears nobody, and nobody hears it: neither the other nodes nor its clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_nodes_cut_off() {
    let Some((wires, cluster)) = Wires::with_cluster().await else {
        return;
    };
    let faults = "a node of three is cut off by the network until the others have parted from it, and reached again";
    attacked(&cluster, (32, faults), 3, async |_, number| {
        let cut = number as usize % 3;
        let asked = (cut + 1) % 3;
        wires.set_up(cut, false);
        wait_until("two nodes that have parted from the third", BOUND, async || {
            (cluster.seen_by(asked).await? == 2).then_some(())
        })
        .await;
        at_moment(Duration::from_secs(10)).await;
        wires.set_up(cut, true);
        cluster.is_whole(asked).await;
    })
    .await;
}

/// Clients reach each node, and no node another: none of them may work, since it cannot know what the others do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_nodes_all_apart() {
    let Some((wires, cluster)) = Wires::with_cluster().await else {
        return;
    };
    let faults = "the three nodes are cut off from each other by the network, not from their clients, until they have stopped, and joined again";
    attacked(&cluster, (33, faults), 3, async |_, _| {
        wires.set_isolated(true);
        for node in 0..3 {
            wait_until("a node that has stopped", BOUND, async || {
                cluster.seen_by(node).await.is_none().then_some(())
            })
            .await;
        }
        at_moment(Duration::from_secs(10)).await;
        wires.set_isolated(false);
        for node in 0..3 {
            cluster.is_whole(node).await;
        }
    })
    .await;
}
