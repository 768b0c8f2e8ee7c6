//! What breaks in the middle of a run.

use std::collections::BTreeMap;

use lapin::ExchangeKind;
use lapin::options::{
    BasicGetOptions, BasicQosOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};

use super::scene::{BOUND, DEAD, ORIGIN, Scene, Taken, assert_run, publish, publish_through, reject};
use crate::support::servers::PrivateRabbit;
use crate::support::wait::wait_until;

/// Messages of the largest window.
const WINDOW: u32 = 1_000;

/// Every number at least once; how many of them twice or more.
fn repeats(taken: &[Taken], count: u32) -> u32 {
    let mut times: BTreeMap<u32, u32> = BTreeMap::new();
    for one in taken {
        *times.entry(one.number).or_default() += 1;
    }
    let missing: Vec<u32> = (0..count).filter(|number| !times.contains_key(number)).collect();
    assert!(
        missing.is_empty(),
        "{} are lost: {:?}",
        missing.len(),
        &missing[..missing.len().min(20)]
    );
    u32::try_from(times.values().filter(|times| **times > 1).count()).unwrap()
}

/// Until so many messages are at the origin.
async fn moved(scene: &Scene, count: u32) {
    wait_until(format!("{count} redriven"), BOUND, async || {
        (scene.ready(ORIGIN).await >= Some(count)).then_some(())
    })
    .await;
}

