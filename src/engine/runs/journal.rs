//! What is recorded of a run while it is worked on: each outcome, guarded by the epoch of its lease, and what it waits for.

use std::time::Duration;

use super::taken::{Halt, PAUSE, TakenRun};
use super::uncertain::Uncertain;
use super::window::mark;
use crate::ambient;
use crate::domain::run::{ItemState, RunCounts, RunState};
use crate::engine::error::chain;
use crate::store::{Advance, Guarded, ItemMark, KeptKind, KeptMessage, StoreError};

/// Between two tries to reach the store while messages are in hand.
const STORE_PAUSE: Duration = Duration::from_millis(500);

/// How far a run is, and what of that is not recorded yet.
#[derive(Default)]
pub(super) struct Journal {
    pub(super) counts: RunCounts,
    /// Settled at their source, not yet recorded so.
    pub(super) pending: Vec<ItemMark>,
    /// Recorded as settled a moment ago: the broker may not have heard of the last ones.
    uncertain: Uncertain,
}

impl Journal {
    pub(super) fn new(counts: RunCounts) -> Self {
        Self {
            counts,
            ..Self::default()
        }
    }

    /// Records marks, those that wait for it too: [`Self::advance`] where nothing is kept.
    pub(super) async fn record(&mut self, run: &TakenRun<'_>, marks: Vec<ItemMark>) -> Result<RunState, Halt> {
        self.advance(run, marks, Vec::new(), Vec::new()).await
    }

    /// Records marks, those that wait for it too; insists until the store answers, or this process stops without it.
    /// The state as a person left it.
    pub(super) async fn advance(
        &mut self,
        run: &TakenRun<'_>,
        marks: Vec<ItemMark>,
        keep: Vec<KeptMessage>,
        forget: Vec<(String, KeptKind)>,
    ) -> Result<RunState, Halt> {
        let settled = std::mem::take(&mut self.pending);
        self.uncertain.add(settled.iter().map(|mark| mark.ordinal));
        let advance = Advance {
            marks: settled.into_iter().chain(marks).collect(),
            counts: self.counts,
            note: None,
            keep,
            forget,
        };
        loop {
            match run
                .engine
                .store
                .run_advance(&run.record.id, run.record.epoch, &advance)
                .await
            {
                Ok(Guarded::Held(state)) => return Ok(state),
                Ok(Guarded::Lost) => return Err(Halt::Lost),
                Err(StoreError::Unreachable { .. } | StoreError::NotWritable { .. }) if run.gives_up() => {
                    return Err(Halt::Stopped);
                }
                Err(error @ (StoreError::Unreachable { .. } | StoreError::NotWritable { .. })) => {
                    tracing::warn!(run = ?run.record.id, error = ?error, "a run waits for the store");
                    ambient::sleep(STORE_PAUSE).await;
                }
                Err(error) => return Err(Halt::Broken(chain(&error))),
            }
        }
    }

    /// Says so where the broker takes nothing.
    pub(super) async fn say_blocked(&self, run: &TakenRun<'_>) {
        if let Some(reason) = run.engine.broker.blocked().await {
            let waits = format!("the broker takes nothing at present: {reason}");
            self.say(run, Some(waits)).await;
        }
    }

    /// Says what the run waits for, where the store can be told; answers the state as a person left it.
    pub(super) async fn say(&self, run: &TakenRun<'_>, note: Option<String>) -> Option<RunState> {
        let advance = Advance {
            counts: self.counts,
            note,
            ..Advance::default()
        };
        let (store, record) = (&run.engine.store, &run.record);
        match store.run_advance(&record.id, record.epoch, &advance).await {
            Ok(Guarded::Held(state)) => Some(state),
            Ok(Guarded::Lost) => None,
            Err(error) => {
                tracing::debug!(run = ?record.id, error = ?error, "what a run waits for is not said");
                None
            }
        }
    }

    /// A walk that ended badly: what was settled last may come again, and is settled again then.
    pub(super) async fn doubt(&mut self, run: &TakenRun<'_>) {
        let marks: Vec<ItemMark> = self
            .uncertain
            .take()
            .chain(self.pending.drain(..).map(|mark| mark.ordinal))
            .map(|ordinal| mark(ordinal, ItemState::Published, None))
            .collect();
        if let Err(halt) = self.record(run, marks).await {
            tracing::debug!(?halt, "a run's last window is as it was recorded");
        }
    }

    /// Records what is settled for certain.
    pub(super) async fn flush(&mut self, run: &TakenRun<'_>) -> Result<(), Halt> {
        let state = self.record(run, Vec::new()).await?;
        drop(self.uncertain.take());
        if state == RunState::Running {
            Ok(())
        } else {
            Err(Halt::Asked(state))
        }
    }

    /// Says what it waits for and waits a moment; `Err` when it is not to go on.
    pub(super) async fn wait(&self, run: &TakenRun<'_>, why: String) -> Result<(), Halt> {
        if run.manager.is_disowned() {
            return Err(Halt::Lost);
        }
        if let Some(state) = self.say(run, Some(why)).await
            && state != RunState::Running
        {
            return Err(Halt::Asked(state));
        }
        let waited = run.stop.run_until_cancelled(ambient::sleep(PAUSE)).await;
        waited.ok_or(Halt::Stopped)
    }
}
