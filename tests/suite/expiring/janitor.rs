//! The janitor of a process that delivers.

use std::time::Duration;

use redrive::internals::broker::EventExchange;
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::job::{JobPart, Lifetime};
use redrive::internals::engine::expiring::{ExpiringOrder, Gone, SaveCause, SaveState};
use redrive::internals::engine::query;
use redrive::internals::engine::{EngineSettings, Event};
use redrive::internals::store::LifetimeQuery;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::{act, listed, message, messages, publish, saves, submit};
use crate::engine::stage::{BOUND, Stage};
use crate::support::daemon::Installation;
use crate::support::servers::Vhost;
use crate::support::statsd::Statsd;
use crate::support::wait::{wait_until, within};

pub(super) fn settings(settings: &mut EngineSettings) {
    settings.save_before_expiry = false;
}

/// Queues of others; more of them than the janitor asks for one by one.
const THEIRS: usize = 205;

/// What is told of a queue that went.
async fn told(events: &mut broadcast::Receiver<Event>, name: &str) -> (Gone, Option<u64>) {
    let heard = async {
        loop {
            match events.recv().await {
                Ok(Event::QueueGone {
                    queue, how, messages, ..
                }) if queue.as_str() == name => {
                    return (how, messages);
                }
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => panic!("nobody tells any more"),
            }
        }
    };
    within(BOUND, heard).await.expect("told of a queue that went")
}

/// Until the janitor has counted the messages of a queue.
async fn counted(stage: &Stage, name: &str, messages: u64) {
    wait_until(format!("the janitor to count {name}"), BOUND, async || {
        let query = LifetimeQuery { offset: 0, limit: 100 };
        let known = stage.store.lifetimes(&query).await.unwrap();
        known
            .iter()
            .any(|one| one.name.as_str() == name && one.messages == Some(messages))
            .then_some(())
    })
    .await;
}

/// A lifetime that nobody prolongs, whatever looks all the time: the list, the janitor, the sweep for work, and
/// an observer as a console has one.
pub(super) async fn a_watched_queue_expires_all_the_same_and_is_told_with_what_was_in_it(stage: &mut Stage) {
    stage.start();
    let stop = CancellationToken::new();
    let _observer = stage.engine.observe(Duration::from_millis(100), stop.clone());
    let mut events = stage.engine.events();
    let id = submit(stage, Lifetime::of(Duration::from_secs(20)).unwrap()).await;
    let queue = id.queue(JobPart::Result);
    publish(stage, &queue, 0..2).await;
    counted(stage, queue.as_str(), 2).await;
    let told = told(&mut events, queue.as_str());
    let watched = async {
        loop {
            let _ = listed(stage).await;
            tokio::task::yield_now().await;
        }
    };
    let (how, messages) = tokio::select! {
        told = told => told,
        () = watched => unreachable!("it watches for ever"),
    };
    assert_eq!((how, messages), (Gone::Expired, Some(2)));
    let audit = stage
        .engine
        .query(query::Audit {
            before: None,
            limit: 50,
        })
        .await
        .unwrap();
    let entry = audit
        .items
        .iter()
        .map(|entry| &entry.entry)
        .find(|entry| entry.target == queue.as_str())
        .unwrap();
    assert_eq!((entry.command.as_str(), entry.result.as_str()), ("expiring", "expired"));
    assert!(entry.detail.contains("2 messages"), "{entry:?}");
    stop.cancel();
    stage.stop().await;
}

