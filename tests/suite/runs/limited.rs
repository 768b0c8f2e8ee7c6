//! Plans and runs over queues that count each look as a delivery, and drop a message that had too many; and over queues
//! that somebody consumes.

use lapin::options::{BasicConsumeOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{Channel, Consumer};
use redrive::internals::domain::broker_rules::{Version, facts};
use serde_json::Value;

use super::scene::{BOUND, DEAD, ORIGIN, Scene, numbers, publish, reject};
use crate::support::wait::wait_until;

async fn limited_queue(channel: &Channel, name: &str, limit: i32) {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(LongString::from("quorum")));
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(limit));
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel.queue_declare(name.into(), durable, arguments).await.unwrap();
}

/// `count` dead letters in a queue of that limit.
async fn dead(scene: &Scene, limit: i32, count: u32) {
    let (connection, channel) = scene.channel().await;
    limited_queue(&channel, DEAD, limit).await;
    scene.declare(&channel, ORIGIN, Some(DEAD)).await;
    publish(&channel, ORIGIN, 0..count).await;
    reject(&channel, ORIGIN, count).await;
    connection.close(200, "done".into()).await.unwrap();
    wait_until("dead letters", BOUND, async || {
        (scene.ready(DEAD).await == Some(count)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_take_no_delivery_of_what_was_seen_and_say_what_the_run_takes() {
    let scene = Scene::sqlite().await;
    dead(&scene, 3, 4).await;
    let plan = ["dead", "redrive", "--all", "--dry-run", "--json"];
    // More plans than deliveries.
    for _ in 0..5 {
        let plan = scene.run(&plan).await.expect_code(0).json();
        assert_eq!(plan["run"]["total"], 4, "{plan}");
        let warned = plan["warnings"].to_string();
        assert!(warned.contains("drops a message after 3 deliveries"), "{warned}");
    }
    scene.run(&["dead", "redrive", "--all", "--yes"]).await.expect_code(0);
    assert_eq!(numbers(&scene.take_all(ORIGIN).await), [0, 1, 2, 3]);
    assert_eq!(scene.ready(DEAD).await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_may_not_be_looked_at_is_not_said_to_be_empty() {
    let scene = Scene::sqlite().await;
    dead(&scene, 1, 3).await;
    for run in [
        ["dead", "redrive", "--all", "--to", ORIGIN, "--yes"],
        ["queue", "move", DEAD, "--to", ORIGIN, "--yes"],
    ] {
        let refused = scene.run(&run).await.expect_code(5);
        assert!(
            refused.stderr.contains(DEAD) && refused.stderr.contains("delivery-limit"),
            "{refused:?}"
        );
    }
    assert_eq!(numbers(&scene.take_all(DEAD).await), [0, 1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn near_the_limit_a_run_to_another_queue_is_refused_and_nothing_is_dropped() {
    let scene = Scene::sqlite().await;
    dead(&scene, 2, 3).await;
    let run = ["dead", "redrive", "--all", "--to", ORIGIN, "--yes", "--json"];
    let run = scene.run(&run).await.expect_code(1).json();
    assert_eq!((&run["failed"], &run["done"]), (&3.into(), &0.into()), "{run}");
    assert_eq!(numbers(&scene.take_all(DEAD).await), [0, 1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn near_the_limit_a_run_is_refused_and_nothing_is_dropped() {
    let scene = Scene::sqlite().await;
    dead(&scene, 2, 3).await;
    let run = scene
        .run(&["dead", "redrive", "--all", "--yes", "--json"])
        .await
        .expect_code(1)
        .json();
    assert_eq!((&run["failed"], &run["done"]), (&3.into(), &0.into()), "{run}");
    assert_eq!(numbers(&scene.take_all(DEAD).await), [0, 1, 2]);
}

/// The dead letters that are listed, once there are as many.
async fn listed(scene: &Scene, count: usize) -> Vec<Value> {
    wait_until(format!("{count} dead letters to be listed"), BOUND, async || {
        let listed = scene.run(&["dead", "list", "--json"]).await.expect_code(0).json();
        let listed = listed.as_array().unwrap().clone();
        (listed.len() == count).then_some(listed)
    })
    .await
}

fn id_of(letter: &Value) -> String {
    letter["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_of_a_dead_letter_take_no_delivery_of_what_was_seen() {
    let scene = Scene::sqlite().await;
    dead(&scene, 3, 4).await;
    let id = id_of(&listed(&scene, 4).await[0]);
    // More of them than deliveries.
    for _ in 0..5 {
        let edit = ["dead", "edit", &id, "--header", "mended: yes", "--dry-run"];
        scene.run(&edit).await.expect_code(0);
    }
    let edit = ["dead", "edit", &id, "--header", "mended: yes", "--yes"];
    scene.run(&edit).await.expect_code(0);
    assert_eq!(numbers(&scene.take_all(DEAD).await), [0, 1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_not_ours_is_moved_within_its_limit_and_the_plan_says_what_that_takes() {
    let scene = Scene::sqlite().await;
    let (_connection, channel) = scene.channel().await;
    scene.declare(&channel, "elsewhere", None).await;
    for name in ["work", "more"] {
        limited_queue(&channel, name, 4).await;
        publish(&channel, name, 0..3).await;
    }
    let plan = ["queue", "move", "work", "--to", "elsewhere", "--dry-run", "--json"];
    // Half of the deliveries are left to those who handle its messages.
    for _ in 0..2 {
        let warnings = scene.run(&plan).await.expect_code(0).json()["warnings"].to_string();
        assert!(warnings.contains("drops a message after 4 deliveries"), "{warnings}");
    }
    for _ in 0..4 {
        let refused = scene.run(&plan).await.expect_code(5);
        let said = refused.stderr + &refused.stdout;
        assert!(
            said.contains("counts as a delivery") && said.contains("delivery-limit"),
            "{said}"
        );
    }
    assert_eq!(numbers(&scene.take_all("work").await), [0, 1, 2], "no plan dropped one");
    let run = ["queue", "move", "more", "--to", "elsewhere", "--yes"];
    scene.run(&run).await.expect_code(0);
    assert_eq!(numbers(&scene.take_all("elsewhere").await), [0, 1, 2]);
}

async fn consumed(channel: &Channel, queue: &str) -> Consumer {
    let options = BasicConsumeOptions::default();
    channel
        .basic_consume(queue.into(), "somebody".into(), options, FieldTable::default())
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_consumes_is_not_moved_from_under_his_hands() {
    let scene = Scene::sqlite().await;
    let (_connection, channel) = scene.channel().await;
    for name in ["work", "elsewhere"] {
        scene.declare(&channel, name, None).await;
    }
    let _consumer = consumed(&channel, "work").await;
    let plan = ["queue", "move", "work", "--to", "elsewhere", "--dry-run"];
    let refused = scene.run(&plan).await.expect_code(5);
    let said = refused.stderr + &refused.stdout;
    assert!(
        said.contains("1 consumer") && said.contains("stop what consumes it"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_that_somebody_consumes_are_left_out_of_a_redrive_of_all_and_the_plan_says_so() {
    let scene = Scene::sqlite().await;
    scene.die(3).await;
    let (_connection, channel) = scene.channel().await;
    scene.declare(&channel, "other.dead", None).await;
    scene.declare(&channel, "other", Some("other.dead")).await;
    let _consumer = consumed(&channel, "other.dead").await;
    let plan = ["dead", "redrive", "--all", "--dry-run", "--json"];
    let plan = scene.run(&plan).await.expect_code(0).json();
    assert_eq!(plan["run"]["total"], 3, "{plan}");
    let warned = plan["warnings"].to_string();
    assert!(warned.contains("left out") && warned.contains("other.dead"), "{warned}");
}

/// Its own deliveries are told apart from those of others, what the broker sent ahead to it included.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_run_passed_is_listed_again_when_something_comes() {
    let scene = Scene::sqlite().await;
    dead(&scene, 12, 10).await;
    let first = id_of(
        listed(&scene, 10)
            .await
            .iter()
            .find(|letter| letter["position"] == 1)
            .unwrap(),
    );
    scene.run(&["dead", "redrive", &first, "--yes"]).await.expect_code(0);
    assert_eq!(scene.ready(DEAD).await, Some(9));
    let path = format!("/api/queues/{}/{DEAD}", scene.vhost.name);
    // One was taken; of the others of the walk's first window some were sent ahead, as many as the broker was quick to.
    wait_until("the broker to count what the run passed", BOUND, async || {
        let told = scene.vhost.manage("GET", &path, None).await.json();
        (told["message_stats"]["redeliver"].as_u64() >= Some(1)).then_some(())
    })
    .await;
    let (_connection, channel) = scene.channel().await;
    scene.take_all(ORIGIN).await;
    publish(&channel, ORIGIN, 10..12).await;
    reject(&channel, ORIGIN, 2).await;
    listed(&scene, 11).await;
    assert_eq!(scene.take_all(DEAD).await.len(), 11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_over_a_plain_quorum_queue_names_the_limit_that_its_broker_has_and_no_other() {
    let scene = Scene::sqlite().await.with_quorum_queues();
    scene.die(3).await;
    let overview = scene.vhost.manage("GET", "/api/overview", None).await.json();
    let version = Version::parse(overview["rabbitmq_version"].as_str().unwrap());
    let limit = facts(Some(version.expect("a version"))).default_limit;
    let plan = ["dead", "redrive", "--all", "--dry-run", "--json"];
    for _ in 0..3 {
        let plan = scene.run(&plan).await.expect_code(0).json();
        assert_eq!((&plan["run"]["total"], &plan["run"]["refused"]), (&3.into(), &0.into()));
        let warned = plan["warnings"].to_string();
        let named = limit.map(|limit| format!("drops a message after {limit} deliveries"));
        assert_eq!(
            warned.contains("drops a message after"),
            named.is_some(),
            "{version:?}: {warned}"
        );
        assert!(named.is_none_or(|named| warned.contains(&named)), "{warned}");
    }
    assert_eq!(numbers(&scene.take_all(DEAD).await), [0, 1, 2]);
}
