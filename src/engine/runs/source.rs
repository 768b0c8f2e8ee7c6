//! One source queue of a run: walked from its head on, what is of the run taken out window by window.

use super::drive::Driver;
use super::flight::FLIGHT;
use super::letters::CLAIM;
use super::order::{OrderKind, WINDOW};
use super::others::RUN_CLAIM;
use super::taken::{Halt, InHand, OpenItems, PAUSE};
use super::window::mark;
use crate::ambient;
use crate::broker::{DeliveryTag, Walk};
use crate::domain::dead_letter::DeadLetterId;
use crate::domain::id::QueueName;
use crate::domain::run::ItemState;
use crate::engine::looks::Cost;
use crate::store::{DeadClaim, ItemMark, QueueMark, SourceTaken};

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
        let ours = self.run.engine.settings.naming.is_delivery_queue(source.as_str());
        let lease = if ours {
            Some(self.run.lease(source).await?)
        } else {
            None
        };
        self.hold.row = lease.as_ref().map(|lease| lease.record.clone());
        let dead = matches!(self.run.document.kind, OrderKind::Redrive | OrderKind::Discard);
        if dead {
            self.claim_dead(source).await?;
        }
        let walked = self.walk(source, &mut open).await;
        if let Some(generation) = self.hold.generation {
            self.hold.keep_now(&self.run, source).await?;
            self.hold.generation = None;
            self.run.engine.store.dead_free(source, generation).await?;
        }
        if let Some(lease) = lease {
            let marked = if self.run.document.kind == OrderKind::Skip && walked.is_ok() {
                let gone = QueueMark::HeadGone;
                self.run.engine.store.queue_mark(source, lease.epoch, gone).await
            } else {
                Ok(true)
            };
            self.run.manager.free(source, lease.epoch).await;
            self.run.engine.broker.nudge(source).await;
            marked?;
        }
        let left = match walked {
            Ok(()) => self.leave_behind(open).await,
            Err(halt) => Err(halt),
        };
        self.run.engine.store.source_free(source, &self.run.record.id).await?;
        left
    }

    /// Nobody looks at the queue meanwhile: what is in a hand cannot be seen. Claimed in the run's name, so that
    /// whoever takes the run over has what the one before held.
    async fn claim_dead(&mut self, source: &QueueName) -> Result<(), Halt> {
        let name = format!("{RUN_CLAIM}{}", self.run.record.id);
        loop {
            match self.run.engine.store.dead_claim(source, &name, None, CLAIM).await? {
                DeadClaim::Claimed(generation) => {
                    self.hold.generation = Some(generation);
                    return Ok(());
                }
                DeadClaim::Busy(by) => {
                    let who = by.claimed_by.as_deref().unwrap_or("somebody");
                    self.journal
                        .wait(&self.run, format!("queue {:?} is looked at by {who}", source.as_str()))
                        .await?;
                }
            }
        }
    }

    /// What was discarded from one source goes back, which is this run's alone meanwhile: another one that puts it back,
    /// too, finds that it is not kept any more.
    pub(super) async fn put_back_to(&mut self, source: &QueueName, open: OpenItems) -> Result<(), Halt> {
        self.claim(source).await?;
        let restored = self.restore(source, open).await;
        self.run.engine.store.source_free(source, &self.run.record.id).await?;
        restored
    }

    async fn claim(&mut self, source: &QueueName) -> Result<(), Halt> {
        loop {
            let (run, epoch) = (self.run.record.id.clone(), self.run.record.epoch);
            match self.run.engine.store.source_take(source, &run, epoch).await? {
                SourceTaken::Taken => return Ok(()),
                SourceTaken::Lost => return Err(Halt::Lost),
                SourceTaken::Other(other) => {
                    self.journal
                        .wait(&self.run, format!("run {other} works on queue {:?}", source.as_str()))
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
            for part in self.hold.parts(self.run.engine, source) {
                let cost = self.run.engine.looks.cost_of(&part).await?;
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

    /// One walk over a part of the source; false when it has to be walked anew.
    async fn pass(
        &mut self,
        source: &QueueName,
        part: &QueueName,
        cost: Cost,
        open: &mut OpenItems,
    ) -> Result<bool, Halt> {
        self.run.engine.looks.unconsumed(part).await?;
        let charge = self.run.engine.looks.run_passes(part, &cost).await?;
        let options = self.run.walk_options(&cost);
        let Some(mut walk) = self.run.engine.walk_as(self.run.manager.id(), part, options).await? else {
            return Ok(true);
        };
        let gone = self.go(&mut *walk, source, open).await;
        let landed = self.land(&mut *walk).await;
        let closed = walk.close().await;
        if let (Some(charge), Ok(again)) = (charge, &closed) {
            self.run.engine.looks.look_broke_off(charge, *again).await;
        }
        match closed {
            Ok(_) => self.journal.flush(&self.run).await?,
            Err(error) => {
                self.journal.doubt(&self.run).await;
                gone?;
                return Err(error.into());
            }
        }
        let whole = gone?;
        landed?;
        Ok(whole)
    }

    /// Walks from the head on and takes what is of this run; false when it has to be walked anew.
    async fn go(&mut self, walk: &mut dyn Walk, source: &QueueName, open: &mut OpenItems) -> Result<bool, Halt> {
        let began = self.run.engine.clock.uptime();
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
                let Some(hand) = self.hold.recognise(source, one, open) else {
                    continue;
                };
                bytes += hand.message.body.len();
                batch.push(hand);
                if batch.len() >= self.batch() || bytes >= BATCH_BYTES {
                    self.process(walk, std::mem::take(&mut batch)).await?;
                    bytes = 0;
                }
            }
            // A head that is not the first message any more was delivered, or is behind another one.
            if self.run.document.kind == OrderKind::Skip {
                break;
            }
            // What a paced walk holds would outlive the broker's patience: it is begun anew.
            if self.run.engine.clock.uptime().saturating_sub(began)
                > self.run.engine.policy_guard.rules.longest_hold(source)
            {
                self.process(walk, batch).await?;
                return Ok(open.is_empty());
            }
        }
        self.process(walk, batch).await?;
        Ok(true)
    }

    /// Messages of the next batch, which is journalled as one.
    pub(super) fn batch(&self) -> usize {
        let canary = self.run.record.canary.map_or(usize::MAX, |canary| {
            usize::try_from(canary.saturating_sub(self.journal.counts.done)).unwrap_or(usize::MAX)
        });
        let size = match self.run.record.rate {
            _ if self.care.careful > 0 => 1,
            None if self.run.sends_away() => FLIGHT,
            None => WINDOW,
            Some(rate) => usize::try_from(rate / BATCHES_A_SECOND).unwrap_or(1).min(WINDOW),
        };
        size.min(canary).max(1)
    }

    async fn process(&mut self, walk: &mut dyn Walk, batch: Vec<InHand>) -> Result<(), Halt> {
        if batch.is_empty() {
            return Ok(());
        }
        if self.run.stop.is_cancelled() {
            return Err(Halt::Stopped);
        }
        self.care.careful = self.care.careful.saturating_sub(batch.len());
        let (sent, fresh): (Vec<InHand>, Vec<InHand>) =
            batch.into_iter().partition(|hand| hand.state == ItemState::Published);
        self.settle(walk, sent).await?;
        let fresh = self.acceptable(fresh).await?;
        if self.run.document.kind == OrderKind::Discard {
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
        tags.append(&mut self.hold.copies);
        if tags.is_empty() {
            return Ok(());
        }
        tags.sort_unstable();
        walk.settle(&tags).await?;
        self.run.forget_edits(&hands).await?;
        let taken_out = hands.iter().filter_map(|hand| DeadLetterId::parse(&hand.letter));
        self.hold.taken_out.extend(taken_out);
        if let Some(source) = hands.first().map(|hand| hand.source.clone()) {
            self.hold.keep(&self.run, &source).await?;
        }
        for hand in hands {
            self.journal.counts.count(ItemState::Settled);
            self.journal.pending.push(mark(hand.ordinal, ItemState::Settled, None));
        }
        Ok(())
    }

    /// Waits until the next items are due.
    pub(super) async fn keep_pace(&mut self, items: usize) -> Result<(), Halt> {
        let Some(mut pace) = self.pace else { return Ok(()) };
        let mut left = pace.wait(self.run.engine.clock.uptime());
        while !left.is_zero() {
            let waited = self.run.stop.run_until_cancelled(ambient::sleep(left.min(PAUSE))).await;
            waited.ok_or(Halt::Stopped)?;
            left = pace.wait(self.run.engine.clock.uptime());
        }
        for _ in 0..items {
            pace.take(self.run.engine.clock.uptime());
        }
        self.pace = Some(pace);
        Ok(())
    }

    /// What the whole walk did not meet.
    async fn leave_behind(&mut self, open: OpenItems) -> Result<(), Halt> {
        let mut marks: Vec<ItemMark> = open
            .into_values()
            .flatten()
            .map(|item| self.hold.absent(&item, &self.run.record))
            .collect();
        marks.sort_unstable_by_key(|mark| mark.ordinal);
        for chunk in marks.chunks(1_000) {
            for mark in chunk {
                self.journal.counts.count(mark.state);
            }
            self.journal.record(&self.run, chunk.to_vec()).await?;
        }
        Ok(())
    }
}
