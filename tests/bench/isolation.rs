//! Whether dead and silent endpoints delay the others: 100 endpoints with a queue each and a steady stream,
//! some of them dead (nothing listens) or silent (no answer), and the publish-to-request time of the rest.
//!
//! Compared with runs in which only the rest is published to. The two take turns; the ratio is of the p99
//! over all rounds of each, because one round's is that of a few requests.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::delivering;
use crate::ground::{Ground, Queue};
use crate::numbers::{load, p50_p99_ms, rounds};
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
    goal: f64,
}

pub async fn run() {
    for case in [
        Case {
            name: "1 dead and 1 silent of 100",
            dead: 1,
            silent: 1,
            goal: 1.1,
        },
        Case {
            name: "40 silent of 100",
            dead: 0,
            silent: 40,
            goal: 1.5,
        },
    ] {
        measure(&case).await;
    }
}

async fn measure(case: &Case) {
    let mut latencies: [Vec<u64>; 2] = Default::default();
    for round in 0..rounds() {
        for turn in 0..2 {
            let with = (round + turn) % 2 == 1;
            latencies[usize::from(with)].extend(one_round(case, with).await);
        }
    }
    let [(p50_without, p99_without), (p50_with, p99_with)] = latencies.each_ref().map(|all| p50_p99_ms(all));
    println!(
        "{} | the others without them | p50 {p50_without:.1} ms, p99 {p99_without:.1} ms | load {}",
        case.name,
        load()
    );
    println!(
        "{} | the others with them | p50 {p50_with:.1} ms, p99 {p99_with:.1} ms | ratio of p99 {:.2}, goal {}",
        case.name,
        p99_with / p99_without,
        case.goal
    );
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
    let queue = |n: usize| Queue::new(&ground.naming, &format!("run-{n}"), &url(n));
    let queues: Vec<Queue> = (0..ENDPOINTS).map(queue).collect();
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
