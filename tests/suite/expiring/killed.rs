//! A process that is killed in the middle of a save or a purge: nothing is lost, what may be there twice is at most
//! what was in its hand, and a queue that is left takes messages again. And what comes while a purge drops.

use std::collections::BTreeMap;

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use serde_json::Value;

use crate::runs::scene::{BOUND, Scene, numbers, publish};
use crate::support::wait::wait_until;

const QUEUE: &str = "work.left";
const COUNT: u32 = 20_000;
/// Messages that are in a hand at once.
const WINDOW: usize = 1_000;

/// A queue with a lifetime that does not end within the test, filled, and its statistics are there.
async fn filled(scene: &Scene) {
    let (connection, channel) = scene.channel().await;
    let mut arguments = FieldTable::default();
    arguments.insert("x-expires".into(), AMQPValue::LongInt(3_600_000));
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare(ShortString::from(QUEUE), durable, arguments)
        .await
        .unwrap();
    publish(&channel, QUEUE, 0..COUNT).await;
    connection.close(200, "done".into()).await.unwrap();
    wait_until("the statistics of a full queue", BOUND, async || {
        let listed = scene.run(&["expiring", "list", "--json"]).await.expect_code(0).json();
        (listed[0]["messages"] == COUNT).then_some(())
    })
    .await;
}

