//! How fast a client has to be, whichever way the bytes go.
//!
//! It may stand still for a grace. What it uses up of that comes back with the bytes that it moves, at a least speed,
//! and never beyond the grace: who sends much at once may not rest the longer for it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::ambient::Clock;

/// In one second, on the average.
const BYTES_A_SECOND: u64 = 32 * 1024;

/// For how long somebody is still waited for.
#[derive(Debug)]
pub(super) struct Pace {
    grace: Duration,
    left: Duration,
}

impl Pace {
    pub(super) const fn new(grace: Duration) -> Self {
        Self { grace, left: grace }
    }

    pub(super) const fn left(&self) -> Duration {
        self.left
    }

    /// `bytes` were moved after they were `waited` for; false when that was too long.
    pub(super) fn moved(&mut self, bytes: usize, waited: Duration) -> bool {
        let Some(left) = self.left.checked_sub(waited) else {
            self.left = Duration::ZERO;
            return false;
        };
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let earned = Duration::from_micros(bytes.saturating_mul(1_000_000) / BYTES_A_SECOND);
        self.left = left.saturating_add(earned).min(self.grace);
        true
    }
}

/// A connection whose answers have to be taken at a pace. Time in which nothing waits to be written does not count.
#[derive(Debug)]
pub(super) struct Paced<S> {
    stream: S,
    pace: Pace,
    clock: Clock,
    /// Since when a write waits (uptime).
    waits_since: Option<Duration>,
}

impl<S> Paced<S> {
    pub(super) const fn new(stream: S, grace: Duration, clock: Clock) -> Self {
        Self {
            stream,
            pace: Pace::new(grace),
            clock,
            waits_since: None,
        }
    }

    fn judge(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => {
                self.waits_since.get_or_insert_with(|| self.clock.uptime());
                Poll::Pending
            }
            Poll::Ready(Ok(bytes)) => {
                let since = self.waits_since.take();
                let waited = since.map(|since| self.clock.uptime().saturating_sub(since));
                if self.pace.moved(bytes, waited.unwrap_or_default()) {
                    Poll::Ready(Ok(bytes))
                } else {
                    Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "the answer is taken too slowly",
                    )))
                }
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::domain::time::Timestamp;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn who_sent_much_may_stand_still_no_longer_than_others() {
        let mut pace = Pace::new(10 * SECOND);
        assert!(pace.moved(24 << 20, SECOND / 2));
        assert_eq!(pace.left(), 10 * SECOND);
        assert!(!pace.moved(1, 11 * SECOND));
    }

    #[test]
    fn who_keeps_the_least_speed_is_waited_for_and_who_is_slower_only_for_a_while() {
        let seconds = |bytes: usize| {
            let mut pace = Pace::new(10 * SECOND);
            (0..1000).take_while(|_| pace.moved(bytes, SECOND)).count()
        };
        assert_eq!(seconds(32 * 1024), 1000);
        assert_eq!(seconds(16 * 1024), 19);
        assert_eq!(seconds(1), 10);
    }

    #[tokio::test]
    async fn who_takes_an_answer_in_crumbs_does_not_hold_it_for_ever() {
        let clock = Clock::manual(Timestamp::from_seconds(1_700_000_000));
        let (near, mut far) = tokio::io::duplex(1024);
        let mut near = Paced::new(near, 20 * SECOND, clock.clone());
        let answer = vec![b'x'; 1 << 20];
        let mut writing = Box::pin(near.write_all(&answer));
        let mut took = 0;
        let ended = loop {
            if let Some(ended) = writing.as_mut().now_or_never() {
                break ended;
            }
            // Just before a single write would have waited too long.
            clock.advance(19 * SECOND);
            took += far.read(&mut [0; 100]).await.unwrap();
        };
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(took < 1000, "{took}");
    }

    #[tokio::test]
    async fn an_answer_that_is_long_in_the_making_is_not_taken_slowly() {
        let clock = Clock::manual(Timestamp::from_seconds(1_700_000_000));
        let (near, mut far) = tokio::io::duplex(1024);
        let mut near = Paced::new(near, 20 * SECOND, clock.clone());
        for _ in 0..10 {
            near.write_all(b"a part").await.unwrap();
            clock.advance(60 * SECOND);
            far.read_exact(&mut [0; 6]).await.unwrap();
        }
    }
}
