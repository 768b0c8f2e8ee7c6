//! 11. Invoices come late, and nothing fails: which endpoint takes so long, and who keeps it alive while it is mended?
//!
//! `3` the endpoints, `Enter` this one: its attempts take more than a second each; `P` nothing more is sent to it while its
//! people restart it, `U` `y` it goes on: 5 keys.

use std::time::Duration;

use super::operator::{ENTER, Operator, Seat};
use super::outside::{BOUND, audited, delivered, json, numbered};
use crate::faults::scene::Scene;
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

const EXECUTIONS: [&str; 3] = ["order-17", "order-18", "order-19"];
const EACH: u32 = 12;
/// What an answer takes.
const SLOW: Duration = Duration::from_millis(1_500);

async fn play(seat: Seat) {
    let mut scene = Scene::servers().await;
    scene.installation.set("console", "refresh_s", 1);
    scene.receiver.behave("/invoices", Behaviour::Status(200).after(SLOW));
    let mut daemon = scene.installation.daemon().await;
    for number in 1..=EACH {
        for execution in EXECUTIONS {
            scene.publish(execution, "/invoices", number).await;
        }
    }
    let mut operator = Operator::seated(seat, &scene.installation, &daemon).await;
    operator.press("3");
    operator.sees(&["available", "127.0.0.1"]).await;
    operator.press(ENTER);
    operator
        .sees(&["attempts take", "half within 1.", "0 % failed", "last minute"])
        .await;
    operator.press("P");
    operator.sees(&["paused by", "U resume"]).await;
    let url = scene.url("/invoices").as_str().to_owned();
    let shown = json(&scene.installation, &["endpoint", "show", &url]).await;
    assert_eq!(shown["pace"]["stage"], "paused", "{shown}");

    scene.receiver.behave("/invoices", Behaviour::Status(200));
    operator.asks("U").await;
    operator.sees(&["resume", "/invoices"]).await;
    operator.accepts().await;
    for execution in EXECUTIONS {
        let all = numbered(execution, 1..=EACH);
        wait_until(execution, BOUND, async || {
            (delivered(&scene, execution, "/invoices") == all).then_some(())
        })
        .await;
    }
    for command in ["endpoint pause", "endpoint resume"] {
        assert_eq!(audited(&scene.installation, &[], command).await.len(), 1, "{command}");
    }
    operator.leave().await;
    scene.finish(&mut [&mut daemon], 0).await;
}

at_both_seats!(play);
