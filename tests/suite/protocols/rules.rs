//! Rule 23: broker policies that break order or destroy what waits.

use std::time::Duration;

use redrive::internals::broker::{AttachOutcome, EventExchange, Look};
use redrive::internals::domain::naming::QueueType;
use redrive::internals::domain::queue::QueueState;
use redrive::internals::engine::query;
use redrive::internals::engine::runs::Order;
use redrive::internals::engine::{Command, Engine};
use serde_json::{Value, json};

use crate::broker_contract::bench::{next, options};
use crate::engine::stage::{BOUND, Ground, Stage, notification};
use crate::support::receiver::Behaviour;
use crate::support::wait::{stays_absent, wait_until};

/// Within this a policy is heeded where the broker has policy events.
pub(super) const HEEDED: Duration = Duration::from_secs(3);
/// And where it has none.
pub(super) const HEEDED_WITHOUT_EVENTS: Duration = Duration::from_secs(15);

pub(super) async fn policy(stage: &Stage, definition: Option<Value>) {
    policy_on(stage, "^redrive\\.", definition).await;
}

pub(super) async fn policy_on(stage: &Stage, pattern: &str, definition: Option<Value>) {
    policy_for(stage, pattern, "queues", definition).await;
}

pub(super) async fn policy_for(stage: &Stage, pattern: &str, apply_to: &str, definition: Option<Value>) {
    let vhost = stage.ground.rabbit();
    let path = format!("/api/policies/{}/meddling", vhost.name);
    match definition {
        Some(definition) => {
            let body = json!({"pattern": pattern, "apply-to": apply_to, "definition": definition});
            vhost.manage("PUT", &path, Some(&body)).await;
        }
        None => {
            vhost.manage("DELETE", &path, None).await;
        }
    }
}

/// What waits is delivered, publishers get an error, the operator is told; without the policy all is well.
async fn destroys(definition: Value, names: &str) {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |settings| {
        settings.default_policy.retries_with_no_delay = 0;
    })
    .await;
    stage.receiver.behave("/hook", Behaviour::retry_after(503, "2"));
    stage.publish_many("a", "/hook", 3).await;
    stage.endpoint_is("/hook", "unavailable").await;
    policy(&stage, Some(definition)).await;
    let warned = wait_until("the warning", HEEDED, async || {
        let view = stage.queue_view("a", "/hook").await?;
        view.warnings
            .iter()
            .find(|warning| warning.contains("meddling"))
            .cloned()
    })
    .await;
    assert!(
        warned.contains(names) && warned.contains("takes no publishes"),
        "{warned}"
    );
    let error = stage
        .engine
        .publish(notification("a", stage.url("/hook"), 9, "refused"))
        .await
        .unwrap_err();
    assert!(error.is_unreachable(), "{error:?}");
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(3).await;
    policy(&stage, None).await;
    wait_until("the queue to take publishes again", HEEDED, async || {
        let row = stage.store.queue_get(&stage.queue("a", "/hook")).await.unwrap()?;
        row.refusing.is_none().then_some(())
    })
    .await;
    stage.publish("a", "/hook").await;
    stage.delivered(4).await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_lets_queues_expire_stops_publishing_and_not_delivery() {
    destroys(json!({"expires": 3_600_000}), "expires").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_drops_the_oldest_stops_publishing_and_not_delivery() {
    destroys(json!({"max-length": 1_000}), "max-length").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_limits_the_life_of_messages_stops_publishing_and_not_delivery() {
    destroys(json!({"message-ttl": 3_600_000}), "message-ttl").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_whose_policy_limits_deliveries_is_not_delivered_until_the_policy_is_gone() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |settings| {
        settings.naming.queue_type = QueueType::Quorum;
    })
    .await;
    stage.publish("a", "/ok").await;
    stage.delivered(1).await;
    policy(&stage, Some(json!({"delivery-limit": 5}))).await;
    let refused = stage.queue_is("a", "/ok", "refused").await;
    let why = refused.why.unwrap().text;
    assert!(why.contains("meddling") && why.contains("delivery-limit"), "{why}");
    stage.publish_many("a", "/ok", 3).await;
    stays_absent("a delivery from a refused queue", Duration::from_secs(2), async || {
        (stage.receiver.delivered() > 1).then_some(())
    })
    .await;
    policy(&stage, None).await;
    stage.delivered(4).await;
    stage.stop().await;
    stage.assert_kept();
}

/// A quorum queue puts what is given back behind what was given back before: a worker that ended before it had settled the
/// first message found the second one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_look_at_a_quorum_queue_its_first_message_stays_the_first() {
    let mut stage = Stage::quiet(Ground::rabbit_sqlite().await, |settings| {
        settings.naming.queue_type = QueueType::Quorum;
    })
    .await;
    stage.publish_many("a", "/ok", 20).await;
    let queue = stage.queue("a", "/ok");
    let look = async || {
        let query = query::Browse {
            queue: queue.clone(),
            limit: 10,
        };
        let seen = stage.engine.query(query).await.unwrap();
        assert_eq!(seen.len(), 1, "no more than one may be in hand");
        seen[0].message.body.clone()
    };
    let first = look().await;
    for _ in 0..3 {
        let AttachOutcome::Attached(mut attached) = stage.broker.attach(&queue, options(1)).await.unwrap() else {
            panic!("not attached");
        };
        let delivered = next(&mut attached).await;
        attached.close().await;
        assert_eq!((delivered.message.body, look().await), (first.clone(), first.clone()));
    }
    let skip = Command::Run(Order::skip(queue.clone()));
    stage.engine.plan(skip).await.unwrap();
    assert_eq!(
        (look().await, look().await),
        (first.clone(), first),
        "a plan looks as well"
    );
}

