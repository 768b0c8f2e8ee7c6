//! The engine without a screen: API first, then store and broker, then delivery, until a signal.
//!
//! Whatever is away at start is waited for; what waiting does not mend ends the process with its code.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::ambient::{self, Clock};
use crate::api::{self, ApiSettings, Backend, Doors, Tls};
use crate::budget::Budget;
use crate::cli::{self, Exit, Failure};
use crate::config::Config;
use crate::domain::schema::SchemaMode;
use crate::engine::Engine;
use crate::files;
#[cfg(feature = "otlp")]
use crate::telemetry;
use crate::telemetry::{Metrics, StatsdDialect, StatsdTarget};

use super::{compose, supervised};

/// Between two tries to open store and broker.
const RETRY: Duration = Duration::from_secs(1);
/// Columns of what a service manager is told.
const STATUS_MAX: usize = 200;
/// Between two sweeps of the numbers.
const METRICS_SWEEP: Duration = Duration::from_secs(5);

pub(super) async fn run(config: Config) -> Result<Exit, Failure> {
    if let Some(vhost) = config.vhost_notice() {
        cli::notice(&vhost);
    }
    let stop = CancellationToken::new();
    ambient::spawn("signals", signals(stop.clone())?);
    let metrics = metrics(statsd(&config).as_ref())?;
    let listener = TcpListener::bind(config.api.listen).await.map_err(|error| {
        let why = format!("api.listen {} cannot be bound: {error}", config.api.listen);
        Failure::new(Exit::Configuration, why)
    })?;
    let bound = listener.local_addr()?;
    let memory = compose::memory(&config);
    let settings = compose::api_settings(&config, bound, memory.clone())?;
    settings.check().map_err(|why| Failure::new(Exit::Configuration, why))?;
    let doors = doors(&config, listener).await?;
    for warning in config.warnings() {
        tracing::warn!(?warning, "configuration");
    }
    let scheme = if doors.tls.is_some() { "https" } else { "http" };
    cli::notice(&format!("listening on {scheme}://{bound}"));
    let backend = Backend::default();
    // Told of until nothing happens any more.
    let over = CancellationToken::new();
    let telling = tell_otlp(&config, &metrics, &over)?;
    let served = serve_api(doors, settings, &backend, metrics, &stop);
    supervised::begins(&over);
    let result = deliver(&config, (bound, memory), &backend, &stop).await;
    stop.cancel();
    let _ = served.await;
    over.cancel();
    if let Some(telling) = telling {
        let _ = telling.await;
    }
    result
}

/// Begins to tell the collector, where one is configured.
#[cfg(feature = "otlp")]
fn tell_otlp(config: &Config, metrics: &Metrics, over: &CancellationToken) -> Result<Option<JoinHandle<()>>, Failure> {
    let Some(endpoint) = &config.telemetry.otlp else {
        return Ok(None);
    };
    let telling = telemetry::otlp::tell(endpoint, &config.telemetry.headers, metrics.clone(), over.clone());
    telling
        .map(Some)
        .map_err(|error| Failure::of(Exit::Configuration, &error))
}

/// Nobody is told in this build: a configured collector was refused.
#[cfg(not(feature = "otlp"))]
#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
fn tell_otlp(_: &Config, _: &Metrics, _: &CancellationToken) -> Result<Option<JoinHandle<()>>, Failure> {
    Ok(None)
}

/// Where the API is served beside `listener`.
async fn doors(config: &Config, listener: TcpListener) -> Result<Doors, Failure> {
    let wrong = |why: String| Failure::new(Exit::Configuration, why);
    let tls = match &config.api.tls {
        None => None,
        Some(files) => Some(Tls::open(&files.certificate, &files.key, Clock::system()).map_err(wrong)?),
    };
    let unix = match &config.api.unix {
        None => None,
        Some(path) => {
            let why = |error| wrong(format!("api.unix {} cannot be made: {error}", path.display()));
            Some(
                files::private_socket(path)
                    .and_then(UnixListener::from_std)
                    .map_err(why)?,
            )
        }
    };
    let probe = match config.api.probe {
        None => None,
        Some(address) => {
            let why = |error| wrong(format!("api.probe {address} cannot be bound: {error}"));
            Some(TcpListener::bind(address).await.map_err(why)?)
        }
    };
    Ok(Doors {
        listener,
        tls,
        unix,
        probe,
    })
}

