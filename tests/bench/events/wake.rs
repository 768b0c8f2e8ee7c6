//! From a push to the start of its handler, in one process and across two; and what it costs the pushers.

use std::collections::BTreeMap;

use redrive::internals::domain::event::NewEvent;
use redrive::internals::domain::time::Timestamp;

use super::{Place, push, side};
use crate::numbers::{Spread, aside, p50_p99_ms, rounds, row};
use crate::process::Side;
use crate::support::servers::scratch_directory;

const EVENTS: usize = 200;
/// Between two pushes, so that each finds a processor that sleeps.
const EVERY_MS: u64 = 20;

pub async fn run() {
    for (name, place) in [("PostgreSQL", Place::postgres().await), ("SQLite", Place::sqlite())] {
        let mut side = side::start(&place.address(), 8, 100);
        side.tell("listen").await;
        assert_eq!(side.line().await, "ready");
        let scratch = scratch_directory();
        let pusher = side::engine(&place.address(), 8, 100, scratch.path()).await;
        let (mut within, mut across) = (Vec::new(), Vec::new());
        for _ in 0..rounds() {
            side.tell(&format!("push {EVENTS} {EVERY_MS}")).await;
            let begun = side.line().await;
            within.push(p50_p99_ms(&latencies(&mut side, &begun).await));
            let begun = side::push_slowly(&pusher, EVENTS, EVERY_MS).await;
            across.push(p50_p99_ms(&latencies(&mut side, &begun).await));
            aside(&format!(
                "{name}: within {:.2?} ms, across {:.2?} ms",
                within.last().unwrap(),
                across.last().unwrap()
            ));
        }
        show(&format!("push to start of handler, {name}, p50 (p99) ms"), &within);
        show(&format!("the same across processes, {name}, p50 (p99) ms"), &across);
        pusher.close().await;
        side.finish().await;
    }
    throughput().await;
}

fn show(what: &str, rounds: &[(f64, f64)]) {
    let of = |pick: fn(&(f64, f64)) -> f64| Spread::of(&rounds.iter().map(pick).collect::<Vec<_>>());
    row(
        what,
        &format!("{} ({})", of(|(p50, _)| *p50), of(|(_, p99)| *p99)),
        "5 ms",
    );
}

async fn latencies(side: &mut Side, begun: &str) -> Vec<u64> {
    let begun: BTreeMap<String, u64> = serde_json::from_str(begun).unwrap();
    let mut started: BTreeMap<String, u64> = BTreeMap::new();
    while started.len() < begun.len() {
        side.tell("stamps").await;
        let stamped: BTreeMap<String, u64> = serde_json::from_str(&side.line().await).unwrap();
        started.extend(stamped);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    begun.iter().map(|(reference, at)| started[reference] - at).collect()
}

/// The pushes of this process while nobody listens, and while another process is woken by them. They are not due
/// yet: what is measured is the waking, not the handling.
async fn throughput() {
    let place = Place::postgres().await;
    let store = place.store().await;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..rounds() {
        without.push(push::rate(&store, 16, 1, later).await);
        let mut side = side::start(&place.address(), 8, 100);
        side.tell("listen").await;
        assert_eq!(side.line().await, "ready");
        with.push(push::rate(&store, 16, 1, later).await);
        side.finish().await;
        aside(&format!(
            "pushes without {:.0}/s and with wake-ups {:.0}/s",
            without.last().unwrap(),
            with.last().unwrap()
        ));
    }
    row(
        "pushes while a process is woken by them, of without",
        &Spread::of_ratios(&with, &without).to_string(),
        "0.90",
    );
    store.close().await;
}

fn later(number: usize) -> NewEvent {
    NewEvent {
        nbf: Some(Timestamp::from_seconds(4_000_000_000)),
        ..super::event(number)
    }
}
