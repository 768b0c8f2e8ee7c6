//! The body of a request, which is taken back when the attempt is over.
//!
//! A connection whose peer reads nothing keeps what it was given for as long as it stands, which may be long after the
//! deadline. So a large body is handed to it piece by piece, as copies, and what is left of it is the attempt's.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// A body of no more than this is handed over whole.
const PIECE: usize = 64 * 1024;

type Shared = Arc<Mutex<Option<Bytes>>>;

/// A body that is lent to connections until this is dropped.
#[derive(Debug)]
pub(super) struct Lent {
    bytes: Shared,
    size: usize,
}

impl Lent {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self {
            size: bytes.len(),
            bytes: Arc::new(Mutex::new(Some(bytes))),
        }
    }

    /// For one connection, from its beginning on.
    pub(super) fn lend(&self) -> Borrowed {
        Borrowed {
            bytes: Arc::clone(&self.bytes),
            size: self.size,
            sent: 0,
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        drop(self.bytes.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// What a connection has of it.
#[derive(Debug)]
pub(super) struct Borrowed {
    bytes: Shared,
    size: usize,
    sent: usize,
}

impl Body for Borrowed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.sent >= self.size {
            return Poll::Ready(None);
        }
        let piece = {
            let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            bytes.as_ref().map(|bytes| {
                if self.size <= PIECE {
                    bytes.clone()
                } else {
                    Bytes::copy_from_slice(&bytes[self.sent..self.size.min(self.sent + PIECE)])
                }
            })
        };
        let Some(piece) = piece else {
            return Poll::Ready(Some(Err(io::Error::other("the attempt is over"))));
        };
        self.sent += piece.len();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.sent >= self.size
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.size - self.sent).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_body_is_sent_whole_as_often_as_it_is_lent() {
        for size in [0, 1, PIECE, PIECE + 1, 3 * PIECE] {
            let bytes: Bytes = (0..size).map(|n| u8::try_from(n % 251).unwrap()).collect();
            let lent = Lent::new(bytes.clone());
            for _ in 0..2 {
                let sent = lent.lend();
                assert_eq!(sent.size_hint().exact(), Some(size as u64));
                assert_eq!(sent.is_end_stream(), size == 0);
                assert_eq!(sent.collect().await.unwrap().to_bytes(), bytes);
            }
        }
    }

    #[tokio::test]
    async fn what_was_not_sent_when_the_attempt_is_over_is_gone() {
        let lent = Lent::new(vec![b'x'; 3 * PIECE].into());
        let mut sent = lent.lend();
        let piece = sent.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(piece.len(), PIECE);
        drop(lent);
        assert!(sent.frame().await.unwrap().is_err());
        assert!(sent.bytes.lock().unwrap().is_none());
    }
}
