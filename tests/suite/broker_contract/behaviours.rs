//! The behaviours themselves, a function each, in the words of the seam.

use std::time::Duration;

use redrive::internals::broker::{
    Acked, AttachOptions, AttachOutcome, Deleted, ListRequest, ListedQueue, Look, Lost, Next, Published, QueuePart,
    Signal, WhichQueues,
};
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::message::Message;
use redrive::internals::domain::naming::QueueType;

use super::bench::{Bench, SOON, full, is_quiet, next, number, numbered, options, take};
use crate::support::wait::within;

const EMPTY: Look = Look::Present { ready: 0, consumers: 0 };

pub(crate) use super::intakes::*;
pub(crate) use super::walks::*;

pub(crate) async fn a_missing_queue_is_looked_at_as_missing(bench: &Bench) {
    assert_eq!(bench.broker.look(&bench.queue("none")).await.unwrap(), Look::Missing);
    // A look that found nothing disturbs no later one.
    let queue = bench.created("q").await;
    assert_eq!(bench.broker.look(&queue).await.unwrap(), EMPTY);
}

pub(crate) async fn publishing_to_a_missing_queue_is_returned_and_creates_nothing(bench: &Bench) {
    let queue = bench.queue("none");
    assert_eq!(
        bench.broker.publish(&queue, &numbered(1)).await.unwrap(),
        Published::Returned
    );
    assert_eq!(bench.broker.look(&queue).await.unwrap(), Look::Missing);
}

pub(crate) async fn publishing_to_the_dead_letter_queue_is_accepted(bench: &Bench) {
    assert_eq!(bench.broker.publish_dead(&full()).await.unwrap(), Published::Accepted);
    let dead = QueueName::parse(&bench.naming.dead_letter_queue()).unwrap();
    bench.wait_ready(&dead, 1).await;
    let seen = bench.broker.browse(&dead, 10).await.unwrap();
    assert_eq!(seen.len(), 1);
    let mut message = seen[0].message.clone();
    // A broker may show how often it was delivered.
    message.headers.retain(|(name, _)| name != "x-delivery-count");
    assert_eq!(message, full());
}

pub(crate) async fn a_created_queue_is_there_and_empty(bench: &Bench) {
    let queue = bench.created("q").await;
    assert_eq!(bench.broker.look(&queue).await.unwrap(), EMPTY);
}

pub(crate) async fn creating_a_queue_twice_changes_nothing(bench: &Bench) {
    let queue = bench.filled("q", 1).await;
    bench.broker.create(&queue).await.unwrap();
    bench.wait_ready(&queue, 1).await;
}

pub(crate) async fn an_accepted_message_is_ready(bench: &Bench) {
    let queue = bench.filled("q", 3).await;
    bench.wait_ready(&queue, 3).await;
}

pub(crate) async fn a_message_arrives_as_it_was_published(bench: &Bench) {
    let queue = bench.created("q").await;
    bench.accepted(&queue, &full()).await;
    bench
        .accepted(&queue, &redrive::internals::domain::message::Message::default())
        .await;
    let mut attached = bench.attached(&queue, 1).await;
    let first = next(&mut attached).await;
    assert_eq!(first.message, full());
    assert_eq!(attached.ack(first.tag).await, Acked::Sent);
    assert_eq!(
        next(&mut attached).await.message,
        redrive::internals::domain::message::Message::default()
    );
    attached.close().await;
}

pub(crate) async fn messages_arrive_in_the_order_of_publishing(bench: &Bench) {
    let queue = bench.filled("q", 20).await;
    let mut attached = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut attached, 20).await, (1..=20).collect::<Vec<_>>());
    attached.close().await;
}

/// An answer must never be taken for another publish's: half of these have no queue.
pub(crate) async fn publishes_in_parallel_each_get_their_own_answer(bench: &Bench) {
    let there = bench.created("there").await;
    let publishes = (0..200).map(|n| {
        let broker = bench.broker.clone();
        let queue = if n % 2 == 0 {
            there.clone()
        } else {
            bench.queue(&format!("none-{n}"))
        };
        redrive::internals::ambient::spawn("test", async move {
            (n, broker.publish(&queue, &numbered(n)).await.unwrap())
        })
    });
    for publish in publishes.collect::<Vec<_>>() {
        let (n, answer) = publish.await.unwrap();
        let expected = if n % 2 == 0 {
            Published::Accepted
        } else {
            Published::Returned
        };
        assert_eq!(answer, expected, "publish {n}");
    }
    bench.wait_ready(&there, 100).await;
}

