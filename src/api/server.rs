//! The server loop: accepts, limits and drains connections.
//!
//! Own code rather than `axum::serve`, because only here the time for a request's headers, the time in which an
//! answer is taken, and the number of connections can be limited.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

use crate::ambient::{self, Clock};
use crate::telemetry::LoggedAt;

use super::connections::{Busy, Connections, Place};
use super::linger::Lingering;
use super::network::holder;
use super::pace::Paced;
use super::tls::Tls;

/// Connections of one listener at one time, at most.
const CONNECTIONS_MAX: usize = 1024;
/// A request's headers have to arrive within this time; an idle connection is closed after it. So has the client's
/// part of a TLS handshake.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// A client takes the next part of an answer within this time, and the whole at a pace with this grace.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Requests in hand may finish within this time after the stop.
const DRAIN: Duration = Duration::from_secs(5);
/// Pause after a failed accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Each try fails while the limit of open files is reached.
static NOT_ACCEPTED: LoggedAt = LoggedAt::never();

/// The two ends of a request's connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) remote: IpAddr,
    pub(super) local: IpAddr,
    /// Nobody but this user can open this connection.
    pub(super) is_owner: bool,
}

/// Where connections come from.
pub(super) enum Door {
    Tcp { listener: TcpListener, tls: Option<Tls> },
    Unix(UnixListener),
}

/// How many may come.
pub(super) struct Bounds {
    pub(super) per_address: usize,
    /// Of these, any number.
    pub(super) unbounded: Vec<IpNet>,
}

enum Stream {
    Tcp(TcpStream, Option<Tls>),
    Unix(UnixStream),
}

/// Serves one door until `stop` is cancelled.
pub(super) async fn run(door: Door, bounds: Bounds, router: Router, stop: CancellationToken) {
    let open = Connections::new(CONNECTIONS_MAX, Some(bounds.per_address));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&door) => accepted,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(?error, "a connection of the API ended by a panic");
                }
                continue;
            }
        };
        match accepted {
            Ok((stream, peer)) => {
                let remote = peer.remote.to_canonical();
                let is_bounded = !peer.is_owner && !bounds.unbounded.iter().any(|network| network.contains(&remote));
                if let Some(place) = open.admit(is_bounded.then(|| holder(remote))) {
                    connections.spawn(connection(stream, peer, router.clone(), stop.clone(), Arc::new(place)));
                } else {
                    tracing::debug!(address = %remote, "every connection to the API has a request in flight");
                }
            }
            Err(error) => {
                if NOT_ACCEPTED.is_due(Clock::system().uptime()) {
                    tracing::warn!(?error, "connections to the API cannot be accepted");
                }
                ambient::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(door);
    let drained = ambient::timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        tracing::warn!(
            open = connections.len(),
            "requests were still in flight when the drain ended"
        );
    }
}

/// May be dropped and called again.
async fn accept(door: &Door) -> io::Result<(Stream, Peer)> {
    match door {
        Door::Tcp { listener, tls } => {
            let (stream, remote) = listener.accept().await?;
            let local = stream.local_addr()?.ip();
            let _ = stream.set_nodelay(true);
            let peer = Peer {
                remote: remote.ip(),
                local,
                is_owner: false,
            };
            Ok((Stream::Tcp(stream, tls.clone()), peer))
        }
        Door::Unix(listener) => {
            let (stream, _) = listener.accept().await?;
            let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let peer = Peer {
                remote: here,
                local: here,
                is_owner: true,
            };
            Ok((Stream::Unix(stream), peer))
        }
    }
}

async fn connection(stream: Stream, peer: Peer, router: Router, stop: CancellationToken, place: Arc<Place>) {
    match stream {
        Stream::Unix(stream) => serve(stream, peer, router, stop, place).await,
        Stream::Tcp(stream, None) => serve(stream, peer, router, stop, place).await,
        Stream::Tcp(stream, Some(tls)) => {
            let shaken = tokio::select! {
                shaken = ambient::timeout(HEADER_TIMEOUT, tls.accept(stream)) => shaken,
                () = place.close.cancelled() => return,
                () = stop.cancelled() => return,
            };
            match shaken {
                Ok(Ok(stream)) => serve(stream, peer, router, stop, place).await,
                Ok(Err(error)) => tracing::debug!(?error, "a TLS handshake with the API failed"),
                Err(_) => tracing::debug!("a TLS handshake with the API took too long"),
            }
        }
    }
}

async fn serve<S>(stream: S, peer: Peer, router: Router, stop: CancellationToken, place: Arc<Place>)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let inner = TowerToHyperService::new(router);
    let in_hand = Arc::clone(&place);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let busy = in_hand.begin();
        request.extensions_mut().insert(peer);
        let answer = inner.call(request);
        async move {
            let answer = answer.await.unwrap_or_else(|never| match never {});
            Ok::<_, Infallible>(answer.map(|body| Answering { body, _busy: busy }))
        }
    });
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIMEOUT));
    let stream = Lingering::new(Paced::new(Box::pin(stream), WRITE_TIMEOUT, Clock::system()));
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = place.close.cancelled() => return,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(?error, "a connection of the API ended early");
    }
}

/// An answer: its request is in hand until the last of it is given away.
struct Answering {
    body: Body,
    _busy: Busy,
}

impl hyper::body::Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
