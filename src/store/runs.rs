//! Runs: what is frozen, who works on it, and the journal of each item.
//!
//! Promises: every change by whoever works on a run is guarded by the epoch of its lease; a stale one changes
//! nothing and says so. Counts are absolute, so that a repeated record counts nothing twice.

use std::time::Duration;

use async_trait::async_trait;

use super::{KeptKind, KeptMessage, StoreError};
use crate::domain::id::{Epoch, IncarnationId, QueueName};
use crate::domain::run::{ItemState, RunCounts, RunState, Target};
use crate::domain::time::Timestamp;

/// Runs and their items.
#[async_trait]
pub trait Runs: Send + Sync {
    /// A new run, planned, without items yet.
    async fn run_create(&self, new: &NewRun) -> Result<(), StoreError>;

    /// Adds items to a run that is not frozen yet; at most some thousands at once.
    async fn run_items_add(&self, run: &str, items: &[NewItem]) -> Result<(), StoreError>;

    /// The plan is complete: nothing of it changes any more. False when there is no such draft.
    async fn run_freeze(&self, run: &str, frozen: &Frozen) -> Result<bool, StoreError>;

    /// Planned becomes running, for a plan with this hash; false when it is not that any more.
    async fn run_start(&self, run: &str, hash: &str, actor: &str, reason: Option<&str>) -> Result<bool, StoreError>;

    /// One run.
    async fn run_get(&self, run: &str) -> Result<Option<RunRecord>, StoreError>;

    /// Newest first, at most `limit`, after `before` (exclusive); plans that nobody executed only when asked for.
    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>, StoreError>;

    /// Running ones that nobody alive works on, oldest first, at most `limit`.
    async fn runs_open(&self, limit: u32) -> Result<Vec<RunRecord>, StoreError>;

    /// Takes the lease of a running run that nobody alive holds.
    async fn run_take(&self, run: &str, incarnation: IncarnationId) -> Result<RunTaken, StoreError>;

    /// Gives the lease back; true when it was held under `epoch`.
    async fn run_free(&self, run: &str, epoch: Epoch) -> Result<bool, StoreError>;

    /// A person's wish: to `to` when the run is in one of `from`; answers whether it was. A run that goes on after
    /// its canary is not watched any more.
    async fn run_change(
        &self,
        run: &str,
        from: &[RunState],
        to: RunState,
        note: Option<&str>,
    ) -> Result<bool, StoreError>;

    /// Under the lease: the canary held, and the run goes on to `canary` done before it is watched again. False when
    /// the lease is lost, or a person stopped the run.
    async fn run_stage(&self, run: &str, epoch: Epoch, canary: u64) -> Result<bool, StoreError>;

    /// Records what became of items, with counts and note, under the lease.
    async fn run_advance(&self, run: &str, epoch: Epoch, advance: &Advance) -> Result<Guarded, StoreError>;

    /// The end, or a stop, by whoever works on it: only a running one changes; the lease is free then.
    async fn run_stop(&self, run: &str, epoch: Epoch, stop: &RunStop) -> Result<bool, StoreError>;

    /// Counted anew from the items.
    async fn run_counts(&self, run: &str) -> Result<RunCounts, StoreError>;

    /// How many items were begun and have no outcome: journalled or published.
    async fn run_in_hand(&self, run: &str) -> Result<u64, StoreError>;

    /// Items in their order, after `after` (exclusive), at most `limit`.
    async fn run_items(&self, query: &ItemQuery) -> Result<Vec<ItemRecord>, StoreError>;

    /// Takes a source queue for a run under its lease. Another run's is taken over only from one that is not
    /// running under a living lease.
    async fn source_take(&self, queue: &QueueName, run: &str, epoch: Epoch) -> Result<SourceTaken, StoreError>;

    /// Gives it back.
    async fn source_free(&self, queue: &QueueName, run: &str) -> Result<(), StoreError>;
}

/// A run to be planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// Its id.
    pub id: String,
    /// The command's name.
    pub command: String,
    /// Items a second, at most.
    pub rate: Option<u32>,
    /// Stops and asks after so many items.
    pub canary: Option<u64>,
}

/// An item to be frozen.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NewItem {
    /// Its place, from 0 without gaps.
    pub ordinal: u64,
    /// The dead letter's id.
    pub letter: String,
    /// Where it is.
    pub source: QueueName,
    /// Where it goes.
    pub target: Option<Target>,
    /// Bytes of its body.
    pub bytes: u64,
    /// Anything but planned has a reason.
    pub state: ItemState,
    /// Why it will not be done.
    pub reason: Option<String>,
}

