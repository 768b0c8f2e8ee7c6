//! An endpoint: a URL with its state, and the changes that the state can make.

use super::id::{EndpointEpoch, NotificationId, QueueName};
use super::named::named;
use super::outcome::{Fault, Outcome};
use super::pace::{Pace, PaceOrder};
use super::queue::Pause;
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
    /// All words that a filter may ask for: see [`Endpoint::words`].
    pub const WORDS: [&'static str; 5] = ["available", "unavailable", "parked", "disabled", "paused"];

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
    /// It failed, and the message that failed has no attempts of its own left, or may be what it failed by: the next
    /// probe, after `delay`, is the head of the queue waiting longest.
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
    Park {
        /// Failures that count, where an attempt parks it.
        attempts: Option<u32>,
    },
    /// 410, or a person.
    Disable {
        /// Why, for people.
        reason: String,
    },
    /// A person: everything goes on at once, every head with its whole budget. A pace or a pause that a person asked for
    /// stays.
    Open,
    /// The same at another pace; a pause stays.
    OpenPaced {
        /// Which.
        order: PaceOrder,
        /// Who asked for it.
        by: String,
    },
    /// A 2xx of the probe: the same, at the pace that it had before, else at this one. A head that failed by its own fault
    /// keeps its count and its time.
    Reopen {
        /// That of its retry policy.
        slow_start: Option<PaceOrder>,
    },
}

/// What the reason of a person who disabled an endpoint begins with.
const DISABLED_BY: &str = "disabled by ";

/// Why an endpoint is disabled that this person disabled.
#[must_use]
pub fn disabled_by(who: &str) -> String {
    format!("{DISABLED_BY}{who}")
}

/// Whether an endpoint's error is such a reason.
#[must_use]
pub fn is_disabled_by(error: &str) -> bool {
    error.starts_with(DISABLED_BY)
}

impl Endpoint {
    /// Who paused it, whatever its state: then nothing goes there, no probe either, until somebody resumes it.
    #[must_use]
    pub fn paused(&self) -> Option<&Pause> {
        self.pace.as_ref()?.brake.as_ref()
    }

    /// When something is sent next, where only time is waited for.
    #[must_use]
    pub fn next_attempt(&self) -> Option<Timestamp> {
        self.next_attempt_at.filter(|_| self.paused().is_none())
    }

    /// What its pace says where so much waits for it; when that has gone, only of one that is available.
    #[must_use]
    pub fn pace_says(&self, waiting: Option<u64>, now: Timestamp) -> Option<String> {
        Some(self.pace.as_ref()?.says(self.going(waiting), now))
    }

    /// How much of what waits for it goes out by and by: nothing while it is not available.
    #[must_use]
    pub fn going(&self, waiting: Option<u64>) -> Option<u64> {
        waiting.filter(|_| self.state == EndpointState::Available)
    }

