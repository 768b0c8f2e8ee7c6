//! Queues that the broker deletes when nobody uses them, by argument or policy, and leftovers that should have a
//! lifetime and have none: listed, saved, extended, purged, restored, and swept by the janitor.
//!
//! Looking uses no queue: names, counts and idle times come from paged listings alone. Exact counts are not
//! asked for: a queue that says its own is awake, and then the broker forgets since when it was idle. Whoever else
//! wakes it (the sweep for work, the console) moves that time too, so the janitor remembers the earliest it was told.

mod act;
mod checks;
mod extend;
mod facts;
mod janitor;
pub(super) mod order;
mod plan;
mod purge;
mod restore;
mod save;

use std::sync::Arc;
use std::time::Duration;

use facts::is_quorum;
pub use order::{ExpiringOrder, ExpiringOutcome, ExpiringResult, Keep, PlannedQueue, Which};

use super::EngineError;
use super::core::{Core, over_core};
pub use super::event::Gone;
use super::looks::LookCosts;
use super::paging::{cut, id_of};
use super::rules::compiled;
use super::view::Page;
use crate::ambient::HashMap;
use crate::broker::{BrokerError, BrokerPolicy, ListedQueue, WhichQueues};
use crate::domain::broker_rules::may_match;
use crate::domain::expiry::{self, Extends};
use crate::domain::id::QueueName;
use crate::domain::queue::QueueKind;
use crate::domain::time::Timestamp;
use crate::store::{LifetimeQuery, LifetimeRecord, SOON, SaveQuery};
pub use crate::store::{SaveCause, SaveRecord, SaveState};

/// The key of a lifetime, as a policy has it.
pub(super) const EXPIRES: &str = "expires";
/// Queues that are remembered and answered, at most.
const QUEUES_MAX: u32 = 20_000;
/// Up to so many queues are listed anew for each answer: they fit on one page.
const LISTED_ANEW: u64 = 500;
/// How old the janitor's last sweep may be to answer for a listing of more.
const SWEEP_GOOD: Duration = Duration::from_mins(10);

/// How long queues live that delete themselves, and what is lost with them.
#[derive(Debug)]
pub(super) struct Lifetimes {
    core: Arc<Core>,
}

/// Takes messages out of queues that go, keeps them in the store, and puts them back.
#[derive(Debug)]
pub(super) struct Saves {
    core: Arc<Core>,
    lifetimes: Arc<Lifetimes>,
    looks: Arc<LookCosts>,
}

/// What a person wants done with queues that delete themselves.
#[derive(Debug)]
pub(super) struct Expiring {
    core: Arc<Core>,
    pub(super) lifetimes: Arc<Lifetimes>,
    pub(super) saves: Arc<Saves>,
}

/// Sweeps them in a daemon: saves what goes, tells what went, tidies up.
#[derive(Debug)]
pub(super) struct Janitor {
    core: Arc<Core>,
    lifetimes: Arc<Lifetimes>,
    saves: Arc<Saves>,
    expiring: Arc<Expiring>,
}

impl Expiring {
    pub(super) fn new(core: &Arc<Core>, looks: &Arc<LookCosts>) -> Self {
        let lifetimes = Arc::new(Lifetimes { core: Arc::clone(core) });
        let saves = Arc::new(Saves {
            core: Arc::clone(core),
            lifetimes: Arc::clone(&lifetimes),
            looks: Arc::clone(looks),
        });
        Self {
            core: Arc::clone(core),
            lifetimes,
            saves,
        }
    }
}

impl Janitor {
    pub(super) fn new(expiring: &Arc<Expiring>) -> Self {
        Self {
            core: Arc::clone(&expiring.core),
            lifetimes: Arc::clone(&expiring.lifetimes),
            saves: Arc::clone(&expiring.saves),
            expiring: Arc::clone(expiring),
        }
    }
}

over_core!(Lifetimes, Saves, Expiring, Janitor);

