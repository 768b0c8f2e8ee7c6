//! Pushing: one event a call and a batch a call, by several at once, answered after the durable commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redrive::internals::domain::event::NewEvent;
use redrive::internals::store::{EventBatch, StoreHandle};
use tokio::task::JoinSet;

use super::{Place, event, fill};
use crate::numbers::{Spread, aside, rounds, row};

/// Keys that are pushed to.
const KEYS: usize = 10_000;
/// How long each measurement takes.
const SPAN: Duration = Duration::from_secs(4);

pub async fn run() {
    let postgres = Place::postgres().await;
    let store = postgres.store().await;
    fill(&store, 0, KEYS).await;
    let measures = [
        ("PostgreSQL, one event a push, 16 pushers", 16, 1, "2500/s"),
        ("PostgreSQL, one event a push, 64 pushers", 64, 1, "2500/s"),
        ("PostgreSQL, 500 events a push, 2 pushers", 2, 500, "25000/s"),
    ];
    for (what, pushers, size, goal) in measures {
        measure(&store, what, pushers, size, goal).await;
    }
    store.close().await;
    let sqlite = Place::sqlite();
    let store = sqlite.store().await;
    fill(&store, 0, KEYS).await;
    measure(&store, "SQLite (FULL), one event a push, 64 pushers", 64, 1, "16000/s").await;
    store.close().await;
}

async fn measure(store: &StoreHandle, what: &str, pushers: usize, size: usize, goal: &str) {
    let mut rates = Vec::new();
    for _ in 0..rounds() {
        rates.push(rate(store, pushers, size, event).await);
        aside(&format!("{what}: {:.0}/s", rates.last().unwrap()));
    }
    row(what, &format!("{}/s", Spread::of(&rates)), goal);
}

/// Events a second.
pub async fn rate(store: &StoreHandle, pushers: usize, size: usize, event: fn(usize) -> NewEvent) -> f64 {
    let pushed = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for pusher in 0..pushers {
        let (store, pushed) = (Arc::clone(store), Arc::clone(&pushed));
        tasks.spawn(async move {
            let mut next = pusher * KEYS / pushers;
            while begun.elapsed() < SPAN {
                let numbers = (next..next + size).map(|number| number * 7919 % KEYS);
                let batch = EventBatch {
                    events: numbers.map(event).collect(),
                    ..EventBatch::default()
                };
                store.events_push(&batch).await.unwrap();
                pushed.fetch_add(size, Ordering::Relaxed);
                next += size;
            }
        });
    }
    tasks.join_all().await;
    pushed.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}
