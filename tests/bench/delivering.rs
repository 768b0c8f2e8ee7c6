//! The engine as a daemon runs it, in a process of its own: sender, store, broker, numbers.
//!
//! Arguments: virtual host, store, prefetch. Each line of input asks for its numbers in the text format of
//! Prometheus, answered with an empty line behind them; the end of the input stops it in order.

use std::sync::Arc;
use std::time::Duration;

use redrive::internals::ambient::Clock;
use redrive::internals::delivery::http::{HttpSender, SenderSettings};
use redrive::internals::domain::egress::AddressRules;
use redrive::internals::engine::Engine;
use redrive::internals::telemetry::Metrics;
use tokio_util::sync::CancellationToken;

use crate::ground;
use crate::process::Side;

/// Starts an engine over `store` on the virtual host.
pub async fn start(vhost: &str, store: &str, prefetch: u16) -> Side {
    let mut side = Side::start("engine", &[vhost.to_owned(), store.to_owned(), prefetch.to_string()]);
    assert_eq!(side.line().await, "ready");
    side
}

/// The value of one of its numbers, summed over its labels.
pub async fn number(side: &mut Side, name: &str) -> f64 {
    side.tell("numbers").await;
    let mut sum = 0.0;
    loop {
        let line = side.line().await;
        if line == "end" {
            return sum;
        }
        if let Some(rest) = line.strip_prefix(name)
            && rest.starts_with([' ', '{'])
        {
            sum += rest.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        }
    }
}

pub async fn run(arguments: &[String]) {
    let [vhost, store, prefetch] = arguments else {
        panic!("virtual host, store and prefetch")
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "error".into()))
        .init();
    let metrics = Metrics::install(None).unwrap();
    let naming = ground::naming(vhost);
    let settings = ground::engine_settings(naming.clone(), prefetch.parse().unwrap());
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
    let store = ground::open_store(store).await;
    let engine = Engine::new(store, ground::broker(&naming), sender, settings, Clock::system());
    let stop = CancellationToken::new();
    let mut running = tokio::spawn({
        let (engine, stop) = (engine.clone(), stop.clone());
        async move { engine.run(stop).await }
    });
    let numbers = Arc::new(metrics);
    tokio::spawn({
        let numbers = Arc::clone(&numbers);
        async move {
            loop {
                tokio::time::sleep(Duration::from_secs(5)).await;
                numbers.sweep();
            }
        }
    });
    println!("ready");
    let mut input = crate::process::input();
    let answering = async {
        while input.recv().await.is_some() {
            println!("{}\nend", numbers.render());
        }
    };
    ground::beside(&mut running, answering).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    engine.close().await;
}
