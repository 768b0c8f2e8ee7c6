//! One look at a dead-letter queue: claim it, walk it, write what was seen, give everything back.

use std::sync::Arc;
use std::time::Duration;

use super::claim::{PAUSE, claimant};
use super::{DeadIndex, DeadTarget};
use crate::ambient::{self, HashMap};
use crate::broker::{Returns, Walk, WalkOptions, Walked};
use crate::domain::broker_rules::Looks;
use crate::domain::dead_letter::{self, DeadLetter, Found, Home, Likeness};
use crate::domain::message::{Message, encode};
use crate::engine::EngineError;
use crate::engine::looks::{Charge, returns_of};
use crate::engine::sources::{CUT, cut_off};
use crate::store::{DeadClaim, DeadLooked, DeadQueue, DeadRow};

/// A look that writes nothing for so long has lost its claim.
pub(super) const HOLD: Duration = Duration::from_secs(15);
/// How long somebody else's look is waited for; a dead process keeps its claim for [`HOLD`].
const PATIENCE: Duration = Duration::from_secs(30);
/// What a claim of a look is for.
const LOOK: &str = "look";
/// How long a walk goes on when it has seen as many as were there.
const BEYOND: Duration = Duration::from_secs(1);
/// Messages of one write.
const BATCH: usize = 2000;
/// A queue whose number of messages did not change is looked at again after this time, and longer ones
/// more rarely: a thousand messages for each second.
const AGAIN: Duration = Duration::from_secs(30);
/// Between two looks at a queue that changes.
pub(super) const SOON: Duration = Duration::from_secs(2);

/// What is written at once.
#[derive(Default)]
struct Batch {
    rows: Vec<DeadRow>,
    /// Nothing is behind it.
    is_last: bool,
}

/// What became of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Another process looks.
    Elsewhere,
    /// It is over, or left to somebody who is not only looking.
    Done,
}

impl DeadTarget {
    /// Why it is not looked at, whatever happened in it; `looks` is what looks at it cost so far.
    pub(super) fn out_of_bounds(&self, known: Option<&DeadQueue>, looks: &Looks) -> Option<String> {
        if let Some(why) = &self.unread {
            return Some(format!("it could not be read: {why}"));
        }
        if self.consumers > 0 && known.is_none_or(|known| known.claimed_by.is_none()) {
            return Some(format!(
                "it has {} consumers: a look would take messages out of their hands",
                self.consumers
            ));
        }
        let present = self.ready.zip(self.unacked).map(|(ready, unacked)| ready + unacked);
        // It may have been told of more since this was found.
        let redelivered = self.redelivered.map(|count| count.max(looks.told_last()));
        let why = looks.refusal(present, self.delivery_limit?, redelivered)?;
        Some(format!("what came since the last look is not shown: {why}"))
    }

    /// Whether something may have changed since the last look.
    pub(super) fn is_due(&self, known: Option<&DeadQueue>, now: crate::domain::time::Timestamp) -> bool {
        let Some(known) = known else {
            return self.ready != Some(0);
        };
        // Nobody looked, or a run changed it since.
        let Some(looked_at) = known.looked_at else {
            return self.ready != Some(0) || known.messages != Some(0);
        };
        let age = now.since(looked_at);
        if self.differs(known) {
            return age >= SOON;
        }
        // A look at a limited queue costs; only a change is worth it.
        self.delivery_limit.is_none()
            && self.ready != Some(0)
            && age >= AGAIN + Duration::from_millis(known.messages.unwrap_or(0))
    }

    /// Whether the last look saw another number of messages, or nobody knows. One that was cut off never sees them all:
    /// another one would see the same.
    pub(super) fn differs(&self, known: &DeadQueue) -> bool {
        let was_cut = known.problem.as_deref() == Some(CUT);
        self.ready.is_none() || (!was_cut && self.ready != known.messages)
    }

    pub(super) fn walk(&self) -> WalkOptions {
        WalkOptions::new(Returns::of(self.queue_type, self.delivery_limit))
    }

