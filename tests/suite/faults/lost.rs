//! Delivery queues that somebody deletes by hand: the loss is told, whoever finds the queue missing, and also where
//! somebody made it again.

use std::time::{Duration, Instant};

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use serde_json::{Value, json};

use super::scene::{BOUND, Scene};
use crate::support::daemon::Daemon;
use crate::support::receiver::Behaviour;
use crate::support::servers::Vhost;
use crate::support::wait::wait_until;

/// The numbers of a listing may be so old: within that after a lease nothing is said to be missing.
const LAG: Duration = Duration::from_secs(10);

/// A daemon with three messages to a URL that is not available, and an empty queue beside.
async fn with_waiting(scene: &Scene) -> Daemon {
    scene.receiver.behave("/dead", Behaviour::Status(503));
    let daemon = scene.installation.daemon().await;
    scene.publish("drained", "/hook", 1).await;
    for number in 1..=3 {
        scene.publish("waits", "/dead", number).await;
    }
    scene.delivered(1).await;
    let waits = scene.queue("waits", "/dead");
    wait_until("a URL that is not available", BOUND, async || {
        (scene.why(&waits).await["state"] == "endpoint_unavailable").then_some(())
    })
    .await;
    daemon
}

async fn delete(scene: &Scene, execution: &str, path: &str) -> String {
    let (vhost, queue) = (scene.vhost.as_ref().unwrap(), scene.queue(execution, path));
    let path = format!("/api/queues/{}/{}", vhost.name, queue.as_str());
    vhost.manage("DELETE", &path, None).await;
    queue.as_str().to_owned()
}

/// The lines of the audit that tell of a loss of this queue.
async fn losses(scene: &Scene, queue: &str) -> Vec<Value> {
    let audit = scene.installation.run(&["audit", "--limit", "100", "--json"]).await;
    let lines = audit.expect_code(0).json().as_array().unwrap().clone();
    let is_loss = |line: &Value| {
        let is_told = line["result"] == "gone" || line["result"] == "emptied";
        is_told && line["detail"].as_str().unwrap().contains(queue)
    };
    lines.into_iter().filter(is_loss).collect()
}

/// Whoever is told of bad turns is told of this one, once.
async fn is_a_turn(daemon: &Daemon) {
    let metrics = daemon.get("/metrics").await.text();
    let line = "redrive_turns_total{kind=\"messages_lost\"} 1";
    assert!(metrics.lines().any(|it| it == line), "{metrics}");
}

