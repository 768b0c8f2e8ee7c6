//! What only the embedded broker does, as it is a file; the suite of every driver is `broker_contract`.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::FutureExt;
use redrive::internals::ambient::{self, Clock};
use redrive::internals::broker::embedded::Embedded;
use redrive::internals::broker::{Acked, BrokerError, BrokerHandle, Deleted, Lost, Next, Published, Signal};
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::job::Lifetime;
use redrive::internals::domain::message::Message;
use redrive::internals::domain::naming::{Naming, QueueType};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::sqlite::SqliteFile;

use crate::broker_contract::bench::{Bench, QUIET, SOON, next, number, numbered, take};
use crate::support::wait::within;

fn naming() -> Naming {
    Naming {
        prefix: "redrive.".into(),
        vhost: "redrive".into(),
        url_hash_key: "key".into(),
        queue_type: QueueType::Classic,
    }
}

async fn open(path: &Path, naming: Naming) -> BrokerHandle {
    let file = SqliteFile::open(path).await.unwrap();
    Embedded::open(file, naming, Clock::system()).await.unwrap()
}

/// A bench on the file `name` in `directory`, prepared.
async fn bench_in(directory: &Path) -> Bench {
    let broker = open(&directory.join("queues.sqlite"), naming()).await;
    broker.prepare().await.unwrap();
    Bench {
        broker,
        naming: naming(),
        finish: Mutex::new(None),
    }
}

/// A bench on a file of its own.
pub(crate) async fn start() -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let bench = bench_in(directory.path()).await;
    *bench.finish.lock().unwrap() = Some(Box::new(move || Box::pin(async move { drop(directory) })));
    bench
}

#[tokio::test]
async fn a_message_for_which_there_is_no_room_is_left_where_it_is() {
    let bench = start().await;
    let queue = bench.created("q").await;
    for (id, bytes) in [("small", 10), ("large", 100_000), ("behind", 10)] {
        let message = Message {
            message_id: Some(id.to_owned()),
            body: vec![b'x'; bytes].into(),
            ..Message::default()
        };
        assert_eq!(
            bench.broker.publish(&queue, &message).await.unwrap(),
            Published::Accepted
        );
    }
    let mut attached = bench.attached(&queue, 1).await;
    for (room, came) in [(64 * 1024, "small"), (200_000, "large"), (64 * 1024, "behind")] {
        if came == "large" {
            let left = attached.next_within(64 * 1024).await;
            assert!(matches!(left, Next::Larger(100_000..)), "{left:?}");
        }
        let Next::Message(delivery) = attached.next_within(room).await else {
            panic!("{came} did not come");
        };
        assert_eq!(delivery.message.message_id.as_deref(), Some(came));
        assert_eq!(attached.ack(delivery.tag).await, Acked::Sent);
    }
    attached.close().await;
}

/// What a killed process leaves is the file as it is: nothing is closed here, only opened again.
#[tokio::test]
async fn a_file_opened_again_has_everything_in_its_place_unacked_first() {
    let directory = tempfile::tempdir().unwrap();
    let killed = bench_in(directory.path()).await;
    let queue = killed.filled("q", 6).await;
    let mut attached = killed.attached(&queue, 2).await;
    assert_eq!(take(&mut attached, 2).await, [1, 2]);
    for expected in [3, 4] {
        let delivery = next(&mut attached).await;
        assert_eq!((number(&delivery.message), delivery.redelivered), (expected, false));
    }
    std::mem::forget(attached);

    let again = bench_in(directory.path()).await;
    again.accepted(&queue, &numbered(7)).await;
    let mut attached = again.attached(&queue, 1).await;
    let first = next(&mut attached).await;
    assert_eq!((number(&first.message), first.redelivered), (3, true));
    attached.close().await;
    let mut attached = again.attached(&queue, 1).await;
    assert_eq!(take(&mut attached, 4).await, [3, 4, 5, 6]);
    let new = next(&mut attached).await;
    assert_eq!((number(&new.message), new.redelivered), (7, false));
    again.finish().await;
}

