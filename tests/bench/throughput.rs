//! Deliveries a second of the engine against a bare loop, on queues that are full before either begins.
//!
//! The time is from the first request at the receiver to the last one; afterwards every queue is found
//! empty, so every ack was sent within moments of its request. The sides take turns, each round begins with
//! another one, and the ratio is taken within a round.

use std::time::Duration;

use tempfile::TempDir;

use crate::delivering;
use crate::ground::{Ground, Queue};
use crate::numbers::{Spread, load, rounds};
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

pub async fn many_queues() {
    for one_url in [false, true] {
        let name = if one_url {
            "100 queues x 200, one URL"
        } else {
            "100 queues x 200"
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
        name: "one queue x 5,000",
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
        let mut rates: [Vec<f64>; 3] = Default::default();
        for round in 0..rounds() {
            for turn in 0..3 {
                let side = (round + turn) % 3;
                ground.fill(&queues, work.messages).await;
                receiver.reset().await;
                let rate = match side {
                    0 => bare(&ground, &queues, &receiver, work, prefetch).await,
                    store => engine(&ground, &queues, &receiver, work, prefetch, addresses[store - 1]).await,
                };
                rates[side].push(rate);
            }
        }
        print(work, prefetch, &stores, &rates);
    }
    receiver.finish().await;
}

fn print(work: &Work, prefetch: u16, stores: &Stores, rates: &[Vec<f64>; 3]) {
    let about = format!("{}, prefetch {prefetch}", work.name);
    println!("{about} | bare loop | {}/s | load {}", Spread::of(&rates[0]), load());
    for (store, engine) in rates[1..].iter().enumerate() {
        let ratios: Vec<f64> = engine
            .iter()
            .zip(&rates[0])
            .map(|(engine, bare)| engine / bare)
            .collect();
        println!(
            "{about} | engine, {} | {}/s | of bare {} | goal 0.90",
            stores.addresses[store].0,
            Spread::of(engine),
            Spread::of(&ratios)
        );
    }
}

async fn bare(ground: &Ground, queues: &[Queue], receiver: &Receiver, work: &Work, prefetch: u16) -> f64 {
    let mut side = Side::start("bare", &[ground.vhost.amqp(), prefetch.to_string()]);
    for queue in queues {
        side.tell(&format!("{} {}", queue.name.as_str(), queue.url.as_str()))
            .await;
    }
    side.tell("go").await;
    assert_eq!(side.line().await, "ready");
    rate(side, ground, queues, receiver, work).await
}

async fn engine(
    ground: &Ground,
    queues: &[Queue],
    receiver: &Receiver,
    work: &Work,
    prefetch: u16,
    store: &str,
) -> f64 {
    // As their publishers did: the statistics of the broker are behind by some seconds.
    ground.nudge(queues).await;
    let side = delivering::start(&ground.naming.vhost, store, prefetch).await;
    rate(side, ground, queues, receiver, work).await
}

async fn rate(side: Side, ground: &Ground, queues: &[Queue], receiver: &Receiver, work: &Work) -> f64 {
    let count = work.queues * work.messages;
    receiver.wait_for(count, BOUND).await;
    side.finish().await;
    ground.assert_empty(queues).await;
    let seen = receiver.seen().await;
    assert_eq!(seen.count, count, "something was delivered twice");
    count as f64 / ((seen.last_us - seen.first_us) as f64 / 1_000_000.0)
}
