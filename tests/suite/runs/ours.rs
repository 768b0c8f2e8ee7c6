//! Dead letters of our own delivery, and the heads of delivery queues.

use std::time::Duration;

use redrive::internals::domain::id::QueueName;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::scene::assert_run;
use crate::faults::scene::{BOUND, Scene};
use crate::support::daemon::Daemon;
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

/// What the receiver saw answered with a 2xx, in order.
fn delivered(scene: &Scene) -> Vec<String> {
    let seen = scene.receiver.seen();
    seen.iter()
        .filter(|seen| seen.status == Some(200))
        .map(|seen| seen.id.clone())
        .collect()
}

/// One test on real servers, and the same on the embedded pair.
macro_rules! on_both {
    ($($name:ident)+) => {
        mod servers {
            //! RabbitMQ with PostgreSQL.
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::Scene::servers().await).await;
            })+
        }

        mod embedded {
            //! SQLite and the embedded broker.
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::Scene::embedded().await).await;
            })+
        }
    };
}

on_both! {
    a_run_that_watches_itself_stops_when_an_endpoint_of_its_targets_fails
    refused_ones_are_redriven_discarded_and_restored
    refused_ones_are_redriven_before_what_waits_when_asked
    a_head_that_waits_is_skipped_to_the_dead_letters
    what_was_put_before_a_head_is_browsed_skipped_and_deleted_first
    what_was_put_before_a_head_is_purged_with_the_rest
    what_was_put_before_a_head_is_moved_first
    what_was_put_before_a_head_is_counted_with_its_queue
    what_would_not_be_delivered_from_there_is_not_moved_there_and_finds_its_way_back
    nothing_is_sent_to_where_daemons_wake_each_other_and_no_other_queue_is_skipped
    letters_that_are_named_and_not_there_are_told_and_the_others_stay
    an_edit_that_could_not_be_delivered_is_refused
}

/// The queue of our own dead letters.
fn graves(scene: &Scene) -> QueueName {
    QueueName::parse(&scene.naming().dead_letter_queue()).unwrap()
}

async fn dead_letters(scene: &Scene, count: u64) {
    wait_until("the dead letters", BOUND, async || {
        (scene.ready(&graves(scene)).await == count).then_some(())
    })
    .await;
}

/// One of each of five URLs: more refusals in a row would be the URL's fault.
async fn five_die(scene: &Scene) {
    for number in 1..=5 {
        scene.publish("run", &format!("/hook{number}"), number).await;
    }
    dead_letters(scene, 5).await;
}

async fn refused_ones_are_redriven_discarded_and_restored(scene: Scene) {
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    five_die(&scene).await;
    let nowhere = json!({"all": true, "to": "nowhere"});
    assert_eq!(daemon.post("/v1/dead/redrive", &nowhere).await.status, 404);
    let run = async |arguments: &[&str]| scene.installation.run(arguments).await.expect_code(0);
    let ended = run(&["dead", "discard", "--all", "--yes", "--json"]).await.json();
    assert_run(&ended, "done", 5);
    assert_eq!(scene.ready(&graves(&scene)).await, 0);
    run(&["dead", "restore", "--all", "--yes"]).await;
    // A look of the daemon may have them at this moment.
    dead_letters(&scene, 5).await;
    scene.receiver.behave("*", Behaviour::Status(200));
    let canary = [
        "dead", "redrive", "--all", "--rate", "200", "--canary", "2", "--yes", "--json",
    ];
    let asks = scene.installation.run(&canary).await.expect_code(3).json();
    assert_run(&asks, "canary", 2);
    let id = asks["id"].as_str().unwrap();
    let ended = run(&["run", "resume", id, "--yes", "--json"]).await.json();
    assert_run(&ended, "done", 5);
    scene.delivered(5).await;
    let mut all = delivered(&scene);
    all.sort_unstable();
    assert_eq!(all, ["run-1", "run-2", "run-3", "run-4", "run-5"]);
    assert_eq!(daemon.stop().await, Some(0));
}

