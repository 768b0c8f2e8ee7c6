//! A publish that the broker does not confirm ends with its id, within a bound.

use serde_json::json;

use super::scene::{BOUND, Scene};
use crate::support::servers::PrivateRabbit;
use crate::support::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_without_a_confirm_ends_with_its_id() {
    let node = PrivateRabbit::start().await;
    let scene = Scene::on_rabbit(&node.address).await;
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    scene.delivered(1).await;
    let url = scene.receiver.url("/hook");
    let target = ["--execution", "other", "--url", &url, "--id", "the-id"];
    let publish = [&["publish"], &target[..]].concat();

    // An alarm: the connection opens, the message is sent, and the confirm does not come.
    let watermark = async |part: &'static str| {
        node.address.control(&["set_vm_memory_high_watermark", part]).await;
    };
    watermark("0.00000001").await;
    let alarmed = scene.installation.run(&publish).await.expect_code(1);
    assert!(alarmed.stderr.contains("the-id"), "{alarmed:?}");
    watermark("0.4").await;
    scene.installation.run(&publish).await.expect_code(0);

    // Through the daemon, whose connection is open when the broker freezes.
    let body = json!({"execution_id": "http", "url": url, "body": "x", "id": "http-id"});
    let opened = wait_until("the daemon to publish", BOUND, async || {
        Some(daemon.post("/v1/notifications", &body).await).filter(|answer| answer.status == 202)
    });
    opened.await;
    node.freeze().await;
    let frozen = daemon.post("/v1/notifications", &body).await;
    assert_eq!(frozen.status, 503, "{}", frozen.text());
    assert_eq!(frozen.json()["id"], "http-id");
    // Nothing was sent: the broker does not even let anybody in.
    let unreachable = scene.installation.run(&publish).await;
    assert_eq!(unreachable.code, Some(69), "{unreachable:?}");
    node.thaw().await;
    wait_until("the same id to be confirmed", BOUND, async || {
        Some(daemon.post("/v1/notifications", &body).await).filter(|answer| answer.status == 202)
    })
    .await;
    scene.delivered(3).await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}
