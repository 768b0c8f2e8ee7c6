//! 2. One poison message holds its queue up; the others of its endpoint go on.
//!
//! `2` the queues, `Enter` why this one stands, `V` `y` its first message is taken out: 4 keys, whether no client can
//! read it or no receiver takes it.

use serde_json::json;

use super::operator::{ENTER, Operator, Seat};
use super::outside::{audited, delivered, holds, json, listed, numbered};
use crate::faults::scene::{Scene, executions};
use crate::rabbitmq::raw;
use crate::support::receiver::Behaviour;

/// A content type that is no UTF-8: AMQP clients close the channel over it, again and again.
const UNREADABLE: &[u8] = b"text/\xff\xfe";

async fn no_client_can_read_it(seat: Seat) {
    let mut scene = Scene::servers().await;
    scene.installation.set("console", "refresh_s", 1);
    let mut daemon = scene.installation.daemon().await;
    let all = executions(6, 2);
    scene.publish_all(&all, 1).await;
    scene.delivered(6).await;
    let (execution, path) = &all[3];
    let poisoned = scene.queue(execution, path);
    raw::publish(
        &scene.naming(),
        &poisoned,
        raw::header_with_content_type(1, UNREADABLE),
        b"x",
    )
    .await;
    for (execution, path) in &all {
        scene.publish(execution, path, 2).await;
    }
    scene.delivered(11).await;

    let mut operator = Operator::seated(seat, &scene.installation, &daemon).await;
    operator
        .sees(&["1 queue waits for a person: press 2, worst first", "quarantined"])
        .await;
    operator.press("2");
    operator.sees(&["quarantined", execution]).await;
    operator.press(ENTER);
    operator
        .sees(&[poisoned.as_str(), "V moves it", "the messages behind it continue"])
        .await;
    operator.asks("V").await;
    operator.sees(&["take the head out", poisoned.as_str()]).await;
    operator.accepts().await;
    operator.sees(&["the first message of", "is in the store"]).await;

    scene.delivered(12).await;
    assert_eq!(delivered(&scene, execution, path), numbered(execution, 1..=2));
    assert_ne!(scene.why(&poisoned).await["state"], "quarantined");
    assert_eq!(audited(&scene.installation, &[], "queue rescue").await.len(), 1);
    operator.leave().await;
    scene.finish(&mut [&mut daemon], 2).await;
}

async fn its_receiver_cannot_take_it(seat: Seat) {
    let mut scene = Scene::servers().await;
    let hourly = json!({
        "retries_with_no_delay": 1, "minimum_delay_retries": 500, "minimum_delay": 3600, "maximum_delay": 3600,
        "maximum_delay_retries": 0, "backoff_retries": 0
    });
    scene.installation.set("delivery", "retry_policy", hourly);
    scene.installation.set("console", "refresh_s", 1);
    scene.receiver.behave_by("/hook", |attempt| {
        Behaviour::Status(if attempt.id() == "run-2-1" { 500 } else { 200 })
    });
    let mut daemon = scene.installation.daemon().await;
    for (execution, path) in executions(4, 1).iter().map(|(execution, _)| (execution, "/hook")) {
        for number in 1..=3 {
            scene.publish(execution, path, number).await;
        }
    }
    scene.delivered(9).await;
    let poisoned = scene.queue("run-2", "/hook");

    let mut operator = Operator::seated(seat, &scene.installation, &daemon).await;
    operator
        .sees(&["1 queue waits for the next attempt of its head; next in"])
        .await;
    operator.press("2");
    operator.sees(&["waiting for retry", "run-2"]).await;
    operator.press(ENTER);
    operator
        .sees(&[
            poisoned.as_str(),
            "last answer 500",
            "V takes it out to the dead letters",
            "run-2-1",
        ])
        .await;
    operator.asks("V").await;
    operator
        .sees(&["move the first message of", "later messages overtake it"])
        .await;
    operator.accepts().await;
    operator
        .sees(&["the first message of", "goes to the dead letters"])
        .await;

    scene.delivered(11).await;
    assert_eq!(delivered(&scene, "run-2", "/hook"), numbered("run-2", 2..=3));
    let dead = listed(&scene.installation, &["dead", "list"], "a dead letter", |rows| {
        rows.len() == 1
    })
    .await;
    assert_eq!(dead[0]["message_id"], "run-2-1", "{dead:?}");
    holds(scene.vhost.as_ref().unwrap(), poisoned.as_str(), 0).await;
    let endpoints = json(&scene.installation, &["endpoints", "--unavailable"]).await;
    assert_eq!(endpoints, json!([]), "the endpoint was never at fault");
    assert!(!audited(&scene.installation, &[], "queue skip").await.is_empty());
    operator.leave().await;
    assert_eq!(daemon.stop().await, Some(0));
}

at_both_seats!(no_client_can_read_it as unreadable);
at_both_seats!(its_receiver_cannot_take_it as refused);
