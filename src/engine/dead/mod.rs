//! Dead letters of the whole vhost: which queues they wait in, looks at those queues, the list over what was
//! seen.
//!
//! A look walks a queue once and writes what it saw into the store's index; lists, groups and marks then
//! come from the index and hold still. Looks follow the number of messages: a queue is looked at again when
//! that changed, or after a while. The broker marks what was looked at as redelivered; nothing else changes.
//! Queues that somebody consumes are not looked at: a look would take their messages out of his hands.

mod claim;
mod compare;
pub(in crate::engine) mod comparison;
mod events;
mod heard;
mod held;
mod list;
mod look;
mod loops;
mod map;
mod outlet;
mod pages;
mod peek;
mod places;
mod queues;
mod sought;
mod stored;
mod sum;
mod targets;
mod watch;
mod ways;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ambient::HashSet;
use crate::domain::dead_letter::{DeadLetter, DeadLetterId, DeadQueueKind, Target};
use crate::domain::death::DeathHistory;
use crate::domain::id::QueueName;
use crate::domain::message::Message;
use crate::domain::time::Timestamp;

/// Where dead letters are looked for, for who did not find one.
pub(in crate::engine) const SEARCHED: &str =
    "in the queues that an argument, a policy, a known framework or dead.queues names";

/// Why a dead letter with this id may not have been found: what is only the beginning of one names none.
pub(crate) fn searched(id: &str) -> &'static str {
    if DeadLetterId::parse(id).is_some() {
        SEARCHED
    } else {
        "an id is given whole, as `redrive dead list` prints it"
    }
}

pub use crate::store::{DeadGroup, DeadSort};
pub use compare::{DeadCompareQuery, DeadComparison, NAMED_MAX, SAMPLE_MAX};
pub use comparison::{Compared, Comparing, Comparison, Shared};
pub use sum::DeadSum;

use super::core::{Core, over_core};
use super::health::Ownership;
use super::looks::LookCosts;
use super::queues::seen::Seen;
use super::runs::RunReader;
use super::view::{Page, Unread};
use crate::broker::ListedQueue;
pub(in crate::engine) use events::{event_table_view, way_back};
pub(in crate::engine) use heard::Heard;
pub use list::Exported;
pub(in crate::engine) use list::dead_filter;
pub(in crate::engine) use look::Horizon;
pub use map::{DiesTo, QueueStep};
pub use outlet::EXPORT_TIME;
pub(in crate::engine) use pages::DeadPages;
pub(in crate::engine) use places::DeadCounts;
pub use queues::{DeadQueueRow, DeadQueuesQuery};
pub use targets::Feeder;
pub(in crate::engine) use targets::{DeadTarget, Targets};
pub(in crate::engine) use watch::Died;
pub(in crate::engine) use ways::{Exchanges, Way};

/// Which queues dead letters end in.
#[derive(Debug)]
pub(in crate::engine) struct DeadTargets {
    core: Arc<Core>,
    pub(in crate::engine) looks: Arc<LookCosts>,
    /// The targets as they were found last.
    found: Mutex<Option<targets::Found>>,
    /// What the first messages of queues said that no name tells.
    peeked: Mutex<peek::Peeked>,
}

/// The store's index of them, which looks at the queues write.
#[derive(Debug)]
pub(in crate::engine) struct DeadIndex {
    core: Arc<Core>,
    targets: Arc<DeadTargets>,
    looks: Arc<LookCosts>,
    run_reader: Arc<RunReader>,
    /// Queues that this process looks at.
    looking: Mutex<HashSet<QueueName>>,
}

/// Lists, groups and single dead letters.
#[derive(Debug)]
pub(in crate::engine) struct DeadLetters {
    core: Arc<Core>,
    ownership: Arc<Ownership>,
    pub(in crate::engine) targets: Arc<DeadTargets>,
    index: Arc<DeadIndex>,
    /// What was sought last by what stands in messages.
    last_sought: Mutex<Option<sought::Found>>,
    /// Where dead letters are, for whoever looks again and again.
    places: tokio::sync::Mutex<places::DeadPlaces>,
}

over_core!(DeadTargets, DeadIndex, DeadLetters);

impl DeadTargets {
    pub(in crate::engine) fn new(core: &Arc<Core>, looks: &Arc<LookCosts>) -> Self {
        Self {
            core: Arc::clone(core),
            looks: Arc::clone(looks),
            found: Mutex::default(),
            peeked: Mutex::default(),
        }
    }