/// A foreign publisher declared it: we neither deliver it out of order nor touch it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_priorities_is_not_delivered_and_says_why() {
    let mut stage = Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await;
    let queue = stage.queue("a", "/ok");
    let vhost = stage.ground.rabbit();
    let declared = json!({"durable": true, "arguments": {"x-single-active-consumer": true, "x-max-priority": 5}});
    vhost
        .manage(
            "PUT",
            &format!("/api/queues/{}/{}", vhost.name, queue.as_str()),
            Some(&declared),
        )
        .await;
    assert!(matches!(stage.broker.bind(&queue).await.unwrap(), Look::Present { .. }));
    stage.publish("a", "/ok").await;
    stage.start();
    let refused = stage.queue_is("a", "/ok", "refused").await;
    assert!(refused.why.unwrap().text.contains("x-max-priority"));
    stage.publish("b", "/ok").await;
    stage.delivered(1).await;
    stays_absent("a delivery from a refused queue", Duration::from_secs(2), async || {
        (stage.receiver.delivered() > 1).then_some(())
    })
    .await;
    assert!(matches!(
        stage.broker.look(&queue).await.unwrap(),
        Look::Present { ready: 1, .. }
    ));
    stage.stop().await;
}

/// Whether the row says that the queue takes no publishes.
pub(super) async fn is_refusing(stage: &Stage, execution: &str, path: &str) -> bool {
    let row = stage.store.queue_get(&stage.queue(execution, path)).await.unwrap();
    row.is_some_and(|row| row.refusing.is_some())
}

pub(super) async fn refused(stage: &Stage, execution: &str, path: &str) -> String {
    refused_by(&stage.engine, stage, execution, path).await
}

pub(super) async fn refused_by(engine: &Engine, stage: &Stage, execution: &str, path: &str) -> String {
    let new = notification(execution, stage.url(path), 99, "refused");
    let error = engine.publish(new).await.unwrap_err();
    assert!(error.is_unreachable(), "{error:?}");
    redrive::internals::engine::error::chain(&error)
}