pub(crate) async fn the_next_message_waits_for_the_ack_at_a_prefetch_of_one(bench: &Bench) {
    let queue = bench.filled("q", 2).await;
    let mut attached = bench.attached(&queue, 1).await;
    let first = next(&mut attached).await;
    assert!(is_quiet(&mut attached).await, "a second message came before the ack");
    assert_eq!(attached.ack(first.tag).await, Acked::Sent);
    assert_eq!(number(&next(&mut attached).await.message), 2);
    attached.close().await;
}

pub(crate) async fn what_is_acked_without_waiting_is_gone_and_lets_the_next_come(bench: &Bench) {
    let queue = bench.filled("q", 5).await;
    let mut attached = bench.attached(&queue, 1).await;
    for expected in 1..=3 {
        let delivery = next(&mut attached).await;
        assert_eq!(number(&delivery.message), expected);
        assert_eq!(attached.ack_soon(delivery.tag).await, Acked::Sent);
        assert_eq!(attached.ack_soon(delivery.tag).await, Acked::Lost, "settled twice");
    }
    attached.close().await;
    let mut again = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut again, 2).await, [4, 5]);
    again.close().await;
}

pub(crate) async fn closing_gives_everything_back_in_its_place(bench: &Bench) {
    let queue = bench.filled("q", 5).await;
    let prefetch = if bench.naming.queue_type == QueueType::Quorum {
        1
    } else {
        3
    };
    let mut attached = bench.attached(&queue, prefetch).await;
    for expected in 1..=u32::from(prefetch) {
        assert_eq!(number(&next(&mut attached).await.message), expected);
    }
    attached.close().await;
    // What `close` gave back is ready at once: it waits for the broker.
    bench.wait_ready(&queue, 5).await;
    let mut again = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut again, 5).await, [1, 2, 3, 4, 5]);
    again.close().await;
}

pub(crate) async fn dropping_gives_everything_back_in_its_place(bench: &Bench) {
    let queue = bench.filled("q", 3).await;
    let mut attached = bench.attached(&queue, 1).await;
    assert_eq!(number(&next(&mut attached).await.message), 1);
    drop(attached);
    bench
        .wait_look(&queue, |look| look == Look::Present { ready: 3, consumers: 0 })
        .await;
    let mut again = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut again, 3).await, [1, 2, 3]);
    again.close().await;
}

pub(crate) async fn a_message_that_comes_again_is_equal(bench: &Bench) {
    let queue = bench.created("q").await;
    bench.accepted(&queue, &full()).await;
    for _ in 0..3 {
        let mut attached = bench.attached(&queue, 1).await;
        assert_eq!(next(&mut attached).await.message, full());
        attached.close().await;
    }
}

pub(crate) async fn a_second_attachment_takes_over_only_after_the_first_is_closed(bench: &Bench) {
    let queue = bench.filled("q", 3).await;
    let mut first = bench.attached(&queue, 1).await;
    assert_eq!(number(&next(&mut first).await.message), 1);
    let mut second = bench.attached(&queue, 1).await;
    assert!(is_quiet(&mut second).await, "two workers of one queue");
    first.close().await;
    assert_eq!(take(&mut second, 3).await, [1, 2, 3]);
    second.close().await;
}

pub(crate) async fn waiting_for_a_message_can_be_given_up_and_taken_up_again(bench: &Bench) {
    let queue = bench.created("q").await;
    let mut attached = bench.attached(&queue, 1).await;
    assert!(is_quiet(&mut attached).await);
    bench.accepted(&queue, &numbered(1)).await;
    // Given up at every point where it can be: no message may be dropped with the future.
    let mut pause = tokio::time::interval(Duration::from_millis(1));
    let waiting = within(SOON, async {
        loop {
            tokio::select! {
                _ = pause.tick() => {}
                got = attached.next() => break got,
            }
        }
    });
    match waiting.await.expect("the message was lost") {
        Next::Message(delivery) => assert_eq!(number(&delivery.message), 1),
        other @ (Next::Lost(_) | Next::Larger(_)) => panic!("{other:?}"),
    }
    attached.close().await;
}

pub(crate) async fn an_acked_message_is_gone(bench: &Bench) {
    let queue = bench.filled("q", 2).await;
    let mut attached = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut attached, 1).await, [1]);
    attached.close().await;
    bench.wait_ready(&queue, 1).await;
    let mut again = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut again, 1).await, [2]);
    again.close().await;
}

