//! Looks at any queue by its name: refused where they would cost, or take messages out of somebody's hands.

use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::options::{BasicConsumeOptions, BasicGetOptions, BasicNackOptions, BasicPublishOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel};
use redrive::internals::broker::{Returns, WalkOptions};
use redrive::internals::budget::{Share, Use};
use redrive::internals::domain::id::QueueName;
use redrive::internals::engine::runs::{Order, OrderKind, Selection};
use redrive::internals::engine::{Command, EngineError, query};
use tokio_util::sync::CancellationToken;

use super::queues::through;
use super::shop::{BOUND, Shop, query as letters_of, text, view};
use crate::support::wait::{wait_until, within};

async fn browse(shop: &Shop, queue: &str) -> Result<usize, String> {
    browse_up_to(shop, queue, 10).await
}

async fn browse_up_to(shop: &Shop, queue: &str, limit: u32) -> Result<usize, String> {
    let queue = QueueName::parse(queue).unwrap();
    match shop.ask(query::Browse { queue, limit }).await {
        Ok(seen) => Ok(seen.len()),
        Err(EngineError::Refused { why }) => Err(why),
        other => panic!("{other:?}"),
    }
}

async fn quorum(shop: &Shop, name: &str, limit: Option<i32>) {
    let mut arguments = vec![("x-queue-type", text("quorum"))];
    arguments.extend(limit.map(|limit| ("x-delivery-limit", AMQPValue::LongInt(limit))));
    shop.queue(name, &arguments).await;
}

/// Fifty a second.
async fn keep_publishing(channel: &Channel, queue: &str) {
    let mut pause = tokio::time::interval(Duration::from_millis(20));
    loop {
        pause.tick().await;
        let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
        let publishing = channel.basic_publish("".into(), queue.into(), options, b"late", properties);
        publishing.await.unwrap().await.unwrap();
    }
}

/// What comes while they are read is left for the next look; nothing that was there is left out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_that_keep_arriving_keep_no_look_from_its_end() {
    let shop = Shop::open().await;
    shop.queue("busy", &[]).await;
    shop.queue("work", &through("", "busy")).await;
    shop.fill("busy", 200).await;
    let (channel, over) = (shop.channel.clone(), CancellationToken::new());
    let stop = over.clone();
    let arriving = tokio::spawn(async move { stop.run_until_cancelled(keep_publishing(&channel, "busy")).await });
    let looking = within(Duration::from_secs(30), shop.list(Some("busy"), None));
    let listed = looking.await.expect("a list ends").page.items;
    assert!(listed.len() >= 200, "{}", listed.len());
    let reading = within(Duration::from_secs(30), shop.list(Some("busy"), Some("body./n >= 0")));
    reading.await.expect("a list that reads the bodies ends");
    let order = Command::Run(Order::new(OrderKind::Discard, Selection::All));
    let planning = within(Duration::from_secs(30), shop.stage.engine.plan(order));
    planning.await.expect("a plan ends").unwrap();
    over.cancel();
    arriving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looks_at_a_limited_queue_end_before_the_broker_drops_something() {
    let shop = Shop::open().await;
    for (limit, allowed) in [(0, 0), (1, 0), (2, 1), (5, 2)] {
        let name = format!("work-{limit}");
        quorum(&shop, &name, Some(limit)).await;
        shop.fill(&name, 3).await;
        for _ in 0..allowed {
            assert_eq!(browse(&shop, &name).await, Ok(3), "limit {limit}");
        }
        for _ in 0..limit + 2 {
            let why = browse(&shop, &name).await.unwrap_err();
            assert!(
                why.contains("counts as a delivery") && why.contains("delivery-limit"),
                "{why}"
            );
        }
        assert_eq!(shop.drain(&name).await.len(), 3, "limit {limit}: no look dropped one");
    }
}

