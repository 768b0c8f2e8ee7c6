//! How many dead letters there are: of every queue of the vhost, in one sum wherever it is shown.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::options::BasicConsumeOptions;
use lapin::types::FieldTable;
use redrive::internals::broker::ListedQueue;
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::turn::TurnKind;
use redrive::internals::engine::Event;
use redrive::internals::engine::dead::DeadSum;
use redrive::internals::engine::query;
use redrive::internals::engine::snapshot::Snapshot;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::shop::{BOUND, Shop, query, text};
use crate::support::wait::{wait_until, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overview_counts_the_dead_letters_of_every_queue_that_nobody_consumes() {
    let mut shop = Shop::open().await;
    for name in ["orders", "mails", "worked-on"] {
        let dead = format!("{name}.dead");
        shop.queue(&dead, &[]).await;
        let arguments = [
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(&dead)),
        ];
        shop.queue(name, &arguments).await;
    }
    // Somebody works on these.
    let mut consumer = shop
        .channel
        .basic_consume(
            "worked-on.dead".into(),
            "worker".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await
        .unwrap();
    let worked_on = QueueName::parse("worked-on.dead").unwrap();
    wait_until("the consumer to be counted", BOUND, async || {
        let detail = shop.stage.broker.queue_detail(&worked_on).await.unwrap();
        detail.filter(|detail| detail.consumers == Some(1)).map(drop)
    })
    .await;
    let mut told = shop.stage.engine.events();
    for (name, count) in [("worked-on", 4), ("orders", 3), ("mails", 2)] {
        shop.fill(name, count).await;
        shop.reject_all(name).await;
    }
    consumer.next().await.unwrap().unwrap();
    shop.stage.start();
    let stop = CancellationToken::new();
    let observer = shop.stage.engine.observe(Duration::from_millis(300), stop.clone());
    let snapshots = observer.snapshots();
    let sum = |snapshot: &Snapshot| snapshot.totals.dead;
    assert_eq!(
        sum(&snapshots.borrow()).letters,
        None,
        "nothing was read yet: that is not zero"
    );
    let expected = DeadSum {
        letters: Some(5),
        queues: 2,
        events: Some(0),
    };
    wait_until("both queues are counted", BOUND, async || {
        (sum(&snapshots.borrow()) == expected).then_some(())
    })
    .await;
    let page = wait_until("the list comes to the same", BOUND, async || {
        let page = shop.ask(query::DeadGroups(query(None, None))).await.unwrap();
        (page.sum() == expected).then_some(page)
    })
    .await;
    assert!(page.problems.is_empty(), "{:?}", page.problems);
    let expected = BTreeMap::from([("mails.dead".to_owned(), 2), ("orders.dead".to_owned(), 3)]);
    assert_eq!(alerted(&mut told, &expected).await, expected);
    stop.cancel();
}

/// The statistics count a consumer for seconds after it is gone, such as that of a look or a run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_are_counted_as_soon_as_their_consumer_is_gone_whatever_the_statistics_say() {
    let shop = Shop::open().await;
    shop.queue("orders.dead", &[]).await;
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("orders.dead")),
    ];
    shop.queue("orders", &arguments).await;
    shop.fill("orders", 3).await;
    shop.reject_all("orders").await;
    let held = shop.connection.create_channel().await.unwrap();
    let options = BasicConsumeOptions::default();
    let consuming = held.basic_consume("orders.dead".into(), "held".into(), options, FieldTable::default());
    let _consumer = consuming.await.unwrap();
    let dead = QueueName::parse("orders.dead").unwrap();
    wait_until("the consumer to be counted", BOUND, async || {
        let detail = shop.stage.broker.queue_detail(&dead).await.unwrap();
        let is_counted = |detail: &ListedQueue| detail.consumers == Some(1) && detail.unacked == Some(3);
        detail.filter(is_counted).map(drop)
    })
    .await;
    held.close(200, "done".into()).await.unwrap();
    let stop = CancellationToken::new();
    let observer = shop.stage.engine.observe(Duration::from_millis(100), stop.clone());
    let mut snapshots = observer.snapshots();
    let first = snapshots.wait_for(|snapshot| snapshot.totals.dead.letters.is_some());
    let first = within(BOUND, first).await.unwrap().unwrap().totals.dead;
    let lag = shop.stage.broker.queue_detail(&dead).await.unwrap().unwrap();
    assert_eq!((first.letters, first.queues), (Some(3), 1), "the statistics: {lag:?}");
    stop.cancel();
}

/// Whoever is alerted hears of so many dead letters, until they are all that are expected, or of others.
async fn alerted(told: &mut broadcast::Receiver<Event>, expected: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut heard: BTreeMap<String, u64> = BTreeMap::new();
    while heard != *expected && heard.keys().all(|queue| expected.contains_key(queue)) {
        let next = within(BOUND, told.recv()).await;
        let next = next.unwrap_or_else(|_| panic!("only {heard:?} was told"));
        if let Ok(Event::Turned(turn)) = next
            && turn.kind == TurnKind::DeadLetters
        {
            *heard.entry(turn.subject).or_default() += turn.count.unwrap();
        }
    }
    heard
}