    pub(super) fn found(&self, walked: &Walked) -> Found<'_> {
        Found {
            queue: &self.name,
            position: walked.position,
            redelivered: walked.redelivered,
            message_ttl_ms: self.message_ttl_ms,
            queue_expires_at: self.expires_at,
        }
    }
}

/// Reads letters in the order of their queue and numbers those that look alike.
#[derive(Default)]
pub(super) struct Reader {
    alike: HashMap<[u8; 16], u32>,
}

impl Reader {
    pub(super) fn read(&mut self, target: &DeadTarget, walked: &Walked) -> DeadLetter {
        let likeness = dead_letter::likeness(target.name.as_str(), &walked.message);
        let ordinal = self.ordinal(&likeness);
        dead_letter::read(&walked.message, &likeness, ordinal, &target.found(walked))
    }

    fn ordinal(&mut self, likeness: &Likeness) -> u32 {
        let count = self.alike.entry(likeness.digest).or_default();
        *count += 1;
        *count
    }
}

/// The end of a walk over a queue in which messages may arrive all the time: what was there when it began is seen, and what
/// comes later is left for the next one.
pub(in crate::engine) struct Horizon {
    /// So many were there; more may be, where the broker still takes back what others had in hand.
    there: u64,
    seen: u64,
    /// When (uptime) so many were seen.
    reached_at: Option<Duration>,
}

impl Horizon {
    /// Where nobody knows how many are there, it is the end of the queue.
    pub(in crate::engine) fn of(there: Option<u64>) -> Self {
        Self {
            there: there.unwrap_or(u64::MAX),
            seen: 0,
            reached_at: None,
        }
    }

    /// So many more were seen; whether the walk is over.
    pub(in crate::engine) fn saw(&mut self, more: usize, now: Duration) -> bool {
        self.seen += more as u64;
        if more == 0 {
            return true;
        }
        self.seen >= self.there && now.saturating_sub(*self.reached_at.get_or_insert(now)) >= BEYOND
    }
}

/// How many a look will see. While the broker takes back what another look gave back, it counts a part of them only: then
/// it is what the last look saw, unless a run changed that.
fn expected(ready: Option<u64>, known: Option<&DeadQueue>) -> Option<u64> {
    let seen = known.filter(|known| known.looked_at.is_some());
    ready.max(seen.and_then(|known| known.messages))
}

impl DeadIndex {
    /// Looks at a queue unless somebody does so already.
    pub(super) async fn look_at(self: Arc<Self>, target: DeadTarget) {
        if let Some(_turn) = self.enter(&target.name) {
            self.look_in_turn(&target).await;
        }
    }

    /// The same for somebody who asks. A look that is under way, here or in another process, may have begun before what he asks
    /// for was there: it is waited for, and what it did not see is looked at.
    pub(super) async fn look_when_free(self: Arc<Self>, target: DeadTarget) {
        let until = self.clock.uptime() + HOLD * 2;
        let mut moved = self.news.moved.subscribe();
        let mut is_first = true;
        let _turn = loop {
            if let Some(turn) = self.enter(&target.name) {
                break turn;
            }
            is_first = false;
            if moved.changed().await.is_err() {
                return;
            }
        };
        while (is_first || self.has_changed(&target).await)
            && self.look_in_turn(&target).await == Look::Elsewhere
            && self.clock.uptime() < until
        {
            is_first = false;
            ambient::sleep(PAUSE).await;
        }
    }

    /// Whether one more look is worth it after that of somebody else; where looks cost, one is enough.
    async fn has_changed(&self, target: &DeadTarget) -> bool {
        if target.delivery_limit.is_some() {
            return false;
        }
        let known = self.store.dead_queues().await.unwrap_or_default();
        let known = known.iter().find(|known| known.name == target.name);
        known.is_none_or(|known| target.differs(known))
    }

    async fn look_in_turn(&self, target: &DeadTarget) -> Look {
        self.look_claimed(target).await.unwrap_or_else(|error| {
            tracing::warn!(queue = ?target.name, error = ?error, "a dead-letter queue could not be looked at");
            Look::Done
        })
    }

