//! Connections that know what came over them.
//!
//! A receiver may close an idle connection just as the next request is sent. Nobody is to blame for that, and whether
//! it was that, only the connection can say: it had carried an answer before, and no byte came since the request
//! began. Bytes are counted above TLS, whose own records are no answer.
//!
//! A name may be moved to another address while requests keep its connections busy. One that is old breaks when the
//! next request begins, as if the receiver had closed it, and the name is resolved again.

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

use crate::ambient::{self, Clock};

use super::resolver::CheckedResolver;

/// A silent peer is asked whether it is there after this long, and again after as long.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 3;
/// A connection is used for so long, at most; by chance for down to half of it, so that not all are made again at once.
const AGE_MAX: Duration = Duration::from_secs(60);

/// Connects, over TLS where the URL says so, to addresses that may be connected to.
#[derive(Clone)]
pub(super) struct Connector {
    https: HttpsConnector<HttpConnector<CheckedResolver>>,
    clock: Clock,
}

impl Connector {
    pub(super) fn new(resolver: CheckedResolver, tls: rustls::ClientConfig, clock: Clock) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        Self {
            https: HttpsConnector::from((tcp, tls)),
            clock,
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
        let (connecting, clock) = (self.https.call(uri), self.clock.clone());
        Box::pin(async move {
            Ok(TokioIo::new(Counted {
                stream: TokioIo::new(connecting.await?),
                traffic: Arc::default(),
                old_at: clock.uptime() + AGE_MAX.mul_f64(0.5 + ambient::roll() / 2.0),
                clock,
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

    /// Something is about to be written: whether it begins another request.
    fn begins_again(&self) -> bool {
        let again = self.answered.swap(false, Ordering::AcqRel);
        if again {
            self.read_before
                .store(self.read.load(Ordering::Acquire), Ordering::Release);
            self.reused.store(true, Ordering::Release);
        }
        again
    }
}

/// A stream whose traffic is counted.
#[derive(Debug)]
pub(super) struct Counted {
    stream: TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>,
    traffic: Arc<Traffic>,
    /// No request begins over it from then on (uptime).
    old_at: Duration,
    clock: Clock,
}

impl Counted {
    fn may_write(&self) -> io::Result<()> {
        if self.traffic.begins_again() && self.clock.uptime() >= self.old_at {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
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
        self.may_write()?;
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
        self.may_write()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