pub(crate) async fn an_ack_after_the_queue_is_gone_says_lost(bench: &Bench) {
    let queue = bench.filled("q", 1).await;
    let mut attached = bench.attached(&queue, 1).await;
    let delivery = next(&mut attached).await;
    assert_eq!(bench.broker.delete_whole(&queue).await.unwrap(), Deleted::Deleted);
    let ended = within(SOON, attached.next()).await.expect("the end is noticed");
    assert!(matches!(ended, Next::Lost(_)), "{ended:?}");
    assert_eq!(attached.ack(delivery.tag).await, Acked::Lost);
}

pub(crate) async fn attaching_to_a_missing_queue_says_missing(bench: &Bench) {
    for bind in [true, false] {
        let options = AttachOptions { bind, ..options(1) };
        let outcome = bench.broker.attach(&bench.queue("none"), options).await.unwrap();
        assert!(matches!(outcome, AttachOutcome::Missing), "bind: {bind}");
    }
}

pub(crate) async fn deleting_the_queue_ends_the_attachment(bench: &Bench) {
    let queue = bench.created("q").await;
    let mut attached = bench.attached(&queue, 1).await;
    assert_eq!(bench.broker.delete_whole(&queue).await.unwrap(), Deleted::Deleted);
    match within(SOON, attached.next()).await.expect("the end is noticed") {
        Next::Lost(lost) => assert_eq!(lost, Lost::Cancelled),
        other @ (Next::Message(_) | Next::Larger(_)) => panic!("{other:?}"),
    }
    attached.close().await;
}

pub(crate) async fn an_unbound_queue_returns_what_is_published(bench: &Bench) {
    let queue = bench.filled("q", 1).await;
    bench.broker.unbind(&queue).await.unwrap();
    assert_eq!(
        bench.broker.publish(&queue, &numbered(2)).await.unwrap(),
        Published::Returned
    );
    bench.wait_ready(&queue, 1).await;
}

pub(crate) async fn a_bound_again_queue_accepts(bench: &Bench) {
    let queue = bench.created("q").await;
    bench.broker.unbind(&queue).await.unwrap();
    assert!(matches!(bench.broker.bind(&queue).await.unwrap(), Look::Present { .. }));
    bench.accepted(&queue, &numbered(1)).await;
}

pub(crate) async fn binding_a_missing_queue_says_missing(bench: &Bench) {
    assert_eq!(bench.broker.bind(&bench.queue("none")).await.unwrap(), Look::Missing);
}

pub(crate) async fn unbinding_a_missing_queue_is_no_error(bench: &Bench) {
    bench.broker.unbind(&bench.queue("none")).await.unwrap();
}

pub(crate) async fn attaching_with_bind_binds(bench: &Bench) {
    let queue = bench.created("q").await;
    bench.broker.unbind(&queue).await.unwrap();
    let attached = bench.attached(&queue, 1).await;
    bench.accepted(&queue, &numbered(1)).await;
    attached.close().await;
}

pub(crate) async fn attaching_without_bind_leaves_it_unbound(bench: &Bench) {
    let queue = bench.filled("q", 1).await;
    bench.broker.unbind(&queue).await.unwrap();
    let unbound = AttachOptions {
        bind: false,
        ..options(1)
    };
    let AttachOutcome::Attached(mut attached) = bench.broker.attach(&queue, unbound).await.unwrap() else {
        panic!("it is there");
    };
    assert_eq!(
        bench.broker.publish(&queue, &numbered(2)).await.unwrap(),
        Published::Returned
    );
    assert_eq!(take(&mut attached, 1).await, [1]);
    attached.close().await;
}

pub(crate) async fn an_empty_queue_is_deleted(bench: &Bench) {
    let queue = bench.created("q").await;
    bench.broker.unbind(&queue).await.unwrap();
    assert_eq!(bench.broker.delete_empty(&queue).await.unwrap(), Deleted::Deleted);
    assert_eq!(bench.broker.look(&queue).await.unwrap(), Look::Missing);
}

pub(crate) async fn a_queue_with_a_message_is_not_deleted(bench: &Bench) {
    let queue = bench.filled("q", 1).await;
    bench.broker.unbind(&queue).await.unwrap();
    assert_eq!(bench.broker.delete_empty(&queue).await.unwrap(), Deleted::InUse);
    bench.wait_ready(&queue, 1).await;
}

pub(crate) async fn a_queue_with_a_consumer_is_not_deleted(bench: &Bench) {
    let queue = bench.created("q").await;
    let attached = bench.attached(&queue, 1).await;
    bench.broker.unbind(&queue).await.unwrap();
    assert_eq!(bench.broker.delete_empty(&queue).await.unwrap(), Deleted::InUse);
    attached.close().await;
    bench.wait_look(&queue, |look| look == EMPTY).await;
}