    pub(super) async fn look_claimed(&self, target: &DeadTarget) -> Result<Look, EngineError> {
        let who = claimant(LOOK);
        let known = self.store.dead_queues().await?;
        let known = known.iter().find(|known| known.name == target.name);
        let expected = expected(target.ready, known);
        let generation = match self.store.dead_claim(&target.name, &who, expected, HOLD).await? {
            DeadClaim::Claimed(generation) => generation,
            DeadClaim::Busy(by) if by.claimed_by.as_deref().is_some_and(|by| by.starts_with(LOOK)) => {
                return Ok(Look::Elsewhere);
            }
            DeadClaim::Busy(_) => return Ok(Look::Done),
        };
        self.look_under(target, (generation, expected)).await?;
        Ok(Look::Done)
    }

    /// The look itself, under a claim that it frees.
    async fn look_under(
        &self,
        target: &DeadTarget,
        (generation, expected): (i64, Option<u64>),
    ) -> Result<(), EngineError> {
        let looked = match self.walk_over(target, generation, Horizon::of(expected)).await {
            Ok(Some(looked)) => looked,
            // Somebody else has the claim now.
            Ok(None) => return Ok(()),
            Err(error) => DeadLooked {
                messages: 0,
                whole: false,
                problem: Some(crate::engine::error::chain(&error)),
            },
        };
        self.store.dead_finish(&target.name, generation, &looked).await?;
        Ok(())
    }

    async fn walk_over(
        &self,
        target: &DeadTarget,
        generation: i64,
        mut horizon: Horizon,
    ) -> Result<Option<DeadLooked>, EngineError> {
        if Home::of(&target.name) == Home::Store {
            let seen = self.write_stored(target, generation).await?;
            return Ok(seen.map(|messages| DeadLooked {
                messages,
                whole: true,
                problem: None,
            }));
        }
        let charge = self.charge_look(target).await?;
        let options = WalkOptions {
            whole: true,
            ..target.walk()
        };
        let Some(mut walk) = self.walk(&target.name, options).await? else {
            return Ok(Some(DeadLooked {
                messages: 0,
                whole: true,
                problem: None,
            }));
        };
        let mut returns = Vec::new();
        let seen = self
            .write_walked(target, generation, walk.as_mut(), &mut horizon, &mut returns)
            .await;
        let cut = walk.is_cut();
        let closed = walk.close().await;
        if let Ok(again) = &closed {
            let returns = (matches!(seen, Ok(Some(_))) && !cut).then_some(returns);
            self.looks.look_is_over(charge, returns, *again).await;
        }
        let Some(messages) = seen? else {
            return Ok(None);
        };
        closed?;
        // What others have in hand now was not seen, and is not gone.
        let others = target.unacked.unwrap_or(0) > 0 && messages < target.ready.unwrap_or(0);
        Ok(Some(DeadLooked {
            messages,
            whole: !cut && !others,
            problem: cut.then(|| CUT.to_owned()),
        }))
    }

    /// How many were seen; `None` when the claim is lost. While the store takes one batch, the next is read.
    async fn write_walked(
        &self,
        target: &DeadTarget,
        generation: i64,
        walk: &mut dyn Walk,
        horizon: &mut Horizon,
        returns: &mut Vec<u64>,
    ) -> Result<Option<u64>, EngineError> {
        let mut reader = Reader::default();
        let mut seen = 0;
        let mut batch = self.read_batch(target, walk, horizon, &mut reader, returns).await?;
        loop {
            seen += batch.rows.len() as u64;
            let writing = self.store.dead_write(&target.name, generation, &batch.rows, HOLD);
            if batch.is_last {
                return Ok(writing.await?.then_some(seen));
            }
            let reading = self.read_batch(target, walk, horizon, &mut reader, returns);
            let (written, read) = tokio::join!(writing, reading);
            if !written? {
                return Ok(None);
            }
            batch = read?;
        }
    }

