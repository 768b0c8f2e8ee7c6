//! Error queues that no name and no argument tells: the first message is looked at, and says by its headers that a
//! framework gave it up.
//!
//! Looking never costs: only a queue that nobody consumes and that stood still for a while (RabbitMQ says so of classic
//! queues only), whose messages outlive any number of returns, and that does not live by being used; one message, given
//! back in its place; a few queues at a time, each again only after a while.

use std::collections::{BTreeSet, HashMap};
use std::sync::PoisonError;
use std::time::Duration;

use crate::broker::ListedQueue;
use crate::domain::broker_rules::Policies;
use crate::domain::error_queue::recognise;
use crate::domain::id::QueueName;
use crate::domain::queue::QueueKind;
use crate::engine::{EngineError, Inner};

/// Queues whose first message is looked at in one go, at most.
const AT_ONCE: usize = 10;
/// How long what a first message said is good for.
const GOOD: Duration = Duration::from_mins(10);
/// Queues that are remembered, at most.
const KNOWN_MAX: usize = 10_000;
/// For so long nothing came and nobody took anything: who begins to take while the first message is in our hands
/// gets it behind others.
const IDLE: Duration = Duration::from_secs(10);
/// How long one look may take.
const LOOK: Duration = Duration::from_secs(5);

/// What first messages said, and when (uptime).
#[derive(Debug, Default)]
pub(super) struct Peeked(HashMap<QueueName, (Duration, bool)>);

impl Inner {
    /// The names of those among `listed` whose first message says it, without those in `known`.
    pub(super) async fn error_queues_by_headers(
        &self,
        listed: &[ListedQueue],
        policies: &Policies,
        known: &BTreeSet<String>,
    ) -> Vec<String> {
        let now = self.clock.uptime();
        let may_be = |queue: &&ListedQueue| {
            queue.ready.is_some_and(|ready| ready > 0)
                && queue.unacked == Some(0)
                && queue
                    .idle_since
                    .is_some_and(|since| queue.taken_at.since(since) >= IDLE)
                && !known.contains(queue.name.as_str())
                && self.kind_of(&queue.name) == QueueKind::Foreign
                && matches!(queue.queue_type.as_deref(), Some("classic" | "quorum"))
                && policies.smallest(&queue.declared(), "expires").is_none()
        };
        let candidates: Vec<&ListedQueue> = listed.iter().filter(may_be).collect();
        let unknown: Vec<QueueName> = {
            let mut peeked = self.dead.peeked.lock().unwrap_or_else(PoisonError::into_inner);
            peeked.0.retain(|_, (at, _)| now.saturating_sub(*at) < GOOD);
            let room = KNOWN_MAX.saturating_sub(peeked.0.len()).min(AT_ONCE);
            let names = candidates.iter().map(|queue| &queue.name);
            let new = names.filter(|name| !peeked.0.contains_key(*name));
            let new: Vec<QueueName> = new.take(room).cloned().collect();
            // Nobody else looks meanwhile, and what fails is not tried again at once.
            peeked.0.extend(new.iter().map(|name| (name.clone(), (now, false))));
            new
        };
        for name in unknown {
            let looked = tokio::time::timeout(LOOK, self.is_given_up(&name)).await;
            if matches!(looked, Ok(Ok(true))) {
                let mut peeked = self.dead.peeked.lock().unwrap_or_else(PoisonError::into_inner);
                peeked.0.insert(name, (now, true));
            }
        }
        let peeked = self.dead.peeked.lock().unwrap_or_else(PoisonError::into_inner);
        let says = |name: &&QueueName| peeked.0.get(*name).is_some_and(|(_, says)| *says);
        let names = candidates.iter().map(|queue| &queue.name).filter(says);
        names.map(|name| name.as_str().to_owned()).collect()
    }

    /// Whether a framework gave up the first message of the queue, which came from another one.
    async fn is_given_up(&self, queue: &QueueName) -> Result<bool, EngineError> {
        let Some(detail) = self.broker.queue_detail(queue).await? else {
            return Ok(false);
        };
        if detail.consumers != Some(0) || self.cost_of(queue).await?.limit().is_some() {
            return Ok(false);
        }
        let first = self.broker.browse(queue, 1).await?;
        let Some(first) = first.first() else { return Ok(false) };
        let given_up = recognise(queue.as_str(), &first.message);
        // What waits in the queue that it failed in is a message to be handled again.
        Ok(given_up.is_some_and(|one| one.died_in.as_deref() != Some(queue.as_str())))
    }
}