#[tokio::test]
async fn only_what_was_left_unsettled_counts_as_redelivered() {
    let bench = start().await;
    let queue = bench.filled("q", 4).await;
    let mut attached = bench.attached(&queue, 2).await;
    assert_eq!(take(&mut attached, 1).await, [1]);
    assert!(!next(&mut attached).await.redelivered);
    attached.close().await;
    let mut attached = bench.attached(&queue, 3).await;
    let mut flags = Vec::new();
    for _ in 0..3 {
        let delivery = next(&mut attached).await;
        flags.push((number(&delivery.message), delivery.redelivered));
    }
    assert_eq!(flags, [(2, true), (3, false), (4, false)]);
    bench.finish().await;
}

/// The race that costs a message on a broker that confirms into a queue being deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_that_races_with_a_deletion_is_kept_or_returned() {
    let bench = start().await;
    for round in 0..100 {
        let queue = bench.created(&format!("q{round}")).await;
        let (broker, name) = (bench.broker.clone(), queue.clone());
        let publisher = ambient::spawn("racing publisher", async move {
            broker.publish(&name, &numbered(round)).await.unwrap()
        });
        bench.broker.unbind(&queue).await.unwrap();
        let deleted = bench.broker.delete_empty(&queue).await.unwrap();
        let expected = match publisher.await.unwrap() {
            Published::Accepted => Deleted::InUse,
            Published::Returned => Deleted::Deleted,
            Published::Refused(reason) | Published::NotNow(reason) => panic!("{reason}"),
        };
        assert_eq!(deleted, expected, "round {round}");
    }
    bench.finish().await;
}

#[tokio::test]
async fn a_bound_queue_is_not_deleted() {
    let bench = start().await;
    let queue = bench.created("q").await;
    assert_eq!(bench.broker.delete_empty(&queue).await.unwrap(), Deleted::InUse);
    bench.accepted(&queue, &numbered(1)).await;
    bench.finish().await;
}

#[tokio::test]
async fn other_settings_get_an_error_and_no_second_queue() {
    let directory = tempfile::tempdir().unwrap();
    let bench = bench_in(directory.path()).await;
    let queue = bench.created("q").await;
    let other = Naming {
        url_hash_key: "another key".into(),
        ..naming()
    };
    let other = open(&directory.path().join("queues.sqlite"), other).await;
    for refused in [
        other.publish(&queue, &numbered(1)).await.map(|_| ()),
        other.create(&queue).await,
        other.bind(&queue).await.map(|_| ()),
    ] {
        assert!(matches!(refused, Err(BrokerError::NoExchange { .. })), "{refused:?}");
    }
    bench.wait_ready(&queue, 0).await;
    bench.finish().await;
}

#[tokio::test]
async fn another_process_wakes_a_waiting_worker_and_who_listens() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = bench_in(directory.path()).await;
    let publisher = bench_in(directory.path()).await;
    publisher.broker.set_name("publisher");
    daemon.broker.listen().await.unwrap();
    let mut signals = daemon.broker.signals();

    let queue = publisher.created("q").await;
    heard(&mut signals, &Signal::QueueCreated(queue.clone())).await;
    let mut attached = daemon.attached(&queue, 1).await;
    let message = numbered(1);
    let (delivery, ()) = tokio::join!(next(&mut attached), publisher.accepted(&queue, &message));
    assert_eq!(number(&delivery.message), 1);
    heard(&mut signals, &Signal::Nudged(queue.clone())).await;

    publisher.broker.delete_whole(&queue).await.unwrap();
    let end = within(SOON, attached.next()).await.unwrap();
    assert!(matches!(end, Next::Lost(Lost::Cancelled)), "{end:?}");
    let by = Some("publisher".to_owned());
    heard(&mut signals, &Signal::QueueDeleted { queue, by }).await;
    publisher.finish().await;
    daemon.finish().await;
}

async fn heard(signals: &mut tokio::sync::broadcast::Receiver<Signal>, wanted: &Signal) {
    let heard = async { while signals.recv().await.unwrap() != *wanted {} };
    within(SOON, heard).await.expect("the signal is heard");
}

