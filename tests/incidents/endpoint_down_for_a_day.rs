//! 1. An endpoint is down for a day. It is up again: is it really, and how does everything go on now?
//!
//! `3` the endpoints, `T` `y` one test request, `R` `y` all of its queues go on: 5 keys.

use serde_json::json;
use sqlx::{Connection, PgConnection};

use super::operator::{Operator, Seat};
use super::outside::{BOUND, audited, delivered, holds, json, listed, numbered};
use crate::faults::scene::Scene;
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

const EXECUTIONS: [&str; 3] = ["order-17", "order-18", "order-19"];

/// Three sequences wait for an endpoint that fails since a day; another endpoint is well.
async fn down_for_a_day() -> Scene {
    let mut scene = Scene::servers().await;
    let hourly = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 500, "minimum_delay": 3600, "maximum_delay": 3600,
        "maximum_delay_retries": 0, "backoff_retries": 0
    });
    scene.installation.set("delivery", "retry_policy", hourly);
    scene.installation.set("console", "refresh_s", 1);
    scene.receiver.behave("/stock", Behaviour::Status(503));
    scene
}

/// What the store knows of the endpoint happened a day and an hour earlier.
async fn a_day_passes(scene: &Scene) {
    let micros: i64 = 25 * 3_600 * 1_000_000;
    let mut connection = PgConnection::connect(scene.postgres()).await.unwrap();
    sqlx::query("UPDATE redrive.endpoints SET since = since - $1 WHERE state = 'unavailable'")
        .bind(micros)
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

async fn play(seat: Seat) {
    let scene = down_for_a_day().await;
    let mut daemon = scene.installation.daemon().await;
    for execution in EXECUTIONS {
        for number in 1..=4 {
            scene.publish(execution, "/stock", number).await;
        }
    }
    scene.publish("order-20", "/shop", 1).await;
    scene.delivered(1).await;
    let down = ["endpoints", "--unavailable"];
    listed(&scene.installation, &down, "an endpoint that is down", |rows| {
        rows.len() == 1 && rows[0]["waiting"] == 12
    })
    .await;
    a_day_passes(&scene).await;

    let mut operator = Operator::seated(seat, &scene.installation, &daemon).await;
    operator
        .sees(&[
            "1 endpoint is not available",
            "12 messages wait",
            "next attempt in",
            "since 1d01h",
        ])
        .await;
    operator.press("3");
    operator
        .sees(&["unavailable", "/stock", "503", "1d01h", "last answer: 503"])
        .await;
    scene.receiver.behave("/stock", Behaviour::Status(200));
    operator.press("T");
    operator.sees(&["test: ", "/stock answered 200"]).await;
    assert_eq!(scene.receiver.attempts_of("/stock").last().unwrap().method, "HEAD");
    operator.asks("R").await;
    operator
        .sees(&["redeliver to 1 endpoint", "12 messages · 1 target"])
        .await;
    operator.accepts().await;
    operator.sees(&["redelivered 1 endpoint: 3 queues continue"]).await;
    for execution in EXECUTIONS {
        let all = numbered(execution, 1..=4);
        wait_until(execution, BOUND, async || {
            (delivered(&scene, execution, "/stock") == all).then_some(())
        })
        .await;
    }

    let vhost = scene.vhost.as_ref().unwrap();
    for execution in EXECUTIONS {
        let queue = scene.queue(execution, "/stock");
        holds(vhost, queue.as_str(), 0).await;
    }
    let endpoints = daemon.get("/v1/endpoints").await.json();
    let states: Vec<_> = endpoints["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["state"])
        .collect();
    assert_eq!(states, ["available", "available"], "{endpoints}");
    assert_eq!(json(&scene.installation, &down).await, json!([]));
    assert_eq!(audited(&scene.installation, &[], "redeliver").await.len(), 1);
    operator.leave().await;
    assert_eq!(daemon.stop().await, Some(0));
}

at_both_seats!(play);
