//! What a person does with dead letters when nothing breaks.

use lapin::options::{BasicPublishOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use serde_json::{Value, json};

use super::scene::{BOUND, DEAD, ORIGIN, Scene, assert_run, consume, numbers, publish, reject};
use crate::support::wait::wait_until;

async fn check_redrive_all(scene: Scene, count: u32) {
    scene.die(count).await;
    let plan = scene
        .run(&["dead", "redrive", "--all", "--dry-run", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(plan["messages"], count, "{plan}");
    assert_eq!(plan["run"]["refused"], 0, "{plan}");
    assert_eq!(scene.ready(DEAD).await, Some(count), "a plan changes nothing");
    let run = scene
        .run(&["dead", "redrive", "--all", "--yes", "--json", "--reason", "mended"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(run["state"], "done", "{run}");
    assert_eq!((&run["done"], &run["total"]), (&count.into(), &count.into()), "{run}");
    assert_eq!(run["reason"], "mended");
    assert_eq!(scene.ready(DEAD).await, Some(0));
    let taken = scene.take_all(ORIGIN).await;
    assert_eq!(numbers(&taken), (0..count).collect::<Vec<_>>(), "in their order");
    for one in &taken {
        assert!(!one.has("x-death") && !one.has("x-first-death-queue"), "{one:?}");
        assert!(one.has("x-redrive-redriven") && one.has("x-redrive-run"), "{one:?}");
    }
    let audit = scene.run(&["audit", "--json"]).await.expect_code(0).json();
    assert_eq!(audit[0]["command"], "dead redrive", "{audit}");
    assert_eq!(
        (&audit[0]["result"], &audit[1]["result"]),
        (&"done".into(), &"planned".into())
    );
    let detail = audit[1]["detail"].as_str().unwrap();
    assert!(
        detail.contains(DEAD) && detail.contains(ORIGIN) && detail.ends_with(&format!("{} more", count - 98)),
        "the queues, and as many messages as there is room for: {detail}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_dead_letters_go_back_to_their_origin_in_order() {
    check_redrive_all(Scene::sqlite().await, 2_500).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_dead_letters_go_back_with_postgres_and_quorum_queues() {
    check_redrive_all(Scene::postgres().await.with_quorum_queues(), 300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_messages_that_are_discarded_one_after_the_other_all_come_back() {
    let scene = Scene::sqlite().await;
    scene.die(1).await;
    let (connection, channel) = scene.channel().await;
    for _ in 0..3 {
        publish(&channel, DEAD, 7..8).await;
    }
    connection.close(200, "done".into()).await.unwrap();
    for left in [3, 2, 1] {
        let dead = scene.run(&["dead", "list", "--json"]).await.expect_code(0).json();
        let equal = dead.as_array().unwrap().iter().find(|one| one["message_id"] == "m-7");
        let id = equal.unwrap()["id"].as_str().unwrap().split('.').next().unwrap();
        scene.run(&["dead", "discard", id, "--yes"]).await.expect_code(0);
        assert_eq!(scene.ready(DEAD).await, Some(left));
    }
    scene.run(&["dead", "restore", "--all", "--yes"]).await.expect_code(0);
    let mut all = numbers(&scene.take_all(DEAD).await);
    all.sort_unstable();
    assert_eq!(all, [0, 7, 7, 7]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_waits_for_room_in_a_queue_that_rejects_what_it_has_no_room_for() {
    let scene = Scene::sqlite().await;
    scene.die(3).await;
    let (connection, channel) = scene.channel().await;
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(1));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    let declaring = channel.queue_declare("full".into(), durable, arguments);
    declaring.await.unwrap();
    let run = scene.run(&["dead", "redrive", "--all", "--to", "full", "--yes", "--json"]);
    let mut taken = Vec::new();
    let taking = wait_until("all of them", BOUND, async || {
        taken.extend(numbers(&scene.take_all("full").await));
        (taken.len() >= 3).then_some(())
    });
    let (run, ()) = tokio::join!(run, taking);
    assert_run(&run.expect_code(0).json(), "done", 3);
    assert_eq!(taken, [0, 1, 2]);
    assert_eq!(scene.ready(DEAD).await, Some(0));
    connection.close(200, "done".into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_is_looked_at_in_each_of_many_queues() {
    let scene = Scene::sqlite().await;
    let (connection, channel) = scene.channel().await;
    scene.declare(&channel, DEAD, None).await;
    for number in 0..51 {
        let name = format!("w.{number:02}");
        scene.declare(&channel, &name, Some(DEAD)).await;
        publish(&channel, &name, number..number + 1).await;
        reject(&channel, &name, 1).await;
    }
    wait_until("dead letters", BOUND, async || {
        (scene.ready(DEAD).await == Some(51)).then_some(())
    })
    .await;
    // The last one has room for one, and drops that for another.
    scene.delete("w.50").await;
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(1));
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel.queue_declare("w.50".into(), durable, arguments).await.unwrap();
    publish(&channel, "w.50", 77..78).await;
    connection.close(200, "done".into()).await.unwrap();
    let refused = scene.run(&["dead", "redrive", "--all", "--yes"]).await.expect_code(5);
    assert!(
        refused.stderr.contains("queue w.50 keeps 1 message at most"),
        "{}",
        refused.stderr
    );
    assert_eq!(numbers(&scene.take_all("w.50").await), [77]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_push_others_out_of_a_queue_without_consumers_is_refused() {
    let scene = Scene::sqlite().await;
    scene.die(3).await;
    let (connection, channel) = scene.channel().await;
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(2));
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel.queue_declare("small".into(), durable, arguments).await.unwrap();
    let run = ["dead", "redrive", "--all", "--to", "small", "--yes"];
    let refused = scene.run(&run).await.expect_code(5);
    assert!(
        refused.stderr.contains("the oldest 1 would be lost"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        (scene.ready(DEAD).await, scene.ready("small").await),
        (Some(3), Some(0))
    );
    let _consumer = consume(&channel, "small").await;
    scene.listed_with_a_consumer("small").await;
    let planned = ["dead", "redrive", "--all", "--to", "small", "--dry-run"];
    let planned = scene.run(&planned).await.expect_code(0);
    assert!(
        planned.stdout.contains("unless its consumers take them sooner"),
        "{}",
        planned.stdout
    );
    connection.close(200, "done".into()).await.unwrap();
}

/// Quorum queues in which deliveries are not counted, as RabbitMQ 4 does by default: where they are, none is taken that was
/// not planned.
async fn uncounted() -> Scene {
    let scene = Scene::sqlite().await.with_quorum_queues();
    let uncounted = json!({"pattern": "", "apply-to": "queues", "definition": {"delivery-limit": 2_000_000_000}});
    let path = format!("/api/policies/{}/uncounted", scene.vhost.name);
    scene.vhost.manage("PUT", &path, Some(&uncounted)).await;
    scene
}

/// A quorum queue puts what is given back behind what was given back before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stays_in_a_quorum_queue_keeps_its_order() {
    let scene = uncounted().await;
    let (connection, channel) = scene.channel().await;
    scene.declare(&channel, DEAD, None).await;
    scene.declare(&channel, ORIGIN, Some(DEAD)).await;
    scene.declare(&channel, "fresh", None).await;
    publish(&channel, DEAD, 0..100).await;
    let listed = ["dead", "list", "--limit", "1000", "--json"];
    let listed = scene.run(&listed).await.expect_code(0).json();
    let ids: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .filter(|letter| letter["position"].as_u64().unwrap() <= 5)
        .map(|letter| letter["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 5, "{listed}");
    let discard = [&["dead", "discard", "--yes"], &ids[..]].concat();
    scene.run(&discard).await.expect_code(0);
    wait_until("the run to let go", BOUND, async || {
        (scene.ready(DEAD).await == Some(95)).then_some(())
    })
    .await;
    let browse = ["queue", "browse", DEAD, "--limit", "3", "--json"];
    let seen = scene.run(&browse).await.expect_code(0).json();
    assert_eq!(seen.as_array().unwrap().len(), 3, "{seen}");
    wait_until("the look to be over", BOUND, async || {
        (scene.ready(DEAD).await == Some(95)).then_some(())
    })
    .await;
    assert_eq!(numbers(&scene.take_all(DEAD).await), (5..100).collect::<Vec<_>>());
    publish(&channel, "fresh", 0..40).await;
    let browse = ["queue", "browse", "fresh", "--limit", "20", "--json"];
    let seen = scene.run(&browse).await.expect_code(0).json();
    assert_eq!(seen.as_array().unwrap().len(), 20, "{seen}");
    wait_until("the look to be over", BOUND, async || {
        (scene.ready("fresh").await == Some(40)).then_some(())
    })
    .await;
    assert_eq!(numbers(&scene.take_all("fresh").await), (0..40).collect::<Vec<_>>());
    connection.close(200, "done".into()).await.unwrap();
}

/// A dead-letter queue that is a quorum queue, of which some letters are shown and compared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_looks_at_some_letters_of_a_quorum_queue_changes_the_order_of_none() {
    let scene = uncounted().await;
    let (connection, channel) = scene.channel().await;
    scene.declare(&channel, DEAD, None).await;
    scene.declare(&channel, ORIGIN, Some(DEAD)).await;
    publish(&channel, DEAD, 0..40).await;
    let listed = ["dead", "list", "--limit", "1000", "--json"];
    let listed = scene.run(&listed).await.expect_code(0).json();
    let at = |position: u64| {
        let letters = listed.as_array().unwrap();
        let letter = letters.iter().find(|letter| letter["position"] == json!(position));
        letter.unwrap()["id"].as_str().unwrap().to_owned()
    };
    let (first, third) = (at(1), at(3));
    scene.run(&["dead", "show", &first]).await.expect_code(0);
    scene.run(&["dead", "compare", &third, &first]).await.expect_code(0);
    scene
        .run(&["dead", "compare", "--queue", DEAD, "--limit", "2"])
        .await
        .expect_code(0);
    wait_until("the looks to be over", BOUND, async || {
        (scene.ready(DEAD).await == Some(40)).then_some(())
    })
    .await;
    assert_eq!(numbers(&scene.take_all(DEAD).await), (0..40).collect::<Vec<_>>());
    connection.close(200, "done".into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_of_bytes_is_room_too_and_a_lifetime_of_messages_is_told() {
    let scene = Scene::sqlite().await;
    scene.die(3).await;
    let (connection, channel) = scene.channel().await;
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    for (queue, argument, value) in [
        ("small", "x-max-length-bytes", 2),
        ("short", "x-message-ttl", 86_400_000),
    ] {
        let mut arguments = FieldTable::default();
        arguments.insert(argument.into(), AMQPValue::LongInt(value));
        channel.queue_declare(queue.into(), durable, arguments).await.unwrap();
    }
    for run in [
        ["dead", "redrive", "--all", "--to", "small", "--yes"],
        ["queue", "move", DEAD, "--to", "small", "--yes"],
    ] {
        let refused = scene.run(&run).await.expect_code(5);
        assert!(
            refused.stderr.contains("keeps 2 bytes at most") && refused.stderr.contains("the oldest 1 would be lost"),
            "{refused:?}"
        );
    }
    let planned = scene
        .run(&["dead", "redrive", "--all", "--to", "short", "--dry-run"])
        .await
        .expect_code(0);
    assert!(
        planned.stdout.contains("queue short keeps a message for 1 d") && planned.stdout.contains("is lost"),
        "{planned:?}"
    );
    assert_eq!(
        (scene.ready(DEAD).await, scene.ready("small").await),
        (Some(3), Some(0))
    );
    connection.close(200, "done".into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_into_a_queue_that_is_gone_says_how_it_becomes_possible() {
    let scene = Scene::sqlite().await;
    scene.die(2).await;
    scene.run(&["dead", "discard", "--all", "--yes"]).await.expect_code(0);
    scene.delete(DEAD).await;
    let plan = scene
        .run(&["dead", "restore", "--all", "--dry-run"])
        .await
        .expect_code(0);
    assert!(
        plan.stdout.contains("does not exist: declare it again first") && !plan.stdout.contains("--to"),
        "{plan:?}"
    );
    let (connection, channel) = scene.channel().await;
    scene.declare(&channel, DEAD, None).await;
    scene.run(&["dead", "restore", "--all", "--yes"]).await.expect_code(0);
    assert_eq!(scene.ready(DEAD).await, Some(2));
    connection.close(200, "done".into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_discarded_can_be_restored() {
    let scene = Scene::sqlite().await;
    scene.die(20).await;
    let run = scene
        .run(&["dead", "discard", "--all", "--yes", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(run["done"], 20, "{run}");
    assert_eq!(scene.ready(DEAD).await, Some(0));
    let shown = scene
        .run(&["run", "show", run["id"].as_str().unwrap(), "--json"])
        .await
        .expect_code(0)
        .json();
    let first = shown["items"][0]["id"].as_str().unwrap();
    scene.run(&["dead", "restore", first, "--yes"]).await.expect_code(0);
    assert_eq!(scene.ready(DEAD).await, Some(1));
    scene.run(&["dead", "restore", "--all", "--yes"]).await.expect_code(0);
    let back = scene.take_all(DEAD).await;
    assert_eq!(numbers(&back), (0..20).collect::<Vec<_>>(), "in their order");
    assert!(back.iter().all(|one| one.has("x-death")), "as they were");
    scene.run(&["dead", "restore", "--all", "--yes"]).await.expect_code(4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_run_discarded_is_restored_by_that_run_and_what_another_one_did_is_not() {
    for scene in [Scene::sqlite().await, Scene::postgres().await] {
        scene.die(6).await;
        let ids = scene.run(&["dead", "list", "--json"]).await.expect_code(0).json();
        let ids: Vec<&str> = ids
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].as_str().unwrap())
            .collect();
        let discard = async |ids: &[&str]| {
            let arguments = [&["dead", "discard"], ids, &["--yes", "--json"]].concat();
            let run = scene.run(&arguments).await.expect_code(0).json();
            run["id"].as_str().unwrap().to_owned()
        };
        let (mine, other) = (discard(&ids[..4]).await, discard(&ids[4..]).await);
        // One of them is back already.
        scene.run(&["dead", "restore", ids[0], "--yes"]).await.expect_code(0);
        let plan = ["dead", "restore", "--run", &mine, "--dry-run", "--json"];
        let plan = scene.run(&plan).await.expect_code(0).json();
        assert_eq!(plan["messages"], 3, "{plan}");
        assert!(
            plan["warnings"]
                .to_string()
                .contains("1 of the 4 that the run discarded"),
            "{plan}"
        );
        scene
            .run(&["dead", "restore", "--run", &mine, "--yes"])
            .await
            .expect_code(0);
        assert_eq!(scene.ready(DEAD).await, Some(4), "those of the other run stay away");
        let again = scene.run(&["dead", "restore", "--run", &mine, "--yes"]).await;
        assert!(again.stderr.contains("was put back already"), "{}", again.stderr);
        scene
            .run(&["dead", "restore", "--run", "nothing", "--yes"])
            .await
            .expect_code(4);
        scene
            .run(&["dead", "restore", "--run", &other, "--yes"])
            .await
            .expect_code(0);
        assert_eq!(scene.ready(DEAD).await, Some(6));
        for (run, restored) in [(&mine, 4), (&other, 2)] {
            let shown = scene.run(&["run", "show", run, "--json"]).await.expect_code(0).json();
            assert_eq!(
                (&shown["done"], &shown["restored"]),
                (&restored.into(), &restored.into()),
                "{shown}"
            );
        }
        // A run that discarded nothing is no such run.
        let runs = scene.run(&["run", "list", "--json"]).await.expect_code(0).json();
        let restored = runs[0]["id"].as_str().unwrap();
        let refused = scene
            .run(&["dead", "restore", "--run", restored, "--yes"])
            .await
            .expect_code(5);
        assert!(
            refused.stderr.contains("is a dead restore, and discarded nothing"),
            "{}",
            refused.stderr
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_names_what_a_message_does_not_keep_and_nothing_that_it_keeps() {
    let scene = Scene::sqlite().await;
    let (connection, channel) = scene.channel().await;
    scene.declare(&channel, DEAD, None).await;
    scene.declare(&channel, ORIGIN, Some(DEAD)).await;
    let properties = json!({
        "delivery_mode": 2, "priority": 3, "headers": {"x-death": [{"queue": ORIGIN, "reason": "rejected"}]},
    });
    let message = json!({
        "properties": properties, "routing_key": DEAD, "payload": "1", "payload_encoding": "string",
    });
    let path = format!("/api/exchanges/{}/amq.default/publish", scene.vhost.name);
    scene.vhost.manage("POST", &path, Some(&message)).await;
    let dropped = async |arguments: &[&str]| {
        let plan = scene.run(&[arguments, &["--dry-run", "--json"]].concat()).await;
        plan.expect_code(0).json()["run"]["dropped_headers"].clone()
    };
    let to = ["queue", "move", DEAD, "--to", ORIGIN];
    assert_eq!(
        dropped(&to).await,
        json!(["priority"]),
        "what is moved keeps its history"
    );
    scene.run(&["dead", "discard", "--all", "--yes"]).await.expect_code(0);
    assert_eq!(dropped(&["dead", "restore", "--all"]).await, json!(["priority"]));
    connection.close(200, "done".into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_stops_and_asks() {
    let scene = Scene::sqlite().await;
    scene.die(30).await;
    let run = scene
        .run(&["dead", "redrive", "--all", "--canary", "5", "--yes", "--json"])
        .await
        .expect_code(3)
        .json();
    assert_run(&run, "canary", 5);
    assert_eq!(scene.ready(ORIGIN).await, Some(5));
    let id = run["id"].as_str().unwrap();
    let run = scene.resume(id).await.expect_code(0).json();
    assert_run(&run, "done", 30);
    assert_eq!(scene.ready(ORIGIN).await, Some(30));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_goes_on_by_itself_when_none_died_again() {
    let scene = Scene::sqlite().await;
    scene.die(30).await;
    let watched = [
        "dead",
        "redrive",
        "--all",
        "--canary",
        "5",
        "--canary-watch",
        "1",
        "--yes",
        "--json",
    ];
    let run = scene.run(&watched).await.expect_code(0).json();
    assert_run(&run, "done", 30);
    assert_eq!(scene.ready(ORIGIN).await, Some(30));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_dies_again_stops_and_asks() {
    let scene = Scene::sqlite().await;
    scene.die(30).await;
    let watched = [
        "dead",
        "redrive",
        "--all",
        "--canary",
        "5",
        "--canary-watch",
        "60",
        "--yes",
        "--json",
    ];
    let killing = async {
        let (_connection, channel) = scene.channel().await;
        super::scene::reject(&channel, ORIGIN, 1).await;
    };
    let (outcome, ()) = tokio::join!(scene.run(&watched), killing);
    let run = outcome.expect_code(3).json();
    assert_run(&run, "canary", 5);
    assert!(run["note"].as_str().unwrap().contains("died again"), "{run}");
    let dead = scene.run(&["dead", "list", "--filter", "redriven > 0", "--json"]).await;
    assert_eq!(dead.expect_code(0).json().as_array().unwrap().len(), 1);
    scene
        .run(&["dead", "redrive", "--all", "--canary-watch", "5", "--yes"])
        .await
        .expect_code(2);
}

/// As many dead letters as before are nothing that a count could see.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_of_which_all_die_again_stops_although_there_are_as_many_dead_letters_as_before() {
    let scene = Scene::sqlite().await;
    scene.die(60).await;
    let killing = async {
        let (_connection, channel) = scene.channel().await;
        super::scene::reject(&channel, ORIGIN, 20).await;
    };
    let (run, ()) = tokio::join!(watched(&scene, &["--canary", "20", "--canary-watch", "4"]), killing);
    assert_run(&run, "canary", 20);
    assert!(run["note"].as_str().unwrap().contains("20 died again"), "{run}");
    assert_eq!(
        (scene.ready(ORIGIN).await, scene.ready(DEAD).await),
        (Some(0), Some(60)),
        "none of the others was sent"
    );
}

/// Somebody consumes the dead letters: what died again would be in his hands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_nobody_can_see_says_so_and_waits_until_it_can_be_seen() {
    let scene = Scene::sqlite().await;
    scene.die(10).await;
    let consuming = async {
        wait_until("the canary at its origin", BOUND, async || {
            (scene.ready(ORIGIN).await == Some(2)).then_some(())
        })
        .await;
        let (connection, channel) = scene.channel().await;
        let consumer = super::scene::consume(&channel, DEAD).await;
        let told = wait_until("the run says what it cannot see", BOUND, async || {
            let run = scene.newest_run().await;
            let note = run["note"].as_str().unwrap_or_default().to_owned();
            note.contains("not seen yet").then_some((note, run))
        })
        .await;
        assert!(told.0.contains("consumers"), "{}", told.0);
        assert_run(&told.1, "running", 2);
        drop(consumer);
        connection.close(200, "done".into()).await.unwrap();
    };
    let all = [
        "dead",
        "redrive",
        "--all",
        "--yes",
        "--json",
        "--canary",
        "2",
        "--canary-watch",
        "1",
    ];
    let (outcome, ()) = tokio::join!(scene.run(&all), consuming);
    assert_run(&outcome.expect_code(0).json(), "done", 10);
}

/// What others redrove died meanwhile, too: it says nothing about this run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deaths_of_another_run_stop_nobody() {
    let scene = Scene::sqlite().await;
    scene.die(6).await;
    let two = ["dead", "redrive", "--filter", "message = m-0 or message = m-1", "--yes"];
    scene.run(&two).await.expect_code(0);
    let (_connection, channel) = scene.channel().await;
    super::scene::reject(&channel, ORIGIN, 2).await;
    wait_until("both are dead again", BOUND, async || {
        (scene.ready(DEAD).await == Some(6)).then_some(())
    })
    .await;
    let all = ["dead", "redrive", "--all", "--yes", "--json"];
    let watched = ["--canary", "2", "--canary-watch", "1"];
    let run = scene.run(&[&all[..], &watched].concat()).await.expect_code(0).json();
    assert_run(&run, "done", 4);
}

/// A run over all of them that watches itself, with these arguments beside.
async fn watched(scene: &Scene, arguments: &[&str]) -> Value {
    let all = ["dead", "redrive", "--all", "--yes", "--json"];
    scene.run(&[&all, arguments].concat()).await.expect_code(3).json()
}

/// Once so many were sent, one of them dies again.
async fn one_dies_once_there_are(scene: &Scene, count: u32) {
    wait_until(format!("{count} at their origin"), BOUND, async || {
        (scene.ready(ORIGIN).await >= Some(count)).then_some(())
    })
    .await;
    let (_connection, channel) = scene.channel().await;
    super::scene::reject(&channel, ORIGIN, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ramp_goes_on_part_by_part_and_stops_where_one_dies_again() {
    let scene = Scene::sqlite().await;
    scene.die(60).await;
    let ramp = ["--canary", "2", "--canary-watch", "4", "--ramp", "3"];
    let (run, ()) = tokio::join!(watched(&scene, &ramp), one_dies_once_there_are(&scene, 6));
    assert_run(&run, "canary", 6);
    assert!(run["note"].as_str().unwrap().contains("1 died again after 6"), "{run}");
    let id = run["id"].as_str().unwrap();
    let run = scene.resume(id).await.expect_code(0).json();
    assert_eq!(
        (&run["state"], &run["done"]),
        (&"done".into(), &60.into()),
        "a person said so: {run}"
    );
    assert_eq!(
        (scene.ready(ORIGIN).await, scene.ready(DEAD).await),
        (Some(59), Some(1))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ramp_of_which_none_dies_again_goes_through() {
    let scene = Scene::sqlite().await;
    scene.die(30).await;
    let ramp = [
        "dead",
        "redrive",
        "--all",
        "--yes",
        "--json",
        "--canary",
        "3",
        "--canary-watch",
        "1",
        "--ramp",
        "4",
    ];
    let run = scene.run(&ramp).await.expect_code(0).json();
    assert_run(&run, "done", 30);
    assert_eq!(numbers(&scene.take_all(ORIGIN).await), (0..30).collect::<Vec<_>>());
    scene.die(1).await;
    for wrong in [
        &["--ramp", "3"][..],
        &["--canary", "1", "--canary-watch", "1", "--ramp", "1"],
    ] {
        let all = ["dead", "redrive", "--all", "--yes"];
        scene.run(&[&all, wrong].concat()).await.expect_code(2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_a_watched_canary_stops_too_where_one_dies_again() {
    let scene = Scene::sqlite().await;
    scene.die(100).await;
    let slow = ["--canary", "2", "--canary-watch", "1", "--rate", "4"];
    let (run, ()) = tokio::join!(watched(&scene, &slow), one_dies_once_there_are(&scene, 4));
    assert_eq!(run["state"], "canary", "{run}");
    assert!(run["note"].as_str().unwrap().contains("died again"), "{run}");
    let done = u32::try_from(run["done"].as_u64().unwrap()).unwrap();
    assert!((4..100).contains(&done), "{run}");
    assert_eq!(
        scene.ready(DEAD).await,
        Some(101 - done),
        "the others are where they were"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_gone_is_refused_and_another_can_be_named() {
    let scene = Scene::sqlite().await;
    scene.die(4).await;
    let (_connection, channel) = scene.channel().await;
    // Still a dead-letter target, by another queue.
    scene.declare(&channel, "other", Some(DEAD)).await;
    scene.delete(ORIGIN).await;
    let redrive = ["dead", "redrive", "--all", "--yes", "--json"];
    let outcome = scene.run(&redrive).await.expect_code(1);
    let run = outcome.json();
    assert_eq!((&run["failed"], &run["done"]), (&4.into(), &0.into()), "{run}");
    let told = |line: &str| line.starts_with("4 failed: ") || line.starts_with("4 returned: ");
    assert!(
        outcome.stderr.lines().any(told),
        "why it missed them: {}",
        outcome.stderr
    );
    assert_eq!(scene.ready(DEAD).await, Some(4));
    scene
        .run(&["dead", "redrive", "--all", "--to", "other", "--yes"])
        .await
        .expect_code(0);
    assert_eq!(scene.ready("other").await, Some(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_died_again_is_left_out_unless_it_is_named() {
    let scene = Scene::sqlite().await;
    scene.die(3).await;
    scene.run(&["dead", "redrive", "--all", "--yes"]).await.expect_code(0);
    let (_connection, channel) = scene.channel().await;
    super::scene::reject(&channel, ORIGIN, 3).await;
    scene.run(&["dead", "redrive", "--all", "--yes"]).await.expect_code(4);
    assert_eq!(scene.ready(DEAD).await, Some(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_done_without_a_yes_and_nothing_read_only() {
    let scene = Scene::sqlite().await;
    scene.die(2).await;
    scene.run(&["dead", "redrive", "--all"]).await.expect_code(5);
    scene
        .run(&["dead", "redrive", "--all", "--yes", "--read-only"])
        .await
        .expect_code(5);
    assert_eq!(scene.ready(DEAD).await, Some(2));
    let runs = scene.run(&["run", "list", "--json"]).await.expect_code(0).json();
    assert_eq!(runs, serde_json::json!([]));
    scene.run(&["run", "show", "none"]).await.expect_code(4);
}

/// The letter that is sent as 77 and was 0.
async fn an_edit_is_shown_and_taken_back(scene: &Scene, id: &str) {
    let shown = scene.run(&["dead", "show", id, "--json"]).await.expect_code(0).json();
    assert_eq!((&shown["body"], &shown["edited"]["body"]), (&json!("0"), &json!("77")));
    assert!(shown["edited"]["headers"].to_string().contains("mended"), "{shown}");
    assert!(
        shown["edited"]["actor"].is_string() && shown["edited"]["at"].is_string(),
        "{shown}"
    );
    let shown = scene.run(&["dead", "show", id]).await.expect_code(0).stdout;
    assert!(
        shown.contains("a redrive sends what follows") && shown.contains("77"),
        "{shown}"
    );
    // Written as the original is, it is not an edited one any more.
    let back = [
        "dead",
        "edit",
        id,
        "--body-file",
        "-",
        "--header",
        "mended",
        "--yes",
        "--json",
    ];
    let original = scene
        .installation
        .run_with_input(&back, b"0")
        .await
        .expect_code(0)
        .json();
    assert_eq!(original["edited"], false);
    let plan = ["dead", "redrive", "--all", "--dry-run", "--json"];
    let plan = scene.run(&plan).await.expect_code(0).json();
    assert!(!plan["warnings"].to_string().contains("edited"), "{plan}");
    let shown = scene.run(&["dead", "show", id, "--json"]).await.expect_code(0).json();
    assert_eq!(shown.get("edited"), None, "{shown}");
    let nothing = scene.installation.run_with_input(&back, b"0").await.expect_code(2);
    assert!(nothing.stderr.contains("nothing would change"), "{}", nothing.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edited_one_is_sent_as_edited_and_the_original_is_kept() {
    let scene = Scene::sqlite().await;
    scene.die(2).await;
    let plan = scene
        .run(&["dead", "redrive", "--all", "--dry-run", "--json"])
        .await
        .expect_code(0)
        .json();
    // "ID: 0"
    let sample = plan["run"]["samples"][0].as_str().unwrap();
    let id = sample.split(':').next().unwrap();
    let edit = [
        "dead",
        "edit",
        id,
        "--body-file",
        "-",
        "--header",
        "mended: yes",
        "--yes",
        "--json",
    ];
    let ignored = ["dead", "edit", id, "--header", "x-redrive-header-Host: other", "--yes"];
    let refused = scene.run(&ignored).await.expect_code(2);
    assert!(
        refused.stderr.contains("headers.x-redrive-header-Host belongs to"),
        "{}",
        refused.stderr
    );
    let edited = scene
        .installation
        .run_with_input(&edit, b"77")
        .await
        .expect_code(0)
        .json();
    assert_eq!(edited["edited"], true);
    assert_eq!(scene.ready(DEAD).await, Some(2), "it stays where it is");
    let audit = scene.run(&["audit", "--json"]).await.expect_code(0).json();
    assert_eq!(audit[0]["target"], id, "body and header of one letter: {audit}");
    let plan = ["dead", "redrive", "--all", "--dry-run", "--json"];
    let plan = scene.run(&plan).await.expect_code(0).json();
    assert_eq!(plan["run"]["samples"][0], format!("{id}: 77"));
    assert!(plan["warnings"].to_string().contains("1 message was edited"), "{plan}");
    an_edit_is_shown_and_taken_back(&scene, id).await;
    scene.installation.run_with_input(&edit, b"77").await.expect_code(0);
    scene.run(&["dead", "redrive", "--all", "--yes"]).await.expect_code(0);
    let taken = scene.take_all(ORIGIN).await;
    assert_eq!(numbers(&taken), [77, 1]);
    assert!(taken[0].has("mended") && !taken[1].has("mended"));
    let audit = scene.run(&["audit", "--json"]).await.expect_code(0).json();
    assert!(
        audit[1]["detail"].as_str().unwrap().contains(id),
        "a letter that was redriven is found: {audit}"
    );
    for command in [
        &["dead", "edit", &id[..8], "--header", "a: b", "--yes"][..],
        &["dead", "show", &id[..8]],
        &["dead", "redrive", &id[..8], "--yes"],
        &["run", "show", "019a"],
    ] {
        let refused = scene.run(command).await.expect_code(4);
        assert!(refused.stderr.contains("an id is given whole"), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_moved_to_another() {
    let scene = Scene::sqlite().await;
    let (_connection, channel) = scene.channel().await;
    scene.declare(&channel, "from", None).await;
    scene.declare(&channel, "into", None).await;
    super::scene::publish(&channel, "from", 0..50).await;
    for (target, code) in [("nowhere", 4), ("from", 2)] {
        let refused = scene.run(&["queue", "move", "from", "--to", target, "--yes"]).await;
        assert!(refused.expect_code(code).stderr.contains(target));
    }
    assert_eq!(scene.ready("from").await, Some(50));
    scene
        .run(&["queue", "move", "from", "--to", "into", "--yes"])
        .await
        .expect_code(0);
    assert_eq!(scene.ready("from").await, Some(0));
    let taken = scene.take_all("into").await;
    assert_eq!(numbers(&taken), (0..50).collect::<Vec<_>>());
    assert!(
        taken.iter().all(|one| !one.has("x-redrive-redriven")),
        "moved as they were"
    );
    scene
        .run(&["queue", "move", "from", "--to", "into", "--yes"])
        .await
        .expect_code(4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_goes_back_through_the_exchange_that_it_came_by() {
    let scene = Scene::sqlite().await;
    let (_connection, channel) = scene.channel().await;
    scene.declare(&channel, DEAD, None).await;
    scene.declare(&channel, ORIGIN, Some(DEAD)).await;
    let durable = lapin::options::ExchangeDeclareOptions {
        durable: true,
        ..Default::default()
    };
    let kind = lapin::ExchangeKind::Topic;
    channel
        .exchange_declare("shop".into(), kind, durable, FieldTable::default())
        .await
        .unwrap();
    channel
        .queue_bind(
            ORIGIN.into(),
            "shop".into(),
            "order.*".into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        )
        .await
        .unwrap();
    let properties = lapin::BasicProperties::default().with_delivery_mode(2);
    channel
        .basic_publish(
            "shop".into(),
            "order.new".into(),
            BasicPublishOptions::default(),
            b"7",
            properties,
        )
        .await
        .unwrap();
    super::scene::reject(&channel, ORIGIN, 1).await;
    crate::support::wait::wait_until("a dead letter", super::scene::BOUND, async || {
        (scene.ready(DEAD).await == Some(1)).then_some(())
    })
    .await;
    scene.run(&["dead", "redrive", "--all", "--yes"]).await.expect_code(0);
    let taken = scene.take_all(ORIGIN).await;
    assert_eq!((taken[0].number, taken[0].routing_key.as_str()), (7, "order.new"));
}
