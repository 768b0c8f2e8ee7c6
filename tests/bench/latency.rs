//! Publish to request on idle queues among many, and what a daemon costs that has nothing to do.
//!
//! Announced: published through an engine, which nudges. Unannounced: by a foreign publisher that only
//! publishes to the exchange. The time is from before the publish to the request at the receiver, so it has
//! the publisher's confirm in it.

use std::time::Duration;

use redrive::internals::ambient::Clock;
use redrive::internals::delivery::http::{HttpSender, SenderSettings};
use redrive::internals::domain::egress::AddressRules;
use redrive::internals::engine::{Engine, NewNotification};

use crate::delivering;
use crate::ground::{self, Ground, Queue};
use crate::numbers::{p50_p99_ms, row};
use crate::process::Side;
use crate::receiver::{Receiver, time_us};
use crate::support::servers::scratch_directory;

const ANNOUNCED: usize = 300;
const BETWEEN: Duration = Duration::from_millis(50);
/// How long the first sweeps take, and how much longer with each queue.
const SWEPT: Duration = Duration::from_secs(20);
const SWEPT_EACH: Duration = Duration::from_micros(500);
/// How long what nobody announced may take, and at least as long with each queue.
const LATEST: Duration = Duration::from_secs(180);
const LATEST_EACH: Duration = Duration::from_millis(18);
/// How long a daemon with nothing to do is watched.
const IDLE: Duration = Duration::from_secs(120);

struct Case {
    queues: usize,
    /// Unannounced publishes, spread over this time.
    unannounced: u32,
    over: Duration,
    goal: &'static str,
}

impl Case {
    /// The more queues there are, the longer a look at all of them takes.
    const fn of(queues: usize) -> Self {
        if queues < 10_000 {
            Self {
                queues,
                unannounced: 50,
                over: Duration::from_secs(40),
                goal: "2 s",
            }
        } else {
            Self {
                queues,
                unannounced: 100,
                over: Duration::from_secs(120),
                goal: "60 s",
            }
        }
    }
}

/// `sizes`: other numbers of queues.
pub async fn run(sizes: &[String]) {
    if sizes.is_empty() {
        measure(&Case::of(100)).await;
        measure(&Case::of(10_000)).await;
    }
    for size in sizes {
        measure(&Case::of(size.parse().expect("latency:N, a number"))).await;
    }
}

async fn measure(case: &Case) {
    let (receiver, directory) = (Receiver::start().await, scratch_directory());
    let ground = Ground::prepare_for(case.queues).await;
    let store = directory.path().join("redrive.db").to_str().unwrap().to_owned();
    let queues = ground.queues(case.queues, |n| receiver.url(&format!("endpoint/{}", n % 100)));
    ground.create(&queues, &[&store]).await;
    let mut daemon = delivering::start(&ground.naming.vhost, &store, 1).await;
    // The first sweeps take every queue's arguments in.
    tokio::time::sleep(SWEPT + SWEPT_EACH * u32::try_from(case.queues).unwrap()).await;
    idle(case, &mut daemon).await;
    announced(case, &ground, &queues, &store, &receiver).await;
    unannounced(case, &ground, &queues, &receiver).await;
    memory(case, "at the end", &daemon);
    daemon.finish().await;
    receiver.finish().await;
}

fn memory(case: &Case, when: &str, daemon: &Side) {
    let mebibytes = daemon.resident_bytes() as f64 / f64::from(1 << 20);
    row(
        &format!("daemon's memory at {} queues, {when}", case.queues),
        &format!("{mebibytes:.0} MiB"),
        "150 MiB",
    );
}

async fn idle(case: &Case, daemon: &mut Side) {
    let (listed, used, began) = (listing(daemon).await, daemon.processor_seconds(), time_us());
    tokio::time::sleep(IDLE).await;
    let span = (time_us() - began) as f64 / 1_000_000.0;
    let (listed, used) = (listing(daemon).await - listed, daemon.processor_seconds() - used);
    row(
        &format!("share of time spent listing, {} queues", case.queues),
        &format!("{:.1} %", listed / span * 100.0),
        "10 %",
    );
    row(
        &format!("daemon's idle CPU at {} queues", case.queues),
        &format!("{:.1} % of a core", used / span * 100.0),
        "2 %",
    );
    memory(case, "idle", daemon);
}

async fn listing(daemon: &mut Side) -> f64 {
    delivering::number(
        daemon,
        &format!("{}_sum", redrive::internals::telemetry::LISTING_DURATION),
    )
    .await
}

/// Queues far from each other, each used once.
fn chosen(queues: &[Queue], count: usize, offset: usize) -> impl Iterator<Item = &Queue> {
    (0..count).map(move |n| &queues[(offset + n * 37) % queues.len()])
}

async fn announced(case: &Case, ground: &Ground, queues: &[Queue], store: &str, receiver: &Receiver) {
    let publisher = publisher(ground, store).await;
    receiver.reset().await;
    for queue in chosen(queues, ANNOUNCED, 0) {
        let message = queue.message();
        let new = NewNotification {
            id: None,
            execution: queue.execution.clone(),
            url: queue.url.clone(),
            headers: Vec::new(),
            content_type: None,
            body: message.body,
            polling_time_s: None,
            restart_count: None,
        };
        publisher.publish(new).await.unwrap();
        tokio::time::sleep(BETWEEN).await;
    }
    receiver.wait_for(ANNOUNCED, Duration::from_secs(120)).await;
    let (p50, p99) = p50_p99_ms(&receiver.seen().await.latencies_us);
    row(
        &format!("publish → POST among {} idle queues, announced, p99", case.queues),
        &format!("{p99:.0} ms (p50 {p50:.1} ms)"),
        "25 ms",
    );
    publisher.close().await;
}

async fn unannounced(case: &Case, ground: &Ground, queues: &[Queue], receiver: &Receiver) {
    // What was just delivered is held for the time of lingering.
    tokio::time::sleep(Duration::from_secs(10)).await;
    receiver.reset().await;
    let (pause, count) = (case.over / case.unannounced, case.unannounced as usize);
    for queue in chosen(queues, count, 11) {
        ground.broker.publish(&queue.name, &queue.message()).await.unwrap();
        tokio::time::sleep(pause).await;
    }
    let latest = LATEST.max(LATEST_EACH * u32::try_from(case.queues).unwrap());
    receiver.wait_for(count, latest).await;
    let (p50, p99) = p50_p99_ms(&receiver.seen().await.latencies_us);
    row(
        &format!("publish → POST among {} idle queues, unannounced, p99", case.queues),
        &format!("{:.1} s (p50 {:.1} s)", p99 / 1000.0, p50 / 1000.0),
        case.goal,
    );
}

/// An engine that only publishes.
async fn publisher(ground: &Ground, store: &str) -> Engine {
    let settings = ground::engine_settings(ground.naming.clone(), 1);
    let sender = SenderSettings {
        timeout: settings.request_timeout,
        response_snippet_bytes: 2048,
        rules: AddressRules::default(),
        endpoints: std::collections::HashMap::new(),
    };
    let sender = HttpSender::new(sender, Clock::system()).unwrap();
    let (store, broker) = (ground::open_store(store).await, ground::broker(&ground.naming));
    Engine::new(store, broker, sender, settings, Clock::system())
}
