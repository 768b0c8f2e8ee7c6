//! Who may do what, and that an error says what is missing and how to mend it.

use redrive::internals::ambient::Clock;
use redrive::internals::broker::rabbitmq::{RabbitMq, RabbitSettings};
use redrive::internals::broker::{BrokerError, BrokerHandle, IntakeQueue, Look, Published, Returns, WalkOptions};
use redrive::internals::domain::id::{QueueName, StoreId};
use redrive::internals::domain::naming::QueueType;
use reqwest::Method;
use serde_json::json;

use super::bench::{self, call, settings, vhost_delete};
use crate::broker_contract::bench::numbered;
use crate::support::relay::{Relay, Trap};

fn connect(settings: &RabbitSettings) -> BrokerHandle {
    RabbitMq::connect(settings.clone(), Clock::system()).unwrap()
}

/// `url` with another login.
fn as_user(url: &str, user: &str, password: &str) -> String {
    let mut url = url::Url::parse(url).unwrap();
    url.set_username(user).unwrap();
    url.set_password(Some(password)).unwrap();
    url.to_string()
}

async fn user(name: &str, tags: &str) {
    let (status, _) = call(
        Method::PUT,
        &["users", name],
        Some(json!({"password": "s3cret", "tags": tags})),
    )
    .await;
    assert!(status < 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_vhost_that_may_not_be_made_is_named() {
    let mut settings = settings(QueueType::Classic);
    settings.provision = false;
    let error = connect(&settings).prepare().await.unwrap_err();
    assert!(
        matches!(&error, BrokerError::Vhost { vhost, .. } if *vhost == settings.naming.vhost),
        "{error}"
    );
    assert!(error.to_string().contains("add_vhost"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_a_login_and_is_not_shown() {
    let mut settings = settings(QueueType::Classic);
    settings.amqp_url = as_user(&bench::amqp(), "guest", "wr0ng");
    settings.management_url = Some(as_user(&bench::management(), "guest", "wr0ng"));
    let broker = connect(&settings);
    let error = broker.prepare().await.unwrap_err();
    assert!(matches!(error, BrokerError::Login { .. }), "{error:?}");
    let error = broker.policies().await.unwrap_err();
    assert!(matches!(error, BrokerError::Login { .. }), "{error:?}");
    let shown = format!("{broker:?} {settings:?} {:?} {error}", broker.health().await);
    assert!(!shown.contains("wr0ng"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_not_there_is_unreachable() {
    let mut settings = settings(QueueType::Classic);
    settings.amqp_url = "amqp://u:s3cret@127.0.0.1:1".into();
    settings.management_url = Some("http://u:s3cret@127.0.0.1:1".into());
    let broker = connect(&settings);
    let error = broker
        .publish(&QueueName::parse("q").unwrap(), &numbered(1))
        .await
        .unwrap_err();
    assert!(matches!(error, BrokerError::Unreachable { .. }), "{error:?}");
    let error = broker.policies().await.unwrap_err();
    assert!(matches!(error, BrokerError::Management { .. }), "{error:?}");
    let health = broker.health().await;
    assert!(!health.reachable && !health.management, "{health:?}");
    assert!(!format!("{health:?}").contains("s3cret"), "{health:?}");
}

/// The broker logged two errors a second, for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_that_the_user_may_not_declare_is_not_declared_at_each_check() {
    let mut settings = settings(QueueType::Classic);
    let vhost = settings.naming.vhost.clone();
    let name = format!("u-{}", redrive::internals::ambient::new_id());
    user(&name, "").await;
    call(Method::PUT, &["vhosts", &vhost], Some(json!({}))).await;
    let rights = async |configure: &str| {
        let rights = json!({"configure": configure, "write": ".*", "read": ".*"});
        call(Method::PUT, &["permissions", &vhost, &name], Some(rights)).await;
    };
    rights(".*").await;
    let relay = Relay::to(&bench::amqp()).await;
    settings.amqp_url = as_user(&relay.through(&bench::amqp()), &name, "s3cret");
    settings.management_url = None;
    let broker = connect(&settings);
    let store = StoreId::parse(&"a".repeat(36)).unwrap();
    broker.prepare().await.unwrap();
    broker.own(&store).await.unwrap();
    broker.mark_bound().await.unwrap();
    assert!(broker.check(&store).await.unwrap().is_bound);

    rights(&format!("^(?!{}$)", settings.naming.exchange().replace('.', "\\."))).await;
    // The broker keeps the rights of a channel for a while.
    broker.close().await;
    let broker = connect(&settings);
    broker.check(&store).await.unwrap();
    // A durable exchange of this type: a look is none.
    relay.silence_at(Trap::Before(b"\x06direct\x02"));
    for _ in 0..3 {
        assert!(broker.check(&store).await.unwrap().is_bound);
    }
    assert!(!relay.is_silent());
    broker.close().await;
    call(Method::DELETE, &["users", &name], None).await;
    vhost_delete(vhost)().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_rights_on_an_existing_vhost_needs_no_administrator() {
    let mut settings = settings(QueueType::Classic);
    let (vhost, name) = (
        settings.naming.vhost.clone(),
        format!("u-{}", redrive::internals::ambient::new_id()),
    );
    user(&name, "").await;
    call(Method::PUT, &["vhosts", &vhost], Some(json!({}))).await;
    settings.amqp_url = as_user(&bench::amqp(), &name, "s3cret");
    settings.management_url = None;
    let broker = connect(&settings);

    let error = broker.prepare().await.unwrap_err();
    assert!(matches!(error, BrokerError::Rights { .. }), "{error:?}");

    let only_read = json!({"configure": "^$", "write": ".*", "read": ".*"});
    call(Method::PUT, &["permissions", &vhost, &name], Some(only_read)).await;
    let error = broker.prepare().await.unwrap_err();
    assert!(error.to_string().contains("configure"), "{error}");

    let ours = json!({"configure": "^redrive\\.", "write": "^redrive\\.", "read": "^redrive\\."});
    call(Method::PUT, &["permissions", &vhost, &name], Some(ours)).await;
    broker.close().await;
    broker.prepare().await.unwrap();
    let queue = QueueName::parse("redrive.q").unwrap();
    broker.create(&queue).await.unwrap();
    assert_eq!(broker.publish(&queue, &numbered(1)).await.unwrap(), Published::Accepted);

    // A user without the tag is told which one is missing, not that its password is wrong.
    settings.management_url = Some(as_user(&bench::management(), &name, "s3cret"));
    let error = connect(&settings).policies().await.unwrap_err();
    assert!(
        matches!(&error, BrokerError::Rights { right, .. } if right.contains("management")),
        "{error:?}"
    );
    broker.close().await;
    call(Method::DELETE, &["users", &name], None).await;
    vhost_delete(vhost)().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_other_arguments_is_reported_and_left() {
    let bench = bench::classic().await;
    let queue = bench.queue("q");
    let path = ["queues", &bench.naming.vhost, queue.as_str()];
    let other = json!({"durable": true, "arguments": {"x-max-length": 7}});
    call(Method::PUT, &path, Some(other)).await;
    let error = bench.broker.create(&queue).await.unwrap_err();
    let BrokerError::OtherArguments {
        queue: name,
        difference,
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!(name, queue.as_str());
    assert!(difference.contains("x-max-length=7"), "{difference}");
    assert!(matches!(bench.broker.look(&queue).await.unwrap(), Look::Present { .. }));
    bench.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_settings_get_an_error_and_no_second_queue() {
    let bench = bench::classic().await;
    let queue = bench.created("q").await;
    let mut other = settings(QueueType::Classic);
    other.naming = redrive::internals::domain::naming::Naming {
        url_hash_key: "other".into(),
        ..bench.naming.clone()
    };
    let broker = connect(&other);
    for _ in 0..2 {
        let error = broker.publish(&queue, &numbered(1)).await.unwrap_err();
        assert!(matches!(error, BrokerError::NoExchange { .. }), "{error:?}");
    }
    // Its channel was closed by that; the next publish has a new one.
    broker.prepare().await.unwrap();
    assert_eq!(broker.publish(&queue, &numbered(1)).await.unwrap(), Published::Returned);
    broker.close().await;
    bench.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_amqp_cannot_carry_is_refused_and_the_connection_lives() {
    let bench = bench::classic().await;
    let queue = bench.created("q").await;
    let mut message = numbered(1);
    message.headers = vec![(
        "h".into(),
        redrive::internals::domain::message::HeaderValue::text(&"x".repeat(200_000)),
    )];
    assert!(matches!(
        bench.broker.publish(&queue, &message).await.unwrap(),
        Published::Refused(_)
    ));
    message.headers = (0..3000)
        .map(|n| {
            (
                format!("h{n}"),
                redrive::internals::domain::message::HeaderValue::text("value"),
            )
        })
        .collect();
    assert_eq!(
        bench.broker.publish(&queue, &message).await.unwrap(),
        Published::Accepted
    );
    message.message_id = Some("x".repeat(256));
    assert!(matches!(
        bench.broker.publish(&queue, &message).await.unwrap(),
        Published::Refused(_)
    ));
    bench.wait_ready(&queue, 1).await;
    bench.finish().await;
}

/// Of two vhosts, in each a queue that goes with its last consumer, a transient one that does too, and one that stays.
async fn with_brief_queues(settings: &RabbitSettings) -> String {
    let (here, there) = (
        settings.naming.vhost.clone(),
        format!("{}-other", settings.naming.vhost),
    );
    for vhost in [&here, &there] {
        call(Method::PUT, &["vhosts", vhost], Some(json!({}))).await;
        let all = json!({"configure": ".*", "write": ".*", "read": ".*"});
        call(Method::PUT, &["permissions", vhost, "guest"], Some(all)).await;
        for (name, durable, auto_delete) in [("brief", true, true), ("gone", false, true), ("lasting", true, false)] {
            let queue = json!({"durable": durable, "auto_delete": auto_delete, "arguments": {}});
            let (status, _) = call(Method::PUT, &["queues", vhost, name], Some(queue)).await;
            assert!(status < 300);
        }
    }
    there
}

fn intake(vhost: &str, name: &str) -> IntakeQueue {
    IntakeQueue {
        vhost: vhost.to_owned(),
        name: QueueName::parse(name).unwrap(),
        exchange: None,
        bindings: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_goes_with_its_last_consumer_is_never_consumed_wherever_it_is_and_whoever_tells() {
    let mut settings = settings(QueueType::Classic);
    let (here, there) = (settings.naming.vhost.clone(), with_brief_queues(&settings).await);
    let told = connect(&settings);
    settings.management_url = None;
    let untold = connect(&settings);
    for broker in [&told, &untold] {
        for vhost in [&here, &there] {
            for name in ["brief", "gone"] {
                let refused = broker.intake(&intake(vhost, name), 5).await.err().unwrap();
                assert!(refused.to_string().contains("it is auto-delete"), "{refused}");
                let (status, _) = call(Method::GET, &["queues", vhost, name], None).await;
                assert_eq!(status, 200, "it is there");
            }
            for name in ["lasting", "new"] {
                broker.intake(&intake(vhost, name), 5).await.unwrap().close().await;
            }
        }
        for name in ["brief", "gone"] {
            let name = QueueName::parse(name).unwrap();
            let refused = broker.browse(&name, 5).await.unwrap_err();
            assert!(refused.to_string().contains("it is auto-delete"), "{refused}");
            let refused = broker
                .walk(&name, WalkOptions::new(Returns::InPlace))
                .await
                .err()
                .unwrap();
            assert!(refused.to_string().contains("it is auto-delete"), "{refused}");
        }
        let missing = QueueName::parse("missing").unwrap();
        let walk = broker.walk(&missing, WalkOptions::new(Returns::InPlace)).await.unwrap();
        assert!(walk.is_none() && broker.look(&missing).await.unwrap() == Look::Missing);
    }
    let name = format!("u-{}", redrive::internals::ambient::new_id());
    user(&name, "").await;
    let only_read = json!({"configure": "^$", "write": ".*", "read": ".*"});
    call(Method::PUT, &["permissions", &there, &name], Some(only_read)).await;
    settings.amqp_url = as_user(&bench::amqp(), &name, "s3cret");
    let refused = connect(&settings)
        .intake(&intake(&there, "lasting"), 5)
        .await
        .err()
        .unwrap();
    let said = refused.to_string();
    assert!(
        said.contains("once the management API tells of it") && said.contains("the right to configure it"),
        "{said}"
    );
    call(Method::DELETE, &["users", &name], None).await;
    for vhost in [here, there] {
        vhost_delete(vhost)().await;
    }
}
