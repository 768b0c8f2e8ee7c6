//! Patience with a store or broker that is away.

use std::time::Duration;

use super::core::Core;
use super::error::chain;
use crate::ambient;
use crate::domain::id::IncarnationId;
use crate::store::StoreError;
use crate::telemetry::LoggedAt;

static WAITS: LoggedAt = LoggedAt::never();

/// Waits between tries: 50 ms doubling to 2 s, with jitter.
#[derive(Debug)]
pub(super) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(Duration::from_millis(50))
    }
}

impl Pause {
    pub(super) async fn wait(&mut self) {
        ambient::sleep(self.0.mul_f64(0.5 + crate::ambient::roll())).await;
        self.0 = (self.0 * 2).min(Duration::from_secs(2));
    }
}

impl Core {
    /// Repeats a store operation while the store is away and the fence permits it. `Err` when it may not
    /// go on: whatever is in hand goes back.
    pub(super) async fn insist<T, F, O>(&self, incarnation: IncarnationId, mut operation: O) -> Result<T, ()>
    where
        F: Future<Output = Result<T, StoreError>> + Send,
        O: FnMut() -> F,
    {
        let (mut pause, mut has_waited) = (Pause::default(), false);
        let result = loop {
            match operation().await {
                Ok(value) => break Ok(value),
                Err(error) => {
                    has_waited = true;
                    if wait_for_store(self, incarnation, &error, &mut pause).await.is_err() {
                        break Err(());
                    }
                }
            }
        };
        if has_waited {
            self.seen.unwritten.clear();
        }
        result
    }
}

async fn wait_for_store(
    core: &Core,
    incarnation: IncarnationId,
    error: &StoreError,
    pause: &mut Pause,
) -> Result<(), ()> {
    let is_away = matches!(error, StoreError::Unreachable { .. } | StoreError::NotWritable { .. });
    if !(is_away && core.fence.permits(incarnation)) {
        tracing::error!(error = ?error, "the store failed");
        return Err(());
    }
    let (why, now) = (chain(error), core.clock.uptime());
    // Each queue tries again, some twenty times a minute.
    if WAITS.is_due(now) {
        tracing::warn!(why = ?why, "waiting for the store");
    }
    // What one session keeps locked says nothing of all other rows: `doctor` names the session.
    if !error.is_locked() {
        core.seen.unwritten.note(why, now);
    }
    pause.wait().await;
    Ok(())
}
