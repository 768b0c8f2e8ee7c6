//! Deliveries a second of the engine against two loops with nothing around them (`bare.rs`), on queues that are full before either begins.
//!
//! The time is from the first request at the receiver to the last one; afterwards every queue is found
//! empty, so every ack was sent within moments of its request. The sides take turns, each round begins with
//! another one, and the ratio is taken within a round. The processor time is that of the side's own process, from
//! its start on: it depends less on what else the machine does than the rate, but it does depend on it.

use std::time::Duration;

use tempfile::TempDir;

use crate::delivering;
use crate::ground::{self, Ground, Queue};
use crate::numbers::{Spread, aside, rounds, row};
use crate::process::Side;
use crate::receiver::Receiver;
use crate::support::servers::{Database, scratch_directory};

const BOUND: Duration = Duration::from_secs(120);

/// What is to be delivered.
struct Work {
    name: &'static str,
    queues: usize,
    messages: usize,
    /// All queues lead to one URL.
    one_url: bool,
}

impl Work {
    /// Requests in flight at most, as the engine bounds them.
    fn in_flight(&self) -> usize {
        let settings = ground::engine_settings(ground::naming("any"), 1);
        if self.one_url {
            settings.in_flight_per_endpoint
        } else {
            settings.workers
        }
    }

    /// The goals against each loop.
    fn goals(&self) -> [&'static str; LOOPS.len()] {
        if self.queues > 1 && self.one_url {
            ["0.95", "0.85"]
        } else {
            ["1.0", "0.90"]
        }
    }
}

/// What the engine is measured against, by the names of `bare.rs`.
const LOOPS: [&str; 2] = ["bare", "light"];
/// The loops and the engine over each of its stores.
const SIDES: usize = LOOPS.len() + 2;

pub async fn many_queues() {
    for one_url in [false, true] {
        let name = if one_url {
            "100 queues × 200, one URL"
        } else {
            "100 queues × 200"
        };
        measure(&Work {
            name,
            queues: 100,
            messages: 200,
            one_url,
        })
        .await;
    }
}

pub async fn one_queue() {
    measure(&Work {
        name: "one queue × 5,000",
        queues: 1,
        messages: 5_000,
        one_url: true,
    })
    .await;
}

/// The two stores, kept over the rounds.
struct Stores {
    _directory: TempDir,
    _database: Database,
    addresses: [(&'static str, String); 2],
}

impl Stores {
    async fn make() -> Self {
        let (directory, database) = (scratch_directory(), Database::create().await);
        let sqlite = directory.path().join("redrive.db").to_str().unwrap().to_owned();
        Self {
            addresses: [("SQLite", sqlite), ("PostgreSQL", database.url())],
            _directory: directory,
            _database: database,
        }
    }
}

/// What one run of one side came to.
#[derive(Clone, Copy)]
struct Ran {
    per_second: f64,
    /// Of its own process, in microseconds per message.
    processor_us: f64,
    /// The longest time without a request.
    gap_ms: f64,
}

async fn measure(work: &Work) {
    let (receiver, stores) = (Receiver::start().await, Stores::make().await);
    let ground = Ground::prepare().await;
    let queue = |n: usize| {
        let path = if work.one_url {
            "all".to_owned()
        } else {
            format!("endpoint/{n}")
        };
        Queue::new(&ground.naming, &format!("run-{n}"), &receiver.url(&path))
    };
    let queues: Vec<Queue> = (0..work.queues).map(queue).collect();
    let addresses = stores.addresses.each_ref().map(|(_, address)| address.as_str());
    ground.create(&queues, &addresses).await;
    for prefetch in [1, 32] {
        let mut ran: [Vec<Ran>; SIDES] = Default::default();
        for round in 0..rounds() {
            for turn in 0..SIDES {
                let side = (round + turn) % SIDES;
                ground.fill(&queues, work.messages).await;
                receiver.reset().await;
                let (one, name) = if let Some(name) = LOOPS.get(side) {
                    (bare(&ground, &queues, &receiver, work, prefetch, name).await, *name)
                } else {
                    let (name, address) = &stores.addresses[side - LOOPS.len()];
                    (
                        engine(&ground, &queues, &receiver, work, prefetch, address).await,
                        *name,
                    )
                };
                aside(&format!(
                    "{}, prefetch {prefetch}, {name}: {:.0}/s, {:.0} µs, longest gap {:.0} ms",
                    work.name, one.per_second, one.processor_us, one.gap_ms
                ));
                ran[side].push(one);
            }
        }
        print(work, prefetch, &stores, &ran);
    }
    receiver.finish().await;
}

fn print(work: &Work, prefetch: u16, stores: &Stores, ran: &[Vec<Ran>; SIDES]) {
    let rates = |side: usize| ran[side].iter().map(|ran| ran.per_second).collect::<Vec<_>>();
    let processor = |side: usize| ran[side].iter().map(|ran| ran.processor_us).collect::<Vec<_>>();
    for (at, (store, _)) in stores.addresses.iter().enumerate() {
        let side = LOOPS.len() + at;
        for (other, (name, goal)) in LOOPS.iter().zip(work.goals()).enumerate() {
            let measured = format!(
                "{}; {:.0}/s of {:.0}/s; processor {:.0} µs of {:.0} µs a message",
                Spread::of_ratios(&rates(side), &rates(other)),
                Spread::of(&rates(side)).median,
                Spread::of(&rates(other)).median,
                Spread::of(&processor(side)).median,
                Spread::of(&processor(other)).median,
            );
            let what = format!("{}, prefetch {prefetch}, {store}: of the {name} loop", work.name);
            row(&what, &measured, goal);
        }
    }
}

async fn bare(ground: &Ground, queues: &[Queue], receiver: &Receiver, work: &Work, prefetch: u16, name: &str) -> Ran {
    let in_flight = work.in_flight().to_string();
    let mut side = Side::start(name, &[ground.vhost.amqp(), prefetch.to_string(), in_flight]);
    for queue in queues {
        side.tell(&format!("{} {}", queue.name.as_str(), queue.url.as_str()))
            .await;
    }
    side.tell("go").await;
    assert_eq!(side.line().await, "ready");
    watch(side, ground, queues, receiver, work).await
}

async fn engine(
    ground: &Ground,
    queues: &[Queue],
    receiver: &Receiver,
    work: &Work,
    prefetch: u16,
    store: &str,
) -> Ran {
    // As their publishers did: the statistics of the broker are behind by some seconds.
    ground.nudge(queues).await;
    let side = delivering::start(&ground.naming.vhost, store, prefetch).await;
    watch(side, ground, queues, receiver, work).await
}

async fn watch(side: Side, ground: &Ground, queues: &[Queue], receiver: &Receiver, work: &Work) -> Ran {
    let count = work.queues * work.messages;
    receiver.wait_for(count, BOUND).await;
    let processor_us = side.processor_seconds() * 1_000_000.0 / count as f64;
    side.finish().await;
    ground.assert_empty(queues).await;
    let seen = receiver.seen().await;
    assert_eq!(seen.count, count, "something was delivered twice");
    Ran {
        per_second: count as f64 / ((seen.last_us - seen.first_us) as f64 / 1_000_000.0),
        processor_us,
        gap_ms: seen.gap_us as f64 / 1000.0,
    }
}