async fn a_run_that_watches_itself_stops_when_an_endpoint_of_its_targets_fails(mut scene: Scene) {
    // The first failure is waited for, and not tried again at once.
    let retried =
        json!({"retries_with_no_delay": 0, "minimum_delay_retries": 5, "minimum_delay": 60, "maximum_delay": 60});
    scene.installation.set("delivery", "retry_policy", retried);
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    five_die(&scene).await;
    scene.receiver.behave("*", Behaviour::Status(503));
    let watched = [
        "dead",
        "redrive",
        "--all",
        "--canary",
        "2",
        "--canary-watch",
        "3600",
        "--yes",
        "--json",
    ];
    let asks = scene.installation.run(&watched).await.expect_code(3).json();
    assert_run(&asks, "canary", 2);
    let note = asks["note"].as_str().unwrap();
    assert!(
        note.contains("/hook") && note.contains("503") && note.contains("unavailable"),
        "{note}"
    );
    assert_eq!(scene.ready(&graves(&scene)).await, 3);
    assert_eq!(daemon.stop().await, Some(0));
}

/// The first two notifications of a queue became dead letters; nothing is sent from it, and the third one waits.
async fn two_dead_and_one_waits(scene: &Scene, daemon: &Daemon) -> QueueName {
    let queue = scene.queue("run", "/hook");
    for number in 1..=2 {
        scene.publish("run", "/hook", number).await;
    }
    dead_letters(scene, 2).await;
    scene
        .installation
        .run(&["queue", "pause", queue.as_str(), "--yes"])
        .await
        .expect_code(0);
    // Paused is said once its worker has let go.
    wait_until("a queue that is let go", BOUND, async || {
        let row = daemon.get(&format!("/v1/queues/{}", queue.as_str())).await.json();
        (row["state"] == "paused").then_some(())
    })
    .await;
    scene.publish("run", "/hook", 3).await;
    queue
}

/// The dead letters are put back before what waits.
async fn redriven_to_the_head(daemon: &Daemon, count: u64) {
    let started = daemon
        .post("/v1/dead/redrive", &json!({"all": true, "head": true}))
        .await;
    assert_eq!(started.status, 200, "{}", started.text());
    let id = started.json()["id"].as_str().unwrap().to_owned();
    let run = wait_until("its end", BOUND, async || {
        let run = daemon.get(&format!("/v1/runs/{id}")).await.json();
        (run["state"] == "done").then_some(run)
    })
    .await;
    assert_eq!(run["done"], count, "{run}");
}

async fn refused_ones_are_redriven_before_what_waits_when_asked(scene: Scene) {
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    let queue = two_dead_and_one_waits(&scene, &daemon).await;
    scene.receiver.behave("*", Behaviour::Status(200));
    redriven_to_the_head(&daemon, 2).await;
    scene
        .installation
        .run(&["queue", "resume", queue.as_str(), "--yes"])
        .await
        .expect_code(0);
    scene.delivered(3).await;
    assert_eq!(delivered(&scene), ["run-1", "run-2", "run-3"]);
    let companion = companion(&scene, &queue);
    wait_until("no companion", BOUND, async || {
        scene.is_missing(&companion).await.then_some(())
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0));
}