    /// What a filter finds it by: its state, and that it is paused.
    #[must_use]
    pub fn words(&self) -> &'static [&'static str] {
        match (self.state, self.paused()) {
            (EndpointState::Available, Some(_)) => &["paused", "available"],
            (EndpointState::Available, None) => &["available"],
            (EndpointState::Unavailable, Some(_)) => &["unavailable", "paused"],
            (EndpointState::Unavailable, None) => &["unavailable"],
            (EndpointState::Parked, Some(_)) => &["parked", "paused"],
            (EndpointState::Parked, None) => &["parked"],
            (EndpointState::Disabled, Some(_)) => &["disabled", "paused"],
            (EndpointState::Disabled, None) => &["disabled"],
        }
    }

    /// Since when it is as lists say: an available one that is paused, since then.
    #[must_use]
    pub fn shown_since(&self) -> Timestamp {
        match self.paused() {
            Some(brake) if self.state == EndpointState::Available => brake.at,
            Some(_) | None => self.since,
        }
    }

    /// As it is shown where so much waits to be tried for it, of which the first waits by itself until `first_at`: where
    /// nothing does, or only what waits for a person, nothing is tried before the next notification comes; where it is
    /// paused, nothing before somebody resumes it.
    #[must_use]
    pub fn with_untried(mut self, untried: Option<u64>, first_at: Option<Timestamp>) -> Self {
        self.next_attempt_at = self.next_attempt().max(self.next_attempt().and(first_at));
        if self.state == EndpointState::Unavailable && untried == Some(0) {
            self.next_attempt_at = None;
        }
        self
    }

    /// Its pace once a person had it redelivered, at the `asked` pace of that person where there is one. What a person
    /// asked for before stays where nothing else is asked for, and a pause stays always; a slow start is over.
    #[must_use]
    pub fn pace_after_redelivery(&self, asked: Option<(PaceOrder, &str)>, now: Timestamp) -> Option<Pace> {
        let before = self.pace.as_ref();
        let kept = before
            .filter(|pace| pace.is_of_a_person())
            .map(|pace| match self.state {
                EndpointState::Available => pace.clone(),
                EndpointState::Unavailable | EndpointState::Parked | EndpointState::Disabled => {
                    pace.reopened(now).opened(now)
                }
            });
        let revision = before.map_or(1, |pace| pace.revision + 1);
        match (asked, kept) {
            // How fast it goes is not asked for: that stays.
            (Some((order, by)), Some(kept)) if !order.holds_back() => Some(Pace {
                order: PaceOrder {
                    stop_after: order.stop_after,
                    ..kept.order
                },
                by: Some(by.to_owned()),
                revision,
                failed: 0,
                ..kept
            }),
            (Some((order, by)), _) => Some(Pace {
                brake: self.paused().cloned(),
                revision,
                ..Pace::new(order, Some(by.to_owned()), now).opened(now)
            }),
            (None, kept) => kept,
        }
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

    /// Whether a head of the URL has its whole budget again, which failed last with this status. A person gives back
    /// everything; the message that a probe delivered says nothing of those that the receiver has something against.
    #[must_use]
    pub fn resets(&self, last_status: Option<u16>) -> bool {
        match self {
            Self::Open | Self::OpenPaced { .. } => true,
            Self::Reopen { .. } => Outcome::fault_of(last_status) == Fault::Url,
            Self::Close { .. }
            | Self::ProbeFailed { .. }
            | Self::WaitForAny { .. }
            | Self::ProbeNext { .. }
            | Self::Reschedule { .. }
            | Self::Park { .. }
            | Self::Disable { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pace::{PaceChange, after};
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    const SLOW: PaceOrder = PaceOrder {
        rate: Some(2),
        ramp: None,
        canary: None,
        watch_s: None,
        stop_after: None,
        ends_at_rate: false,
    };

    /// Down, with the pace that this person asked for, or its retry policy.
    fn down(by: Option<&str>) -> Endpoint {
        let url = EndpointUrl::parse("https://a.example/").unwrap();
        Endpoint {
            pace: Some(Pace::new(SLOW, by.map(str::to_owned), at(1))),
            ..Endpoint::of(url, EndpointState::Unavailable, at(1))
        }
    }

    fn paused(mut endpoint: Endpoint) -> Endpoint {
        let brake = PaceChange::Brake {
            by: "ana".to_owned(),
            reason: None,
        };
        endpoint.pace = after(endpoint.pace.as_ref(), &brake, at(2)).unwrap();
        endpoint
    }

    #[test]
    fn a_redelivery_keeps_a_pause_and_what_a_person_asked_for_and_ends_a_slow_start() {
        let order = |endpoint: &Endpoint, asked: Option<PaceOrder>| {
            let after = endpoint.pace_after_redelivery(asked.map(|order| (order, "bob")), at(9));
            after.map(|pace| (pace.order.rate, pace.by, pace.brake.map(|brake| brake.by)))
        };
        let (ana, bob) = (Some("ana".to_owned()), Some("bob".to_owned()));
        assert_eq!(order(&down(None), None), None);
        assert_eq!(order(&down(Some("ana")), None), Some((Some(2), ana.clone(), None)));
        assert_eq!(order(&paused(down(None)), None), Some((Some(2), None, ana.clone())));
        let fast = PaceOrder { rate: Some(9), ..SLOW };
        assert_eq!(
            order(&down(Some("ana")), Some(fast)),
            Some((Some(9), bob.clone(), None))
        );
        assert_eq!(
            order(&paused(down(None)), Some(fast)),
            Some((Some(9), bob.clone(), ana))
        );
        // When it stops is all that is asked for.
        let stops = PaceOrder {
            stop_after: Some(4),
            ..PaceOrder::default()
        };
        assert_eq!(order(&down(None), Some(stops)), Some((None, bob.clone(), None)));
        assert_eq!(order(&down(Some("ana")), Some(stops)), Some((Some(2), bob, None)));
        let after = down(Some("ana")).pace_after_redelivery(Some((stops, "bob")), at(9));
        assert_eq!(after.unwrap().order.stop_after, Some(4));
        // One that is available already does not begin its ramp again.
        let available = Endpoint {
            state: EndpointState::Available,
            ..down(Some("ana"))
        };
        assert_eq!(available.pace_after_redelivery(None, at(9)), available.pace);
    }

    #[test]
    fn its_next_attempt_is_that_of_the_first_message_that_may_be_tried() {
        let next = |untried, first_at| {
            let down = Endpoint {
                next_attempt_at: Some(at(5)),
                ..down(None)
            };
            down.with_untried(untried, first_at).next_attempt_at
        };
        assert_eq!(next(Some(1), Some(at(90))), Some(at(90)), "it waits by itself");
        assert_eq!(next(Some(1), Some(Timestamp::EPOCH)), Some(at(5)));
        assert_eq!(next(None, None), Some(at(5)));
        assert_eq!(next(Some(0), None), None);
    }

    #[test]
    fn one_that_is_paused_is_found_by_that_word_and_says_since_when() {
        let all = [
            EndpointState::Available,
            EndpointState::Unavailable,
            EndpointState::Parked,
            EndpointState::Disabled,
        ];
        for state in all {
            let free = Endpoint { state, ..down(None) };
            assert_eq!((free.words(), free.shown_since()), (&[state.as_str()][..], at(1)));
            let paused = paused(free);
            assert!(paused.words().contains(&"paused") && paused.words().contains(&state.as_str()));
            let since = if state == EndpointState::Available {
                at(2)
            } else {
                at(1)
            };
            assert_eq!(paused.shown_since(), since);
            assert!(paused.words().iter().all(|word| EndpointState::WORDS.contains(word)));
        }
    }
}
