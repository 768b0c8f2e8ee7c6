//! Queues of other applications: why one does not move, in one sentence, and who consumes it.

use lapin::ExchangeKind;
use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use redrive::internals::domain::id::QueueName;
use redrive::internals::engine::query;
use redrive::internals::engine::view::QueueView;
use serde_json::Value;

use super::BOUND;
use crate::dead::shop::Shop;
use crate::support::daemon::Installation;
use crate::support::servers::RabbitAddress;
use crate::support::wait::wait_until;

/// Until the sentence says `part`: what the broker counts lags behind.
async fn says(shop: &Shop, part: &str) -> QueueView {
    let mut last = None;
    let found = wait_until(format!("{part:?} to be said"), BOUND, async || {
        let view = shop.ask(query::Queue(QueueName::parse("work").unwrap())).await.unwrap();
        let said = view.not_delivered().unwrap();
        let found = said.contains(part).then_some(view);
        last = Some(said);
        found
    });
    found.await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_of_others_says_why_it_does_not_move_and_who_consumes_it() {
    let shop = Shop::open().await;
    shop.queue("work", &[]).await;
    shop.exchange("orders", ExchangeKind::Topic).await;
    shop.bind("work", "orders", "new.#").await;
    says(&shop, "it is empty").await;

    shop.fill("work", 5).await;
    let view = says(&shop, "nobody consumes it").await;
    let said = view.not_delivered().unwrap();
    assert!(said.contains("5 messages wait"), "{said}");
    assert!(said.contains("`redrive queue move`"), "{said}");
    let on_broker = view.on_broker.unwrap();
    assert_eq!(on_broker.bindings.len(), 1, "{:?}", on_broker.bindings);
    assert_eq!(on_broker.bindings[0].key, "new.#");

    // It takes two and settles none.
    shop.channel.basic_qos(2, BasicQosOptions::default()).await.unwrap();
    let consuming = shop.channel.basic_consume(
        "work".into(),
        "stuck".into(),
        BasicConsumeOptions::default(),
        FieldTable::default(),
    );
    let _consumer = consuming.await.unwrap();
    let view = says(&shop, "its consumer settles nothing: 2 messages in hand, which is all").await;
    assert!(view.not_delivered().unwrap().contains("3 messages wait"));
    let consumer = &view.on_broker.unwrap().consumer_list[0];
    assert_eq!((consumer.tag.as_str(), consumer.prefetch), ("stuck", Some(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_and_the_route_tell_the_same() {
    let vhost = RabbitAddress::shared().vhost().await;
    let path = format!("/api/queues/{}/legacy", vhost.name);
    let arguments = serde_json::json!({"durable": true, "arguments": {"x-max-length": 10}});
    vhost.manage("PUT", &path, Some(&arguments)).await;
    let publish = format!("/api/exchanges/{}/amq.default/publish", vhost.name);
    let message =
        serde_json::json!({"properties": {}, "routing_key": "legacy", "payload": "x", "payload_encoding": "string"});
    vhost.manage("POST", &publish, Some(&message)).await;

    let installation = Installation::on_rabbit(&vhost);
    let daemon = installation.daemon().await;
    let asked = wait_until("the message to be counted", BOUND, async || {
        let answer: Value = daemon.get("/v1/queues/legacy/why").await.json();
        let is_counted = answer["text"].as_str()?.contains("1 message waits");
        is_counted.then_some(answer)
    })
    .await;
    let text = asked["text"].as_str().unwrap();
    assert!(text.contains("nobody consumes it"), "{text}");
    assert_eq!(asked["broker"]["arguments"]["x-max-length"], "10", "{asked}");
    assert_eq!(asked["broker"]["consumers"], 0, "{asked}");

    let command = installation
        .run(&["queue", "why", "legacy", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(command["broker"]["arguments"], asked["broker"]["arguments"]);
    let page = installation
        .run(&["queue", "why", "legacy"])
        .await
        .expect_code(0)
        .stdout;
    for part in ["nobody consumes it", "x-max-length=10", "consumers"] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
}
