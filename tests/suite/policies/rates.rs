//! `max_receives_per_second`: what a receiver gets in any second, from one daemon and from two.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive::internals::ambient::Clock;
use redrive::internals::engine::Engine;
use redrive::internals::engine::query;
use tokio_util::sync::CancellationToken;

use crate::engine::stage::{BOUND, Ground, Stage, sender};
use crate::support::wait::wait_until;

const RATE: u32 = 20;
/// More than the rate in one second by this much: a turn that was waited for may be late, the next one not.
const LATE: usize = 4;

/// The most requests that began in any one second.
fn most_in_a_second(starts: &[Instant]) -> usize {
    let within = |first: &Instant| {
        let second = Duration::from_secs(1);
        starts
            .iter()
            .filter(|at| *at >= first && at.duration_since(*first) < second)
            .count()
    };
    starts.iter().map(within).max().unwrap_or(0)
}

fn starts(stage: &Stage) -> Vec<Instant> {
    let mut starts: Vec<Instant> = stage
        .receiver
        .attempts_of("/paced")
        .iter()
        .map(|one| one.started_at)
        .collect();
    starts.sort_unstable();
    starts
}

/// The path is only known once the receiver listens: the rate is set by a second start.
async fn paced(ground: Ground) -> Stage {
    let mut stage = Stage::on(ground, |_| {}).await;
    let url = stage.url("/paced");
    stage
        .restart(|settings| {
            settings.rates.insert(url, RATE);
        })
        .await;
    stage
}

pub(super) async fn a_url_gets_no_more_requests_a_second_than_its_rate(ground: Ground) {
    let mut stage = paced(ground).await;
    for _ in 0..30 {
        for execution in ["a", "b"] {
            stage.publish(execution, "/paced").await;
        }
    }
    stage.publish("free", "/ok").await;
    let limited = stage.queue_is("a", "/paced", "rate_limited").await.why.unwrap();
    assert!(limited.text.contains("at most 20 requests a second"), "{limited:?}");
    stage.delivered(61).await;
    let starts = starts(&stage);
    let most = most_in_a_second(&starts);
    assert!(most <= RATE as usize + LATE, "{most} in one second");
    let took = starts[59].duration_since(starts[0]);
    assert!(
        took >= Duration::from_millis(2800),
        "60 requests at 20 a second in {took:?}"
    );
    stage.stop().await;
    stage.assert_kept();
}

pub(super) async fn a_url_that_waits_for_its_turn_holds_no_worker(ground: Ground) {
    let mut stage = Stage::on(ground, |_| {}).await;
    let url = stage.url("/slow");
    stage
        .restart(|settings| {
            settings.rates.insert(url, 1);
            settings.workers = 1;
        })
        .await;
    for execution in ["a", "b", "c"] {
        stage.publish(execution, "/slow").await;
    }
    for _ in 0..10 {
        stage.publish("quick", "/ok").await;
    }
    stage.delivered(13).await;
    let begun = |path: &str, nth: usize| {
        let mut starts: Vec<Instant> = stage
            .receiver
            .attempts_of(path)
            .iter()
            .map(|one| one.started_at)
            .collect();
        starts.sort_unstable();
        starts[nth]
    };
    assert!(
        begun("/ok", 9) < begun("/slow", 2),
        "the only worker waited for the slow ones' turn"
    );
    let took = begun("/slow", 2).duration_since(begun("/slow", 0));
    assert!(took >= Duration::from_millis(1_900), "3 at 1 a second in {took:?}");
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_daemons_divide_the_rate() {
    let mut stage = paced(Ground::rabbit_postgres().await).await;
    let (store, broker) = stage.ground.place().open(&stage.settings.naming).await;
    let second = Engine::new(
        store,
        Arc::clone(&broker),
        sender(&stage.settings),
        stage.settings.clone(),
        Clock::system(),
    );
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (second, stop) = (second.clone(), stop.clone());
        async move { second.run(stop).await.unwrap() }
    });
    wait_until("two daemons", BOUND, async || {
        let Ok(all) = stage.engine.query(query::Incarnations()).await else {
            return None;
        };
        (all.iter().filter(|one| one.alive && one.delivers).count() == 2).then_some(())
    })
    .await;
    for _ in 0..30 {
        for execution in ["a", "b", "c", "d"] {
            stage.publish(execution, "/paced").await;
        }
    }
    stage.delivered(120).await;
    let starts = starts(&stage);
    let took = starts[119].duration_since(starts[0]);
    // Each daemon looks who else delivers once a second; undivided it would be 40 a second, and 3 s.
    assert!(took >= Duration::from_millis(4500), "120 requests in {took:?}");
    let settled: Vec<Instant> = starts
        .iter()
        .copied()
        .filter(|at| at.duration_since(starts[0]) >= Duration::from_secs(2))
        .collect();
    let most = most_in_a_second(&settled);
    assert!(most <= RATE as usize + LATE, "{most} in one second");
    stop.cancel();
    running.await.unwrap();
    second.close().await;
    stage.stop().await;
    stage.assert_kept();
}
