//! Queues that will surprise somebody are found before they do.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::runs::scene::{BOUND, Scene};
use crate::support::wait::wait_until;

async fn declare(scene: &Scene, name: &str, arguments: Value) {
    let body = json!({"durable": true, "arguments": arguments});
    let path = format!("/api/queues/{}/{name}", scene.vhost.name);
    scene.vhost.manage("PUT", &path, Some(&body)).await;
}

/// Until the broker says that nothing happened in a queue for two seconds. It asks every queue when it counts them
/// all, and a queue that was asked is not idle for a second: `doctor` again and again would wait for ever.
async fn idle(scene: &Scene, name: &str) {
    let path = format!("/api/queues/{}/{name}", scene.vhost.name);
    let mut since = None;
    wait_until("the broker to call the queue idle", BOUND, async || {
        let queue = scene.vhost.manage("GET", &path, None).await.json();
        queue["idle_since"].as_str()?;
        let since = since.get_or_insert_with(Instant::now);
        (since.elapsed() > Duration::from_secs(2)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_and_every_row_tell_what_a_queue_will_do() {
    let scene = Scene::sqlite().await;
    scene.run(&["job", "submit"]).await.expect_code(0);
    let published = ["publish", "--execution", "e", "--url", "http://127.0.0.1:9/x"];
    scene.run(&published).await.expect_code(0);
    declare(&scene, "fine", json!({})).await;
    declare(&scene, "lost", json!({"x-dead-letter-exchange": "nowhere"})).await;
    declare(&scene, "short", json!({"x-max-length": 5})).await;
    declare(
        &scene,
        "limited",
        json!({"x-queue-type": "quorum", "x-delivery-limit": 3}),
    )
    .await;
    declare(
        &scene,
        "work",
        json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work.dead"}),
    )
    .await;
    declare(&scene, "work.dead", json!({"x-message-ttl": 60_000})).await;
    let policy = json!({"pattern": "^redrive[.]e", "definition": {"expires": 3_600_000}, "apply-to": "queues"});
    let path = format!("/api/policies/{}/short-life", scene.vhost.name);
    scene.vhost.manage("PUT", &path, Some(&policy)).await;
    let queues = scene
        .run(&["queues", "--json", "--limit", "100"])
        .await
        .expect_code(0)
        .json();
    let codes = |name: &str| -> Vec<String> {
        let rows = queues.as_array().unwrap();
        let row = rows
            .iter()
            .find(|row| row["name"].as_str().unwrap().starts_with(name))
            .unwrap();
        let findings = row["findings"].as_array().unwrap();
        findings
            .iter()
            .map(|one| one["code"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(codes("fine"), Vec::<String>::new());
    assert_eq!(codes("lost"), ["dead_letter_exchange_missing"]);
    assert_eq!(codes("short"), ["drops_head"]);
    assert_eq!(codes("limited"), ["delivery_limit_small"]);
    assert_eq!(codes("work.dead"), ["dead_letter_lifetime"]);
    assert_eq!(codes("redrive.e."), ["expires_on_delivery"]);
    let doctor = scene.run(&["doctor", "--json"]).await.json();
    let checks = doctor.as_array().unwrap();
    for code in ["expires_on_delivery", "dead_letter_exchange_missing", "drops_head"] {
        let name = format!("queues: {code}");
        let check = checks.iter().find(|check| check["name"] == name.as_str());
        let check = check.unwrap_or_else(|| panic!("{code}: {doctor}"));
        assert!(check["mend"].as_str().is_some_and(|mend| !mend.is_empty()), "{check}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lifetime_by_policy_is_lengthened_by_a_policy_for_that_queue_alone() {
    let scene = Scene::sqlite().await;
    declare(&scene, "mine", json!({"x-queue-type": "quorum"})).await;
    declare(&scene, "other", json!({"x-queue-type": "quorum"})).await;
    let policy = json!({
        "pattern": "^(mine|other)$",
        "definition": {"expires": 3_600_000, "max-length": 1_000},
        "apply-to": "queues",
        "priority": 3,
    });
    let path = format!("/api/policies/{}/hour", scene.vhost.name);
    scene.vhost.manage("PUT", &path, Some(&policy)).await;
    let refused = scene.run(&["expiring", "extend", "mine", "--yes"]).await.expect_code(5);
    assert!(refused.stderr.contains("quorum"), "{}", refused.stderr);
    let extended = scene
        .run(&["expiring", "extend", "mine", "--ttl", "7200", "--yes", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(extended[0]["result"], "extended");
    let lifetime = async |name: &str| {
        let listed = scene.run(&["expiring", "list", "--json"]).await.expect_code(0).json();
        let rows = listed.as_array().unwrap().clone();
        let row = rows.into_iter().find(|row| row["name"] == name).unwrap();
        row["ttl_s"].as_f64()
    };
    assert_eq!(
        (lifetime("mine").await, lifetime("other").await),
        (Some(7200.0), Some(3600.0))
    );
    let path = format!("/api/policies/{}/redrive.extend.mine", scene.vhost.name);
    let put = scene.vhost.manage("GET", &path, None).await.json();
    assert_eq!(put["definition"]["max-length"], 1_000, "the rest is as it was: {put}");
    // The queue goes, and its policy with it.
    scene.delete("mine").await;
    let _daemon = scene.installation.daemon().await;
    wait_until("the policy of a queue that is gone to be removed", BOUND, async || {
        let path = format!("/api/policies/{}", scene.vhost.name);
        let policies = scene.vhost.manage("GET", &path, None).await.json();
        (policies.as_array()?.len() == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_tells_what_is_lost_within_the_hour_and_what_should_have_gone() {
    let mut scene = Scene::sqlite().await;
    let check = async |scene: &Scene, name: &str| -> Option<Value> {
        let doctor = scene.run(&["doctor", "--json"]).await.json();
        let checks = doctor.as_array()?.clone();
        checks.into_iter().find(|check| check["name"] == name)
    };
    let fine = check(&scene, "expiring").await.unwrap();
    assert_eq!(fine["result"], "fine", "{fine}");
    let id = redrive::internals::ambient::new_id();
    for arguments in [
        &["job", "submit", "--id", &id, "--ttl", "600"][..],
        &["job", "publish", &id, "result"],
    ] {
        scene.run(arguments).await.expect_code(0);
    }
    wait_until("what is lost soon to be told", BOUND, async || {
        let found = check(&scene, "expiring").await?;
        let told = found["found"] == "1 queue goes within the hour, with 1 message in it";
        told.then(|| assert!(found["mend"].as_str().unwrap().contains("expiring save"), "{found}"))
    })
    .await;
    scene.installation.set("janitor", "save_before_expiry", true);
    let fine = check(&scene, "expiring").await.unwrap();
    assert_eq!(fine["result"], "fine", "{fine}");
    // Without a lifetime, and unused for longer than such queues live.
    // Whatever the pattern says, queues of its own are none.
    let pattern = r"^left|\.(dead|wake)$";
    scene.installation.set("janitor", "leftover_pattern", pattern);
    scene.installation.set("janitor", "job_queue_ttl_s", 1);
    declare(&scene, "left", json!({})).await;
    idle(&scene, "left").await;
    wait_until("a leftover to be told", BOUND, async || {
        let found = check(&scene, "expiring: leftovers").await?;
        let told = found["found"].as_str()?.starts_with("1 queue outlived its time");
        told.then(|| assert!(found["mend"].as_str().unwrap().contains("expiring purge"), "{found}"))
    })
    .await;
}

async fn publish(scene: &Scene, queue: &str, messages: usize) {
    let published = json!({
        "properties": {}, "routing_key": queue, "payload": "1", "payload_encoding": "string",
    });
    let path = format!("/api/exchanges/{}/amq.default/publish", scene.vhost.name);
    for _ in 0..messages {
        scene.vhost.manage("POST", &path, Some(&published)).await;
    }
}

/// The save of a queue.
async fn saved(scene: &Scene, queue: &str) -> String {
    let arguments = ["expiring", "save", queue, "--yes", "--json"];
    let saved = scene.run(&arguments).await.expect_code(0).json();
    saved[0]["save"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_saved_is_not_restored_into_a_queue_that_would_drop_some_of_it() {
    let scene = Scene::sqlite().await;
    declare(&scene, "theirs", json!({"x-expires": 3_600_000, "x-max-length": 3})).await;
    declare(&scene, "small", json!({"x-max-length-bytes": 2})).await;
    publish(&scene, "theirs", 3).await;
    let first = saved(&scene, "theirs").await;
    let refused = scene
        .run(&["expiring", "restore", &first, "--to", "small", "--yes"])
        .await
        .expect_code(5);
    assert!(refused.stderr.contains("the oldest 1 would be lost"), "{refused:?}");
    publish(&scene, "theirs", 2).await;
    let second = saved(&scene, "theirs").await;
    // Each has room alone, and while the queue is gone nothing is in the way of both.
    scene.delete("theirs").await;
    let both = scene
        .run(&["expiring", "restore", &first, &second, "--yes", "--json"])
        .await
        .expect_code(3)
        .json();
    assert_eq!(
        (&both[0]["messages"], &both[1]["messages"]),
        (&3.into(), &0.into()),
        "{both}"
    );
    assert!(
        both[1]["why"].as_str().unwrap().contains("the oldest 2 would be lost"),
        "{both}"
    );
    let saves = scene.run(&["expiring", "saves", "--json"]).await.expect_code(0).json();
    let left = saves
        .as_array()
        .unwrap()
        .iter()
        .find(|save| save["id"] == *second)
        .unwrap();
    assert_eq!(left["left"], 2, "{saves}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_of_others_is_made_again_without_bindings_and_the_plan_says_so() {
    let scene = Scene::sqlite().await;
    declare(&scene, "theirs", json!({"x-expires": 3_600_000})).await;
    publish(&scene, "theirs", 1).await;
    let save = saved(&scene, "theirs").await;
    let save = save.as_str();
    scene.delete("theirs").await;
    let plan = scene
        .run(&["expiring", "restore", save, "--dry-run"])
        .await
        .expect_code(0);
    let text = format!("{}{}", plan.stdout, plan.stderr);
    assert!(text.contains("without its bindings"), "{text}");
    assert!(
        text.contains("put back without delivery_mode: "),
        "it was transient: {text}"
    );
    scene.run(&["expiring", "restore", save, "--yes"]).await.expect_code(0);
    let path = format!("/api/queues/{}/theirs/bindings", scene.vhost.name);
    let bindings = scene.vhost.manage("GET", &path, None).await.json();
    let sources: Vec<&str> = bindings
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["source"].as_str())
        .collect();
    assert_eq!(sources, [""], "nothing of ours is bound to it: {bindings}");
    assert_eq!(scene.ready("theirs").await, Some(1));
}
