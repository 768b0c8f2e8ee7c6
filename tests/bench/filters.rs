//! Whether the worst filters of eight clients hold up what a daemon is for: `/healthz`, deliveries, its heartbeat.
//!
//! Sixty queues have URLs of 8 kB, of which a regular expression takes long. Eight clients ask for queues, dead letters
//! and events with it, again and again; meanwhile `/healthz` is asked each 20 ms, small messages are delivered as they
//! were before, and the counter of the heartbeat is read from the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;

use crate::numbers::{aside, row, share};
use crate::program::Program;
use crate::receiver::Receiver;

const QUEUES: usize = 60;
const CLIENTS: usize = 8;
const SMALL: usize = 1_000;
const URL_BYTES: usize = 8_000;
/// As dear as one can be: a larger one is refused before it is asked of anything.
const WORST: &str = "/([a-j]{1,40}){1,40}[^ -~]/";
const HEALTH_BETWEEN: Duration = Duration::from_millis(20);

pub async fn run() {
    let receiver = Receiver::start().await;
    let program = Arc::new(Program::start("", None).await);
    let path: String = "abcdefghij".chars().cycle().take(URL_BYTES).collect();
    for number in 0..QUEUES {
        let url = format!("http://127.0.0.1:9/{number}/{path}");
        assert_eq!(program.publish(&format!("long-{number}"), &url, "x").await, Some(202));
    }
    let alone = program.small_p99_ms(&receiver, SMALL).await;
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(ask(Arc::clone(&program), Arc::clone(&stop), number)))
        .collect();
    let health = tokio::spawn(health(Arc::clone(&program), Arc::clone(&stop)));
    let beats = tokio::spawn(beats(program.store(), Arc::clone(&stop)));
    let beside = program.small_p99_ms(&receiver, SMALL).await;
    stop.store(true, Ordering::Relaxed);
    let mut answers = 0;
    for client in clients {
        answers += client.await.unwrap();
    }
    aside(&format!("{answers} answers to the worst filters"));
    let mut health = health.await.unwrap();
    health.sort_by(f64::total_cmp);
    let most = health.last().copied().unwrap_or(f64::INFINITY);
    row(
        "`/healthz` beside eight clients with the worst filters, p99 (most)",
        &format!("{:.1} ms ({most:.1} ms)", share(&health, 0.99)),
        "50 ms",
    );
    row(
        "p99 of deliveries beside them, of that without",
        &format!("{:.2} ({beside:.1} ms of {alone:.1} ms)", beside / alone),
        "2.5",
    );
    row(
        "longest time between two heartbeats (one a second)",
        &format!("{:.2} s", beats.await.unwrap().as_secs_f64()),
        "2 s",
    );
    receiver.finish().await;
}

/// How many answers came.
async fn ask(program: Arc<Program>, stop: Arc<AtomicBool>, number: usize) -> usize {
    let lists = [("queues", "endpoint"), ("dead", "endpoint"), ("events", "payload")];
    let mut answers = 0;
    while !stop.load(Ordering::Relaxed) {
        let (list, field) = lists[(number + answers) % lists.len()];
        let filter = format!("{field} ~ {WORST}");
        let filter = utf8_percent_encode(&filter, NON_ALPHANUMERIC);
        let answer = program.get(&format!("/v1/{list}?filter={filter}")).await;
        let answer = answer.expect("an answer");
        let is_computed = answer.status == 200 || answer.text().contains("takes more than");
        assert!(is_computed || answer.status == 429, "{}", answer.text());
        answers += 1;
    }
    answers
}

/// Milliseconds of each answer.
async fn health(program: Arc<Program>, stop: Arc<AtomicBool>) -> Vec<f64> {
    let mut took = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let answer = program.get("/healthz").await;
        assert!(answer.is_some_and(|answer| answer.status == 200));
        took.push(begun.elapsed().as_secs_f64() * 1000.0);
        tokio::time::sleep(HEALTH_BETWEEN).await;
    }
    took
}

/// The longest time in which the counter did not move.
async fn beats(store: std::path::PathBuf, stop: Arc<AtomicBool>) -> Duration {
    let options = SqliteConnectOptions::new().filename(store).read_only(true);
    let mut connection = options.connect().await.unwrap();
    let (mut last, mut since, mut longest) = (-1_i64, Instant::now(), Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let query = "SELECT max(counter) FROM incarnations WHERE alive = 1";
        let counter: i64 = sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap();
        if counter != last {
            longest = longest.max(if last < 0 { Duration::ZERO } else { since.elapsed() });
            (last, since) = (counter, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    longest.max(since.elapsed())
}
