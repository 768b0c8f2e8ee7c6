//! One endpoint as this process knows it: what the store says, how it answers, and what may be sent to it.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

use super::micros;
use super::requests::Requests;
use super::stored::{Believed, Question, Stored};
use super::throttle::Throttle;
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::id::EndpointEpoch;
use crate::domain::outcome::{FailureKind, Outcome};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::domain::verdict::REFUSED_BY_RULES_FOR;

/// A request that is older waits in vain more likely than not: it leaves the workers.
pub(in crate::engine) const SLOW_AFTER: Duration = Duration::from_secs(2);
/// The same, where this process never saw an answer: first contacts would wait for each other (`dispatch/bounds.rs`).
pub(in crate::engine) const SLOW_AFTER_UNSEEN: Duration = Duration::from_millis(500);

/// One endpoint, shared by the workers on its queues.
#[derive(Debug)]
pub(in crate::engine) struct LiveEndpoint {
    pub(in crate::engine) url: EndpointUrl,
    stored: Stored,
    /// How fast requests to it begin.
    pub(in crate::engine) throttle: Throttle,
    /// Those in flight.
    pub(in crate::engine) requests: Requests,
    /// A [`Standing`].
    standing: AtomicU8,
    last_success_us: AtomicI64,
    /// Failures of its schedule that neither the store nor a head counts.
    carried: AtomicU32,
    /// When (uptime) our own address rules refused it first, without an attempt since that came further; 0: they do
    /// not. Not stored: another daemon finds it out itself.
    refused_since_us: AtomicI64,
    /// Held while a refusal is decided and recorded: of many at one moment each counts those before it.
    pub(in crate::engine) refusals: tokio::sync::Mutex<()>,
}

impl LiveEndpoint {
    pub(super) fn new(url: EndpointUrl, throttle: Throttle, requests: Requests) -> Self {
        Self {
            url,
            stored: Stored::default(),
            throttle,
            requests,
            standing: AtomicU8::new(Standing::Unmet as u8),
            last_success_us: AtomicI64::new(0),
            carried: AtomicU32::new(0),
            refused_since_us: AtomicI64::new(0),
            refusals: tokio::sync::Mutex::new(()),
        }
    }

    /// Whether anything may be sent to it that is not a probe.
    pub(in crate::engine) fn is_available(&self) -> bool {
        self.stored.is_available()
    }

    /// The epoch that an attempt begins with.
    pub(in crate::engine) fn epoch(&self) -> EndpointEpoch {
        self.stored.epoch()
    }

    /// How many workers may be on its queues at `now` of the store's clock; so many for each request where it is swift.
    pub(in crate::engine) fn slots(&self, each_when_swift: usize, now: Timestamp) -> usize {
        self.throttle.slots(self.requests.queues(each_when_swift), now)
    }

    /// How it answers, as far as anybody knows.
    pub(in crate::engine) fn standing(&self) -> Standing {
        match self.standing.load(Ordering::Relaxed) {
            known if known == Standing::Remembered as u8 => Standing::Remembered,
            known if known == Standing::Answering as u8 => Standing::Answering,
            known if known == Standing::Silent as u8 => Standing::Silent,
            _ => Standing::Unmet,
        }
    }

    /// Whether more than one request may be in flight to it.
    pub(in crate::engine) fn is_proven(&self) -> bool {
        self.standing() == Standing::Answering
    }

    /// An attempt ended so, after `took`, at `now` of the store's clock; true when more may be sent to it, or less.
    pub(super) fn answered(&self, answered: Answered, took: Duration, now: Timestamp) -> bool {
        if answered == Answered::Success {
            self.last_success_us.store(now.micros(), Ordering::Relaxed);
            self.carried.store(0, Ordering::Relaxed);
            self.refused_since_us.store(0, Ordering::Relaxed);
        }
        let was = self.standing();
        let standing = was.after(answered);
        if standing != was {
            self.standing.store(standing as u8, Ordering::Relaxed);
        }
        let is_swift_now = match answered {
            Answered::Success | Answered::Answer => self.requests.answered(took),
            Answered::BrokeOff | Answered::Silence => false,
        };
        standing != was || is_swift_now
    }

