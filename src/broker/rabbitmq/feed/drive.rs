//! The task that reads and writes a consuming connection.
//!
//! It takes what came, wakes those whom it is for, and writes what is in line: one turn after the first of it, so that one
//! write has what all tasks that were ready to run put there.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::time::Interval;

use super::super::dialer::CLOSE;
use super::super::failure::Ended;
use super::super::frames::{self, Piece};
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
    inbound: Inbound,
    outbound: Outbound,
    heartbeat: Heartbeat,
    /// Once our close was asked for.
    patience: Option<Pin<Box<ambient::Sleep>>>,
    wakers: Vec<Waker>,
    /// Others had a turn since something came into line.
    gathered: bool,
}

impl Driver {
    pub(super) fn new(wire: Wire, shared: Arc<Shared>) -> Self {
        Self {
            stream: wire.stream,
            shared,
            inbound: Inbound::new(wire.tuned.frame_max as usize),
            outbound: Outbound::default(),
            heartbeat: Heartbeat::new(Duration::from_secs(wire.tuned.heartbeat_s.into())),
            patience: None,
            wakers: Vec::new(),
            gathered: false,
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
        if let Poll::Ready(ended) = self.heartbeat.poll(&self.shared, context) {
            return Poll::Ready(ended);
        }
        if let Poll::Ready(ended) = self.read(context) {
            // An answer to the end that came, as far as the socket takes it at once.
            let _ = self.write(context);
            return Poll::Ready(ended);
        }
        if self.gathers(context) {
            return Poll::Pending;
        }
        self.write(context)
    }

    /// Whether to write one turn later: a runtime runs this task right after the first one that put something in line, and
    /// other tasks that are ready to run have more for the same write.
    fn gathers(&mut self, context: &Context<'_>) -> bool {
        let is_first = self.outbound.left().is_empty() && self.shared.lock().has_line();
        self.gathered = is_first && !self.gathered;
        if self.gathered {
            context.waker().wake_by_ref();
        }
        self.gathered
    }

    fn read(&mut self, context: &mut Context<'_>) -> Poll<Ended> {
        for _ in 0..READS_MAX {
            let mut room = self.inbound.room();
            let read = match Pin::new(&mut self.stream).poll_read(context, &mut room) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Ended::Lost(error.to_string())),
                Poll::Ready(Ok(())) => room.filled().len(),
            };
            if read == 0 {
                return Poll::Ready(Ended::Lost("the broker ended the connection".to_owned()));
            }
            self.heartbeat.silent = 0;
            self.inbound.filled += read;
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
        let (outcome, notices) = {
            let mut state = self.shared.lock();
            let outcome = loop {
                match self.inbound.first(at) {
                    Ok(Some(piece)) => {
                        at += piece.size;
                        if let Err(ended) = state.take(&piece, &mut self.wakers) {
                            break Err(ended);
                        }
                    }
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(Ended::Undecodable(error.to_string())),
                }
            };
            (outcome, std::mem::take(&mut state.notices))
        };
        self.inbound.remove(at);
        for notice in notices {
            (self.shared.notice)(notice);
        }
        self.wake();
        outcome
    }

    fn write(&mut self, context: &mut Context<'_>) -> Poll<Ended> {
        loop {
            if self.outbound.left().is_empty() {
                self.outbound.sent = 0;
                self.shared.lock().next_to_write(&mut self.outbound.bytes);
                if self.outbound.bytes.is_empty() {
                    break;
                }
            }
            let written = match Pin::new(&mut self.stream).poll_write(context, self.outbound.left()) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => written,
            };
            let written = match written {
                Ok(written) => written,
                Err(error) => return Poll::Ready(Ended::Lost(error.to_string())),
            };
            self.outbound.sent += written;
            self.heartbeat.has_written = true;
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

/// What came and is not taken in yet.
struct Inbound {
    /// In use as far as `filled`.
    bytes: Vec<u8>,
    filled: usize,
    frame_max: usize,
}

impl Inbound {
    fn new(frame_max: usize) -> Self {
        Self {
            bytes: vec![0; READ_BYTES],
            filled: 0,
            frame_max,
        }
    }

    /// Where more can be read into.
    fn room(&mut self) -> ReadBuf<'_> {
        if self.filled == self.bytes.len() {
            let size = (self.bytes.len() * 2).min(self.frame_max + FRAME_BYTES);
            self.bytes.resize(size.max(self.filled + FRAME_BYTES), 0);
        }
        ReadBuf::new(&mut self.bytes[self.filled..])
    }

    /// The first whole frame from `at` on.
    fn first(&self, at: usize) -> io::Result<Option<Piece<'_>>> {
        frames::first(&self.bytes[at..self.filled], self.frame_max)
    }

    /// Everything before `at` is taken in.
    fn remove(&mut self, at: usize) {
        self.bytes.copy_within(at..self.filled, 0);
        self.filled -= at;
    }
}

/// What is being written.
#[derive(Default)]
struct Outbound {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbound {
    fn left(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }
}

/// The signs of life of both sides.
struct Heartbeat {
    /// Each half heartbeat, where there are any.
    beat: Option<Interval>,
    every: Duration,
    /// Half heartbeats since something came.
    silent: u32,
    has_written: bool,
}

impl Heartbeat {
    fn new(every: Duration) -> Self {
        Self {
            beat: (!every.is_zero()).then(|| ambient::interval(every / 2)),
            every,
            silent: 0,
            has_written: false,
        }
    }

    /// Says that we live, and looks whether the broker does.
    fn poll(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<Ended> {
        let Some(beat) = &mut self.beat else {
            return Poll::Pending;
        };
        while beat.poll_tick(context).is_ready() {
            self.silent += 1;
            if self.silent > SILENT_MAX {
                let bound = (self.every * 2).as_secs();
                return Poll::Ready(Ended::Lost(format!("the broker was silent for {bound} s")));
            }
            if !std::mem::take(&mut self.has_written) {
                shared.lock().put_heartbeat();
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::super::wire::Tuned;
    use super::*;

    /// How much each write took; nothing comes.
    #[derive(Clone, Default)]
    struct Writes(Arc<Mutex<Vec<usize>>>);

    impl Writes {
        fn sizes(&self) -> Vec<usize> {
            self.0.lock().unwrap().clone()
        }
    }

    impl tokio::io::AsyncRead for Writes {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl tokio::io::AsyncWrite for Writes {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.0.lock().unwrap().push(bytes.len());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_tasks_that_are_ready_to_run_have_for_the_broker_goes_in_one_write() {
        const TASKS: usize = 5;
        let shared = Arc::new(Shared::new(Box::new(|_| ()), Arc::default(), None));
        let writes = Writes::default();
        let tuned = Tuned {
            channels: 0,
            frame_max: 4096,
            heartbeat_s: 0,
        };
        let wire = Wire {
            stream: Box::new(writes.clone()),
            tuned,
        };
        let driving = ambient::spawn("drives", Driver::new(wire, Arc::clone(&shared)).run());
        let putting = ambient::spawn("puts", {
            let shared = Arc::clone(&shared);
            async move {
                let put = |shared: Arc<Shared>| async move {
                    shared.lock().put_heartbeat();
                    shared.task.wake();
                };
                let tasks: Vec<_> = (0..TASKS)
                    .map(|_| ambient::spawn("puts one", put(Arc::clone(&shared))))
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
            }
        });
        putting.await.unwrap();
        while writes.sizes().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(writes.sizes(), [TASKS * FRAME_BYTES]);
        shared.end(Ended::Lost("over".to_owned()));
        driving.await.unwrap();
    }
}
