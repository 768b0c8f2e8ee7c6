//! Records of success: kept in memory and flushed every 250 ms by one writer (PROTOCOLS.md 18).
//!
//! Bounded: while the store is away the newest are kept for the log, and all are counted until the
//! buffer is full; a count that is lost then is a number on a screen, never a message.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::store::{StoreHandle, Success};

/// How often successes are flushed.
const FLUSH: Duration = Duration::from_millis(250);
/// Successes kept while the store is away, at most.
const BUFFER_MAX: usize = 50_000;
/// Successes handed to the store at once, at most.
const BATCH_MAX: usize = 5_000;

/// Collects successes.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    waiting: Mutex<Vec<Success>>,
    flushed: Notify,
}

impl Recorder {
    /// Takes one in; never waits.
    pub(super) fn push(&self, success: Success) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < BUFFER_MAX {
            waiting.push(success);
        }
    }

    /// Flushes until `stop`, and once more after it.
    pub(super) async fn run(&self, store: StoreHandle, stop: CancellationToken) {
        loop {
            let stopped = stop.is_cancelled();
            self.flush(&store).await;
            if stopped {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(FLUSH) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Hands everything that waits to the store; what it did not take is kept.
    pub(super) async fn flush(&self, store: &StoreHandle) {
        loop {
            let batch: Vec<Success> = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                let take = waiting.len().min(BATCH_MAX);
                waiting.drain(..take).collect()
            };
            if batch.is_empty() {
                break;
            }
            if let Err(error) = store.successes_record(&batch).await {
                tracing::warn!(error = ?error, count = batch.len(), "successes wait for the store");
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                let room = BUFFER_MAX.saturating_sub(waiting.len());
                waiting.splice(0..0, batch.into_iter().take(room));
                break;
            }
        }
        self.flushed.notify_waiters();
    }
}
