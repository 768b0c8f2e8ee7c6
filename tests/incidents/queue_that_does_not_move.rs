//! 6. "Nothing comes for order-7." Everything else moves; why does this queue not?
//!
//! `2` the queues, `/` order-7 `Enter` this one, `Enter` why: somebody paused it and forgot; `U` `y` it goes on: 7 keys.

use super::Operator;
use super::operator::ENTER;
use super::outside::{audited, delivered, holds, numbered, who};
use crate::faults::scene::Scene;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_does_not_move_says_who_paused_it_and_why_and_goes_on() {
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

    let mut operator = Operator::at(&scene.installation, &[]).await;
    operator
        .sees(&["1 queue is paused by a person; everything else moves"])
        .await;
    operator.press("2");
    operator.sees(&["order-7", "order-8"]).await;
    operator.press("/");
    operator.sees(&["keep the filter"]).await;
    operator.types("order-7").await;
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
    assert_eq!(resumed[0][0], format!("console:{}", operator.name()));
    operator.leave().await;
    scene.finish(&mut [&mut daemon], 0).await;
}
