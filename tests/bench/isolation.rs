//! Whether dead and silent endpoints delay the others: 100 endpoints with a queue each and a steady stream,
//! some of them dead (nothing listens) or silent (no answer), and the publish-to-request time of the rest.
//!
//! Compared with runs in which only the rest is published to. Of these there are two in each round, so that the
//! difference between two runs that should not differ is known too: a ratio within it is no finding. The three
//! take turns, each round begins with another one, and ratios are taken within a round.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::delivering;
use crate::ground::{Ground, Queue};
use crate::numbers::{Spread, aside, p50_p99_ms, rounds, row};
use crate::receiver::Receiver;
use crate::support::servers::scratch_directory;

const ENDPOINTS: usize = 100;
/// Messages to each endpoint in a round.
const MESSAGES: usize = 40;
/// Between two messages to one endpoint.
const BETWEEN: Duration = Duration::from_millis(250);
const BOUND: Duration = Duration::from_secs(60);

struct Case {
    name: &'static str,
    dead: usize,
    silent: usize,
    goal: &'static str,
}

pub async fn run() {
    for case in [
        Case {
            name: "1 dead and 1 silent of 100",
            dead: 1,
            silent: 1,
            goal: "1.1",
        },
        Case {
            name: "40 silent of 100",
            dead: 0,
            silent: 40,
            goal: "1.5",
        },
    ] {
        measure(&case).await;
    }
}

/// The turns of a round: twice without the bad ones, once with them.
const TURNS: [&str; 3] = ["without", "without again", "with"];

async fn measure(case: &Case) {
    let mut p99s: [Vec<f64>; 3] = Default::default();
    let mut p50s: [Vec<f64>; 3] = Default::default();
    for round in 0..rounds() {
        for turn in 0..TURNS.len() {
            let turn = (round + turn) % TURNS.len();
            let latencies = one_round(case, TURNS[turn] == "with").await;
            let (p50, p99) = p50_p99_ms(&latencies);
            aside(&format!(
                "{}, {}: p50 {p50:.1} ms, p99 {p99:.1} ms of {} requests",
                case.name,
                TURNS[turn],
                latencies.len()
            ));
            p50s[turn].push(p50);
            p99s[turn].push(p99);
        }
    }
    // Against the mean of the two beside it.
    let without: Vec<f64> = p99s[0]
        .iter()
        .zip(&p99s[1])
        .map(|(a, b)| f64::midpoint(*a, *b))
        .collect();
    let measured = format!(
        "{}; two runs without them: {}; p99 {:.1} ms of {:.1} ms, p50 {:.1} ms of {:.1} ms",
        Spread::of_ratios(&p99s[2], &without),
        Spread::of_ratios(&p99s[1], &p99s[0]),
        Spread::of(&p99s[2]).median,
        Spread::of(&without).median,
        Spread::of(&p50s[2]).median,
        Spread::of(&p50s[0]).median,
    );
    let what = format!("{}: the others' p99, of a run without them", case.name);
    row(&what, &measured, case.goal);
}

/// The latencies of the others.
async fn one_round(case: &Case, with: bool) -> Vec<u64> {
    let (receiver, directory, ground) = (Receiver::start().await, scratch_directory(), Ground::prepare().await);
    let store = directory.path().join("redrive.db").to_str().unwrap().to_owned();
    let bad = case.dead + case.silent;
    let url = |n: usize| match n {
        // The discard port: nobody listens.
        n if n < case.dead => format!("http://127.0.0.1:9/{n}"),
        n if n < bad => receiver.url(&format!("never/{n}")),
        n => receiver.url(&format!("endpoint/{n}")),
    };
    let queues = ground.queues(ENDPOINTS, url);
    ground.create(&queues, &[&store]).await;
    let daemon = delivering::start(&ground.naming.vhost, &store, 1).await;
    let others = ENDPOINTS - bad;
    // Once over all of them before it counts: every connection and every worker is there.
    ground.fill(&queues[if with { 0 } else { bad }..], 2).await;
    ground.nudge(&queues).await;
    receiver.wait_for(others * 2, BOUND).await;
    receiver.reset().await;
    let used = &queues[if with { 0 } else { bad }..];
    publish_steadily(&ground, used).await;
    receiver.wait_for(others * MESSAGES, BOUND).await;
    let seen = receiver.seen().await;
    assert_eq!(seen.count, others * MESSAGES);
    // Its silent requests would be waited for; the virtual host goes with it.
    drop(daemon);
    receiver.finish().await;
    seen.latencies_us
}

/// Spread evenly, so that what waits waits for the engine and not for its turn in a burst.
async fn publish_steadily(ground: &Ground, queues: &[Queue]) {
    let start = Instant::now();
    let step = BETWEEN / u32::try_from(queues.len()).unwrap();
    for n in 0..MESSAGES * queues.len() {
        sleep_until(start + step * u32::try_from(n).unwrap()).await;
        let (broker, queue) = (ground.broker.clone(), queues[n % queues.len()].clone());
        tokio::spawn(async move {
            broker.publish(&queue.name, &queue.message()).await.unwrap();
            broker.nudge(&queue.name).await;
        });
    }
}
