//! What a client, a worker and time do to a job's queues.

use std::time::Duration;

use bytes::Bytes;
use redrive::internals::ambient;
use redrive::internals::domain::job::JobPart;
use redrive::internals::engine::EngineError;
use redrive::internals::engine::query;
use redrive::jobs::{ConnectOptions, JobConnection, JobId, Jobs, Lifetime, SubmitOptions};

use crate::engine::stage::{BOUND, Stage};
use crate::support::wait::wait_until;

/// Short enough to be waited for, long enough for what comes in between.
const SHORT: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_mins(10);

fn submitted(lifetime: Duration) -> SubmitOptions {
    SubmitOptions {
        auto_cleanup_after_ttl: Some(Lifetime::of(lifetime).unwrap()),
        auto_disconnect_on_result: true,
        ..SubmitOptions::default()
    }
}

fn again() -> ConnectOptions {
    ConnectOptions {
        reconnect: true,
        auto_disconnect_on_result: true,
        ..ConnectOptions::default()
    }
}

fn body(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// The queues of a job that are there, without using them.
async fn there(stage: &Stage, id: &JobId) -> Vec<JobPart> {
    let mut there = Vec::new();
    for part in JobPart::ALL {
        if stage.broker.queue_detail(&id.queue(part)).await.unwrap().is_some() {
            there.push(part);
        }
    }
    there
}

async fn until_gone(stage: &Stage, id: &JobId) {
    wait_until("a job's queues to be gone", BOUND, async || {
        there(stage, id).await.is_empty().then_some(())
    })
    .await;
}

/// What comes until the end, as `part: body`.
async fn all(mut connection: JobConnection) -> Vec<String> {
    let mut came = Vec::new();
    while let Some(message) = connection.next().await.unwrap() {
        let text = String::from_utf8_lossy(&message.message.body).into_owned();
        came.push(format!("{}: {text}", message.part.as_str()));
    }
    assert!(!connection.is_connected(), "the client leaves with the result");
    came
}

pub(super) async fn a_result_that_is_consumed_removes_all_three_queues(stage: &Stage) {
    let jobs = Jobs::new(stage.engine.clone());
    let connection = jobs.submit_job(submitted(LONG)).await.unwrap();
    let id = connection.job().id.clone();
    assert_eq!(there(stage, &id).await, JobPart::ALL);
    jobs.publish_status(&id, body("running")).await.unwrap();
    jobs.publish_progress(&id, body("0.5")).await.unwrap();
    jobs.publish_progress(&id, body("1.0")).await.unwrap();
    jobs.publish_result(&id, body("42")).await.unwrap();
    let came = all(connection).await;
    assert_eq!(came.last().unwrap(), "result: 42");
    let of = |part: &str| -> Vec<&String> { came.iter().filter(|one| one.starts_with(part)).collect() };
    assert_eq!(of("progress"), ["progress: 0.5", "progress: 1.0"]);
    assert_eq!(of("status"), ["status: running"]);
    assert_eq!(there(stage, &id).await, []);
    let late = jobs.publish_progress(&id, body("late")).await.unwrap_err();
    assert!(
        matches!(&late, EngineError::Expired { queue } if queue.ends_with(".progress")),
        "{late}"
    );
    assert_eq!(there(stage, &id).await, [], "a worker that is late makes nothing");
}

pub(super) async fn a_client_that_comes_back_at_once_keeps_the_queues_alive(stage: &Stage) {
    let jobs = Jobs::new(stage.engine.clone());
    let connection = jobs.submit_job(submitted(SHORT)).await.unwrap();
    let id = connection.job().id.clone();
    connection.abandon().await;
    let connection = jobs.connect_to_submitted_job(id.clone(), again()).await.unwrap();
    // A job of the same lifetime, declared now and used by nobody, says when that time is over.
    let measure = JobId::parse(&ambient::new_id()).unwrap();
    stage
        .engine
        .job_submit(measure.clone(), Lifetime::of(SHORT).unwrap())
        .await
        .unwrap();
    until_gone(stage, &measure).await;
    assert_eq!(there(stage, &id).await, JobPart::ALL, "somebody follows it");
    jobs.publish_result(&id, body("42")).await.unwrap();
    assert_eq!(all(connection).await, ["result: 42"]);
    assert_eq!(there(stage, &id).await, []);
}

pub(super) async fn a_client_that_comes_back_after_the_end_gets_the_result(stage: &Stage) {
    let jobs = Jobs::new(stage.engine.clone());
    let connection = jobs.submit_job(submitted(LONG)).await.unwrap();
    let id = connection.job().id.clone();
    connection.close().await.unwrap();
    jobs.publish_result(&id, body("42")).await.unwrap();
    let connection = jobs.connect_to_submitted_job(id.clone(), again()).await.unwrap();
    assert_eq!(all(connection).await, ["result: 42"]);
    assert_eq!(there(stage, &id).await, []);
}

pub(super) async fn queues_that_nobody_comes_back_for_are_gone_with_their_messages(stage: &Stage) {
    let jobs = Jobs::new(stage.engine.clone());
    let connection = jobs.submit_job(submitted(SHORT)).await.unwrap();
    let id = connection.job().id.clone();
    connection.abandon().await;
    jobs.publish_result(&id, body("42")).await.unwrap();
    until_gone(stage, &id).await;
}

pub(super) async fn coming_back_too_late_is_an_error_that_names_the_queue_and_makes_nothing(stage: &Stage) {
    let jobs = Jobs::new(stage.engine.clone());
    let connection = jobs.submit_job(submitted(SHORT)).await.unwrap();
    let id = connection.job().id.clone();
    connection.abandon().await;
    jobs.publish_result(&id, body("42")).await.unwrap();
    until_gone(stage, &id).await;
    let error = jobs.connect_to_submitted_job(id.clone(), again()).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("expired or never existed") && text.contains(id.as_str()),
        "{text}"
    );
    // Also for one that looked before the end and follows after it.
    let error = stage.engine.job_follow(&id).await.unwrap_err();
    assert!(matches!(error, EngineError::Expired { .. }), "{error}");
    assert_eq!(there(stage, &id).await, []);
}

