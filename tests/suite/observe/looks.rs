//! What a snapshot shows of a daemon at work, over each kind of broker and store.

use std::sync::Arc;

use redrive::internals::domain::endpoint::EndpointState;
use redrive::internals::domain::filter::{FieldValue, Fields, Filter};
use redrive::internals::domain::queue::QueueState;
use redrive::internals::domain::time::Timestamp;
use redrive::internals::engine::dead::DeadSum;
use redrive::internals::engine::snapshot::{ENDPOINT_FIELDS, EndpointRow, QUEUE_FIELDS, QueueRow, RETRY_FIELDS};
use redrive::internals::engine::view::Retry;

use super::{Watching, endpoint, is_in, queue};
use crate::engine::stage::{Ground, Stage};
use crate::support::receiver::Behaviour;

/// Makes a test for the embedded pair and one for RabbitMQ with PostgreSQL.
macro_rules! on_both {
    ($($name:ident: $stage:ident),* $(,)?) => {
        mod embedded {
            //! SQLite and the embedded broker.
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::$stage(super::Ground::embedded()).await).await;
            })*
        }

        mod servers {
            //! RabbitMQ and PostgreSQL.
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::$stage(super::Ground::rabbit_postgres().await).await).await;
            })*
        }
    };
}

on_both! {
    what_is_delivered_and_what_waits_is_shown: delivering,
    rows_that_did_not_change_are_the_same_allocation: quiet,
}

async fn delivering(ground: Ground) -> Stage {
    Stage::on(ground, |_| {}).await
}

async fn quiet(ground: Ground) -> Stage {
    Stage::quiet(ground, |_| {}).await
}

struct At<'a, R>(&'a R, Timestamp);

macro_rules! fields {
    ($($row:ty),*) => { $(impl Fields for At<'_, $row> {
        fn field(&self, name: &str) -> FieldValue<'_> {
            self.0.field(name, self.1)
        }
    })* };
}
fields!(QueueRow, EndpointRow, Retry);

async fn what_is_delivered_and_what_waits_is_shown(mut stage: Stage) {
    let watching = Watching::of(&stage.engine);
    watching.until("a first look", |snapshot| snapshot.generation > 0).await;
    stage.publish_many("one", "/up", 5).await;
    let done = watching
        .until("five deliveries", |snapshot| snapshot.totals.delivered == 5)
        .await;
    assert_eq!(done.store.problem, None);
    assert_eq!(done.broker.problem, None);
    assert!(done.incarnations.iter().any(|one| one.alive && one.delivers));

    stage.receiver.behave("/down", Behaviour::Status(503));
    stage.publish_many("two", "/down", 3).await;
    stage.publish_many("three", "/down", 1).await;
    let (url, name) = (stage.url("/down"), stage.queue("two", "/down"));
    let shown = watching
        .until("an endpoint with all that waits for it", |snapshot| {
            is_in(snapshot, &url, EndpointState::Unavailable)
                && endpoint(snapshot, &url).is_some_and(|row| row.waiting == Some(4))
                && endpoint(snapshot, &url).is_some_and(|row| row.oldest_at.is_some())
                && queue(snapshot, &name).is_some_and(|row| row.state == Some(QueueState::EndpointUnavailable))
                && queue(snapshot, &name).is_some_and(|row| row.oldest_at().is_some())
        })
        .await;
    let (row, down) = (queue(&shown, &name).unwrap(), endpoint(&shown, &url).unwrap());
    assert_eq!((row.depth(), row.execution()), (Some(3), Some("two")));
    assert_eq!(row.url.as_deref(), Some(&url));
    assert!(row.why().unwrap().contains("unavailable"), "{:?}", row.why());
    assert_eq!(down.queues, 2);
    assert!(
        down.oldest_at.is_some() && down.oldest_at <= row.oldest_at(),
        "{row:?} {down:?}"
    );
    let totals = &shown.totals;
    assert_eq!((totals.waiting, totals.stuck), (Some(4), Some(4)));
    assert_eq!(totals.endpoints_in(EndpointState::Unavailable), 1);
    assert_eq!(totals.queues_in(QueueState::EndpointUnavailable), 2);
    let none = DeadSum {
        letters: Some(0),
        queues: 0,
        events: Some(0),
    };
    assert_eq!((totals.dead, totals.delivered), (none, 5));
    let retry = shown
        .retries
        .iter()
        .find(|retry| retry.url.as_ref() == Some(&url))
        .unwrap();
    assert!(retry.at.is_some() && retry.of.is_some(), "{retry:?}");

    let now = shown.taken_at;
    let queues = Filter::parse("depth > 2 and state = unavailable and execution = two", QUEUE_FIELDS).unwrap();
    let found = shown.queues.iter().filter(|row| queues.matches(&At(&***row, now)));
    assert_eq!(found.map(|row| &row.name).collect::<Vec<_>>(), [&name]);
    let endpoints = Filter::parse("depth > 3 and state = unavailable and age < 1h", ENDPOINT_FIELDS).unwrap();
    assert!(endpoints.matches(&At(&**down, now)));
    let retries = Filter::parse("endpoint ~ \"/down\" and due < 1h", RETRY_FIELDS).unwrap();
    assert!(retries.matches(&At(&**retry, now)));

    stage.receiver.behave("/down", Behaviour::Status(200));
    let over = watching
        .until("everything delivered, and nothing waiting", |snapshot| {
            snapshot.totals.delivered == 9 && snapshot.totals.waiting == Some(0) && snapshot.retries.is_empty()
        })
        .await;
    assert_eq!(over.totals.endpoints_in(EndpointState::Unavailable), 0);
    stage.stop().await;
}

