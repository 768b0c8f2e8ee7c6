//! Queues with a lifetime, as they are listed.

use std::time::Duration;

use bytes::Bytes;
use redrive::internals::ambient;
use redrive::internals::domain::job::{JobId, JobPart, Lifetime};
use redrive::internals::engine::expiring::{ExpiringQuery, ExpiringQueue};
use redrive::internals::engine::query;

use crate::engine::stage::{BOUND, Ground, Stage};
use crate::support::daemon::Installation;
use crate::support::wait::wait_until;

async fn expiring(stage: &Stage) -> Vec<ExpiringQueue> {
    stage
        .engine
        .query(query::Expiring(ExpiringQuery::default()))
        .await
        .unwrap()
        .items
}

async fn submit(stage: &Stage, lifetime: Lifetime) -> JobId {
    let id = JobId::parse(&ambient::new_id()).unwrap();
    stage.engine.job_submit(id.clone(), lifetime).await.unwrap();
    id
}

/// Two jobs with an hour and with two, the latter with a result, and one that lives for ever.
async fn what_is_lost_first_is_listed_first(stage: &Stage) {
    let hours = |hours| Lifetime::of(Duration::from_hours(hours)).unwrap();
    let (hour, two, ever) = (
        submit(stage, hours(1)).await,
        submit(stage, hours(2)).await,
        submit(stage, Lifetime::Never).await,
    );
    let result = two.queue(JobPart::Result);
    stage
        .engine
        .job_publish(&two, JobPart::Result, None, Bytes::from_static(b"42"))
        .await
        .unwrap();
    let listed = wait_until("statistics of every queue", BOUND, async || {
        let listed = expiring(stage).await;
        let known = listed
            .iter()
            .all(|queue| queue.ttl.is_none() || queue.expires_at.is_some());
        let counted = listed
            .iter()
            .any(|queue| queue.name == result && queue.messages == Some(1));
        (listed.len() == 9 && known && counted).then_some(listed)
    })
    .await;
    assert_eq!(listed[0].name, result, "{listed:?}");
    let hours_left = |queue: &ExpiringQueue| queue.ttl.map(|ttl| ttl.as_secs() / 3600);
    assert_eq!(hours_left(&listed[0]), Some(2));
    let order: Vec<Option<u64>> = listed.iter().skip(1).map(hours_left).collect();
    let expected = [Some(1), Some(1), Some(1), Some(2), Some(2), None, None, None];
    assert_eq!(order, expected, "{listed:?}");
    assert!(
        listed[6..]
            .iter()
            .all(|queue| queue.name.as_str().contains(ever.as_str()))
    );
    assert!(listed.iter().any(|queue| queue.name.as_str().contains(hour.as_str())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_lost_first_is_listed_first_embedded() {
    what_is_lost_first_is_listed_first(&Stage::quiet(Ground::embedded(), |_| {}).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_lost_first_is_listed_first_on_rabbitmq() {
    what_is_lost_first_is_listed_first(&Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_and_the_route_print_the_same_keys() {
    let installation = Installation::embedded();
    installation
        .run(&["job", "submit", "--ttl", "3600"])
        .await
        .expect_code(0);
    let listed = installation
        .run(&["expiring", "list", "--json"])
        .await
        .expect_code(0)
        .json();
    let daemon = installation.daemon().await;
    let answered = daemon.get("/v1/expiring").await.json();
    for list in [&listed, &answered["items"]] {
        assert_eq!(list.as_array().map(Vec::len), Some(3), "{list}");
        for key in [
            "name",
            "ttl_s",
            "idle_s",
            "expires_at",
            "estimated",
            "consumers",
            "messages",
            "kind",
        ] {
            assert!(!list[0][key].is_null(), "{key}: {list}");
        }
        assert_eq!((&list[0]["ttl_s"], &list[0]["kind"]), (&3600.0.into(), &"job".into()));
    }
}