pub(super) fn serve_api(
    doors: Doors,
    settings: ApiSettings,
    backend: &Backend,
    metrics: Metrics,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let render: api::RenderMetrics = Arc::new(move || metrics.render());
    let (backend, stop) = (backend.clone(), stop.clone());
    ambient::spawn(
        "http api",
        api::serve(doors, settings, backend, render, Clock::system(), stop),
    )
}

async fn deliver(
    config: &Config,
    (bound, memory): (SocketAddr, Budget),
    backend: &Backend,
    stop: &CancellationToken,
) -> Result<Exit, Failure> {
    let Some(engine) = open(config, (bound, memory), backend, stop).await? else {
        return Ok(Exit::Done);
    };
    backend.set(engine.clone());
    supervised::does("delivering");
    let delivered = engine.run(stop.clone()).await;
    // Requests in hand may still need the engine's connections until the API has drained; both have
    // their own bound, and closing answers what is left with an error.
    stop.cancel();
    engine.close().await;
    tracing::info!("broker and store are closed");
    match delivered {
        Ok(()) => Ok(Exit::Done),
        // What the store refuses at the begin (other settings, a newer minimum) is the configuration's matter.
        Err(error @ crate::engine::EngineError::Refused { .. }) => Err(Failure::of(Exit::Configuration, &error)),
        Err(error) => Err(error.into()),
    }
}

/// Opens store and broker, as often as it takes; `None` when the stop came first.
async fn open(
    config: &Config,
    (bound, memory): (SocketAddr, Budget),
    backend: &Backend,
    stop: &CancellationToken,
) -> Result<Option<Engine>, Failure> {
    loop {
        let error = match compose::engine(config, SchemaMode::Bring, Some(bound), memory.clone()).await {
            Ok(engine) => return Ok(Some(engine)),
            Err(error) => error,
        };
        if !error.waiting_helps {
            return Err(error.failure);
        }
        let why = error.failure.causes().join(": ");
        tracing::warn!(?why, "waiting for store and broker");
        supervised::does(&format!("waiting: {}", crate::domain::text::show(&why, STATUS_MAX)));
        backend.waiting_for(why);
        tokio::select! {
            () = stop.cancelled() => return Ok(None),
            () = ambient::sleep(RETRY) => {}
        }
    }
}

/// The first signal stops in order, the second at once.
pub(super) fn signals(stop: CancellationToken) -> Result<impl Future<Output = ()> + use<>, Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        either(&mut terminate, &mut interrupt).await;
        supervised::stops();
        tracing::info!("stopping: finishing what is in flight; a second signal stops at once");
        stop.cancel();
        either(&mut terminate, &mut interrupt).await;
        std::process::exit(i32::from(Exit::Failed.code()));
    })
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

fn statsd(config: &Config) -> Option<StatsdTarget> {
    let (host, port) = config.metrics.statsd.clone()?;
    let dialect = if config.metrics.has_labels {
        StatsdDialect::DogStatsD
    } else {
        StatsdDialect::Statsd
    };
    Some(StatsdTarget { host, port, dialect })
}

pub(super) fn metrics(statsd: Option<&StatsdTarget>) -> Result<Metrics, Failure> {
    let metrics = Metrics::install(statsd).map_err(|error| Failure::of(Exit::Configuration, &error))?;
    let swept = metrics.clone();
    ambient::spawn("metrics sweep", async move {
        loop {
            ambient::sleep(METRICS_SWEEP).await;
            swept.sweep();
        }
    });
    Ok(metrics)
}