pub(crate) async fn deleting_a_missing_queue_says_missing(bench: &Bench) {
    let queue = bench.queue("none");
    assert_eq!(bench.broker.delete_empty(&queue).await.unwrap(), Deleted::Missing);
    assert_eq!(bench.broker.delete_whole(&queue).await.unwrap(), Deleted::Missing);
}

pub(crate) async fn deleting_whole_drops_what_is_in_it(bench: &Bench) {
    let queue = bench.filled("q", 2).await;
    assert_eq!(bench.broker.delete_whole(&queue).await.unwrap(), Deleted::Deleted);
    assert_eq!(bench.broker.look(&queue).await.unwrap(), Look::Missing);
}

pub(crate) async fn the_companion_is_attached_by_its_part(bench: &Bench) {
    let queue = bench.filled("q", 1).await;
    let companion = QueueName::parse(&bench.naming.companion(&queue)).unwrap();
    bench.broker.create(&companion).await.unwrap();
    bench.accepted(&companion, &numbered(7)).await;
    let part = AttachOptions {
        part: QueuePart::Companion,
        ..options(1)
    };
    let AttachOutcome::Attached(mut attached) = bench.broker.attach(&queue, part).await.unwrap() else {
        panic!("it is there");
    };
    assert_eq!(take(&mut attached, 1).await, [7]);
    attached.close().await;
    bench.wait_ready(&queue, 1).await;
}

pub(crate) async fn browsing_shows_the_head_first_and_changes_nothing(bench: &Bench) {
    let queue = bench.filled("q", 5).await;
    for _ in 0..2 {
        let seen = bench.broker.browse(&queue, 3).await.unwrap();
        let numbers: Vec<_> = seen.iter().map(|one| (one.position, number(&one.message))).collect();
        assert_eq!(numbers, [(1, 1), (2, 2), (3, 3)]);
    }
    bench
        .wait_look(&queue, |look| look == Look::Present { ready: 5, consumers: 0 })
        .await;
    let mut attached = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut attached, 5).await, [1, 2, 3, 4, 5]);
    attached.close().await;
}

pub(crate) async fn browsing_a_missing_queue_is_an_error(bench: &Bench) {
    bench.broker.browse(&bench.queue("none"), 3).await.unwrap_err();
}

pub(crate) async fn rescue_takes_the_head_out_only_when_settled(bench: &Bench) {
    let queue = bench.filled("q", 3).await;
    let released = bench.broker.rescue(&queue).await.unwrap().expect("it has a head");
    assert_eq!(released.body(), b"1");
    released.release().await;
    bench.wait_ready(&queue, 3).await;
    let settled = bench.broker.rescue(&queue).await.unwrap().expect("it has a head");
    assert_eq!(settled.body(), b"1");
    settled.settle().await.unwrap();
    bench.wait_ready(&queue, 2).await;
    let mut attached = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut attached, 2).await, [2, 3]);
    attached.close().await;
}

pub(crate) async fn rescue_of_an_empty_queue_finds_nothing(bench: &Bench) {
    let queue = bench.created("q").await;
    assert!(bench.broker.rescue(&queue).await.unwrap().is_none());
    bench.wait_look(&queue, |look| look == EMPTY).await;
}

pub(crate) async fn a_nudge_reaches_who_listens(bench: &Bench) {
    let queue = bench.created("q").await;
    let mut signals = bench.broker.signals();
    bench.broker.listen().await.unwrap();
    bench.broker.listen().await.unwrap();
    let wanted = Signal::Nudged(queue.clone());
    let mut again = tokio::time::interval(Duration::from_millis(200));
    let heard = within(SOON, async {
        // Lossy by design, so it is said until it is heard.
        loop {
            tokio::select! {
                _ = again.tick() => bench.broker.nudge(&queue).await,
                signal = signals.recv() => if signal.ok() == Some(wanted.clone()) { break },
            }
        }
    });
    heard.await.expect("the nudge is heard");
}

pub(crate) async fn preparing_twice_changes_nothing(bench: &Bench) {
    let queue = bench.filled("q", 1).await;
    bench.broker.prepare().await.unwrap();
    bench.wait_ready(&queue, 1).await;
}

async fn listed(bench: &Bench, request: impl Into<ListRequest>) -> Vec<ListedQueue> {
    let mut queues = Vec::new();
    let mut each = |queue| queues.push(queue);
    bench.broker.queues_listed(&request.into(), &mut each).await.unwrap();
    queues
}

