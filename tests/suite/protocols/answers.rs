//! Answers of the store that are lost or late: whatever the dispatcher waited for, nothing of it stays behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use redrive::internals::engine::query;

use crate::engine::stage::{Ground, Stage};
use crate::support::faulty_store::Fault;
use crate::support::receiver::Behaviour;
use crate::support::wait::{at_moment, stays_absent, wait_until};

/// After a fault everything goes on within this time; no round of housekeeping may be needed for it.
const SOON: Duration = Duration::from_secs(15);

async fn delivered_soon(stage: &Stage, count: usize) {
    wait_until(format!("{count} deliveries"), SOON, async || {
        (stage.receiver.delivered() >= count).then_some(())
    })
    .await;
}

/// The freeing of a lease is not heard. The comparison frees it; its answer is late, and so is the answer to the
/// next request for the lease, which comes in between. One worker and one slot: nothing of them may get lost, and
/// nothing of the probe when the URL is closed meanwhile.
async fn late_freeing(ground: Ground, path: &str) {
    let (mut stage, store) = Stage::quiet_over_faults(ground, |settings| {
        settings.workers = 1;
        settings.in_flight_per_endpoint = 1;
        settings.linger = Duration::from_millis(40);
    })
    .await;
    let mut freed = 0;
    store.plan(move |call| match call {
        "lease_free" => {
            freed += 1;
            match freed {
                1 => Some(Fault::Unheard),
                2 => Some(Fault::Late(Duration::from_secs(2))),
                _ => None,
            }
        }
        "leases_take" if freed == 2 => Some(Fault::Late(Duration::from_secs(3))),
        _ => None,
    });
    // The second failure in a row closes the URL.
    let failures = AtomicU32::new(0);
    stage
        .receiver
        .behave_by("/flaky", move |_| match failures.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Behaviour::Status(503),
            _ => Behaviour::Status(200),
        });
    stage.start();
    stage.publish("a", path).await;
    wait_until("an attempt", SOON, async || (stage.receiver.count() > 0).then_some(())).await;
    let begun = Instant::now();
    let mut published = 1;
    while begun.elapsed() < Duration::from_secs(4) {
        stage.publish("a", path).await;
        published += 1;
        at_moment(Duration::from_millis(100)).await;
    }
    delivered_soon(&stage, published).await;
    stage.publish("b", path).await;
    delivered_soon(&stage, published + 1).await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_to_the_freeing_of_a_lease_disturbs_no_later_worker() {
    late_freeing(Ground::rabbit_sqlite().await, "/ok").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_to_the_freeing_of_a_lease_disturbs_no_later_probe() {
    late_freeing(Ground::rabbit_sqlite().await, "/flaky").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_to_the_freeing_of_a_lease_disturbs_no_later_worker_with_the_embedded_broker() {
    late_freeing(Ground::embedded(), "/ok").await;
}

/// The list of the leases held is older than the work of a worker that came and went meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_list_of_the_leases_held_disturbs_nobody() {
    let (mut stage, store) = Stage::quiet_over_faults(Ground::rabbit_sqlite().await, |settings| {
        settings.workers = 1;
        settings.in_flight_per_endpoint = 1;
        settings.linger = Duration::from_millis(5);
    })
    .await;
    store.plan(|call| match call {
        "leases_held" => Some(Fault::Late(Duration::from_millis(30))),
        _ => None,
    });
    stage.start();
    for published in 1..=50 {
        stage.publish("a", "/ok").await;
        delivered_soon(&stage, published).await;
    }
    stage.stop().await;
    stage.assert_kept();
}

/// For as long as every third answer or so is lost or late, and one of two URLs fails now and then.
async fn lossy(ground: Ground, seed: u64) {
    let (mut stage, store) = Stage::quiet_over_faults(ground, |settings| {
        settings.workers = 2;
        settings.in_flight_per_endpoint = 1;
        settings.linger = Duration::from_millis(20);
    })
    .await;
    stage.receiver.behave_by("/1", |attempt| match attempt.earlier % 4 {
        2 => Behaviour::Status(503),
        _ => Behaviour::Status(200),
    });
    stage.start();
    stage.publish("warm", "/0").await;
    stage.delivered(1).await;
    let calls = Arc::new(AtomicU32::new(0));
    let mut random = fastrand::Rng::with_seed(seed);
    let counted = Arc::clone(&calls);
    store.plan(move |call| {
        // The calls that leases and probes come and go by are hit most.
        let of = if call.starts_with("lease") || call.starts_with("probe") {
            5
        } else {
            12
        };
        let fault = match random.u32(0..of) {
            0 => Fault::Unheard,
            1 => Fault::Unanswered,
            2 => Fault::Late(Duration::from_millis(random.u64(1..1_200))),
            _ => return None,
        };
        counted.fetch_add(1, Ordering::SeqCst);
        Some(fault)
    });
    let mut published = 1;
    while calls.load(Ordering::SeqCst) < 100 {
        for n in 0..6 {
            stage.publish(&format!("e{n}"), &format!("/{}", n % 2)).await;
            published += 1;
        }
        at_moment(Duration::from_millis(40)).await;
    }
    store.plan(|_| None);
    wait_until(format!("{published} deliveries (seed {seed})"), SOON * 2, async || {
        (stage.receiver.delivered() >= published).then_some(())
    })
    .await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_loses_answers_for_a_while_leaves_no_queue_behind() {
    for seed in 1..=2 {
        lossy(Ground::rabbit_sqlite().await, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_loses_answers_for_a_while_leaves_no_queue_behind_with_the_embedded_broker() {
    for seed in 1..=2 {
        lossy(Ground::embedded(), seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_cannot_begin_says_why_until_it_does() {
    let (mut stage, store) = Stage::quiet_over_faults(Ground::embedded(), |_| {}).await;
    store.plan(|call| (call == "incarnation_begin").then_some(Fault::Unheard));
    stage.start();
    let ready = async || stage.engine.query(query::IsReady()).await.unwrap();
    wait_until("the reason", SOON, async || {
        let found = ready().await;
        let told = |problem: Option<String>| problem.is_some_and(|why| why.contains("the answer was lost"));
        (told(found.delivering.problem) && told(found.store.problem)).then_some(())
    })
    .await;
    store.plan(|_| None);
    wait_until("a daemon that delivers", SOON, async || {
        let found = ready().await;
        (found.delivering.problem.is_none() && found.store.problem.is_none()).then_some(())
    })
    .await;
    stage.stop().await;
}

/// The heartbeats are answered, as they are where only rows that need more room cannot be written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_written_down_of_a_failure_is_told_until_it_is() {
    let (mut stage, store) = Stage::quiet_over_faults(Ground::embedded(), |_| {}).await;
    stage.receiver.behave("*", Behaviour::Status(503));
    store.plan(|call| (call == "failure_record").then_some(Fault::Unheard));
    stage.start();
    stage.publish("a", "/hook").await;
    wait_until("what waits to be told", SOON, async || {
        let (ready, doctor) = unwritten(&stage).await;
        let is_named = |text: Option<String>| text.is_some_and(|text| text.contains("the answer was lost"));
        (is_named(ready) && is_named(doctor)).then_some(())
    })
    .await;
    store.plan(|_| None);
    wait_until("its end", SOON, async || {
        (unwritten(&stage).await == (None, None)).then_some(())
    })
    .await;
    stage.stop().await;
}

/// One session keeps the rows of one queue: all others are written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_that_waits_for_a_locked_row_says_nothing_of_the_store() {
    let (mut stage, store) = Stage::quiet_over_faults(Ground::embedded(), |_| {}).await;
    stage.receiver.behave("*", Behaviour::Status(503));
    store.plan(|call| (call == "failure_record").then_some(Fault::Locked));
    stage.start();
    stage.publish("a", "/hook").await;
    wait_until("an attempt", SOON, async || (stage.receiver.count() > 0).then_some(())).await;
    stays_absent("a store that takes no writes", Duration::from_secs(8), async || {
        Some(unwritten(&stage).await).filter(|told| *told != (None, None))
    })
    .await;
    store.plan(|_| None);
    stage.endpoint_is("/hook", "unavailable").await;
    stage.stop().await;
}

/// What readiness and `doctor` say of a store that takes some writes and not others.
async fn unwritten(stage: &Stage) -> (Option<String>, Option<String>) {
    let ready = stage.engine.query(query::IsReady()).await.unwrap().store.problem;
    let checks = stage.engine.query(query::Doctor()).await.unwrap();
    let mut found = checks.into_iter().map(|check| check.found);
    (
        ready,
        found.find(|found| found.starts_with("takes some writes and not others")),
    )
}