/// No worker can have a queue whose URL is parked or disabled, or that a person paused: those are what waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_destroys_is_heeded_for_queues_that_no_worker_can_have() {
    no_worker_can_have(Ground::rabbit_sqlite().await, HEEDED, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_policy_events_a_policy_that_destroys_is_heeded_all_the_same() {
    no_worker_can_have(
        Ground::rabbit_sqlite_without_events().await,
        HEEDED_WITHOUT_EVENTS,
        false,
    )
    .await;
}

async fn no_worker_can_have(ground: Ground, heeded: Duration, has_events: bool) {
    let mut stage = Stage::on(ground, |settings| {
        settings.default_policy.retries_with_no_delay = 0;
        settings.default_policy.minimum_delay_retries = 0;
        settings.default_policy.maximum_delay_retries = 0;
    })
    .await;
    stage.receiver.behave("*", Behaviour::Status(503));
    for execution in ["a", "b"] {
        stage.publish(execution, "/parked").await;
    }
    stage.endpoint_is("/parked", "parked").await;
    stage.publish("c", "/disabled").await;
    stage.execute(Command::DisableEndpoint(stage.url("/disabled"))).await;
    stage.publish("d", "/paused").await;
    stage.execute(Command::PauseQueue(stage.queue("d", "/paused"))).await;
    let all = [("a", "/parked"), ("b", "/parked"), ("c", "/disabled"), ("d", "/paused")];
    let events = stage.broker.health().await.events;
    assert_eq!(events == EventExchange::There, has_events);
    policy(&stage, Some(json!({"expires": 3_600_000}))).await;
    for (execution, path) in all {
        let what = format!("the queue of {execution} to take no publishes");
        wait_until(what, heeded, async || {
            is_refusing(&stage, execution, path).await.then_some(())
        })
        .await;
        let why = refused(&stage, execution, path).await;
        assert!(why.contains("meddling") && why.contains("expires"), "{why}");
    }
    let why = refused(&stage, "new", "/parked").await;
    assert!(why.contains("not made") && why.contains("meddling"), "{why}");
    let new = stage.queue("new", "/parked");
    assert_eq!(stage.broker.look(&new).await.unwrap(), Look::Missing);
    policy(&stage, None).await;
    for (execution, path) in all {
        let what = format!("the queue of {execution} to take publishes again");
        wait_until(what, heeded, async || {
            (!is_refusing(&stage, execution, path).await).then_some(())
        })
        .await;
        stage.publish(execution, path).await;
    }
    wait_until("new queues to be made again", heeded, async || {
        let new = notification("new", stage.url("/parked"), 1, "new");
        stage.engine.publish(new).await.ok().map(drop)
    })
    .await;
    stage.endpoint_is("/parked", "parked").await;
    stage.stop().await;
}

/// Nobody is there who would know of policies: the publisher goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_daemon_a_publisher_makes_queues_as_ever() {
    let mut stage = Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await;
    policy(&stage, Some(json!({"expires": 3_600_000}))).await;
    stage.publish("a", "/ok").await;
    let queue = stage.queue("a", "/ok");
    assert!(matches!(
        stage.broker.look(&queue).await.unwrap(),
        Look::Present { ready: 1, .. }
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_queue_that_takes_nothing_is_why_a_queue_waits() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |_| {}).await;
    let full = json!({"max-length": 0, "overflow": "reject-publish"});
    policy_on(&stage, "^redrive\\.dead$", Some(full)).await;
    let queue = stage.queue("a", "/ok");
    stage.publish("a", "/ok").await;
    stage.delivered(1).await;
    let foreign = redrive::internals::domain::message::Message {
        body: bytes::Bytes::from_static(b"foreign"),
        ..redrive::internals::domain::message::Message::default()
    };
    stage.broker.publish(&queue, &foreign).await.unwrap();
    stage.broker.nudge(&queue).await;
    wait_until("the queue to say why it waits", BOUND, async || {
        let why = stage.queue_view("a", "/ok").await?.why?;
        why.text
            .contains("could not dead-letter its first message")
            .then_some(())
    })
    .await;
    let checks = stage.engine.query(query::Doctor()).await.unwrap();
    let told = checks.iter().find(|check| check.name == "refused queues");
    assert!(
        told.is_some_and(|check| check.found.contains("could not dead-letter")),
        "{checks:?}"
    );
    policy(&stage, None).await;
    stage.dead_letters(1).await;
    wait_until("it to be told no more", BOUND, async || {
        let checks = stage.engine.query(query::Doctor()).await.unwrap();
        checks.iter().all(|check| check.name != "refused queues").then_some(())
    })
    .await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_policy_destroys_dead_letters_nothing_is_dead_lettered_and_everybody_is_told() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |settings| {
        settings.default_policy.retries_with_no_delay = 0;
    })
    .await;
    policy_on(&stage, "^redrive\\.dead$", Some(json!({"message-ttl": 3_600_000}))).await;
    let broken = wait_until("doctor to tell it", HEEDED, async || {
        let Ok(checks) = stage.engine.query(query::Doctor()).await else {
            return None;
        };
        checks.into_iter().find(|check| check.name == "dead letters")
    })
    .await;
    assert!(format!("{broken:?}").contains("meddling"), "{broken:?}");
    let queue = stage.queue("a", "/ok");
    // Not a notification: it is dead-lettered at once.
    stage.publish("a", "/ok").await;
    stage.delivered(1).await;
    wait_until("the policy to be known", HEEDED, async || {
        let kept = stage.store.broker_policies_kept().await.unwrap()?;
        kept.document.contains("meddling").then_some(())
    })
    .await;
    let foreign = redrive::internals::domain::message::Message {
        body: bytes::Bytes::from_static(b"foreign"),
        ..redrive::internals::domain::message::Message::default()
    };
    stage.broker.publish(&queue, &foreign).await.unwrap();
    stage.broker.nudge(&queue).await;
    let warned = wait_until("the queue to say why it waits", BOUND, async || {
        let why = stage.queue_view("a", "/ok").await?.why?;
        (why.state == Some(QueueState::Refused) && why.text.contains("would not last")).then_some(why.text)
    })
    .await;
    assert!(
        warned.contains("meddling") && warned.contains("message-ttl"),
        "{warned}"
    );
    let dead = redrive::internals::domain::id::QueueName::parse(&stage.settings.naming.dead_letter_queue()).unwrap();
    stays_absent(
        "a dead letter that would not last",
        Duration::from_secs(2),
        async || {
            let look = stage.broker.look(&dead).await.unwrap();
            (!matches!(look, Look::Present { ready: 0, .. })).then_some(look)
        },
    )
    .await;
    policy(&stage, None).await;
    let letters = stage.dead_letters(1).await;
    assert_eq!(letters[0].body.as_ref(), b"foreign");
    stage.stop().await;
}
