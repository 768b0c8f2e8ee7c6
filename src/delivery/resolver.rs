//! Name resolution that hands out allowed addresses only.
//!
//! A name is as good as its worst address: one that must not be reached refuses the name, so that an
//! answer which mixes a public address with an internal one cannot be played against the connector.
//! Rules know ports, but a resolver is asked for names only: the port travels beside the call, and
//! without it nothing is resolved.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

use super::guard::Guard;
use super::lookups::Lookups;
use crate::domain::egress::AddressRefusal;

tokio::task_local! {
    /// The port of the request that this task is sending.
    pub(super) static DIALLED_PORT: u16;
}

/// Resolves through the system.
#[derive(Clone, Debug)]
pub(super) struct CheckedResolver {
    guard: Arc<Guard>,
    lookups: Arc<Lookups>,
    patience: Duration,
}

/// Why a name gave no address to connect to.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    #[error("cannot resolve the host name: {0}")]
    Lookup(std::io::Error),
    #[error("the name {0} was not resolved in time: its name server does not answer")]
    Silent(String),
    #[error("the name {0} was not looked up in time: too many other names wait for name servers that do not answer")]
    Full(String),
    #[error(
        "the name {0} was not looked up in time: its name server did not answer the last time, and it waits behind other such names"
    )]
    Behind(String),
    #[error(
        "the name {0} was not looked up: this process can start no thread for it ({1}); allow it more processes or memory"
    )]
    NoThread(String, std::io::Error),
    #[error("the host name has no address")]
    Empty,
    #[error("the host name leads to {}", .0.of_name())]
    Refused(AddressRefusal),
    #[error("the host name leads to an address that may be connected to, and to {}", .0.of_name())]
    PartlyRefused(AddressRefusal),
    #[error("the host name was resolved outside of a request")]
    Outside,
}

impl CheckedResolver {
    /// Whose lookups end before an attempt that may take as long as `timeout`, so that it is told what it waited for.
    pub(super) fn new(guard: Arc<Guard>, lookups: Arc<Lookups>, timeout: Duration) -> Self {
        Self {
            guard,
            lookups,
            patience: timeout.mul_f64(0.95),
        }
    }

    /// What it leads to now, where all of that may be connected to on this port.
    pub(super) async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ResolveError> {
        let found = self.lookups.find(host, port, self.patience).await?;
        if found.is_empty() {
            return Err(ResolveError::Empty);
        }
        let checked = found.iter().map(|address| self.guard.check(address.ip(), port).err());
        let refused: Vec<AddressRefusal> = checked.flatten().collect();
        let Some(refusal) = refused.first() else {
            return Ok(found);
        };
        tracing::debug!(%host, %refusal, "a name leads to an address that is refused");
        Err(if refused.len() == found.len() {
            ResolveError::Refused(*refusal)
        } else {
            ResolveError::PartlyRefused(*refusal)
        })
    }
}

impl Service<Name> for CheckedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ResolveError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        // Read here and not in the future: the connector may finish on a task of its own.
        let port = DIALLED_PORT.try_with(|port| *port);
        let resolver = self.clone();
        Box::pin(async move {
            let port = port.map_err(|_| ResolveError::Outside)?;
            let found = resolver.addresses(name.as_str(), port).await?;
            Ok(found.into_iter())
        })
    }
}