/// A queue with a lifetime, or one that should have one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExpiringQueue {
    /// Its name.
    pub name: QueueName,
    /// What it is for.
    pub kind: QueueKind,
    /// How long it lives unused; `None`: it is a leftover that lives for ever.
    pub ttl: Option<Duration>,
    /// For how long nobody has used it, as far as was told; `None`: it is used, or nobody knows.
    pub idle: Option<Duration>,
    /// Since when.
    pub unused_since: Option<Timestamp>,
    /// When it goes; `None` while it is used.
    pub expires_at: Option<Timestamp>,
    /// Whether that is derived from statistics, which lag by seconds.
    pub estimated: bool,
    /// Consumers.
    pub consumers: Option<u64>,
    /// Messages that would be lost.
    pub messages: Option<u64>,
    /// Bytes of them.
    pub bytes: Option<u64>,
    /// Whether it was unused for longer than it should live, and is still there.
    pub over: bool,
    /// How its time can begin anew, without another lifetime.
    pub extends: Extends,
    /// When it was seen so.
    pub seen_at: Timestamp,
}

/// Which queues with a lifetime.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExpiringQuery {
    /// At most this many; 0 for all that are answered at once.
    pub limit: u32,
    /// Where to go on.
    pub cursor: Option<String>,
}

/// A page of them, what is lost first in front.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ExpiringPage {
    /// The queues.
    pub items: Vec<ExpiringQueue>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
    /// When they were listed: now, or by the janitor's last sweep.
    pub taken_at: Timestamp,
    /// How many there are in all.
    pub total: u64,
    /// What is lost within the hour if nobody does anything.
    pub soon: Soon,
}

/// What will be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Soon {
    /// Queues that go with messages in them.
    pub queues: u64,
    /// The messages.
    pub messages: u64,
}

/// What is lost first comes first: those with messages by the time that is left, then the others.
fn urgency(record: &LifetimeRecord) -> (bool, bool, Option<Timestamp>, &QueueName) {
    (
        record.expires_at.is_none(),
        record.messages == Some(0),
        record.expires_at,
        &record.name,
    )
}

impl Lifetimes {
    /// Queues with a lifetime and leftovers. Where they are many, as the janitor saw them last.
    pub(super) async fn list(&self, query: &ExpiringQuery) -> Result<ExpiringPage, EngineError> {
        let offset = super::paging::offset_of(query.cursor.as_deref())?;
        let limit = if query.limit == 0 {
            QUEUES_MAX
        } else {
            query.limit.min(QUEUES_MAX)
        };
        if let Some(page) = self.expiring_swept(offset, limit).await? {
            return Ok(page);
        }
        let records = self.lifetimes_listed().await?;
        let now = self.clock.now();
        let hour = now.plus(SOON);
        let mut soon = Soon::default();
        for record in &records {
            let messages = record.messages.unwrap_or(0);
            if messages > 0 && record.expires_at.is_some_and(|at| at < hour) {
                soon.queues += 1;
                soon.messages += messages;
            }
        }
        let total = records.len();
        let page = records.iter().skip(offset).take(limit as usize);
        let items: Vec<ExpiringQueue> = page.map(|record| self.expiring_queue(record, now)).collect();
        let next = offset + items.len();
        Ok(ExpiringPage {
            next_cursor: (next < total).then(|| next.to_string()),
            items,
            taken_at: now,
            total: total as u64,
            soon,
        })
    }

    /// As the janitor saw them, where that is a page and more and not old.
    async fn expiring_swept(&self, offset: usize, limit: u32) -> Result<Option<ExpiringPage>, EngineError> {
        let Some(sweep) = self.store.lifetimes_sweep().await? else {
            return Ok(None);
        };
        if sweep.queues <= LISTED_ANEW || self.store.now().await?.since(sweep.at) > SWEEP_GOOD {
            return Ok(None);
        }
        let query = LifetimeQuery {
            offset: offset as u64,
            limit,
        };
        let records = self.store.lifetimes(&query).await?;
        let now = self.clock.now();
        let next = offset as u64 + records.len() as u64;
        Ok(Some(ExpiringPage {
            items: records.iter().map(|record| self.expiring_queue(record, now)).collect(),
            next_cursor: (next < sweep.queues && !records.is_empty()).then(|| next.to_string()),
            taken_at: sweep.at,
            total: sweep.queues,
            soon: Soon {
                queues: sweep.soon,
                messages: sweep.soon_messages,
            },
        }))
    }

    /// Every queue with a lifetime and every leftover, listed now, what is lost first in front.
    async fn lifetimes_listed(&self) -> Result<Vec<LifetimeRecord>, EngineError> {
        let policies = self.listed(self.broker.policies().await)?;
        let known = self.lifetimes_known().await?;
        let mut records = self.listed(self.lifetimes_in(&policies, &known).await)?;
        records.sort_by(|a, b| urgency(a).cmp(&urgency(b)));
        Ok(records)
    }

