//! Messages that their publisher copied to further queues by `CC` and `BCC`: whatever is done with one afterwards, it is
//! in one queue.

use lapin::options::BasicPublishOptions;
use lapin::types::{AMQPValue, FieldArray, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel};
use redrive::internals::domain::id::QueueName;
use serde_json::json;

use super::scene::{BOUND, DEAD, ORIGIN, Scene, numbers};
use crate::faults::scene::Scene as Delivering;
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

const COPIES: &str = "copies";
const BLIND: &str = "blind";
const ELSEWHERE: &str = "elsewhere";

/// Publishes a message with `headers` that the broker copies to [`COPIES`] and to [`BLIND`].
async fn publish_copied(channel: &Channel, exchange: &str, key: &str, mut headers: FieldTable, number: u32) {
    for (header, queue) in [("CC", COPIES), ("BCC", BLIND)] {
        let key = AMQPValue::LongString(LongString::from(queue));
        headers.insert(header.into(), AMQPValue::FieldArray(FieldArray::from(vec![key])));
    }
    let properties = BasicProperties::default()
        .with_delivery_mode(2)
        .with_message_id(format!("m-{number}").into())
        .with_headers(headers);
    let body = number.to_string();
    let sent = channel.basic_publish(
        ShortString::from(exchange),
        ShortString::from(key),
        BasicPublishOptions::default(),
        body.as_bytes(),
        properties,
    );
    sent.await.unwrap().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_moved_redriven_or_restored_is_in_one_queue_whatever_its_publisher_copied_it_to() {
    let scene = Scene::sqlite().await;
    let (_connection, channel) = scene.channel().await;
    for name in [COPIES, BLIND, ELSEWHERE, DEAD] {
        scene.declare(&channel, name, None).await;
    }
    scene.declare(&channel, ORIGIN, Some(DEAD)).await;
    let restore: &[&[&str]] = &[
        &["dead", "discard", "--all", "--yes"],
        &["dead", "restore", "--all", "--yes"],
    ];
    let cases: [(&str, &[&[&str]], &str); 3] = [
        (
            ORIGIN,
            &[&["queue", "move", ORIGIN, "--to", ELSEWHERE, "--yes"]],
            ELSEWHERE,
        ),
        (
            DEAD,
            &[&["dead", "redrive", "--all", "--to", ELSEWHERE, "--yes"]],
            ELSEWHERE,
        ),
        (DEAD, restore, DEAD),
    ];
    for (number, (from, commands, into)) in (1..).zip(cases) {
        publish_copied(&channel, "", from, FieldTable::default(), number).await;
        for copies in [COPIES, BLIND] {
            wait_until("the broker's own copies", BOUND, async || {
                (scene.ready(copies).await == Some(1)).then_some(())
            })
            .await;
            scene.take_all(copies).await;
        }
        for command in commands {
            scene.run(command).await.expect_code(0);
        }
        assert_eq!(numbers(&scene.take_all(into).await), [number], "{commands:?}");
        for empty in [COPIES, BLIND, ORIGIN, DEAD, ELSEWHERE] {
            assert_eq!(scene.ready(empty).await, Some(0), "{empty} after {commands:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_is_skipped_is_in_one_queue_whatever_its_publisher_copied_it_to() {
    let mut scene = Delivering::servers().await;
    let patient = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 1, "minimum_delay": 600, "maximum_delay": 600,
        "maximum_delay_retries": 1, "backoff_retries": 0
    });
    scene.installation.set("delivery", "retry_policy", patient);
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    scene.delivered(1).await;
    // The message's own fault: the queue waits alone.
    scene.receiver.behave("*", Behaviour::Status(500));
    let vhost = scene.vhost.as_ref().unwrap();
    let connection = lapin::Connection::connect(&vhost.amqp(), lapin::ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    let exchange = scene.naming().exchange();
    let named = |name: &str| QueueName::parse(name).unwrap();
    for name in [COPIES, BLIND] {
        let declaring = channel.queue_declare(name.into(), durable(), FieldTable::default());
        declaring.await.unwrap();
        let binding = channel.queue_bind(
            name.into(),
            ShortString::from(exchange.as_str()),
            name.into(),
            lapin::options::QueueBindOptions::default(),
            FieldTable::default(),
        );
        binding.await.unwrap();
    }
    let queue = scene.queue("run", "/hook");
    let mut headers = FieldTable::default();
    for (name, value) in [
        ("x-redrive-execution", "run"),
        ("x-redrive-url", scene.url("/hook").as_str()),
    ] {
        headers.insert(name.into(), AMQPValue::LongString(LongString::from(value)));
    }
    publish_copied(&channel, &exchange, queue.as_str(), headers, 2).await;
    wait_until("a head that waits", BOUND, async || {
        scene.why(&queue).await["head"].is_object().then_some(())
    })
    .await;
    assert_eq!(
        (scene.ready(&named(COPIES)).await, scene.ready(&named(BLIND)).await),
        (1, 1),
        "the broker's own"
    );
    let skip = ["queue", "skip", queue.as_str(), "--to", "dead", "--yes"];
    scene.installation.run(&skip).await.expect_code(0);
    let graves = named(&scene.naming().dead_letter_queue());
    assert_eq!(scene.ready(&graves).await, 1);
    assert_eq!(
        (scene.ready(&named(COPIES)).await, scene.ready(&named(BLIND)).await),
        (1, 1),
        "no more than before"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

fn durable() -> lapin::options::QueueDeclareOptions {
    lapin::options::QueueDeclareOptions {
        durable: true,
        ..lapin::options::QueueDeclareOptions::default()
    }
}
