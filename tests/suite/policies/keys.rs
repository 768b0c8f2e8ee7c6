//! Each key of a policy by what a receiver sees of it.

use std::time::Duration;

use redrive::internals::domain::id::{ExecutionId, NotificationId};
use redrive::internals::domain::notification::Notification;
use redrive::internals::domain::policy::PolicySource;
use redrive::internals::engine::NewNotification;
use redrive::internals::engine::query::PolicyScope;
use serde_json::{Value, json};

use super::{of_url, set, view};
use crate::engine::stage::{BOUND, Ground, Stage, notification};
use crate::support::receiver::Behaviour;
use crate::support::wait::{stays_absent, wait_until};

/// What a timer and a busy machine may take off a delay as the receiver sees it.
const EARLY: Duration = Duration::from_millis(30);

pub(super) async fn each_function_delays_each_retry_by_its_schedule_and_then_parks(ground: Ground) {
    let mut stage = Stage::on(ground, |_| {}).await;
    let functions = ["linear", "arithmetic", "geometric", "exponential"];
    for (index, function) in functions.into_iter().enumerate() {
        let path = format!("/{function}");
        stage.receiver.behave(&path, Behaviour::Status(503));
        let policy = json!({
            "retries_with_no_delay": 1, "minimum_delay_retries": 0, "minimum_delay": 1, "maximum_delay": 2,
            "backoff_retries": 2, "maximum_delay_retries": 0, "retry_backoff_function": function,
            "jitter": if index % 2 == 0 { 0.0 } else { 0.5 },
        });
        let saved = set(&stage, &of_url(&stage, &path), &policy).await;
        assert_eq!(saved.source, PolicySource::Subscription);
        stage.publish("a", &path).await;
    }
    for function in functions {
        let path = format!("/{function}");
        let parked = stage.endpoint_is(&path, "parked").await.endpoint;
        assert_eq!(parked.attempts, 4, "{function}: the attempt that parks counts");
        let attempts = stage.receiver.attempts_of(&path);
        let gaps: Vec<Duration> = attempts
            .windows(2)
            .map(|pair| pair[1].started_at.duration_since(pair[0].started_at))
            .collect();
        assert_eq!(gaps.len(), 3, "{function}: {gaps:?}");
        for (gap, least_s) in gaps.iter().zip([0, 1, 2]) {
            assert!(*gap + EARLY >= Duration::from_secs(least_s), "{function}: {gaps:?}");
        }
        let head = stage.queue_view("a", &path).await.unwrap().head.unwrap();
        assert_eq!((head.failures, head.attempts_allowed), (4, 4), "{function}");
    }
    stage.stop().await;
}

pub(super) async fn a_notification_keeps_its_own_schedule(ground: Ground) {
    let mut stage = Stage::on(ground, |_| {}).await;
    // Its own fault: with another queue that is well, it waits alone. With its URL it would wait by the policy.
    stage.publish("well", "/hook").await;
    stage.delivered(1).await;
    stage.receiver.behave("/hook", Behaviour::Status(500));
    let policy = json!({"minimum_delay": 600, "maximum_delay": 600, "on_exhausted": "dead_letter"});
    set(&stage, &of_url(&stage, "/hook"), &policy).await;
    let own = NewNotification {
        polling_time_s: Some(1),
        restart_count: Some(2),
        ..notification("a", stage.url("/hook"), 1, "own")
    };
    let receipt = stage.engine.publish(own).await.unwrap();
    let dead = stage.dead_letters(1).await;
    assert_eq!(dead[0].message_id.as_deref(), Some(receipt.id.as_str()));
    assert_eq!(dead[0].header_text("x-redrive-dead-reason"), Some("exhausted"));
    let policy: Value = serde_json::from_str(dead[0].header_text("x-redrive-dead-policy").unwrap()).unwrap();
    assert_eq!(
        (&policy["minimum_delay"], &policy["on_exhausted"]),
        (&json!(600), &json!("dead_letter"))
    );
    let attempts = &stage.receiver.attempts_of("/hook")[1..];
    assert_eq!(attempts.len(), 3);
    for pair in attempts.windows(2) {
        assert!(pair[1].started_at.duration_since(pair[0].started_at) + EARLY >= Duration::from_secs(1));
    }
    stage.stop().await;
}

pub(super) async fn what_is_refused_is_accepted_or_retried_where_the_policy_says_so(ground: Ground) {
    let mut stage = Stage::on(ground, |_| {}).await;
    for path in ["/accept", "/retry"] {
        stage.receiver.behave_by(path, |attempt| {
            Behaviour::Status(if attempt.earlier == 0 { 404 } else { 200 })
        });
    }
    set(&stage, &of_url(&stage, "/accept"), &json!({"on_refused": "accept"})).await;
    set(&stage, &of_url(&stage, "/retry"), &json!({"on_refused": "retry"})).await;
    stage.publish("a", "/accept").await;
    stage.publish("a", "/retry").await;
    stage.delivered(1).await;
    stage.publish("a", "/accept").await;
    stage.delivered(2).await;
    let numbers = |path| {
        let attempts = stage.receiver.attempts_of(path);
        let number = |attempt: &crate::support::receiver::Attempt| attempt.header("x-number").unwrap().to_owned();
        attempts.iter().map(number).collect::<Vec<_>>()
    };
    assert_eq!(numbers("/accept"), ["1", "2"], "the refused one is not tried again");
    assert_eq!(numbers("/retry"), ["1", "1"]);
    stays_absent("a dead letter", Duration::from_millis(300), async || {
        let queue =
            redrive::internals::domain::id::QueueName::parse(&stage.settings.naming.dead_letter_queue()).unwrap();
        let found = stage.broker.browse(&queue, 10).await.unwrap_or_default();
        (!found.is_empty()).then_some(found.len())
    })
    .await;
    stage.stop().await;
}

