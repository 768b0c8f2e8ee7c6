//! The record: what has to be remembered beside the broker. One seam, two drivers (SQLite,
//! PostgreSQL), one contract suite. What both databases are asked in the same words stands once (`sql`).
//!
//! Promises: every method is one guarded transaction, durable when it returns; a guard that does not
//! hold changes nothing and says so in its result, never as an error. Spans are added to the store's
//! own clock (the database's for PostgreSQL), so that no two hosts compare their clocks.
//! Methods are safe to drop only before they are polled: callers run them to completion.
//!
//! The seam is several traits behind one handle, [`Store`].

mod broker_facts;
mod columns;
mod dead_letters;
mod events;
mod kept_messages;
mod policies;
pub mod postgres;
mod record;
mod retention;
mod rules;
mod runs;
mod saves;
mod sql;
pub mod sqlite;
mod stored_letters;
mod within;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::domain::endpoint::{Endpoint, EndpointChange};
use crate::domain::id::{EndpointEpoch, Epoch, IncarnationId, QueueName, StoreId};
pub use crate::domain::numbers::Numbers;
use crate::domain::pace::PaceChange;
use crate::domain::queue::{Decision, QueueRecord};
use crate::domain::schema::SchemaRefusal;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

pub use broker_facts::{BrokerFacts, KeptPolicies};
pub use dead_letters::*;
pub use events::*;
pub use kept_messages::*;
pub use policies::*;
pub use record::*;
pub use retention::*;
// A model of the store decides by the same rules.
pub use rules::{
    due_in, endpoint_after, endpoint_after_failure, endpoint_moves, head_places, lease_refusal, next_number,
    pace_changed, raises,
};
pub use runs::*;
pub use saves::*;
pub use stored_letters::*;

/// A handle that is cheap to clone.
pub type StoreHandle = Arc<dyn Store>;

/// Why the store could not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached; trying again later may help.
    #[error("store unreachable during {operation}")]
    Unreachable {
        /// What was tried.
        operation: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It answers, and takes no writes: read-only, or without room.
    #[error("the store takes no writes ({operation}): {why}")]
    NotWritable {
        /// What was tried.
        operation: &'static str,
        /// What it says, and the mend.
        why: &'static str,
        /// Its own words.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Its tables are not what this program needs, or not ours.
    #[error(transparent)]
    Schema(#[from] SchemaRefusal),
    /// It refused the statement, or holds what cannot be read.
    #[error("store failed during {operation}")]
    Failed {
        /// What was tried.
        operation: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The address or file is not usable.
    #[error("store.url {problem}")]
    Unusable {
        /// What is wrong and what is possible.
        problem: String,
    },
}

/// A session of others keeps rows or tables locked that a call needs; the cause of a [`StoreError::Unreachable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "another session of the database has locked what this needs, and does not end its transaction: `redrive doctor` \
     names that session; end it there"
)]
pub struct RowsLocked;

impl StoreError {
    /// Whether the store is there, and only what others have locked is lacking.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => source.is::<RowsLocked>(),
            Self::NotWritable { .. } | Self::Schema(_) | Self::Failed { .. } | Self::Unusable { .. } => false,
        }
    }

    /// Whether trying again later may help: it cannot be reached, or takes no writes at present.
    #[must_use]
    pub const fn passes(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::NotWritable { .. })
    }
}

/// What a store is kept by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreVersion {
    /// As it says it.
    pub text: String,
    /// Where this program was not tested with it: a sentence that says so.
    pub warning: Option<String>,
}

/// What this program is not allowed to do with what a store is kept in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRights {
    /// Who lacks what.
    pub lacks: String,
    /// Who has to run what.
    pub mend: String,
}

/// A session of others that has locked rows or tables of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignLock {
    /// Which session, whose, and since when.
    pub by: String,
    /// Of which tables.
    pub tables: String,
    /// How it is ended.
    pub mend: String,
}

