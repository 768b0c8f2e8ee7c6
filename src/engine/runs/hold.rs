//! What a run holds of the source that is walked: its claim, and which of its items were met there.

use std::time::Duration;

use super::Runs;
use super::letters::{self, CLAIM};
use super::taken::{Halt, InHand, Open, OpenItems, TakenRun};
use super::window::mark;
use crate::ambient::HashSet;
use crate::broker::{DeliveryTag, Walked};
use crate::domain::dead_letter::DeadLetterId;
use crate::domain::id::QueueName;
use crate::domain::queue::QueueRecord;
use crate::domain::run::ItemState;
use crate::store::{ItemMark, RunRecord};

/// How often a claim is kept.
const HOLD: Duration = Duration::from_secs(3);
/// Messages taken out that the index may still show.
const TAKEN_OUT: usize = 5_000;

/// The source that is walked.
#[derive(Default)]
pub(super) struct SourceHold {
    /// The row of the delivery queue that is walked.
    pub(super) row: Option<QueueRecord>,
    /// Of the claim on the dead-letter queue that is walked.
    pub(super) generation: Option<i64>,
    /// Taken out of a dead-letter queue, not yet out of the index.
    pub(super) taken_out: Vec<DeadLetterId>,
    /// When the claim was kept last (uptime).
    held_at: Duration,
    /// Dead letters that were met of which there may be copies, and the copies that were.
    met: HashSet<String>,
    pub(super) copies: Vec<DeliveryTag>,
    /// The first one of those that were met again after they were journalled.
    met_journalled: Option<u64>,
}

impl SourceHold {
    /// A pass begins: nothing was met in it.
    pub(super) fn begin(&mut self) {
        self.met.clear();
        self.copies.clear();
        self.met_journalled = None;
    }

    pub(super) async fn keep_now(&mut self, run: &TakenRun<'_>, source: &QueueName) -> Result<(), Halt> {
        let Some(generation) = self.generation else {
            return Ok(());
        };
        self.held_at = run.engine.clock.uptime();
        run.engine.store.dead_write(source, generation, &[], CLAIM).await?;
        let ids = std::mem::take(&mut self.taken_out);
        if !ids.is_empty() {
            run.engine.store.dead_letters_remove(&ids).await?;
        }
        Ok(())
    }

    /// Keeps the claim, and lets the index forget what was taken out; now and then, not for each message.
    pub(super) async fn keep(&mut self, run: &TakenRun<'_>, source: &QueueName) -> Result<(), Halt> {
        let held_for = run.engine.clock.uptime().saturating_sub(self.held_at);
        if held_for < HOLD && self.taken_out.len() < TAKEN_OUT {
            return Ok(());
        }
        self.keep_now(run, source).await
    }

    /// The queues on the broker that a source consists of, in order.
    pub(super) fn parts(&self, engine: &Runs, source: &QueueName) -> Vec<QueueName> {
        match &self.row {
            Some(row) => engine.parts(row),
            None => vec![source.clone()],
        }
    }

    /// The item that a message is, if it is one of this run; a further copy of one is to go with it.
    pub(super) fn recognise(&mut self, source: &QueueName, one: Walked, open: &mut OpenItems) -> Option<InHand> {
        let (key, collapses) = letters::identity(source, &one.message);
        let Some(item) = take_open(open, &key) else {
            if collapses && self.met.contains(&key) {
                self.copies.push(one.tag);
            }
            return None;
        };
        if collapses {
            self.met.insert(key);
        }
        if item.state == ItemState::Journalled {
            let first = self
                .met_journalled
                .map_or(item.ordinal, |first| first.min(item.ordinal));
            self.met_journalled = Some(first);
        }
        Some(item.with(source, one.message, one.tag))
    }

    /// The outcome of an item whose message is not there any more. What is paced is settled right after its own
    /// confirm, and recorded with its batch: of a batch that was cut short, what comes before the first one that
    /// is still there went its whole way.
    pub(super) fn absent(&self, item: &Open, run: &RunRecord) -> ItemMark {
        let one_by_one = run.rate.is_some() && self.met_journalled.is_none_or(|first| item.ordinal < first);
        let (state, reason) = match item.state {
            ItemState::Published => (ItemState::Settled, None),
            ItemState::Journalled if one_by_one && !item.is_unanswered => (
                ItemState::Settled,
                Some("it was sent and settled, but the process died before that was recorded".to_owned()),
            ),
            ItemState::Journalled => (
                ItemState::Skipped,
                Some("somebody else took it while it was sent: it may be at its target too".to_owned()),
            ),
            ItemState::Planned | ItemState::Settled | ItemState::Failed | ItemState::Skipped | ItemState::Returned => (
                ItemState::Skipped,
                Some("gone: somebody else took it, or holds it".to_owned()),
            ),
        };
        mark(item.ordinal, state, reason)
    }
}

fn take_open(open: &mut OpenItems, key: &str) -> Option<Open> {
    let items = open.get_mut(key)?;
    let item = items.pop();
    if items.is_empty() {
        open.remove(key);
    }
    item
}
