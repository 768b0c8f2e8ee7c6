//! A store belongs to one broker, and what it says is about that one.

use serde_json::Value;

use crate::runs::scene::Scene;
use crate::support::daemon::Installation;
use crate::support::servers::{Database, Vhost};

async fn named(installation: &Installation, command: &[&str]) -> Vec<Value> {
    let listed = installation.run(command).await.expect_code(0).json();
    let rows = listed.as_array().unwrap().iter();
    rows.map(|row| row["broker"].clone()).collect()
}

async fn refused(installation: &Installation, old: &Vhost, new: &Vhost) {
    for command in [
        &["queues"][..],
        &["audit"],
        &["run", "list"],
        &["publish", "--execution", "run", "--url", "http://127.0.0.1:9/hook"],
    ] {
        let outcome = installation.run(command).await.expect_code(78);
        for says in [
            &format!("/{}", old.name),
            &format!("/{}", new.name),
            "redrive store adopt",
        ] {
            assert!(outcome.stderr.contains(says), "{command:?}: {outcome:?}");
        }
    }
    let mut daemon = installation.spawn_daemon();
    assert_eq!(daemon.wait().await.code(), Some(78), "{}", daemon.log());
    assert!(
        new.queues()
            .await
            .iter()
            .all(|queue| !queue["name"].as_str().unwrap().contains(".dead"))
    );
    let path = format!("/api/exchanges/{}", new.name);
    let exchanges = new.manage("GET", &path, None).await.text();
    assert!(!exchanges.contains("identity"), "nothing is claimed: {exchanges}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_of_one_broker_is_refused_on_another_until_it_is_adopted() {
    let database = Database::create().await;
    for store in [None, Some(database.url())] {
        let (first, second) = (Vhost::create().await, Vhost::create().await);
        let mut installation = match &store {
            None => Installation::on_rabbit(&first),
            Some(url) => Installation::on_servers(&first, url),
        };
        installation.daemon().await.stop().await;
        let url = "http://127.0.0.1:9/hook";
        installation
            .run(&["publish", "--execution", "run", "--url", url])
            .await
            .expect_code(0);
        installation
            .run(&["endpoint", "disable", url, "--yes"])
            .await
            .expect_code(0);
        let brokers = named(&installation, &["audit", "--json"]).await;
        assert!(!brokers.is_empty());
        assert!(
            brokers
                .iter()
                .all(|one| one.as_str().unwrap().ends_with(&format!("/{}", first.name))),
            "{brokers:?}"
        );
        installation.run(&["audit", "verify"]).await.expect_code(0);

        installation.set("broker", "vhost", second.name.as_str());
        refused(&installation, &first, &second).await;
        installation.run(&["store", "adopt", "--yes"]).await.expect_code(0);
        installation.run(&["queues"]).await.expect_code(0);
        installation.daemon().await.stop().await;
    }
}

/// Without any daemon: what an order leaves, a run above all, is about the broker that it was carried out on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_not_gone_on_with_on_another_broker() {
    let mut scene = Scene::sqlite().await;
    let second = Vhost::create().await;
    scene.die(3).await;
    let canary = ["dead", "redrive", "--all", "--canary", "1", "--yes"];
    scene.run(&canary).await.expect_code(3);
    let run = scene.run_is(&["canary"]).await;
    let id = run["id"].as_str().unwrap().to_owned();
    let first = scene.vhost.name.clone();
    assert!(run["broker"].as_str().unwrap().ends_with(&format!("/{first}")), "{run}");
    let resume = ["run", "resume", id.as_str(), "--yes"];
    scene.installation.set("broker", "vhost", second.name.as_str());
    let refused = scene.installation.run(&resume).await.expect_code(78);
    assert!(refused.stderr.contains("belongs to the broker"), "{refused:?}");
    scene.installation.set("broker", "vhost", first.as_str());
    scene.installation.run(&resume).await.expect_code(0);
}
