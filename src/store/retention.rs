//! The bounds of what grows, and the check of the audit's chain.
//!
//! Promises: what grows is removed a page at a time, each page in one short transaction, so that nobody waits for a
//! trim: SQLite has one writer, and heartbeats go through it. A trim that breaks off has lost nothing and goes on where
//! it was. What is removed over several pages counts as gone from the first one on.
//!
//! Every table, and why it does not grow without bound (`[store] retention` names the keys):
//!
//! | table | bound |
//! |---|---|
//! | `attempts` | `attempts_s`, and a number of rows |
//! | `refused_queues` | `attempts_s`, but a day at least, and a 2xx of their URL |
//! | `audit` | `audit_s`; `audit_chain` keeps the end of what went |
//! | `policies` | `audit_s` and a number of versions, but never the newest of what is set |
//! | `runs`, `run_items`, `run_sources` | `runs_s` after their end and a number of runs; plans an hour; items per run |
//! | `endpoints` | `endpoints_s`, when available, without a queue and without a policy |
//! | `rescued` | `rescued_s` |
//! | `kept_messages` | `[janitor] discard_keep_s`; an edit goes `runs_s` after its dead letter left the index |
//! | `saves`, `saved_messages` | `[janitor] discard_keep_s` |
//! | `event_history` | the type's own `history_ttl`, in pages, by the event processor; while ages do not count, as `events` |
//! | `events`, `event_outbox`, `event_errors` | with the work: a row ends when it is handled or published, or its lifetime is over; while ages do not count, by a clock that did not leap |
//! | `event_types` | `types_s`, without a document, an event, a subscription, history and a policy; see `events/known.rs` |
//! | `subscriptions` | a row per URL that somebody subscribed, until it is taken back |
//! | `ended_subscriptions` | `types_s` after their end, without a queue and a dead letter of their URL |
//! | `delivery_queues` | with the broker's queue; idle ones after `[delivery] idle_queue_ttl_s` |
//! | `dead_queues`, `dead_letters` | an index: what a whole look does not see goes at its end |
//! | `stored_letters` | a dead letter that no queue takes is never removed by time: only sent on or discarded by a person |
//! | `looks` | 90 days after the last look at the queue, with each look |
//! | `lifetimes`, `unbindings` | the next sweep of the janitor, the end of the purge |
//! | `incarnations` | a day after their end, at the next start |
//! | `named_leases` | a row per configured consumer and pump |
//! | `settings`, `numbers`, `janitor`, `event_token`, `audit_chain`, `broker_policies`, `forgotten_endpoints`, `schema_version` | a fixed number of rows |

use std::time::Duration;

use async_trait::async_trait;

use super::{AttemptBounds, AuditEntry, RunBounds, StoreError};
use crate::domain::retention::Ages;
use crate::domain::time::Timestamp;

/// Removing what is beyond its bounds.
#[async_trait]
pub trait Trimming: Send + Sync {
    /// Removes one page: at most `rows` rows. Answers how many went; fewer than `rows`: nothing is left to remove.
    ///
    /// Whether ages count is decided and remembered with the page: while they do not, nothing goes by its age.
    async fn trim(&self, trim: &Trim, rows: u32) -> Result<u64, StoreError>;

    /// Whether the ages of rows count, as the last trim saw it.
    async fn ages(&self) -> Result<Ages, StoreError>;

    /// The ends of the audit's chain.
    async fn audit_chain(&self) -> Result<AuditChain, StoreError>;

    /// Lines of the audit oldest first, after the line `after`, at most `limit`.
    async fn audit_from(&self, after: i64, limit: u32) -> Result<Vec<AuditEntry>, StoreError>;
}

/// What is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// Attempts beyond these bounds.
    Attempts(AttemptBounds),
    /// Lines of the audit that are older, oldest first.
    Audit {
        /// How old a line may become.
        age: Duration,
    },
    /// Endpoints that are available, have neither a queue nor a policy that is set, and were not used for so long.
    Endpoints {
        /// How long they may be unused.
        unused: Duration,
    },
    /// Versions of policies that are not the newest, or that unset the policy and are the only one left.
    Policies {
        /// How old such a version may become.
        age: Duration,
        /// Versions of a scope that stay, at most.
        versions: u64,
    },
    /// Types without a document, an event, a subscription, history and a policy, that were not used for so long, and
    /// subscriptions that ended before that, when nothing to their URL waits in a queue or as a dead letter.
    EventTypes {
        /// How long they may be unused; never less than twice [`TYPE_REMEMBERED`](super::TYPE_REMEMBERED).
        unused: Duration,
    },
    /// Messages that no client could decode.
    Rescued {
        /// How old they may become.
        age: Duration,
    },
    /// Runs that are over and plans that nobody executed, with their items.
    Runs(RunBounds),
    /// Messages that were kept until a time that is over, and edits of dead letters that are in no index any more.
    Kept {
        /// How old such an edit may become.
        edits: Duration,
    },
    /// Saves whose time is over, with their messages.
    Saves,
}

impl Trim {
    /// The same while ages do not count: what has a bound of numbers keeps that one.
    pub(super) fn ageless(self) -> Option<Self> {
        const NEVER: Duration = Duration::MAX;
        match self {
            Self::Attempts(bounds) => Some(Self::Attempts(AttemptBounds { age: NEVER, ..bounds })),
            Self::Runs(bounds) => Some(Self::Runs(RunBounds {
                age: NEVER,
                planned: NEVER,
                ..bounds
            })),
            Self::Policies { versions, .. } => Some(Self::Policies { age: NEVER, versions }),
            Self::Audit { .. }
            | Self::Endpoints { .. }
            | Self::EventTypes { .. }
            | Self::Rescued { .. }
            | Self::Kept { .. }
            | Self::Saves => None,
        }
    }
}

/// The ends of the audit's chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditChain {
    /// Lines that retention removed.
    pub removed: u64,
    /// The last one of them; 0 for none.
    pub removed_id: i64,
    /// Its hash, which the first line that is left follows; empty for none.
    pub removed_hash: String,
    /// When it was removed.
    pub removed_at: Option<Timestamp>,
    /// The newest line; 0 for none.
    pub newest_id: i64,
    /// Its hash; empty for none.
    pub newest_hash: String,
}

impl AuditEntry {
    /// Whether this line, as it is, was written after a line with the hash `previous`.
    #[must_use]
    pub fn follows(&self, previous: &str) -> bool {
        super::rules::audit_hash(previous, self.at, &self.entry, self.broker.as_ref()) == self.hash
    }
}
