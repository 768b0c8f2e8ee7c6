//! Rule 31: a message is its id and its fingerprint. Publishers use ids again; what is published again is sent again,
//! and nothing that is known of one message is taken for known of another.

use std::time::Duration;

use bytes::Bytes;
use redrive::internals::broker::{Look, Published, Returns, WalkOptions};
use redrive::internals::domain::fingerprint::Fingerprint;
use redrive::internals::domain::id::NotificationId;
use redrive::internals::domain::message::{HeaderValue, Message};
use redrive::internals::domain::queue::{Decision, QueueKind};
use redrive::internals::engine::query;
use redrive::internals::engine::{Access, Command, Done, EngineError};
use redrive::internals::store::QueueMark;
use sqlx::{Connection, SqliteConnection};

use super::lease_of;
use crate::engine::stage::{BOUND, Ground, Stage, notification};
use crate::support::receiver::{Attempt, Behaviour};
use crate::support::wait::{at_moment, wait_until};

/// As another program publishes it: without a time, so that two with one body are equal in everything.
fn of_another(stage: &Stage, id: &str, body: &str) -> Message {
    let header = |name: &str, value: &str| (name.to_owned(), HeaderValue::text(value));
    Message {
        message_id: Some(id.to_owned()),
        headers: vec![
            header("x-redrive-execution", "a"),
            header("x-redrive-url", stage.url("/hook").as_str()),
        ],
        body: Bytes::from(body.to_owned()),
        ..Message::default()
    }
}

/// Publishes to the queue of (`a`, `/hook`), which it makes if it has to.
async fn publish(stage: &Stage, id: &str, body: &str) {
    let queue = stage.queue("a", "/hook");
    if stage.broker.look(&queue).await.unwrap() == Look::Missing {
        stage.broker.create(&queue).await.unwrap();
    }
    let published = stage
        .broker
        .publish(&queue, &of_another(stage, id, body))
        .await
        .unwrap();
    assert_eq!(published, Published::Accepted);
    stage.broker.nudge(&queue).await;
}

/// Until so many requests were answered with a 2xx, whatever their ids.
async fn answered(stage: &Stage, count: usize) {
    wait_until(format!("{count} times a 2xx"), BOUND, async || {
        let attempts = stage.receiver.attempts();
        (attempts.iter().filter(|attempt| attempt.succeeded()).count() >= count).then_some(())
    })
    .await;
}

async fn emptied(stage: &Stage) {
    let queue = stage.queue("a", "/hook");
    wait_until("an empty queue that nobody holds", BOUND, async || {
        let look = stage.broker.look(&queue).await.unwrap();
        let row = stage.store.queue_get(&queue).await.unwrap();
        let is_empty = look == Look::Missing || look == Look::Present { ready: 0, consumers: 0 };
        (is_empty && row.is_none_or(|row| row.owner.is_none())).then_some(())
    })
    .await;
}

fn bodies(stage: &Stage) -> Vec<(String, Option<u16>)> {
    let of = |attempt: Attempt| (String::from_utf8(attempt.body.clone()).unwrap(), attempt.status);
    stage.receiver.attempts().into_iter().map(of).collect()
}

