//! What the event exchange and the policies tell.

use redrive::internals::broker::{EventExchange, Signal};
use reqwest::Method;
use serde_json::json;

use super::bench::{self, call};
use crate::broker_contract::bench::SOON;
use crate::support::wait::within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn created_and_deleted_queues_and_policies_are_heard_with_who_did_it() {
    let bench = bench::classic().await;
    let mut signals = bench.broker.signals();
    bench.broker.listen().await.unwrap();
    let waited = within(SOON, async {
        let mut pause = tokio::time::interval(std::time::Duration::from_millis(50));
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
