//! The engine without a screen: API first, then store and broker, then delivery, until a signal.
//!
//! Whatever is away at start is waited for; what waiting does not mend ends the process with its code.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::ambient::{self, Clock};
use crate::api::{self, ApiSettings, Backend, Doors, Opening, Tls};
use crate::budget::Budget;
use crate::certificates::{Certificates, Ending};
use crate::cli::{self, Exit, Failure};
use crate::config::Config;
use crate::domain::schema::SchemaMode;
use crate::engine::Engine;
use crate::files;
#[cfg(feature = "otlp")]
use crate::telemetry;
use crate::telemetry::{LogFormat, LoggedAt, Metrics, StatsdDialect, StatsdTarget, names};

use super::{compose, supervised};

/// Between two tries to open store and broker.
const RETRY: Duration = Duration::from_secs(1);
/// Columns of what a service manager is told.
const STATUS_MAX: usize = 200;
/// Columns of a notice in the log.
const NOTICE_MAX: usize = 400;
/// Between two looks at when certificates end, and between two lines of the log about one.
const CERTIFICATES: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);
/// Between two sweeps of the numbers.
const METRICS_SWEEP: Duration = Duration::from_secs(5);
/// What a stop takes at most beside what is in flight: the answers of the API, records, and the ends of connections.
pub(super) const CLOSING: Duration = Duration::from_secs(25);
/// Between two lookups of where statsd is.
const STATSD_LOOKUP: Duration = Duration::from_mins(1);

pub(super) async fn run(config: Config, log: LogFormat) -> Result<Exit, Failure> {
    let notice = |line: &str| match log {
        LogFormat::Human => cli::notice(line),
        // Who reads it takes each line for JSON.
        LogFormat::Json => tracing::info!("{}", crate::domain::text::show(line, NOTICE_MAX)),
    };
    if let Some(vhost) = config.vhost_notice() {
        notice(&vhost);
    }
    let stop = CancellationToken::new();
    ambient::spawn("signals", signals(stop.clone(), config.delivery.drain + CLOSING)?);
    let metrics = metrics(statsd(&config).as_ref())?;
    let listener = bind("api.listen", config.api.listen).await?;
    let bound = listener.local_addr()?;
    let memory = compose::memory(&config);
    let settings = compose::api_settings(&config, bound, memory.clone())?;
    settings.check().map_err(|why| Failure::new(Exit::Configuration, why))?;
    // What asks whether it is alive is answered until nothing is delivered any more.
    let delivered = CancellationToken::new();
    let doors = doors(&config, listener, &delivered).await?;
    for warning in config.warnings() {
        tracing::warn!(?warning, "configuration");
    }
    let scheme = if doors.tls.is_some() { "https" } else { "http" };
    notice(&format!("listening on {scheme}://{bound}"));
    let backend = Backend::default();
    // Told of until nothing happens any more.
    let over = CancellationToken::new();
    let telling = tell_otlp(&config, &metrics, &over)?;
    ambient::spawn("certificates", watch_certificates(config.certificates(), over.clone()));
    let served = serve_api(doors, settings, &backend, metrics, &stop);
    supervised::begins(&over);
    let result = deliver(&config, (bound, memory), &backend, &stop).await;
    stop.cancel();
    delivered.cancel();
    let _ = served.await;
    over.cancel();
    if let Some(telling) = telling {
        let _ = telling.await;
    }
    result
}

/// Tells when the certificates of this process end, in its numbers and once a day in the log.
async fn watch_certificates(certificates: Certificates, over: CancellationToken) {
    let clock = Clock::system();
    let mut told_at = None;
    while !over.is_cancelled() {
        for (of, at) in certificates.ends() {
            let seconds = u32::try_from(at.seconds()).map_or(f64::INFINITY, f64::from);
            metrics::gauge!(names::CERTIFICATE_ENDS, "of" => of).set(seconds);
        }
        let uptime = clock.uptime();
        if told_at.is_none_or(|at| uptime.saturating_sub(at) >= DAY) {
            told_at = Some(uptime);
            for Ending { said, .. } in certificates.ending(clock.now()) {
                tracing::warn!(certificate = ?said, "a certificate of this process has to be renewed");
            }
        }
        ambient::wait(&over, CERTIFICATES).await;
    }
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

/// A port that somebody has, or an address that is not there yet, may be free a moment later: who supervises the daemon
/// starts it again then. Anything else is the configuration's fault.
fn unbound(what: &str, error: &io::Error) -> Failure {
    let may_pass = matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable);
    let exit = if may_pass { Exit::Failed } else { Exit::Configuration };
    Failure::new(exit, format!("{what} cannot be bound: {error}"))
}

