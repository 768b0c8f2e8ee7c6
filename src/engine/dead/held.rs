//! What others have in hand while the letters of a queue are read: the broker hands out only what is ready, and what a run
//! or a look has is missing then.
//!
//! Promise: letters that were not read are never taken for letters that are not there.

use std::time::Duration;

use super::claim::PAUSE;
use super::sum::was_claimed;
use super::{DeadLetters, DeadTarget};
use crate::ambient;
use crate::broker::Look;
use crate::domain::dead_letter::Home;
use crate::domain::id::QueueName;
use crate::engine::EngineError;
use crate::engine::runs::busy;
use crate::engine::view::{Source, Unread};
use crate::store::DeadQueue;

/// Looks are waited for so long.
const PATIENCE: Duration = Duration::from_secs(3);

/// How a queue stood in the index before its letters were read.
pub(super) struct Before(Vec<DeadQueue>);

impl Before {
    /// How many letters were in the queue at least.
    pub(super) fn letters(&self, target: &DeadTarget) -> Option<u64> {
        let known = self.0.iter().find(|known| known.name == target.name);
        known.and_then(|known| known.messages).max(target.ready)
    }
}

impl DeadLetters {
    /// Waits for those who only look at the queue; a run takes its time.
    pub(super) async fn before_reading(&self, queue: &QueueName) -> Result<Before, EngineError> {
        let until = self.clock.uptime() + PATIENCE;
        loop {
            let known = self.store.dead_queues().await?;
            let by = claimant(&known, queue);
            let looks =
                by.is_some() && !self.shows_all(queue) && self.index.run_reader.run_with_claim(by).await.is_none();
            if !looks || self.clock.uptime() >= until {
                return Ok(Before(known));
            }
            ambient::sleep(PAUSE).await;
        }
    }

    /// The store and the embedded broker show what is in hand, too.
    fn shows_all(&self, queue: &QueueName) -> bool {
        self.broker.is_embedded() || Home::of(queue) == Home::Store
    }

    /// Why letters may be missing in the `read` ones of a queue.
    pub(super) async fn missing(
        &self,
        target: &DeadTarget,
        all: &Before,
        read: u64,
    ) -> Result<Option<Unread>, EngineError> {
        if self.shows_all(&target.name) || read >= all.letters(target).unwrap_or(0) {
            return Ok(None);
        }
        let (after, Before(before)) = (self.store.dead_queues().await?, all);
        // Fewer than there were: they are gone, unless somebody has them, or has given them back by now.
        let with_others = match self.broker.look(&target.name).await? {
            Look::Present { ready, consumers } => consumers > 0 || ready > read,
            Look::Missing => false,
        };
        if !with_others && !was_claimed(&target.name, before, &after) {
            return Ok(None);
        }
        let is_claimed = claimant(&after, &target.name).is_some();
        Ok(Some(
            self.held(&target.name, if is_claimed { &after } else { before }).await,
        ))
    }

    /// Letters of the queue were in the hands of others.
    pub(super) async fn held(&self, queue: &QueueName, known: &[DeadQueue]) -> Unread {
        let who = match claimant(known, queue) {
            None => "others consume it, or have just looked at it: ask again".to_owned(),
            by => busy(queue, by, self.index.run_reader.run_with_claim(by).await.as_ref()),
        };
        let reason = format!("messages that others have in hand were not read: {who}");
        self.not_read(queue, reason)
    }

    /// Letters of the queue are missing.
    pub(super) fn not_read(&self, queue: &QueueName, reason: String) -> Unread {
        Unread {
            source: Source::Queue(queue.clone()),
            reason,
            since: self.clock.now(),
        }
    }
}

fn claimant<'a>(known: &'a [DeadQueue], queue: &QueueName) -> Option<&'a str> {
    let known = known.iter().find(|known| known.name == *queue)?;
    known.claimed_by.as_deref()
}
