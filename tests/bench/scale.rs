//! What a message costs among ever more queues, and what a daemon with 100,000 queues needs.
//!
//! Ten messages wait in each of 100, 1,000, 10,000 and 100,000 queues of 100 URLs when the daemon starts. The first
//! delivery is timed from the start of its process; the processor time is that of its process from the start until
//! everything is delivered; the memory is the most that was resident until then. Of the largest, and once it has been
//! looked at for two minutes with nothing to do, the idle processor time too. `scale:N` measures N queues alone.

use std::time::{Duration, Instant};

use crate::delivering;
use crate::ground::Ground;
use crate::numbers::{aside, row};
use crate::receiver::Receiver;
use crate::support::servers::{Database, scratch_directory};

const SIZES: [usize; 4] = [100, 1_000, 10_000, 100_000];
const MESSAGES: usize = 10;
const BOUND: Duration = Duration::from_mins(20);
/// The broker's statistics are behind by some seconds, and what they do not show is found by a later sweep.
const SHOWN: Duration = Duration::from_secs(15);
/// From the end of the work on: queues are let go, first looks at their arguments are over.
const SETTLE: Duration = Duration::from_secs(60);
const IDLE: Duration = Duration::from_secs(120);

/// What one size came to.
struct Cost {
    queues: usize,
    processor_us: f64,
}

pub async fn run(parts: &[String]) {
    let sizes: Vec<usize> = if parts.is_empty() {
        SIZES.to_vec()
    } else {
        parts
            .iter()
            .map(|part| part.parse().expect("scale:N, a number"))
            .collect()
    };
    for is_postgres in [false, true] {
        let mut costs = Vec::new();
        for queues in &sizes {
            costs.push(measure(*queues, is_postgres).await);
        }
        let least = costs.iter().map(|cost| cost.processor_us).fold(f64::INFINITY, f64::min);
        let curve: Vec<String> = costs
            .iter()
            .map(|cost| {
                format!(
                    "{}: {:.0} µs ({:.2})",
                    cost.queues,
                    cost.processor_us,
                    cost.processor_us / least
                )
            })
            .collect();
        row(
            &format!("processor a message by number of queues, {}", store_name(is_postgres)),
            &curve.join(", "),
            "flat within 1.3",
        );
    }
}

const fn store_name(is_postgres: bool) -> &'static str {
    if is_postgres { "PostgreSQL" } else { "SQLite" }
}

async fn measure(count: usize, is_postgres: bool) -> Cost {
    let (receiver, ground) = (Receiver::start().await, Ground::prepare_for(count).await);
    let directory = scratch_directory();
    let database = if is_postgres {
        Some(Database::create().await)
    } else {
        None
    };
    let store = database.as_ref().map_or_else(
        || directory.path().join("redrive.db").to_str().unwrap().to_owned(),
        Database::url,
    );
    let queues = ground.queues(count, |n| receiver.url(&format!("endpoint/{}", n % 100)));
    let began = Instant::now();
    ground.create(&queues, &[&store]).await;
    ground.fill(&queues, MESSAGES).await;
    aside(&format!(
        "{count} queues made and filled in {:.0} s",
        began.elapsed().as_secs_f64()
    ));
    tokio::time::sleep(SHOWN).await;
    receiver.reset().await;
    let what = |what: &str| format!("{count} queues × {MESSAGES}, {}: {what}", store_name(is_postgres));
    let began_us = crate::receiver::time_us();
    let side = delivering::start(&ground.naming.vhost, &store, 1).await;
    receiver.wait_for(count * MESSAGES, BOUND).await;
    let seen = receiver.seen().await;
    let processor_us = side.processor_seconds() * 1_000_000.0 / (count * MESSAGES) as f64;
    row(
        &what("first delivery after the start / all / most memory"),
        &format!(
            "{:.1} s / {:.1} s ({:.0}/s) / {} MiB",
            (seen.first_us - began_us) as f64 / 1_000_000.0,
            (seen.last_us - began_us) as f64 / 1_000_000.0,
            (count * MESSAGES) as f64 / ((seen.last_us - seen.first_us) as f64 / 1_000_000.0),
            side.resident_most_mib()
        ),
        "10 s / – / 300 MiB",
    );
    if count > 10_000 {
        tokio::time::sleep(SETTLE).await;
        let (used, began) = (side.processor_seconds(), Instant::now());
        tokio::time::sleep(IDLE).await;
        let idle = (side.processor_seconds() - used) / began.elapsed().as_secs_f64();
        row(
            &what("idle processor / memory"),
            &format!(
                "{:.1} % of a core / {} MiB",
                idle * 100.0,
                side.resident_bytes() / (1 << 20)
            ),
            "3 % / 300 MiB",
        );
    }
    side.finish().await;
    receiver.finish().await;
    Cost {
        queues: count,
        processor_us,
    }
}