    /// Every queue with a lifetime and every leftover, in no order. Delivery queues have no lifetime unless a policy
    /// gives them one, and are not listed where none may: they are the many.
    async fn lifetimes_in(
        &self,
        policies: &[BrokerPolicy],
        known: &HashMap<QueueName, LifetimeRecord>,
    ) -> Result<Vec<LifetimeRecord>, BrokerError> {
        let prefix = &self.settings.naming.prefix;
        let may_give = |policy: &BrokerPolicy| {
            policy.definition.iter().any(|(key, _)| key == EXPIRES) && may_match(&policy.pattern, prefix)
        };
        let which = if policies.iter().any(may_give) {
            WhichQueues::All
        } else {
            WhichQueues::ButDelivery
        };
        let policies = compiled(policies);
        let mut records = Vec::new();
        let mut each = |listed: ListedQueue| {
            if facts::lifetime_ms(&listed, &policies).is_some() || self.is_leftover(&listed.name) {
                let before = known.get(&listed.name);
                records.push(self.record(listed, &policies, before));
            }
        };
        self.broker.queues_listed(&which.into(), &mut each).await?;
        Ok(records)
    }

    /// What the janitor remembers.
    async fn lifetimes_known(&self) -> Result<HashMap<QueueName, LifetimeRecord>, EngineError> {
        let query = LifetimeQuery {
            offset: 0,
            limit: QUEUES_MAX,
        };
        let known = self.store.lifetimes(&query).await?;
        Ok(known.into_iter().map(|record| (record.name.clone(), record)).collect())
    }

    /// One queue as it is now; `None`: it is not there. Uses it not.
    async fn lifetime_now(&self, queue: &QueueName) -> Result<Option<LifetimeRecord>, EngineError> {
        let Some(listed) = self.broker.queue_detail(queue).await? else {
            return Ok(None);
        };
        let policies = compiled(&self.broker.policies().await?);
        let before = self.store.lifetime_get(queue).await?;
        Ok(Some(self.record(listed, &policies, before.as_ref())))
    }

    /// Whether the broker's idle time is the one that lifetimes count from.
    fn tells_exactly(&self) -> bool {
        self.broker.is_embedded()
    }

    fn expiring_queue(&self, record: &LifetimeRecord, now: Timestamp) -> ExpiringQueue {
        ExpiringQueue {
            kind: self.kind_of(&record.name),
            ttl: record.lifetime_ms.map(Duration::from_millis),
            idle: record.unused_since.map(|since| now.since(since)),
            unused_since: record.unused_since,
            expires_at: record.expires_at,
            estimated: !self.tells_exactly(),
            consumers: record.consumers,
            messages: record.messages,
            bytes: record.bytes,
            over: self.is_over(record, now),
            extends: expiry::extends(&facts::living(record), None),
            seen_at: record.seen_at,
            name: record.name.clone(),
        }
    }

    /// By its name something that should not live for ever, as delivery queues may.
    fn is_leftover(&self, queue: &QueueName) -> bool {
        let (name, naming) = (queue.as_str(), &self.settings.naming);
        let is_ours =
            naming.is_delivery_queue(name) || name == naming.dead_letter_queue() || name == naming.wake_queue();
        self.settings.leftover_pattern.is_match(name) && !is_ours
    }

    /// Unused for longer than it lives, or than a job's queues live where it has no lifetime itself.
    fn is_over(&self, record: &LifetimeRecord, now: Timestamp) -> bool {
        let lifetime = record
            .lifetime_ms
            .map_or(self.settings.job_queue_ttl, Duration::from_millis);
        record.consumers.unwrap_or(0) == 0 && record.unused_since.is_some_and(|since| since.plus(lifetime) <= now)
    }

    /// What was saved, newest first.
    pub(super) async fn saves(&self, query: &SaveQuery) -> Result<Page<SaveRecord>, EngineError> {
        id_of(query.before.as_deref())?;
        let asked = SaveQuery {
            // One more says that there is another page.
            limit: query.limit.saturating_add(1),
            ..query.clone()
        };
        let (items, next_cursor) = cut(self.store.saves(&asked).await?, query.limit, |save| save.id.clone());
        Ok(Page {
            problems: Vec::new(),
            next_cursor,
            taken_at: self.clock.now(),
            items,
        })
    }
}
