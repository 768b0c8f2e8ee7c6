//! RabbitMQ goes away and comes back, in parts and as a whole.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::proxy::Proxy;
use super::scene::{BOUND, Scene, executions};
use crate::support::checker::Seen;
use crate::support::receiver::Behaviour;
use crate::support::servers::{PrivateRabbit, RabbitAddress};
use crate::support::wait::wait_until;

const PAUSE: Duration = Duration::from_millis(10);
/// While a fault is made, which takes seconds on a busy machine: it must come in the middle.
const MEANWHILE: Duration = Duration::from_secs(1);

/// Makes a fault in the middle of deliveries.
async fn fault(scene: &Scene, make: impl Future<Output = ()>) {
    scene.receiver.behave("*", Behaviour::Status(200).after(MEANWHILE));
    make.await;
    scene.receiver.behave("*", Behaviour::Status(200).after(PAUSE));
}

/// The node is stopped in order, and later killed.
async fn check_restarts(queue_type: fn(Scene) -> Scene) {
    let node = PrivateRabbit::start().await;
    let scene = queue_type(Scene::on_rabbit(&node.address).await);
    scene.receiver.behave("*", Behaviour::Status(200).after(PAUSE));
    let mut daemon = scene.installation.daemon().await;
    let faults = async {
        scene.delivered(150).await;
        fault(&scene, node.stop()).await;
        node.start_again().await;
        scene.delivered(300).await;
        fault(&scene, node.kill()).await;
        assert!(scene.receiver.delivered() < 600, "the kill came too late");
        node.start_again().await;
    };
    let all = executions(10, 4);
    tokio::join!(scene.publish_all(&all, 60), faults);
    scene.finish(&mut [&mut daemon], 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_stops_or_is_killed_and_comes_back_loses_nothing() {
    check_restarts(|scene| scene).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_stops_or_is_killed_and_comes_back_loses_nothing_of_quorum_queues() {
    check_restarts(Scene::with_quorum_queues).await;
}

/// Each tenth is refused and becomes a dead letter at once; and the node is killed again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_among_dead_letters_repeats_at_most_one_message_of_a_queue_for_each_kill() {
    const KILLS: usize = 3;
    let node = PrivateRabbit::start().await;
    let scene = Scene::on_rabbit(&node.address).await;
    let is_doomed = |id: &str| id.ends_with('5');
    scene.receiver.behave_by("*", move |attempt| {
        let status = if is_doomed(attempt.id()) { 404 } else { 200 };
        Behaviour::Status(status).after(PAUSE)
    });
    let mut daemon = scene.installation.daemon().await;
    let (all, each) = (executions(10, 10), 60);
    let faults = async {
        for kill in 1..=KILLS {
            scene.delivered(kill * 120).await;
            node.kill().await;
            node.start_again().await;
        }
    };
    tokio::join!(scene.publish_all(&all, each), faults);
    scene.delivered(10 * 54).await;
    for (execution, path) in &all {
        let queue = scene.queue(execution, path);
        wait_until(format!("{execution} to be empty"), BOUND, async || {
            (scene.ready(&queue).await == 0).then_some(())
        })
        .await;
    }
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    // A list is as old as it says.
    let letters = wait_until("a list that is new enough", BOUND, async || {
        let list = ["dead", "list", "--limit", "200", "--json"];
        let letters = scene.installation.run(&list).await.expect_code(0).json();
        let letters = letters.as_array().unwrap().clone();
        let doomed = letters.iter().map(|letter| letter["message_id"].to_string());
        (doomed.collect::<BTreeSet<_>>().len() >= 10 * 6).then_some(letters)
    })
    .await;
    let dead = |id: &str| letters.iter().filter(|letter| letter["message_id"] == id).count();
    let seen = scene.receiver.seen();
    for (execution, path) in &all {
        let queue = scene.queue(execution, path);
        let mut repeats = 0;
        for number in 1..=each {
            let id = format!("{execution}-{number}");
            let times = if is_doomed(&id) {
                dead(&id)
            } else {
                let of_it = |seen: &&Seen| seen.queue == queue.as_str() && seen.id == id && seen.status == Some(200);
                seen.iter().filter(of_it).count()
            };
            assert!(times > 0, "{id} is lost");
            repeats += times - 1;
        }
        assert!(repeats <= KILLS, "{execution}: {repeats} repeats after {KILLS} kills");
    }
}

async fn check_closed_connections(scene: Scene, queues: u32) {
    scene.receiver.behave("*", Behaviour::Status(200).after(PAUSE));
    let mut daemon = scene.installation.daemon().await;
    let vhost = scene.vhost.as_ref().unwrap();
    let total = queues as usize * 50;
    let faults = async {
        for count in [total / 10, total * 2 / 5] {
            scene.delivered(count).await;
            let close = ["close_all_connections", "--vhost", &vhost.name, "a test closes them"];
            fault(&scene, async { drop(vhost.node.control(&close).await) }).await;
        }
        assert!(scene.receiver.delivered() < total, "they were closed too late");
    };
    let all = executions(queues, 4);
    tokio::join!(scene.publish_all(&all, 50), faults);
    scene.finish(&mut [&mut daemon], 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_the_broker_closes_are_opened_again() {
    check_closed_connections(Scene::servers().await, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_the_broker_closes_are_opened_again_with_quorum_queues() {
    check_closed_connections(Scene::servers().await.with_quorum_queues(), 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivery_goes_on_without_the_management_api_and_numbers_are_unknown() {
    let mut scene = Scene::servers().await;
    let management = RabbitAddress::shared().management;
    let mut proxy = Proxy::to(&management).await;
    scene
        .installation
        .set("broker", "management_url", proxy.through(&management));
    let mut daemon = scene.installation.daemon().await;
    scene.publish_all(&executions(5, 2), 3).await;
    scene.delivered(15).await;
    proxy.cut().await;
    // The first five are known, the other five are new.
    let (known, new) = (executions(5, 2), executions(10, 2).split_off(5));
    for (execution, path) in &known {
        scene.publish(execution, path, 4).await;
    }
    scene.publish_all(&new, 3).await;
    scene.delivered(35).await;
    let queue = scene.queue(&known[0].0, &known[0].1);
    let listed = scene
        .installation
        .run(&["queues", "--json"])
        .await
        .expect_code(0)
        .json();
    let listed = listed.as_array().unwrap().clone();
    assert_eq!(listed.len(), 10, "{listed:?}");
    assert!(
        listed
            .iter()
            .all(|row| row["ready"].is_null() && row["unacked"].is_null()),
        "{listed:?}"
    );
    let why = scene.why(&queue).await;
    assert!(why["why"]["code"].is_string(), "{why}");
    proxy.mend().await;
    wait_until("numbers again", BOUND, async || {
        let listed = scene
            .installation
            .run(&["queues", "--json"])
            .await
            .expect_code(0)
            .json();
        let rows = listed.as_array()?.clone();
        let known = |row: &Value| row["kind"] != "delivery" || row["ready"] == 0;
        (rows.len() >= 10 && rows.iter().all(known)).then_some(())
    })
    .await;
    scene.finish(&mut [&mut daemon], 0).await;
}