/// A quorum queue with single active consumer gives its messages unasked: whatever came and was not shown would be held
/// in memory, and counted as a delivery by a broker that drops after so many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_takes_no_message_of_a_queue_with_single_active_consumer_that_it_does_not_show() {
    const MESSAGES: usize = 40;
    let shop = Shop::open().await;
    let arguments = [
        ("x-queue-type", text("quorum")),
        ("x-single-active-consumer", AMQPValue::Boolean(true)),
        ("x-delivery-limit", AMQPValue::LongInt(20)),
    ];
    shop.queue("large", &arguments).await;
    for number in 0..MESSAGES {
        let body = format!("{number:02}{}", "x".repeat(2 << 20));
        shop.publish("", "large", BasicProperties::default().with_delivery_mode(2), &body)
            .await;
    }
    let queue = QueueName::parse("large").unwrap();
    wait_until("the broker to know how large they are", BOUND, async || {
        let listed = shop.stage.broker.queue_detail(&queue).await.unwrap()?;
        (listed.bytes? > 80 << 20 && listed.ready? == MESSAGES as u64).then_some(())
    })
    .await;
    let seen = browse_up_to(&shop, "large", 500).await.unwrap();
    assert_eq!(
        seen, 15,
        "they have a little more than 2 MiB each, and 32 MiB are shown"
    );
    let options = BasicConsumeOptions::default();
    let consuming = shop
        .channel
        .basic_consume("large".into(), "drain".into(), options, FieldTable::default());
    let came: Vec<_> = consuming.await.unwrap().take(MESSAGES).collect().await;
    let came = came.into_iter().map(|one| {
        let one = one.unwrap();
        (String::from_utf8(one.data[..2].to_vec()).unwrap(), one.redelivered)
    });
    let expected = (0..MESSAGES).map(|position| (format!("{position:02}"), position < seen));
    assert_eq!(came.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

/// Message by message: what was looked at often is gone, and what came has its own looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_arrives_after_the_looks_were_used_up_can_be_seen_once_the_others_are_gone() {
    let shop = Shop::open().await;
    quorum(&shop, "work", Some(2)).await;
    shop.fill("work", 2).await;
    assert_eq!(browse(&shop, "work").await, Ok(2));
    browse(&shop, "work").await.unwrap_err();
    assert_eq!(shop.drain("work").await, ["1", "2"]);
    shop.fill("work", 1).await;
    browse(&shop, "work").await.unwrap_err();
    assert_eq!(
        shop.drain("work").await,
        ["1"],
        "it could have been the second one still"
    );
    // Its statistics lag: for a while they say that somebody has some of them in hand.
    wait_until("nothing to be left", BOUND, async || {
        (browse(&shop, "work").await == Ok(0)).then_some(())
    })
    .await;
    shop.fill("work", 1).await;
    assert_eq!(browse(&shop, "work").await, Ok(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_quorum_queue_is_looked_at_as_often_as_its_broker_allows_for() {
    let shop = Shop::open().await;
    quorum(&shop, "plain", None).await;
    shop.fill("plain", 2).await;
    let version = shop.stage.broker.version().await.expect("a broker tells its version");
    let limit = redrive::internals::domain::broker_rules::facts(Some(version)).default_limit;
    let allowed = limit.map_or(25, |limit| limit / 2);
    for _ in 0..allowed {
        assert_eq!(browse(&shop, "plain").await, Ok(2));
    }
    for _ in allowed..25 {
        browse(&shop, "plain").await.unwrap_err();
    }
    assert_eq!(shop.drain("plain").await.len(), 2);
}

/// Somebody takes the first message and gives it back, so many times. Answers what the broker has counted then: no
/// less than `redelivered`; for a dead letter RabbitMQ 4.3 counts its first delivery, too.
async fn return_it(shop: &Shop, name: &str, times: u32, redelivered: u64) -> u64 {
    for _ in 0..times {
        let got = wait_until("the message", BOUND, async || {
            let options = BasicGetOptions::default();
            shop.channel.basic_get(name.into(), options).await.unwrap()
        })
        .await;
        let requeue = BasicNackOptions {
            requeue: true,
            ..BasicNackOptions::default()
        };
        shop.channel
            .basic_nack(got.delivery.delivery_tag, requeue)
            .await
            .unwrap();
    }
    let queue = QueueName::parse(name).unwrap();
    wait_until("the broker to count redeliveries", BOUND, async || {
        let listed = shop.stage.broker.queue_detail(&queue).await.unwrap()?;
        listed.redelivered.filter(|counted| *counted >= redelivered)
    })
    .await
}

/// Somebody returned them as often as they may be: a look would be the last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_returned_too_often_is_not_looked_at() {
    let shop = Shop::open().await;
    quorum(&shop, "work", Some(4)).await;
    shop.fill("work", 1).await;
    let counted = return_it(&shop, "work", 4, 3).await;
    let why = browse(&shop, "work").await.unwrap_err();
    assert!(why.contains(&format!("{counted} times again")), "{why}");
    assert_eq!(shop.drain("work").await, ["1"]);
}

/// What was seen by a look is not what it is now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_returned_too_often_since_a_look_is_not_looked_at() {
    let shop = Shop::open().await;
    quorum(&shop, "work", Some(4)).await;
    shop.fill("work", 1).await;
    assert_eq!(browse(&shop, "work").await, Ok(1));
    let counted = return_it(&shop, "work", 3, 3).await;
    let why = browse(&shop, "work").await.unwrap_err();
    assert!(why.contains(&format!("{counted} times again")), "{why}");
    assert_eq!(shop.drain("work").await, ["1"]);
}

/// A queue of dead letters that outlive four returns, with one in it.
async fn limited_dead(shop: &Shop) {
    quorum(shop, "limited.dead", Some(4)).await;
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("limited.dead")),
    ];
    shop.queue("work", &arguments).await;
    shop.fill("work", 1).await;
    shop.reject_all("work").await;
}

