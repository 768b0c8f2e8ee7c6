//! Messages of an intake queue to committed events, each batch acked after its commit, on PostgreSQL and on SQLite.
//!
//! 30,000 messages of about 120 bytes, each about a reference of its own, lie in the queue before the engine starts.
//! The time is from the first look that finds events to the one that finds all of them and an empty queue, and the
//! rate is of the events in between; the intake runs in this process, as everything of the engine does.

use std::time::{Duration, Instant};

use redrive::internals::ambient::Clock;
use redrive::internals::broker::{Look, Outgoing, Published};
use redrive::internals::delivery::http::{HttpSender, SenderSettings};
use redrive::internals::domain::egress::AddressRules;
use redrive::internals::domain::event::EventType;
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::message::Message;
use redrive::internals::engine::Engine;
use redrive::internals::engine::events::{EventSettings, IntakeSettings};
use redrive::internals::store::StoreHandle;
use tokio_util::sync::CancellationToken;

use crate::ground::{self, Ground};
use crate::numbers::{Spread, aside, rounds, row};
use crate::support::servers::{Database, scratch_directory};

const MESSAGES: usize = 30_000;
const QUEUE: &str = "bench.intake";

pub async fn run() {
    let (mut postgres, mut sqlite) = (Vec::new(), Vec::new());
    for _ in 0..rounds() {
        let database = Database::create().await;
        postgres.push(round(&database.url()).await);
        let directory = scratch_directory();
        sqlite.push(round(directory.path().join("redrive.db").to_str().unwrap()).await);
        aside(&format!(
            "intake: PostgreSQL {:.0}/s, SQLite {:.0}/s",
            postgres[postgres.len() - 1],
            sqlite[sqlite.len() - 1]
        ));
    }
    row(
        "RabbitMQ messages to committed events a second, PostgreSQL",
        &Spread::of(&postgres).to_string(),
        "5,000",
    );
    row("the same, SQLite", &Spread::of(&sqlite).to_string(), "5,000");
}

fn settings(ground: &Ground) -> EventSettings {
    EventSettings {
        consumers: vec![IntakeSettings {
            name: "bench".to_owned(),
            vhost: ground.vhost.name.clone(),
            queue: QUEUE.to_owned(),
            exchange: None,
            bindings: Vec::new(),
            event_type: EventType::parse("bench").unwrap(),
            types: Vec::new(),
            reference: "/employee_number".to_owned(),
            nbf: Some("/nbf".to_owned()),
            payload: None,
        }],
        ..EventSettings::default()
    }
}

/// With a broker of its own: it belongs to one store.
async fn round(address: &str) -> f64 {
    let ground = Ground::prepare().await;
    fill(&ground).await;
    let store = ground::open_store(address).await;
    let sender = SenderSettings {
        timeout: Duration::from_secs(5),
        response_snippet_bytes: 0,
        rules: AddressRules::default(),
        endpoints: std::collections::HashMap::new(),
    };
    let sender = HttpSender::new(sender, Clock::system()).unwrap();
    let mut engine_settings = ground::engine_settings(ground.naming.clone(), 1);
    engine_settings.events = settings(&ground);
    let broker = ground::broker(&ground.naming);
    let engine = Engine::new(store.clone(), broker, sender, engine_settings, Clock::system());
    let stop = CancellationToken::new();
    let mut running = tokio::spawn({
        let (engine, stop) = (engine.clone(), stop.clone());
        async move { engine.run(stop).await }
    });
    let queue = QueueName::parse(QUEUE).unwrap();
    let taking = async {
        let (first, began) = at_least(&store, 1).await;
        let (_, ended) = at_least(&store, MESSAGES).await;
        while !matches!(
            ground.broker.look(&queue).await.unwrap(),
            Look::Present { ready: 0, .. }
        ) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        (MESSAGES - first) as f64 / (ended - began).as_secs_f64()
    };
    let rate = ground::beside(&mut running, taking).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    let left = ground.broker.look(&queue).await.unwrap();
    assert!(
        matches!(left, Look::Present { ready: 0, .. }),
        "everything was acked: {left:?}"
    );
    engine.close().await;
    rate
}

/// Events of the type, once there are so many, and when that was seen.
async fn at_least(store: &StoreHandle, wanted: usize) -> (usize, Instant) {
    loop {
        let counts = store.events_counts().await.unwrap();
        let found: u64 = counts.iter().map(|count| count.count).sum();
        let found = usize::try_from(found).unwrap();
        if found >= wanted {
            return (found, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The queue as a first start of the engine would make it, with all messages.
async fn fill(ground: &Ground) {
    let queue = redrive::internals::broker::IntakeQueue {
        vhost: ground.vhost.name.clone(),
        name: QueueName::parse(QUEUE).unwrap(),
        exchange: None,
        bindings: Vec::new(),
    };
    ground.broker.intake(&queue, 1).await.unwrap().close().await;
    let outgoing = |number: usize| {
        Outgoing {
        exchange: String::new(),
        routing_key: QUEUE.to_owned(),
        message: Message {
            message_id: Some(format!("m-{number}")),
            content_type: Some("application/json".to_owned()),
            body: format!(
                "{{\"employee_number\": \"{number:08}\", \"name\": \"Somebody Somewhere\", \"changed\": [\"assignment\", \"address\"]}}"
            )
            .into(),
            ..Message::default()
        },
    }
    };
    let numbers: Vec<usize> = (0..MESSAGES).collect();
    for window in numbers.chunks(1000) {
        let window: Vec<Outgoing> = window.iter().map(|number| outgoing(*number)).collect();
        for published in ground.broker.publish_many(&window).await {
            assert_eq!(published.unwrap(), Published::Accepted);
        }
    }
}
