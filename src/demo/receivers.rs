//! Six endpoints on loopback that behave differently, each with a port of its own.
//!
//! They are deterministic by the count of their requests, and note in the ledger what arrives. The one
//! that is down does not listen: connections to it are refused, and it comes back on the same port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ledger::Ledger;
use super::plan::DemoPlan;
use super::server::{self, Received};
use crate::ambient;
use crate::domain::url::{EndpointUrl, UrlError};

/// Between two tries to listen again where somebody else took the port meanwhile.
const REBIND_PAUSE: Duration = Duration::from_millis(200);

/// How an endpoint behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Behaviour {
    /// Answers 200 at once.
    Healthy,
    /// Answers 200 after 400 to 900 ms.
    Slow,
    /// Refuses connections for a while, then answers 200.
    Down,
    /// Answers about one request in four with 503.
    Flaky,
    /// Always answers 500.
    Failing,
    /// Always answers 410.
    Gone,
}

impl Behaviour {
    /// All six, in the order of the report.
    pub const ALL: [Self; 6] = [
        Self::Healthy,
        Self::Slow,
        Self::Down,
        Self::Flaky,
        Self::Failing,
        Self::Gone,
    ];

    /// The name: the path of its URL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Slow => "slow",
            Self::Down => "down",
            Self::Flaky => "flaky",
            Self::Failing => "failing",
            Self::Gone => "gone",
        }
    }

    /// Whether it takes everything in the end.
    #[must_use]
    pub const fn recovers(self) -> bool {
        match self {
            Self::Healthy | Self::Slow | Self::Down | Self::Flaky => true,
            Self::Failing | Self::Gone => false,
        }
    }

    /// What it does, for people.
    pub(super) fn description(self, plan: &DemoPlan) -> String {
        match self {
            Self::Healthy => "answers 200 at once".to_owned(),
            Self::Slow => "answers 200 after 0.4 to 0.9 s".to_owned(),
            Self::Down => format!("refuses connections for {} s, then comes back", plan.down_for.as_secs()),
            Self::Flaky => "answers one request in four with 503".to_owned(),
            Self::Failing => "always answers 500".to_owned(),
            Self::Gone => "always answers 410".to_owned(),
        }
    }

    /// The status of the n-th request; the flaky one also fails twice in a row at times.
    const fn status(self, n: u64) -> u16 {
        match self {
            Self::Flaky if n % 4 == 2 || n % 32 == 11 => 503,
            Self::Healthy | Self::Slow | Self::Down | Self::Flaky => 200,
            Self::Failing => 500,
            Self::Gone => 410,
        }
    }

    const fn delay(self, n: u64) -> Duration {
        match self {
            Self::Slow => Duration::from_millis(400 + n * 137 % 501),
            Self::Healthy | Self::Down | Self::Flaky | Self::Failing | Self::Gone => Duration::ZERO,
        }
    }
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct DemoEndpoint {
    /// How it behaves.
    pub behaviour: Behaviour,
    /// Where it is.
    pub url: EndpointUrl,
}

/// What answers at an endpoint.
#[derive(Debug)]
pub(super) struct Receiver {
    behaviour: Behaviour,
    ledger: Ledger,
    requests: AtomicU64,
}

impl Receiver {
    /// The status, when it is time to answer. A test from an operator has no queue and does not count.
    pub(super) async fn answer(&self, received: &Received) -> u16 {
        let (Some(queue), Some(id)) = (&received.queue, &received.id) else {
            return self.behaviour.status(0);
        };
        let n = self.requests.fetch_add(1, Ordering::Relaxed);
        ambient::sleep(self.behaviour.delay(n)).await;
        let status = self.behaviour.status(n);
        self.ledger.arrived(queue, id, status == 200);
        status
    }
}

/// The six endpoints at work.
#[derive(Debug)]
pub(super) struct Receivers {
    pub(super) endpoints: Vec<DemoEndpoint>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Receivers {
    /// All six listen when this returns.
    pub(super) async fn start(plan: &DemoPlan, ledger: &Ledger) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let mut receivers = Self {
            endpoints: Vec::new(),
            stop: stop.clone(),
            tasks: Vec::new(),
        };
        for behaviour in Behaviour::ALL {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            let address = listener.local_addr()?;
            let url = url_of(address, behaviour)?;
            receivers.endpoints.push(DemoEndpoint { behaviour, url });
            let receiver = Arc::new(Receiver {
                behaviour,
                ledger: ledger.clone(),
                requests: AtomicU64::new(0),
            });
            receivers.tasks.push(match behaviour {
                Behaviour::Down => {
                    let outages = outages(listener, address, receiver, plan.clone(), stop.clone());
                    ambient::spawn("demo outages", outages)
                }
                Behaviour::Healthy | Behaviour::Slow | Behaviour::Flaky | Behaviour::Failing | Behaviour::Gone => {
                    ambient::spawn("demo receiver", server::serve(listener, receiver, stop.clone()))
                }
            });
        }
        Ok(receivers)
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

fn url_of(address: SocketAddr, behaviour: Behaviour) -> Result<EndpointUrl, UrlError> {
    EndpointUrl::parse(&format!("http://{address}/{}", behaviour.name()))
}

/// Up, down, and up again on the same port.
async fn outages(
    listener: TcpListener,
    address: SocketAddr,
    receiver: Arc<Receiver>,
    plan: DemoPlan,
    stop: CancellationToken,
) {
    let mut listener = Some(listener);
    let mut up_for = plan.down_after;
    while let Some(listening) = listener.take() {
        let up = stop.child_token();
        let served = ambient::spawn(
            "demo receiver",
            server::serve(listening, Arc::clone(&receiver), up.clone()),
        );
        ambient::wait(&stop, up_for).await;
        up.cancel();
        let _ = served.await;
        ambient::wait(&stop, plan.down_for).await;
        up_for = plan.up_for;
        listener = listen_again(address, &stop).await;
    }
}

async fn listen_again(address: SocketAddr, stop: &CancellationToken) -> Option<TcpListener> {
    while !stop.is_cancelled() {
        let bound: io::Result<TcpListener> = TcpListener::bind(address).await;
        match bound {
            Ok(listener) => return Some(listener),
            Err(error) => tracing::warn!(error = ?error, "a demo endpoint cannot come back yet"),
        }
        ambient::wait(stop, REBIND_PAUSE).await;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flaky_endpoint_fails_about_one_request_in_four_and_never_three_in_a_row() {
        let failed: Vec<bool> = (0..320).map(|n| Behaviour::Flaky.status(n) == 503).collect();
        assert_eq!(failed.iter().filter(|failed| **failed).count(), 90);
        assert!(failed.windows(2).any(|two| two == [true, true]));
        assert!(!failed.windows(3).any(|three| three == [true, true, true]));
    }

    #[test]
    fn the_slow_endpoint_takes_400_to_900_ms() {
        let delays: Vec<u128> = (0..1_000).map(|n| Behaviour::Slow.delay(n).as_millis()).collect();
        assert_eq!((delays.iter().min(), delays.iter().max()), (Some(&400), Some(&900)));
    }
}
