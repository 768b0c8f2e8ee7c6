//! Dead letters are selected by what stands in their messages: a header, a place of a JSON body.

use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use serde_json::json;

use super::scene::{BOUND, DEAD, ORIGIN, Scene, reject};
use crate::support::wait::wait_until;

/// Letters of two tenants, their bodies JSON.
async fn letters(scene: &Scene) {
    let (connection, channel) = scene.channel().await;
    scene.declare(&channel, DEAD, None).await;
    scene.declare(&channel, ORIGIN, Some(DEAD)).await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    for number in 0..6 {
        let mut headers = FieldTable::default();
        let tenant = if number % 2 == 0 { "t1" } else { "t2" };
        headers.insert(
            "tenant".into(),
            AMQPValue::LongString(LongString::from(tenant.as_bytes())),
        );
        let body = json!({"order": {"id": format!("{}00{number}", 9 - number % 3), "total": number * 100}});
        let body = body.to_string();
        let sent = channel.basic_publish(
            "".into(),
            ORIGIN.into(),
            BasicPublishOptions::default(),
            body.as_bytes(),
            BasicProperties::default().with_delivery_mode(2).with_headers(headers),
        );
        assert!(sent.await.unwrap().await.unwrap().is_ack());
    }
    reject(&channel, ORIGIN, 6).await;
    wait_until("dead letters", BOUND, async || {
        (scene.ready(DEAD).await == Some(6)).then_some(())
    })
    .await;
    connection.close(200, "done".into()).await.unwrap();
}

async fn count(scene: &Scene, filter: &str) -> usize {
    let arguments = ["dead", "list", "--json", "--filter", filter];
    let listed = scene.run(&arguments).await.expect_code(0).json();
    listed.as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_are_listed_grouped_and_redriven_by_a_header_and_by_a_place_of_their_body() {
    let scene = Scene::sqlite().await;
    letters(&scene).await;
    for (filter, expected) in [
        ("header.tenant = \"t1\"", 3),
        ("body./order/id ~ \"^9\"", 2),
        ("body./order/total >= 300", 3),
        ("header.tenant = t2 and body./order/total > 100", 2),
        ("header.none = t1", 0),
        ("not header.tenant = t1", 3),
        ("begins ~ \"8001\"", 1),
        ("begins ~ \"900\" and not begins ~ \"9000\"", 1),
    ] {
        assert_eq!(count(&scene, filter).await, expected, "{filter}");
    }
    let arguments = ["dead", "groups", "--json", "--filter", "header.tenant = t1"];
    let groups = scene.run(&arguments).await.expect_code(0).json();
    assert_eq!(groups[0]["count"], 3, "{groups}");
    let wrong = scene
        .run(&["dead", "list", "--filter", "body.order = 1"])
        .await
        .expect_code(2);
    assert!(wrong.stderr.contains("JSON pointer"), "{wrong:?}");
    scene
        .run(&["dead", "redrive", "--filter", "body./order/total >= 300", "--yes"])
        .await
        .expect_code(0);
    assert_eq!((scene.ready(ORIGIN).await, scene.ready(DEAD).await), (Some(3), Some(3)));
    // What a list shows of a message is what a run looks for, too.
    scene
        .run(&["dead", "redrive", "--filter", "begins ~ \"8001\"", "--yes"])
        .await
        .expect_code(0);
    assert_eq!((scene.ready(ORIGIN).await, scene.ready(DEAD).await), (Some(4), Some(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_queue_can_be_looked_at_by_its_name_and_an_empty_answer_says_why() {
    let scene = Scene::sqlite().await;
    let (connection, channel) = scene.channel().await;
    scene.declare(&channel, "work", None).await;
    super::scene::publish(&channel, "work", 0..3).await;
    connection.close(200, "done".into()).await.unwrap();
    let listed = scene
        .run(&["dead", "list", "--queue", "work", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(listed.as_array().unwrap().len(), 3, "{listed}");
    let all = scene.run(&["dead", "list", "--json"]).await.expect_code(0).json();
    assert_eq!(all, json!([]), "it is nobody's dead-letter queue");
    assert_eq!(scene.ready("work").await, Some(3));
    let none = scene.run(&["dead", "list", "--queue", "nowhere"]).await.expect_code(0);
    assert!(
        none.stderr.contains("nowhere has no messages, or does not exist"),
        "{none:?}"
    );
}
