//! Signals: those that end the console, and those of a terminal with job control.
//!
//! Two tasks, because the second may have to wait for a screen that is stalled and the first must not.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::input;
use crate::ambient;
use crate::console::runtime::terminal;
use crate::console::state::event::{Event, Input};

/// The first signal cancels `end`; another one, or one after the operator quit, cancels `cut`.
pub(super) fn start(
    inputs: mpsc::Sender<Input>,
    end: CancellationToken,
    quit: CancellationToken,
    cut: CancellationToken,
) -> io::Result<()> {
    let signals = EndSignals::listen()?;
    ambient::spawn("console end signals", signals.handle(end, quit, cut));
    ambient::spawn("console job signals", job_signals(JobSignals::listen()?, inputs));
    Ok(())
}

struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl EndSignals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn handle(mut self, end: CancellationToken, quit: CancellationToken, cut: CancellationToken) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            () = interrupted(&mut self.interrupt) => {}
            _ = self.hang_up.recv() => input::let_go(),
            () = quit.cancelled() => {}
        }
        end.cancel();
        // Shell and kernel may both tell of one hang-up: that is no second wish.
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        cut.cancel();
    }
}

/// While somebody else has the terminal, Ctrl-C is his.
static DEAF: AtomicBool = AtomicBool::new(false);

/// Interrupts mean nothing as long as it is there.
pub(super) struct Deaf(());

pub(super) fn ignore_interrupts() -> Deaf {
    DEAF.store(true, Ordering::SeqCst);
    Deaf(())
}

impl Drop for Deaf {
    fn drop(&mut self) {
        DEAF.store(false, Ordering::SeqCst);
    }
}

async fn interrupted(interrupt: &mut Signal) {
    while interrupt.recv().await.is_some() {
        if !DEAF.load(Ordering::SeqCst) {
            return;
        }
    }
}

struct JobSignals {
    stop: Signal,
    go_on: Signal,
    resize: Signal,
}

impl JobSignals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            stop: signal(SignalKind::from_raw(Number::TSTP.as_raw()))?,
            go_on: signal(SignalKind::from_raw(Number::CONT.as_raw()))?,
            resize: signal(SignalKind::window_change())?,
        })
    }

    async fn next(&mut self) -> Input {
        tokio::select! {
            _ = self.stop.recv() => Input::Suspend,
            _ = self.go_on.recv() => Input::Continued,
            _ = self.resize.recv() => {
                let (columns, rows) = terminal::size();
                Event::Resize { columns, rows }.into()
            }
        }
    }
}

async fn job_signals(mut signals: JobSignals, inputs: mpsc::Sender<Input>) {
    loop {
        let input = signals.next().await;
        if inputs.send(input).await.is_err() {
            return;
        }
    }
}
