//! `--demo`: in the console until the operator leaves; on standard output a minute of it, or with `--daemon`
//! until a signal and with the HTTP API.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::ambient::{self, Clock};
use crate::api::{ApiSettings, ApiToken, Backend, Doors};
use crate::cli::{self, Exit, Failure};
use crate::console::{Connect, ConsoleSettings};
use crate::demo::{self, Demo, DemoPlan, ScratchDirectory};
use crate::domain::mask::MaskRules;
use crate::domain::scope::{Scope, Scopes};
use crate::files;

use super::daemon;

/// Where the API listens by default; another port where this one is taken.
const PORT: u16 = 8470;

/// A minute of it, or less: until a signal.
pub(super) async fn run() -> Result<Exit, Failure> {
    let stop = stopped_by_signals()?;
    let result = play(&DemoPlan::default(), None, &stop).await;
    stop.cancel();
    result
}

/// Until a signal, with the HTTP API.
pub(super) async fn serve() -> Result<Exit, Failure> {
    let stop = stopped_by_signals()?;
    let api = Api::start(&stop).await?;
    let plan = DemoPlan {
        duration: None,
        own_sockets: vec![api.bound],
        ..DemoPlan::default()
    };
    let result = play(&plan, Some(&api), &stop).await;
    stop.cancel();
    let _ = api.served.await;
    result
}

fn stopped_by_signals() -> Result<CancellationToken, Failure> {
    let stop = CancellationToken::new();
    ambient::spawn("signals", daemon::signals(stop.clone(), daemon::CLOSING)?);
    Ok(stop)
}

/// In the console, until the operator leaves; then the report.
pub(super) async fn show(settings: ConsoleSettings) -> Result<Exit, Failure> {
    let scratch = ScratchDirectory::create()?;
    let plan = DemoPlan {
        duration: None,
        ..DemoPlan::default()
    };
    let demo = Demo::start(scratch.path(), &plan, Clock::system())
        .await
        .map_err(failure)?;
    let engine = demo.engine().clone();
    let connect = Connect::new(move || std::future::ready(Ok(engine.clone().into())));
    let shown = super::console::ended(
        Box::pin(crate::console::run(connect, settings, demo.over())).await,
        None,
    )
    .map(drop);
    let report = demo.stop().await.map_err(failure)?;
    shown?;
    let mut out = io::stdout();
    write!(out, "{}", report.render())?;
    out.flush()?;
    Ok(if report.passed() { Exit::Done } else { Exit::Failed })
}

async fn play(plan: &DemoPlan, api: Option<&Api>, stop: &CancellationToken) -> Result<Exit, Failure> {
    let scratch = ScratchDirectory::create()?;
    let demo = Demo::start(scratch.path(), plan, Clock::system())
        .await
        .map_err(failure)?;
    if let Some(api) = api {
        api.backend.set(demo.engine().clone());
    }
    let mut out = io::stdout();
    let report = demo::run(demo, &mut out, stop.clone()).await.map_err(failure)?;
    write!(out, "\n{}", report.render())?;
    out.flush()?;
    Ok(if report.passed() { Exit::Done } else { Exit::Failed })
}

/// A reader of our output that went away is told apart from a demo that could not run.
fn failure(error: anyhow::Error) -> Failure {
    error
        .downcast::<io::Error>()
        .map_or_else(|error| Failure::of(Exit::Failed, error.as_ref()), Failure::from)
}

struct Api {
    bound: SocketAddr,
    backend: Backend,
    served: JoinHandle<()>,
}

impl Api {
    async fn start(stop: &CancellationToken) -> Result<Self, Failure> {
        let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?,
        };
        let bound = listener.local_addr()?;
        // What it shows is made up; what it sends, other users of this machine could have it send.
        let secret = files::new_secret()?;
        let settings = ApiSettings {
            listen: bound,
            hosts: Vec::new(),
            tokens: vec![ApiToken::new("demo", &secret, Scopes::new(vec![Scope::Admin]), None)],
            connections_per_address: 256,
            trusted_proxies: Vec::new(),
            probe_metrics: false,
            memory: crate::budget::Budget::default(),
            masks: MaskRules::usual(),
        };
        let doors = Doors {
            listener,
            tls: None,
            unix: None,
            probe: None,
        };
        let backend = Backend::default();
        let metrics = daemon::metrics(None)?;
        let served = daemon::serve_api(doors, settings, &backend, metrics, stop);
        cli::notice(&format!(
            "listening on http://{bound}, for this run with a token of its own:"
        ));
        cli::notice(&format!(
            "    curl -H 'Authorization: Bearer {secret}' http://{bound}/v1/queues"
        ));
        Ok(Self { bound, backend, served })
    }
}