async fn published_again(ground: Ground) {
    let mut stage = Stage::on(ground, |settings| settings.default_policy.retries_with_no_delay = 0).await;
    stage.receiver.behave_by("/hook", |attempt| match attempt.earlier {
        2 => Behaviour::Status(503),
        _ => Behaviour::Status(200),
    });
    for (count, state) in [(1, "open"), (2, "closed"), (3, "open")] {
        publish(&stage, "5", state).await;
        answered(&stage, count).await;
    }
    emptied(&stage).await;
    let expected = [("open", 200), ("closed", 200), ("open", 503), ("open", 200)];
    let expected: Vec<_> = expected.map(|(body, status)| (body.to_owned(), Some(status))).into();
    assert_eq!(bodies(&stage), expected);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_equal_message_that_is_published_again_is_delivered_although_its_first_attempt_fails() {
    published_again(Ground::rabbit_sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_equal_message_that_is_published_again_is_delivered_by_the_embedded_broker_too() {
    published_again(Ground::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_equal_message_that_is_published_again_and_browsed_is_delivered() {
    let mut stage = Stage::on(Ground::rabbit_postgres().await, |_| {}).await;
    publish(&stage, "5", "open").await;
    answered(&stage, 1).await;
    emptied(&stage).await;
    let queue = stage.queue("a", "/hook");
    stage.execute(Command::PauseQueue(queue.clone())).await;
    publish(&stage, "5", "open").await;
    // The broker marks it as redelivered.
    let query = query::Browse {
        queue: queue.clone(),
        limit: 10,
    };
    let seen = stage.engine.query(query).await.unwrap();
    assert_eq!(seen.len(), 1);
    stage.execute(Command::ResumeQueue(queue)).await;
    answered(&stage, 2).await;
    stage.stop().await;
}

/// A crash came between the ack of a dead letter and the end of its decision; behind it is another message with its id.
async fn decided_about_another(ground: Ground) {
    let mut stage = Stage::quiet(ground, |_| {}).await;
    publish(&stage, "x", "second").await;
    let queue = stage.queue("a", "/hook");
    let (incarnation, lease) = lease_of(&stage, &queue).await;
    let decision = Decision {
        id: "decided-before-the-crash".to_owned(),
        message: NotificationId::parse("x").unwrap(),
        fingerprint: Some(Fingerprint::of(&of_another(&stage, "x", "first"))),
        reason: "refused".to_owned(),
        epoch: lease.epoch,
    };
    assert!(stage.store.decision_open(&queue, &decision).await.unwrap());
    stage.store.incarnation_end(incarnation).await.unwrap();
    stage.start();
    stage.delivered(1).await;
    assert_eq!(bodies(&stage), [("second".to_owned(), Some(200))]);
    emptied(&stage).await;
    assert_eq!(stage.store.queue_get(&queue).await.unwrap().unwrap().decision, None);
    assert!(stage.dead_letters(0).await.is_empty());
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_about_a_message_that_is_gone_does_not_bury_another_one_with_its_id() {
    decided_about_another(Ground::rabbit_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_about_a_message_that_is_gone_does_not_bury_another_one_of_the_embedded_broker() {
    decided_about_another(Ground::embedded()).await;
}

/// Takes everything out of a queue that nobody consumes.
async fn drain(stage: &Stage, path: &str) {
    let queue = stage.queue("a", path);
    let mut walk = stage
        .broker
        .walk(&queue, WalkOptions::new(Returns::InPlace))
        .await
        .unwrap()
        .unwrap();
    loop {
        let walked = walk.next(100).await.unwrap();
        if walked.is_empty() {
            break;
        }
        let tags: Vec<_> = walked.iter().map(|one| one.tag).collect();
        walk.settle(&tags).await.unwrap();
    }
    walk.close().await.unwrap();
}

/// The head failed and waits; then somebody purges the queue on the broker.
async fn head_is_gone(ground: Ground) {
    let mut stage = Stage::on(ground, |settings| {
        settings.default_policy.retries_with_no_delay = 0;
        settings.default_policy.minimum_delay_s = 3;
        settings.default_policy.maximum_delay_s = 3;
    })
    .await;
    stage.receiver.behave("/hook", Behaviour::Status(500));
    let queue = stage.publish("a", "/hook").await.queue;
    let waits = async || {
        let row = stage.store.queue_get(&queue).await.unwrap()?;
        (row.head.is_some() && row.owner.is_none()).then_some(())
    };
    wait_until("a head that waits", BOUND, waits).await;
    drain(&stage, "/hook").await;
    wait_until("no head, and nobody who looks for it", BOUND, async || {
        let row = stage.store.queue_get(&queue).await.unwrap()?;
        (row.head.is_none() && row.owner.is_none()).then_some(())
    })
    .await;
    assert!(stage.store.queues_due(10).await.unwrap().is_empty());
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.publish("a", "/hook").await;
    stage.delivered(1).await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_whose_message_is_gone_is_forgotten_when_it_is_due() {
    head_is_gone(Ground::rabbit_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_whose_message_is_gone_is_forgotten_with_sqlite_and_the_embedded_broker() {
    head_is_gone(Ground::embedded()).await;
}

async fn delete(stage: &Stage, path: &str) -> Result<Done, String> {
    let grant = Access::Operator.grant("tester", Some("a test".to_owned())).unwrap();
    let command = Command::DeleteQueue(stage.queue("a", path));
    let plan = stage.engine.plan(command).await.unwrap();
    match stage.engine.execute(&plan, &grant).await {
        Err(EngineError::Refused { why }) => Err(why),
        other => Ok(other.unwrap()),
    }
}

/// Between the plan and the lease of a deletion more comes.
async fn deleted_too_late(ground: Ground) {
    let mut stage = Stage::quiet(ground, |_| {}).await;
    for number in 1..=20 {
        publish(&stage, &format!("planned-{number}"), "planned").await;
    }
    let queue = stage.queue("a", "/hook");
    let (incarnation, _) = lease_of(&stage, &queue).await;
    let late = async {
        wait_until("the deletion to wait for the lease", BOUND, async || {
            let row = stage.store.queue_get(&queue).await.unwrap()?;
            row.wanted_by.map(drop)
        })
        .await;
        for number in 1..=5 {
            publish(&stage, &format!("late-{number}"), "late").await;
        }
        stage.store.incarnation_end(incarnation).await.unwrap();
    };
    let (deleted, ()) = tokio::join!(delete(&stage, "/hook"), late);
    let why = deleted.unwrap_err();
    assert!(why.contains("20 messages are gone, and the queue stays"), "{why}");
    stage.start();
    stage.delivered(5).await;
    emptied(&stage).await;
    stage.stop().await;
    let delivered: Vec<String> = stage
        .receiver
        .attempts()
        .iter()
        .map(|one| one.id().to_owned())
        .collect();
    assert_eq!(delivered, ["late-1", "late-2", "late-3", "late-4", "late-5"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_after_the_plan_of_a_deletion_keeps_the_queue_and_is_delivered() {
    deleted_too_late(Ground::rabbit_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_after_the_plan_of_a_deletion_keeps_a_queue_of_the_embedded_broker() {
    deleted_too_late(Ground::embedded()).await;
}

/// Publishers go on while the queue is deleted: it is deleted whole, or goes on, and nothing is lost of what came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishes_that_race_with_a_deletion_on_request_are_delivered() {
    let mut stage = Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await;
    publish(&stage, "planned", "planned").await;
    let mut confirmed = Vec::new();
    let racing = async {
        for number in 1..=12 {
            let new = notification("a", stage.url("/hook"), number, "racing");
            let receipt = stage.engine.publish(new).await.unwrap();
            confirmed.push(receipt.id.as_str().to_owned());
            at_moment(Duration::from_millis(150)).await;
        }
    };
    // A plan that came out otherwise meanwhile is made again.
    let deleting = wait_until("a deletion", BOUND, async || match delete(&stage, "/hook").await {
        Err(why) if why.contains("stale") => None,
        Err(why) => Some(why.split(' ').next()?.parse::<usize>().unwrap()),
        Ok(Done::Deleted { messages, .. }) => Some(usize::try_from(messages).unwrap()),
        Ok(other) => panic!("{other:?}"),
    });
    let (gone, ()) = tokio::join!(deleting, racing);
    stage.start();
    stage.delivered(13 - gone).await;
    emptied(&stage).await;
    stage.stop().await;
    let delivered: Vec<String> = stage
        .receiver
        .attempts()
        .iter()
        .map(|one| one.id().to_owned())
        .collect();
    assert_eq!(
        delivered,
        confirmed[gone - 1..],
        "in order, and all but what was planned"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_deleted_goes_with_what_was_planned_and_nothing_else_of_it_stays() {
    for ground in [Ground::rabbit_sqlite().await, Ground::embedded()] {
        let stage = Stage::quiet(ground, |_| {}).await;
        publish(&stage, "1", "planned").await;
        publish(&stage, "2", "planned").await;
        let done = delete(&stage, "/hook").await.unwrap();
        let queue = stage.queue("a", "/hook");
        assert!(matches!(done, Done::Deleted { messages: 2, .. }), "{done:?}");
        assert_eq!(stage.broker.look(&queue).await.unwrap(), Look::Missing);
        assert_eq!(stage.store.queue_get(&queue).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_takes_no_publishes_is_not_bound_when_its_deletion_is_given_up() {
    let stage = Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await;
    publish(&stage, "1", "waits").await;
    let queue = stage.queue("a", "/hook");
    let (incarnation, lease) = lease_of(&stage, &queue).await;
    let mark = QueueMark::Refusing(Some("a policy destroys what waits".to_owned()));
    assert!(stage.store.queue_mark(&queue, lease.epoch, mark).await.unwrap());
    stage.broker.unbind(&queue).await.unwrap();
    stage.store.incarnation_end(incarnation).await.unwrap();
    // Somebody consumes it, so it cannot be deleted.
    let options = redrive::internals::broker::AttachOptions {
        prefetch: 1,
        bind: false,
        part: redrive::internals::broker::QueuePart::Queue,
    };
    let attached = stage.broker.attach(&queue, options).await.unwrap();
    assert!(matches!(
        attached,
        redrive::internals::broker::AttachOutcome::Attached(_)
    ));
    let why = delete(&stage, "/hook").await.unwrap_err();
    assert!(why.contains("the queue stays"), "{why}");
    let published = stage.broker.publish(&queue, &of_another(&stage, "2", "refused")).await;
    assert_eq!(published.unwrap(), Published::Returned);
    drop(attached);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_message_of_the_embedded_broker_quarantines_its_queue_and_can_be_rescued() {
    let mut stage = Stage::quiet(Ground::embedded(), |_| {}).await;
    stage.publish_many("a", "/hook", 3).await;
    let Ground::Embedded { directory } = &stage.ground else {
        panic!("the ground is embedded")
    };
    let file = format!("sqlite://{}", directory.path().join("redrive.db").display());
    let mut file = SqliteConnection::connect(&file).await.unwrap();
    let damage = "UPDATE broker_message SET headers = x'ff' WHERE id = (SELECT id FROM broker_message ORDER BY id \
        LIMIT 1 OFFSET 1)";
    let damaged = sqlx::query(damage).execute(&mut file).await.unwrap();
    assert_eq!(damaged.rows_affected(), 1);
    file.close().await.unwrap();
    let queue = stage.queue("a", "/hook");
    // Its first message is whole.
    let healthy = stage
        .engine
        .plan(Command::RescueQueue(queue.clone()))
        .await
        .unwrap_err();
    assert!(healthy.to_string().contains("is not quarantined"), "{healthy}");
    stage.start();
    stage.delivered(1).await;
    let view = stage.queue_is("a", "/hook", "quarantined").await;
    assert_eq!(view.kind, QueueKind::Delivery);
    let row = stage.store.queue_get(&queue).await.unwrap().unwrap();
    assert!(row.quarantined.unwrap().contains("damaged"));
    let done = stage.execute(Command::RescueQueue(queue)).await;
    assert!(matches!(done, Done::Rescued { .. }), "{done:?}");
    stage.delivered(2).await;
    stage.stop().await;
    let delivered: Vec<Vec<u8>> = stage.receiver.attempts().into_iter().map(|one| one.body).collect();
    assert_eq!(delivered, [b"a /hook 1".to_vec(), b"a /hook 3".to_vec()]);
}