/// What counts as delivered ends what waited for a success: the URL is available, and the rest goes.
pub(super) async fn an_accepted_refusal_makes_its_url_available(ground: Ground) {
    let mut stage = Stage::on(ground, |_| {}).await;
    stage.receiver.behave_by("/hook", |attempt| {
        Behaviour::Status(if attempt.earlier == 0 { 503 } else { 404 })
    });
    let policy =
        json!({"on_refused": "accept", "retries_with_no_delay": 0, "minimum_delay": 1, "minimum_delay_retries": 9});
    set(&stage, &of_url(&stage, "/hook"), &policy).await;
    stage.publish("a", "/hook").await;
    stage.endpoint_is("/hook", "unavailable").await;
    stage.endpoint_is("/hook", "available").await;
    stage.publish("a", "/hook").await;
    wait_until("the second message to be tried", BOUND, async || {
        (stage.receiver.attempts_of("/hook").len() == 3).then_some(())
    })
    .await;
    stage.stop().await;
}

/// A notification as an event's subscription makes it.
fn of_event(stage: &Stage, execution: &str, path: &str, event_type: &str) -> Notification {
    Notification {
        id: NotificationId::parse(&format!("{execution}-{event_type}")).unwrap(),
        execution: ExecutionId::parse(execution).unwrap(),
        url: stage.url(path),
        headers: Vec::new(),
        content_type: None,
        body: "event".into(),
        polling_time_s: None,
        restart_count: None,
        created_at: None,
        event_type: Some(event_type.to_owned()),
        subscription: Some("s-1".to_owned()),
    }
}

/// A policy whose first failure waits, with so many attempts in all.
pub(super) fn of_attempts(attempts: u32) -> Value {
    json!({
        "retries_with_no_delay": 0, "minimum_delay": 600, "maximum_delay": 600, "backoff_retries": 0,
        "minimum_delay_retries": attempts - 1, "maximum_delay_retries": 0,
    })
}

/// Publishes one message that fails, and says how many attempts the policy that was looked up allows.
pub(super) async fn attempts_allowed(stage: &mut Stage, path: &str, event_type: Option<&str>) -> u32 {
    match event_type {
        None => drop(stage.publish("a", path).await),
        Some(event_type) => {
            // The queue exists: its first message is answered well.
            stage.publish("a", path).await;
            wait_until("the first message", BOUND, async || {
                (stage.receiver.attempts_of(path).len() == 1).then_some(())
            })
            .await;
            stage.receiver.behave(path, Behaviour::Status(503));
            let message = of_event(stage, "a", path, event_type).to_message();
            stage.broker.publish(&stage.queue("a", path), &message).await.unwrap();
            stage.broker.nudge(&stage.queue("a", path)).await;
        }
    }
    stage.endpoint_is(path, "unavailable").await;
    let head = stage.queue_view("a", path).await.unwrap().head.unwrap();
    assert_eq!(head.failures, 1);
    head.attempts_allowed
}

pub(super) async fn an_event_uses_the_policy_of_its_subscription_or_type_and_a_direct_publish_that_of_its_url(
    ground: Ground,
) {
    let mut stage = Stage::on(ground, |settings| {
        settings.default_policy.retries_with_no_delay = 0;
        settings.default_policy.minimum_delay_s = 600;
        settings.default_policy.maximum_delay_s = 600;
        settings.default_policy.minimum_delay_retries = 8;
        settings.default_policy.maximum_delay_retries = 0;
    })
    .await;
    let of = |event_type: &str, path: Option<&str>| PolicyScope {
        event_type: Some(event_type.to_owned()),
        url: path.map(|path| stage.url(path)),
    };
    let overriding = json!({
        "retries_with_no_delay": 0, "minimum_delay": 600, "maximum_delay": 600, "backoff_retries": 0,
        "minimum_delay_retries": 4, "maximum_delay_retries": 0, "ignore_subscription_override": true,
    });
    set(&stage, &of("queue", None), &of_attempts(2)).await;
    set(&stage, &of("both", None), &of_attempts(2)).await;
    set(&stage, &of("both", Some("/both")), &of_attempts(3)).await;
    set(&stage, &of("ignores", None), &overriding).await;
    set(&stage, &of("ignores", Some("/ignores")), &of_attempts(3)).await;
    set(&stage, &of("subscription", Some("/subscription")), &of_attempts(4)).await;
    set(&stage, &of_url(&stage, "/direct"), &of_attempts(7)).await;
    set(&stage, &of_url(&stage, "/default"), &of_attempts(7)).await;
    for (path, event_type, expected) in [
        ("/queue", Some("queue"), 2),
        ("/both", Some("both"), 3),
        ("/ignores", Some("ignores"), 5),
        ("/subscription", Some("subscription"), 4),
        // The URL's policy is for what is published directly.
        ("/default", Some("nothing"), 9),
    ] {
        assert_eq!(attempts_allowed(&mut stage, path, event_type).await, expected, "{path}");
    }
    for (path, expected) in [("/direct", 7), ("/plain", 9)] {
        stage.receiver.behave(path, Behaviour::Status(503));
        assert_eq!(attempts_allowed(&mut stage, path, None).await, expected, "{path}");
    }
    assert_eq!(
        view(&stage, &of_url(&stage, "/plain")).await.source,
        PolicySource::Default
    );
    stage.stop().await;
}