async fn publish_by_command(scene: &Scene, execution: &str, path: &str) {
    let (url, body) = (scene.url(path), scene.installation.path("body"));
    std::fs::write(&body, "by a command").unwrap();
    let (url, body) = (url.as_str(), body.to_str().unwrap());
    let publish = ["publish", "--execution", execution, "--url", url, "--body-file", body];
    scene.installation.run(&publish).await.expect_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_was_deleted_is_told_as_lost_by_the_publish_that_makes_it_again() {
    let scene = Scene::servers().await;
    let mut daemon = with_waiting(&scene).await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    let queue = delete(&scene, "waits", "/dead").await;
    for _ in 0..2 {
        publish_by_command(&scene, "waits", "/dead").await;
    }
    let told = losses(&scene, &queue).await;
    assert_eq!(told.len(), 1, "{told:?}");
    let detail = told[0]["detail"].as_str().unwrap();
    assert!(
        detail.contains("waits-1") && detail.contains("an unknown number of messages"),
        "{detail}"
    );
    let doctor = scene.installation.run(&["doctor"]).await.expect_code(1);
    assert!(doctor.stdout.contains("delivery queues gone"), "{doctor:?}");

    // One that ends in order is no loss, and what is published after its end begins another one.
    let mut daemon = scene.installation.daemon().await;
    scene.end_of("drained", "/hook").await;
    let drained = scene.queue("drained", "/hook");
    wait_until("the end of the queue", BOUND, async || {
        scene.is_missing(&drained).await.then_some(())
    })
    .await;
    publish_by_command(&scene, "drained", "/hook").await;
    assert_eq!(losses(&scene, drained.as_str()).await, Vec::<Value>::new());
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_publishes_to_a_queue_that_was_deleted_tells_of_the_loss() {
    let scene = Scene::servers().await;
    let mut daemon = with_waiting(&scene).await;
    let waits = scene.queue("waits", "/dead");
    let queue = delete(&scene, "waits", "/dead").await;
    let url = scene.url("/dead");
    let body = serde_json::json!({"execution_id": "waits", "url": url.as_str(), "body": "through the daemon"});
    let answer = daemon.post("/v1/notifications", &body).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let told = wait_until("the loss in the audit", BOUND, async || {
        losses(&scene, &queue).await.into_iter().next()
    })
    .await;
    assert!(told["detail"].as_str().unwrap().contains("waits-1"), "{told}");
    assert!(scene.ready(&waits).await >= 1);
    is_a_turn(&daemon).await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_was_deleted_is_not_said_to_wait_for_a_worker() {
    let scene = Scene::servers().await;
    let mut daemon = with_waiting(&scene).await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    let drained = scene.queue("drained", "/hook");
    assert_eq!(scene.why(&drained).await["state"], "empty");
    delete(&scene, "drained", "/hook").await;
    let why = scene.why(&drained).await;
    assert!(why["state"].is_null() && why["code"].is_null(), "{why}");
    let text = why["text"].as_str().unwrap();
    assert!(text.contains("does not have it any more"), "{why}");
}

/// The broker counts after a while; without its number nobody knows that something is missing.
async fn counted(scene: &Scene, path: &str) {
    let (vhost, queue) = (scene.vhost.as_ref().unwrap(), scene.queue("waits", path));
    let path = format!("/api/queues/{}/{}", vhost.name, queue.as_str());
    wait_until("the broker to count what waits", BOUND, async || {
        let told = vhost.manage("GET", &path, None).await.json();
        (told["messages"] == 3).then_some(())
    })
    .await;
}

/// [`with_waiting`], where nothing but the number that was listed can tell of a loss.
async fn with_counted(scene: &Scene) -> Daemon {
    let daemon = with_waiting(scene).await;
    unprobed(scene).await;
    counted(scene, "/dead").await;
    listed(&daemon).await;
    daemon
}

/// The daemon has the numbers that the broker has now, and has had no lease of the queue for so long that nothing of its
/// own can have been missing in them.
async fn listed(daemon: &Daemon) {
    let began = Instant::now();
    wait_until("the span in which a broker counts", BOUND, async || {
        (began.elapsed() > LAG).then_some(())
    })
    .await;
    // One that began before is not enough.
    let before = listings(daemon).await;
    wait_until("two listings", BOUND, async || {
        (listings(daemon).await >= before + 2).then_some(())
    })
    .await;
}

async fn listings(daemon: &Daemon) -> u64 {
    let metrics = daemon.get("/metrics").await.text();
    let counted = |line: &str| {
        line.strip_prefix("redrive_listing_duration_seconds_count ")?
            .parse()
            .ok()
    };
    metrics.lines().find_map(counted).unwrap_or(0)
}

/// Else a probe of the URL would find out first.
async fn unprobed(scene: &Scene) {
    let url = scene.url("/dead");
    let disable = ["endpoint", "disable", url.as_str(), "--yes"];
    wait_until("a plan that no probe makes stale", BOUND, async || {
        (scene.installation.run(&disable).await.code == Some(0)).then_some(())
    })
    .await;
}

/// Makes the queue as it was, with nothing in it and bound to nothing.
async fn make(scene: &Scene, queue: &str, arguments: Value) {
    let vhost = scene.vhost.as_ref().unwrap();
    let path = format!("/api/queues/{}/{queue}", vhost.name);
    let durable = json!({"durable": true, "arguments": arguments});
    vhost.manage("PUT", &path, Some(&durable)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_somebody_deleted_and_made_again_is_told_as_lost() {
    let scene = Scene::servers().await;
    let mut daemon = with_counted(&scene).await;
    let url = scene.url("/dead");
    let queue = delete(&scene, "waits", "/dead").await;
    make(&scene, &queue, json!({})).await;
    let body = json!({"execution_id": "waits", "url": url.as_str(), "body": "through the daemon"});
    let answer = daemon.post("/v1/notifications", &body).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let told = wait_until("the loss in the audit", BOUND, async || {
        losses(&scene, &queue).await.into_iter().next()
    })
    .await;
    assert_eq!(told["result"], "emptied", "{told}");
    let doctor = scene.installation.run(&["doctor"]).await.expect_code(1);
    assert!(doctor.stdout.contains("delivery queues emptied"), "{doctor:?}");
    assert!(!doctor.stdout.contains("nothing is lost: find out"), "{doctor:?}");
    is_a_turn(&daemon).await;
    assert_eq!(losses(&scene, &queue).await.len(), 1, "once");
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_made_again_is_told_as_lost_though_nothing_is_published_to_it() {
    let scene = Scene::servers().await;
    let mut daemon = with_counted(&scene).await;
    let queue = delete(&scene, "waits", "/dead").await;
    make(&scene, &queue, json!({})).await;
    let told = wait_until("the loss in the audit", BOUND, async || {
        losses(&scene, &queue).await.into_iter().next()
    })
    .await;
    assert!(told["detail"].as_str().unwrap().contains("3 messages"), "{told}");
    is_a_turn(&daemon).await;
    assert_eq!(losses(&scene, &queue).await.len(), 1, "once");
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

/// Nobody else may look at a queue of this name while it is held.
async fn exclusive(vhost: &Vhost, queue: &str) -> (Connection, Channel) {
    let connection = Connection::connect(&vhost.amqp(), ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    let own = QueueDeclareOptions {
        exclusive: true,
        ..QueueDeclareOptions::default()
    };
    let declaring = channel.queue_declare(queue.into(), own, FieldTable::default());
    declaring.await.unwrap();
    (connection, channel)
}

/// The head was parked: nothing would try it again but a person.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_published_after_a_loss_does_not_wait_for_the_head_that_is_gone() {
    let mut scene = Scene::servers().await;
    scene.receiver.behave_by("/hook", |attempt| {
        Behaviour::Status(if attempt.body.starts_with(b"waits") { 422 } else { 200 })
    });
    let policy = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 1, "minimum_delay": 1, "maximum_delay": 1,
        "maximum_delay_retries": 0, "backoff_retries": 0, "on_refused": "retry", "on_exhausted": "park"
    });
    scene.installation.set("delivery", "retry_policy", policy);
    let mut daemon = scene.installation.daemon().await;
    scene.publish("drained", "/hook", 1).await;
    scene.delivered(1).await;
    for number in 1..=3 {
        scene.publish("waits", "/hook", number).await;
    }
    let waits = scene.queue("waits", "/hook");
    wait_until("a head that is parked", BOUND, async || {
        (scene.why(&waits).await["state"] == "parked").then_some(())
    })
    .await;
    counted(&scene, "/hook").await;
    listed(&daemon).await;
    let queue = delete(&scene, "waits", "/hook").await;
    make(&scene, &queue, json!({})).await;
    let body = json!({"execution_id": "waits", "url": scene.url("/hook").as_str(), "body": "a good one"});
    let answer = daemon.post("/v1/notifications", &body).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    scene.delivered(2).await;
    wait_until("the loss in the audit", BOUND, async || {
        losses(&scene, &queue).await.into_iter().next()
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_queue_that_cannot_be_looked_at_keeps_no_other_from_being_bound() {
    let scene = Scene::servers().await;
    let mut daemon = with_counted(&scene).await;
    scene.publish("beside", "/dead", 1).await;
    listed(&daemon).await;
    let (vhost, waits) = (scene.vhost.as_ref().unwrap(), scene.queue("waits", "/dead"));
    let locked = delete(&scene, "beside", "/dead").await;
    let holder = exclusive(vhost, &locked).await;
    let exchange = format!("/api/exchanges/{}/{}", vhost.name, scene.naming().exchange());
    vhost.manage("DELETE", &exchange, None).await;
    let path = format!("/api/queues/{}/{}/bindings", vhost.name, waits.as_str());
    wait_until("the queue to be bound again", BOUND, async || {
        let bindings = vhost.manage("GET", &path, None).await.json();
        let bindings = bindings.as_array()?;
        bindings.iter().any(|one| one["source"] != "").then_some(())
    })
    .await;
    drop(holder);
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_redrive_took_out_of_a_queue_is_not_told_as_missing_when_the_exchange_is_new() {
    let scene = Scene::servers().await;
    scene.receiver.behave("/dead", Behaviour::Status(503));
    let mut daemon = with_counted(&scene).await;
    let waits = scene.queue("waits", "/dead");
    let purge = ["queue", "purge", waits.as_str(), "--yes"];
    scene.installation.run(&purge).await.expect_code(0);
    let vhost = scene.vhost.as_ref().unwrap();
    let exchange = format!("/api/exchanges/{}/{}", vhost.name, scene.naming().exchange());
    vhost.manage("DELETE", &exchange, None).await;
    // Both are bound again, and so looked at.
    let audit = wait_until("every queue to be bound", BOUND, async || {
        let audit = scene.installation.run(&["audit", "--limit", "100", "--json"]).await;
        let lines = audit.expect_code(0).json().as_array().unwrap().clone();
        let is_bound = |line: &Value| line["detail"].as_str().unwrap().contains("bound; none is gone");
        lines.iter().any(is_bound).then_some(lines)
    })
    .await;
    assert!(audit.iter().all(|line| line["result"] != "emptied"), "{audit:?}");
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vhost_that_is_back_with_empty_queues_is_told_as_lost() {
    let scene = Scene::servers().await;
    let mut daemon = with_counted(&scene).await;
    let vhost = scene.vhost.as_ref().unwrap();
    let waits = scene.queue("waits", "/dead");
    let path = format!("/api/definitions/{}", vhost.name);
    let mut definitions = vhost.manage("GET", &path, None).await.json();
    // As from a backup of the definitions of the whole vhost. RabbitMQ exports no internal exchange, but what is bound to one,
    // and since 4.3 it refuses that.
    let bindings = definitions["bindings"].as_array_mut().unwrap();
    let is_internal = |one: &Value| {
        one.as_str()
            .is_some_and(|name| name.starts_with("redrive.identity") || name.contains(".bound"))
    };
    bindings.retain(|one| !is_internal(&one["source"]) && !is_internal(&one["destination"]));
    let whole = format!("/api/vhosts/{}", vhost.name);
    vhost.manage("DELETE", &whole, None).await;
    vhost.manage("PUT", &whole, None).await;
    let user = url::Url::parse(&vhost.node.amqp).unwrap().username().to_owned();
    let all = json!({"configure": ".*", "write": ".*", "read": ".*"});
    let rights = format!("/api/permissions/{}/{user}", vhost.name);
    vhost.manage("PUT", &rights, Some(&all)).await;
    vhost.manage("POST", &path, Some(&definitions)).await;
    let told = wait_until("the loss in the audit", BOUND, async || {
        losses(&scene, waits.as_str()).await.into_iter().next()
    })
    .await;
    assert!(["emptied", "gone"].iter().any(|it| told["result"] == *it), "{told}");
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_was_put_back_from_an_older_copy_is_told() {
    let scene = Scene::servers().await;
    // The first one begins with a store that gave no numbers yet.
    let mut first = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    scene.delivered(1).await;
    assert_eq!(first.stop().await, Some(0), "{}", first.log());
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 2).await;
    scene.delivered(2).await;
    put_older_numbers(&scene).await;
    // Numbers are kept, and compared, also at the end.
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    let doctor = scene.installation.run(&["doctor"]).await.expect_code(1);
    assert!(doctor.stdout.contains("broker is older"), "{doctor:?}");
}

/// What an older copy of the disk of the broker would have.
async fn put_older_numbers(scene: &Scene) {
    let vhost = scene.vhost.as_ref().unwrap();
    let bindings = format!("/api/bindings/{}", vhost.name);
    let kept = wait_until("numbers on the broker", BOUND, async || {
        let all = vhost.manage("GET", &bindings, None).await.json();
        let is_kept = |one: &&Value| {
            one["routing_key"]
                .as_str()
                .is_some_and(|key| key.starts_with("numbers."))
        };
        all.as_array().unwrap().iter().find(is_kept).cloned()
    })
    .await;
    let of = |key: &str| kept[key].as_str().unwrap().to_owned();
    let between = format!("{bindings}/e/{}/e/{}", of("source"), of("destination"));
    let older = json!({"routing_key": "numbers.1.1"});
    vhost.manage("POST", &between, Some(&older)).await;
    vhost
        .manage("DELETE", &format!("{between}/{}", of("properties_key")), None)
        .await;
}
