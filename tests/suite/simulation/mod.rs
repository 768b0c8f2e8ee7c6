//! The real engine in simulated time, over a broker and receivers in memory and a store that stands still between calls:
//! a run is a function of its seed. No server, no socket, and no time goes by but that of the timers.

mod broker;
mod receivers;
mod trace;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use redrive::internals::ambient::{self, Clock};
use redrive::internals::broker::BrokerHandle;
use redrive::internals::domain::policy::RetryPolicy;
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::engine::Engine;
use redrive::internals::sqlite::SqliteFile;
use redrive::internals::store::StoreHandle;
use redrive::internals::store::sqlite::SqliteStore;
use tokio_util::sync::CancellationToken;

use self::broker::SimulatedBroker;
use self::receivers::Receivers;
use self::trace::Trace;
use crate::engine::stage::{notification, settings};
use crate::support::faulty_store::{Apart, FaultyStore};
use crate::support::servers::scratch_directory;
use crate::support::wait::wait_until;

/// When every run begins.
const START: Timestamp = Timestamp::from_seconds(1_700_000_000);
/// How long a run may take, in its own time.
const BOUND: Duration = Duration::from_mins(10);
const EXECUTIONS: [&str; 5] = ["a", "b", "c", "d", "e"];
const PATHS: [&str; 4] = ["/ok", "/flaky", "/down", "/also-ok"];
const EACH: u32 = 5;

/// A run of 100 deliveries in 20 queues, some of which fail at first: what happened, when and in which order.
fn run(seed: u64) -> Vec<String> {
    let directory = scratch_directory();
    let elsewhere = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let theirs = Clock::manual(START);
    let store = elsewhere.block_on(async {
        let file = SqliteFile::open(&directory.path().join("redrive.db")).await.unwrap();
        SqliteStore::open(file, theirs.clone()).await.unwrap()
    });
    let simulated = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    simulated.block_on(async {
        let ours = Clock::of_runtime(START);
        let _seed = ambient::seed(seed, ours.clone());
        let apart = Apart {
            runtime: elsewhere.handle().clone(),
            theirs,
            ours: ours.clone(),
        };
        let store = Arc::new(FaultyStore::apart(Arc::new(store), apart));
        deliver(store, ours).await
    })
}

async fn deliver(store: StoreHandle, clock: Clock) -> Vec<String> {
    let mut settings = settings("simulated");
    settings.default_policy = RetryPolicy {
        retries_with_no_delay: 0,
        minimum_delay_retries: 20,
        minimum_delay_s: 1,
        maximum_delay_s: 2,
        jitter: 0.5,
        ..RetryPolicy::default()
    };
    let trace = Trace::new(clock.clone());
    let broker = Arc::new(SimulatedBroker::new(settings.naming.clone(), trace.clone()));
    let receivers = Arc::new(Receivers::new(trace.clone()));
    let handle: BrokerHandle = Arc::<SimulatedBroker>::clone(&broker);
    let engine = Engine::new(store, handle, receivers, settings, clock);
    let stop = CancellationToken::new();
    let running = ambient::spawn("simulated daemon", {
        let (engine, stop) = (engine.clone(), stop.clone());
        async move { engine.run(stop).await.unwrap() }
    });
    for number in 1..=EACH {
        for execution in EXECUTIONS {
            for path in PATHS {
                let url = EndpointUrl::parse(&format!("http://receiver.example{path}")).unwrap();
                let body = format!("{execution} {path} {number}");
                engine
                    .publish(notification(execution, url, number, &body))
                    .await
                    .unwrap();
            }
        }
    }
    wait_until("every message to be settled", BOUND, async || {
        (broker.waiting() == 0).then_some(())
    })
    .await;
    stop.cancel();
    running.await.unwrap();
    engine.close().await;
    trace.lines()
}

/// The bodies of what was settled in a run, in its order.
fn settled(trace: &[String]) -> Vec<&str> {
    trace
        .iter()
        .filter_map(|line| line.split_once(" settled "))
        .map(|(_, body)| body)
        .collect()
}

#[test]
fn a_run_of_the_engine_follows_from_its_seed() {
    let [once, again, other] = thread::scope(|threads| {
        let runs = [1, 1, 2].map(|seed| threads.spawn(move || run(seed)));
        runs.map(|run| run.join().unwrap())
    });
    for (at, line) in once.iter().enumerate() {
        assert_eq!(
            again.get(at),
            Some(line),
            "the runs differ at line {at}: {:#?}",
            once.get(..at)
        );
    }
    assert_eq!(again.len(), once.len());
    assert_ne!(once, other, "another seed is another run");
    assert_ne!(settled(&once), settled(&other), "and another order of deliveries");
    assert!(once.iter().any(|line| line.contains(" answered 503 ")), "{once:#?}");
    for trace in [&once, &other] {
        assert_eq!(settled(trace).len(), 100, "{trace:#?}");
        for queue in EXECUTIONS
            .iter()
            .flat_map(|execution| PATHS.map(|path| format!("{execution} {path} ")))
        {
            let numbers: Vec<&str> = settled(trace)
                .iter()
                .filter_map(|body| body.strip_prefix(&queue))
                .collect();
            assert_eq!(numbers, ["1", "2", "3", "4", "5"], "{queue} is delivered in its order");
        }
    }
}
