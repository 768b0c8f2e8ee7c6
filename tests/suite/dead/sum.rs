//! How many dead letters there are: of every queue of the vhost, in one sum wherever it is shown.

use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::options::BasicConsumeOptions;
use lapin::types::FieldTable;
use redrive::engine::Query;
use redrive::engine::dead::DeadSum;
use redrive::engine::{Answer, snapshot::Snapshot};
use tokio_util::sync::CancellationToken;

use super::shop::{BOUND, Shop, query, text};
use crate::support::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overview_counts_the_dead_letters_of_every_queue_that_nobody_consumes() {
    let shop = Shop::open().await;
    for (name, count) in [("orders", 3), ("mails", 2), ("worked-on", 4)] {
        let dead = format!("{name}.dead");
        shop.queue(&dead, &[]).await;
        let arguments = [
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(&dead)),
        ];
        shop.queue(name, &arguments).await;
        shop.fill(name, count).await;
        shop.reject_all(name).await;
    }
    // Somebody works on these.
    let consumer = shop
        .channel
        .basic_consume(
            "worked-on.dead".into(),
            "worker".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await
        .unwrap();
    let mut consumer = consumer;
    consumer.next().await.unwrap().unwrap();
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
        let Answer::DeadGroups(page) = shop.ask(Query::DeadGroups(query(None, None))).await.unwrap() else {
            panic!("no groups");
        };
        (page.sum() == expected).then_some(page)
    })
    .await;
    assert!(page.problems.is_empty(), "{:?}", page.problems);
    stop.cancel();
}
