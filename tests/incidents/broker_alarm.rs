//! 7. The broker has an alarm: it takes no publishes, because of what piled up behind a forgotten pause.
//!
//! `!` the broker's nodes, `Esc`; `2` the queues, `*` all of them, `U` `y` they go on: 6 keys. Deliveries go on under an alarm, and make room.
//!
//! The node is the test's own. What it holds in memory is little, so the test plays its memory: the watermark is far
//! below what is used as long as messages wait, and back where it was once none does.

use redrive::internals::domain::id::QueueName;

use super::operator::{ESC, Operator, Seat};
use super::outside::{BOUND, audited, delivered, holds, numbered};
use crate::faults::scene::Scene;
use crate::support::servers::PrivateRabbit;
use crate::support::wait::wait_until;

const PAUSED: [&str; 2] = ["import-1", "import-2"];

async fn watermark(rabbit: &PrivateRabbit, share: &str) {
    rabbit.address.control(&["set_vm_memory_high_watermark", share]).await;
}

/// What the node itself says of its health.
async fn has_alarm(rabbit: &PrivateRabbit) -> bool {
    let asked = rabbit.address.request("GET", "/api/health/checks/alarms");
    asked.send().await.status == 503
}

/// A pause holds once the daemon has let go of the queue: then it is shown.
async fn is_let_go(scene: &Scene, queue: &QueueName) {
    wait_until("the pause to hold", BOUND, async || {
        let row = scene.why(queue).await;
        (row["state"] == "paused" && row["owner"].is_null()).then_some(())
    })
    .await;
}

/// The broker counts what a node uses every few seconds.
async fn is_told_by_doctor(scene: &Scene) {
    wait_until("the node to be told of", BOUND, async || {
        let checks = scene
            .installation
            .run(&["doctor", "--json"])
            .await
            .expect_code(1)
            .json();
        let node = checks
            .as_array()
            .unwrap()
            .iter()
            .find(|check| check["name"] == "node")?;
        let found = node["found"].as_str().unwrap();
        (node["result"] == "broken" && found.contains("memory")).then_some(())
    })
    .await;
}

async fn play(seat: Seat) {
    let rabbit = PrivateRabbit::start().await;
    let mut scene = Scene::on_rabbit(&rabbit.address).await;
    scene.installation.set("console", "refresh_s", 1);
    let mut daemon = scene.installation.daemon().await;
    for execution in PAUSED {
        scene.publish(execution, "/hook", 1).await;
    }
    scene.delivered(2).await;
    for execution in PAUSED {
        let queue = scene.queue(execution, "/hook");
        let pause = ["queue", "pause", queue.as_str(), "--yes", "--reason", "release 12"];
        scene.installation.run(&pause).await.expect_code(0);
        is_let_go(&scene, &queue).await;
        for number in 2..=40 {
            scene.publish(execution, "/hook", number).await;
        }
    }
    watermark(&rabbit, "0.0001").await;
    wait_until("the alarm", BOUND, async || has_alarm(&rabbit).await.then_some(())).await;

    is_told_by_doctor(&scene).await;

    let mut operator = Operator::seated(seat, &scene.installation, &daemon).await;
    operator
        .sees(&[
            "Broker alarm: publishing is blocked",
            "deliveries continue: ",
            "memory",
            "Deliveries continue and make room: 78 messages wait",
            "2 paused",
        ])
        .await;
    operator.press("!");
    operator
        .sees(&["▼ node", "rabbit", "memory", "read 0 s ago", "free memory"])
        .await;
    operator.press(ESC);
    operator.press("2");
    operator
        .sees(&[
            "takes no publishes, deliveries continue",
            "paused",
            "import-1",
            "import-2",
        ])
        .await;
    operator.press("*");
    operator.sees(&["marked"]).await;
    operator.asks("U").await;
    operator.sees(&["resume", "2 targets", "2 shown"]).await;
    operator.accepts().await;
    operator.sees(&["resumed 2 queues"]).await;
    scene.delivered(80).await;
    assert!(has_alarm(&rabbit).await, "they were delivered under the alarm");
    watermark(&rabbit, "0.4").await;
    operator.sees_no("takes no publishes").await;

    for execution in PAUSED {
        let queue = scene.queue(execution, "/hook");
        holds(scene.vhost.as_ref().unwrap(), queue.as_str(), 0).await;
        assert_eq!(delivered(&scene, execution, "/hook"), numbered(execution, 1..=40));
    }
    scene.publish("import-3", "/hook", 1).await;
    scene.delivered(81).await;
    assert_eq!(audited(&scene.installation, &[], "queue resume").await.len(), 2);
    operator.leave().await;
    assert_eq!(daemon.stop().await, Some(0));
}

at_both_seats!(play);
