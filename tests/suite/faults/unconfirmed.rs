//! A publish that the broker does not confirm ends with its id, within a bound.

use serde_json::json;

use super::proxy::Proxy;
use super::scene::{BOUND, Scene};
use crate::support::servers::{PrivateRabbit, RabbitAddress};
use crate::support::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_published_message_that_nobody_confirms_is_exit_1_with_its_id() {
    let mut scene = Scene::on_rabbit(&RabbitAddress::shared()).await;
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    let amqp = RabbitAddress::shared().amqp;
    let proxy = Proxy::stalling_at(b"the marker", &amqp).await;
    scene.installation.set("broker", "url", proxy.through(&amqp));
    let url = scene.receiver.url("/hook");
    let publish = [
        "publish",
        "--execution",
        "run",
        "--url",
        &url,
        "--body-file",
        "-",
        "--id",
        "the-id",
    ];
    let told = scene.installation.run_with_input(&publish, b"the marker").await;
    assert!(
        told.stderr.contains("the-id") && told.stderr.contains("same id"),
        "{told:?}"
    );
    told.expect_code(1);
    scene.installation.set("broker", "url", amqp.as_str());
    let repeated = scene.installation.run_with_input(&publish, b"the marker").await;
    assert!(repeated.expect_code(0).stdout.contains("the-id"));
    scene.delivered(2).await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_broker_makes_a_publish_over_http_503_with_its_id() {
    let node = PrivateRabbit::start().await;
    let scene = Scene::on_rabbit(&node.address).await;
    let mut daemon = scene.installation.daemon().await;
    let url = scene.receiver.url("/hook");
    let body = json!({"execution_id": "http", "url": url, "body": "x", "id": "http-id"});
    let opened = daemon.post("/v1/notifications", &body).await;
    assert_eq!(opened.status, 202, "{}", opened.text());
    node.freeze().await;
    let frozen = daemon.post("/v1/notifications", &body).await;
    assert_eq!(frozen.status, 503, "{}", frozen.text());
    assert_eq!(frozen.json()["id"], "http-id");
    // Nothing was sent: the broker does not even let anybody in.
    let publish = ["publish", "--execution", "run", "--url", &url, "--id", "the-id"];
    let unreachable = scene.installation.run(&publish).await;
    assert!(unreachable.stderr.contains("the-id"), "{unreachable:?}");
    unreachable.expect_code(69);
    node.thaw().await;
    wait_until("the same id to be confirmed", BOUND, async || {
        Some(daemon.post("/v1/notifications", &body).await).filter(|answer| answer.status == 202)
    })
    .await;
    scene.delivered(1).await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}
