//! One source queue of a run: walked from its head on, what is of the run taken out window by window.

use std::time::Duration;

use super::drive::{Driver, Halt, InHand, Open, OpenItems, PAUSE};
use super::flight::FLIGHT;
use super::letters::CLAIM;
use super::order::{OrderKind, WINDOW};
use super::others::RUN_CLAIM;
use super::window::mark;
use crate::ambient;
use crate::broker::{DeliveryTag, Walk, WalkOptions, Walked};
use crate::domain::dead_letter::DeadLetterId;
use crate::domain::id::QueueName;
use crate::domain::run::{ItemState, RunState, Target};
use crate::engine::looks::Cost;
use crate::store::{DeadClaim, ItemMark, QueueMark, SourceTaken};

/// How often a claim is kept.
const HOLD: Duration = Duration::from_secs(3);
/// Messages taken out that the index may still show.
const TAKEN_OUT: usize = 5_000;
/// Messages that the broker sends ahead: a window in flight, one that is read, and what comes next.
pub(super) const AHEAD: u32 = 4_000;
/// Bytes of one batch.
const BATCH_BYTES: usize = 4 << 20;
/// A paced run is journalled so often, and looks as often whether a person stopped it.
const BATCHES_A_SECOND: u32 = 4;

impl Driver<'_> {
    /// One source queue, which is this run's alone meanwhile, under its lease where it is a delivery queue.
    pub(super) async fn take_source(&mut self, source: &QueueName, mut open: OpenItems) -> Result<(), Halt> {
        self.claim(source).await?;
        let ours = self.engine.settings.naming.is_delivery_queue(source.as_str());
        let lease = if ours { Some(self.lease(source).await?) } else { None };
        self.row = lease.as_ref().map(|lease| lease.record.clone());
        let dead = matches!(self.document.kind, OrderKind::Redrive | OrderKind::Discard);
        if dead {
            self.claim_dead(source).await?;
        }
        let walked = self.walk(source, &mut open).await;
        if let Some(generation) = self.generation {
            self.hold_dead_now(source).await?;
            self.generation = None;
            self.engine.store.dead_free(source, generation).await?;
        }
        if let Some(lease) = lease {
            let marked = if self.document.kind == OrderKind::Skip && walked.is_ok() {
                let gone = QueueMark::HeadGone;
                self.engine.store.queue_mark(source, lease.epoch, gone).await
            } else {
                Ok(true)
            };
            self.manager.free(source, lease.epoch).await;
            self.engine.broker.nudge(source).await;
            marked?;
        }
        let left = match walked {
            Ok(()) => self.leave_behind(open).await,
            Err(halt) => Err(halt),
        };
        self.engine.store.source_free(source, &self.run.id).await?;
        left
    }

    /// Nobody looks at the queue meanwhile: what is in a hand cannot be seen. Claimed in the run's name, so that
    /// whoever takes the run over has what the one before held.
    async fn claim_dead(&mut self, source: &QueueName) -> Result<(), Halt> {
        let name = format!("{RUN_CLAIM}{}", self.run.id);
        loop {
            match self.engine.store.dead_claim(source, &name, None, CLAIM).await? {
                DeadClaim::Claimed(generation) => {
                    self.generation = Some(generation);
                    return Ok(());
                }
                DeadClaim::Busy(by) => {
                    let who = by.claimed_by.as_deref().unwrap_or("somebody");
                    self.wait(format!("queue {:?} is looked at by {who}", source.as_str()))
                        .await?;
                }
            }
        }
    }

    /// Keeps the claim, and lets the index forget what was taken out; now and then, not for each message.
    async fn hold_dead(&mut self, source: &QueueName) -> Result<(), Halt> {
        let held_for = self.engine.clock.uptime().saturating_sub(self.held_at);
        if held_for < HOLD && self.taken_out.len() < TAKEN_OUT {
            return Ok(());
        }
        self.hold_dead_now(source).await
    }

    async fn hold_dead_now(&mut self, source: &QueueName) -> Result<(), Halt> {
        let Some(generation) = self.generation else {
            return Ok(());
        };
        self.held_at = self.engine.clock.uptime();
        self.engine.store.dead_write(source, generation, &[], CLAIM).await?;
        let ids = std::mem::take(&mut self.taken_out);
        if !ids.is_empty() {
            self.engine.store.dead_letters_remove(&ids).await?;
        }
        Ok(())
    }

    async fn claim(&mut self, source: &QueueName) -> Result<(), Halt> {
        loop {
            let (run, epoch) = (self.run.id.clone(), self.run.epoch);
            match self.engine.store.source_take(source, &run, epoch).await? {
                SourceTaken::Taken => return Ok(()),
                SourceTaken::Lost => return Err(Halt::Lost),
                SourceTaken::Other(other) => {
                    self.wait(format!("run {other} works on queue {:?}", source.as_str()))
                        .await?;
                }
            }
        }
    }

    /// Until nothing is left, or two passes in a row met nothing of what is: whoever looked at the queue meanwhile
    /// had it in hand.
    async fn walk(&mut self, source: &QueueName, open: &mut OpenItems) -> Result<(), Halt> {
        let mut in_vain = 0;
        loop {
            let before = open.len();
            let (mut whole, mut enough) = (true, 2);
            for part in self.parts_of(source) {
                let cost = self.engine.looks.cost_of(&part).await?;
                // Where each pass counts as a delivery, one that finds nothing is enough.
                enough = if cost.limit().is_some() { 1 } else { enough };
                whole &= self.pass(source, &part, cost, open).await?;
            }
            in_vain = if open.len() == before { in_vain + 1 } else { 0 };
            if open.is_empty() || (whole && in_vain >= enough) {
                return Ok(());
            }
            if whole {
                ambient::sleep(PAUSE).await;
            }
        }
    }

    /// The queues on the broker that a source consists of, in order.
    fn parts_of(&self, source: &QueueName) -> Vec<QueueName> {
        match &self.row {
            Some(row) => self.engine.parts(row),
            None => vec![source.clone()],
        }
    }

    /// One walk over a part of the source; false when it has to be walked anew.
    async fn pass(
        &mut self,
        source: &QueueName,
        part: &QueueName,
        cost: Cost,
        open: &mut OpenItems,
    ) -> Result<bool, Halt> {
        self.engine.looks.unconsumed(part).await?;
        let charge = self.engine.looks.run_passes(part, &cost).await?;
        let options = self.walk_options(cost.quorum);
        let Some(mut walk) = self.engine.walk_as(self.manager.id(), part, options).await? else {
            return Ok(true);
        };
        let gone = self.go(&mut *walk, source, open).await;
        let landed = self.land(&mut *walk).await;
        let closed = walk.close().await;
        if let (Some(charge), Ok(again)) = (charge, &closed) {
            self.engine.looks.look_broke_off(charge, *again).await;
        }
        match closed {
            Ok(_) => self.flush().await?,
            Err(error) => {
                self.doubt().await;
                gone?;
                return Err(error.into());
            }
        }
        let whole = gone?;
        landed?;
        Ok(whole)
    }

    fn walk_options(&self, quorum: bool) -> WalkOptions {
        let window_messages = self
            .run
            .rate
            .map_or(AHEAD, |rate| rate.saturating_mul(30).clamp(1, AHEAD));
        WalkOptions {
            window_messages,
            quorum,
            ..WalkOptions::default()
        }
    }

    /// Walks from the head on and takes what is of this run; false when it has to be walked anew.
    async fn go(&mut self, walk: &mut dyn Walk, source: &QueueName, open: &mut OpenItems) -> Result<bool, Halt> {
        let began = self.engine.clock.uptime();
        let mut batch: Vec<InHand> = Vec::new();
        let mut bytes = 0;
        while !open.is_empty() {
            let walked = walk.next(WINDOW).await?;
            if walked.is_empty() {
                if batch.is_empty() && walk.is_cut() {
                    return Err(Halt::Broken(format!(
                        "queue {:?} has more ahead of what is left than can be held without disturbing its order",
                        source.as_str()
                    )));
                }
                if batch.is_empty() {
                    return Ok(true);
                }
                self.process(walk, std::mem::take(&mut batch)).await?;
                bytes = 0;
                continue;
            }
            for one in walked {
                let Some(hand) = self.recognise(source, one, open) else {
                    continue;
                };
                bytes += hand.message.body.len();
                batch.push(hand);
                if batch.len() >= self.batch() || bytes >= BATCH_BYTES {
                    self.process(walk, std::mem::take(&mut batch)).await?;
                    bytes = 0;
                }
            }
            // What a paced walk holds would outlive the broker's patience: it is begun anew.
            if self.engine.clock.uptime().saturating_sub(began) > self.engine.policy_guard.rules.longest_hold(source) {
                self.process(walk, batch).await?;
                return Ok(open.is_empty());
            }
        }
        self.process(walk, batch).await?;
        Ok(true)
    }

    /// The item that a message is, if it is one of this run; a further copy of one is to go with it.
    fn recognise(&mut self, source: &QueueName, one: Walked, open: &mut OpenItems) -> Option<InHand> {
        let (key, collapses) = super::letters::identity(source, &one.message);
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
        Some(InHand {
            ordinal: item.ordinal,
            letter: item.letter,
            source: source.clone(),
            target: item
                .target
                .as_deref()
                .map_or_else(|| Target::Queue(source.clone()), Target::clone),
            message: one.message,
            tag: one.tag,
            state: item.state,
        })
    }

    /// Messages of the next batch, which is journalled as one.
    pub(super) fn batch(&self) -> usize {
        let canary = self.run.canary.map_or(usize::MAX, |canary| {
            usize::try_from(canary.saturating_sub(self.counts.done)).unwrap_or(usize::MAX)
        });
        let size = match self.run.rate {
            _ if self.careful > 0 => 1,
            None if self.sends_away() => FLIGHT,
            None => WINDOW,
            Some(rate) => usize::try_from(rate / BATCHES_A_SECOND).unwrap_or(1).min(WINDOW),
        };
        size.min(canary).max(1)
    }

    async fn process(&mut self, walk: &mut dyn Walk, batch: Vec<InHand>) -> Result<(), Halt> {
        if batch.is_empty() {
            return Ok(());
        }
        if self.stop.is_cancelled() {
            return Err(Halt::Stopped);
        }
        self.careful = self.careful.saturating_sub(batch.len());
        let (sent, fresh): (Vec<InHand>, Vec<InHand>) =
            batch.into_iter().partition(|hand| hand.state == ItemState::Published);
        self.settle(walk, sent).await?;
        if self.document.kind == OrderKind::Discard {
            self.keep_pace(fresh.len()).await?;
            let kept = self.keep(fresh).await?;
            self.settle(walk, kept).await?;
        } else if self.may_fly(&fresh) {
            self.relay(walk, fresh).await?;
        } else {
            self.land(walk).await?;
            self.send_batch(walk, fresh).await?;
        }
        if self.is_canary_done() {
            return Err(Halt::Canary);
        }
        self.watch().await
    }

    /// Settles messages at their source, and the copies that were met.
    pub(super) async fn settle(&mut self, walk: &mut dyn Walk, hands: Vec<InHand>) -> Result<(), Halt> {
        let mut tags: Vec<DeliveryTag> = hands.iter().map(|hand| hand.tag).collect();
        tags.append(&mut self.copies);
        if tags.is_empty() {
            return Ok(());
        }
        tags.sort_unstable();
        walk.settle(&tags).await?;
        self.forget_edits(&hands).await?;
        let taken_out = hands.iter().filter_map(|hand| DeadLetterId::parse(&hand.letter));
        self.taken_out.extend(taken_out);
        if let Some(source) = hands.first().map(|hand| hand.source.clone()) {
            self.hold_dead(&source).await?;
        }
        for hand in hands {
            self.counts.count(ItemState::Settled);
            self.pending.push(mark(hand.ordinal, ItemState::Settled, None));
        }
        Ok(())
    }

    /// Waits until the next items are due.
    pub(super) async fn keep_pace(&mut self, items: usize) -> Result<(), Halt> {
        let Some(mut pace) = self.pace else { return Ok(()) };
        let mut left = pace.wait(self.engine.clock.uptime());
        while !left.is_zero() {
            let waited = self.stop.run_until_cancelled(ambient::sleep(left.min(PAUSE))).await;
            waited.ok_or(Halt::Stopped)?;
            left = pace.wait(self.engine.clock.uptime());
        }
        for _ in 0..items {
            pace.take(self.engine.clock.uptime());
        }
        self.pace = Some(pace);
        Ok(())
    }

    /// A walk that ended badly: what was settled last may come again, and is settled again then.
    async fn doubt(&mut self) {
        let marks: Vec<ItemMark> = self
            .uncertain
            .take()
            .chain(self.pending.drain(..).map(|mark| mark.ordinal))
            .map(|ordinal| mark(ordinal, ItemState::Published, None))
            .collect();
        if let Err(halt) = self.advance(marks, Vec::new(), Vec::new()).await {
            tracing::debug!(?halt, "a run's last window is as it was recorded");
        }
    }

    /// Records what is settled for certain.
    pub(super) async fn flush(&mut self) -> Result<(), Halt> {
        let state = self.advance(Vec::new(), Vec::new(), Vec::new()).await?;
        drop(self.uncertain.take());
        if state == RunState::Running {
            Ok(())
        } else {
            Err(Halt::Asked(state))
        }
    }

    /// What the whole walk did not meet.
    async fn leave_behind(&mut self, open: OpenItems) -> Result<(), Halt> {
        let mut marks: Vec<ItemMark> = open.into_values().flatten().map(|item| self.absent(&item)).collect();
        marks.sort_unstable_by_key(|mark| mark.ordinal);
        for chunk in marks.chunks(1_000) {
            for mark in chunk {
                self.counts.count(mark.state);
            }
            self.advance(chunk.to_vec(), Vec::new(), Vec::new()).await?;
        }
        Ok(())
    }

    /// The outcome of an item whose message is not there any more. What is paced is settled right after its own
    /// confirm, and recorded with its batch: of a batch that was cut short, what comes before the first one that
    /// is still there went its whole way.
    fn absent(&self, item: &Open) -> ItemMark {
        let one_by_one = self.run.rate.is_some() && self.met_journalled.is_none_or(|first| item.ordinal < first);
        let (state, reason) = match item.state {
            ItemState::Published => (ItemState::Settled, None),
            ItemState::Journalled if one_by_one => (
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
