//! Rules 16 and 35: what hangs takes nothing from those that answer, nor from those that nobody has tried.

use std::time::Duration;

use redrive::internals::domain::id::ExecutionId;

use super::slots::at_once;
use crate::engine::stage::{BOUND, Ground, Stage};
use crate::support::receiver::{Attempt, Behaviour};
use crate::support::wait::wait_until;

const WORKERS: usize = 8;
/// More than there are workers.
const HANGING: usize = 12;
const HEALTHY: usize = 12;
/// More than may hang at once: one slow request, times four, and all workers.
const HANGING_WITHOUT_ROOM: usize = 4 + WORKERS + 4;

/// No request ends by its deadline while a test looks.
async fn stage_that_waits(ground: Ground) -> Stage {
    stage_with_slow_requests(ground, WORKERS).await
}

async fn stage_with_slow_requests(ground: Ground, slow_requests: usize) -> Stage {
    Stage::on(ground, |settings| {
        settings.workers = WORKERS;
        settings.slow_requests = slow_requests;
        settings.request_timeout = Duration::from_secs(50);
        settings.take_over = Duration::from_secs(200);
        settings.drain = Duration::from_millis(100);
    })
    .await
}

fn path(kind: &str, n: usize) -> String {
    format!("/{kind}/{n}")
}

async fn publish_to(stage: &mut Stage, kind: &str, count: usize) {
    for n in 0..count {
        stage.publish("e", &path(kind, n)).await;
    }
}

fn attempts(stage: &Stage, kind: &str, count: usize) -> Vec<Attempt> {
    (0..count)
        .flat_map(|n| stage.receiver.attempts_of(&path(kind, n)))
        .collect()
}

fn open(stage: &Stage, kind: &str, count: usize) -> usize {
    let attempts = attempts(stage, kind, count);
    attempts.iter().filter(|one| one.end.is_none()).count()
}

async fn all_hang(stage: &Stage) {
    wait_until("every hanging URL to have its request", BOUND, async || {
        (open(stage, "hangs", HANGING) == HANGING).then_some(())
    })
    .await;
}

/// Waits until that many of each kind are answered, and demands that nothing that hangs ended before.
async fn go_on(stage: &Stage, kind: &str, answers: usize) {
    wait_until(&format!("the requests to /{kind}"), BOUND, async || {
        let ended = attempts(stage, kind, HEALTHY);
        (ended.iter().filter(|one| one.end.is_some()).count() >= answers).then_some(())
    })
    .await;
    assert_eq!(open(stage, "hangs", HANGING), HANGING, "/{kind} waited for what hangs");
}

async fn published_to_under(stage: &mut Stage, execution: &str, kind: &str, count: usize) {
    for n in 0..count {
        stage.publish(execution, &path(kind, n)).await;
    }
}

/// Waits until as many requests hang as there is room for, and nothing more of them is begun.
async fn all_that_may_hang_do(stage: &Stage, room: usize) {
    wait_until("as many hanging requests as there is room for", BOUND, async || {
        (open(stage, "hangs", HANGING_WITHOUT_ROOM) >= room).then_some(())
    })
    .await;
}

fn hang_without_room(stage: &Stage) {
    for n in 0..HANGING_WITHOUT_ROOM {
        stage.receiver.behave(&path("hangs", n), Behaviour::Never);
    }
}

fn hang(stage: &Stage) {
    for n in 0..HANGING {
        stage.receiver.behave(&path("hangs", n), Behaviour::Never);
    }
}

