//! A vhost of its own on the server that `tests/run` brings, and direct access to that server.

use std::sync::Mutex;

use redrive::internals::ambient::Clock;
use redrive::internals::broker::rabbitmq::{RabbitMq, RabbitSettings};
use redrive::internals::domain::naming::{Naming, QueueType};

use crate::broker_contract::bench::{Bench, Finish};

pub(crate) async fn classic() -> Bench {
    bench(QueueType::Classic).await
}

pub(crate) async fn quorum() -> Bench {
    bench(QueueType::Quorum).await
}

pub(crate) async fn bench(queue_type: QueueType) -> Bench {
    let settings = settings(queue_type);
    let naming = settings.naming.clone();
    let broker = RabbitMq::connect(settings, Clock::system()).unwrap();
    broker.prepare().await.unwrap();
    Bench {
        broker,
        finish: Mutex::new(Some(vhost_delete(naming.vhost.clone()))),
        naming,
    }
}

/// Settings with a vhost that nobody else has.
pub(crate) fn settings(queue_type: QueueType) -> RabbitSettings {
    let naming = Naming {
        prefix: "redrive.".into(),
        vhost: format!("test-{}", redrive::internals::ambient::new_id()),
        url_hash_key: "key".into(),
        queue_type,
    };
    RabbitSettings::new(&amqp(), Some(&management()), naming)
}

pub(crate) fn amqp() -> String {
    variable("REDRIVE_TEST_AMQP")
}

pub(crate) fn management() -> String {
    variable("REDRIVE_TEST_MANAGEMENT")
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run the tests with tests/run"))
}

pub(crate) fn vhost_delete(vhost: String) -> Finish {
    Box::new(move || {
        Box::pin(async move {
            call(reqwest::Method::DELETE, &["vhosts", &vhost], None).await;
        })
    })
}

/// A call of the management API as the administrator: status and body.
pub(crate) async fn call(
    method: reqwest::Method,
    path: &[&str],
    body: Option<serde_json::Value>,
) -> (u16, serde_json::Value) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut url = url::Url::parse(&management()).unwrap();
    url.path_segments_mut().unwrap().push("api").extend(path);
    let mut request = reqwest::Client::new().request(method, url);
    if let Some(body) = body {
        request = request
            .header("content-type", "application/json")
            .body(body.to_string());
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.bytes().await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}
