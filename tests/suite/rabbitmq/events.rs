//! What the event exchange and the policies tell.

use std::time::Duration;

use redrive::internals::broker::{EventExchange, Signal};
use reqwest::Method;
use serde_json::json;

use super::bench::{self, call};
use crate::broker_contract::bench::SOON;
use crate::support::daemon::Installation;
use crate::support::servers::{PrivateRabbit, RabbitAddress};
use crate::support::wait::{wait_until, within};

const BOUND: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn created_and_deleted_queues_and_policies_are_heard_with_who_did_it() {
    let bench = bench::classic().await;
    let mut signals = bench.broker.signals();
    bench.broker.listen().await.unwrap();
    let waited = within(SOON, async {
        let mut pause = tokio::time::interval(Duration::from_millis(50));
        while bench.broker.health().await.events != EventExchange::There {
            pause.tick().await;
        }
    });
    waited.await.expect("the event exchange is on this server");
    let queue = bench.created("q").await;
    let policy = json!({"pattern": "^none$", "definition": {"max-length": 5}, "apply-to": "queues"});
    call(Method::PUT, &["policies", &bench.naming.vhost, "p"], Some(policy)).await;
    bench.broker.delete_whole(&queue).await.unwrap();
    let user = url::Url::parse(&bench::amqp()).unwrap().username().to_owned();
    let mut expected = vec![
        Signal::QueueCreated(queue.clone()),
        Signal::PolicyChanged,
        Signal::QueueDeleted { queue, by: Some(user) },
    ];
    let heard = within(SOON, async {
        while !expected.is_empty() {
            let signal = signals.recv().await.unwrap();
            expected.retain(|one| *one != signal);
        }
    });
    assert!(heard.await.is_ok(), "not heard: {expected:?}");
    bench.finish().await;
}

/// How many bindings the event exchange has.
async fn bound(node: &RabbitAddress) -> usize {
    let path = "/api/exchanges/%2F/amq.rabbitmq.event/bindings/source";
    let bindings = node.request("GET", path).send().await.json();
    bindings.as_array().map_or(0, Vec::len)
}

/// The plugin was off and on again, as it is with each upgrade of it: nobody tells who consumes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_bound_to_the_event_exchange_any_more_is_bound_again() {
    let node = PrivateRabbit::start().await;
    let vhost = node.address.vhost().await;
    let mut daemon = Installation::on_rabbit(&vhost).daemon().await;
    wait_until("five bindings", BOUND, async || {
        (bound(&node.address).await == 5).then_some(())
    })
    .await;
    let again = "rabbit_exchange_type_event:unregister(), rabbit_exchange_type_event:register().";
    node.address.control(&["eval", again]).await;
    assert_eq!(bound(&node.address).await, 0);
    wait_until("they are there again", BOUND, async || {
        (bound(&node.address).await == 5).then_some(())
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_are_listed_with_their_keys() {
    let bench = bench::classic().await;
    let vhost = bench.naming.vhost.as_str();
    let policy = json!({"pattern": "^a", "definition": {"max-length": 5, "overflow": "drop-head"}, "apply-to": "queues", "priority": 3});
    call(Method::PUT, &["policies", vhost, "mine"], Some(policy)).await;
    let operator = json!({"pattern": ".*", "definition": {"expires": 60000}, "apply-to": "queues"});
    call(Method::PUT, &["operator-policies", vhost, "theirs"], Some(operator)).await;
    let mut policies = bench.broker.policies().await.unwrap();
    policies.sort_by(|left, right| left.name.cmp(&right.name));
    assert_eq!(policies.len(), 2);
    assert_eq!(
        (policies[0].name.as_str(), policies[0].priority, policies[0].operator),
        ("mine", 3, false)
    );
    assert!(
        policies[0].definition.contains(&("max-length".into(), "5".into())),
        "{policies:?}"
    );
    assert!(
        policies[0]
            .definition
            .contains(&("overflow".into(), "drop-head".into())),
        "{policies:?}"
    );
    assert_eq!((policies[1].name.as_str(), policies[1].operator), ("theirs", true));
    bench.finish().await;
}
