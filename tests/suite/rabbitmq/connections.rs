//! Lost connections, and the closing of a dead one's.

use std::time::Duration;

use redrive::internals::broker::{Acked, AttachOutcome, BrokerError, Look, Lost, Next, Published};
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::naming::QueueType;

use super::bench::{self, call};
use crate::broker_contract::bench::{Bench, SOON, next, numbered, options, take};
use crate::support::relay::{Relay, Trap};
use crate::support::wait::{wait_until, within};

/// Closes this bench's connections by name until the listing showed and closed `least`.
async fn close_all(bench: &Bench, least: u32) {
    let mut closed = 0;
    let closing = within(SOON, async {
        let mut pause = tokio::time::interval(Duration::from_millis(200));
        while closed < least {
            pause.tick().await;
            closed += bench.broker.connections_close("redrive").await.unwrap();
        }
    });
    assert!(closing.await.is_ok(), "only {closed} connections were closed");
}

/// Publishes until it is accepted: of one that the end of its connection met nobody knows, and it is sent again.
async fn accepted_at_last(bench: &Bench, queue: &QueueName, number: u32) {
    let published = wait_until("a publish on a new connection", SOON, async || {
        match bench.broker.publish(queue, &numbered(number)).await {
            Ok(published) => Some(published),
            Err(BrokerError::Unknown { .. } | BrokerError::Unreachable { .. }) => None,
            Err(error) => panic!("{error:?}"),
        }
    });
    assert_eq!(published.await, Published::Accepted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_noticed_and_everything_works_again() {
    let bench = bench::classic().await;
    let queue = bench.filled("q", 2).await;
    let mut attached = bench.attached(&queue, 1).await;
    let delivery = next(&mut attached).await;
    close_all(&bench, 3).await;
    match within(SOON, attached.next()).await.expect("the end is noticed") {
        Next::Lost(Lost::Connection(_)) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(attached.ack(delivery.tag).await, Acked::Lost);
    attached.close().await;
    accepted_at_last(&bench, &queue, 3).await;
    let mut again = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut again, 3).await, [1, 2, 3]);
    again.close().await;
    bench.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ack_on_a_lost_connection_says_lost_without_a_look_at_the_stream() {
    let bench = bench::classic().await;
    let queue = bench.filled("q", 2).await;
    let mut attached = bench.attached(&queue, 2).await;
    let (first, second) = (next(&mut attached).await, next(&mut attached).await);
    close_all(&bench, 3).await;
    bench.wait_ready(&queue, 2).await;
    assert_eq!(attached.ack_soon(first.tag).await, Acked::Lost);
    assert_eq!(attached.ack(second.tag).await, Acked::Lost);
    attached.close().await;
    bench.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_connections_of_that_name_are_closed() {
    let bench = bench::classic().await;
    let queue = bench.filled("q", 1).await;
    bench.broker.set_name("redrive-other");
    let mut attached = bench.attached(&queue, 1).await;
    close_all(&bench, 2).await;
    assert_eq!(take(&mut attached, 1).await, [1]);
    attached.close().await;
    bench.finish().await;
}

/// A broker that is reached on a way that fails.
async fn relayed(queue_type: QueueType) -> (Relay, Bench) {
    let relay = Relay::to(&bench::amqp()).await;
    let mut settings = bench::settings(queue_type);
    settings.amqp_url = relay.through(&settings.amqp_url);
    let (vhost, naming) = (settings.naming.vhost.clone(), settings.naming.clone());
    let broker =
        redrive::internals::broker::rabbitmq::RabbitMq::connect(settings, redrive::internals::ambient::Clock::system())
            .unwrap();
    broker.prepare().await.unwrap();
    let bench = Bench {
        broker,
        naming,
        finish: std::sync::Mutex::new(Some(bench::vhost_delete(vhost))),
    };
    (relay, bench)
}

/// A queue is gone only when the broker says so by its name: else its worker would let it be for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_that_names_another_queue_says_nothing_of_this_one_and_disturbs_nobody() {
    let (relay, bench) = relayed(QueueType::Classic).await;
    let queue = bench.filled("q", 2).await;
    let next_queue = bench.filled("next", 1).await;
    let mut attached = bench.attached(&queue, 1).await;
    let missing = bench.queue("missing");
    let before = relay.connections();
    relay.say_instead(missing.as_str(), bench.queue("another").as_str());
    let refused = bench.broker.attach(&missing, options(1)).await.err();
    assert!(matches!(refused, Some(BrokerError::Failed { .. })), "{refused:?}");
    let outcome = bench.broker.attach(&missing, options(1)).await.unwrap();
    assert!(matches!(outcome, AttachOutcome::Missing));
    let mut next_attached = bench.attached(&next_queue, 1).await;
    assert_eq!(relay.connections(), before, "all on one connection");
    assert_eq!(take(&mut next_attached, 1).await, [1]);
    assert_eq!(take(&mut attached, 2).await, [1, 2], "who consumes on it goes on");
    next_attached.close().await;
    attached.close().await;
    bench.finish().await;
}

/// The broker may still delete a quorum queue of which it tells who declares it again that all is well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_queue_whose_declaration_was_cut_off_is_not_declared_again_without_a_look() {
    let (relay, bench) = relayed(QueueType::Quorum).await;
    let queue = bench.queue("cut-off");
    relay.silence_at(Trap::After(b"cut-off"));
    let (created, ()) = tokio::join!(bench.broker.create(&queue), async {
        wait_until("the declaration to be on its way", SOON, async || {
            relay.is_silent().then_some(())
        })
        .await;
        relay.reset();
    });
    let unanswered = created.unwrap_err();
    assert!(
        matches!(
            unanswered,
            BrokerError::Unreachable {
                operation: "declare",
                ..
            }
        ),
        "{unanswered:?}"
    );
    relay.heal();
    if bench.broker.look(&queue).await.unwrap() == Look::Missing {
        bench.broker.create(&queue).await.unwrap();
    }
    bench.attached(&queue, 1).await.close().await;
    bench.accepted(&queue, &numbered(1)).await;
    bench.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_beyond_one_connection_are_spread_over_several() {
    let mut settings = bench::settings(QueueType::Classic);
    settings.queues_per_connection = 2;
    let vhost = settings.naming.vhost.clone();
    let naming = settings.naming.clone();
    let broker =
        redrive::internals::broker::rabbitmq::RabbitMq::connect(settings, redrive::internals::ambient::Clock::system())
            .unwrap();
    broker.prepare().await.unwrap();
    let bench = Bench {
        broker,
        naming,
        finish: std::sync::Mutex::new(Some(bench::vhost_delete(vhost.clone()))),
    };
    let mut attached = Vec::new();
    for n in 0..5 {
        let queue = bench.filled(&format!("q{n}"), 1).await;
        attached.push(bench.attached(&queue, 1).await);
    }
    let waited = within(SOON, async {
        let mut pause = tokio::time::interval(Duration::from_millis(200));
        loop {
            pause.tick().await;
            let (_, listed) = call(reqwest::Method::GET, &["vhosts", &vhost, "connections"], None).await;
            let named = |one: &&serde_json::Value| one["user_provided_name"] == "redrive consume";
            if listed.as_array().unwrap().iter().filter(named).count() == 3 {
                break;
            }
        }
    });
    waited
        .await
        .expect("five queues, two a connection, are three connections");
    for one in &mut attached {
        assert_eq!(take(one, 1).await, [1]);
    }
    bench.finish().await;
}

/// The client tells the error that ended a channel to the next one of that number, and a connection has 2,047 of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_missing_once_is_not_missing_when_the_numbers_of_channels_come_round() {
    let bench = bench::classic().await;
    let queue = bench.queue("late");
    let exchange = bench.naming.exchange();
    let vhost = bench.naming.vhost.clone();
    call(reqwest::Method::DELETE, &["exchanges", &vhost, &exchange], None).await;
    for publish in 0..2_060 {
        let answer = bench.broker.publish(&queue, &numbered(1)).await;
        assert!(
            matches!(
                answer,
                Err(BrokerError::NoExchange { .. } | BrokerError::Unreachable { .. })
            ),
            "publish {publish}: {answer:?}"
        );
    }
    bench.broker.prepare().await.unwrap();
    bench.broker.create(&queue).await.unwrap();
    // The first may find that no number is left, and the connection is replaced.
    let first = bench.broker.publish(&queue, &numbered(1)).await;
    assert!(
        matches!(first, Ok(Published::Accepted) | Err(BrokerError::Unreachable { .. })),
        "{first:?}"
    );
    assert_eq!(
        bench.broker.publish(&queue, &numbered(2)).await.unwrap(),
        Published::Accepted
    );
    bench.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_at_once_is_answered_each_with_its_own() {
    let bench = bench::classic().await;
    let there: Vec<_> = (0..20).map(|n| bench.queue(&format!("there-{n}"))).collect();
    for (n, queue) in there.iter().enumerate() {
        bench.broker.create(queue).await.unwrap();
        for number in 0..u32::try_from(n).unwrap() {
            bench.broker.publish(queue, &numbered(number)).await.unwrap();
        }
    }
    let looks = (0..400_usize).map(|look| {
        let (broker, queue) = (bench.broker.clone(), there[look % 20].clone());
        let missing = bench.queue(&format!("missing-{look}"));
        tokio::spawn(async move {
            assert_eq!(broker.look(&missing).await.unwrap(), Look::Missing, "{missing:?}");
            let ready = (look % 20) as u64;
            assert_eq!(
                broker.look(&queue).await.unwrap(),
                Look::Present { ready, consumers: 0 }
            );
        })
    });
    for look in looks.collect::<Vec<_>>() {
        look.await.unwrap();
    }
    bench.finish().await;
}
