//! Queues that the broker deletes when nobody uses them, by argument or policy, and leftovers that should have a
//! lifetime and have none.
//!
//! Nothing here uses a queue: names, counts and idle times come from paged listings alone. Exact counts are not
//! asked for: a queue that says its own is awake, and then the broker forgets since when it was idle.

use std::time::Duration;

use super::answers::listing::PAGES_MAX;
use super::view::Page;
use super::{EngineError, Inner};
use crate::broker::ListedQueue;
use crate::domain::broker_rules::Policies;
use crate::domain::id::QueueName;
use crate::domain::queue::QueueKind;
use crate::domain::time::Timestamp;

/// The key of a lifetime, as a policy has it.
pub(super) const EXPIRES: &str = "expires";

/// A queue with a lifetime, or one that should have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiringQueue {
    /// Its name.
    pub name: QueueName,
    /// What it is for.
    pub kind: QueueKind,
    /// How long it lives unused; `None`: it is a leftover that lives for ever.
    pub ttl: Option<Duration>,
    /// For how long nobody has used it, as the broker says; `None`: it is used, or nobody knows.
    pub idle: Option<Duration>,
    /// When it goes; `None` while it is used.
    pub expires_at: Option<Timestamp>,
    /// Whether that is derived from statistics, which lag by seconds.
    pub estimated: bool,
    /// Consumers.
    pub consumers: Option<u64>,
    /// Messages that would be lost.
    pub messages: Option<u64>,
}

impl ExpiringQueue {
    /// What is lost first comes first: those with messages by the time that is left, then the others.
    fn urgency(&self) -> (bool, bool, Option<Timestamp>, &QueueName) {
        (
            self.expires_at.is_none(),
            self.messages == Some(0),
            self.expires_at,
            &self.name,
        )
    }
}

impl Inner {
    /// Every queue with a lifetime and every leftover, what is lost first in front.
    pub(super) async fn expiring(&self) -> Result<Page<ExpiringQueue>, EngineError> {
        let policies = super::rules::compiled(&self.broker.policies().await?);
        let now = self.clock.now();
        let mut items = Vec::new();
        self.each_listed(None, PAGES_MAX, |listed| {
            let ttl = lifetime(&listed, &policies);
            if ttl.is_some() || self.is_leftover(&listed) {
                items.push(self.expiring_queue(listed, ttl, now));
            }
        })
        .await?;
        items.sort_by(|a, b| a.urgency().cmp(&b.urgency()));
        Ok(Page {
            items,
            next_cursor: None,
            taken_at: now,
        })
    }

    fn expiring_queue(&self, listed: ListedQueue, ttl: Option<Duration>, now: Timestamp) -> ExpiringQueue {
        let unused = listed.consumers.unwrap_or(0) == 0;
        let idle_since = listed.idle_since.filter(|_| unused);
        ExpiringQueue {
            kind: self.kind_of(&listed.name),
            ttl,
            idle: idle_since.map(|since| now.since(since)),
            expires_at: idle_since.zip(ttl).map(|(since, ttl)| since.plus(ttl)),
            estimated: self.broker.kind() != "embedded",
            consumers: listed.consumers,
            messages: listed.ready.map(|ready| ready + listed.unacked.unwrap_or(0)),
            name: listed.name,
        }
    }

    /// By its name something that should not live for ever.
    fn is_leftover(&self, listed: &ListedQueue) -> bool {
        self.settings.leftover_pattern.is_match(listed.name.as_str())
    }
}

/// As the broker takes it.
fn lifetime(listed: &ListedQueue, policies: &Policies) -> Option<Duration> {
    let millis = policies.smallest(&listed.declared(), EXPIRES)?;
    Some(Duration::from_millis(u64::try_from(millis).ok()?))
}
