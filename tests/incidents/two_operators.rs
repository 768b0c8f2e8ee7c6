//! 8. Two operators at one incident: one redrives before the bug is mended, the other sees it and stops it.
//!
//! Ana: `5`, `R`, `t` 9 `Enter` slowly, 600 `Enter`, `7` what became of it: 10 keys. Ben: sees her run on every screen, is told of it when he
//! wants the same letters (`5`, `R`), and ends it: `7`, `X` `y`: 5 keys.

use serde_json::json;

use super::operator::{ENTER, Operator, Seat};
use super::outside::{BOUND, audited, holds, messages, who};
use crate::runs::scene::{DEAD, ORIGIN, Scene};
use crate::support::daemon::Daemon;
use crate::support::wait::wait_until;

const BUG: u32 = 600;
const TOKENS: [(&str, &str); 2] = [
    ("ana", "token-of-ana-and-of-nobody-else"),
    ("ben", "token-of-ben-and-of-nobody-else"),
];

/// She sends everything back, nine a second.
async fn redrives(operator: &mut Operator) {
    operator.press("5");
    operator.sees(&["600", "rejected", "R redrives them"]).await;
    operator.asks("R").await;
    operator.press("t");
    operator.sees(&["Messages a second (empty = unlimited)"]).await;
    operator.types("9").await;
    operator.press(ENTER);
    operator.sees(&["rate: 9 a second", "takes about 1m"]).await;
    operator.confirmation().await;
    operator.accepts_by_typing("600").await;
    operator.sees(&["redrive begun"]).await;
}

/// Each with a token of his own, where they are elsewhere.
async fn sit_down(seat: Seat, scene: &Scene, daemon: &Daemon) -> [Operator; 2] {
    match seat {
        Seat::Here => [
            Operator::at(seat, &scene.installation, &[]).await,
            Operator::at(seat, &scene.installation, &[]).await,
        ],
        Seat::Far => [
            Operator::far(daemon, TOKENS[0]).await,
            Operator::far(daemon, TOKENS[1]).await,
        ],
    }
}

async fn play(seat: Seat) {
    let mut scene = Scene::postgres().await;
    scene.installation.set("console", "refresh_s", 1);
    scene.die(BUG).await;
    let tokens = TOKENS.map(|(name, value)| json!({"name": name, "value": value, "scopes": ["operate"]}));
    scene.installation.set("api", "tokens", json!(tokens));
    let mut daemon = scene.installation.daemon().await;
    // What somebody calls himself is not who he is.
    scene.installation.set_environment("USER", "alice (CTO)");
    let [mut ana, mut ben] = sit_down(seat, &scene, &daemon).await;
    let (by_ana, by_ben) = (ana.actor().to_owned(), ben.actor().to_owned());
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
    ben.sees(&["rejected", "R redrives them"]).await;
    ben.press("R");
    ben.sees(&[&format!("a dead redrive of {by_ana} is running"), "pause or cancel it"])
        .await;
    ben.press("7");
    ben.sees(&["running", &format!("at most 9 a second; by {by_ana}")])
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
    let mut ben = Operator::at(Seat::Here, &scene.installation, &[]).await;
    ben.sees(&["dead redrive", "10 of 50", "asks", &format!("by {by_ana}")])
        .await;
    ben.press("5");
    ben.sees(&["rejected", "R redrives them"]).await;
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

at_both_seats!(play);
