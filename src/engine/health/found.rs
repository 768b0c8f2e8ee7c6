//! What was found last of broker and store: filled in by whoever looks or meets something, read by everybody.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::losses::Losses;
use crate::domain::id::{Epoch, QueueName, StoreId};
use crate::domain::numbers::Numbers;
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::engine::error::chain;
use crate::engine::view::PartState;
use crate::telemetry::names;

/// Queues that wait to be bound, at most; a publisher that still meets one tells it again.
const WAITING_MAX: usize = 1_000;

/// What was found last, and since when it is so.
#[derive(Debug, Default)]
pub(in crate::engine) struct Health {
    pub(super) found: Mutex<Found>,
    pub(super) begun: AtomicBool,
    /// Every queue is being bound.
    pub(super) binding: AtomicBool,
    /// Ends the tasks.
    pub(super) over: CancellationToken,
    /// Somebody met something that is gone: look at once.
    pub(super) look_now: Arc<Notify>,
    /// The identity of the store that this process works with.
    pub(super) store: Mutex<Option<StoreId>>,
    /// Of the store, by whichever incarnation: whoever restores a store ends those that looked at it before.
    pub(super) numbers: Mutex<Seen>,
    /// Those of it that this process kept on the broker last.
    pub(super) kept: Mutex<Numbers>,
    pub(in crate::engine) losses: Losses,
    pub(super) unbound: Arc<Unbound>,
}

/// What this process saw of the numbers of its store.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) highest: Numbers,
    /// The highest epoch before the store last went back: whatever a row says now, others may have worked since under
    /// a later one.
    pub(super) fell_from: Option<Epoch>,
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) broker: Option<PartState>,
    pub(super) management: Option<PartState>,
    /// Only of a process that does not beat.
    pub(super) store: Option<PartState>,
    pub(super) beats: Beats,
    pub(super) blocked: Option<PartState>,
    /// As it was when somebody asked last.
    pub(super) delivering: Option<PartState>,
    /// Why delivery did not begin when it was tried last.
    pub(super) waits_for: Option<String>,
}

/// The writes of this process's own row, each second.
#[derive(Debug, Default)]
pub(super) struct Beats {
    /// When (uptime) the one was sent that is not answered yet.
    pub(super) sent: Option<Duration>,
    pub(super) last: Option<PartState>,
    /// Whether what workers have to write down waits, as it was at that time.
    pub(super) unwritten: Option<PartState>,
}

impl PartState {
    /// The same state lasts.
    pub(super) fn follow(last: Option<&Self>, problem: Option<String>, now: Timestamp) -> Self {
        let since = last
            .filter(|last| last.problem.is_some() == problem.is_some())
            .map_or(now, |last| last.since);
        Self { problem, since }
    }
}

/// Nobody asked a source yet.
pub(super) fn unasked(source: &'static str) {
    metrics::gauge!(names::SOURCE_UP, "source" => source).set(f64::NAN);
}

/// A source was asked; `problem` is why it cannot be read.
pub(super) fn asked(source: &'static str, problem: Option<&str>) {
    let value = if problem.is_none() { 1.0 } else { 0.0 };
    metrics::gauge!(names::SOURCE_UP, "source" => source).set(value);
}

impl Health {
    pub(super) fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write is on its way since `sent` (uptime).
    pub(in crate::engine) fn beat_sent(&self, sent: Duration) {
        self.found().beats.sent.get_or_insert(sent);
    }

    /// What came of it, and why other writes wait at that time.
    pub(in crate::engine) fn beat_answered(&self, problem: Option<String>, unwritten: Option<String>, now: Timestamp) {
        asked("store", problem.as_deref().or(unwritten.as_deref()));
        let beats = &mut self.found().beats;
        beats.sent = None;
        beats.last = Some(PartState::follow(beats.last.as_ref(), problem, now));
        beats.unwritten = Some(PartState::follow(beats.unwritten.as_ref(), unwritten, now));
    }

    /// Why what workers have to write down waits, and since when.
    pub(in crate::engine) fn unwritten(&self) -> Option<(String, Timestamp)> {
        let unwritten = self.found().beats.unwritten.clone()?;
        Some((unwritten.problem?, unwritten.since))
    }

    /// Why the store does not take the heartbeats of this process, and since when.
    pub(in crate::engine) fn beat_problem(&self) -> Option<(String, Timestamp)> {
        let last = self.found().beats.last.clone()?;
        Some((last.problem?, last.since))
    }

    /// Delivery cannot begin; a store that is the reason has no heartbeats that would tell.
    pub(in crate::engine) fn waits_for(&self, error: &EngineError, now: Timestamp) {
        let why = chain(error);
        let of_store = matches!(error, EngineError::Store(_)).then(|| why.clone());
        let mut found = self.found();
        if of_store.is_some() {
            asked("store", of_store.as_deref());
        }
        found.beats.sent = None;
        found.beats.unwritten = None;
        found.beats.last = of_store.map(|why| PartState::follow(found.beats.last.as_ref(), Some(why), now));
        found.waits_for = Some(why);
    }

    /// It began.
    pub(in crate::engine) fn waits_no_more(&self) {
        self.found().waits_for = None;
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The highest numbers of the store that this process saw.
    pub(in crate::engine) fn numbers(&self) -> Numbers {
        self.seen().highest
    }

    /// Remembers what the store had, or gave to this process, a moment ago.
    pub(in crate::engine) fn saw(&self, now: Numbers) {
        let mut seen = self.seen();
        seen.highest = seen.highest.highest(now);
    }

    pub(super) fn kept(&self) -> Numbers {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keeps(&self, numbers: Numbers) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = numbers;
    }

    /// The store went back, and had these numbers before.
    pub(super) fn fell_from(&self, before: Numbers) {
        self.seen().fell_from = Some(Epoch(before.epoch));
    }

    /// Whether the store went back after it gave `epoch`.
    pub(in crate::engine) fn is_from_before_a_fall(&self, epoch: Epoch) -> bool {
        self.seen().fell_from.is_some_and(|before| epoch <= before)
    }

    /// Looks at the broker at once: something of ours is not there.
    pub(in crate::engine) fn look_now(&self) {
        self.look_now.notify_one();
    }

    /// To be told of something that is gone.
    pub(in crate::engine) fn looks(&self) -> Arc<Notify> {
        Arc::clone(&self.look_now)
    }

    /// To tell of queues without a binding.
    pub(in crate::engine) fn unbound(&self) -> Arc<Unbound> {
        Arc::clone(&self.unbound)
    }

    /// Nothing is asked any more.
    pub(in crate::engine) fn end(&self) {
        self.over.cancel();
    }

    /// The identity of the store, as it was when this process began to work with it.
    pub(in crate::engine) fn store(&self) -> Option<StoreId> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(in crate::engine) fn set_store(&self, store: StoreId) {
        // Another store counts for itself.
        *self.seen() = Seen::default();
        self.keeps(Numbers::default());
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Some(store);
    }
}

/// Queues that publishers met without a binding.
#[derive(Debug, Default)]
pub(in crate::engine) struct Unbound {
    pub(super) begun: AtomicBool,
    pub(super) told: Notify,
    pub(super) queues: Mutex<BTreeSet<QueueName>>,
}

impl Unbound {
    /// Somebody's publish was returned though the queue is there.
    pub(in crate::engine) fn tell(&self, queue: &QueueName) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if queues.len() < WAITING_MAX {
            queues.insert(queue.clone());
            self.told.notify_one();
        }
    }

    pub(super) fn next(&self) -> Option<QueueName> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).pop_first()
    }
}
