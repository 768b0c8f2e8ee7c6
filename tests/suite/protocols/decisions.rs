//! Rules 17 and 18: what is decided is on record before anything follows from it.

use std::time::Duration;

use redrive::internals::domain::queue::Decision;
use redrive::internals::store::AttemptQuery;

use super::lease_of;
use crate::engine::stage::{BOUND, Ground, Stage};
use crate::support::checker::Left;
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

/// The first message was to be dead-lettered; the process died after the decision, and after the publish
/// too if there is a `copy`.
async fn an_open_decision(ground: Ground, copy: bool) {
    let mut stage = Stage::quiet(ground, |_| {}).await;
    let doomed = stage.publish("a", "/ok").await;
    stage.publish("a", "/ok").await;
    let (incarnation, lease) = lease_of(&stage, &doomed.queue).await;
    let decision = Decision {
        id: "decided-before-the-crash".to_owned(),
        message: doomed.id.clone(),
        fingerprint: None,
        reason: "refused".to_owned(),
        epoch: lease.epoch,
    };
    assert!(stage.store.decision_open(&doomed.queue, &decision).await.unwrap());
    if copy {
        let mut letter = stage.broker.browse(&doomed.queue, 1).await.unwrap().remove(0).message;
        let value = redrive::internals::domain::message::HeaderValue::text(&decision.id);
        letter.headers.push(("x-redrive-dead-decision".to_owned(), value));
        stage.broker.publish_dead(&letter).await.unwrap();
    }
    stage.store.incarnation_end(incarnation).await.unwrap();
    stage.start();
    stage.delivered(1).await;
    let dead = stage.dead_letters(if copy { 2 } else { 1 }).await;
    for letter in &dead {
        assert_eq!(letter.message_id.as_deref(), Some(doomed.id.as_str()));
        assert_eq!(
            letter.header_text("x-redrive-dead-decision"),
            Some(decision.id.as_str()),
            "copies collapse by it"
        );
    }
    let row = stage.store.queue_get(&doomed.queue).await.unwrap().unwrap();
    assert_eq!((row.decision, row.head), (None, None));
    stage.stop().await;
    let bodies: Vec<Vec<u8>> = stage
        .receiver
        .attempts()
        .into_iter()
        .map(|attempt| attempt.body)
        .collect();
    assert_eq!(bodies, [b"a /ok 2"], "what was decided is not attempted again");
    stage.history.left.insert(doomed.id.as_str().to_owned(), Left::Dead);
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_that_a_crash_left_open_is_carried_out_and_not_attempted() {
    an_open_decision(Ground::rabbit_sqlite().await, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_published_before_the_crash_has_a_copy_with_the_same_decision() {
    an_open_decision(Ground::rabbit_postgres().await, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_that_a_crash_left_open_is_carried_out_with_the_embedded_broker() {
    an_open_decision(Ground::embedded(), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_on_record_before_the_next_attempt_begins_and_successes_soon_after() {
    let mut stage = Stage::on(Ground::rabbit_postgres().await, |_| {}).await;
    stage.receiver.behave_by("/hook", |attempt| match attempt.earlier {
        0 => Behaviour::Status(503),
        1 => Behaviour::Status(200).after(Duration::from_secs(1)),
        _ => Behaviour::Status(200),
    });
    let first = stage.publish("a", "/hook").await;
    wait_until("the second attempt", BOUND, async || {
        (stage.receiver.count() == 2).then_some(())
    })
    .await;
    let query = AttemptQuery {
        message: Some(first.id.clone()),
        limit: 10,
        ..AttemptQuery::default()
    };
    let known = stage.store.attempts(&query).await.unwrap();
    assert!(stage.receiver.attempts()[1].end.is_none(), "looked too late");
    assert_eq!(
        known.iter().map(|attempt| attempt.status).collect::<Vec<_>>(),
        [Some(503)]
    );
    stage.publish_many("a", "/hook", 9).await;
    stage.delivered(10).await;
    wait_until("ten successes on record", BOUND, async || {
        let row = stage.store.queue_get(&first.queue).await.unwrap()?;
        (row.delivered == 10 && row.head.is_none()).then_some(())
    })
    .await;
    stage.stop().await;
    stage.assert_kept();
}
