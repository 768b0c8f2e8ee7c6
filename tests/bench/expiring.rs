//! Queues that expire: 10,000 of them. How fast the first page comes from what the janitor saw last, which share of
//! its time the janitor lists, and how fast 10,000 messages of 512 bytes are saved into the store.

use std::sync::Arc;
use std::time::Duration;

use redrive::internals::ambient::Clock;
use redrive::internals::broker::Outgoing;
use redrive::internals::delivery::http::{HttpSender, SenderSettings};
use redrive::internals::domain::egress::AddressRules;
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::job::Lifetime;
use redrive::internals::domain::message::Message;
use redrive::internals::engine::expiring::{ExpiringOrder, ExpiringQuery, ExpiringResult, Which};
use redrive::internals::engine::query;
use redrive::internals::engine::{Access, Command, Done, Engine};
use redrive::internals::store::StoreHandle;
use redrive::internals::telemetry::{JANITOR_DURATION, Metrics};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ground::{self, BODY_BYTES, Ground};
use crate::numbers::{Spread, rounds, row};
use crate::support::servers::scratch_directory;

const QUEUES: usize = 10_000;
const MESSAGES: u64 = 10_000;
/// How long the janitor is watched.
const WATCHED: Duration = Duration::from_secs(120);

pub async fn run() {
    let metrics = Metrics::install(None).unwrap();
    let (ground, directory) = (Ground::prepare().await, scratch_directory());
    declare(&ground).await;
    let store = ground::open_store(directory.path().join("redrive.db").to_str().unwrap()).await;
    let engine = engine(&ground, &store);
    let mut rates = Vec::new();
    for round in 0..rounds() {
        rates.push(save(&ground, &engine, round).await);
    }
    row(
        "save of 10,000 messages × 512 bytes",
        &format!("{} /s", Spread::of(&rates)),
        "5,000 /s",
    );
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (engine, stop) = (engine.clone(), stop.clone());
        async move { engine.run(stop).await.unwrap() }
    });
    while store
        .lifetimes_sweep()
        .await
        .unwrap()
        .is_none_or(|sweep| sweep.queues < QUEUES as u64)
    {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (listed, began) = (listing(&metrics), Instant::now());
    let mut took = Vec::new();
    while began.elapsed() < WATCHED {
        took.push(first_page(&engine).await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let share = (listing(&metrics) - listed) / began.elapsed().as_secs_f64();
    row(
        "first page of 10,000 expiring queues, by what was seen last",
        &format!("{} ms", Spread::of(&took)),
        "300 ms",
    );
    row(
        "janitor's share of time listing, 10,000 queues",
        &format!("{:.1} %", share * 100.0),
        "10 %",
    );
    stop.cancel();
    running.await.unwrap();
    engine.close().await;
}

async fn declare(ground: &Ground) {
    let names: Vec<QueueName> = (0..QUEUES).map(name).collect();
    let lifetime = Lifetime::of(Duration::from_hours(48)).unwrap();
    let mut tasks = JoinSet::new();
    for part in names.chunks(QUEUES.div_ceil(16)) {
        let (broker, part) = (Arc::clone(&ground.broker), part.to_vec());
        tasks.spawn(async move {
            for queue in part {
                broker.declare_expiring(&queue, lifetime).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

fn name(number: usize) -> QueueName {
    QueueName::parse(&format!("work.{number}.result")).unwrap()
}

fn engine(ground: &Ground, store: &StoreHandle) -> Engine {
    let settings = ground::engine_settings(ground.naming.clone(), 1);
    let sender = SenderSettings {
        timeout: settings.request_timeout,
        response_snippet_bytes: 2048,
        rules: AddressRules::default(),
        endpoints: std::collections::HashMap::new(),
    };
    let sender = HttpSender::new(sender, Clock::system()).unwrap();
    Engine::new(
        Arc::clone(store),
        ground.broker.clone(),
        sender,
        settings,
        Clock::system(),
    )
}

/// Milliseconds.
async fn first_page(engine: &Engine) -> f64 {
    let start = Instant::now();
    let query = ExpiringQuery {
        limit: 100,
        cursor: None,
    };
    let page = engine.query(query::Expiring(query)).await.unwrap();
    assert_eq!((page.items.len(), page.total), (100, QUEUES as u64));
    start.elapsed().as_secs_f64() * 1000.0
}

/// Seconds that the janitor listed so far.
fn listing(metrics: &Metrics) -> f64 {
    let sum = format!("{JANITOR_DURATION}_sum ");
    let text = metrics.render();
    let line = text.lines().find_map(|line| line.strip_prefix(sum.as_str()));
    line.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// Messages a second, from the confirmation to the end.
async fn save(ground: &Ground, engine: &Engine, round: usize) -> f64 {
    let queue = name(round);
    fill(ground, &queue).await;
    let order = ExpiringOrder::Save(Which::Queues(vec![queue]));
    let plan = engine.plan(Command::Expiring(order)).await.unwrap();
    let grant = Access::Operator.grant("bench", None).unwrap();
    let start = Instant::now();
    let Done::Expiring(outcomes) = engine.execute(&plan, &grant).await.unwrap() else {
        panic!("not what was ordered");
    };
    let took = start.elapsed().as_secs_f64();
    assert_eq!(
        (&outcomes[0].result, outcomes[0].messages),
        (&ExpiringResult::Saved, MESSAGES)
    );
    MESSAGES as f64 / took
}

async fn fill(ground: &Ground, queue: &QueueName) {
    let message = |number: u64| Message {
        message_id: Some(format!("m-{number}")),
        body: bytes::Bytes::from(vec![b'x'; BODY_BYTES]),
        ..Message::default()
    };
    for start in (0..MESSAGES).step_by(1000) {
        let window: Vec<Outgoing> = (start..start + 1000)
            .map(|number| Outgoing {
                exchange: String::new(),
                routing_key: queue.as_str().to_owned(),
                message: message(number),
            })
            .collect();
        for published in ground.broker.publish_many(&window).await {
            published.unwrap();
        }
    }
}
