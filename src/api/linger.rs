//! A connection that is closed after an answer which did not wait for the whole request.
//!
//! A socket that is closed with bytes in it that nobody read is reset, and a reset takes the answer away from a client
//! that still writes (RFC 9112, 9.6). So what it writes is taken for a while after our end is shut.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::ambient;

/// For how long.
const LINGER: Duration = Duration::from_secs(1);
/// How much, at most.
const LINGER_BYTES: usize = 64 * 1024 * 1024;
/// Taken at once.
const CHUNK: usize = 16 * 1024;

/// The stream of such a connection.
pub(super) struct Lingering<S> {
    stream: S,
    /// Once our end is shut: until when, and how many bytes were taken since.
    shut: Option<(Pin<Box<Sleep>>, usize)>,
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
        let (until, taken) = this.shut.get_or_insert_with(|| (Box::pin(ambient::sleep(LINGER)), 0));
        let mut room = [0; CHUNK];
        while *taken < LINGER_BYTES && until.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut room);
            let read = ready!(Pin::new(&mut this.stream).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                break;
            }
            *taken += buffer.filled().len();
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

    #[tokio::test]
    async fn a_client_that_does_not_close_is_left_after_a_while() {
        let (near, _far) = tokio::io::duplex(1024);
        let shut = ambient::timeout(4 * LINGER, async { Lingering::new(near).shutdown().await });
        assert!(shut.await.unwrap().is_ok());
    }
}