    /// An attempt ended so, at `uptime`; whether our own address rules refuse its addresses for so long by now that no
    /// schedule mends it.
    pub(in crate::engine) fn is_refused_by_rules(&self, outcome: Outcome, uptime: Duration) -> bool {
        match outcome {
            Outcome::Failure(FailureKind::AddressRefused) => {
                let now = micros(uptime).max(1);
                let first = self
                    .refused_since_us
                    .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
                first.is_err_and(|first| now - first >= micros(REFUSED_BY_RULES_FOR))
            }
            // These say nothing of its addresses.
            Outcome::Failure(
                FailureKind::Dns | FailureKind::BadRequest | FailureKind::Stopped | FailureKind::OwnLimit,
            ) => false,
            Outcome::Status(_) | Outcome::Failure(_) => {
                self.refused_since_us.store(0, Ordering::Relaxed);
                false
            }
        }
    }

    /// What somebody knew of it before this process does.
    pub(in crate::engine) fn recall(&self, standing: Standing) {
        let (unmet, standing) = (Standing::Unmet as u8, standing as u8);
        // Whatever this process found out itself holds.
        let _ = self
            .standing
            .compare_exchange(unmet, standing, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The last 2xx that this process saw, by the store's clock.
    pub(in crate::engine) fn last_success(&self) -> Option<Timestamp> {
        match self.last_success_us.load(Ordering::Relaxed) {
            0 => None,
            us => Some(Timestamp::from_micros(us)),
        }
    }

    /// What the store last said of it, when it is not available.
    pub(in crate::engine) fn detail(&self) -> Option<Endpoint> {
        self.stored.detail()
    }

    /// Whether it is parked or disabled.
    pub(in crate::engine) fn waits_for_a_person(&self) -> bool {
        self.detail().is_some_and(|detail| match detail.state {
            EndpointState::Parked | EndpointState::Disabled => true,
            EndpointState::Available | EndpointState::Unavailable => false,
        })
    }

    /// How many failures of its schedule there were before an attempt of a message that failed `own` times itself.
    /// Of one that is not available the store counts them; for all others it is that message's.
    pub(in crate::engine) fn failures(&self, own: u32) -> u32 {
        let counted = self.detail().map_or(own, |detail| detail.attempts);
        counted.saturating_add(self.carried.load(Ordering::Relaxed))
    }

    /// So many failures of its schedule there were, and nothing else will say so for the next attempt: the message has
    /// no attempts left, or probes again at once.
    pub(in crate::engine) fn carry(&self, failures: u32) {
        let stored = self.detail().map_or(0, |detail| detail.attempts);
        self.carried.store(failures.saturating_sub(stored), Ordering::Relaxed);
    }

    /// Takes over what the store answered to `question`, of so many so far (`None`: it does not know this endpoint); false
    /// when this process knows better.
    pub(super) fn believe(&self, endpoint: Option<&Endpoint>, question: Question, asked: u64) -> bool {
        if endpoint.is_some_and(|endpoint| endpoint.last_success_at.is_some()) {
            self.recall(Standing::Remembered);
        }
        match self.stored.believe(&self.url, endpoint, question, asked) {
            Believed::No => return false,
            Believed::OtherEpoch => self.carried.store(0, Ordering::Relaxed),
            Believed::SameEpoch => {}
        }
        let pace = endpoint.and_then(|endpoint| endpoint.pace.as_ref());
        self.throttle.believe(pace, question, asked);
        true
    }
}

/// How a URL answers, as far as anybody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Standing {
    /// It was never tried.
    Unmet,
    /// It answered an earlier process, or its last request here broke off at once.
    Remembered,
    /// It answered this process last time: more than one request may be in flight.
    Answering,
    /// It gave no answer in time, and none since.
    Silent,
}

impl Standing {
    const fn after(self, answered: Answered) -> Self {
        match (self, answered) {
            (_, Answered::Success | Answered::Answer) => Self::Answering,
            (_, Answered::Silence) => Self::Silent,
            // Nobody waited for it: a connection that is refused takes nothing from others.
            (Self::Answering, Answered::BrokeOff) => Self::Remembered,
            (Self::Unmet | Self::Remembered | Self::Silent, Answered::BrokeOff) => self,
        }
    }
}

/// How a request ended, as far as the endpoint's liveliness goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Answered {
    /// A 2xx.
    Success,
    /// Another answer.
    Answer,
    /// No answer, and that was known at once.
    BrokeOff,
    /// No answer in time.
    Silence,
}
