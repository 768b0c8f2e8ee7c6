//! What was made at the start is taken away while a daemon runs: it makes it again, and says so.

use std::time::{Duration, Instant};

use redrive::internals::domain::id::QueueName;
use serde_json::{Value, json};

use super::readiness::Private;
use super::scene::{BOUND, Scene, executions};
use crate::support::daemon::{Daemon, Installation};
use crate::support::receiver::Behaviour;
use crate::support::servers::{PrivateRabbit, Vhost};
use crate::support::wait::{stays_absent, wait_until};

/// The lines that a daemon wrote about what was gone, newest first.
async fn healed(scene: &Scene) -> Vec<Value> {
    let audit = scene.installation.run(&["audit", "--limit", "100", "--json"]).await;
    let lines = audit.expect_code(0).json().as_array().unwrap().clone();
    lines.into_iter().filter(|line| line["command"] == "heal").collect()
}

async fn wait_for_heal(scene: &Scene, text: &str) -> Value {
    wait_until(format!("an audited incident with {text:?}"), BOUND, async || {
        let lines = healed(scene).await;
        lines
            .into_iter()
            .find(|line| line["detail"].as_str().is_some_and(|detail| detail.contains(text)))
    })
    .await
}

/// Queues that existed before: one is delivered and empty, one waits for its URL, which is not available.
async fn with_queues(scene: &Scene) -> Daemon {
    scene.receiver.behave("/dead", Behaviour::Status(503));
    let daemon = scene.installation.daemon().await;
    scene.publish_all(&executions(3, 3), 2).await;
    scene.publish("waits", "/dead", 1).await;
    scene.delivered(6).await;
    let waits = scene.queue("waits", "/dead");
    wait_until("a URL that is not available", BOUND, async || {
        let why = scene.why(&waits).await;
        (why["why"]["code"] == "endpoint_unavailable").then_some(())
    })
    .await;
    daemon
}

/// More of the same executions.
async fn publish_more(scene: &Scene) {
    for (execution, path) in executions(3, 3) {
        for number in 3..=4 {
            scene.publish(&execution, &path, number).await;
        }
    }
}

