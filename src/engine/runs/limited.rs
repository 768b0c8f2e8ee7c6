//! Queues that count each look as a delivery, and drop a message that had too many (docs/protocols.md 19): a run is
//! planned with what was seen of them before, and takes one more delivery of each message that it takes or passes. What
//! is near the limit is left alone.

use super::RunPlanner;
use super::belonging::Bound;
use super::letters::{Batch, Chosen, Letter, chosen, selected};
use super::order::Selection;
use crate::domain::id::QueueName;
use crate::domain::message::{Message, decode};
use crate::engine::EngineError;
use crate::engine::dead::{DeadPages, DeadSort, DeadTarget};
use crate::engine::looks::returns_of;
use crate::engine::sieve::Sieve;

impl RunPlanner {
    /// The dead-letter queue of this name, where it counts looks.
    pub(super) async fn limited_target(&self, queue: &QueueName) -> Result<Option<DeadTarget>, EngineError> {
        let targets = self.dead_targets.dead_targets().await?;
        let limited = |target: &&DeadTarget| target.name == *queue && target.delivery_limit.is_some();
        Ok(targets.iter().find(limited).cloned())
    }

    /// What the index has of a limited queue.
    pub(super) async fn indexed_batch(
        &self,
        target: &DeadTarget,
        (selection, bound): (&Selection, &Bound),
        sieve: &mut Sieve,
    ) -> Result<Batch, EngineError> {
        let (looks, unknown) = self.dead_index.indexed(target).await?;
        let known = self.looks.looks_at(&target.name).await?;
        let others = target
            .redelivered
            .map(|count| known.others(count.max(known.told_last())));
        let limit = target.delivery_limit.unwrap_or(u64::MAX);
        // Unknown is as bad as can be.
        let mut room = Room::of(target.name.clone(), limit, others.unwrap_or(limit));
        let unknown = unknown.map(|why| format!("queue {:?}: {why}", target.name.as_str()));
        let mut batch = Batch {
            lacks_some: unknown.is_some(),
            warnings: unknown.into_iter().collect(),
            ..Batch::default()
        };
        let now = self.clock.now();
        let mut pages = DeadPages::of(Some(target.name.clone()), None, DeadSort::Position);
        while let Some(rows) = pages.next(self).await? {
            let mut copies = Vec::with_capacity(rows.len());
            for letter in rows {
                let row = self.store.dead_letter(&letter.id).await?;
                let message = row.and_then(|row| row.copy).as_deref().and_then(decode);
                copies.extend(message.map(|message| (letter, message)));
            }
            let choices = chosen(
                (selection, bound),
                sieve,
                &copies,
                |(letter, message)| (letter, Some(message)),
                now,
            )
            .await?;
            for ((letter, message), choice) in copies.into_iter().zip(choices) {
                match choice {
                    Chosen::Yes => {
                        let letter = selected(&letter, &message, bound);
                        batch.letters.push(room.take(letter, &message));
                    }
                    Chosen::LeftOut => {
                        batch.left_out += 1;
                        room.pass(&message);
                    }
                    Chosen::No => room.pass(&message),
                }
            }
        }
        room.judge(&mut batch, &format!("it was looked at {looks} times"));
        Ok(batch)
    }
}

/// How many deliveries are left.
pub(super) struct Room {
    queue: QueueName,
    limit: u64,
    /// Returns by others since the messages were seen, which may all have been one message's.
    others: u64,
    /// One that is only passed has no room for it.
    passes: Option<u64>,
}

impl Room {
    pub(super) const fn of(queue: QueueName, limit: u64, others: u64) -> Self {
        Self {
            queue,
            limit,
            others,
            passes: None,
        }
    }

    /// Deliveries so far, the look that saw it included, where one more would leave none.
    fn spent(&self, message: &Message) -> Option<u64> {
        let spent = returns_of(message).saturating_add(1).saturating_add(self.others);
        (spent.saturating_add(2) > self.limit).then_some(spent)
    }

    pub(super) fn take(&self, mut letter: Letter, message: &Message) -> Letter {
        if let Some(spent) = self.spent(message) {
            letter.refused = Some(self.why(spent));
        }
        letter
    }

    fn pass(&mut self, message: &Message) {
        self.passes = self.passes.max(self.spent(message));
    }

    fn why(&self, spent: u64) -> String {
        format!(
            "queue {:?} drops a message after {} deliveries, and one had {spent}: a run could be one too many; raise the queue's delivery limit first",
            self.queue.as_str(),
            self.limit
        )
    }

    /// Says what the run costs; `seen` says what finding out about it did.
    pub(super) fn judge(&self, batch: &mut Batch, seen: &str) {
        if let Some(spent) = self.passes {
            for letter in &mut batch.letters {
                letter.refused = Some(self.why(spent));
            }
        } else if batch.letters.iter().any(|letter| letter.refused.is_none()) {
            batch.warnings.push(format!(
                "queue {:?} drops a message after {} deliveries: {seen}, and this run takes one more of each message up to the last one that it takes",
                self.queue.as_str(),
                self.limit
            ));
        }
    }
}
