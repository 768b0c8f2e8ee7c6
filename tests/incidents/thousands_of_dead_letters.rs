//! 4. One bug of a consumer made thousands of dead letters. It is mended: they go back, a few of them first.
//!
//! `5` the groups, `R` the greatest of them, `c` 10 `Enter` the first ten and then ask, `y`, `7` the runs,
//! `U` `y` the rest: 10 keys.

use super::operator::{ENTER, Operator, Seat};
use super::outside::{audited, holds, messages};
use crate::runs::scene::{DEAD, ORIGIN, Scene, numbers, publish, reject};

const BUG: u32 = 3_000;

/// A few that died of something else.
async fn others_die(scene: &Scene) {
    let (connection, channel) = scene.channel().await;
    scene.declare(&channel, "mails.dead", None).await;
    scene.declare(&channel, "mails", Some("mails.dead")).await;
    publish(&channel, "mails", 0..5).await;
    reject(&channel, "mails", 5).await;
    connection.close(200, "done".into()).await.unwrap();
    holds(&scene.vhost, "mails.dead", 5).await;
}

async fn play(seat: Seat) {
    let mut scene = Scene::postgres().await;
    scene.installation.set("console", "refresh_s", 1);
    scene.die(BUG).await;
    others_die(&scene).await;
    let mut daemon = scene.installation.daemon().await;

    let mut operator = Operator::seated(seat, &scene.installation, &daemon).await;
    operator.press("5");
    operator
        .sees(&["3,000", "rejected", "orders", "mails", "R redrives them"])
        .await;
    operator.asks("R").await;
    operator
        .sees(&[
            "redrive 3,000 dead letters",
            "→ sent to orders",
            "rate: unlimited",
            "type the number",
        ])
        .await;
    operator.press("c");
    operator.sees(&["Canary size (empty = none)"]).await;
    operator.types("10").await;
    operator.press(ENTER);
    operator.sees(&["canary: 10, then ask"]).await;
    operator.confirmation().await;
    operator.accepts().await;
    operator.press("7");
    operator
        .sees(&["asks", "10 of 3,000 done", &format!("by {}", operator.actor())])
        .await;
    holds(&scene.vhost, ORIGIN, 10).await;
    assert_eq!(messages(&scene.vhost, DEAD).await, Some(u64::from(BUG) - 10));
    operator.asks("U").await;
    operator.accepts().await;
    operator.sees(&["done", "3,000 of 3,000 done"]).await;

    let run = scene.run_is(&["done"]).await;
    assert_eq!((&run["done"], &run["failed"]), (&BUG.into(), &0.into()), "{run}");
    holds(&scene.vhost, DEAD, 0).await;
    holds(&scene.vhost, "mails.dead", 5).await;
    let back = numbers(&scene.take_all(ORIGIN).await);
    assert_eq!(back, (0..BUG).collect::<Vec<_>>(), "each once, in their order");
    let audit = audited(&scene.installation, &[], "dead redrive").await;
    assert!(audit.iter().any(|[_, _, result]| result == "done"), "{audit:?}");
    operator.leave().await;
    assert_eq!(daemon.stop().await, Some(0));
}

at_both_seats!(play);
