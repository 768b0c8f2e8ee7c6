//! 6. "Nothing comes for order-7." Everything else moves; why does this queue not?
//!
//! `2` the queues, `/` r-7 `Enter` this one, `Enter` why: somebody paused it and forgot; `U` `y` it goes on: 9 keys.

use super::operator::{ENTER, Operator, Seat};
use super::outside::{audited, delivered, holds, numbered, who};
use crate::faults::scene::Scene;

async fn play(seat: Seat) {
    let mut scene = Scene::servers().await;
    scene.installation.set("console", "refresh_s", 1);
    let mut daemon = scene.installation.daemon().await;
    scene.publish("order-7", "/hook", 1).await;
    scene.delivered(1).await;
    let queue = scene.queue("order-7", "/hook");
    let pause = [
        "queue",
        "pause",
        queue.as_str(),
        "--yes",
        "--reason",
        "INC-4711 load test",
    ];
    scene.installation.run(&pause).await.expect_code(0);
    for execution in 1..=12 {
        for number in 2..=4 {
            scene.publish(&format!("order-{execution}"), "/hook", number).await;
        }
    }
    scene.delivered(34).await;

    let mut operator = Operator::seated(seat, &scene.installation, &daemon).await;
    operator
        .sees(&["1 queue is paused by a person; everything else moves"])
        .await;
    operator.press("2");
    operator.sees(&["order-7", "order-8"]).await;
    operator.press("/");
    operator.sees(&["keep the filter"]).await;
    operator.types("r-7").await;
    operator.press(ENTER);
    operator.sees(&["paused", "1–1 of 1"]).await;
    operator.press(ENTER);
    operator
        .sees(&[
            queue.as_str(),
            &format!("paused by cli:{}: INC-4711 load test", who()),
            "3 ready",
            "U resume",
        ])
        .await;
    operator.asks("U").await;
    operator.sees(&["resume", "the selected row"]).await;
    operator.accepts().await;
    operator.sees(&["resumed", "nothing waits"]).await;

    scene.delivered(37).await;
    assert_eq!(delivered(&scene, "order-7", "/hook"), numbered("order-7", 1..=4));
    holds(scene.vhost.as_ref().unwrap(), queue.as_str(), 0).await;
    let resumed = audited(&scene.installation, &[], "queue resume").await;
    assert_eq!(resumed[0][0], operator.actor());
    operator.leave().await;
    scene.finish(&mut [&mut daemon], 0).await;
}

at_both_seats!(play);