async fn a_head_that_waits_is_skipped_to_the_dead_letters(mut scene: Scene) {
    let patient = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 1, "minimum_delay": 600, "maximum_delay": 600,
        "maximum_delay_retries": 1, "backoff_retries": 0
    });
    scene.installation.set("delivery", "retry_policy", patient);
    // The message's own fault: the queue waits alone.
    scene.receiver.behave("*", Behaviour::Status(500));
    let mut daemon = scene.installation.daemon().await;
    let queue = scene.queue("run", "/hook");
    for number in 1..=2 {
        scene.publish("run", "/hook", number).await;
    }
    wait_until("a head that waits", BOUND, async || {
        scene.why(&queue).await["head"].is_object().then_some(())
    })
    .await;
    scene.receiver.behave("*", Behaviour::Status(200).after(Duration::ZERO));
    scene
        .installation
        .run(&["queue", "skip", queue.as_str(), "--to", "dead", "--yes"])
        .await
        .expect_code(0);
    scene
        .installation
        .run(&["redeliver", "--all", "--yes"])
        .await
        .expect_code(0);
    scene.delivered(1).await;
    assert_eq!(delivered(&scene), ["run-2"]);
    // A look of the daemon may have it at this moment.
    dead_letters(&scene, 1).await;
    assert_eq!(daemon.stop().await, Some(0));
}