/// Everything the engine remembers.
#[async_trait]
pub trait Store:
    Incarnations
    + Queues
    + Deliveries
    + Endpoints
    + Records
    + Policies
    + DeadLetters
    + StoredLetters
    + Runs
    + KeptMessages
    + Events
    + EventTypes
    + EventClaims
    + EventOutbox
    + Saves
    + Lifetimes
    + Trimming
    + BrokerFacts
    + std::fmt::Debug
{
    /// `sqlite` or `postgres`, for people.
    fn kind(&self) -> &'static str;

    /// The version of what it is kept by.
    async fn version(&self) -> Result<StoreVersion, StoreError>;

    /// What this program is not allowed to do; `None` where nothing is lacking, or nobody gives rights.
    async fn missing_rights(&self) -> Result<Option<MissingRights>, StoreError> {
        Ok(None)
    }

    /// Who else has locked the row of this queue, or anything for long; at most 10.
    async fn foreign_locks(&self, _queue: Option<&QueueName>) -> Result<Vec<ForeignLock>, StoreError> {
        Ok(Vec::new())
    }

    /// An error where its tables cannot grow, though rows that are there may still be written over.
    async fn find_room(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The store's own clock.
    async fn now(&self) -> Result<Timestamp, StoreError>;

    /// What this store is told by from every other one; made at the first question, once. A copy of a store has the
    /// same.
    async fn identity(&self) -> Result<StoreId, StoreError>;

    /// Closes connections and releases what this process holds.
    async fn close(&self);
}

/// Starts of daemons, their heartbeats, and evidence of their death (docs/protocols.md 2, 3, 7).
#[async_trait]
pub trait Incarnations: Send + Sync {
    /// A new incarnation, alive, with its evidence of life held (SQLite: a file lock; PostgreSQL: a
    /// session advisory lock on a connection of its own).
    ///
    /// Refused when other settings (fingerprint) are in use, by somebody alive or by queues that exist, or when the store
    /// demands a newer program. Settings that name every queue that exists are its own.
    async fn incarnation_begin(&self, new: NewIncarnation) -> Result<Begun, StoreError>;

    /// Raises the heartbeat counter, guarded by alive, minimum version and fingerprint.
    async fn heartbeat(&self, id: IncarnationId) -> Result<Beat, StoreError>;

    /// An orderly end: frees its leases and its evidence of life, and takes its wishes back. The evidence is free after an error, too: its work
    /// is over, and others find it dead.
    async fn incarnation_end(&self, id: IncarnationId) -> Result<(), StoreError>;

    /// All that are alive, newest first: whoever decides by them has to see each one, so there is no limit.
    async fn incarnations_living(&self) -> Result<Vec<Incarnation>, StoreError>;

    /// All that are alive, and of those that ended or died within the last day the newest 200; newest first.
    async fn incarnations(&self) -> Result<Vec<Incarnation>, StoreError>;

    /// That of the settings which the daemons share; `None` before the first of them began.
    async fn fingerprint(&self) -> Result<Option<String>, StoreError>;

    /// What is to be seen of the process of `id`, by what it proves.
    async fn evidence(&self, id: IncarnationId) -> Result<Evidence, StoreError>;

    /// Marks `id` dead if it is alive and its counter is still `counter`; true when this call did it.
    async fn incarnation_mark_dead(&self, id: IncarnationId, counter: i64) -> Result<bool, StoreError>;
}

/// Delivery-queue records and their leases.
#[async_trait]
pub trait Queues: Send + Sync {
    /// Takes the leases of `queues` for `incarnation` in one transaction with one epoch; a queue not
    /// yet known gets its row. Neither the other queues nor anybody's heartbeat wait for a row that somebody else
    /// has locked in the database. A lease can be taken when it is free or its owner is not alive, and,
    /// for [`Purpose::Deliver`], when the queue is neither paused nor wanted by somebody who lives. For
    /// [`Purpose::Manage`] its living owner takes it anew: the epoch of before guards nothing any more.
    /// The wish of the taker, and that of one who is dead, is over.
    /// A `closing` that a crash left becomes `ended`: whoever finds the queue empty starts again at the
    /// unbind. Answers in the order asked.
    async fn leases_take(
        &self,
        incarnation: IncarnationId,
        purpose: Purpose,
        queues: &[QueueName],
    ) -> Result<Vec<LeaseOutcome>, StoreError>;

    /// Frees a lease that is still held under `epoch`; true when it was.
    async fn lease_free(&self, queue: &QueueName, epoch: Epoch) -> Result<bool, StoreError>;

    /// What `incarnation` holds at present, with the wishes of others.
    async fn leases_held(&self, incarnation: IncarnationId) -> Result<Vec<HeldLease>, StoreError>;

    /// Makes rows for queues that a publisher declared, and their endpoints, where missing; raises
    /// `active_at`.
    async fn queues_learn(&self, learned: &[LearnedQueue]) -> Result<(), StoreError>;

    /// One row.
    async fn queue_get(&self, queue: &QueueName) -> Result<Option<QueueRecord>, StoreError>;

    /// The rows of these that are known, at most 1,000 asked for at once; in no order.
    async fn queues_get(&self, queues: &[QueueName]) -> Result<Vec<QueueRecord>, StoreError>;

    /// Whose queues these are, of those that have a row with a URL; in any order.
    async fn queue_urls(&self, queues: &[QueueName]) -> Result<Vec<QueueUrl>, StoreError>;

    /// Rows by name, a page after `after` (exclusive), at most `limit` (1 to 1,000).
    async fn queues_page(&self, query: &QueueQuery) -> Result<Vec<QueueRecord>, StoreError>;

    /// Rows whose own schedule is due, or whose deletion a crash left open, that nobody alive holds.
    async fn queues_due(&self, limit: u32) -> Result<Vec<QueueRecord>, StoreError>;

    /// Heads that wait on their own schedule or park alone, soonest first (parked last), at most `limit`.
    async fn queues_waiting(&self, limit: u32) -> Result<Vec<QueueRecord>, StoreError>;

    /// Pauses or resumes; answers the row, or `None` for an unknown queue.
    async fn queue_pause(&self, queue: &QueueName, pause: Option<NewPause>) -> Result<Option<QueueRecord>, StoreError>;

    /// Says that an incarnation wants the lease next, unless another one who lives does already. It counts while
    /// that incarnation lives.
    async fn queue_want(&self, queue: &QueueName, incarnation: IncarnationId) -> Result<(), StoreError>;

    /// Takes that back.
    async fn queue_unwant(&self, queue: &QueueName, incarnation: IncarnationId) -> Result<(), StoreError>;

    /// A change by the holder of the lease, guarded by `epoch`; false when the guard does not hold.
    async fn queue_mark(&self, queue: &QueueName, epoch: Epoch, mark: QueueMark) -> Result<bool, StoreError>;

    /// Wakes a parked or waiting head: clears its failures, so that it is tried at once with its
    /// whole budget. Answers the queues changed.
    async fn heads_reset(&self, scope: &HeadScope) -> Result<Vec<QueueName>, StoreError>;

    /// Forgets a queue that was deleted from the broker, guarded by `epoch`; never one that has a companion, which
    /// nobody would know of any more.
    async fn queue_forget(&self, queue: &QueueName, epoch: Epoch) -> Result<bool, StoreError>;
}

/// Attempts and what follows from them.
#[async_trait]
pub trait Deliveries: Send + Sync {
    /// One failed or refused attempt with everything that follows from it, in one transaction:
    /// the attempt's row, the head (guarded by the queue's epoch), the endpoint (guarded by its
    /// epoch), an open decision. The endpoint's guard failing does not stop the rest.
    async fn failure_record(&self, failure: &Failure) -> Result<FailureRecorded, StoreError>;

    /// Successes, in batches after their acks: attempts (the last few of each queue are kept),
    /// counters, `last_success_at`; clears the heads that they settle, and what an endpoint failed with that is
    /// available again.
    async fn successes_record(&self, successes: &[Success]) -> Result<(), StoreError>;

    /// An attempt that settles nothing (interrupted, or stale): its row only.
    async fn attempt_record(&self, attempt: &crate::domain::attempt::Attempt) -> Result<(), StoreError>;

    /// Of how many queues of `url`, `but` aside, a head failed or was refused for the first time after the last 2xx (the
    /// later of `since`, by the store's clock, and the stored one), and how many queues the URL has. One that was refused
    /// counts also when its message is a dead letter by now.
    async fn heads_failing(
        &self,
        url: &EndpointUrl,
        since: Option<Timestamp>,
        but: &QueueName,
    ) -> Result<Tally, StoreError>;

    /// Commits a decision before it is carried out, guarded by the queue's epoch.
    async fn decision_open(&self, queue: &QueueName, decision: &Decision) -> Result<bool, StoreError>;

    /// The decision was carried out: cleared together with the head it was about.
    async fn decision_close(&self, queue: &QueueName, epoch: Epoch, decision: &str) -> Result<bool, StoreError>;

    /// The attempt log, newest first.
    async fn attempts(&self, query: &AttemptQuery) -> Result<Vec<crate::domain::attempt::Attempt>, StoreError>;
}

/// Endpoints and their state (docs/protocols.md 13, 14).
#[async_trait]
pub trait Endpoints: Send + Sync {
    /// What only grows, as it is now: each is drawn as a lease's epoch is (docs/protocols.md 34).
    async fn numbers(&self) -> Result<Numbers, StoreError>;

    /// Makes them at least one more than `above`, which a store that was restored had once (docs/protocols.md 34).
    async fn numbers_raise(&self, above: Numbers) -> Result<(), StoreError>;

    /// Raises it: a person changed something that every daemon should look at again.
    async fn generation_raise(&self) -> Result<(), StoreError>;

    /// Every endpoint that is not available.
    async fn endpoints_not_available(&self) -> Result<Vec<Endpoint>, StoreError>;

    /// URLs that ever gave a 2xx, the latest first, at most `limit`.
    async fn endpoints_answered(&self, limit: u32) -> Result<Vec<EndpointUrl>, StoreError>;

    /// One endpoint.
    async fn endpoint_get(&self, url: &EndpointUrl) -> Result<Option<Endpoint>, StoreError>;

    /// Endpoints, those that are not available first, then by URL, with their number of queues.
    async fn endpoints_page(&self, query: &EndpointQuery) -> Result<Vec<(Endpoint, u64)>, StoreError>;

    /// Changes an endpoint. With `expected`, only when that is still its epoch. Raises epoch and
    /// generation when the state changes. What [opens](EndpointChange::opens) also resets every head of the URL.
    async fn endpoint_change(
        &self,
        url: &EndpointUrl,
        expected: Option<EndpointEpoch>,
        change: &EndpointChange,
    ) -> Result<Changed, StoreError>;

    /// Endpoints that are paced, at most `limit`.
    async fn endpoints_paced(&self, limit: u32) -> Result<Vec<Endpoint>, StoreError>;

    /// Changes how fast an endpoint goes; its epoch stays. With `expected`, only when that is still the revision of its
    /// pace. Raises the generation, but for what a canary counts.
    async fn endpoint_pace(
        &self,
        url: &EndpointUrl,
        expected: Option<i64>,
        change: &PaceChange,
    ) -> Result<PaceChanged, StoreError>;

    /// Claims the probe of an unavailable endpoint that is due, for the head of `queue`, for `hold`.
    async fn probe_claim(
        &self,
        url: &EndpointUrl,
        queue: &QueueName,
        hold: Duration,
    ) -> Result<ProbeOutcome, StoreError>;

    /// Gives a claimed probe back without an attempt. [`ProbeNext::AnyQueue`] lets another queue give it, at once;
    /// how far the URL's schedule got stays.
    async fn probe_release(&self, url: &EndpointUrl, token: i64, next: ProbeNext) -> Result<(), StoreError>;
}

/// Policies, audit, rescued messages.
#[async_trait]
pub trait Records: Send + Sync {
    /// Appends; answers its id.
    async fn audit_append(&self, entry: &NewAudit) -> Result<i64, StoreError>;
    /// Newest first, before `before` (exclusive), at most `limit`.
    async fn audit_list(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditEntry>, StoreError>;

    /// A new version of a policy; `document` `None` unsets it. Answers the version.
    async fn policy_put(&self, new: &NewPolicy) -> Result<i64, StoreError>;
    /// The newest version of a scope, when it is set.
    async fn policy_get(&self, scope: &PolicyScope) -> Result<Option<PolicyVersion>, StoreError>;
    /// The newest set version of every scope, by scope, at most `limit`.
    async fn policies(&self, limit: u32) -> Result<Vec<PolicyVersion>, StoreError>;
    /// All versions of a scope, newest first, at most 200.
    async fn policy_history(&self, scope: &PolicyScope) -> Result<Vec<PolicyVersion>, StoreError>;

    /// Keeps the exact bytes of a message that no client can decode; answers its id.
    async fn rescued_insert(&self, message: &RescuedMessage) -> Result<i64, StoreError>;
    /// Those of one queue, or all: newest first, before `before` (exclusive), at most `limit`.
    async fn rescued_list(
        &self,
        queue: Option<&QueueName>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<RescuedRow>, StoreError>;
    /// One of them.
    async fn rescued_get(&self, id: i64) -> Result<Option<RescuedMessage>, StoreError>;
}

impl QueueQuery {
    /// The first page of everything.
    #[must_use]
    pub const fn first(limit: u32) -> Self {
        Self {
            after: None,
            only: QueuesOnly::All,
            limit,
        }
    }
}