    /// Has them found again by whoever asks next.
    fn forget(&self) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl DeadIndex {
    pub(in crate::engine) fn new(core: &Arc<Core>, targets: &Arc<DeadTargets>, run_reader: &Arc<RunReader>) -> Self {
        Self {
            core: Arc::clone(core),
            targets: Arc::clone(targets),
            looks: Arc::clone(&targets.looks),
            run_reader: Arc::clone(run_reader),
            looking: Mutex::default(),
        }
    }

    /// Takes the turn to look at a queue in this process.
    fn enter<'a>(&'a self, queue: &'a QueueName) -> Option<Turn<'a>> {
        let is_free = self.looking().insert(queue.clone());
        is_free.then_some(Turn { index: self, queue })
    }

    /// Whether somebody has it.
    fn is_looked_at(&self, queue: &QueueName) -> bool {
        self.looking().contains(queue)
    }

    fn looking(&self) -> MutexGuard<'_, HashSet<QueueName>> {
        self.looking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn to look at a queue. However it ends, another one may look then, and those who wait for it are told.
struct Turn<'a> {
    index: &'a DeadIndex,
    queue: &'a QueueName,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.index.looking().remove(self.queue);
        self.index.news.moved.send_replace(());
    }
}

impl DeadLetters {
    pub(in crate::engine) fn new(
        core: &Arc<Core>,
        ownership: &Arc<Ownership>,
        targets: &Arc<DeadTargets>,
        index: &Arc<DeadIndex>,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            ownership: Arc::clone(ownership),
            targets: Arc::clone(targets),
            index: Arc::clone(index),
            last_sought: Mutex::default(),
            places: tokio::sync::Mutex::default(),
        }
    }

    /// Finds where dead letters are, in a listing, unless that was done a moment ago.
    pub(in crate::engine) async fn find_places(&self, listed: &[ListedQueue]) {
        self.places.lock().await.find(&self.targets, listed).await;
    }

    /// Counts the dead events, unless that was done a moment ago.
    pub(in crate::engine) async fn count_events(&self) {
        self.places.lock().await.count_events(&self.core).await;
    }

    /// How many there are by this listing, with those that are `stored`.
    pub(in crate::engine) async fn count(&self, seen: Option<&[Seen]>, stored: Option<u64>) -> DeadCounts {
        self.places.lock().await.count(seen, stored)
    }
}

/// Which dead letters are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeadSelection {
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// Only of this group (its fingerprint).
    pub group: Option<String>,
    /// Only those that match this expression.
    pub filter: Option<String>,
}

/// A list of dead letters.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeadListQuery {
    /// Which.
    pub selection: DeadSelection,
    /// A column: `last_failed_at`, `first_failed_at`, `attempts`, `redriven`, `size_bytes`, `position`.
    pub sort: Option<String>,
    /// At most this many (1 to 1,000).
    pub limit: u32,
    /// Where to go on.
    pub cursor: Option<String>,
    /// How long to wait for looks under way before answering with what was seen so far.
    pub patience: Duration,
}

/// A page of dead letters, or of groups, with the queues that they are in.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DeadPage<T> {
    /// The page.
    pub page: Page<T>,
    /// Every dead-letter queue.
    pub queues: Vec<DeadQueueView>,
    /// When the oldest look ended that it is from; `None` while a queue was not looked at since it changed.
    pub as_of: Option<Timestamp>,
    /// What could not be read, so that there may be more than this.
    pub problems: Vec<Unread>,
}

/// A dead-letter queue and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeadQueueView {
    /// Its name.
    pub name: QueueName,
    /// What makes it one of dead letters; `None` where that could not be read.
    pub kind: Option<DeadQueueKind>,
    /// The queues that dead-letter into it, as far as arguments, policies and bindings say that.
    pub fed_by: Arc<Vec<Feeder>>,
    /// Messages in it, as the broker lists it.
    pub ready: Option<u64>,
    /// Messages that the last whole look saw.
    pub messages: Option<u64>,
    /// When the last look ended.
    pub looked_at: Option<Timestamp>,
    /// Messages that the look under way has seen, and how many there are.
    pub looking: Option<(u64, Option<u64>)>,
    /// Somebody consumes it: what is in it is being worked on.
    pub consumed: bool,
    /// It may be a queue of work whose consumers are away: what is in it is not counted.
    pub may_be_work: bool,
    /// Why it is not, or could not be, looked at.
    pub problem: Option<String>,
}

/// A dead letter with everything.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DeadDetail {
    /// As listed.
    pub letter: DeadLetter,
    /// The message with headers and body (from outside).
    pub message: Message,
    /// How it died.
    pub history: DeathHistory,
    /// Where a redrive to its origin sends it, or what is known of that.
    pub target: Result<Target, String>,
    /// What is sent in its place. Told where one letter is asked for.
    pub edited: Option<Box<Instead>>,
}

/// What somebody put in the place of a dead letter: a redrive sends this.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Instead {
    /// The message with headers and body (from outside).
    pub message: Message,
    /// Who edited or patched it last.
    pub actor: String,
    /// When.
    pub at: Timestamp,
}
