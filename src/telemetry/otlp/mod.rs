//! Spans and numbers for a collector of OpenTelemetry, by OTLP over HTTP in its JSON form (cargo feature `otlp`).
//!
//! Own code, because OTLP's JSON is a few shapes and everything else is here already: the client of HTTP, and the
//! numbers. The SDK with its exporter would be a second set of numbers beside that of [`super::METRICS`], with a code
//! generator's worth of message types.
//!
//! Nothing waits for the collector. Spans on their way are bounded, and what does not fit is counted and said; what it
//! does not take is lost, and said once until it takes something again. Numbers are read out of the same text that
//! Prometheus gets, so that both say the same.

mod numbers;
mod shape;
mod text;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::span::Span;
use super::{Metrics, TelemetryError};
use crate::ambient::{self, Clock};
use shape::Resource;

/// Spans on their way, at most.
const WAITING_MAX: usize = 8_192;
/// Spans of one request, at most.
const BATCH: usize = 512;
/// Between two requests with spans.
const SPANS_EVERY: Duration = Duration::from_secs(2);
/// Numbers go with each so many of those.
const NUMBERS_EACH: u32 = 5;
/// How long the collector may take for one request.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the last requests may take while the process ends.
const LAST: Duration = Duration::from_secs(5);

/// Where spans go.
struct Taker {
    sender: mpsc::Sender<Value>,
    /// Those that did not fit since it was said last.
    lost: AtomicU64,
}

static TAKER: OnceLock<Taker> = OnceLock::new();

pub(super) fn is_on() -> bool {
    TAKER.get().is_some()
}

pub(super) fn take(span: &Span<'_>) {
    let Some(taker) = TAKER.get() else { return };
    let Some(span) = shape::span(span) else { return };
    if taker.sender.try_send(span).is_err() {
        taker.lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// Begins to tell the collector at `endpoint`, such as `http://127.0.0.1:4318`, with these headers, until `stop`; what
/// is left then is sent before the task ends.
///
/// # Errors
/// Spans go somewhere already, or there is no client.
pub fn tell(
    endpoint: &str,
    headers: &[(String, SecretString)],
    metrics: Metrics,
    stop: CancellationToken,
) -> Result<JoinHandle<()>, TelemetryError> {
    // Installed already where something else needed it before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .default_headers(sent(headers))
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PATIENCE)
        .no_proxy()
        .build()
        .map_err(|source| TelemetryError::Otlp {
            source: source.without_url(),
        })?;
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let taker = Taker {
        sender,
        lost: AtomicU64::new(0),
    };
    TAKER.set(taker).map_err(|_| TelemetryError::Twice { what: "OTLP" })?;
    let clock = Clock::system();
    let teller = Teller {
        resource: Resource::of_process(clock.now()),
        base: endpoint.trim_end_matches('/').to_owned(),
        client,
        receiver,
        metrics,
        clock,
        is_taken: true,
    };
    Ok(ambient::spawn("otlp", teller.run(stop)))
}

/// The configuration has checked them.
fn sent(headers: &[(String, SecretString)]) -> HeaderMap {
    let header = |(name, value): &(String, SecretString)| {
        let mut value = HeaderValue::from_str(value.expose_secret()).ok()?;
        value.set_sensitive(true);
        Some((name.parse::<HeaderName>().ok()?, value))
    };
    headers.iter().filter_map(header).collect()
}

struct Teller {
    client: reqwest::Client,
    base: String,
    resource: Resource,
    receiver: mpsc::Receiver<Value>,
    metrics: Metrics,
    clock: Clock,
    /// Whether the collector took the last request.
    is_taken: bool,
}

impl Teller {
    async fn run(mut self, stop: CancellationToken) {
        let mut round = 0;
        while !stop.is_cancelled() {
            tokio::select! {
                () = ambient::sleep(SPANS_EVERY) => {}
                () = stop.cancelled() => {}
            }
            self.tell_spans().await;
            round += 1;
            if round % NUMBERS_EACH == 0 {
                self.tell_numbers().await;
            }
        }
        let last = async {
            self.tell_spans().await;
            self.tell_numbers().await;
        };
        if ambient::timeout(LAST, last).await.is_err() {
            tracing::warn!("the collector (telemetry.otlp) did not take the last spans and numbers in time");
        }
    }

    /// All that wait now; while the collector takes nothing one batch is lost, and the rest waits its turn.
    async fn tell_spans(&mut self) {
        Self::say_lost();
        for _ in 0..=WAITING_MAX / BATCH {
            let mut spans = Vec::new();
            while spans.len() < BATCH
                && let Ok(span) = self.receiver.try_recv()
            {
                spans.push(span);
            }
            if spans.is_empty() {
                return;
            }
            let body = self.resource.spans(&spans);
            if !self.post("/v1/traces", &body).await {
                return;
            }
        }
    }

    async fn tell_numbers(&mut self) {
        let families = text::families(&self.metrics.render());
        let numbers = numbers::shapes(&families, self.resource.began, self.clock.now());
        let body = self.resource.numbers(&numbers);
        self.post("/v1/metrics", &body).await;
    }

    /// Whether it was taken; the first failure after a success is said.
    async fn post(&mut self, path: &str, body: &Value) -> bool {
        let url = format!("{}{path}", self.base);
        let request = self.client.post(url).header("content-type", "application/json");
        let failed = match request.body(body.to_string()).send().await {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answered {}", answer.status().as_u16())),
            Err(error) => Some(error.without_url().to_string()),
        };
        match &failed {
            None if !self.is_taken => tracing::info!("the collector (telemetry.otlp) takes spans and numbers again"),
            Some(why) if self.is_taken => tracing::warn!(
                why = ?why,
                "the collector (telemetry.otlp) takes no spans and numbers; those of this time are lost"
            ),
            None | Some(_) => {}
        }
        self.is_taken = failed.is_none();
        self.is_taken
    }

    fn say_lost() {
        let lost = TAKER.get().map_or(0, |taker| taker.lost.swap(0, Ordering::Relaxed));
        if lost > 0 {
            tracing::warn!(
                lost,
                "spans are lost: more came than the collector (telemetry.otlp) takes"
            );
        }
    }
}