pub(super) async fn what_is_about_to_expire_is_saved_in_time(stage: &mut Stage) {
    stage.restart(|settings| settings.save_before_expiry = true).await;
    let lifetime = Lifetime::of(Duration::from_secs(16)).unwrap();
    // RabbitMQ cannot be asked for a queue of this name, which comes first: the other one is saved all the same.
    let odd = QueueName::parse("..").unwrap();
    stage.broker.declare_expiring(&odd, lifetime).await.unwrap();
    publish(stage, &odd, 0..1).await;
    let id = submit(stage, lifetime).await;
    let queue = id.queue(JobPart::Result);
    publish(stage, &queue, 0..2).await;
    let saved = wait_until("what is about to expire to be saved", BOUND, async || {
        let mut saves = saves(stage).await.into_iter();
        saves.find(|one| one.state == SaveState::Kept && one.queue == queue)
    })
    .await;
    assert_eq!(
        (saved.cause, saved.messages, saved.queue.clone()),
        (SaveCause::Expiry, 2, queue.clone())
    );
    let restore = ExpiringOrder::Restore {
        saves: vec![saved.id],
        to: None,
    };
    stage.restart(|settings| settings.save_before_expiry = false).await;
    act(stage, restore).await;
    assert_eq!(messages(stage, &queue).await, [message(0), message(1)]);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_somebody_deletes_is_told_with_the_name() {
    let stage = Stage::rabbit_sqlite().await;
    wait_until("the event exchange", BOUND, async || {
        (stage.broker.health().await.events == EventExchange::There).then_some(())
    })
    .await;
    let mut events = stage.engine.events();
    let id = submit(&stage, Lifetime::of(Duration::from_mins(10)).unwrap()).await;
    let queue = id.queue(JobPart::Result);
    publish(&stage, &queue, 0..1).await;
    counted(&stage, queue.as_str(), 1).await;
    let vhost = stage.ground.rabbit();
    let path = format!("/api/queues/{}/{}", vhost.name, queue.as_str());
    vhost.manage("DELETE", &path, None).await;
    let user = url::Url::parse(&vhost.node.management).unwrap().username().to_owned();
    assert_eq!(told(&mut events, queue.as_str()).await, (Gone::Deleted(user), Some(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_that_lose_their_lifetimes_are_not_told_to_be_gone_however_many() {
    let stage = Stage::rabbit_sqlite().await;
    let mut events = stage.engine.events();
    let vhost = stage.ground.rabbit();
    let body = serde_json::json!({"durable": true});
    for number in 0..THEIRS {
        let path = format!("/api/queues/{}/theirs-{number}", vhost.name);
        vhost.manage("PUT", &path, Some(&body)).await;
    }
    let policy = format!("/api/policies/{}/hour", vhost.name);
    let body = serde_json::json!({"pattern": "^theirs-", "definition": {"expires": 3_600_000}, "apply-to": "queues"});
    vhost.manage("PUT", &policy, Some(&body)).await;
    let theirs = LifetimeQuery {
        limit: 1_000,
        ..LifetimeQuery::default()
    };
    let known = async |count: usize| {
        wait_until("the janitor to see how long they live", BOUND, async || {
            (stage.store.lifetimes(&theirs).await.unwrap().len() == count).then_some(())
        })
        .await;
    };
    known(THEIRS).await;
    vhost.manage("DELETE", &policy, None).await;
    known(0).await;
    // What the sweep before told is told before this.
    let id = submit(&stage, Lifetime::of(Duration::from_mins(10)).unwrap()).await;
    let other = id.queue(JobPart::Result);
    counted(&stage, other.as_str(), 0).await;
    stage.engine.job_remove(&id).await.unwrap();
    let mut gone = Vec::new();
    let told = within(BOUND, async {
        while !gone.contains(&other) {
            if let Ok(Event::QueueGone { queue, .. }) = events.recv().await {
                gone.push(queue);
            }
        }
    });
    told.await.expect("told of the job's queue");
    assert_eq!(gone, [other], "nothing of theirs is gone");
}

/// They are not asked for where no policy may give them one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_queue_to_which_a_policy_gives_a_lifetime_is_among_those_that_expire() {
    let stage = Stage::rabbit_sqlite().await;
    let vhost = stage.ground.rabbit();
    let delivery = stage.queue("order-7", "/ok");
    let body = serde_json::json!({"durable": true});
    for name in ["theirs", delivery.as_str()] {
        let path = format!("/api/queues/{}/{name}", vhost.name);
        vhost.manage("PUT", &path, Some(&body)).await;
    }
    let lives_an_hour = async |name: &str, pattern: &str| {
        let path = format!("/api/policies/{}/{name}", vhost.name);
        let definition = serde_json::json!({"expires": 3_600_000});
        let body = serde_json::json!({"pattern": pattern, "definition": definition, "apply-to": "queues"});
        vhost.manage("PUT", &path, Some(&body)).await;
    };
    lives_an_hour("theirs", "^theirs$").await;
    counted(&stage, "theirs", 0).await;
    lives_an_hour("orders", r"order-\d").await;
    counted(&stage, delivery.as_str(), 0).await;
}

/// A job's queue with its result in it.
async fn a_result(installation: &Installation) -> String {
    let id = redrive::internals::ambient::new_id();
    for arguments in [
        &["job", "submit", "--id", &id, "--ttl", "600"][..],
        &["job", "publish", &id, "result"],
    ] {
        installation.run(arguments).await.expect_code(0);
    }
    format!("jobs.{id}.result")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_kept_of_what_expires_is_saved_and_is_purged() {
    let vhost = Vhost::create().await;
    let mut installation = Installation::on_rabbit(&vhost);
    let mut statsd = Statsd::new();
    installation.set("metrics", "statsd", statsd.address().to_string());
    installation.set("metrics", "statsd_dialect", "dogstatsd");
    let queue = a_result(&installation).await;
    let daemon = installation.daemon().await;
    let number = async |line: &str| {
        let text = daemon.get("/metrics").await.text();
        text.lines().any(|one| one == line).then_some(())
    };
    for line in ["redrive_expiring_queues 3", "redrive_expiring_messages 1"] {
        wait_until(line, BOUND, async || number(line).await).await;
    }
    let body = serde_json::json!({"queue": queue, "reason": "a test"});
    let saved = daemon.post("/v1/expiring/save", &body).await;
    assert_eq!(saved.status, 200, "{}", saved.text());
    assert_eq!(
        (&saved.json()[0]["result"], &saved.json()[0]["messages"]),
        (&"saved".into(), &1.into())
    );
    wait_until("the statistics of an empty queue", BOUND, async || {
        let items = daemon.get("/v1/expiring").await.json()["items"].clone();
        let items = items.as_array().unwrap().clone();
        items
            .iter()
            .any(|one| one["name"] == queue.as_str() && one["messages"] == 0)
            .then_some(())
    })
    .await;
    let purged = daemon.post("/v1/expiring/purge", &body).await;
    assert_eq!(purged.json()[0]["result"], "purged", "{}", purged.text());
    for line in [
        "redrive_saved_messages_total{cause=\"save\"} 1",
        "redrive_purged_queues_total{messages=\"none\"} 1",
    ] {
        assert!(
            number(line).await.is_some(),
            "{line}: {}",
            daemon.get("/metrics").await.text()
        );
    }
    statsd
        .hears(&[
            "redrive_expiring_queues:3|g",
            "redrive_expiring_messages:1|g",
            "redrive_saved_messages_total:1|c|#cause:save",
            "redrive_purged_queues_total:1|c|#messages:none",
        ])
        .await;
    let saves = daemon.get("/v1/expiring/saves").await.json();
    assert_eq!(
        (&saves["items"][0]["queue"], &saves["items"][0]["left"]),
        (&queue.as_str().into(), &1.into())
    );
    let restored = installation
        .run(&[
            "expiring",
            "restore",
            saves["items"][0]["id"].as_str().unwrap(),
            "--yes",
            "--json",
        ])
        .await
        .expect_code(0)
        .json();
    assert_eq!(
        (&restored[0]["result"], &restored[0]["messages"]),
        (&"restored".into(), &1.into())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_command_and_a_dry_run_change_nothing() {
    let installation = Installation::embedded();
    let id = redrive::internals::ambient::new_id();
    installation
        .run(&["job", "submit", "--id", &id, "--ttl", "600"])
        .await
        .expect_code(0);
    installation
        .run(&["job", "publish", &id, "result"])
        .await
        .expect_code(0);
    let queue = format!("jobs.{id}.result");
    for refused in [
        ["expiring", "save", &queue, "--read-only"],
        ["expiring", "purge", &queue, "--read-only"],
    ] {
        installation.run(&refused).await.expect_code(5);
    }
    let plan = installation
        .run(&["expiring", "save", &queue, "--dry-run", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(
        (&plan["command"], &plan["messages"]),
        (&"expiring save".into(), &1.into())
    );
    installation.run(&["expiring", "save", &queue]).await.expect_code(5);
    let missing = ["expiring", "save", "nothing", "--yes"];
    installation.run(&missing).await.expect_code(4);
    let listed = installation.run(&["expiring", "saves", "--json"]).await.expect_code(0);
    assert_eq!(listed.json(), serde_json::json!([]));
    let saved = installation
        .run(&["expiring", "save", &queue, "--yes", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(saved[0]["messages"], 1);
    installation.run(&["expiring", "purge", "--yes"]).await.expect_code(0);
}
