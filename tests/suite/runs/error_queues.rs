//! Error queues that applications fill by themselves are found, grouped and redriven where their frameworks say, on a
//! real broker. Messages are made after the upstream files that the table of frameworks names.

use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, ExchangeKind};
use serde_json::{Value, json};

use super::scene::{BOUND, Scene};
use crate::support::management::Gate;
use crate::support::wait::wait_until;

const TRACE: &str = "   at Shop.Billing.Charge(Order order) in /src/Billing.cs:line 42\n   at MassTransit.Consume()";

/// A message in a queue, as an application republishes it.
pub(super) async fn given_up(
    scene: &Scene,
    queue: &str,
    properties: BasicProperties,
    headers: &[(&str, &str)],
    body: &str,
) {
    let (connection, channel) = scene.channel().await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let mut table = FieldTable::default();
    for (name, value) in headers {
        let value = AMQPValue::LongString(LongString::from(value.as_bytes()));
        table.insert(ShortString::from(*name), value);
    }
    let properties = properties.with_delivery_mode(2).with_headers(table);
    let sent = channel.basic_publish(
        "".into(),
        ShortString::from(queue),
        BasicPublishOptions::default(),
        body.as_bytes(),
        properties,
    );
    assert!(sent.await.unwrap().await.unwrap().is_ack());
    connection.close(200, "done".into()).await.unwrap();
}

pub(super) async fn queues(scene: &Scene, names: &[&str]) {
    let (connection, channel) = scene.channel().await;
    for name in names {
        scene.declare(&channel, name, None).await;
    }
    connection.close(200, "done".into()).await.unwrap();
}

/// A quorum queue whose messages outlive so many returns.
async fn limited(channel: &Channel, name: &str, returns: i32) {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(returns));
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel.queue_declare(name.into(), durable, arguments).await.unwrap();
}

/// What dies in `work` goes through the exchange `graves` into the queue `grave`.
pub(super) async fn graves(scene: &Scene) {
    let (connection, channel) = scene.channel().await;
    let fanout = ExchangeDeclareOptions::default();
    let declaring = channel.exchange_declare("graves".into(), ExchangeKind::Fanout, fanout, FieldTable::default());
    declaring.await.unwrap();
    let mut dies_into = FieldTable::default();
    dies_into.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("graves".into()));
    let declaring = channel.queue_declare("work".into(), QueueDeclareOptions::default(), dies_into);
    declaring.await.unwrap();
    scene.declare(&channel, "grave", None).await;
    let options = QueueBindOptions::default();
    let binding = channel.queue_bind(
        "grave".into(),
        "graves".into(),
        "".into(),
        options,
        FieldTable::default(),
    );
    binding.await.unwrap();
    connection.close(200, "done".into()).await.unwrap();
}

async fn groups(scene: &Scene) -> Value {
    scene.run(&["dead", "groups", "--json"]).await.expect_code(0).json()
}

