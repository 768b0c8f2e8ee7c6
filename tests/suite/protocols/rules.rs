//! Rule 23: broker policies that break order or destroy what waits.

use std::time::Duration;

use redrive::broker::Look;
use redrive::domain::naming::QueueType;
use serde_json::{Value, json};

use crate::engine::stage::{BOUND, Ground, Stage, notification};
use crate::support::receiver::Behaviour;
use crate::support::wait::{stays_absent, wait_until};

async fn policy(stage: &Stage, definition: Option<Value>) {
    let vhost = stage.ground.rabbit();
    let path = format!("/api/policies/{}/meddling", vhost.name);
    match definition {
        Some(definition) => {
            let body = json!({"pattern": "^redrive\\.", "apply-to": "queues", "definition": definition});
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
    let warned = wait_until("the warning", BOUND, async || {
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
    wait_until("the queue to take publishes again", BOUND, async || {
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
