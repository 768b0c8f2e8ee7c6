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
use crate::reference;
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

const PREFETCHES: [u16; 2] = [1, 32];

pub async fn many_queues() {
    for one_url in [false, true] {
        let name = if one_url {
            "100 queues × 200, one URL"
        } else {
            "100 queues × 200"
        };
        let work = Work {
            name,
            queues: 100,
            messages: 200,
            one_url,
        };
        print(&measure(&work, &PREFETCHES, rounds()).await);
    }
}

/// A look of a minute or so: each ratio beside the one that was measured last on a machine by itself.
pub async fn quick() {
    let mut ratios = Vec::new();
    for (name, one_url, prefetches) in [
        ("100 queues × 100", false, &PREFETCHES[..]),
        ("100 queues × 100, one URL", true, &PREFETCHES[..1]),
    ] {
        let work = Work {
            name,
            queues: 100,
            messages: 100,
            one_url,
        };
        ratios.extend(measure(&work, prefetches, 1).await);
    }
    reference::compare(&ratios);
}

pub async fn one_queue() {
    let work = Work {
        name: "one queue × 5,000",
        queues: 1,
        messages: 5_000,
        one_url: true,
    };
    print(&measure(&work, &PREFETCHES, rounds()).await);
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

/// A virtual host with its queues: a store has one of its own, as none delivers from another's.
struct Place {
    ground: Ground,
    queues: Vec<Queue>,
}

impl Place {
    async fn make(work: &Work, receiver: &Receiver, store: &str) -> Self {
        let ground = Ground::prepare().await;
        let queues = ground.queues(work.queues, |n| {
            let path = if work.one_url {
                "all".to_owned()
            } else {
                format!("endpoint/{n}")
            };
            receiver.url(&path)
        });
        ground.create(&queues, &[store]).await;
        Self { ground, queues }
    }
}

async fn measure(work: &Work, prefetches: &[u16], rounds: usize) -> Vec<Ratio> {
    let (receiver, stores) = (Receiver::start().await, Stores::make().await);
    let mut places = Vec::new();
    for (_, address) in &stores.addresses {
        places.push(Place::make(work, &receiver, address).await);
    }
    let mut ratios = Vec::new();
    for prefetch in prefetches {
        let mut ran: [Vec<Ran>; SIDES] = Default::default();
        for round in 0..rounds {
            for turn in 0..SIDES {
                let side = (round + turn) % SIDES;
                let at = side.saturating_sub(LOOPS.len());
                let place = &places[at];
                place.ground.fill(&place.queues, work.messages).await;
                receiver.reset().await;
                let (one, name) = if let Some(name) = LOOPS.get(side) {
                    (bare(place, &receiver, work, *prefetch, name).await, *name)
                } else {
                    let (name, address) = &stores.addresses[at];
                    (engine(place, &receiver, work, *prefetch, address).await, *name)
                };
                aside(&format!(
                    "{}, prefetch {prefetch}, {name}: {:.0}/s, {:.0} µs, longest gap {:.0} ms",
                    work.name, one.per_second, one.processor_us, one.gap_ms
                ));
                ran[side].push(one);
            }
        }
        ratios.extend(ratios_of(work, *prefetch, &stores, &ran));
    }
    receiver.finish().await;
    ratios
}

/// The engine beside one of the loops.
pub struct Ratio {
    pub what: String,
    pub spread: Spread,
    /// Messages a second, and microseconds of processor a message: the engine's and the loop's.
    rates: [f64; 2],
    processor_us: [f64; 2],
    goal: &'static str,
}

fn ratios_of(work: &Work, prefetch: u16, stores: &Stores, ran: &[Vec<Ran>; SIDES]) -> Vec<Ratio> {
    let rates = |side: usize| ran[side].iter().map(|ran| ran.per_second).collect::<Vec<_>>();
    let processor = |side: usize| ran[side].iter().map(|ran| ran.processor_us).collect::<Vec<_>>();
    let mut ratios = Vec::new();
    for (at, (store, _)) in stores.addresses.iter().enumerate() {
        let side = LOOPS.len() + at;
        for (other, (name, goal)) in LOOPS.iter().zip(work.goals()).enumerate() {
            ratios.push(Ratio {
                what: format!("{}, prefetch {prefetch}, {store}: of the {name} loop", work.name),
                spread: Spread::of_ratios(&rates(side), &rates(other)),
                rates: [side, other].map(|side| Spread::of(&rates(side)).median),
                processor_us: [side, other].map(|side| Spread::of(&processor(side)).median),
                goal,
            });
        }
    }
    ratios
}

fn print(ratios: &[Ratio]) {
    for one in ratios {
        let ([rate, rate_of], [processor, processor_of]) = (one.rates, one.processor_us);
        let measured = format!(
            "{}; {rate:.0}/s of {rate_of:.0}/s; processor {processor:.0} µs of {processor_of:.0} µs a message",
            one.spread
        );
        row(&one.what, &measured, one.goal);
    }
}

async fn bare(place: &Place, receiver: &Receiver, work: &Work, prefetch: u16, name: &str) -> Ran {
    let in_flight = work.in_flight().to_string();
    let mut side = Side::start(name, &[place.ground.vhost.amqp(), prefetch.to_string(), in_flight]);
    for queue in &place.queues {
        side.tell(&format!("{} {}", queue.name.as_str(), queue.url.as_str()))
            .await;
    }
    side.tell("go").await;
    assert_eq!(side.line().await, "ready");
    watch(side, place, receiver, work).await
}

async fn engine(place: &Place, receiver: &Receiver, work: &Work, prefetch: u16, store: &str) -> Ran {
    // As their publishers did: the statistics of the broker are behind by some seconds.
    place.ground.nudge(&place.queues).await;
    let side = delivering::start(&place.ground.naming.vhost, store, prefetch).await;
    watch(side, place, receiver, work).await
}

async fn watch(side: Side, place: &Place, receiver: &Receiver, work: &Work) -> Ran {
    let count = work.queues * work.messages;
    receiver.wait_for(count, BOUND).await;
    let processor_us = side.processor_seconds() * 1_000_000.0 / count as f64;
    side.finish().await;
    place.ground.assert_empty(&place.queues).await;
    let seen = receiver.seen().await;
    assert_eq!(seen.count, count, "something was delivered twice");
    Ran {
        per_second: count as f64 / ((seen.last_us - seen.first_us) as f64 / 1_000_000.0),
        processor_us,
        gap_ms: seen.gap_us as f64 / 1000.0,
    }
}
