//! Connections that know what came over them.
//!
//! A receiver may close an idle connection just as the next request is sent. Nobody is to blame for that, and whether
//! it was that, only the connection can say: it had carried an answer before, and no byte came since the request
//! began. Bytes are counted above TLS, whose own records are no answer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower_service::Service;

use super::resolver::CheckedResolver;

/// A silent peer is asked whether it is there after this long, and again after as long.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 3;

/// Connects, over TLS where the URL says so, to addresses that may be connected to.
#[derive(Clone)]
pub(super) struct Connector {
    https: HttpsConnector<HttpConnector<CheckedResolver>>,
}

impl Connector {
    pub(super) fn new(resolver: CheckedResolver, tls: rustls::ClientConfig) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        Self {
            https: HttpsConnector::from((tcp, tls)),
        }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Counted>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.https.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.https.call(uri);
        Box::pin(async move {
            Ok(TokioIo::new(Counted {
                stream: TokioIo::new(connecting.await?),
                traffic: Arc::default(),
            }))
        })
    }
}

/// What went over a connection.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// Bytes that came.
    read: AtomicU64,
    /// Bytes that had come when the present request began.
    read_before: AtomicU64,
    /// A whole answer came, and no request was begun since.
    answered: AtomicBool,
    /// An earlier request was answered over it.
    reused: AtomicBool,
}

impl Traffic {
    /// A whole answer came. Said too late, the next request counts as one over a connection that has begun to
    /// answer, and is not tried again.
    pub(super) fn answer_ended(&self) {
        self.answered.store(true, Ordering::Release);
    }

    /// Whether the present request is not the first, and nothing came since it began.
    pub(super) fn is_stale(&self) -> bool {
        let nothing_came = || self.read.load(Ordering::Acquire) == self.read_before.load(Ordering::Acquire);
        self.reused.load(Ordering::Acquire) && nothing_came()
    }

    fn writes(&self) {
        if self.answered.swap(false, Ordering::AcqRel) {
            self.read_before
                .store(self.read.load(Ordering::Acquire), Ordering::Release);
            self.reused.store(true, Ordering::Release);
        }
    }
}

/// A stream whose traffic is counted.
#[derive(Debug)]
pub(super) struct Counted {
    stream: TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>,
    traffic: Arc<Traffic>,
}

impl Connection for Counted {
    fn connected(&self) -> Connected {
        self.stream.inner().connected().extra(Arc::clone(&self.traffic))
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let came = u64::try_from(buffer.filled().len() - before).unwrap_or(0);
        self.traffic.read.fetch_add(came, Ordering::AcqRel);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.traffic.writes();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.traffic.writes();
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
