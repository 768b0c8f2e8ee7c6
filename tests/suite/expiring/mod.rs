//! Queues that expire: saved, restored, extended, purged, watched by the janitor, and judged before they surprise.

mod acts;
mod janitor;
mod killed;
mod preflight;

use std::time::Duration;

use bytes::Bytes;
use redrive::internals::ambient;
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::job::{JobId, JobPart, Lifetime};
use redrive::internals::domain::message::{HeaderValue, Message};
use redrive::internals::engine::expiring::{
    ExpiringOrder, ExpiringOutcome, ExpiringQuery, ExpiringQueue, SaveRecord, Which,
};
use redrive::internals::engine::query;
use redrive::internals::engine::query::SaveQuery;
use redrive::internals::engine::{Command, Done};

use crate::engine::stage::{BOUND, Stage};
use crate::support::wait::wait_until;

/// A lifetime that does not end within a test.
const LONG: Duration = Duration::from_mins(10);

/// Makes one test per behaviour and broker.
macro_rules! on_both {
    ($($module:ident: $($name:ident)+;)+) => {
        mod embedded {
            //! The embedded broker.
            use crate::engine::stage::{Ground, Stage};

            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$module::$name(&mut Stage::quiet(Ground::embedded(), super::$module::settings).await).await;
            })+)+
        }

        mod rabbitmq {
            //! RabbitMQ.
            use crate::engine::stage::{Ground, Stage};

            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let ground = Ground::rabbit_postgres().await;
                super::$module::$name(&mut Stage::quiet(ground, super::$module::settings).await).await;
            })+)+
        }
    };
}

on_both! {
    acts:
        saved_messages_come_back_with_every_property_and_in_order
        a_restore_declares_again_what_is_gone
        saved_messages_can_be_put_elsewhere
        what_got_a_message_between_plan_and_purge_is_left
        what_got_a_consumer_between_plan_and_purge_is_left
        leftovers_that_outlived_their_time_are_purged_and_can_be_restored
        a_purge_that_drops_says_so_and_keeps_nothing
        an_extended_queue_outlives_its_like
        what_cannot_be_extended_or_saved_says_why;
    janitor:
        a_watched_queue_expires_all_the_same_and_is_told_with_what_was_in_it
        what_is_about_to_expire_is_saved_in_time;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_that_the_store_ends_leaves_a_queue_that_takes_messages() {
    acts::a_purge_that_the_store_ends_leaves_a_queue_that_takes_messages().await;
}

async fn submit(stage: &Stage, lifetime: Lifetime) -> JobId {
    let id = JobId::parse(&ambient::new_id()).unwrap();
    stage.engine.job_submit(id.clone(), lifetime).await.unwrap();
    id
}

/// The result's queue of a new job that lives for [`LONG`], with that many messages in it.
async fn filled(stage: &Stage, count: u32) -> (JobId, QueueName) {
    let id = submit(stage, Lifetime::of(LONG).unwrap()).await;
    let queue = id.queue(JobPart::Result);
    publish(stage, &queue, 0..count).await;
    (id, queue)
}

/// A message with every property that a broker takes from anybody.
fn message(number: u32) -> Message {
    Message {
        content_type: Some("application/x-test".to_owned()),
        content_encoding: Some("identity".to_owned()),
        message_id: Some(format!("m-{number}")),
        kind: Some("a kind".to_owned()),
        correlation_id: Some(format!("c-{number}")),
        reply_to: Some("somewhere".to_owned()),
        app_id: Some("an application".to_owned()),
        timestamp_s: Some(1_700_000_000 + u64::from(number)),
        headers: vec![
            ("flag".to_owned(), HeaderValue::Bool(true)),
            ("number".to_owned(), HeaderValue::Integer(i64::from(number))),
            ("text".to_owned(), HeaderValue::text("value")),
        ],
        body: Bytes::from(format!("body {number} \u{0}\u{1}")),
        ..Message::default()
    }
}

async fn publish(stage: &Stage, queue: &QueueName, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let published = stage.broker.publish(queue, &message(number)).await.unwrap();
        assert_eq!(published, redrive::internals::broker::Published::Accepted);
    }
}

/// What is in a queue, in order.
async fn messages(stage: &Stage, queue: &QueueName) -> Vec<Message> {
    let browsed = stage.broker.browse(queue, 500).await.unwrap();
    browsed.into_iter().map(|one| one.message).collect()
}

async fn listed(stage: &Stage) -> Vec<ExpiringQueue> {
    let query = query::Expiring(ExpiringQuery::default());
    stage.engine.query(query).await.unwrap().items
}

/// The queue as it is listed, once its statistics are as `is`.
async fn listed_as(stage: &Stage, queue: &QueueName, is: impl Fn(&ExpiringQueue) -> bool) -> ExpiringQueue {
    wait_until(format!("the statistics of {}", queue.as_str()), BOUND, async || {
        listed(stage)
            .await
            .into_iter()
            .find(|one| one.name == *queue && is(one))
    })
    .await
}

async fn saves(stage: &Stage) -> Vec<SaveRecord> {
    let query = SaveQuery {
        limit: 100,
        ..SaveQuery::default()
    };
    stage.engine.query(query::Saves(query)).await.unwrap().items
}

fn these(queue: &QueueName) -> Which {
    Which::Queues(vec![queue.clone()])
}

async fn act(stage: &Stage, order: ExpiringOrder) -> Vec<ExpiringOutcome> {
    match stage.execute(Command::Expiring(order)).await {
        Done::Expiring(outcomes) => outcomes,
        other => panic!("{other:?}"),
    }
}
