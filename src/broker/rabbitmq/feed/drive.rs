//! The task that reads and writes a consuming connection.
//!
//! It takes what came, wakes those whom it is for, and writes what is in line: at each turn once, whoever put it there.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::time::Interval;

use super::super::failure::Ended;
use super::super::frames;
use super::super::line::CLOSE;
use super::super::wire::{Transport, Wire};
use super::Shared;
use crate::ambient;

/// What is read at once, at first: it grows to a frame of the largest size when one comes.
const READ_BYTES: usize = 16 * 1024;
/// Reads before others have their turn.
const READS_MAX: usize = 16;
/// What a frame has beside its payload.
const FRAME_BYTES: usize = 8;
/// Half heartbeats without a byte after which the peer is dead: two whole ones.
const SILENT_MAX: u32 = 4;

pub(super) struct Driver {
    stream: Box<dyn Transport>,
    shared: Arc<Shared>,
    frame_max: usize,
    came: Vec<u8>,
    filled: usize,
    sending: Vec<u8>,
    sent: usize,
    /// Each half heartbeat, where there are any.
    beat: Option<Interval>,
    heartbeat: Duration,
    silent: u32,
    has_written: bool,
    /// Once our close was asked for.
    patience: Option<Pin<Box<ambient::Sleep>>>,
    wakers: Vec<Waker>,
}

impl Driver {
    pub(super) fn new(wire: Wire, shared: Arc<Shared>) -> Self {
        let heartbeat = Duration::from_secs(wire.tuned.heartbeat_s.into());
        Self {
            stream: wire.stream,
            shared,
            frame_max: wire.tuned.frame_max as usize,
            came: vec![0; READ_BYTES],
            filled: 0,
            sending: Vec::new(),
            sent: 0,
            beat: (!heartbeat.is_zero()).then(|| ambient::interval(heartbeat / 2)),
            heartbeat,
            silent: 0,
            has_written: false,
            patience: None,
            wakers: Vec::new(),
        }
    }

    /// Until the connection ends.
    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let ended = std::future::poll_fn(|context| self.turn(context)).await;
        shared.end(ended);
    }

    fn turn(&mut self, context: &mut Context<'_>) -> Poll<Ended> {
        self.shared.task.register(context.waker());
        let (ended, closing) = {
            let state = self.shared.lock();
            (state.ended.clone(), state.closing)
        };
        if let Some(ended) = ended {
            return Poll::Ready(ended);
        }
        if closing {
            let patience = self.patience.get_or_insert_with(|| Box::pin(ambient::sleep(CLOSE)));
            if patience.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ended::Lost("closed without an answer".to_owned()));
            }
        }
        if let Poll::Ready(ended) = self.beats(context) {
            return Poll::Ready(ended);
        }
        if let Poll::Ready(ended) = self.read(context) {
            // An answer to the end that came, as far as the socket takes it at once.
            let _ = self.write(context);
            return Poll::Ready(ended);
        }
        self.write(context)
    }

    /// Says that we live, and looks whether the broker does.
    fn beats(&mut self, context: &mut Context<'_>) -> Poll<Ended> {
        let Some(beat) = &mut self.beat else {
            return Poll::Pending;
        };
        while beat.poll_tick(context).is_ready() {
            self.silent += 1;
            if self.silent > SILENT_MAX {
                let bound = (self.heartbeat * 2).as_secs();
                return Poll::Ready(Ended::Lost(format!("the broker was silent for {bound} s")));
            }
            if !std::mem::take(&mut self.has_written) {
                self.shared.lock().put_heartbeat();
            }
        }
        Poll::Pending
    }

    fn read(&mut self, context: &mut Context<'_>) -> Poll<Ended> {
        for _ in 0..READS_MAX {
            if self.filled == self.came.len() {
                let size = (self.came.len() * 2).min(self.frame_max + FRAME_BYTES);
                self.came.resize(size.max(self.filled + FRAME_BYTES), 0);
            }
            let mut room = ReadBuf::new(&mut self.came[self.filled..]);
            let read = match Pin::new(&mut self.stream).poll_read(context, &mut room) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Ended::Lost(error.to_string())),
                Poll::Ready(Ok(())) => room.filled().len(),
            };
            if read == 0 {
                return Poll::Ready(Ended::Lost("the broker ended the connection".to_owned()));
            }
            self.silent = 0;
            self.filled += read;
            if let Err(ended) = self.take() {
                return Poll::Ready(ended);
            }
        }
        // There may be more: once others had their turn.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes in the frames that are whole.
    fn take(&mut self) -> Result<(), Ended> {
        let mut at = 0;
        let outcome = {
            let mut state = self.shared.lock();
            loop {
                match frames::first(&self.came[at..self.filled], self.frame_max) {
                    Ok(Some(piece)) => {
                        at += piece.size;
                        if let Err(ended) = state.take(&piece, &mut self.wakers) {
                            break Err(ended);
                        }
                    }
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(Ended::Undecodable(error.to_string())),
                }
            }
        };
        self.came.copy_within(at..self.filled, 0);
        self.filled -= at;
        self.wake();
        outcome
    }

    fn write(&mut self, context: &mut Context<'_>) -> Poll<Ended> {
        loop {
            if self.sent == self.sending.len() {
                self.sent = 0;
                self.shared.lock().next_to_write(&mut self.sending);
                if self.sending.is_empty() {
                    break;
                }
            }
            let written = match Pin::new(&mut self.stream).poll_write(context, &self.sending[self.sent..]) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => written,
            };
            let written = match written {
                Ok(written) => written,
                Err(error) => return Poll::Ready(Ended::Lost(error.to_string())),
            };
            self.sent += written;
            self.has_written = true;
            // Over TLS it is with the socket only when it is flushed.
            match Pin::new(&mut self.stream).poll_flush(context) {
                Poll::Ready(Err(error)) => return Poll::Ready(Ended::Lost(error.to_string())),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            self.shared.lock().wrote(written, &mut self.wakers);
            self.wake();
        }
        Poll::Pending
    }

    fn wake(&mut self) {
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
    }
}
