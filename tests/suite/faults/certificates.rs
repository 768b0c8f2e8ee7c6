//! TLS with certificates of a private authority: nothing is sent to whom nobody trusts, and everything once the
//! authority is trusted.

use redrive::internals::domain::id::QueueName;
use serde_json::json;
use sqlx::{Connection, SqliteConnection};

use super::scene::{BOUND, Scene};
use crate::support::certificates::Authority;
use crate::support::receiver::{Attempt, Behaviour};
use crate::support::servers::PrivateRabbit;
use crate::support::wait::wait_until;

/// Where the trusted roots are read from instead of the system's places.
const TRUSTED: &str = "SSL_CERT_FILE";

/// Says in the store that the head of a queue cannot be read, so that the reader that decodes nothing takes it out.
async fn quarantined(scene: &Scene, queue: &QueueName) {
    let file = format!("sqlite://{}", scene.installation.path("store.db").display());
    let mut file = SqliteConnection::connect(&file).await.unwrap();
    let mark = sqlx::query("UPDATE delivery_queues SET quarantined = 'for this test' WHERE name = ?");
    let marked = mark.bind(queue.as_str()).execute(&mut file).await.unwrap();
    assert_eq!(marked.rows_affected(), 1);
    file.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_with_a_private_certificate_gets_its_notifications_once_it_is_trusted() {
    let mut scene = Scene::servers().await;
    let authority = Authority::create();
    let front = authority.front(scene.receiver.address()).await;
    scene.receiver.behave("*", Behaviour::Status(200));
    let url = front.url("/hook?a=b");
    let mut distrusts = scene.installation.daemon().await;
    let body = json!({"execution_id": "run", "url": url, "body": "the body", "id": "the-id"});
    assert_eq!(distrusts.post("/v1/notifications", &body).await.status, 202);
    let shown = wait_until("an endpoint that is not trusted", BOUND, async || {
        let shown = scene.installation.run(&["endpoint", "show", &url, "--json"]).await;
        Some(shown).filter(|shown| shown.code == Some(0) && shown.json()["state"] == "unavailable")
    });
    let shown = shown.await.json();
    let error = shown["last_error"].as_str().unwrap().to_lowercase();
    assert!(error.contains("certificate"), "{shown}");
    assert_eq!(distrusts.stop().await, Some(0), "{}", distrusts.log());
    assert_eq!(scene.receiver.count(), 0, "nothing was said");
    let root = authority.root().display().to_string();
    scene.installation.set_environment(TRUSTED, &root);
    let mut trusts = scene.installation.daemon().await;
    scene.delivered(1).await;
    let attempts = scene.receiver.attempts();
    let received: Vec<_> = attempts.iter().map(Attempt::id).collect();
    assert_eq!(received, ["the-id"]);
    assert_eq!(
        (attempts[0].path.as_str(), attempts[0].body.as_slice()),
        ("/hook?a=b", b"the body".as_slice())
    );
    assert_eq!(trusts.stop().await, Some(0), "{}", trusts.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_that_is_trusted_later_is_trusted_without_a_restart() {
    let mut scene = Scene::embedded().await;
    let (before, added) = (Authority::create(), Authority::create());
    let bundle = scene.installation.path("authorities.pem");
    std::fs::copy(before.root(), &bundle).unwrap();
    scene
        .installation
        .set_environment(TRUSTED, &bundle.display().to_string());
    let front = added.front(scene.receiver.address()).await;
    scene.receiver.behave("*", Behaviour::Status(200));
    let url = front.url("/hook");
    let mut daemon = scene.installation.daemon().await;
    let body = json!({"execution_id": "run", "url": url, "body": "the body"});
    assert_eq!(daemon.post("/v1/notifications", &body).await.status, 202);
    wait_until("an endpoint that is not trusted", BOUND, async || {
        let shown = scene.installation.run(&["endpoint", "show", &url, "--json"]).await;
        (shown.code == Some(0) && shown.json()["state"] == "unavailable").then_some(())
    })
    .await;
    std::fs::copy(added.root(), &bundle).unwrap();
    wait_until("the delivery", BOUND, async || {
        scene.installation.run(&["redeliver", &url, "--yes"]).await;
        (scene.receiver.count() == 1).then_some(())
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_with_a_private_certificate_is_used_once_it_is_trusted() {
    let authority = Authority::create();
    let node = PrivateRabbit::start_with_certificate(authority.directory()).await;
    let mut scene = Scene::on_rabbit(&node.address).await;
    scene.installation.set("broker", "url", node.amqps());
    let url = scene.receiver.url("/hook");
    let publish = ["publish", "--execution", "run", "--url", &url];
    let distrusts = scene.installation.run(&publish).await.expect_code(69);
    assert!(distrusts.stderr.to_lowercase().contains("certificate"), "{distrusts:?}");
    let root = authority.root().display().to_string();
    scene.installation.set_environment(TRUSTED, &root);
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    scene.installation.run(&publish).await.expect_code(0);
    scene.delivered(2).await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    // The reader that decodes nothing trusts the same authority.
    let published = scene.installation.run(&publish).await.expect_code(0);
    let queue = scene.queue("run", "/hook");
    quarantined(&scene, &queue).await;
    let rescue = ["queue", "rescue", queue.as_str(), "--yes", "--json"];
    let rescued = scene.installation.run(&rescue).await.expect_code(0).json();
    assert_eq!(rescued["rescued"], true, "{rescued} after {published:?}");
    assert_eq!(scene.ready(&queue).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_demands_a_certificate_is_used_with_one() {
    let authority = Authority::with_client();
    let node = PrivateRabbit::start_with_certificate(authority.directory()).await;
    let mut scene = Scene::on_rabbit(&node.address).await;
    scene.installation.set("broker", "url", node.amqps());
    scene
        .installation
        .set("broker", "management_url", node.management_tls());
    scene.installation.set_environment(TRUSTED, &authority.file("ca.pem"));
    let url = scene.receiver.url("/hook");
    let publish = ["publish", "--execution", "run", "--url", &url];
    let refused = scene.installation.run(&publish).await.expect_code(69).stderr;
    assert!(refused.contains("set broker.tls"), "{refused}");
    let checked = async |scene: &Scene, name: &str| {
        let checks = scene.installation.run(&["doctor", "--json"]).await.json();
        let named = checks.as_array().unwrap().iter().find(|check| check["name"] == name);
        let check = named.unwrap().clone();
        (
            check["result"].as_str().unwrap().to_owned(),
            check["found"].as_str().unwrap().to_owned(),
        )
    };
    for part in ["broker", "management"] {
        let (_, found) = checked(&scene, part).await;
        assert!(found.contains("set broker.tls"), "{part}: {found}");
    }
    // What the configuration trusts is enough.
    let another = Authority::create();
    scene.installation.set_environment(TRUSTED, &another.file("ca.pem"));
    let files = |key: &str| json!({"certificate": authority.file("client.pem"), "key": key, "authority": authority.file("ca.pem")});
    scene.installation.set("broker", "tls", files("/nowhere/client.key"));
    let missing = scene.installation.run(&publish).await.stderr;
    assert!(missing.contains("broker.tls.key: /nowhere/client.key"), "{missing}");
    scene
        .installation
        .set("broker", "tls", files(&authority.file("client.key")));
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    scene.delivered(1).await;
    for part in ["broker", "management"] {
        let (result, found) = checked(&scene, part).await;
        assert_eq!(result, "fine", "{part}: {found}");
    }
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    // So does the reader that decodes nothing.
    scene.installation.run(&publish).await.expect_code(0);
    let queue = scene.queue("run", "/hook");
    quarantined(&scene, &queue).await;
    let rescue = ["queue", "rescue", queue.as_str(), "--yes", "--json"];
    let rescued = scene.installation.run(&rescue).await.expect_code(0).json();
    assert_eq!(rescued["rescued"], true, "{rescued}");
}
