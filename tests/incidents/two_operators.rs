//! 8. Two operators at one incident: one redrives before the bug is mended, the other sees it and stops it.
//!
//! Ana: `5`, `R`, `t` 20 `Enter` slowly, 600 `Enter`: 7 keys. Ben: sees her run on every screen, is told of it when he
//! wants the same letters (`5`, `R`), and ends it: `7`, `X` `y`: 5 keys.

use super::Operator;
use super::operator::ENTER;
use super::outside::{BOUND, audited, holds, messages, who};
use crate::runs::scene::{DEAD, ORIGIN, Scene};
use crate::support::wait::wait_until;

const BUG: u32 = 600;

/// She sends everything back, twenty a second.
async fn redrives(operator: &mut Operator) {
    operator.press("5");
    operator.sees(&["600", "rejected", "R redrives the whole group"]).await;
    operator.asks("R").await;
    operator.press("t");
    operator.sees(&["Messages a second (empty = unlimited)"]).await;
    operator.types("20").await;
    operator.press(ENTER);
    operator.sees(&["rate: 20 a second", "takes about 30 s"]).await;
    operator.confirmation().await;
    operator.accepts_by_typing("600").await;
    operator.sees(&["redrive begun"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_operators_each_sees_what_the_other_does_and_one_stops_the_others_run() {
    let mut scene = Scene::postgres().await;
    scene.installation.set("console", "refresh_s", 1);
    scene.die(BUG).await;
    let mut daemon = scene.installation.daemon().await;
    // What somebody calls himself is not who he is.
    scene.installation.set_environment("USER", "alice (CTO)");
    let mut ana = Operator::at(&scene.installation, &[]).await;
    let mut ben = Operator::at(&scene.installation, &[]).await;
    let (by_ana, by_ben) = (format!("console:{}", ana.name()), format!("console:{}", ben.name()));
    ana.sees(&[&format!("{} is also connected", ben.name())]).await;
    ben.sees(&[&format!("{} is also connected", ana.name())]).await;
    redrives(&mut ana).await;

    ben.sees(&["dead redrive", "of 600", &format!("by {by_ana}"), "press 7 to see them"])
        .await;
    wait_until("her run to have the queue", BOUND, async || {
        (messages(&scene.vhost, ORIGIN).await > Some(0)).then_some(())
    })
    .await;
    ben.press("5");
    ben.sees(&["rejected", "R redrives the whole group"]).await;
    ben.press("R");
    ben.sees(&[&format!("a dead redrive of {by_ana} is running"), "pause or cancel it"])
        .await;
    ben.press("7");
    ben.sees(&["running", "20/s", &format!("at most 20 a second; by {by_ana}")])
        .await;
    ben.asks("X").await;
    ben.sees(&["cancel", "the selected row"]).await;
    ben.accepts().await;
    ben.sees(&["cancelled"]).await;
    ana.sees_no("dead redrive").await;
    ana.press("7");
    ana.sees(&["cancelled", &format!("by {by_ana}")]).await;

    let run = wait_until("a run that nobody works on", BOUND, async || {
        let run = scene.newest_run().await;
        (run["state"] == "cancelled" && run["owner"].is_null()).then_some(run)
    })
    .await;
    let done = run["done"].as_u64().unwrap();
    assert!(done < BUG.into(), "{run}");
    holds(&scene.vhost, DEAD, u64::from(BUG) - done).await;
    assert_eq!(messages(&scene.vhost, ORIGIN).await, Some(done));
    let cancelled = audited(&scene.installation, &[], "run cancel").await;
    assert_eq!(cancelled[0][0], by_ben);
    assert!(
        audited(&scene.installation, &[], "dead redrive")
            .await
            .iter()
            .all(|[who, ..]| *who == by_ana),
        "only she redrove"
    );
    ana.leave().await;
    ben.press("1");
    ben.sees(&["delivering: "]).await;
    ben.sees_no("is also connected").await;
    ben.leave().await;
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_tells_of_a_run_of_somebody_else_that_waits_for_an_answer() {
    let mut scene = Scene::postgres().await;
    scene.installation.set("console", "refresh_s", 1);
    scene.die(50).await;
    let asks = ["dead", "redrive", "--all", "--canary", "10", "--yes"];
    scene.run(&asks).await.expect_code(3);
    let by_ana = format!("cli:{}", who());
    let mut ben = Operator::at(&scene.installation, &[]).await;
    ben.sees(&["dead redrive", "10 of 50", "asks", &format!("by {by_ana}")])
        .await;
    ben.press("5");
    ben.sees(&["rejected", "R redrives the whole group"]).await;
    ben.asks("R").await;
    ben.sees(&[
        &format!("a dead redrive of {by_ana} waits for an answer, 10 of 50 done"),
        "orders.dead",
    ])
    .await;
    ben.press(ENTER);
    ben.sees_no("cancel ]").await;
    assert_eq!(messages(&scene.vhost, DEAD).await, Some(40), "nothing was done");
    ben.leave().await;
}
