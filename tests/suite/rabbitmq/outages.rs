//! A broker that blocks, freezes, dies and comes back: on a node of its own.

use std::time::Duration;

use redrive::internals::ambient::Clock;
use redrive::internals::broker::rabbitmq::{RabbitMq, RabbitSettings};
use redrive::internals::broker::{Acked, BrokerError, Lost, Next, Published, Signal};
use redrive::internals::domain::naming::QueueType;
use tokio::sync::broadcast::Receiver;

use super::bench;
use crate::broker_contract::bench::{Bench, SOON, next, numbered, take};
use crate::support::servers::PrivateRabbit;
use crate::support::wait::within;

async fn bench_on(node: &PrivateRabbit, confirm_timeout: Duration) -> Bench {
    let naming = bench::settings(QueueType::Classic).naming;
    let mut settings = RabbitSettings::new(&node.address.amqp, Some(&node.address.management), naming.clone());
    settings.confirm_timeout = confirm_timeout;
    let broker = RabbitMq::connect(settings, Clock::system()).unwrap();
    broker.prepare().await.unwrap();
    Bench {
        broker,
        naming,
        finish: std::sync::Mutex::new(None),
    }
}

async fn heard(signals: &mut Receiver<Signal>, wanted: impl Fn(&Signal) -> bool) {
    let hearing = within(Duration::from_mins(1), async {
        while !wanted(&signals.recv().await.unwrap()) {}
    });
    hearing.await.expect("the signal comes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_blocks_publishing_and_not_delivery() {
    let node = PrivateRabbit::start().await;
    let bench = bench_on(&node, Duration::from_secs(3)).await;
    let queue = bench.filled("q", 2).await;
    let mut signals = bench.broker.signals();
    node.address
        .control(&["set_vm_memory_high_watermark", "0.00000001"])
        .await;
    // The broker says *blocked* when something is published: that one is unknown, the next is not sent.
    let unknown = bench.broker.publish(&queue, &numbered(3)).await.unwrap_err();
    assert!(matches!(unknown, BrokerError::Unknown { .. }), "{unknown:?}");
    heard(&mut signals, |signal| matches!(signal, Signal::Blocked(_))).await;
    let blocked = bench.broker.publish(&queue, &numbered(4)).await.unwrap_err();
    assert!(matches!(blocked, BrokerError::Blocked { .. }), "{blocked:?}");
    assert!(bench.broker.health().await.blocked.is_some());
    let mut attached = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut attached, 2).await, [1, 2]);
    node.address.control(&["set_vm_memory_high_watermark", "0.4"]).await;
    heard(&mut signals, |signal| *signal == Signal::Unblocked).await;
    bench.accepted(&queue, &numbered(5)).await;
    // The unknown one may have arrived; the blocked one was never sent.
    let mut rest = take(&mut attached, 1).await;
    if rest == [3] {
        rest = take(&mut attached, 1).await;
    }
    assert_eq!(rest, [5]);
    attached.close().await;
    bench.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_broker_is_noticed_and_keeps_what_was_confirmed_in_order() {
    let node = PrivateRabbit::start().await;
    let bench = bench_on(&node, Duration::from_secs(5)).await;
    let queue = bench.filled("q", 10).await;
    let mut signals = bench.broker.signals();
    bench.broker.listen().await.unwrap();
    let mut attached = bench.attached(&queue, 1).await;
    let first = next(&mut attached).await;
    node.kill().await;
    let ended = within(SOON, attached.next()).await.expect("the end is noticed");
    assert!(matches!(ended, Next::Lost(Lost::Connection(_))), "{ended:?}");
    assert_eq!(attached.ack(first.tag).await, Acked::Lost);
    heard(&mut signals, |signal| matches!(signal, Signal::Down(_))).await;
    // Unknown where its own connection had not noticed yet: then it was sent to nobody.
    let error = bench.broker.publish(&queue, &numbered(11)).await.unwrap_err();
    let expected = matches!(error, BrokerError::Unreachable { .. } | BrokerError::Unknown { .. });
    assert!(expected, "{error:?}");
    crate::support::wait::wait_until("every connection notices it", SOON, async || {
        (!bench.broker.health().await.reachable).then_some(())
    })
    .await;
    attached.close().await;
    node.start_again().await;
    heard(&mut signals, |signal| *signal == Signal::Up).await;
    bench.broker.prepare().await.unwrap();
    // Binds, as each attach does: a killed broker may have lost what was declared last.
    let mut again = bench.attached(&queue, 1).await;
    assert_eq!(
        bench.broker.publish(&queue, &numbered(11)).await.unwrap(),
        Published::Accepted
    );
    assert_eq!(take(&mut again, 11).await, (1..=11).collect::<Vec<_>>());
    again.close().await;
    bench.finish().await;
}

/// Nothing answers and nothing closes: every call must end by itself, many at once in the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_broker_holds_no_call_for_ever() {
    let node = PrivateRabbit::start().await;
    let bench = bench_on(&node, Duration::from_secs(2)).await;
    let queue = bench.filled("q", 1).await;
    let mut attached = bench.attached(&queue, 1).await;
    next(&mut attached).await;
    node.freeze().await;
    let publishes: Vec<_> = (0..20)
        .map(|n| {
            let (broker, queue) = (bench.broker.clone(), queue.clone());
            redrive::internals::ambient::spawn("test", async move { broker.publish(&queue, &numbered(n)).await })
        })
        .collect();
    let all = within(Duration::from_mins(1), async {
        assert!(bench.broker.look(&queue).await.is_err());
        assert!(
            bench
                .broker
                .attach(&bench.queue("other"), crate::broker_contract::bench::options(1))
                .await
                .is_err()
        );
        for publish in publishes {
            assert!(publish.await.unwrap().is_err());
        }
        // The heartbeat ends what nobody asks.
        assert!(matches!(attached.next().await, Next::Lost(Lost::Connection(_))));
        attached.close().await;
    });
    all.await.expect("every call ends");
    node.thaw().await;
    let mut again = bench.attached(&queue, 1).await;
    assert_eq!(take(&mut again, 1).await, [1]);
    again.close().await;
    bench.finish().await;
}