async fn check_killed(scene: Scene, count: u32) {
    scene.die(count).await;
    let mut daemon = scene.installation.daemon().await;
    let started = daemon
        .post(
            "/v1/dead/redrive",
            &serde_json::json!({"all": true, "reason": "a test"}),
        )
        .await;
    assert_eq!(started.status, 200, "{}", started.text());
    assert_eq!(started.json()["state"], "running");
    moved(&scene, count / 5).await;
    daemon.kill().await;
    let in_the_middle = scene.ready(ORIGIN).await.unwrap();
    let mut daemon = scene.installation.daemon().await;
    let run = scene.run_is(&["done", "failed"]).await;
    assert_eq!((&run["state"], &run["done"]), (&"done".into(), &count.into()), "{run}");
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(scene.ready(DEAD).await, Some(0));
    let repeats = repeats(&scene.take_all(ORIGIN).await, count);
    assert!(in_the_middle < count, "it was killed too late");
    assert!(repeats <= WINDOW, "{repeats} were sent twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_killed_in_the_middle_goes_on_where_it_was() {
    check_killed(Scene::sqlite().await, 5_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_killed_goes_on_with_postgres() {
    check_killed(Scene::postgres().await, 5_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_killed_is_resumed_by_the_next_one() {
    let scene = Scene::sqlite().await;
    scene.die(300).await;
    let mut command = scene
        .installation
        .program(&["dead", "redrive", "--all", "--rate", "50", "--yes"]);
    let mut child = command.spawn().unwrap();
    moved(&scene, 30).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let run = scene.newest_run().await;
    assert_eq!(run["state"], "running", "nobody works on it, and it is not over: {run}");
    let id = run["id"].as_str().unwrap();
    let run = scene.resume(id).await.expect_code(0).json();
    assert_run(&run, "done", 300);
    assert!(repeats(&scene.take_all(ORIGIN).await, 300) <= 1, "paced: one at most");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_a_run_whose_process_was_killed_says_what_was_in_its_hands() {
    let scene = Scene::sqlite().await;
    scene.die(5_000).await;
    let mut command = scene.installation.program(&["dead", "redrive", "--all", "--yes"]);
    let mut child = command.spawn().unwrap();
    moved(&scene, 500).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let run = scene.newest_run().await;
    let id = run["id"].as_str().unwrap();
    let plan = scene.run(&["run", "cancel", id, "--dry-run"]).await.expect_code(0);
    assert!(
        plan.stdout.contains("they may be at their target") && plan.stdout.contains(&format!("run resume {id}")),
        "{plan:?}"
    );
    scene.run(&["run", "cancel", id, "--yes"]).await.expect_code(0);
    let run = scene.newest_run().await;
    assert_eq!(run["state"], "cancelled");
    assert!(
        run["note"].as_str().unwrap().contains("they may be at their target"),
        "{run}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_restarts_in_the_middle_is_waited_for() {
    let node = PrivateRabbit::start().await;
    let scene = Scene::on(&node.address).await;
    scene.die(5_000).await;
    let mut daemon = scene.installation.daemon().await;
    let started = daemon.post("/v1/dead/redrive", &serde_json::json!({"all": true})).await;
    assert_eq!(started.status, 200, "{}", started.text());
    moved(&scene, 500).await;
    node.stop().await;
    node.start_again().await;
    let run = scene.run_is(&["done", "failed"]).await;
    assert_eq!((&run["state"], &run["done"]), (&"done".into(), &5_000.into()), "{run}");
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(scene.ready(DEAD).await, Some(0));
    assert!(repeats(&scene.take_all(ORIGIN).await, 5_000) <= WINDOW);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_deleted_in_the_middle_loses_nothing_that_was_left() {
    let scene = Scene::sqlite().await;
    scene.die(300).await;
    let (_connection, channel) = scene.channel().await;
    scene.declare(&channel, "target", None).await;
    let redrive = [
        "dead", "redrive", "--all", "--to", "target", "--rate", "100", "--yes", "--json",
    ];
    let deleting = async {
        wait_until("some are sent", BOUND, async || {
            (scene.ready("target").await >= Some(50)).then_some(())
        })
        .await;
        let at = scene.ready("target").await;
        scene.delete("target").await;
        at.unwrap()
    };
    let (outcome, at_least) = tokio::join!(scene.run(&redrive), deleting);
    let run = outcome.expect_code(3).json();
    assert_eq!(run["state"], "done", "{run}");
    let (done, failed) = (run["done"].as_u64().unwrap(), run["failed"].as_u64().unwrap());
    assert_eq!(done + failed, 300, "{run}");
    assert!(done >= u64::from(at_least));
    assert_eq!(
        scene.ready(DEAD).await.map(u64::from),
        Some(failed),
        "what failed is where it was"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_that_is_deleted_in_the_middle_holds_up_nothing_that_goes_elsewhere() {
    let scene = Scene::sqlite().await;
    let (_connection, channel) = scene.channel().await;
    scene.declare(&channel, DEAD, None).await;
    for name in ["a", "b"] {
        let exchange = ShortString::from(format!("x.{name}"));
        let (options, table) = (ExchangeDeclareOptions::default(), FieldTable::default());
        let declaring = channel.exchange_declare(exchange.clone(), ExchangeKind::Fanout, options, table.clone());
        declaring.await.unwrap();
        scene.declare(&channel, name, Some(DEAD)).await;
        let options = QueueBindOptions::default();
        let binding = channel.queue_bind(name.into(), exchange.clone(), "k".into(), options, table);
        binding.await.unwrap();
        publish_through(&channel, exchange.as_str(), 0..100).await;
        reject(&channel, name, 100).await;
    }
    wait_until("dead letters", BOUND, async || {
        (scene.ready(DEAD).await == Some(200)).then_some(())
    })
    .await;
    scene.run(&["dead", "redrive", "--all", "--canary", "1", "--yes"]).await;
    let run = scene.run_is(&["canary"]).await;
    channel
        .exchange_delete("x.a".into(), ExchangeDeleteOptions::default())
        .await
        .unwrap();
    let run = scene.resume(run["id"].as_str().unwrap()).await.expect_code(3).json();
    assert_run(&run, "done", 101);
    assert_eq!(run["failed"], 99, "{run}");
    assert_eq!(scene.ready("b").await, Some(100));
    assert_eq!(scene.ready(DEAD).await, Some(99), "what failed is where it was");
}

/// The queue tells its publisher, and sends what it refuses to its dead-letter exchange all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_again_to_a_full_queue_that_makes_dead_letters_of_what_it_refuses() {
    let scene = Scene::sqlite().await;
    scene.die(3).await;
    let (_connection, channel) = scene.channel().await;
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(1));
    arguments.insert("x-overflow".into(), text("reject-publish-dlx"));
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-routing-key".into(), text(DEAD));
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    let declaring = channel.queue_declare("full".into(), durable, arguments);
    declaring.await.unwrap();
    publish(&channel, "full", 7..8).await;
    let redrive = ["dead", "redrive", "--all", "--to", "full", "--yes", "--json"];
    let refused = scene.run(&redrive).await.expect_code(5);
    assert!(
        refused.stderr.contains("make one more dead letter of each"),
        "{refused:?}"
    );
    // One that consumes it, and is slow.
    let (_connection, slow) = scene.channel().await;
    slow.basic_qos(1, BasicQosOptions::default()).await.unwrap();
    let _consumer = super::scene::consume(&slow, "full").await;
    publish(&channel, "full", 8..9).await;
    let outcome = scene.run(&redrive).await.expect_code(1);
    let run = outcome.json();
    assert_eq!((&run["state"], &run["failed"]), (&"done".into(), &3.into()), "{run}");
    assert_eq!(scene.ready(DEAD).await, Some(6), "each was sent once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_else_takes_meanwhile_is_skipped_and_said_so() {
    let scene = Scene::sqlite().await;
    scene.die(200).await;
    let paced = [
        "dead", "redrive", "--all", "--rate", "50", "--canary", "20", "--yes", "--json",
    ];
    let run = scene.run(&paced).await.expect_code(3).json();
    let id = run["id"].as_str().unwrap().to_owned();
    let (connection, channel) = scene.channel().await;
    for _ in 0..30 {
        let options = BasicGetOptions { no_ack: true };
        assert!(channel.basic_get(DEAD.into(), options).await.unwrap().is_some());
    }
    connection.close(200, "done".into()).await.unwrap();
    let run = scene.resume(&id).await.expect_code(3).json();
    let counts = (&run["state"], &run["done"], &run["skipped"], &run["failed"]);
    assert_eq!(counts, (&"done".into(), &170.into(), &30.into(), &0.into()), "{run}");
    let shown = scene
        .run(&["run", "show", &id, "--limit", "1000", "--json"])
        .await
        .expect_code(0)
        .json();
    let skipped = shown["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["state"] == "skipped");
    assert!(skipped.clone().count() == 30 && skipped.clone().all(|item| item["reason"].is_string()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_operators_with_overlapping_plans_send_each_message_once() {
    let scene = Scene::sqlite().await;
    scene.die(2_000).await;
    let mut daemon = scene.installation.daemon().await;
    let order = serde_json::json!({"all": true});
    let (one, two) = tokio::join!(
        daemon.post("/v1/dead/redrive", &order),
        daemon.post("/v1/dead/redrive", &order)
    );
    let mut done = 0;
    for started in [one, two] {
        // Whoever plans while the other one is at work finds what is left, or nothing.
        if started.status == 404 {
            continue;
        }
        assert_eq!(started.status, 200, "{}", started.text());
        let id = started.json()["id"].as_str().unwrap().to_owned();
        let run = wait_until("its end", BOUND, async || {
            let run = daemon.get(&format!("/v1/runs/{id}")).await.json();
            (run["state"] == "done").then_some(run)
        })
        .await;
        done += run["done"].as_u64().unwrap();
        assert_eq!(run["failed"], 0, "{run}");
    }
    assert_eq!(done, 2_000);
    assert_eq!(daemon.stop().await, Some(0));
    let taken = scene.take_all(ORIGIN).await;
    assert_eq!((taken.len(), repeats(&taken, 2_000)), (2_000, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_makes_it_wait_with_the_reason_shown() {
    let node = PrivateRabbit::start().await;
    let scene = Scene::on(&node.address).await;
    scene.die(120).await;
    let mut daemon = scene.installation.daemon().await;
    // Half a minute: the node takes its time to hear of its alarm.
    let order = serde_json::json!({"all": true, "rate": 4});
    let started = daemon.post("/v1/dead/redrive", &order).await;
    assert_eq!(started.status, 200, "{}", started.text());
    moved(&scene, 4).await;
    node.address.control(&["set_vm_memory_high_watermark", "0.0001"]).await;
    let run = wait_until("the reason", BOUND, async || {
        let run = scene.newest_run().await;
        run["note"]
            .as_str()
            .is_some_and(|note| note.contains("takes nothing") || note.contains("blocked"))
            .then_some(run)
    })
    .await;
    assert!(run["eta_s"].is_null(), "nobody knows how long it waits: {run}");
    node.address.control(&["set_vm_memory_high_watermark", "0.4"]).await;
    let run = scene.run_is(&["done", "failed"]).await;
    assert_run(&run, "done", 120);
    assert_eq!(daemon.stop().await, Some(0));
    assert!(repeats(&scene.take_all(ORIGIN).await, 120) <= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_paused_resumed_and_cancelled_between_two_messages() {
    let scene = Scene::sqlite().await;
    scene.die(400).await;
    let mut daemon = scene.installation.daemon().await;
    let order = serde_json::json!({"all": true, "rate": 40});
    let started = daemon.post("/v1/dead/redrive", &order).await;
    assert_eq!(started.status, 200, "{}", started.text());
    let id = started.json()["id"].as_str().unwrap().to_owned();
    let change = async |wish: &str| {
        daemon
            .post(&format!("/v1/runs/{id}/{wish}"), &serde_json::json!({}))
            .await
    };
    moved(&scene, 10).await;
    assert_eq!(change("pause").await.json()["state"], "paused");
    let released = wait_until("nobody at work", BOUND, async || {
        let run = daemon.get(&format!("/v1/runs/{id}")).await.json();
        run["owner"].is_null().then_some(run)
    })
    .await;
    let at_pause = released["done"].as_u64().unwrap();
    assert_eq!(scene.ready(ORIGIN).await.map(u64::from), Some(at_pause));
    assert_eq!(change("pause").await.status, 409, "it is paused");
    assert_eq!(change("resume").await.json()["state"], "running");
    moved(&scene, u32::try_from(at_pause).unwrap() + 10).await;
    assert_eq!(change("cancel").await.json()["state"], "cancelled");
    let released = wait_until("nobody at work", BOUND, async || {
        let run = daemon.get(&format!("/v1/runs/{id}")).await.json();
        run["owner"].is_null().then_some(run)
    })
    .await;
    let done = released["done"].as_u64().unwrap();
    assert_eq!(daemon.stop().await, Some(0));
    assert!(done < 400);
    assert_eq!(scene.ready(DEAD).await.map(u64::from), Some(400 - done));
    assert_eq!(scene.ready(ORIGIN).await.map(u64::from), Some(done));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_never_faster_than_its_rate() {
    let scene = Scene::sqlite().await;
    scene.die(300).await;
    scene
        .run(&["dead", "redrive", "--all", "--rate", "100", "--yes"])
        .await
        .expect_code(0);
    let run = scene.newest_run().await;
    let moment = |key: &str| {
        let text = run[key].as_str().unwrap().to_owned();
        time::OffsetDateTime::parse(&text, &time::format_description::well_known::Rfc3339).unwrap()
    };
    let seconds = (moment("ended_at") - moment("started_at")).as_seconds_f64();
    assert!(seconds > 2.85, "300 at 100 a second took {seconds} s");
}
