//! An engine that delivers only while no other process does, beside a daemon.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redrive::internals::ambient::Clock;
use redrive::internals::broker::embedded::Embedded;
use redrive::internals::certificates::Certificates;
use redrive::internals::domain::naming::{Naming, QueueType};
use redrive::internals::domain::policy::RetryPolicy;
use redrive::internals::domain::retention::Retention;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::engine::{Engine, EngineSettings};
use redrive::internals::sqlite::SqliteFile;
use redrive::internals::store::sqlite::SqliteStore;
use tokio_util::sync::CancellationToken;

use super::BOUND;
use crate::engine::stage::{notification, sender};
use crate::support::daemon::Installation;
use crate::support::receiver::Receiver;
use crate::support::wait::wait_until;

const HASH_KEY: &str = "a test's key";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_delivers_while_no_other_process_does() {
    let mut installation = Installation::embedded();
    installation.set("broker", "url_hash_key", HASH_KEY);
    let receiver = Receiver::start().await;
    let url = EndpointUrl::parse(&receiver.url("/a")).unwrap();
    let engine = engine(&installation).await;
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (engine, stop) = (engine.clone(), stop.clone());
        async move { engine.run_when_alone(stop).await }
    });
    let delivers = async |wanted: bool| {
        wait_until(&format!("delivering to be {wanted}"), BOUND, async || {
            (*engine.delivering().borrow() == wanted).then_some(())
        })
        .await;
    };
    let publish = async |number| {
        let new = notification("one", url.clone(), number, "body");
        engine.publish(new).await.unwrap();
        let count = usize::try_from(number).unwrap();
        wait_until(&format!("delivery {number}"), BOUND, async || {
            (receiver.delivered() >= count).then_some(())
        })
        .await;
    };
    delivers(true).await;
    publish(1).await;
    let mut daemon = installation.daemon().await;
    delivers(false).await;
    publish(2).await;
    assert!(!*engine.delivering().borrow(), "the daemon delivered it");
    daemon.kill().await;
    delivers(true).await;
    publish(3).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(!*engine.delivering().borrow());
    engine.close().await;
}

/// An engine in this process over the installation's file.
async fn engine(installation: &Installation) -> Engine {
    let naming = Naming {
        prefix: "redrive.".to_owned(),
        vhost: "redrive".to_owned(),
        url_hash_key: HASH_KEY.to_owned(),
        queue_type: QueueType::Classic,
    };
    let settings = EngineSettings {
        naming: naming.clone(),
        workers: 8,
        slow_requests: 8,
        job_queue_ttl: redrive::internals::domain::job::JOB_QUEUE_TTL,
        dead_queues: Vec::new(),
        leftover_pattern: redrive::internals::engine::leftovers(),
        save_before_expiry: false,
        prefetch: 1,
        memory: redrive::internals::budget::Budget::default(),
        request_timeout: Duration::from_secs(2),
        linger: Duration::from_millis(200),
        in_flight_per_endpoint: 4,
        idle_queue_ttl: Duration::from_secs(3600),
        retry_after_cap: Duration::from_secs(3600),
        default_policy: RetryPolicy::default(),
        take_over: Duration::from_secs(60),
        drain: Duration::from_secs(5),
        export_time: redrive::internals::engine::dead::EXPORT_TIME,
        discard_keep: Duration::from_hours(7 * 24),
        retention: Retention::default(),
        rates: HashMap::default(),
        events: redrive::internals::engine::events::EventSettings::default(),
        masks: std::sync::Arc::new(redrive::internals::domain::mask::MaskRules::usual()),
        alerts: Vec::new(),
        certificates: Certificates::default(),
    };
    let clock = Clock::system();
    let file = SqliteFile::open(&installation.path("store.db")).await.unwrap();
    let store = SqliteStore::open(file.clone(), clock.clone()).await.unwrap();
    let broker = Embedded::open(file, naming, clock.clone()).await.unwrap();
    Engine::new(Arc::new(store), broker, sender(&settings), settings, clock)
}