#[tokio::test]
async fn a_queue_of_the_same_name_made_again_is_another_one() {
    let bench = start().await;
    let queue = bench.created("q").await;
    let mut old = bench.attached(&queue, 1).await;
    bench.broker.delete_whole(&queue).await.unwrap();
    bench.broker.create(&queue).await.unwrap();
    bench.accepted(&queue, &numbered(1)).await;
    let end = within(SOON, old.next()).await.unwrap();
    assert!(matches!(end, Next::Lost(Lost::Cancelled)), "{end:?}");
    let mut new = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut new, 1).await, [1]);
    bench.finish().await;
}

#[tokio::test]
async fn a_publisher_that_goes_away_does_not_leave_its_message_unseen() {
    let bench = start().await;
    let queue = bench.created("q").await;
    let mut attached = bench.attached(&queue, 1).await;
    let message = numbered(1);
    {
        let mut waiting = std::pin::pin!(next(&mut attached));
        assert!(tokio::time::timeout(QUIET, &mut waiting).await.is_err());
        // Polled once, which hands the message over, then dropped.
        assert!(bench.broker.publish(&queue, &message).now_or_never().is_none());
        assert_eq!(number(&waiting.await.message), 1);
    }
    bench.finish().await;
}

/// Reading ahead is bounded in bytes, and a window's end is not the queue's.
#[tokio::test]
async fn large_messages_and_long_queues_arrive_whole_and_in_order() {
    let bench = start().await;
    let queue = bench.created("q").await;
    let large = Message {
        body: vec![b'x'; 3 * 1024 * 1024].into(),
        ..Message::default()
    };
    bench.accepted(&queue, &large).await;
    for count in 1..=200 {
        bench.accepted(&queue, &numbered(count)).await;
    }
    let mut attached = bench.attached(&queue, 1).await;
    let first = next(&mut attached).await;
    assert_eq!(first.message, large);
    assert_eq!(attached.ack(first.tag).await, Acked::Sent);
    assert_eq!(take(&mut attached, 200).await, (1..=200).collect::<Vec<_>>());
    bench.finish().await;
}

#[tokio::test]
async fn a_closed_broker_ends_its_attachments_and_refuses_politely() {
    let bench = start().await;
    let queue = bench.created("q").await;
    let mut attached = bench.attached(&queue, 1).await;
    let broker = bench.broker.clone();
    let (end, ()) = tokio::join!(attached.next(), broker.close());
    assert!(matches!(end, Next::Lost(Lost::Connection(_))), "{end:?}");
    let late = broker.publish(&queue, &numbered(1)).await;
    assert!(matches!(late, Err(BrokerError::Unreachable { .. })), "{late:?}");
    assert!(!broker.health().await.reachable);
    bench.finish().await;
}

/// RabbitMQ counts lifetimes on a clock that nobody sets; here the calendar is what is written down.
#[tokio::test]
async fn a_calendar_that_is_set_forward_ends_no_queue_with_a_lifetime() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queues.sqlite");
    let clock = Clock::manual(Timestamp::from_seconds(1_800_000_000));
    let (day, lifetime) = (Duration::from_hours(24), Duration::from_secs(100));
    let (queue, other) = (QueueName::parse("job").unwrap(), QueueName::parse("other").unwrap());
    let opened = async |clock: &Clock| {
        let file = SqliteFile::open(&path).await.unwrap();
        let broker = Embedded::open(file, naming(), clock.clone()).await.unwrap();
        broker.prepare().await.unwrap();
        broker
    };
    let is_there = async |broker: &BrokerHandle| {
        matches!(
            broker.look(&queue).await.unwrap(),
            redrive::internals::broker::Look::Present { .. }
        )
    };
    let broker = opened(&clock).await;
    let short = Lifetime::of(lifetime).unwrap();
    broker.declare_expiring(&queue, short).await.unwrap();
    clock.set(clock.now().plus(day));
    assert!(is_there(&broker).await, "the calendar was set, and no time went by");
    // A look at all of them, which a new one brings about.
    broker.declare_expiring(&other, short).await.unwrap();
    clock.advance(Duration::from_secs(60));
    assert!(is_there(&broker).await);
    // Nobody has the file open for a day.
    broker.close().await;
    clock.advance(day);
    let broker = opened(&clock).await;
    assert!(is_there(&broker).await, "nobody could have used it meanwhile");
    clock.advance(lifetime);
    assert!(!is_there(&broker).await, "nobody used it for as long as it lives");
    broker.close().await;
}
