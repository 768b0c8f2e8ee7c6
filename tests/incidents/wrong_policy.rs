//! 3. Somebody saved a wrong retry policy: the endpoint is up again, and is tried in a day.
//!
//! `3` the endpoints, `o p` the policy of this one, `H` its versions, down to the one before, `R` `y` as it was: 7 keys.

use serde_json::json;

use super::operator::{DOWN, Operator, Seat};
use super::outside::{audited, json, listed};
use crate::faults::scene::Scene;
use crate::support::receiver::Behaviour;

/// A policy for the URL, by somebody.
async fn set(scene: &mut Scene, policy: &str) {
    let url = scene.url("/hook");
    let set = ["policy", "set", "--url", url.as_str(), policy, "--yes"];
    scene.installation.run(&set).await.expect_code(0);
}

async fn play(seat: Seat) {
    let mut scene = Scene::servers().await;
    scene.installation.set("console", "refresh_s", 1);
    let each_second = r#"{"retries_with_no_delay":0,"minimum_delay_retries":500,"minimum_delay":1}"#;
    let each_day =
        r#"{"retries_with_no_delay":0,"minimum_delay_retries":300,"minimum_delay":86400,"maximum_delay":86400}"#;
    set(&mut scene, each_second).await;
    set(&mut scene, each_day).await;
    scene.receiver.behave("/hook", Behaviour::Status(503));
    let mut daemon = scene.installation.daemon().await;
    for number in 1..=4 {
        scene.publish("run", "/hook", number).await;
    }
    let down = ["endpoints", "--unavailable"];
    listed(&scene.installation, &down, "an endpoint that is down", |rows| {
        rows.len() == 1 && rows[0]["waiting"] == 4
    })
    .await;
    scene.receiver.behave("/hook", Behaviour::Status(200));

    let mut operator = Operator::seated(seat, &scene.installation, &daemon).await;
    operator
        .sees(&["1 endpoint is not available", "4 messages wait", "next attempt in 23h"])
        .await;
    operator.press("3");
    operator.sees(&["unavailable", "/hook", "503", "in 23h"]).await;
    operator.press("o");
    operator.press("p");
    operator
        .sees(&["Retry policy of", "/hook", "after 1d00h", "History 2"])
        .await;
    operator.press("H");
    operator.sees(&["Version", "cli:"]).await;
    operator.press(DOWN);
    operator.sees(&["after 1 s"]).await;
    operator.asks("R").await;
    operator.sees(&["version 2", "version 3", "attempt 2 of"]).await;
    operator.accepts().await;
    operator.sees(&["restored the policy of"]).await;

    // Nobody redelivers: the schedule that holds again does it.
    scene.delivered(4).await;
    let url = scene.url("/hook");
    let policy = json(&scene.installation, &["policy", "show", "--url", url.as_str()]).await;
    assert!(policy.to_string().contains("\"minimum_delay\":1"), "{policy}");
    let [who, ..] = audited(&scene.installation, &[], "policy restore").await.remove(0);
    assert_eq!(who, operator.actor());
    assert_eq!(json(&scene.installation, &down).await, json!([]));
    operator.leave().await;
    scene.finish(&mut [&mut daemon], 0).await;
}

at_both_seats!(play);