async fn bind(key: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| unbound(&format!("{key} {address}"), &error))
}

/// Where the API is served beside `listener`; `api.probe` until `delivered`.
async fn doors(config: &Config, listener: TcpListener, delivered: &CancellationToken) -> Result<Doors, Failure> {
    let wrong = |why: String| Failure::new(Exit::Configuration, why);
    let tls = match &config.api.tls {
        None => None,
        Some(files) => Some(Tls::open(&files.certificate, &files.key, Clock::system()).map_err(wrong)?),
    };
    let unix = match &config.api.unix {
        None => None,
        Some(path) => {
            let made = files::private_socket(path).and_then(UnixListener::from_std);
            Some(made.map_err(|error| unbound(&format!("api.unix {}", path.display()), &error))?)
        }
    };
    let probe = match config.api.probe {
        None => None,
        Some(address) => Some((bind("api.probe", address).await?, delivered.clone())),
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
    let (told, mut told_why) = (LoggedAt::never(), String::new());
    loop {
        let error = match compose::engine(config, SchemaMode::Bring, Some(bound), memory.clone()).await {
            Ok(engine) => return Ok(Some(engine)),
            Err(error) => error,
        };
        if !error.waiting_helps {
            return Err(error.failure);
        }
        let why = error.failure.causes().join(": ");
        // The same once a minute: who waits for a day has no need of 86,400 lines.
        if told.is_due(Clock::system().uptime()) || why != told_why {
            tracing::warn!(?why, "waiting for store and broker");
            told_why.clone_from(&why);
        }
        supervised::does(&format!("waiting: {}", crate::domain::text::show(&why, STATUS_MAX)));
        let source = match error.opening {
            Opening::Store => "store",
            Opening::Broker => "broker",
        };
        metrics::gauge!(names::SOURCE_UP, "source" => source).set(0.0);
        backend.waiting_for(error.opening, why);
        tokio::select! {
            () = stop.cancelled() => return Ok(None),
            () = ambient::sleep(RETRY) => {}
        }
    }
}

/// The first signal stops in order, `within` that time, the second at once. A terminal that is closed says so more than once, and a process that
/// was begun to outlive it (`nohup`) does not hear that.
pub(super) fn signals(stop: CancellationToken, within: Duration) -> Result<impl Future<Output = ()> + use<>, Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let hears_hang_up = !is_ignored(SignalKind::hangup());
    let mut hang_up = hears_hang_up.then(|| signal(SignalKind::hangup())).transpose()?;
    Ok(async move {
        tokio::select! {
            () = either(&mut terminate, &mut interrupt) => {}
            Some(_) = OptionFuture::from(hang_up.as_mut().map(Signal::recv)) => {}
        }
        supervised::stops(within);
        tracing::info!("stopping: finishing what is in flight; a second signal stops at once");
        stop.cancel();
        either(&mut terminate, &mut interrupt).await;
        std::process::exit(i32::from(Exit::Failed.code()));
    })
}

/// Whether whoever began this process asked for that; where the system does not say, nobody did.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (kind.as_raw_value() - 1) & 1 == 1)
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
    if statsd.is_some() {
        ambient::spawn("statsd", find_statsd(metrics.clone()));
    }
    Ok(metrics)
}

/// Nothing but numbers waits for a name server.
async fn find_statsd(metrics: Metrics) {
    loop {
        let looking = metrics.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || looking.find_statsd()).await {
            let why = Failure::of(Exit::Failed, &error).causes().join(": ");
            tracing::warn!(?why, "statsd was not found; the lookup is repeated each minute");
        }
        ambient::sleep(STATSD_LOOKUP).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_free_a_moment_later_is_no_wrong_configuration() {
        let exit = |kind: ErrorKind| unbound("api.listen 127.0.0.1:80", &io::Error::from(kind)).exit();
        assert_eq!(exit(ErrorKind::AddrInUse), Exit::Failed);
        assert_eq!(exit(ErrorKind::AddrNotAvailable), Exit::Failed);
        assert_eq!(exit(ErrorKind::PermissionDenied), Exit::Configuration);
        assert_eq!(exit(ErrorKind::InvalidInput), Exit::Configuration);
    }
}