fn names(queues: Vec<ListedQueue>) -> Vec<QueueName> {
    queues.into_iter().map(|queue| queue.name).collect()
}

/// Beside the queues, one whose name is of the form but for a letter, and one that has something behind it.
pub(crate) async fn queues_are_listed_as_they_are_asked_for(bench: &Bench) {
    let mut delivery = Vec::new();
    for name in ["listed-c", "listed-a", "listed-b"] {
        delivery.push(bench.created(name).await);
    }
    delivery.push(bench.created("other").await);
    delivery.sort();
    let like = |change: &dyn Fn(&str) -> String| QueueName::parse(&change(delivery[0].as_str())).unwrap();
    let mut others = vec![
        like(&|name| name.replacen(&bench.naming.prefix, &bench.naming.prefix.to_uppercase(), 1)),
        like(&|name| format!("{name}.head")),
        like(&|name| name[..name.len() - 1].to_owned() + "F"),
    ];
    for name in &others {
        bench.broker.create(name).await.unwrap();
    }
    others.sort();
    let found = async |which: WhichQueues| {
        let mut names = names(listed(bench, which).await);
        names.retain(|name| name.as_str().contains("listed-") || name.as_str().contains("other"));
        names
    };
    let mut all: Vec<QueueName> = delivery.iter().chain(&others).cloned().collect();
    all.sort();
    assert_eq!(found(WhichQueues::All).await, all);
    assert_eq!(found(WhichQueues::ButDelivery).await, others);
    all.retain(|name| name.as_str().contains("listed-"));
    assert_eq!(all.len(), 6);
    let containing = |part: &str| listed(bench, WhichQueues::Containing(part.to_owned()));
    assert_eq!(names(containing("listed-").await), all);
    assert_eq!(containing("[l]isted-").await, [], "it is no pattern");
}

pub(crate) async fn a_listing_says_how_much_waits_in_each_queue(bench: &Bench) {
    let (full, empty) = (bench.created("full").await, bench.created("empty").await);
    for number in 1..=3 {
        let message = Message {
            body: vec![b'x'; 1_000].into(),
            ..numbered(number)
        };
        bench.accepted(&full, &message).await;
    }
    let request = ListRequest {
        which: WhichQueues::All,
        bytes: true,
    };
    // Statistics lag.
    let said = within(SOON, async {
        let mut pause = tokio::time::interval(Duration::from_millis(100));
        loop {
            pause.tick().await;
            let listed = listed(bench, request.clone()).await;
            let of = |name: &QueueName| {
                listed
                    .iter()
                    .find(|queue| queue.name == *name)
                    .and_then(|queue| queue.bytes)
            };
            // RabbitMQ 4.3 counts the properties of a message in a quorum queue too.
            if of(&full).is_some_and(|bytes| (3_000..=3_300).contains(&bytes)) && of(&empty) == Some(0) {
                break;
            }
        }
    });
    said.await.expect("the bytes of the bodies are said");
    let mut all = names(bench.broker.queues_all().await.unwrap().queues);
    all.sort();
    assert_eq!(all, names(listed(bench, request).await), "all are those of the listing");
}

pub(crate) async fn one_queue_is_shown_in_detail(bench: &Bench) {
    let queue = bench.created("q").await;
    let detail = bench.broker.queue_detail(&queue).await.unwrap().expect("it is there");
    assert_eq!(detail.name, queue);
    assert!(bench.broker.queue_detail(&bench.queue("none")).await.unwrap().is_none());
}

/// What a URL cannot have raw, too.
pub(crate) async fn a_queue_of_any_name_is_shown_in_detail(bench: &Bench) {
    for name in [
        "a[1]",
        "b|2",
        "c^3",
        "d\\4",
        "e f",
        "g%2F5",
        "h/6",
        "i\tj",
        "k?l#m&n=o",
        "ü",
        "...",
        "{p}",
        "\"'`",
    ] {
        let queue = QueueName::parse(name).unwrap();
        bench.broker.create(&queue).await.unwrap();
        let detail = bench.broker.queue_detail(&queue).await.unwrap();
        assert_eq!(detail.map(|detail| detail.name), Some(queue), "{name:?}");
    }
}

pub(crate) async fn a_healthy_broker_says_so(bench: &Bench) {
    let health = bench.broker.health().await;
    assert!(health.reachable, "{health:?}");
    assert_eq!(health.problem, None);
    assert_eq!(health.blocked, None);
}
