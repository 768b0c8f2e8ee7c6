//! Whether short-lived executions leave anything in a daemon: each is one notification and its end mark, published,
//! delivered and ended, and afterwards the daemon's resident memory is what it was.
//!
//! Publisher, embedded broker, store and engine are one process, as a daemon without a configuration is. Its memory is
//! read whenever a twentieth of the executions has ended, and nothing is under way. The first two fifths are the warm-up,
//! which fills what has a bound: of 500,000 executions that is where the attempt log has the 200,000 rows that it keeps. `growth:N` runs so
//! many executions instead of 500,000.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redrive::internals::ambient::Clock;
use redrive::internals::broker::embedded::Embedded;
use redrive::internals::delivery::http::{HttpSender, SenderSettings};
use redrive::internals::domain::egress::AddressRules;
use redrive::internals::domain::id::ExecutionId;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::engine::{Engine, NewNotification};
use redrive::internals::sqlite::SqliteFile;
use redrive::internals::store::sqlite::SqliteStore;
use redrive::internals::store::{QueueQuery, StoreHandle};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ground;
use crate::numbers::{aside, row};
use crate::process::Side;
use crate::receiver::Receiver;
use crate::support::servers::scratch_directory;

const EXECUTIONS: usize = 500_000;
const STEPS: usize = 20;
/// Steps of the warm-up.
const WARM: usize = STEPS * 2 / 5;
/// Executions that are published at once.
const AT_ONCE: usize = 64;
const URLS: usize = 16;

/// `executions`: as given behind the section's name.
pub async fn run(executions: Option<&str>) {
    let executions = executions.map_or(EXECUTIONS, |count| count.parse().expect("growth:N, a number"));
    let step = (executions / STEPS).max(1);
    let (receiver, directory) = (Receiver::start().await, scratch_directory());
    let path = directory.path().join("redrive.db").to_str().unwrap().to_owned();
    let mut side = Side::start("growth", &[path, receiver.port.to_string(), step.to_string()]);
    assert_eq!(side.line().await, "ready");
    let (began, mut resident) = (Instant::now(), Vec::new());
    for part in 1..=STEPS {
        side.tell("go").await;
        assert_eq!(side.line().await, "ended");
        resident.push(side.resident_bytes());
        let mebibytes = side.resident_bytes() as f64 / (1024.0 * 1024.0);
        aside(&format!("{} executions: {mebibytes:.1} MiB resident", part * step));
        // Latencies are kept for each request.
        receiver.reset().await;
    }
    let (first, last) = (resident[WARM - 1] as f64, resident[STEPS - 1] as f64);
    let each = (last - first) / (step * (STEPS - WARM)) as f64;
    let measured = format!(
        "{:.2}; {:.1} MiB after {}, {:.1} MiB at the end, {each:.1} bytes each, {:.0} executions/s",
        last / first,
        first / (1024.0 * 1024.0),
        step * WARM,
        last / (1024.0 * 1024.0),
        (step * STEPS) as f64 / began.elapsed().as_secs_f64(),
    );
    let what = format!("resident memory after {} short executions", step * STEPS);
    row(&what, &measured, "1.1");
    side.finish().await;
    receiver.finish().await;
}

/// The daemon. Each line of input asks for so many executions more.
pub async fn run_side(arguments: &[String]) {
    let [path, port, step] = arguments else {
        panic!("store, port and number")
    };
    let step: usize = step.parse().unwrap();
    let naming = ground::naming("redrive");
    let file = SqliteFile::open(std::path::Path::new(path)).await.unwrap();
    let broker = Embedded::open(file.clone(), naming.clone(), Clock::system())
        .await
        .unwrap();
    // Else the first publish may come before the engine has made the exchange.
    broker.prepare().await.unwrap();
    let store: StoreHandle = Arc::new(SqliteStore::open(file, Clock::system()).await.unwrap());
    let settings = ground::engine_settings(naming, 1);
    let sender = SenderSettings {
        timeout: settings.request_timeout,
        response_snippet_bytes: 2048,
        rules: AddressRules {
            allow: vec!["127.0.0.0/8".parse().unwrap()],
            ..AddressRules::default()
        },
        endpoints: std::collections::HashMap::new(),
    };
    let sender = HttpSender::new(sender, Clock::system()).unwrap();
    let engine = Engine::new(Arc::clone(&store), broker, sender, settings, Clock::system());
    let stop = CancellationToken::new();
    let mut running = tokio::spawn({
        let (engine, stop) = (engine.clone(), stop.clone());
        async move { engine.run(stop).await }
    });
    println!("ready");
    let mut input = crate::process::input();
    let mut next = 0;
    let executing = async {
        while input.recv().await.is_some() {
            publish(&engine, port, next..next + step).await;
            next += step;
            while !store.queues_page(&QueueQuery::first(1)).await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            println!("ended");
        }
    };
    ground::beside(&mut running, executing).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    engine.close().await;
}

async fn publish(engine: &Engine, port: &str, numbers: std::ops::Range<usize>) {
    let mut under_way = JoinSet::new();
    for number in numbers {
        if under_way.len() >= AT_ONCE {
            under_way.join_next().await.unwrap().unwrap();
        }
        let (engine, url) = (engine.clone(), format!("http://127.0.0.1:{port}/{}", number % URLS));
        under_way.spawn(async move {
            let (execution, url) = (
                ExecutionId::parse(&format!("run-{number}")).unwrap(),
                EndpointUrl::parse(&url).unwrap(),
            );
            let new = NewNotification {
                id: None,
                execution: execution.clone(),
                url: url.clone(),
                headers: Vec::new(),
                content_type: None,
                body: Bytes::from_static(&[b'x'; ground::BODY_BYTES]),
                polling_time_s: None,
                restart_count: None,
            };
            engine.publish(new).await.unwrap();
            engine.end(execution, url).await.unwrap();
        });
    }
    while let Some(published) = under_way.join_next().await {
        published.unwrap();
    }
}
