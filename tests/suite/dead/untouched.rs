//! Queues of others that redrive does not consume, because that would destroy them, and those whose messages RabbitMQ
//! itself sends again.

use lapin::BasicProperties;
use lapin::options::{BasicConsumeOptions, BasicGetOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldArray, FieldTable, ShortString};
use lapin::{Connection, ConnectionProperties};
use redrive::internals::domain::id::QueueName;
use redrive::internals::engine::runs::{Order, OrderKind, Selection};
use redrive::internals::engine::{Command, EngineError, query};

use super::queues::through;
use super::shop::{BOUND, Shop, text, view};
use crate::support::wait::wait_until;

const AUTO_DELETE: QueueDeclareOptions = QueueDeclareOptions {
    passive: false,
    durable: true,
    exclusive: false,
    auto_delete: true,
    nowait: false,
};

fn name(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

/// What an error says, with all its causes.
fn said(error: &EngineError) -> String {
    format!("{error:?} {error}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_goes_with_its_last_consumer_is_listed_and_never_consumed() {
    let shop = Shop::open().await;
    let declaring = shop
        .channel
        .queue_declare("brief.dead".into(), AUTO_DELETE, FieldTable::default());
    declaring.await.unwrap();
    shop.queue("lasting.dead", &[]).await;
    for (work, dead) in [("brief", "brief.dead"), ("lasting", "lasting.dead")] {
        shop.queue(work, &through("", dead)).await;
        shop.fill(work, 3).await;
        shop.reject_all(work).await;
    }
    let page = wait_until("the other queue's letters", BOUND, async || {
        let page = shop.list(None, None).await;
        (page.page.items.len() == 3).then_some(page)
    })
    .await;
    let reasons: Vec<&str> = page.problems.iter().map(|problem| problem.reason.as_str()).collect();
    assert!(
        reasons.iter().any(|reason| reason.contains("auto-delete")),
        "{reasons:?}"
    );
    assert_eq!(
        view(&page.queues, "brief.dead").unwrap().ready,
        Some(3),
        "{:?}",
        page.queues
    );
    let browsed = query::Browse {
        queue: name("brief.dead"),
        limit: 5,
    };
    let refused = shop.ask(browsed).await.unwrap_err();
    assert!(said(&refused).contains("auto-delete"), "{refused:?}");
    let moving = Order {
        to: Some(name("lasting.dead")),
        ..Order::new(OrderKind::Move, Selection::Queue(name("brief.dead")))
    };
    let refused = shop.stage.engine.plan(Command::Run(moving)).await.unwrap_err();
    assert!(said(&refused).contains("auto-delete"), "{refused:?}");
    assert_eq!(shop.drain("brief.dead").await, ["1", "2", "3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_no_queue_that_messages_are_taken_from() {
    let shop = Shop::open().await;
    shop.queue("history", &[("x-queue-type", text("stream"))]).await;
    shop.fill("history", 2).await;
    let browsed = query::Browse {
        queue: name("history"),
        limit: 5,
    };
    let refused = shop.ask(browsed).await.unwrap_err();
    assert!(said(&refused).contains("it is a stream"), "{refused:?}");
    let listed = shop
        .ask(query::Dead(super::shop::query(Some("history"), None)))
        .await
        .unwrap_err();
    assert!(said(&listed).contains("it is a stream"), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_to_be_tried_again_and_the_work_itself_are_no_dead_letters() {
    let shop = Shop::open().await;
    shop.queue("orders", &through("", "orders.later")).await;
    let later = [
        &through("", "orders")[..],
        &[("x-message-ttl", AMQPValue::LongInt(600_000))],
    ]
    .concat();
    shop.queue("orders.later", &later).await;
    shop.queue("mails.dead", &[]).await;
    shop.queue("mails", &through("", "mails.dead")).await;
    for work in ["orders", "mails"] {
        shop.fill(work, 2).await;
        shop.reject_all(work).await;
    }
    shop.fill("orders", 2).await;
    let page = wait_until("the dead letters", BOUND, async || {
        let page = shop.list(None, None).await;
        (!page.page.items.is_empty()).then_some(page)
    })
    .await;
    let listed: Vec<&str> = page.page.items.iter().map(|letter| letter.queue.as_str()).collect();
    assert_eq!(listed, ["mails.dead", "mails.dead"]);
    assert!(view(&page.queues, "orders").is_none() && view(&page.queues, "orders.later").is_none());
    let named = shop.listed("orders.later", 2).await;
    assert_eq!(named.len(), 2, "a queue that is named is looked at");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_from_another_connections_own_queue_stops_no_other() {
    let shop = Shop::open().await;
    shop.queue("dead", &[]).await;
    shop.queue("work", &through("", "dead")).await;
    shop.fill("work", 2).await;
    shop.reject_all("work").await;
    let amqp = shop.stage.ground.rabbit().amqp();
    let other = Connection::connect(&amqp, ConnectionProperties::default())
        .await
        .unwrap();
    let channel = other.create_channel().await.unwrap();
    let options = QueueDeclareOptions {
        exclusive: true,
        ..QueueDeclareOptions::default()
    };
    let mut arguments = FieldTable::default();
    for (key, value) in through("", "dead") {
        arguments.insert(ShortString::from(key), value);
    }
    channel
        .queue_declare("somebodys".into(), options, arguments)
        .await
        .unwrap();
    shop.fill("somebodys", 1).await;
    let taken = channel
        .basic_get("somebodys".into(), BasicGetOptions::default())
        .await
        .unwrap();
    taken
        .unwrap()
        .reject(lapin::options::BasicRejectOptions { requeue: false })
        .await
        .unwrap();
    shop.listed("dead", 3).await;
    let order = Order::new(OrderKind::Redrive, Selection::All);
    let plan = shop.stage.engine.plan(Command::Run(order)).await.unwrap();
    let lines = format!("{plan:?}");
    assert!(
        lines.contains("somebodys") && lines.contains("does not exist, or takes nothing"),
        "{lines}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_whose_headers_cannot_be_read_whole_is_neither_sent_on_nor_thrown_away() {
    let shop = Shop::open().await;
    for queue in ["dead", "other"] {
        shop.queue(queue, &[]).await;
    }
    shop.queue("work", &through("", "dead")).await;
    let mut deep = AMQPValue::Void;
    for _ in 0..40 {
        deep = AMQPValue::FieldArray(FieldArray::from(vec![deep]));
    }
    let mut headers = FieldTable::default();
    headers.insert("deep".into(), deep);
    let properties = BasicProperties::default().with_delivery_mode(2).with_headers(headers);
    shop.publish("", "work", properties, "deep").await;
    shop.reject_all("work").await;
    let letters = shop.listed("dead", 1).await;
    let ids: Vec<String> = letters.iter().map(|letter| letter.id.as_str().to_owned()).collect();
    for kind in [OrderKind::Redrive, OrderKind::Discard] {
        let order = Order {
            to: (kind == OrderKind::Redrive).then(|| name("other")),
            ..Order::new(kind, Selection::Ids(ids.clone()))
        };
        let planned = shop.stage.engine.plan(Command::Run(order)).await;
        assert!(format!("{planned:?}").contains("nested too deeply"), "{planned:?}");
    }
}

/// A look at it would hide its letters from every look after that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_hides_what_is_given_back_to_it_is_not_looked_at_and_says_so() {
    let shop = Shop::open().await;
    let delayed = [
        ("x-queue-type", text("quorum")),
        ("x-delayed-retry-type", text("all")),
        ("x-delayed-retry-min", AMQPValue::LongInt(1_000)),
    ];
    shop.queue("slow.dead", &delayed).await;
    shop.queue("work", &through("", "slow.dead")).await;
    shop.fill("work", 2).await;
    shop.reject_all("work").await;
    let problem = wait_until("the queue is found", BOUND, async || {
        let page = shop.list(None, None).await;
        view(&page.queues, "slow.dead").and_then(|queue| queue.problem.clone())
    })
    .await;
    assert!(problem.contains("delayed-retry-type to disabled"), "{problem}");
    let order = Order::new(OrderKind::Redrive, Selection::All);
    let refused = shop.stage.engine.plan(Command::Run(order)).await.unwrap_err();
    assert!(said(&refused).contains("delayed-retry-type"), "{refused:?}");
    let first = shop
        .channel
        .basic_get("slow.dead".into(), BasicGetOptions::default())
        .await
        .unwrap();
    let first = first.unwrap().delivery;
    // RabbitMQ 4.3 says of each letter there that it comes again, and counts how often it was taken: here, and by a look.
    let headers = first.properties.headers().clone().unwrap_or_default();
    let taken = headers.inner().get("x-acquired-count");
    let is_first = taken == Some(&AMQPValue::LongLongInt(1));
    assert!(!first.redelivered || is_first, "it was looked at: {headers:?}");
}

/// Its consumers may only be away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_of_work_that_messages_come_to_after_a_delay_is_taken_by_its_name_alone() {
    let shop = Shop::open().await;
    shop.queue("work.dead", &[]).await;
    shop.queue("work", &through("", "work.dead")).await;
    let delay = [&through("", "work")[..], &[("x-message-ttl", AMQPValue::LongInt(10))]].concat();
    shop.queue("delay", &delay).await;
    shop.fill("work.dead", 1).await;
    shop.fill("work", 2).await;
    shop.fill("delay", 3).await;
    shop.listed("work", 5).await;
    shop.listed("work.dead", 1).await;
    let discard = async |selection| {
        let order = Order::new(OrderKind::Discard, selection);
        shop.stage.engine.plan(Command::Run(order)).await.unwrap()
    };
    let all = discard(Selection::All).await;
    assert_eq!(all.messages, Some(1), "{:?}", all.lines);
    let warned = all.warnings.join("\n");
    assert!(
        warned.contains("left out: work, which may be a queue of work"),
        "{warned}"
    );
    let unnamed = discard(Selection::Filter("queue ~ \"work\"".to_owned())).await;
    assert_eq!(unnamed.messages, Some(1), "{:?}", unnamed.lines);
    let named = discard(Selection::Filter("queue = \"work\"".to_owned())).await;
    assert_eq!(named.messages, Some(5), "{:?}", named.lines);
    let letters = shop.listed("work", 5).await;
    let one = discard(Selection::Ids(vec![letters[0].id.as_str().to_owned()])).await;
    for plan in [named, one] {
        let warned = plan.warnings.join("\n");
        assert!(
            warned.contains("work may be a queue of work whose consumers are away"),
            "{warned}"
        );
        assert!(
            plan.lines[0].effect.contains("kept for 7 d: `dead restore`"),
            "{:?}",
            plan.lines
        );
    }
    let page = shop.list(None, None).await;
    assert!(view(&page.queues, "work").unwrap().may_be_work);
    assert_eq!(
        page.sum().letters,
        Some(1),
        "what may be work is no sum of dead letters"
    );
    // What died in it after the delay goes back to it, not into the delay.
    shop.reject_all("work").await;
    let origins = shop
        .listed("work.dead", 6)
        .await
        .into_iter()
        .map(|letter| letter.origin);
    let died_in: Vec<String> = origins.flatten().collect();
    assert_eq!(died_in, ["work"; 5]);
}

/// It was refused because of the other one, whose messages it does not ask for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_that_names_a_queue_has_nothing_to_do_with_another_one_that_somebody_consumes() {
    let shop = Shop::open().await;
    for (work, dead) in [("work", "dead"), ("other", "other.dead")] {
        shop.queue(dead, &[]).await;
        shop.queue(work, &through("", dead)).await;
        shop.fill(work, 1).await;
        shop.reject_all(work).await;
    }
    shop.listed("dead", 1).await;
    let _consumer = shop
        .channel
        .basic_consume(
            "other.dead".into(),
            "c".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await
        .unwrap();
    let plan = async |filter: &str| {
        let order = Order::new(OrderKind::Redrive, Selection::Filter(filter.to_owned()));
        shop.stage.engine.plan(Command::Run(order)).await
    };
    let none = plan("queue = dead and age > 10h").await.unwrap_err();
    assert!(matches!(none, EngineError::NotFound { .. }), "{none:?}");
    let one = plan("queue = dead").await.unwrap();
    let warned = one.warnings.join(" ");
    assert!(one.messages == Some(1) && !warned.contains("other.dead"), "{warned}");
}
