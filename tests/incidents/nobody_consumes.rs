//! 12. "Nothing is billed any more." The queue is another application's: what is known of it, and whose turn is it?
//!
//! `2` the queues, `/` bil `Enter` this one, `Enter` why: its messages wait and nobody consumes it; its people start their
//! consumer, and the screen says that it is empty: 5 keys.

use serde_json::json;

use super::operator::{ENTER, Operator, Seat};
use super::outside::{filled, holds};
use crate::faults::scene::Scene;

const QUEUE: &str = "billing.work";

async fn play(seat: Seat) {
    let mut scene = Scene::servers().await;
    scene.installation.set("console", "refresh_s", 1);
    let mut daemon = scene.installation.daemon().await;
    let vhost = scene.vhost.as_ref().unwrap();
    filled(vhost, QUEUE, json!({}), 5).await;
    holds(vhost, QUEUE, 5).await;

    let mut operator = Operator::seated(seat, &scene.installation, &daemon).await;
    operator.press("2");
    operator.sees(&["billing.work"]).await;
    operator.press("/");
    operator.sees(&["keep the filter"]).await;
    operator.types("bil").await;
    operator.press(ENTER);
    operator.sees(&["1–1 of 1"]).await;
    operator.press(ENTER);
    operator.sees(&[QUEUE, "5 messages wait", "nobody consumes it"]).await;

    // Its people start what takes them.
    let take = format!("/api/queues/{}/{QUEUE}/get", vhost.name);
    let all = json!({"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto"});
    vhost.manage("POST", &take, Some(&all)).await;
    holds(vhost, QUEUE, 0).await;
    operator.sees(&["it is empty"]).await;
    operator.leave().await;
    scene.finish(&mut [&mut daemon], 0).await;
}

at_both_seats!(play);
