//! The HTTP API of the daemon: JSON over HTTP/1.1 (docs/contract.md, *HTTP API of the daemon*).
//!
//! Promises: `/healthz` answers from the first moment, everything else says what it waits for; who
//! asks is known before anything is read; a web page in somebody's browser cannot speak to it (Host,
//! Origin and content type are checked, no CORS header is ever sent); every wait and every body has
//! a bound. Left out on purpose: HTTP/2, and any rule about messages, which is the engine's.
//!
//! The caller binds the listeners and owns the stop.

mod act;
mod alerts;
mod answer;
mod attach;
mod connections;
mod dead;
mod endpoints;
mod events;
mod events_many;
mod expiring;
mod export;
mod extract;
mod guard;
mod health;
mod host;
mod jobs;
mod limit;
mod linger;
mod login;
mod masked;
mod network;
mod notifications;
mod openapi;
mod pace;
mod plans;
mod policies;
mod problem;
mod queues;
mod quota;
mod records;
mod reveal;
mod routes;
mod runs;
mod server;
mod settings;
mod sse;
mod stream;
mod tls;
mod types;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_util::future::OptionFuture;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use crate::ambient::Clock;
use crate::engine::Engine;
use crate::wire::problem::Problem;

use server::{Bounds, Door};

pub use openapi::document as openapi_document;
pub use settings::{ApiSettings, ApiToken};
pub use tls::Tls;

/// Renders the metrics as Prometheus text.
pub type RenderMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// The engine, once there is one; before that, what is waited for.
#[derive(Clone, Debug, Default)]
pub struct Backend(Arc<BackendState>);

#[derive(Debug, Default)]
struct BackendState {
    engine: OnceLock<Engine>,
    waiting: Mutex<Option<(Opening, String)>>,
}

/// What there is no engine without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// It is opened first.
    Store,
    /// It is opened when the store is.
    Broker,
}

impl Backend {
    /// From now on the routes have an engine. A second one is ignored.
    pub fn set(&self, engine: Engine) {
        let _ = self.0.engine.set(engine);
    }

    /// What the routes say while there is no engine.
    pub fn waiting_for(&self, opening: Opening, why: String) {
        *self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some((opening, why));
    }

    fn engine(&self) -> Result<&Engine, Problem> {
        self.0
            .engine
            .get()
            .ok_or_else(|| Problem::unavailable(format!("redrive is starting: {}", self.waiting().1)))
    }

    fn waiting(&self) -> (Opening, String) {
        let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = || (Opening::Store, "opening store and broker".to_owned());
        waiting.clone().unwrap_or_else(begins)
    }
}

/// What every route can see.
struct Shared {
    settings: ApiSettings,
    backend: Backend,
    metrics: RenderMetrics,
    clock: Clock,
    logins: login::Logins,
    /// Who was answered what the masks name.
    told: reveal::Told,
    /// Plans that were shown and wait for their execution.
    plans: plans::Plans,
    /// What those who are attached see.
    sights: attach::Sights,
    /// Who of them may change something.
    attending: attach::Attending,
    /// The daemon stops: what is told for as long as somebody listens ends.
    stop: CancellationToken,
}

impl Shared {
    fn engine(&self) -> Result<&Engine, Problem> {
        self.backend.engine()
    }
}

/// Where the API is served.
pub struct Doors {
    /// With tokens.
    pub listener: TcpListener,
    /// What it proves who it is with there.
    pub tls: Option<Tls>,
    /// For this user alone, without a token.
    pub unix: Option<UnixListener>,
    /// Whether the process lives and delivers, for everybody; served until the token is cancelled.
    pub probe: Option<(TcpListener, CancellationToken)>,
}

/// Serves until `stop` is cancelled; then takes nothing new and waits, within a bound, for what is
/// in hand.
pub async fn serve(
    doors: Doors,
    settings: ApiSettings,
    backend: Backend,
    metrics: RenderMetrics,
    clock: Clock,
    stop: CancellationToken,
) {
    let shared = Arc::new(Shared {
        settings,
        backend,
        metrics,
        clock,
        logins: login::Logins::default(),
        told: reveal::Told::default(),
        plans: plans::Plans::default(),
        sights: attach::Sights::default(),
        attending: attach::Attending::default(),
        stop: stop.clone(),
    });
    let router = routes::router(Arc::clone(&shared));
    let bounds = || Bounds {
        per_address: shared.settings.connections_per_address,
        unbounded: shared.settings.trusted_proxies.clone(),
    };
    let Doors {
        listener,
        tls,
        unix,
        probe,
    } = doors;
    let main = server::run(Door::Tcp { listener, tls }, bounds(), router.clone(), stop.clone());
    let unix = unix.map(|listener| server::run(Door::Unix(listener), bounds(), router, stop.clone()));
    let probe = probe.map(|(listener, until)| {
        let router = routes::probes(Arc::clone(&shared), shared.settings.probe_metrics);
        server::run(Door::Tcp { listener, tls: None }, bounds(), router, until)
    });
    futures_util::join!(main, OptionFuture::from(unix), OptionFuture::from(probe));
}
