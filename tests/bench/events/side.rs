//! A process with events in its hands.
//!
//! Arguments: store, handlers at once, milliseconds of work taken ahead. Lines of input: `drain` handles what is due
//! and answers seconds; `listen` delivers from then on and answers `ready`; `push N MS` pushes N events, one every MS
//! milliseconds, and answers when each push began; `stamps` answers when each handler began, by reference, and
//! forgets them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use redrive::internals::ambient::Clock;
use redrive::internals::broker::embedded::Embedded;
use redrive::internals::delivery::http::{HttpSender, SenderSettings};
use redrive::internals::domain::egress::AddressRules;
use redrive::internals::domain::event::Event;
use redrive::internals::engine::Engine;
use redrive::internals::engine::events::{EventHandler, Handled};
use redrive::internals::sqlite::SqliteFile;
use tokio_util::sync::CancellationToken;

use super::{event, event_type};
use crate::ground;
use crate::process::Side;
use crate::support::servers::scratch_directory;

/// When handlers began (uptime in microseconds), by reference.
#[derive(Default)]
struct Stamps(Mutex<BTreeMap<String, u128>>);

#[async_trait]
impl EventHandler for Stamps {
    async fn handle(&self, event: &Event) -> Handled {
        let at = now_us();
        self.0.lock().unwrap().insert(event.reference.as_str().to_owned(), at);
        Handled::Done
    }
}

/// The same in every process.
pub fn now_us() -> u128 {
    Clock::system().uptime().as_micros()
}

/// Starts one.
pub fn start(store: &str, workers: usize, ahead_ms: u64) -> Side {
    Side::start("events", &[store.to_owned(), workers.to_string(), ahead_ms.to_string()])
}

/// An engine over a store, with a broker that has nothing to do.
pub async fn engine(store: &str, workers: usize, ahead_ms: u64, scratch: &std::path::Path) -> Engine {
    let naming = ground::naming("events");
    let file = SqliteFile::open(&scratch.join("broker.db")).await.unwrap();
    let broker = Embedded::open(file, naming.clone(), Clock::system()).await.unwrap();
    let mut settings = ground::engine_settings(naming, 1);
    settings.events.workers = workers;
    settings.events.ahead = Duration::from_millis(ahead_ms);
    let sender = SenderSettings {
        timeout: settings.request_timeout,
        response_snippet_bytes: 2048,
        rules: AddressRules::default(),
        endpoints: std::collections::HashMap::new(),
    };
    let sender = HttpSender::new(sender, Clock::system()).unwrap();
    Engine::new(
        ground::open_store(store).await,
        broker,
        sender,
        settings,
        Clock::system(),
    )
}

pub async fn run(arguments: &[String]) {
    let [store, workers, ahead_ms] = arguments else {
        panic!("store, handlers at once, milliseconds ahead")
    };
    let _metrics = redrive::internals::telemetry::Metrics::install(None).unwrap();
    let scratch = scratch_directory();
    let engine = engine(
        store,
        workers.parse().unwrap(),
        ahead_ms.parse().unwrap(),
        scratch.path(),
    )
    .await;
    let stamps = Arc::new(Stamps::default());
    engine.handle_events(event_type(), Arc::<Stamps>::clone(&stamps));
    let stop = CancellationToken::new();
    let mut input = crate::process::input();
    while let Some(line) = input.recv().await {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["drain"] => {
                let begun = Instant::now();
                engine.process_once(&event_type(), stop.clone()).await.unwrap();
                println!("{}", begun.elapsed().as_secs_f64());
            }
            ["listen"] => {
                let mut delivering = engine.delivering();
                let (engine, stop) = (engine.clone(), stop.clone());
                tokio::spawn(async move { engine.run(stop).await.unwrap() });
                delivering.wait_for(|delivers| *delivers).await.unwrap();
                println!("ready");
            }
            ["push", count, every_ms] => {
                let every_ms = every_ms.parse().unwrap();
                println!("{}", push_slowly(&engine, count.parse().unwrap(), every_ms).await);
            }
            ["stamps"] => {
                let stamped = std::mem::take(&mut *stamps.0.lock().unwrap());
                println!("{}", serde_json::to_string(&stamped).unwrap());
            }
            other => panic!("{other:?}"),
        }
    }
    stop.cancel();
    engine.close().await;
}

/// When each push began, by reference, as JSON.
pub async fn push_slowly(engine: &Engine, count: usize, every_ms: u64) -> String {
    let mut begun = BTreeMap::new();
    for number in 0..count {
        let event = event(number);
        begun.insert(event.reference.as_str().to_owned(), now_us());
        engine.event_push(event).await.unwrap();
        tokio::time::sleep(Duration::from_millis(every_ms)).await;
    }
    serde_json::to_string(&begun).unwrap()
}