async fn redriven(scene: &Scene) {
    scene.run(&["dead", "redrive", "--all", "--yes"]).await.expect_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masstransit_and_nservicebus_faults_are_one_group_each_and_go_back_to_their_queues_without_their_marks() {
    let scene = Scene::sqlite().await;
    queues(&scene, &["billing", "billing_error", "sales", "error"]).await;
    for order in 1..=3 {
        let message = format!("order {order} of \"customer {order}\" is unknown");
        let fault = [
            ("MT-Reason", "fault"),
            ("MT-Fault-InputAddress", "rabbitmq://localhost/vhost/billing"),
            ("MT-Fault-ExceptionType", "Shop.UnknownOrder"),
            ("MT-Fault-Message", message.as_str()),
            ("MT-Fault-StackTrace", TRACE),
        ];
        given_up(
            &scene,
            "billing_error",
            BasicProperties::default(),
            &fault,
            &order.to_string(),
        )
        .await;
    }
    let failed = [
        ("NServiceBus.FailedQ", "sales"),
        (
            "NServiceBus.ExceptionInfo.ExceptionType",
            "System.InvalidOperationException",
        ),
        ("NServiceBus.ExceptionInfo.Message", "no stock"),
        ("NServiceBus.EnclosedMessageTypes", "Shop.Order"),
    ];
    given_up(&scene, "error", BasicProperties::default(), &failed, "9").await;
    let groups = groups(&scene).await;
    assert_eq!(groups.as_array().unwrap().len(), 2, "{groups}");
    assert_eq!(
        (&groups[0]["count"], &groups[0]["where"]),
        (&json!(3), &json!("billing")),
        "{groups}"
    );
    assert_eq!(
        groups[0]["what"],
        "Shop.UnknownOrder: order # of \"#\" is unknown at Shop.Billing.Charge"
    );
    redriven(&scene).await;
    let taken = scene.take_all("billing").await;
    assert_eq!(super::scene::numbers(&taken), [1, 2, 3]);
    assert!(
        taken
            .iter()
            .all(|one| !one.has("MT-Fault-Message") && !one.has("MT-Reason"))
    );
    let taken = scene.take_all("sales").await;
    assert_eq!(super::scene::numbers(&taken), [9]);
    assert!(taken[0].has("NServiceBus.EnclosedMessageTypes") && !taken[0].has("NServiceBus.FailedQ"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_list_of_dead_letters_asks_once_for_the_queues_and_where_exchanges_lead() {
    let mut scene = Scene::sqlite().await;
    let management = Gate::to(&scene.vhost.node.management).await;
    let through = management.through(&scene.vhost.node.management);
    scene.installation.set("broker", "management_url", through);
    graves(&scene).await;
    queues(&scene, &["left-over"]).await;
    given_up(&scene, "grave", BasicProperties::default(), &[], "1").await;
    let fault = [
        ("MT-Reason", "fault"),
        ("MT-Fault-InputAddress", "rabbitmq://localhost/vhost/billing"),
        ("MT-Fault-Message", "no card"),
    ];
    given_up(&scene, "left-over", BasicProperties::default(), &fault, "2").await;
    wait_until("the messages in the statistics", BOUND, async || {
        let listed = scene.run(&["queues", "--json"]).await.expect_code(0).json();
        let is_there = |name: &str| {
            let mut all = listed.as_array().unwrap().iter();
            all.any(|queue| queue["name"] == name && queue["ready"] == 1 && queue["unacked"] == 0)
        };
        (is_there("grave") && is_there("left-over")).then_some(())
    })
    .await;
    scene.listed_with_consumers("left-over", 0).await;
    let before = management.asked().len();
    let letters = scene.run(&["dead", "list", "--json"]).await.expect_code(0).json();
    assert_eq!(letters.as_array().map(Vec::len), Some(2), "{letters}");
    let asked = management.asked().split_off(before);
    let count = |part: &str| asked.iter().filter(|line| line.contains(part)).count();
    let listings = asked.iter().filter(|line| is_listing(line)).count();
    assert_eq!((listings, count("/graves/bindings/source")), (1, 1), "{asked:#?}");
}

/// Whether all queues of a vhost were asked for.
fn is_listing(line: &str) -> bool {
    let path = line.trim_start_matches("GET ").split('?').next().unwrap_or_default();
    path.starts_with("/api/queues/") && path.matches('/').count() == 3
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_whose_first_message_was_given_up_is_an_error_queue_whatever_its_name_is() {
    let scene = Scene::sqlite().await;
    queues(&scene, &["billing", "left-over", "work", "held"]).await;
    // However many others with messages come before it.
    for number in 0..12 {
        let name = format!("app.{number:02}");
        queues(&scene, &[&name]).await;
        given_up(&scene, &name, BasicProperties::default(), &[], "1").await;
    }
    let (_connection, channel) = scene.channel().await;
    limited(&channel, "limited", 3).await;
    let fault = [
        ("MT-Reason", "fault"),
        ("MT-Fault-InputAddress", "rabbitmq://localhost/vhost/billing"),
        ("MT-Fault-Message", "no card"),
    ];
    let plain = BasicProperties::default;
    given_up(&scene, "left-over", plain(), &fault, "5").await;
    given_up(&scene, "left-over", plain(), &fault, "6").await;
    given_up(&scene, "limited", plain(), &fault, "7").await;
    given_up(&scene, "work", plain(), &[("tenant", "t1")], "8").await;
    // Given back by hand, with its marks: it waits to be handled again.
    given_up(&scene, "billing", plain(), &fault, "4").await;
    given_up(&scene, "held", plain(), &fault, "9").await;
    let _consumer = super::scene::consume(&channel, "held").await;
    scene.listed_with_a_consumer("held").await;

    let letters = scene.run(&["dead", "list", "--json"]).await.expect_code(0).json();
    let queues: Vec<&str> = letters
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["queue"].as_str().unwrap())
        .collect();
    assert_eq!(queues, ["left-over", "left-over"], "{letters}");
    redriven(&scene).await;
    assert_eq!(super::scene::numbers(&scene.take_all("billing").await), [4, 5, 6]);
    let kept = channel
        .basic_get("limited".into(), BasicGetOptions::default())
        .await
        .unwrap();
    assert!(
        !kept.unwrap().delivery.redelivered,
        "a look would have cost it a delivery"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrapped_messages_go_back_as_they_were_before_they_were_wrapped() {
    let scene = Scene::sqlite().await;
    queues(
        &scene,
        &["orders", "EasyNetQ_Default_Error_Queue", "mails", "mails-error"],
    )
    .await;
    let document = json!({
        "RoutingKey": "orders",
        "Exchange": "",
        "Queue": "orders",
        "Exception": format!("System.InvalidOperationException: no stock\n{TRACE}"),
        "Message": "11",
        "DateTime": "2026-04-20T16:30:00Z",
        "BasicProperties": {"Type": "Shop.Order, Shop", "Headers": {"tenant": "t1"}},
    });
    let kind = BasicProperties::default().with_type("EasyNetQ.SystemMessages.Error, EasyNetQ".into());
    given_up(&scene, "EasyNetQ_Default_Error_Queue", kind, &[], &document.to_string()).await;
    let document = json!({
        "error": "boom", "error_class": "Shop::Closed", "error_message": "closed", "num_attempts": 6,
        "failed_at": "2026-04-20T16:30:00+02:00", "payload": "MTI=\n",
    });
    given_up(
        &scene,
        "mails-error",
        BasicProperties::default(),
        &[],
        &document.to_string(),
    )
    .await;
    redriven(&scene).await;
    let taken = scene.take_all("orders").await;
    assert_eq!(super::scene::numbers(&taken), [11]);
    assert!(taken[0].has("tenant"));
    assert_eq!(super::scene::numbers(&scene.take_all("mails").await), [12]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_the_configuration_names_is_one_too_and_spring_says_exchange_and_key() {
    let mut scene = Scene::sqlite().await;
    queues(&scene, &["orders"]).await;
    let (connection, channel) = scene.channel().await;
    // Its messages outlive 20 returns: nobody looks into it to find out what it is.
    limited(&channel, "parked.orders", 20).await;
    connection.close(200, "done".into()).await.unwrap();
    let recovered = [
        ("x-original-exchange", ""),
        ("x-original-routingKey", "orders"),
        ("x-exception-message", "closed"),
        (
            "x-exception-stacktrace",
            "java.lang.IllegalStateException: closed\n\tat com.shop.Orders.handle(Orders.java:12)\n",
        ),
    ];
    given_up(&scene, "parked.orders", BasicProperties::default(), &recovered, "5").await;
    assert_eq!(groups(&scene).await, json!([]));
    scene.installation.set("dead", "queues", vec!["parked.*"]);
    let groups = groups(&scene).await;
    assert_eq!(
        groups[0]["what"],
        "java.lang.IllegalStateException: closed at com.shop.Orders.handle"
    );
    redriven(&scene).await;
    assert_eq!(super::scene::numbers(&scene.take_all("orders").await), [5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ended_is_seen_in_the_next_list_at_once() {
    let scene = Scene::sqlite().await;
    scene.die(50).await;
    assert_eq!(groups(&scene).await[0]["count"], 50);
    scene.run(&["dead", "discard", "--all", "--yes"]).await.expect_code(0);
    assert_eq!(groups(&scene).await, json!([]));
    scene.run(&["dead", "restore", "--all", "--yes"]).await.expect_code(0);
    assert_eq!(groups(&scene).await[0]["count"], 50, "the index is as of the run's end");
    let said = scene.run(&["dead", "groups"]).await.expect_code(0);
    assert!(said.stderr.contains("as of "), "{said:?}");
}
