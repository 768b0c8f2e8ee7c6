//! 10. After an outage twelve endpoints are parked and everything has piled up: it goes on, all of it, in order.
//!
//! `3` the endpoints, `A` all of them, their number `Enter`, `1` is it getting better: 6 keys.

use serde_json::json;

use super::operator::{Operator, Seat};
use super::outside::{audited, delivered, holds, json, listed, numbered};
use crate::faults::scene::{Scene, executions};
use crate::support::receiver::Behaviour;

const QUEUES: u32 = 24;
const ENDPOINTS: u32 = 12;
const EACH: u32 = 10;

async fn play(seat: Seat) {
    let mut scene = Scene::servers().await;
    let soon_given_up = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 1, "minimum_delay": 1, "maximum_delay": 1,
        "maximum_delay_retries": 0, "backoff_retries": 0
    });
    scene.installation.set("delivery", "retry_policy", soon_given_up);
    scene.installation.set("console", "refresh_s", 1);
    scene.receiver.behave("*", Behaviour::Status(503));
    let mut daemon = scene.installation.daemon().await;
    let all = executions(QUEUES, ENDPOINTS);
    scene.publish_all(&all, EACH).await;
    let down = ["endpoints", "--unavailable"];
    listed(&scene.installation, &down, "twelve endpoints that are parked", |rows| {
        rows.len() == 12 && rows.iter().all(|row| row["state"] == "parked")
    })
    .await;
    scene.receiver.behave("*", Behaviour::Status(200));

    let mut operator = Operator::seated(seat, &scene.installation, &daemon).await;
    operator
        .sees(&[
            "12 endpoints are not available",
            "240 messages wait",
            "waiting for you: R redelivers",
        ])
        .await;
    operator.press("3");
    operator.sees(&["parked", "1–12 of 12", "A redeliver shown"]).await;
    operator.asks("A").await;
    operator
        .sees(&[
            "redeliver to 12 endpoints",
            "240 messages · 12 targets",
            "type the number of endpoints: 12",
        ])
        .await;
    operator.accepts_by_typing("12").await;
    operator.sees(&["redelivered 12 endpoints: 24 queues continue"]).await;
    operator.press("1");
    operator.sees(&["Nothing is stuck, nothing waits"]).await;

    scene.delivered(240).await;
    let vhost = scene.vhost.as_ref().unwrap();
    for (execution, path) in &all {
        holds(vhost, scene.queue(execution, path).as_str(), 0).await;
        assert_eq!(delivered(&scene, execution, path), numbered(execution, 1..=EACH));
    }
    assert_eq!(json(&scene.installation, &down).await, json!([]));
    assert_eq!(audited(&scene.installation, &[], "redeliver").await.len(), 1);
    operator.leave().await;
    scene.finish(&mut [&mut daemon], 0).await;
}

at_both_seats!(play);