/// What completes a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// Number of items.
    pub total: u64,
    /// What is known of them before anything is done.
    pub counts: RunCounts,
    /// The plan as JSON text.
    pub plan: String,
    /// Names exactly this plan.
    pub hash: String,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RunRecord {
    /// Its id.
    pub id: String,
    /// The command's name.
    pub command: String,
    /// Where it stands.
    pub state: RunState,
    /// Outcomes so far.
    pub counts: RunCounts,
    /// Messages that it discarded and that other runs put back since.
    pub restored: u64,
    /// Items in all.
    pub total: u64,
    /// Items a second, at most.
    pub rate: Option<u32>,
    /// Stops and asks, or is watched, once so many items are done; `None` once a person said to go on.
    pub canary: Option<u64>,
    /// Who; empty while it is only planned.
    pub actor: String,
    /// Why, in the actor's words.
    pub reason: Option<String>,
    /// What it waits for, or why it stopped.
    pub note: Option<String>,
    /// The plan as JSON text.
    pub plan: String,
    /// Names exactly the plan; empty while it is a draft.
    pub hash: String,
    /// Who works on it.
    pub owner: Option<IncarnationId>,
    /// Of its lease.
    pub epoch: Epoch,
    /// The broker that it works on, by its name; `None`: not known, or it was not executed.
    pub broker: Option<String>,
    /// When it was planned.
    pub created_at: Timestamp,
    /// When it was executed.
    pub started_at: Option<Timestamp>,
    /// Its last change.
    pub updated_at: Timestamp,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
}

/// Which runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunQuery {
    /// Before this id (ids sort by time).
    pub before: Option<String>,
    /// Plans that nobody executed, too.
    pub planned: bool,
    /// Only those that somebody executed and that are not over; without their plans, which may be large.
    pub open: bool,
    /// At most this many.
    pub limit: u32,
}

/// The result of taking a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunTaken {
    /// Held now, with its new epoch.
    Taken(Box<RunRecord>),
    /// Somebody alive works on it.
    Held(IncarnationId),
    /// It is not running.
    NotRunning(RunState),
    /// The asking incarnation is not alive, or there is no such run.
    Refused,
}

/// Whether a guarded change was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarded {
    /// Made; the state as a person left it.
    Held(RunState),
    /// Somebody else holds the lease: nothing was changed.
    Lost,
}

/// What became of items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advance {
    /// Items that moved on.
    pub marks: Vec<ItemMark>,
    /// Outcomes so far, these marks included.
    pub counts: RunCounts,
    /// What the run waits for; `None` when it goes on.
    pub note: Option<String>,
    /// Messages to keep, in the same transaction.
    pub keep: Vec<KeptMessage>,
    /// Kept messages to forget, in the same transaction. What another run discarded counts there as restored.
    pub forget: Vec<(String, KeptKind)>,
}

/// One item that moved on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemMark {
    /// Which.
    pub ordinal: u64,
    /// Where it stands now.
    pub state: ItemState,
    /// Why, where that is not plain.
    pub reason: Option<String>,
    /// What was taken off the message, as JSON text; `None` leaves what is there.
    pub dropped: Option<String>,
}

/// How whoever works on a run leaves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunStop {
    /// Done, failed or canary.
    pub state: RunState,
    /// Outcomes.
    pub counts: RunCounts,
    /// Why.
    pub note: Option<String>,
}

/// Which items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemQuery {
    /// Of this run.
    pub run: String,
    /// After this place.
    pub after: Option<u64>,
    /// Only from this source.
    pub source: Option<QueueName>,
    /// Only those without an outcome.
    pub open: bool,
    /// At most this many.
    pub limit: u32,
}

/// An item.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ItemRecord {
    /// As it was frozen; state and reason as they are now.
    pub item: NewItem,
    /// What was taken off the message, as JSON text.
    pub dropped: Option<String>,
}

/// The result of taking a source queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceTaken {
    /// The run's now.
    Taken,
    /// Another run works on it.
    Other(String),
    /// The run's lease is somebody else's.
    Lost,
}

/// The bounds of the history of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunBounds {
    /// Runs that were over longer ago go, with their items.
    pub age: Duration,
    /// At most this many that are over.
    pub runs: u64,
    /// Plans that nobody executed go after this time.
    pub planned: Duration,
}