async fn what_was_put_before_a_head_is_browsed_skipped_and_deleted_first(scene: Scene) {
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    let queue = two_dead_and_one_waits(&scene, &daemon).await;
    redriven_to_the_head(&daemon, 2).await;
    let run = async |arguments: &[&str]| scene.installation.run(arguments).await.expect_code(0);
    let waiting = async || {
        let browsed = run(&["queue", "browse", queue.as_str(), "--json"]).await.json();
        let of = |one: &serde_json::Value| one["message_id"].as_str().unwrap().to_owned();
        browsed.as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(waiting().await, ["run-1", "run-2", "run-3"]);
    run(&["queue", "skip", queue.as_str(), "--to", "dead", "--yes"]).await;
    assert_eq!(scene.ready(&graves(&scene)).await, 1);
    assert_eq!(waiting().await, ["run-2", "run-3"]);
    let companion = QueueName::parse(&scene.naming().companion(&queue)).unwrap();
    assert_eq!(scene.ready(&companion).await, 1);
    run(&["queue", "delete", queue.as_str(), "--yes"]).await;
    assert!(scene.is_missing(&companion).await && scene.is_missing(&queue).await);
    assert_eq!(daemon.stop().await, Some(0));
}

fn companion(scene: &Scene, queue: &QueueName) -> QueueName {
    QueueName::parse(&scene.naming().companion(queue)).unwrap()
}

/// Two were put before the head of a paused queue, one waits in it.
async fn two_before_the_head(scene: &Scene, daemon: &Daemon) -> QueueName {
    let queue = two_dead_and_one_waits(scene, daemon).await;
    redriven_to_the_head(daemon, 2).await;
    assert_eq!(
        (scene.ready(&companion(scene, &queue)).await, scene.ready(&queue).await),
        (2, 1)
    );
    queue
}

async fn goes_on(scene: &Scene, queue: &QueueName) {
    let resume = ["queue", "resume", queue.as_str(), "--yes"];
    scene.installation.run(&resume).await.expect_code(0);
}

async fn what_was_put_before_a_head_is_purged_with_the_rest(scene: Scene) {
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    let queue = two_before_the_head(&scene, &daemon).await;
    let purge = ["queue", "purge", queue.as_str(), "--yes", "--json"];
    let purged = scene.installation.run(&purge).await.expect_code(0);
    assert!(purged.stdout.contains('3'), "{}", purged.stdout);
    assert_eq!(
        scene.ready(&companion(&scene, &queue)).await + scene.ready(&queue).await,
        0
    );
    scene.receiver.behave("*", Behaviour::Status(200));
    goes_on(&scene, &queue).await;
    scene.publish("run", "/hook", 4).await;
    scene.delivered(1).await;
    assert_eq!(delivered(&scene), ["run-4"]);
    assert_eq!(daemon.stop().await, Some(0));
}

async fn what_was_put_before_a_head_is_moved_first(scene: Scene) {
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    let queue = two_before_the_head(&scene, &daemon).await;
    let graves = graves(&scene);
    let run = async |arguments: &[&str]| scene.installation.run(arguments).await.expect_code(0);
    run(&["queue", "move", queue.as_str(), "--to", graves.as_str(), "--yes"]).await;
    assert_eq!(
        scene.ready(&companion(&scene, &queue)).await + scene.ready(&queue).await,
        0
    );
    let moved = run(&["queue", "browse", graves.as_str(), "--json"]).await.json();
    let ids: Vec<&str> = moved
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["message_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["run-1", "run-2", "run-3"]);
    scene.receiver.behave("*", Behaviour::Status(200));
    goes_on(&scene, &queue).await;
    scene.publish("run", "/hook", 4).await;
    scene.delivered(1).await;
    assert_eq!(delivered(&scene), ["run-4"]);
    assert_eq!(daemon.stop().await, Some(0));
}

async fn what_was_put_before_a_head_is_counted_with_its_queue(scene: Scene) {
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    let queue = two_before_the_head(&scene, &daemon).await;
    let companion = companion(&scene, &queue);
    let run = async |arguments: &[&str]| scene.installation.run(arguments).await.expect_code(0);
    let shown = daemon.get(&format!("/v1/queues/{}", queue.as_str())).await.json();
    assert_eq!(shown["ready"], 3, "{shown}");
    let listed = run(&["queues", "--json"]).await.json();
    let listed = listed.as_array().unwrap();
    let row = listed.iter().find(|row| row["name"] == queue.as_str()).unwrap();
    assert_eq!(row["ready"], 3, "{row}");
    assert!(
        !listed.iter().any(|row| row["name"] == companion.as_str()),
        "{listed:?}"
    );
    let said = scene.why(&companion).await;
    let text = said["text"].as_str().unwrap();
    assert!(text.contains(queue.as_str()) && !text.contains("queue move"), "{text}");
    let dead = run(&["dead", "list", "--queue", queue.as_str()]).await;
    assert!(dead.stderr.contains("is no dead letter"), "{dead:?}");
    let url = scene.receiver.url("/hook");
    let endpoint = run(&["endpoint", "show", &url, "--json"]).await.json();
    assert_eq!(endpoint["waiting"], 3, "{endpoint}");
    let plan = run(&["redeliver", &url, "--dry-run", "--json"]).await.json();
    assert_eq!(plan["messages"], 3, "{plan}");
    let handover = run(&["handover", "--json"]).await.json();
    assert_eq!(handover["queues"][0]["ready"], 3, "{handover}");
    wait_until("the rates to say what waits", BOUND, async || {
        let rates = daemon.get("/v1/rates").await.json();
        let row = rates["items"]
            .as_array()?
            .iter()
            .find(|row| row["queue"] == queue.as_str())?;
        (row["waiting"] == 3).then_some(())
    })
    .await;
    wait_until("the metric to say what waits", BOUND, async || {
        let text = daemon.get("/metrics").await.text();
        text.lines()
            .any(|line| line == "redrive_waiting_messages 3")
            .then_some(())
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0));
}

/// From the queue of another URL it would become a dead letter.
async fn what_would_not_be_delivered_from_there_is_not_moved_there_and_finds_its_way_back(scene: Scene) {
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    let (queue, graves) = (two_dead_and_one_waits(&scene, &daemon).await, graves(&scene));
    let other = scene.queue("run", "/other");
    let run = async |arguments: &[&str]| scene.installation.run(arguments).await;
    let moved = run(&[
        "queue",
        "move",
        queue.as_str(),
        "--to",
        other.as_str(),
        "--yes",
        "--json",
    ])
    .await;
    let moved = moved.json();
    assert_eq!((&moved["done"], &moved["failed"]), (&json!(0), &json!(1)), "{moved}");
    let plan = run(&[
        "dead",
        "redrive",
        "--all",
        "--to",
        other.as_str(),
        "--dry-run",
        "--json",
    ])
    .await;
    let plan = plan.expect_code(0).json();
    assert_eq!(plan["run"]["refused"], 2, "{plan}");
    assert!(plan["lines"].to_string().contains("belong to queue"), "{plan}");
    assert_eq!((scene.ready(&queue).await, scene.ready(&graves).await), (1, 2));
    // Moved by hand it has no history, and names its queue itself.
    let to = ["queue", "move", queue.as_str(), "--to", graves.as_str(), "--yes"];
    run(&to).await.expect_code(0);
    dead_letters(&scene, 3).await;
    scene.receiver.behave("*", Behaviour::Status(200));
    goes_on(&scene, &queue).await;
    run(&["dead", "redrive", "--all", "--yes"]).await.expect_code(0);
    scene.delivered(3).await;
    assert_eq!(daemon.stop().await, Some(0));
}

async fn nothing_is_sent_to_where_daemons_wake_each_other_and_no_other_queue_is_skipped(scene: Scene) {
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    let queue = two_dead_and_one_waits(&scene, &daemon).await;
    let (wake, graves) = (scene.naming().wake_queue(), graves(&scene));
    let mut refused = Vec::new();
    for arguments in [
        vec!["queue", "move", queue.as_str(), "--to", &wake, "--yes"],
        vec!["dead", "redrive", "--all", "--to", &wake, "--yes"],
    ] {
        refused.push(scene.installation.run(&arguments).await.expect_code(2).stderr);
    }
    assert!(
        refused.iter().all(|text| text.contains("name another queue")),
        "{refused:?}"
    );
    // A look that makes a row would have daemons deliver from it.
    for wish in [["--dry-run"], ["--yes"]] {
        let skip = ["queue", "skip", graves.as_str(), wish[0]];
        let text = scene.installation.run(&skip).await.expect_code(5).stderr;
        assert!(text.contains("is not a delivery queue"), "{text}");
    }
    let shown = daemon.get(&format!("/v1/queues/{}", graves.as_str())).await.json();
    assert_eq!(shown["kind"], "dead_letter", "{shown}");
    assert_eq!((scene.ready(&queue).await, scene.ready(&graves).await), (1, 2));
    assert_eq!(daemon.stop().await, Some(0));
}

async fn letters_that_are_named_and_not_there_are_told_and_the_others_stay(scene: Scene) {
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    five_die(&scene).await;
    let run = async |arguments: &[&str]| scene.installation.run(arguments).await;
    let listed = run(&["dead", "list", "--json"]).await.expect_code(0).json();
    let id = listed[0]["id"].as_str().unwrap();
    let nobody = "0".repeat(32);
    let told = run(&["dead", "discard", id, &nobody, "--yes"]).await.expect_code(4);
    assert!(told.stderr.contains(&nobody) && !told.stderr.contains(id), "{told:?}");
    assert_eq!(scene.ready(&graves(&scene)).await, 5);
    let ended = run(&["dead", "discard", id, "--yes", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_run(&ended, "done", 1);
    let told = run(&["dead", "restore", id, &nobody, "--yes"]).await.expect_code(4);
    assert!(told.stderr.contains("discarded message"), "{told:?}");
    assert_eq!(daemon.stop().await, Some(0));
}

async fn an_edit_that_could_not_be_delivered_is_refused(scene: Scene) {
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    dead_letters(&scene, 1).await;
    let run = async |arguments: &[&str]| scene.installation.run(arguments).await;
    let listed = run(&["dead", "list", "--json"]).await.expect_code(0).json();
    let id = listed[0]["id"].as_str().unwrap();
    let elsewhere = "x-redrive-url: http://elsewhere.example/".to_owned();
    for (header, why) in [
        (elsewhere, "belong to queue"),
        (
            "x-redrive-header-bad name: v".to_owned(),
            "as edited it could not be delivered",
        ),
    ] {
        let edit = ["dead", "edit", id, "--header", &header, "--yes"];
        let told = run(&edit).await.expect_code(2);
        assert!(told.stderr.contains(why), "{told:?}");
    }
    let fine = ["dead", "edit", id, "--header", "x-redrive-header-tenant: t1", "--yes"];
    run(&fine).await.expect_code(0);
    assert_eq!(daemon.stop().await, Some(0));
}

/// Deletes something on the broker by hand.
async fn delete_by_hand(scene: &Scene, kind: &str, name: &str) {
    let vhost = scene.vhost.as_ref().unwrap();
    let path = format!("/api/{kind}/{}/{name}", vhost.name);
    vhost.manage("DELETE", &path, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_companion_that_is_deleted_under_its_worker_is_forgotten_and_its_queue_goes_on() {
    let scene = Scene::servers().await;
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    let queue = two_before_the_head(&scene, &daemon).await;
    let (before, told) = (scene.receiver.count(), CancellationToken::new());
    scene.receiver.behave("*", Behaviour::Status(200).once(&told));
    goes_on(&scene, &queue).await;
    wait_until("the first one to be sent", BOUND, async || {
        (scene.receiver.count() > before).then_some(())
    })
    .await;
    delete_by_hand(&scene, "queues", companion(&scene, &queue).as_str()).await;
    told.cancel();
    wait_until("what waited behind", BOUND, async || {
        delivered(&scene).iter().any(|id| id == "run-3").then_some(())
    })
    .await;
    scene.publish("run", "/hook", 4).await;
    wait_until("what came later", BOUND, async || {
        delivered(&scene).iter().any(|id| id == "run-4").then_some(())
    })
    .await;
    assert!(!delivered(&scene).iter().any(|id| id == "run-2"), "it was deleted");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_put_before_a_head_is_delivered_though_its_queue_was_deleted() {
    let scene = Scene::servers().await;
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    let queue = two_before_the_head(&scene, &daemon).await;
    delete_by_hand(&scene, "queues", queue.as_str()).await;
    scene.receiver.behave("*", Behaviour::Status(200));
    goes_on(&scene, &queue).await;
    scene.delivered(2).await;
    scene.publish("run", "/hook", 4).await;
    scene.delivered(3).await;
    assert_eq!(delivered(&scene), ["run-1", "run-2", "run-4"]);
    assert_eq!(scene.ready(&companion(&scene, &queue)).await, 0);
    assert_eq!(daemon.stop().await, Some(0));
}

/// A new exchange has no bindings; who makes them meets queues that are gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_put_before_a_head_is_delivered_though_its_queue_and_the_exchange_were_deleted() {
    let scene = Scene::servers().await;
    scene.receiver.behave("*", Behaviour::Status(400));
    let mut daemon = scene.installation.daemon().await;
    let queue = two_before_the_head(&scene, &daemon).await;
    scene.receiver.behave("*", Behaviour::Status(200));
    scene.publish("zz", "/other", 1).await;
    scene.delivered(1).await;
    delete_by_hand(&scene, "queues", queue.as_str()).await;
    delete_by_hand(&scene, "exchanges", &scene.naming().exchange()).await;
    let (vhost, exchange, other) = (
        scene.vhost.as_ref().unwrap(),
        scene.naming().exchange(),
        scene.queue("zz", "/other"),
    );
    let path = format!("/api/bindings/{}", vhost.name);
    wait_until("the exchange to be there again, with its bindings", BOUND, async || {
        let bindings = vhost.manage("GET", &path, None).await.json();
        let is_bound = |one: &serde_json::Value| one["source"] == exchange && one["destination"] == other.as_str();
        bindings.as_array()?.iter().any(is_bound).then_some(())
    })
    .await;
    goes_on(&scene, &queue).await;
    scene.delivered(3).await;
    assert_eq!(delivered(&scene), ["zz-1", "run-1", "run-2"]);
    assert_eq!(daemon.stop().await, Some(0));
}
