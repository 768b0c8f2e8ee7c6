//! The server loop: accepts, limits and drains connections.
//!
//! Own code rather than `axum::serve`, because only here the time for a request's headers and the
//! number of connections can be limited.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Connections at one time, at most; more wait to be accepted.
const CONNECTIONS_MAX: usize = 1024;
/// A request's headers have to arrive within this time; an idle connection is closed after it.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Requests in hand may finish within this time after the stop.
const DRAIN: Duration = Duration::from_secs(5);
/// Pause after a failed accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The two ends of a request's connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) remote: IpAddr,
    pub(super) local: IpAddr,
}

pub(super) async fn run(listener: TcpListener, router: Router, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &room) => accepted,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(?error, "a connection of the API ended by a panic");
                }
                continue;
            }
        };
        match accepted {
            Some((stream, peer, permit)) => {
                connections.spawn(connection(stream, peer, router.clone(), stop.clone(), permit));
            }
            None => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
    drop(listener);
    let drained = tokio::time::timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        tracing::warn!(
            open = connections.len(),
            "requests were still in hand when the drain ended"
        );
    }
}

/// May be dropped and called again: nothing is held between its two waits but a permit.
async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> Option<(TcpStream, Peer, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    let accepted = listener
        .accept()
        .await
        .and_then(|(stream, remote)| Ok((stream.local_addr()?.ip(), stream, remote.ip())));
    match accepted {
        Ok((local, stream, remote)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, Peer { remote, local }, permit))
        }
        Err(error) => {
            tracing::warn!(?error, "a connection to the API could not be accepted");
            None
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: Peer,
    router: Router,
    stop: CancellationToken,
    _permit: OwnedSemaphorePermit,
) {
    let inner = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let answer = inner.call(request);
        async move { Ok::<_, Infallible>(answer.await.unwrap_or_else(|never| match never {})) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(?error, "a connection of the API ended early");
    }
}
