//! Rules 9 and 10: what a publisher does about a queue that takes nothing, and about a confirm that
//! does not come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive::internals::ambient::Clock;
use redrive::internals::broker::rabbitmq::RabbitMq;
use redrive::internals::broker::{BrokerError, Look, Signal};
use redrive::internals::domain::id::NotificationId;
use redrive::internals::engine::{Engine, EngineError, NewNotification};

use crate::engine::stage::{BOUND, Ground, Stage, notification, sender};
use crate::support::checker::Publish;
use crate::support::servers::{PrivateRabbit, scratch_directory};
use crate::support::wait::{patient, wait_until, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_exists_and_takes_nothing_is_an_error_after_ten_seconds_and_is_not_bound() {
    let stage = Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await;
    let queue = stage.queue("a", "/ok");
    stage.broker.create(&queue).await.unwrap();
    stage.broker.unbind(&queue).await.unwrap();
    let began = Instant::now();
    let error = stage
        .engine
        .publish(notification("a", stage.url("/ok"), 1, "x"))
        .await
        .unwrap_err();
    let took = began.elapsed();
    assert!(
        took >= Duration::from_secs(9) && took < patient(Duration::from_secs(15)),
        "{took:?}"
    );
    assert!(error.is_unreachable(), "a status of 503: {error:?}");
    let EngineError::Broker(BrokerError::Blocked { detail }) = &error else {
        panic!("{error:?}")
    };
    assert!(
        detail.contains("exists but takes nothing") && detail.contains("queue why"),
        "{detail}"
    );
    assert_eq!(
        stage.broker.look(&queue).await.unwrap(),
        Look::Present { ready: 0, consumers: 0 }
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishes_to_one_queue_keep_their_order_while_the_first_is_returned() {
    let stage = Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await;
    let queue = stage.queue("a", "/ok");
    stage.broker.create(&queue).await.unwrap();
    stage.broker.unbind(&queue).await.unwrap();
    let mut signals = stage.broker.signals();
    stage.broker.listen().await.unwrap();
    let mut publishing = Vec::new();
    for number in 1..=6 {
        let (engine, new) = (
            stage.engine.clone(),
            notification("a", stage.url("/ok"), number, &number.to_string()),
        );
        publishing.push(tokio::spawn(async move { engine.publish(new).await }));
        if number == 1 {
            // A returned publish nudges: then the first has its turn, and the others come behind it.
            within(BOUND, async {
                while !matches!(signals.recv().await, Ok(Signal::Nudged(_))) {}
            })
            .await
            .expect("the first publish is returned and nudges");
        }
    }
    let other = stage
        .engine
        .publish(notification("b", stage.url("/ok"), 1, "other"))
        .await;
    assert!(other.is_ok(), "another queue is not held back");
    stage.broker.bind(&queue).await.unwrap();
    for published in publishing {
        published.await.unwrap().unwrap();
    }
    let seen = stage.broker.browse(&queue, 10).await.unwrap();
    assert_eq!(seen.len(), 6);
    assert_eq!(
        seen[0].message.body.as_ref(),
        b"1",
        "a later one overtook the returned one"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_without_a_confirm_is_settled_by_its_publisher_and_holds_the_next_ones_back_until_then() {
    let rabbit = PrivateRabbit::start().await;
    let ground = Ground::RabbitSqlite {
        directory: scratch_directory(),
        vhost: rabbit.address.vhost().await,
    };
    let mut stage = Stage::quiet(ground, |_| {}).await;
    let mut settings = stage.ground.place().rabbit_settings(&stage.settings.naming).unwrap();
    settings.confirm_timeout = Duration::from_secs(2);
    let broker = RabbitMq::connect(settings, Clock::system()).unwrap();
    let engine = Engine::new(
        Arc::clone(&stage.store),
        broker,
        sender(&stage.settings),
        stage.settings.clone(),
        Clock::system(),
    );
    let (url, queue) = (stage.url("/ok"), stage.queue("a", "/ok"));
    let named = |execution: &str, number: u32, body: &str| NewNotification {
        id: Some(NotificationId::parse(&format!("{execution}-{number}")).unwrap()),
        ..notification(execution, url.clone(), number, body)
    };
    let new = |number: u32| named("a", number, &number.to_string());
    let first = engine.publish(new(1)).await.unwrap();
    rabbit.freeze().await;
    let error = engine.publish(new(2)).await.unwrap_err();
    let EngineError::Unconfirmed { id, .. } = error else {
        panic!("not unconfirmed: {error:?}")
    };
    let held = engine.publish(new(3)).await.unwrap_err();
    assert!(
        held.is_unreachable() && format!("{held:?}").contains(&id),
        "names what it waits for: {held:?}"
    );
    rabbit.thaw().await;
    wait_until("another queue to take a publish", BOUND, async || {
        engine.publish(named("b", 1, "other")).await.ok()
    })
    .await;
    // Nobody repeats the second one: its caller may be gone for ever.
    let third = wait_until("the next one to have its turn", BOUND, async || {
        engine.publish(new(3)).await.ok()
    })
    .await;
    let waiting = async || stage.broker.browse(&queue, 20).await.unwrap().len();
    let before = waiting().await;
    let second = engine.publish(new(2)).await.expect("it is stored already");
    assert_eq!(second.id.as_str(), id);
    assert_eq!(waiting().await, before, "a repeat of what was settled makes no copy");
    for (number, receipt) in [(1, first), (2, second), (3, third)] {
        let body = number.to_string();
        stage
            .history
            .publish(queue.as_str(), receipt.id.as_str(), body.as_bytes(), Publish::Confirmed);
    }
    // The frozen broker may have taken the first try, and one may have been repeated.
    stage.history.published[1].publishes = 8;
    let other = stage.queue("b", "/ok");
    let found = stage.broker.browse(&other, 1).await.unwrap();
    let id = found[0].message.message_id.clone().unwrap();
    stage.history.publish(other.as_str(), &id, b"other", Publish::Confirmed);
    stage.start();
    stage.delivered(4).await;
    stage.stop().await;
    stage.assert_kept();
}