async fn is_refused_for_others(shop: &Shop, counted: u64) {
    wait_until("the list to say why it does not look", BOUND, async || {
        let queues = shop.list(None, None).await.queues;
        let problem = view(&queues, "limited.dead")?.problem.clone()?;
        // What the look found may say it already, by the letter's own count.
        let by_the_letter = problem.contains("after 4 returns, and one of them had");
        assert!(
            by_the_letter || problem.contains(&format!("{counted} times again")),
            "{problem}"
        );
        Some(())
    })
    .await;
    for _ in 0..3 {
        shop.list(None, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_that_others_returned_too_often_are_not_looked_at() {
    let shop = Shop::open().await;
    limited_dead(&shop).await;
    let counted = return_it(&shop, "limited.dead", 4, 3).await;
    is_refused_for_others(&shop, counted).await;
    assert_eq!(shop.drain("limited.dead").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_that_others_returned_too_often_since_a_look_are_not_looked_at() {
    let shop = Shop::open().await;
    limited_dead(&shop).await;
    shop.listed("limited.dead", 1).await;
    let counted = return_it(&shop, "limited.dead", 3, 3).await;
    shop.fill("work", 1).await;
    shop.reject_all("work").await;
    is_refused_for_others(&shop, counted).await;
    assert_eq!(shop.drain("limited.dead").await, ["1", "1"]);
}

/// The broker counts what it sent ahead to a walk as delivered, whether anybody took it or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_tells_how_much_it_adds_to_what_the_broker_counts() {
    let shop = Shop::open().await;
    shop.queue("work", &[]).await;
    shop.fill("work", 6).await;
    let queue = QueueName::parse("work").unwrap();
    let mut counted = Vec::new();
    // The first walk takes them all; to the others the broker sends them ahead.
    for (least, redelivered) in [(6, None), (1, Some(6)), (1, Some(12))] {
        let walk = shop
            .stage
            .broker
            .walk(&queue, WalkOptions::new(Returns::InPlace))
            .await
            .unwrap();
        let mut walk = walk.expect("a queue");
        let mut taken = 0;
        while taken < least {
            taken += walk.next(1).await.unwrap().len();
        }
        if redelivered.is_some() {
            // While the channel lives: what a broker has not counted by its end it may never count.
            wait_until("the broker to count them", BOUND, async || {
                let listed = shop.stage.broker.queue_detail(&queue).await.unwrap()?;
                (listed.redelivered == redelivered).then_some(())
            })
            .await;
        }
        counted.push(walk.close().await.unwrap());
    }
    assert_eq!(counted, [0, 6, 6]);
    assert_eq!(shop.drain("work").await.len(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_a_consumer_is_not_looked_at_and_the_consumer_is_named() {
    let shop = Shop::open().await;
    shop.queue("work", &[]).await;
    let options = BasicConsumeOptions::default();
    let consuming = shop
        .channel
        .basic_consume("work".into(), "somebody".into(), options, FieldTable::default());
    let consumer = consuming.await.unwrap();
    let why = browse(&shop, "work").await.unwrap_err();
    assert!(
        why.contains("1 consumer") && why.contains("stop what consumes it"),
        "{why}"
    );
    shop.channel
        .basic_cancel("somebody".into(), lapin::options::BasicCancelOptions::default())
        .await
        .unwrap();
    drop(consumer);
    shop.fill("work", 2).await;
    for _ in 0..25 {
        assert_eq!(browse(&shop, "work").await, Ok(2), "a classic queue counts nothing");
    }
}

/// A quorum queue keeps the order of so many messages only: there a look ends, and whoever asks hears of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_behind_the_end_of_a_look_is_told_of_in_lists_plans_and_exports() {
    const SAID: &str = "there are more messages than can be looked at in one go";
    let shop = Shop::open().await;
    quorum(&shop, "large.dead", None).await;
    shop.queue("work", &through("", "large.dead")).await;
    let body = "x".repeat(30_000);
    for _ in 0..100 {
        shop.publish("", "large.dead", BasicProperties::default(), &body).await;
    }
    // Windows are small where there is no memory for large ones.
    let memory = shop.stage.settings.memory.clone();
    let held: Vec<Share> = std::iter::from_fn(|| memory.try_take(Use::InHand, 1 << 20)).collect();
    let page = wait_until("the letters that are seen", BOUND, async || {
        let page = shop.list(Some("large.dead"), None).await;
        (!page.page.items.is_empty()).then_some(page)
    })
    .await;
    let seen = page.page.items.len();
    assert!(seen < 100, "{seen} were seen at once");
    assert!(
        page.problems.iter().any(|problem| problem.reason == SAID),
        "{:?}",
        page.problems
    );
    let order = Order::new(OrderKind::Discard, Selection::All);
    let plan = shop.stage.engine.plan(Command::Run(order)).await.unwrap();
    assert_eq!(plan.messages, Some(seen as u64));
    let warned = plan.warnings.join("\n");
    assert!(warned.contains(SAID) && warned.contains("large.dead"), "{warned}");
    let unknown = Selection::Ids(vec!["0".repeat(32)]);
    let order = Order::new(OrderKind::Discard, unknown);
    let behind = shop.stage.engine.plan(Command::Run(order)).await.unwrap_err();
    let version = shop.stage.broker.version().await;
    if redrive::internals::domain::broker_rules::facts(version)
        .default_limit
        .is_none()
    {
        assert!(
            matches!(&behind, EngineError::Unread(_)),
            "it may be behind: {behind:?}"
        );
        let mut exported = shop.stage.engine.export_dead(letters_of(None, None).selection).unwrap();
        let (mut count, mut ended) = (0, None);
        while let Some(letter) = exported.recv().await {
            match letter {
                Ok(_) => count += 1,
                Err(error) => ended = Some(error.to_string()),
            }
        }
        assert_eq!(count, seen);
        assert!(ended.as_ref().is_some_and(|said| said.ends_with(SAID)), "{ended:?}");
    }
    drop(held);
}
