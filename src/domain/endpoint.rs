//! An endpoint: a URL with its state, and the changes that the state can make.

use super::id::{EndpointEpoch, NotificationId, QueueName};
use super::named::named;
use super::pace::{Pace, PaceOrder};
use super::time::Timestamp;
use super::url::EndpointUrl;

/// What may be sent to a URL at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum EndpointState {
    /// Everything.
    #[default]
    Available,
    /// One probe, at the next attempt's time.
    Unavailable,
    /// Nothing until a person redelivers: the schedule is used up.
    Parked,
    /// Nothing until a person redelivers: it answered 410, or a person disabled it.
    Disabled,
}

named! {
    /// As printed, stored and filtered by.
    EndpointState {
        Self::Available => "available",
        Self::Unavailable => "unavailable",
        Self::Parked => "parked",
        Self::Disabled => "disabled",
    }
}

impl EndpointState {
    /// The state of that name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Available, Self::Unavailable, Self::Parked, Self::Disabled]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

/// Who probes an unavailable endpoint, and until when that claim holds (docs/protocols.md 14).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProbeClaim {
    /// Random; only its holder may settle the probe.
    pub token: i64,
    /// The claim can be retaken after this.
    pub until: Timestamp,
}

/// An endpoint as it is stored.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Endpoint {
    /// The URL.
    pub url: EndpointUrl,
    /// Its state.
    pub state: EndpointState,
    /// Raised by every change of the state.
    pub epoch: EndpointEpoch,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// Failed attempts of its schedule, whichever messages made them (0 when available).
    pub attempts: u32,
    /// When the probe is due.
    pub next_attempt_at: Option<Timestamp>,
    /// Status of the last attempt that counted.
    pub last_status: Option<u16>,
    /// Error of the last attempt that counted (bounded, from outside).
    pub last_error: Option<String>,
    /// The last 2xx.
    pub last_success_at: Option<Timestamp>,
    /// The queue whose head probes; `None`: the queue waiting longest, or the next message published.
    pub probe_queue: Option<QueueName>,
    /// The message that probes.
    pub probe_message: Option<NotificationId>,
    /// Who probes at present.
    pub probe: Option<ProbeClaim>,
    /// How fast it goes while it is available; `None`: as fast as it can.
    #[serde(default)]
    pub pace: Option<Pace>,
}

#[cfg(test)]
impl Endpoint {
    /// One of which nothing else is known, for tests.
    pub(crate) fn of(url: EndpointUrl, state: EndpointState, since: Timestamp) -> Self {
        Self {
            url,
            state,
            epoch: EndpointEpoch(1),
            since,
            attempts: 0,
            next_attempt_at: None,
            last_status: None,
            last_error: None,
            last_success_at: None,
            probe_queue: None,
            probe_message: None,
            probe: None,
            pace: None,
        }
    }
}

/// A change of an endpoint's state. Times are spans from the store's own clock.
#[derive(Clone, Debug, PartialEq)]
pub enum EndpointChange {
    /// It failed by its own fault at a wait longer than zero; the message that failed probes.
    Close {
        /// The queue whose head probes.
        queue: QueueName,
        /// The message that probes.
        message: NotificationId,
        /// Failed attempts of its schedule so far.
        attempts: u32,
        /// Until the next attempt.
        delay: std::time::Duration,
    },
    /// The probe failed; the next one is due after `delay`.
    ProbeFailed {
        /// Failed attempts of its schedule so far.
        attempts: u32,
        /// Until the next attempt.
        delay: std::time::Duration,
    },
    /// It failed by its own fault, and the message that failed has no attempts of its own left: the next probe,
    /// after `delay`, is the head of the queue waiting longest.
    WaitForAny {
        /// Failed attempts so far, whichever messages made them.
        attempts: u32,
        /// Until the next attempt.
        delay: std::time::Duration,
    },
    /// The probing message was dead-lettered; the next message of `queue` (or of the queue waiting
    /// longest) probes at once, with the whole policy.
    ProbeNext {
        /// The queue that gives the next probe; `None`: the one waiting longest.
        queue: Option<QueueName>,
    },
    /// A changed policy: the probe is due at another time, a parked one's too.
    Reschedule {
        /// When, by the store's clock; in the past: at once.
        at: Timestamp,
    },
    /// The schedule is used up and the policy says park.
    Park,
    /// 410, or a person.
    Disable {
        /// Why, for people.
        reason: String,
    },
    /// A person: everything goes on at once, every head with its whole budget.
    Open,
    /// The same at a pace.
    OpenPaced {
        /// Which.
        order: PaceOrder,
        /// Who asked for it.
        by: String,
    },
    /// A 2xx of the probe: the same, at the pace that it had before, else at this one.
    Reopen {
        /// That of its retry policy.
        slow_start: Option<PaceOrder>,
    },
}

impl Endpoint {
    /// As it is shown where so much waits for it: where nothing does, nothing is tried before the next notification comes.
    #[must_use]
    pub fn with_waiting(mut self, waiting: Option<u64>) -> Self {
        if self.state == EndpointState::Unavailable && waiting == Some(0) {
            self.next_attempt_at = None;
        }
        self
    }

    /// What `order` makes of its pace: what that does not say stays.
    #[must_use]
    pub fn ordered(&self, order: PaceOrder) -> PaceOrder {
        self.pace.as_ref().map_or(order, |pace| order.over(&pace.order))
    }
}

impl EndpointChange {
    /// Whether it makes the endpoint available.
    #[must_use]
    pub const fn opens(&self) -> bool {
        matches!(self, Self::Open | Self::OpenPaced { .. } | Self::Reopen { .. })
    }
}
