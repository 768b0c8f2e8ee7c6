//! Rules 16 and 35: what hangs takes nothing from those that answer, nor from those that nobody has tried.

use std::time::Duration;

use super::slots::at_once;
use crate::engine::stage::{BOUND, Ground, Stage};
use crate::support::receiver::{Attempt, Behaviour};
use crate::support::wait::wait_until;

const WORKERS: usize = 8;
/// More than there are workers.
const HANGING: usize = 12;
const HEALTHY: usize = 12;

/// No request ends by its deadline while a test looks.
async fn stage_that_waits(ground: Ground) -> Stage {
    Stage::on(ground, |settings| {
        settings.workers = WORKERS;
        settings.slow_requests = WORKERS;
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