    async fn read_batch(
        &self,
        target: &DeadTarget,
        walk: &mut dyn Walk,
        horizon: &mut Horizon,
        reader: &mut Reader,
        returns: &mut Vec<u64>,
    ) -> Result<Batch, EngineError> {
        let mut batch = Batch::default();
        let mut copied = 0;
        while !batch.is_last && batch.rows.len() < BATCH && copied <= COPIED_MAX {
            let walked = walk.next(BATCH - batch.rows.len()).await?;
            batch.is_last = horizon.saw(walked.len(), self.clock.uptime());
            for one in &walked {
                returns.extend(target.delivery_limit.map(|_| returns_of(&one.message)));
                let copy = target.delivery_limit.and_then(|_| copy(&one.message));
                copied += copy.as_ref().map_or(0, Vec::len);
                let mut letter = reader.read(target, one);
                letter.begins = self.settings.masks.begins(&one.message.body);
                batch.rows.push(DeadRow { letter, copy });
            }
        }
        Ok(batch)
    }

    /// Finds one message by its likeness and place among equals, and gives everything back.
    pub(super) async fn find_letter(
        &self,
        target: &DeadTarget,
        letter: &DeadLetter,
        patience: Duration,
    ) -> Result<Option<Message>, EngineError> {
        let generation = self.claim_dead(&target.name, "show", patience).await?;
        let found = self.walk_to(target, letter, generation).await;
        self.store.dead_free(&target.name, generation).await?;
        found
    }

    async fn walk_to(
        &self,
        target: &DeadTarget,
        letter: &DeadLetter,
        generation: i64,
    ) -> Result<Option<Message>, EngineError> {
        let charge = self.charge_look(target).await?;
        let Some(mut walk) = self.walk(&target.name, target.walk()).await? else {
            return Ok(None);
        };
        let mut reader = Reader::default();
        let found = loop {
            let walked = match walk.next(BATCH).await {
                Ok(walked) => walked,
                Err(error) => break Err(EngineError::from(error)),
            };
            if walked.is_empty() {
                // It may be behind what was seen.
                break if walk.is_cut() {
                    Err(EngineError::Unread(Box::new(cut_off(&target.name, self.clock.now()))))
                } else {
                    Ok(None)
                };
            }
            if let Some(one) = walked.into_iter().find(|one| reader.read(target, one).id == letter.id) {
                break Ok(Some(one.message));
            }
            if !self.store.dead_write(&target.name, generation, &[], HOLD).await? {
                break Ok(None);
            }
        };
        match (walk.close().await, charge) {
            (Ok(again), Some(charge)) => self.looks.look_broke_off(charge, again).await,
            (Ok(_), None) => {}
            (Err(error), _) => {
                tracing::debug!(error = ?error, "a walk was not closed in order: the broker gives everything back");
            }
        }
        found
    }
}

impl DeadIndex {
    /// One more look at a queue that counts them is noted, or refused.
    pub(super) async fn charge_look(&self, target: &DeadTarget) -> Result<Option<Charge>, EngineError> {
        if target.delivery_limit.is_none() {
            return Ok(None);
        }
        // What others did to it since the targets were found is not in their numbers.
        let cost = self.looks.cost_of(&target.name).await?;
        self.looks.look_begins(&target.name, &cost, target.ready).await
    }

    /// What looks at this queue cost so far, where they count.
    pub(super) async fn looks_of(&self, target: &DeadTarget) -> Result<Looks, EngineError> {
        match target.delivery_limit {
            Some(_) => self.looks.looks_at(&target.name).await,
            None => Ok(Looks::default()),
        }
    }