pub(super) async fn a_lost_message_in_hand_comes_again(stage: &Stage) {
    let jobs = Jobs::new(stage.engine.clone());
    let mut connection = jobs.submit_job(submitted(LONG)).await.unwrap();
    let id = connection.job().id.clone();
    jobs.publish_result(&id, body("42")).await.unwrap();
    let first = connection.next().await.unwrap().unwrap();
    assert_eq!(first.part, JobPart::Result);
    connection.abandon().await;
    assert_eq!(there(stage, &id).await, JobPart::ALL, "it was not dealt with");
    let connection = jobs.connect_to_submitted_job(id.clone(), again()).await.unwrap();
    assert_eq!(all(connection).await, ["result: 42"]);
}

/// Callers bound each call with a timeout of their own, which may end it between any two steps.
pub(super) async fn a_result_that_was_dealt_with_is_the_last_whenever_a_call_is_dropped(stage: &Stage) {
    let jobs = Jobs::new(stage.engine.clone());
    for round in 0..8 {
        let mut connection = jobs.submit_job(submitted(LONG)).await.unwrap();
        let id = connection.job().id.clone();
        jobs.publish_result(&id, body("42")).await.unwrap();
        assert_eq!(connection.next().await.unwrap().unwrap().part, JobPart::Result);
        // What is dropped is dropped later and later: in the ack, then at each of the three queues.
        let mut patience = Duration::from_micros(200 * (round + 1));
        let last = loop {
            match ambient::timeout(patience, connection.next()).await {
                Ok(last) => break last,
                Err(_) => patience *= 2,
            }
            assert!(patience < BOUND, "the call after the result never ends");
        };
        assert!(last.unwrap().is_none(), "round {round}");
        assert_eq!(there(stage, &id).await, []);
    }
}

pub(super) async fn another_lifetime_is_explained(stage: &Stage) {
    let jobs = Jobs::new(stage.engine.clone());
    let id = JobId::parse(&ambient::new_id()).unwrap();
    stage
        .engine
        .job_submit(id.clone(), Lifetime::of(LONG).unwrap())
        .await
        .unwrap();
    let other = ConnectOptions {
        auto_cleanup_after_ttl: Some(Lifetime::Never),
        ..again()
    };
    for options in [
        other.clone(),
        ConnectOptions {
            reconnect: false,
            ..other
        },
    ] {
        let error = jobs.connect_to_submitted_job(id.clone(), options).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("600 s") && text.contains("never"), "{text}");
    }
    let same = ConnectOptions {
        auto_cleanup_after_ttl: Some(Lifetime::of(LONG).unwrap()),
        ..again()
    };
    let connection = jobs.connect_to_submitted_job(id, same).await.unwrap();
    connection.abandon().await;
}

pub(super) async fn looking_all_the_time_renews_nothing(stage: &Stage) {
    let id = JobId::parse(&ambient::new_id()).unwrap();
    stage
        .engine
        .job_submit(id.clone(), Lifetime::of(SHORT).unwrap())
        .await
        .unwrap();
    wait_until("a job that is watched to expire", BOUND, async || {
        let listed = stage.engine.query(query::Jobs()).await.unwrap();
        let checked = stage.engine.job_check(&id, None).await;
        let is_listed = listed.iter().any(|job| job.job.id == id);
        (!is_listed && checked.is_err()).then_some(())
    })
    .await;
}
