//! Error queues that no name and no argument tells: the first message is looked at, and says by its headers that a
//! framework gave it up.
//!
//! Looking never costs: only because somebody asks for dead letters, and only at a queue that nobody consumes, that
//! nothing is taken from at the moment, whose messages outlive any number of returns, and that does not live by being
//! used; one message, given back in its place (of a quorum queue with those that came back before it); a few queues at a time, each again only after a while. Whoever begins to
//! take in that moment gets the first message behind others, which is why no daemon does it by itself.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::Duration;

use super::DeadTargets;
use super::targets::delays_returns;
use crate::ambient::{self, HashMap};
use crate::broker::ListedQueue;
use crate::domain::broker_rules::Policies;
use crate::domain::error_queue::recognise;
use crate::domain::id::QueueName;
use crate::domain::queue::QueueKind;
use crate::engine::EngineError;

/// Queues whose first message is looked at in one go, at most: a command sees no more of them.
const AT_ONCE: usize = 100;
/// How long that may take.
const WITHIN: Duration = Duration::from_secs(5);
/// How long what a first message said is good for.
const GOOD: Duration = Duration::from_mins(10);
/// Queues that are remembered, at most.
const KNOWN_MAX: usize = 10_000;
/// Between two times at which queues are looked for.
const AGAIN: Duration = Duration::from_secs(10);
/// How long one look may take.
const LOOK: Duration = Duration::from_secs(5);

/// What first messages said, and when (uptime).
#[derive(Debug, Default)]
pub(super) struct Peeked {
    said: HashMap<QueueName, (Duration, bool)>,
    /// When (uptime) somebody who asks makes us look again.
    again_at: Duration,
}

impl DeadTargets {
    /// Takes the turn to look at first messages, which comes only now and then.
    pub(super) fn is_time_to_peek(&self) -> bool {
        let now = self.clock.uptime();
        let mut peeked = self.peeked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = peeked.again_at <= now;
        if is_time {
            peeked.again_at = now + AGAIN;
        }
        is_time
    }

    /// The names of those whose first message said it when somebody looked.
    pub(super) fn error_queues_by_headers(&self) -> Vec<String> {
        let now = self.clock.uptime();
        let peeked = self.peeked.lock().unwrap_or_else(PoisonError::into_inner);
        let says = peeked
            .said
            .iter()
            .filter(|(_, (at, says))| *says && now.saturating_sub(*at) < GOOD);
        says.map(|(name, _)| name.as_str().to_owned()).collect()
    }

    /// Looks at the first messages of listed queues that are not `known` as targets; what cannot be read is said by
    /// whoever lists the rest.
    pub(super) async fn peek_among(&self, listed: &[ListedQueue], policies: &Policies, known: &BTreeSet<String>) {
        let now = self.clock.uptime();
        let may_be = |queue: &&ListedQueue| {
            queue.ready.is_some_and(|ready| ready > 0)
                && queue.unacked == Some(0)
                && !known.contains(queue.name.as_str())
                && self.kind_of(&queue.name) == QueueKind::Foreign
                && self.settings.naming.companion_of(&queue.name).is_none()
                && matches!(queue.queue_type.as_deref(), Some("classic" | "quorum"))
                && policies.smallest(&queue.declared(), "expires").is_none()
                && !delays_returns(queue, policies)
        };
        let candidates: Vec<&ListedQueue> = listed.iter().filter(may_be).collect();
        let unknown: Vec<QueueName> = {
            let mut peeked = self.peeked.lock().unwrap_or_else(PoisonError::into_inner);
            peeked.said.retain(|_, (at, _)| now.saturating_sub(*at) < GOOD);
            let room = KNOWN_MAX.saturating_sub(peeked.said.len()).min(AT_ONCE);
            // Where there are more, another process sees others of them.
            let first = usize::try_from(ambient::random()).unwrap_or_default() % candidates.len().max(1);
            let (behind, from) = candidates.split_at(first);
            let names = from.iter().chain(behind).map(|queue| &queue.name);
            let new = names.filter(|name| !peeked.said.contains_key(*name));
            let new: Vec<QueueName> = new.take(room).cloned().collect();
            // Nobody else looks meanwhile, and what fails is not tried again at once.
            peeked.said.extend(new.iter().map(|name| (name.clone(), (now, false))));
            new
        };
        for name in unknown {
            if self.clock.uptime().saturating_sub(now) > WITHIN {
                let mut peeked = self.peeked.lock().unwrap_or_else(PoisonError::into_inner);
                peeked.said.remove(&name);
                continue;
            }
            let looked = ambient::timeout(LOOK, self.is_given_up(&name)).await;
            if matches!(looked, Ok(Ok(true))) {
                let mut peeked = self.peeked.lock().unwrap_or_else(PoisonError::into_inner);
                peeked.said.insert(name, (now, true));
            }
        }
    }

    /// Whether a framework gave up the first message of the queue, which came from another one.
    async fn is_given_up(&self, queue: &QueueName) -> Result<bool, EngineError> {
        let Some(detail) = self.broker.queue_detail(queue).await? else {
            return Ok(false);
        };
        let cost = self.looks.cost_of(queue).await?;
        if detail.consumers != Some(0) || cost.limit().is_some() {
            return Ok(false);
        }
        let first = self.looks.first(queue, &cost, 1).await?;
        let Some(first) = first.first() else { return Ok(false) };
        let given_up = recognise(queue.as_str(), &first.message);
        // What waits in the queue that it failed in is a message to be handled again.
        Ok(given_up.is_some_and(|one| one.died_in.as_deref() != Some(queue.as_str())))
    }
}