async fn first_contacts_that_hang(ground: Ground) {
    let mut stage = stage_that_waits(ground).await;
    hang(&stage);
    publish_to(&mut stage, "hangs", HANGING).await;
    all_hang(&stage).await;
    publish_to(&mut stage, "new", HEALTHY).await;
    go_on(&stage, "new", HEALTHY).await;
    publish_to(&mut stage, "new", HEALTHY).await;
    go_on(&stage, "new", 2 * HEALTHY).await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_contacts_go_on_beside_more_that_hang_than_there_are_workers() {
    first_contacts_that_hang(Ground::rabbit_sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_contacts_go_on_beside_more_that_hang_than_there_are_workers_with_the_embedded_broker() {
    first_contacts_that_hang(Ground::embedded()).await;
}

async fn a_restart_while_many_hang(ground: Ground) {
    let mut stage = stage_that_waits(ground).await;
    publish_to(&mut stage, "hangs", HANGING).await;
    publish_to(&mut stage, "known", HEALTHY).await;
    stage.delivered(HANGING + HEALTHY).await;
    stage.stop().await;
    hang(&stage);
    stage.restart(|_| {}).await;
    publish_to(&mut stage, "hangs", HANGING).await;
    all_hang(&stage).await;
    publish_to(&mut stage, "known", HEALTHY).await;
    publish_to(&mut stage, "new", HEALTHY).await;
    go_on(&stage, "known", 2 * HEALTHY).await;
    go_on(&stage, "new", HEALTHY).await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_while_many_hang_delays_neither_known_urls_nor_new_ones() {
    a_restart_while_many_hang(Ground::rabbit_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_while_many_hang_delays_neither_known_urls_nor_new_ones_with_the_embedded_broker() {
    a_restart_while_many_hang(Ground::embedded()).await;
}

/// Waits until so many requests of a kind were answered, and demands that of those that hang no more ended than `ended`,
/// which was before.
async fn answered(stage: &Stage, kind: &str, answers: usize, ended: usize) {
    wait_until(&format!("the requests to /{kind}"), BOUND, async || {
        let ended = attempts(stage, kind, HEALTHY);
        (ended.iter().filter(|one| one.end.is_some()).count() >= answers).then_some(())
    })
    .await;
    let hanging = attempts(stage, "hangs", HANGING_WITHOUT_ROOM);
    let ended_now = hanging.iter().filter(|one| one.end.is_some()).count();
    assert_eq!(ended_now, ended, "/{kind} waited for what hangs");
}

/// What the store remembers of a URL outlives its queues: new ones do not stand with those that nobody has tried.
async fn a_restart_after_every_execution_ended(ground: Ground) {
    let mut stage = stage_with_slow_requests(ground, 1).await;
    publish_to(&mut stage, "known", HEALTHY).await;
    stage.delivered(HEALTHY).await;
    for n in 0..HEALTHY {
        let url = stage.url(&path("known", n));
        stage.engine.end(ExecutionId::parse("e").unwrap(), url).await.unwrap();
    }
    for n in 0..HEALTHY {
        wait_until("a queue to be gone", BOUND, async || {
            stage.queue_view("e", &path("known", n)).await.is_none().then_some(())
        })
        .await;
    }
    stage.stop().await;
    hang_without_room(&stage);
    stage.restart(|_| {}).await;
    publish_to(&mut stage, "hangs", HANGING_WITHOUT_ROOM).await;
    // Four that hang for the one slow request, and half of the workers.
    all_that_may_hang_do(&stage, 4 + WORKERS / 2).await;
    published_to_under(&mut stage, "another", "known", HEALTHY).await;
    answered(&stage, "known", 2 * HEALTHY, 0).await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_that_answered_before_a_restart_are_no_first_contacts_though_their_executions_ended() {
    a_restart_after_every_execution_ended(Ground::rabbit_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_that_answered_before_a_restart_are_no_first_contacts_though_their_executions_ended_with_the_embedded_broker()
 {
    a_restart_after_every_execution_ended(Ground::embedded()).await;
}

/// Of those that answered an earlier process so many hang that no worker would be left.
async fn more_that_hang_than_may(ground: Ground) {
    let mut stage = stage_with_slow_requests(ground, 1).await;
    publish_to(&mut stage, "hangs", HANGING_WITHOUT_ROOM).await;
    stage.delivered(HANGING_WITHOUT_ROOM).await;
    stage.stop().await;
    hang_without_room(&stage);
    stage.restart(|_| {}).await;
    // These answer this process.
    publish_to(&mut stage, "known", HEALTHY).await;
    answered(&stage, "known", HEALTHY, HANGING_WITHOUT_ROOM).await;
    publish_to(&mut stage, "hangs", HANGING_WITHOUT_ROOM).await;
    // Four for the one slow request, and of eight workers what is kept neither for those that answer nor for the new.
    all_that_may_hang_do(&stage, 4 + WORKERS - 2 - 1).await;
    publish_to(&mut stage, "known", HEALTHY).await;
    answered(&stage, "known", 2 * HEALTHY, HANGING_WITHOUT_ROOM).await;
    publish_to(&mut stage, "new", HEALTHY).await;
    answered(&stage, "new", HEALTHY, HANGING_WITHOUT_ROOM).await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_that_answer_go_on_beside_more_that_hang_than_slow_requests_and_workers() {
    more_that_hang_than_may(Ground::rabbit_sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_that_answer_go_on_beside_more_that_hang_than_slow_requests_and_workers_with_the_embedded_broker() {
    more_that_hang_than_may(Ground::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_known_to_hang_are_retried_within_the_bound_of_slow_requests() {
    let mut stage = Stage::on(Ground::embedded(), |settings| {
        settings.workers = WORKERS;
        settings.slow_requests = 2;
        settings.request_timeout = Duration::from_secs(1);
    })
    .await;
    hang(&stage);
    publish_to(&mut stage, "hangs", HANGING).await;
    let retries = |stage: &Stage| -> Vec<Attempt> {
        let later = |n| stage.receiver.attempts_of(&path("hangs", n)).into_iter().skip(1);
        (0..HANGING).flat_map(later).collect()
    };
    wait_until("retries", BOUND, async || (retries(&stage).len() >= 6).then_some(())).await;
    let most = at_once(&retries(&stage));
    assert!((1..=2).contains(&most), "{most} at once");
    for n in 0..HANGING {
        stage.receiver.behave(&path("hangs", n), Behaviour::Status(200));
    }
    stage.delivered(HANGING).await;
    stage.stop().await;
    stage.assert_kept();
}