/// Kills a command once some messages are out of the queue and some are not.
async fn killed_in_the_middle(scene: &Scene, arguments: &[&str]) {
    let mut child = scene.installation.program(arguments).spawn().unwrap();
    wait_until("some of them to be taken", BOUND, async || {
        let rows = scene.vhost.queues().await;
        let row = rows.iter().find(|row| row["name"] == QUEUE)?;
        (row["messages"].as_u64()? < u64::from(COUNT)).then_some(())
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
    let left = wait_until("what was in its hand to be back", BOUND, async || {
        let ready = scene.ready(QUEUE).await?;
        let rows = scene.vhost.queues().await;
        let row = rows.iter().find(|row| row["name"] == QUEUE)?;
        (row["messages"].as_u64()? == u64::from(ready)).then_some(ready)
    })
    .await;
    assert!(left > 0, "it was killed too late");
    wait_until("statistics without the dead one", BOUND, async || {
        let listed = scene.run(&["expiring", "list", "--json"]).await.expect_code(0).json();
        (listed[0]["messages"] == left && listed[0]["consumers"] == 0).then_some(())
    })
    .await;
}

async fn saves(scene: &Scene) -> Vec<Value> {
    let saves = scene.run(&["expiring", "saves", "--json"]).await.expect_code(0).json();
    saves.as_array().unwrap().clone()
}

/// Everything is put back: each number once, up to a window of them twice.
async fn all_are_there(scene: &Scene) {
    for save in saves(scene).await.iter().rev() {
        let id = save["id"].as_str().unwrap();
        scene.run(&["expiring", "restore", id, "--yes"]).await.expect_code(0);
    }
    let mut times: BTreeMap<u32, usize> = BTreeMap::new();
    for number in numbers(&scene.take_all(QUEUE).await) {
        *times.entry(number).or_default() += 1;
    }
    assert_eq!(times.len(), COUNT as usize, "none is lost");
    let twice = times.values().filter(|times| **times > 1).count();
    assert!(twice <= WINDOW, "{twice} are there twice");
}

async fn check_save(scene: Scene) {
    filled(&scene).await;
    killed_in_the_middle(&scene, &["expiring", "save", QUEUE, "--yes"]).await;
    let left = saves(&scene).await;
    assert_eq!(left[0]["state"], "taking", "{left:?}");
    // A new one ends what the dead one left, and takes the rest.
    scene.run(&["expiring", "save", QUEUE, "--yes"]).await.expect_code(0);
    let both = saves(&scene).await;
    assert!(both.iter().all(|one| one["state"] == "kept"), "{both:?}");
    let sum: u64 = both.iter().map(|one| one["left"].as_u64().unwrap()).sum();
    assert_eq!(sum, u64::from(COUNT), "each is in exactly one of them");
    all_are_there(&scene).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_that_is_killed_loses_nothing() {
    check_save(Scene::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_that_is_killed_loses_nothing_with_postgres() {
    check_save(Scene::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_that_is_killed_loses_nothing_and_is_ended_by_the_janitor() {
    let scene = Scene::sqlite().await;
    filled(&scene).await;
    killed_in_the_middle(&scene, &["expiring", "purge", QUEUE, "--yes"]).await;
    assert_eq!(saves(&scene).await[0]["state"], "taking");
    let _daemon = scene.installation.daemon().await;
    wait_until("the janitor to end what was left", BOUND, async || {
        (saves(&scene).await[0]["state"] == "kept").then_some(())
    })
    .await;
    let kept = saves(&scene).await[0]["left"].as_u64().unwrap();
    let there = u64::from(scene.ready(QUEUE).await.unwrap());
    assert_eq!(kept + there, u64::from(COUNT), "each is in exactly one place");
    all_are_there(&scene).await;
}

/// Whether the exchange of job queues routes to a queue.
async fn is_bound(scene: &Scene, queue: &str) -> bool {
    let path = format!("/queues/{}/{queue}/bindings", scene.vhost.name);
    let bindings = scene.vhost.node.request("GET", &format!("/api{path}")).send().await;
    let bindings = bindings.json();
    bindings.as_array().unwrap().iter().any(|one| one["source"] != "")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_a_killed_purge_left_unbound_takes_its_result_once_a_daemon_looked() {
    let scene = Scene::sqlite().await;
    let job = scene.run(&["job", "submit", "--json"]).await.expect_code(0).json();
    let queue = job["queues"]["result"].as_str().unwrap();
    let body = scene.installation.path("result.txt");
    std::fs::write(&body, "all of it").unwrap();
    assert!(is_bound(&scene, queue).await);
    wait_until("the queue's statistics", BOUND, async || {
        let listed = scene.run(&["expiring", "list", "--json"]).await.expect_code(0).json();
        let known = |one: &Value| one["name"] == queue && one["messages"] == 0 && one["consumers"] == 0;
        listed.as_array()?.iter().any(known).then_some(())
    })
    .await;
    let mut child = scene
        .installation
        .program(&["expiring", "purge", queue, "--yes"])
        .spawn()
        .unwrap();
    wait_until("the queue to be unbound", BOUND, async || {
        (!is_bound(&scene, queue).await).then_some(())
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(scene.ready(queue).await, Some(0), "it was killed too late");
    let (id, body) = (job["id"].as_str().unwrap(), body.to_str().unwrap());
    let publish = ["job", "publish", id, "result", "--body-file", body];
    let publishing = scene.run(&publish);
    let (published, _daemon) = tokio::join!(publishing, scene.installation.daemon());
    published.expect_code(0);
    assert_eq!(scene.ready(queue).await, Some(1));
    assert!(is_bound(&scene, queue).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_while_a_purge_drops_keeps_its_queue() {
    let scene = Scene::sqlite().await;
    filled(&scene).await;
    let dropping = scene.run(&["expiring", "purge", QUEUE, "--drop", "--yes", "--json"]);
    let late = async {
        wait_until("some of them to be taken", BOUND, async || {
            (scene.ready(QUEUE).await? < COUNT).then_some(())
        })
        .await;
        let (connection, channel) = scene.channel().await;
        publish(&channel, QUEUE, COUNT..COUNT + 10).await;
        connection.close(200, "done".into()).await.unwrap();
    };
    let (dropped, ()) = tokio::join!(dropping, late);
    let dropped = dropped.expect_code(3).json();
    assert_eq!(dropped[0]["messages"], COUNT, "{dropped}");
    let left = numbers(&scene.take_all(QUEUE).await);
    assert_eq!(left, (COUNT..COUNT + 10).collect::<Vec<u32>>());
}