async fn goes_on(scene: &Scene, mut daemon: Daemon) {
    publish_more(scene).await;
    scene.publish("waits", "/dead", 2).await;
    scene.receiver.behave("/dead", Behaviour::Status(200));
    scene.finish(&mut [&mut daemon], 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_that_was_deleted_is_made_again_and_every_queue_is_bound_to_it() {
    let scene = Scene::servers().await;
    let daemon = with_queues(&scene).await;
    let vhost = scene.vhost.as_ref().unwrap();
    let exchange = scene.naming().exchange();
    vhost
        .manage("DELETE", &format!("/api/exchanges/{}/{exchange}", vhost.name), None)
        .await;
    let entry = wait_for_heal(&scene, &exchange).await;
    assert!(entry["actor"].as_str().unwrap().starts_with("daemon:"), "{entry}");
    wait_for_heal(&scene, "queues are bound; none is gone").await;
    let doctor = scene.installation.run(&["doctor", "--json"]).await;
    let checks = doctor.json();
    let incident = checks
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["result"] == "broken" && check["name"] == "incident");
    assert!(incident.is_some(), "{checks}");
    // The queue of a URL that takes nothing is held by nobody, and takes publishes again all the same.
    goes_on(&scene, daemon).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vhost_that_was_deleted_is_made_again_with_a_list_of_what_is_gone() {
    let scene = Scene::servers().await;
    let mut daemon = with_queues(&scene).await;
    let vhost = scene.vhost.as_ref().unwrap();
    let waits = scene.queue("waits", "/dead");
    vhost
        .manage("DELETE", &format!("/api/vhosts/{}", vhost.name), None)
        .await;
    wait_for_heal(&scene, "vhost").await;
    let gone = wait_for_heal(&scene, waits.as_str()).await;
    assert_eq!(gone["result"], "gone", "{gone}");
    let detail = gone["detail"].as_str().unwrap();
    assert!(detail.contains("waits-1"), "the head is named: {detail}");
    daemon.wait_until_ready().await;
    let before = scene.receiver.delivered();
    scene.receiver.behave("/dead", Behaviour::Status(200));
    publish_more(&scene).await;
    scene.delivered(before + 6).await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vhost_is_not_made_again_where_that_is_not_allowed() {
    let mut scene = Scene::servers().await;
    scene.installation.set("broker", "provision", false);
    let mut daemon = scene.installation.daemon().await;
    let vhost = scene.vhost.as_ref().unwrap();
    vhost
        .manage("DELETE", &format!("/api/vhosts/{}", vhost.name), None)
        .await;
    not_ready_saying(&daemon, "broker", &vhost.name).await;
    stays_absent("the vhost", Duration::from_secs(4), async || {
        let answer = vhost
            .node
            .request("GET", &format!("/api/vhosts/{}", vhost.name))
            .send()
            .await;
        (answer.status < 300).then_some(answer.status)
    })
    .await;
    // Made by hand, with rights: the rest follows by itself.
    vhost.manage("PUT", &format!("/api/vhosts/{}", vhost.name), None).await;
    let all = json!({"configure": ".*", "write": ".*", "read": ".*"});
    let user = url::Url::parse(&vhost.node.amqp).unwrap().username().to_owned();
    vhost
        .manage("PUT", &format!("/api/permissions/{}/{user}", vhost.name), Some(&all))
        .await;
    daemon.wait_until_ready().await;
    scene.publish_all(&executions(2, 2), 2).await;
    scene.finish(&mut [&mut daemon], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wake_queue_and_dead_letter_queue_are_made_again() {
    let scene = Scene::servers().await;
    let daemon = with_queues(&scene).await;
    let vhost = scene.vhost.as_ref().unwrap();
    let (wake, dead) = (scene.naming().wake_queue(), scene.naming().dead_letter_queue());
    for queue in [&wake, &dead] {
        vhost
            .manage("DELETE", &format!("/api/queues/{}/{queue}", vhost.name), None)
            .await;
    }
    wait_until("both queues", BOUND, async || {
        let queues = vhost.queues().await;
        let is_there = |name: &String| queues.iter().any(|queue| queue["name"] == name.as_str());
        (is_there(&wake) && is_there(&dead)).then_some(())
    })
    .await;
    wait_for_heal(&scene, "queue").await;
    goes_on(&scene, daemon).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_comes_back_empty_is_furnished_again() {
    let node = PrivateRabbit::start().await;
    let scene = Scene::on_rabbit(&node.address).await;
    let mut daemon = with_queues(&scene).await;
    for step in ["stop_app", "reset", "start_app"] {
        node.address.control(&[step]).await;
    }
    let waits = scene.queue("waits", "/dead");
    wait_for_heal(&scene, waits.as_str()).await;
    daemon.wait_until_ready().await;
    let before = scene.receiver.delivered();
    publish_more(&scene).await;
    scene.delivered(before + 6).await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

async fn is_made(vhost: &Vhost) -> Option<()> {
    let path = format!("/api/vhosts/{}", vhost.name);
    (vhost.node.request("GET", &path).send().await.status < 300).then_some(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vhost_that_is_deleted_again_at_once_is_made_again_a_minute_later() {
    let vhost = Vhost::create().await;
    let installation = Installation::on_rabbit(&vhost);
    let mut daemon = installation.daemon().await;
    let path = format!("/api/vhosts/{}", vhost.name);
    vhost.manage("DELETE", &path, None).await;
    let made = wait_until("the vhost to be made again", BOUND, async || {
        is_made(&vhost).await.map(|()| Instant::now())
    })
    .await;
    daemon.wait_until_ready().await;
    vhost.manage("DELETE", &path, None).await;
    not_ready_saying(&daemon, "broker", &vhost.name).await;
    wait_until("the vhost to be made once more", BOUND, async || is_made(&vhost).await).await;
    let between = made.elapsed();
    assert!(between > Duration::from_secs(55), "made again after {between:?}");
    daemon.wait_until_ready().await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vhost_is_not_made_again_by_a_user_who_may_not_make_one() {
    let private = Private::new().await;
    let (vhost, mut daemon) = (&private.vhost, private.installation.daemon().await);
    private.tags("management").await;
    vhost
        .manage("DELETE", &format!("/api/vhosts/{}", vhost.name), None)
        .await;
    not_ready_saying(&daemon, "broker", &vhost.name).await;
    stays_absent("the vhost", Duration::from_secs(4), async || is_made(vhost).await).await;
    not_ready_saying(&daemon, "broker", "add_vhost").await;
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exchanges_that_say_whose_the_broker_is_are_made_again() {
    let vhost = Vhost::create().await;
    let installation = Installation::on_rabbit(&vhost);
    let mut daemon = installation.daemon().await;
    let identities = async || {
        let all = vhost
            .manage("GET", &format!("/api/exchanges/{}", vhost.name), None)
            .await;
        let names = all.json().as_array().unwrap().clone();
        let names = names.iter().filter_map(|one| one["name"].as_str().map(str::to_owned));
        names
            .filter(|name| name.starts_with("redrive.identity"))
            .collect::<Vec<_>>()
    };
    let before = identities().await;
    assert_eq!(before.len(), 2, "{before:?}");
    for name in &before {
        let path = format!("/api/exchanges/{}/{name}", vhost.name);
        vhost.manage("DELETE", &path, None).await;
        wait_until(format!("{name} to be made again"), BOUND, async || {
            (identities().await == before).then_some(())
        })
        .await;
        daemon.wait_until_ready().await;
    }
    let other = Installation::on_rabbit(&vhost)
        .run(&["endpoints"])
        .await
        .expect_code(78);
    assert!(other.stderr.contains("store adopt"), "{}", other.stderr);
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

/// Takes away what leads from the exchange to a queue, as a person with the management page can.
async fn unbind(scene: &Scene, queue: &QueueName) {
    let (vhost, exchange) = (scene.vhost.as_ref().unwrap(), scene.naming().exchange());
    let queue = queue.as_str();
    let path = format!("/api/bindings/{}/e/{exchange}/q/{queue}/{queue}", vhost.name);
    vhost.manage("DELETE", &path, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_binding_of_a_queue_that_nobody_works_on_is_made_again_by_whoever_is_published_to() {
    let scene = Scene::servers().await;
    let mut daemon = with_queues(&scene).await;
    let (waits, paused) = (scene.queue("waits", "/dead"), scene.queue("pauses", "/hook-0"));
    scene.publish("pauses", "/hook-0", 1).await;
    scene.delivered(7).await;
    let (pause, url) = (["queue", "pause", paused.as_str(), "--yes"], scene.url("/dead"));
    scene.installation.run(&pause).await.expect_code(0);
    // Else the next probe of the URL would bind its queue.
    let disable = ["endpoint", "disable", url.as_str(), "--yes"];
    wait_until("a plan that no probe makes stale", BOUND, async || {
        (scene.installation.run(&disable).await.code == Some(0)).then_some(())
    })
    .await;
    for (queue, execution, path) in [(&waits, "waits", "/dead"), (&paused, "pauses", "/hook-0")] {
        unbind(&scene, queue).await;
        let url = scene.url(path);
        let body = json!({"execution_id": execution, "url": url.as_str(), "body": "through the daemon"});
        let answer = daemon.post("/v1/notifications", &body).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        wait_until("an audited binding", BOUND, async || {
            let of_it = |line: &Value| line["target"] == queue.as_str() && line["result"] == "bound";
            healed(&scene).await.iter().any(of_it).then_some(())
        })
        .await;
        assert!(scene.ready(queue).await >= 1);
    }
    // A publisher without a daemon does the same.
    unbind(&scene, &waits).await;
    let url = scene.url("/dead");
    let (body, url) = (scene.installation.path("body"), url.as_str());
    std::fs::write(&body, "by a command").unwrap();
    let body = body.to_str().unwrap();
    let publish = ["publish", "--execution", "waits", "--url", url, "--body-file", body];
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    scene.installation.run(&publish).await.expect_code(0);
    assert_eq!(scene.ready(&waits).await, 3);
}

/// How soon `/readyz` tells a fault.
pub(super) const TOLD: Duration = Duration::from_secs(3);

/// What `/readyz` says of a part once it is not ready because of it. Each answer comes at once.
pub(super) async fn not_ready(daemon: &Daemon, part: &str) -> String {
    not_ready_saying(daemon, part, "").await
}

/// The same, once `text` is in it.
pub(super) async fn not_ready_saying(daemon: &Daemon, part: &str, text: &str) -> String {
    wait_until(format!("{part} to be told as not ready: {text}"), TOLD, async || {
        let answer = daemon.get("/readyz").await;
        let said = answer.json();
        let problem = said[part]["problem"].as_str().unwrap_or_default();
        (answer.status == 503 && said[part]["ok"] == false && problem.contains(text)).then(|| problem.to_owned())
    })
    .await
}

/// A disk that is full, or a reader of the log that is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_log_cannot_be_written_delivers_all_the_same() {
    let scene = Scene::embedded().await;
    let mut daemon = scene.installation.spawn_daemon_after("exec 2>/dev/full");
    daemon.wait_until_ready().await;
    scene.publish_all(&executions(5, 2), 3).await;
    scene.finish(&mut [&mut daemon], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_of_another_type_is_told_and_mended_by_its_deletion() {
    let scene = Scene::servers().await;
    let mut daemon = with_queues(&scene).await;
    let vhost = scene.vhost.as_ref().unwrap();
    let exchange = scene.naming().exchange();
    let path = format!("/api/exchanges/{}/{exchange}", vhost.name);
    let fanout = json!({"type": "fanout", "durable": true});
    // The daemon may be faster, and make the right one again.
    wait_until("an exchange of another type", BOUND, async || {
        vhost.manage("DELETE", &path, None).await;
        let made = vhost.node.request("PUT", &path).json(&fanout).send().await;
        (made.status < 300).then_some(())
    })
    .await;
    not_ready_saying(&daemon, "broker", "another type").await;
    let doctor = scene.installation.run(&["doctor"]).await.expect_code(1);
    assert!(doctor.stdout.contains("another type"), "{doctor:?}");
    vhost.manage("DELETE", &path, None).await;
    daemon.wait_until_ready().await;
    goes_on(&scene, daemon).await;
}