    /// Has the index know a queue that counts looks, with one look at most, for which that of somebody else is waited for;
    /// answers how many there were, and why not all that is there is known.
    pub(in crate::engine) async fn indexed(&self, target: &DeadTarget) -> Result<(u64, Option<String>), EngineError> {
        let known = self.known(target).await?;
        let looks = known.as_ref().map_or(0, |known| known.looks);
        if let Some(known) = known.as_ref().filter(|known| !target.differs(known)) {
            return Ok((looks, known.problem.clone()));
        }
        let out_of_bounds = target.out_of_bounds(known.as_ref(), &self.looks_of(target).await?);
        if out_of_bounds.is_some() {
            return Ok((looks, out_of_bounds));
        }
        let generation = self.claim_dead(&target.name, LOOK, PATIENCE).await?;
        // One that was under way has seen what is there, unless its process died.
        let before = self.known(target).await?;
        let is_seen = |known: &DeadQueue| known.looked_at.is_some() && !target.differs(known);
        if before.as_ref().is_some_and(is_seen) {
            self.store.dead_free(&target.name, generation).await?;
        } else {
            let expected = expected(target.ready, before.as_ref());
            self.look_under(target, (generation, expected)).await?;
        }
        let known = self.known(target).await?;
        Ok((
            known.as_ref().map_or(0, |known| known.looks),
            known.and_then(|known| known.problem),
        ))
    }

    /// What the index has of a queue.
    async fn known(&self, target: &DeadTarget) -> Result<Option<DeadQueue>, EngineError> {
        let known = self.store.dead_queues().await?;
        Ok(known.into_iter().find(|known| known.name == target.name))
    }
}

/// Bytes of copies in one write.
const COPIED_MAX: usize = 4 << 20;

/// The message as bytes; one that cannot be kept whole is not kept.
fn copy(message: &Message) -> Option<Vec<u8>> {
    message.is_whole().then(|| encode(message)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::QueueName;
    use crate::domain::naming::QueueType;
    use crate::domain::time::Timestamp;

    #[test]
    fn a_walk_ends_a_second_after_it_saw_what_was_there_however_many_arrive() {
        let mut horizon = Horizon::of(Some(300));
        let at = Duration::from_millis;
        assert!(!horizon.saw(299, at(60_000)), "however long that took");
        assert!(!horizon.saw(1, at(60_100)));
        assert!(!horizon.saw(1, at(61_000)), "more may have been there");
        assert!(horizon.saw(1, at(61_100)));
        assert!(Horizon::of(Some(300)).saw(0, at(1)), "the end of the queue");
        let mut unknown = Horizon::of(None);
        assert!(!unknown.saw(1_000, at(1)) && !unknown.saw(1, at(600_000)) && unknown.saw(0, at(600_001)));
    }

    #[test]
    fn a_look_sees_as_many_as_the_last_one_unless_a_run_changed_that() {
        let seen = DeadQueue {
            name: QueueName::parse("dead").unwrap(),
            generation: 3,
            claimed_by: None,
            seen: 4_000,
            expected: None,
            looked_at: Some(Timestamp::from_seconds(1)),
            messages: Some(4_000),
            looks: 1,
            problem: None,
        };
        let changed = DeadQueue {
            looked_at: None,
            ..seen.clone()
        };
        assert_eq!(expected(Some(0), Some(&seen)), Some(4_000));
        assert_eq!(expected(Some(4_010), Some(&seen)), Some(4_010));
        assert_eq!(expected(Some(9), Some(&changed)), Some(9));
        assert_eq!((expected(Some(9), None), expected(None, None)), (Some(9), None));
    }

    #[test]
    fn a_look_that_was_cut_off_is_not_made_again_at_once() {
        let name = QueueName::parse("dead").unwrap();
        let target = DeadTarget::named(name.clone(), QueueType::Quorum);
        let target = DeadTarget {
            ready: Some(400),
            ..target
        };
        let known = |problem: Option<&str>| DeadQueue {
            name: name.clone(),
            generation: 3,
            claimed_by: None,
            seen: 240,
            expected: None,
            looked_at: Some(Timestamp::from_seconds(1)),
            messages: Some(240),
            looks: 1,
            problem: problem.map(str::to_owned),
        };
        let soon = Timestamp::from_seconds(10);
        assert!(target.is_due(Some(&known(None)), soon));
        assert!(!target.is_due(Some(&known(Some(CUT))), soon));
        assert!(target.is_due(Some(&known(Some(CUT))), Timestamp::from_seconds(100)));
    }
}
