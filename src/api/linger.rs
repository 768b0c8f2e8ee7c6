//! A connection that is closed after an answer which did not wait for the whole request.
//!
//! A socket that is closed with bytes in it that nobody read is reset, and a reset takes the answer away from a client
//! that still writes (RFC 9112, 9.6). So what it writes is taken for a while after our end is shut, as long as it goes on
//! writing. Its place is given to whoever needs it meanwhile: no request is in hand.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::ambient;

/// For how long, at most.
const LINGER: Duration = Duration::from_secs(30);
/// A client that writes nothing for so long has nothing to write.
const IDLE: Duration = Duration::from_secs(1);
/// One that wrote is waited for longer: a slow link has pauses.
const PAUSE: Duration = Duration::from_secs(5);
/// Taken at once.
const CHUNK: usize = 16 * 1024;

/// What is left once our end is shut.
struct Shut {
    /// Until when something is taken.
    until: Pin<Box<Sleep>>,
    /// Until when the next of it has to come.
    next: Pin<Box<Sleep>>,
}

/// The stream of such a connection.
pub(super) struct Lingering<S> {
    stream: S,
    shut: Option<Shut>,
}

impl<S> Lingering<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self { stream, shut: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Ready when the client closed its end too, or was lingered for long enough.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.shut.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        let shut = this.shut.get_or_insert_with(|| Shut {
            until: Box::pin(ambient::sleep(LINGER)),
            next: Box::pin(ambient::sleep(IDLE)),
        });
        let mut room = [0; CHUNK];
        while shut.until.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut room);
            match Pin::new(&mut this.stream).poll_read(context, &mut buffer) {
                Poll::Pending => {
                    ready!(shut.next.as_mut().poll(context));
                    break;
                }
                Poll::Ready(read) if read.is_err() || buffer.filled().is_empty() => break,
                Poll::Ready(_) => shut.next = Box::pin(ambient::sleep(PAUSE)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn a_client_that_still_writes_gets_the_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let serving = ambient::spawn("server", async move {
            let mut stream = Lingering::new(listener.accept().await.unwrap().0);
            stream.write_all(b"413").await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let (mut reads, mut writes) = TcpStream::connect(at).await.unwrap().into_split();
        let body = vec![b'x'; 30 << 20];
        writes.write_all(&body).await.expect("nothing is reset");
        drop(writes);
        let mut answer = String::new();
        reads.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "413");
        serving.await.unwrap();
    }

    #[expect(clippy::disallowed_methods, reason = "the clock of timers, which stands still here")]
    fn now() -> tokio::time::Instant {
        tokio::time::Instant::now()
    }

    /// How many seconds a client is lingered for that writes so many pieces, one in two seconds, and never closes.
    async fn lingers(pieces: u32) -> u64 {
        let (near, mut far) = tokio::io::duplex(1024);
        let client = ambient::spawn("client", async move {
            for _ in 0..pieces {
                ambient::sleep(Duration::from_millis(900)).await;
                if far.write_all(b"more").await.is_err() {
                    break;
                }
                ambient::sleep(Duration::from_millis(1_100)).await;
            }
            far
        });
        let began = now();
        Lingering::new(near).shutdown().await.unwrap();
        let took = now() - began;
        client.abort();
        took.as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_lingered_for_as_long_as_it_writes_and_not_for_ever() {
        assert_eq!((lingers(0).await, lingers(4).await, lingers(99).await), (1, 11, 30));
    }
}
