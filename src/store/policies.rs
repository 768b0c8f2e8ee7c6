//! Policies and what already waits under them: the seam, and its plain data.
//!
//! A change of a policy and what follows for the messages that wait is one transaction; each message is moved
//! only while it still waits as it was read, so that an attempt, a probe or a person in between wins.

use std::time::Duration;

use async_trait::async_trait;

use super::{NewPolicy, PolicyScope, PolicyVersion, StoreError};
use crate::domain::endpoint::EndpointChange;
use crate::domain::id::{EndpointEpoch, NotificationId, QueueName};
use crate::domain::policy::{Override, Phase};
use crate::domain::queue::Head;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

/// Versions of policies, and the heads that wait under them.
#[async_trait]
pub trait Policies: Send + Sync {
    /// The newest version of each scope that has one, unset ones too; in no order.
    async fn policies_newest(&self, scopes: &[PolicyScope]) -> Result<Vec<PolicyVersion>, StoreError>;

    /// One version.
    async fn policy_version(&self, scope: &PolicyScope, version: i64) -> Result<Option<PolicyVersion>, StoreError>;

    /// Heads that wait for a time or, by an exhausted schedule, for a person: alone or as the probe of their
    /// URL. By queue name, a page. One with an open decision waits for nothing.
    async fn heads_waiting(&self, query: &WaitingQuery) -> Result<Vec<WaitingHead>, StoreError>;

    /// Saves a version when `expected` is still the newest one (0: there is none), and moves heads with it.
    async fn policy_change(&self, change: &PolicyChange) -> Result<PolicyChanged, StoreError>;

    /// Moves heads that still wait as they were read; answers how many.
    async fn heads_move(&self, moves: &[HeadMove]) -> Result<u64, StoreError>;
}

/// What a policy applies to a head by, and what the head itself asks for; stored with the head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadTerms {
    /// The event type that made it; `None` for what was published directly.
    pub event_type: Option<String>,
    /// Its own override.
    pub own: Override,
    /// For how long the receiver asked to be left alone, from the failure on.
    pub asked: Option<Duration>,
}

/// Which heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingQuery {
    /// Those that a policy of this scope could apply to: of its event type (none: published directly), and of
    /// its URL (none: of any).
    pub scope: PolicyScope,
    /// After this queue.
    pub after: Option<QueueName>,
    /// At most this many (1 to 1,000).
    pub limit: u32,
}

/// A head that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingHead {
    /// Its queue.
    pub queue: QueueName,
    /// Its URL.
    pub url: EndpointUrl,
    /// The head.
    pub head: Head,
    /// The event type that made it.
    pub event_type: Option<String>,
    /// Its own override.
    pub own: Override,
    /// Until when the receiver asked to be left alone.
    pub asked_until: Option<Timestamp>,
    /// Its URL, where that waits for this head; `None`: it waits alone.
    pub endpoint: Option<WaitingEndpoint>,
}

/// A URL that waits for its probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingEndpoint {
    /// Its epoch.
    pub epoch: EndpointEpoch,
    /// Failed attempts of its schedule.
    pub attempts: u32,
    /// When the probe is due; `None`: parked.
    pub next_attempt_at: Option<Timestamp>,
    /// Somebody probes at present.
    pub probing: bool,
}

impl WaitingHead {
    /// When it is tried next; `None`: it waits for a person.
    #[must_use]
    pub fn next_attempt_at(&self) -> Option<Timestamp> {
        self.endpoint
            .as_ref()
            .map_or(self.head.next_attempt_at, |endpoint| endpoint.next_attempt_at)
    }
}

/// Where a head goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveTo {
    /// It is tried then.
    At {
        /// When.
        at: Timestamp,
        /// The phase of that attempt.
        phase: Phase,
    },
    /// It waits for a person.
    Parked,
    /// It becomes a dead letter: a decision of this id is opened, which whoever takes the queue next carries out.
    DeadLettered {
        /// The decision's id.
        decision: String,
    },
}

/// One head that moves, and how it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadMove {
    /// Its queue.
    pub queue: QueueName,
    /// The message that is the head.
    pub message: NotificationId,
    /// With that many failures.
    pub failures: u32,
    /// The last of them then.
    pub last_failed_at: Timestamp,
    /// The URL that waits for it, with its epoch; moved with it.
    pub endpoint: Option<(EndpointUrl, EndpointEpoch)>,
    /// Where it goes.
    pub to: MoveTo,
    /// Attempts that its schedule allows now.
    pub attempts_allowed: u32,
}

impl HeadMove {
    /// What becomes of the URL that waits for it.
    #[must_use]
    pub fn endpoint_change(&self) -> Option<EndpointChange> {
        self.endpoint.as_ref().map(|_| match &self.to {
            MoveTo::At { at, .. } => EndpointChange::Reschedule { at: *at },
            MoveTo::Parked => EndpointChange::Park { attempts: None },
            MoveTo::DeadLettered { .. } => EndpointChange::ProbeNext {
                queue: Some(self.queue.clone()),
            },
        })
    }
}

/// A new version, with what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyChange {
    /// The version.
    pub new: NewPolicy,
    /// The newest version that it was made for; 0: there was none.
    pub expected: i64,
    /// What follows at once.
    pub moves: Vec<HeadMove>,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyChanged {
    /// Saved.
    Saved {
        /// Its version.
        version: i64,
        /// Heads that moved.
        moved: u64,
    },
    /// Somebody saved a version first: nothing was changed.
    Stale {
        /// The newest version.
        newest: i64,
    },
}