async fn rows_that_did_not_change_are_the_same_allocation(mut stage: Stage) {
    let watching = Watching::of(&stage.engine);
    stage.publish("one", "/a").await;
    stage.publish("two", "/a").await;
    let (one, two) = (stage.queue("one", "/a"), stage.queue("two", "/a"));
    let before = watching
        .until("both queues", |snapshot| {
            [&one, &two].into_iter().all(|name| {
                queue(snapshot, name).is_some_and(|row| row.ready() == Some(1) && row.oldest_at().is_some())
            }) && endpoint(snapshot, &stage.url("/a")).is_some_and(|row| row.queues == 2)
        })
        .await;
    let urls: Vec<_> = before.queues.iter().filter_map(|row| row.url.as_ref()).collect();
    assert!(urls.len() == 2 && Arc::ptr_eq(urls[0], urls[1]), "{urls:?}");
    // What moved is told in steps of some seconds: of looks that follow each other most see the same.
    let (mut last, mut is_same) = (before, false);
    for _ in 0..3 {
        let idle = watching.next().await;
        assert!(idle.generation > last.generation);
        is_same |= Arc::ptr_eq(&idle.queues, &last.queues) && Arc::ptr_eq(&idle.endpoints, &last.endpoints);
        last = idle;
    }
    assert!(is_same, "nothing changed");

    let (mut kept, mut waiting) = (false, 1);
    while !kept && waiting < 4 {
        let before = watching.next().await;
        stage.publish("two", "/a").await;
        waiting += 1;
        last = watching
            .until("another message", |snapshot| {
                queue(snapshot, &two).is_some_and(|row| row.ready() == Some(waiting))
            })
            .await;
        let same = |name| Arc::ptr_eq(queue(&before, name).unwrap(), queue(&last, name).unwrap());
        kept = same(&one) && !same(&two);
    }
    assert!(kept, "one stays, and two is another one");
    assert_eq!(
        last.totals.queues_in(QueueState::Unowned),
        2,
        "nobody delivers: {last:?}"
    );
    assert_eq!(last.totals.stuck, Some(1 + waiting));
}
