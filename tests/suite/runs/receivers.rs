//! A plan says who receives: by the bindings of the exchange that letters came by, on a real broker.

use lapin::options::{BasicPublishOptions, ExchangeDeclareOptions, QueueBindOptions};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, ExchangeKind};
use redrive::internals::engine::runs::{Order, OrderKind, Selection};
use redrive::internals::engine::{Access, Command};
use serde_json::{Value, json};

use super::scene::{BOUND, DEAD, ORIGIN, Scene, numbers, reject};
use crate::dead::shop::{Shop, text};
use crate::support::wait::wait_until;

const SHOP: &str = "shop";
const KEY: &str = "order.new";

async fn exchange(channel: &Channel, name: &str, kind: ExchangeKind, arguments: FieldTable) {
    let durable = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    channel
        .exchange_declare(ShortString::from(name), kind, durable, arguments)
        .await
        .unwrap();
}

async fn bind(channel: &Channel, queue: &str, exchange: &str, key: &str) {
    let bound = channel.queue_bind(
        ShortString::from(queue),
        ShortString::from(exchange),
        ShortString::from(key),
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    bound.await.unwrap();
}

/// `count` letters that came by an exchange of this kind, to which the queue of origin is bound by `binding`.
async fn died(scene: &Scene, kind: ExchangeKind, binding: &str, count: u32) -> Channel {
    let (_connection, channel) = scene.channel().await;
    scene.declare(&channel, DEAD, None).await;
    scene.declare(&channel, ORIGIN, Some(DEAD)).await;
    scene.declare(&channel, "analytics", None).await;
    exchange(&channel, SHOP, kind, FieldTable::default()).await;
    bind(&channel, ORIGIN, SHOP, binding).await;
    for number in 0..count {
        let properties = BasicProperties::default().with_delivery_mode(2);
        let body = number.to_string();
        let sent = channel.basic_publish(
            SHOP.into(),
            KEY.into(),
            BasicPublishOptions::default(),
            body.as_bytes(),
            properties,
        );
        sent.await.unwrap();
    }
    reject(&channel, ORIGIN, count).await;
    wait_until("dead letters", BOUND, async || {
        (scene.ready(DEAD).await == Some(count)).then_some(())
    })
    .await;
    channel
}

async fn planned(scene: &Scene, more: &[&str]) -> Value {
    let arguments = [&["dead", "redrive", "--all", "--dry-run", "--json"], more].concat();
    scene.run(&arguments).await.expect_code(0).json()
}

async fn redriven(scene: &Scene, more: &[&str]) {
    let arguments = [&["dead", "redrive", "--all", "--yes"], more].concat();
    scene.run(&arguments).await.expect_code(0);
}

/// Who is bound, who gets them, and by which way.
fn assert_receivers(plan: &Value, via: &str, bound: &Value, get: &Value) {
    let receivers = &plan["run"]["receivers"][0];
    assert_eq!(
        (&receivers["via"], &receivers["bound"], &receivers["get"]),
        (&json!(via), bound, get),
        "{plan}"
    );
}

fn warnings(plan: &Value) -> String {
    plan["warnings"].to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_the_exchange_where_the_queue_of_origin_alone_is_bound() {
    for (kind, binding) in [
        (ExchangeKind::Topic, "order.*"),
        (ExchangeKind::Direct, KEY),
        (ExchangeKind::Fanout, ""),
    ] {
        let scene = Scene::sqlite().await;
        let channel = died(&scene, kind.clone(), binding, 2).await;
        if kind != ExchangeKind::Fanout {
            bind(&channel, "analytics", SHOP, "invoice.new").await;
        }
        let plan = planned(&scene, &[]).await;
        assert_receivers(&plan, "exchange", &json!([ORIGIN]), &json!([ORIGIN]));
        redriven(&scene, &[]).await;
        let taken = scene.take_all(ORIGIN).await;
        assert_eq!(numbers(&taken), [0, 1], "{kind:?}");
        assert!(taken.iter().all(|one| one.routing_key == KEY), "as they came");
        assert_eq!(scene.ready("analytics").await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn straight_to_the_queue_of_origin_where_others_are_bound_too_and_the_plan_names_them() {
    for (kind, binding, other) in [
        (ExchangeKind::Topic, "order.*", "#"),
        (ExchangeKind::Direct, KEY, KEY),
        (ExchangeKind::Fanout, "", ""),
    ] {
        let scene = Scene::sqlite().await;
        let channel = died(&scene, kind.clone(), binding, 3).await;
        bind(&channel, "analytics", SHOP, other).await;
        let plan = planned(&scene, &[]).await;
        assert_receivers(&plan, "queue", &json!(["analytics", ORIGIN]), &json!([ORIGIN]));
        assert!(warnings(&plan).contains("analytics"), "{plan}");
        redriven(&scene, &[]).await;
        assert_eq!(
            scene.ready("analytics").await,
            Some(0),
            "{kind:?}: nobody else gets them again"
        );
        assert_eq!(numbers(&scene.take_all(ORIGIN).await), [0, 1, 2]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_chooses_the_exchange_is_told_that_each_queue_gets_them_again() {
    let scene = Scene::sqlite().await;
    let channel = died(&scene, ExchangeKind::Topic, "order.*", 3).await;
    exchange(&channel, "audit", ExchangeKind::Fanout, FieldTable::default()).await;
    let hop = channel.exchange_bind(
        "audit".into(),
        SHOP.into(),
        "order.#".into(),
        lapin::options::ExchangeBindOptions::default(),
        FieldTable::default(),
    );
    hop.await.unwrap();
    bind(&channel, "analytics", "audit", "").await;
    let plan = planned(&scene, &["--via", "exchange"]).await;
    let all = json!(["analytics", ORIGIN]);
    assert_receivers(&plan, "exchange", &all, &all);
    assert!(warnings(&plan).contains("get these 3 again"), "{plan}");
    redriven(&scene, &["--via", "exchange"]).await;
    assert_eq!(scene.ready("analytics").await, Some(3));
    assert_eq!(scene.ready(ORIGIN).await, Some(3));
    scene
        .run(&["dead", "redrive", "--all", "--via", "queue", "--to", "other", "--yes"])
        .await
        .expect_code(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_chosen_although_it_alone_is_bound() {
    let scene = Scene::sqlite().await;
    died(&scene, ExchangeKind::Direct, KEY, 1).await;
    redriven(&scene, &["--via", "queue"]).await;
    let taken = scene.take_all(ORIGIN).await;
    assert_eq!((taken[0].number, taken[0].routing_key.as_str()), (0, ORIGIN));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_is_bound_any_more_the_plan_says_so_and_they_go_to_the_queue_of_origin() {
    let scene = Scene::sqlite().await;
    let channel = died(&scene, ExchangeKind::Direct, KEY, 2).await;
    channel
        .queue_unbind(ORIGIN.into(), SHOP.into(), KEY.into(), FieldTable::default())
        .await
        .unwrap();
    let plan = planned(&scene, &[]).await;
    assert_receivers(&plan, "queue", &json!([]), &json!([ORIGIN]));
    assert!(warnings(&plan).contains("nobody is bound"), "{plan}");
    scene
        .run(&["dead", "redrive", "--all", "--via", "exchange", "--yes", "--json"])
        .await
        .expect_code(1);
    assert_eq!(scene.ready(DEAD).await, Some(2));
    redriven(&scene, &[]).await;
    assert_eq!(scene.ready(ORIGIN).await, Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_known_from_here_is_said_and_not_guessed() {
    // By headers.
    let scene = Scene::sqlite().await;
    died(&scene, ExchangeKind::Headers, "", 1).await;
    let plan = planned(&scene, &[]).await;
    assert_receivers(&plan, "queue", &Value::Null, &json!([ORIGIN]));
    assert!(warnings(&plan).contains("not known from here"), "{plan}");
    redriven(&scene, &[]).await;
    assert_eq!(scene.ready(ORIGIN).await, Some(1));

    // By an alternate exchange, for what nothing bound takes.
    let scene = Scene::sqlite().await;
    let (_connection, channel) = scene.channel().await;
    exchange(&channel, "rest", ExchangeKind::Fanout, FieldTable::default()).await;
    let mut arguments = FieldTable::default();
    let rest = AMQPValue::LongString(LongString::from(b"rest".as_slice()));
    arguments.insert("alternate-exchange".into(), rest);
    exchange(&channel, "late", ExchangeKind::Direct, arguments).await;
    scene.declare(&channel, DEAD, None).await;
    scene.declare(&channel, ORIGIN, Some(DEAD)).await;
    bind(&channel, ORIGIN, "rest", "").await;
    let properties = BasicProperties::default().with_delivery_mode(2);
    let options = BasicPublishOptions::default();
    let sent = channel.basic_publish("late".into(), KEY.into(), options, b"5", properties);
    sent.await.unwrap();
    reject(&channel, ORIGIN, 1).await;
    let plan = wait_until("a plan", BOUND, async || {
        let arguments = ["dead", "redrive", "--all", "--dry-run", "--json"];
        let outcome = scene.run(&arguments).await;
        (outcome.code == Some(0)).then(|| outcome.json())
    })
    .await;
    assert_receivers(&plan, "queue", &Value::Null, &json!([ORIGIN]));
    assert!(warnings(&plan).contains("alternate exchange"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_is_stale_once_the_exchange_leads_to_other_queues() {
    let shop = Shop::open().await;
    let dead = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(DEAD)),
    ];
    shop.queue(DEAD, &[]).await;
    shop.queue(ORIGIN, &dead).await;
    shop.queue("analytics", &[]).await;
    shop.exchange(SHOP, ExchangeKind::Direct).await;
    shop.bind(ORIGIN, SHOP, KEY).await;
    let properties = BasicProperties::default().with_delivery_mode(2);
    shop.publish(SHOP, KEY, properties, "1").await;
    shop.reject_all(ORIGIN).await;
    shop.listed(DEAD, 1).await;
    let order = Order::new(OrderKind::Redrive, Selection::All);
    let plan = shop.stage.engine.plan(Command::Run(order)).await.unwrap();
    shop.bind("analytics", SHOP, KEY).await;
    let grant = Access::Operator.grant("tester", None).unwrap();
    let refused = shop.stage.engine.execute(&plan, &grant).await.unwrap_err();
    assert!(refused.to_string().contains("stale"), "{refused}");
    assert_eq!(shop.drain(DEAD).await, ["1"]);
}
