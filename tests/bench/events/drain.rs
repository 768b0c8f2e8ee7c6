//! Draining 20,000 events, against the peer, and under a snapshot that somebody holds.

use sqlx::{Connection, Executor, PgConnection};

use super::{Place, fill, side};
use crate::numbers::{Spread, aside, rounds, row};

const EVENTS: usize = 20_000;
/// Milliseconds of work ahead of the processor as it is.
const AHEAD_MS: u64 = 100;

pub async fn run() {
    let place = Place::postgres().await;
    one_at_a_time(&place).await;
    in_batches(&place).await;
    sqlite().await;
}

async fn one_at_a_time(place: &Place) {
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..rounds() {
        ours.push(drained(place, 10, 0).await);
        peers.extend(peer(place, 10, "default").await);
        aside(&format!(
            "one at a time: {:.0}/s, peer {:.0?}/s",
            ours.last().unwrap(),
            peers.last()
        ));
    }
    show("20,000 events, one at a time, 10 at once", &ours, &peers, "1.20");
}

async fn in_batches(place: &Place) {
    let (mut ours, mut peers, mut held) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds() {
        ours.push(drained(place, 24, AHEAD_MS).await);
        peers.extend(peer(place, 24, "batched").await);
        held.push(drained_under_snapshot(place, 24).await);
        aside(&format!(
            "in batches: {:.0}/s, peer {:.0?}/s, under a held snapshot {:.0}/s",
            ours.last().unwrap(),
            peers.last(),
            held.last().unwrap()
        ));
    }
    show("20,000 events in batches, 24 at once", &ours, &peers, "1.30");
    row(
        "the same under a held snapshot, of without",
        &Spread::of_ratios(&held, &ours).to_string(),
        "0.65",
    );
}

async fn sqlite() {
    let mut ours = Vec::new();
    for _ in 0..rounds() {
        let place = Place::sqlite();
        ours.push(drained(&place, 24, AHEAD_MS).await);
    }
    row(
        "20,000 events in batches, SQLite",
        &format!("{}/s", Spread::of(&ours)),
        "",
    );
}

fn show(what: &str, ours: &[f64], peers: &[f64], goal: &str) {
    row(what, &format!("{}/s", Spread::of(ours)), "");
    if peers.len() == ours.len() {
        row("graphile-worker, the same", &format!("{}/s", Spread::of(peers)), "");
        row("ratio", &Spread::of_ratios(ours, peers).to_string(), goal);
    }
}

/// Events a second.
async fn drained(place: &Place, workers: usize, ahead_ms: u64) -> f64 {
    let store = place.store().await;
    fill(&store, 0, EVENTS).await;
    analyze(place).await;
    drain(place, workers, ahead_ms).await
}

async fn drain(place: &Place, workers: usize, ahead_ms: u64) -> f64 {
    let mut side = side::start(&place.address(), workers, ahead_ms);
    side.tell("drain").await;
    let seconds: f64 = side.line().await.parse().unwrap();
    side.finish().await;
    let store = place.store().await;
    assert_eq!(store.events_counts().await.unwrap(), Vec::new(), "all were handled");
    store.close().await;
    EVENTS as f64 / seconds
}

/// The snapshot is taken when the events are there and none is handled yet.
async fn drained_under_snapshot(place: &Place, workers: usize) -> f64 {
    let store = place.store().await;
    fill(&store, 0, EVENTS).await;
    analyze(place).await;
    let mut holder = PgConnection::connect(&place.address()).await.unwrap();
    holder
        .execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM redrive.events")
        .await
        .unwrap();
    let rate = drain(place, workers, AHEAD_MS).await;
    holder.close().await.unwrap();
    rate
}

async fn analyze(place: &Place) {
    if let Place::Postgres(database) = place {
        let mut connection = PgConnection::connect(&database.url()).await.unwrap();
        connection.execute("VACUUM ANALYZE redrive.events").await.unwrap();
        connection.close().await.unwrap();
    }
}

/// Jobs a second of the peer, where it is there.
async fn peer(place: &Place, at_once: usize, mode: &str) -> Option<f64> {
    let packages = std::env::var_os("REDRIVE_BENCH_PEER")?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/peer/graphile_worker.js");
    let output = tokio::process::Command::new("node")
        .arg(script)
        .args([&place.address(), &EVENTS.to_string(), &at_once.to_string(), mode])
        .env("NODE_PATH", packages)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let line: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
    line["per_second"].as_f64()
}
