//! A queue in a list, packed: a hundred thousand of them are held while a console is open.
//!
//! Measured with 100,000 names of 77 bytes: 256 bytes of resident memory a row, 24.5 MiB in all. For that, numbers
//! and times have one value that stands for *not known*, the execution is read out of the name where it is in it,
//! what few rows have is behind one pointer, and texts that many rows have in common are shared: by `Arc<String>`,
//! which is one word where `Arc<str>` is two.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::findings::Finding;
use crate::domain::id::{ExecutionId, QueueName};
use crate::domain::pace::{ENDPOINT_RESUME, Pace};
use crate::domain::queue::{QueueKind, QueueState};
use crate::domain::series::Moving;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

/// Stands for a count that is not known.
const NO_COUNT: u64 = u64::MAX;
/// The same, where fewer are possible.
const NO_FEW: u32 = u32::MAX;
/// Stands for a time that is not known.
const NO_TIME: i64 = i64::MIN;
/// The execution is not in the name.
const NOT_IN_NAME: u8 = u8::MAX;
/// What follows the execution in a name: a dot and 32 hex digits.
const AFTER_EXECUTION: usize = 33;

/// A queue in a list: the detail is asked for with [`super::query::Queue`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct QueueRow {
    /// Its name on the broker.
    pub name: QueueName,
    /// Its URL, when it is a delivery queue and that is known; one allocation for all queues of a URL.
    pub url: Option<Arc<EndpointUrl>>,
    why: Option<Arc<String>>,
    owner: Option<Arc<String>>,
    ready: u64,
    delivered: u64,
    oldest_at: i64,
    next_attempt_at: i64,
    seldom: Option<Box<Seldom>>,
    unacked: u32,
    execution_from: u8,
    /// What it is for.
    pub kind: QueueKind,
    /// Its state; `None` for queues that are not ours to deliver.
    pub state: Option<QueueState>,
    /// A person paused it.
    pub paused: bool,
}

/// What few rows have.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
struct Seldom {
    /// One that is not in the name.
    execution: Option<ExecutionId>,
    warnings: Vec<String>,
    findings: Vec<Finding>,
    attempts: Option<(u32, u32)>,
    moving: Option<Moving>,
}

/// What a row is made from: every part of it by its name.
#[derive(Clone, Debug)]
pub struct QueueFacts {
    /// See [`QueueRow::name`].
    pub name: QueueName,
    /// See [`QueueRow::url`].
    pub url: Option<Arc<EndpointUrl>>,
    /// See [`QueueRow::execution`].
    pub execution: Option<ExecutionId>,
    /// See [`QueueRow::ready`].
    pub ready: Option<u64>,
    /// See [`QueueRow::unacked`].
    pub unacked: Option<u64>,
    /// See [`QueueRow::delivered`].
    pub delivered: Option<u64>,
    /// See [`QueueRow::oldest_at`].
    pub oldest_at: Option<Timestamp>,
    /// See [`QueueRow::next_attempt_at`].
    pub next_attempt_at: Option<Timestamp>,
    /// See [`QueueRow::owner`]; shared.
    pub owner: Option<Arc<String>>,
    /// See [`QueueRow::why`]; shared.
    pub why: Option<Arc<String>>,
    /// See [`QueueRow::warnings`].
    pub warnings: Vec<String>,
    /// See [`QueueRow::findings`].
    pub findings: Vec<Finding>,
    /// See [`QueueRow::attempts`].
    pub attempts: Option<(u32, u32)>,
    /// See [`QueueRow::moving`].
    pub moving: Option<Moving>,
    /// See [`QueueRow::kind`].
    pub kind: QueueKind,
    /// See [`QueueRow::state`].
    pub state: Option<QueueState>,
    /// See [`QueueRow::paused`].
    pub paused: bool,
}

impl QueueFacts {
    /// A queue of which nothing is known but its name and kind.
    #[must_use]
    pub fn unknown(name: QueueName, kind: QueueKind) -> Self {
        Self {
            name,
            url: None,
            execution: None,
            ready: None,
            unacked: None,
            delivered: None,
            oldest_at: None,
            next_attempt_at: None,
            owner: None,
            why: None,
            warnings: Vec::new(),
            findings: Vec::new(),
            attempts: None,
            moving: None,
            kind,
            state: None,
            paused: false,
        }
    }
}

impl From<QueueFacts> for QueueRow {
    fn from(facts: QueueFacts) -> Self {
        let in_name = facts
            .execution
            .as_ref()
            .and_then(|execution| place_in(facts.name.as_str(), execution.as_str()));
        let seldom = Seldom {
            execution: facts.execution.filter(|_| in_name.is_none()),
            warnings: facts.warnings,
            findings: facts.findings,
            attempts: facts.attempts,
            moving: facts.moving,
        };
        Self {
            name: facts.name,
            url: facts.url,
            why: facts.why,
            owner: facts.owner,
            ready: facts.ready.unwrap_or(NO_COUNT),
            delivered: facts.delivered.unwrap_or(NO_COUNT),
            oldest_at: facts.oldest_at.map_or(NO_TIME, Timestamp::micros),
            next_attempt_at: facts.next_attempt_at.map_or(NO_TIME, Timestamp::micros),
            seldom: (seldom != Seldom::default()).then(|| Box::new(seldom)),
            unacked: pack_few(facts.unacked),
            execution_from: in_name.unwrap_or(NOT_IN_NAME),
            kind: facts.kind,
            state: facts.state,
            paused: facts.paused,
        }
    }
}

impl QueueRow {
    /// Its execution, when it is a delivery queue and that is known.
    #[must_use]
    pub fn execution(&self) -> Option<&str> {
        if self.execution_from == NOT_IN_NAME {
            let execution = self.seldom.as_ref()?.execution.as_ref()?;
            return Some(execution.as_str());
        }
        let name = self.name.as_str();
        name.get(usize::from(self.execution_from)..name.len().checked_sub(AFTER_EXECUTION)?)
    }

    /// Why it moves or does not, one sentence; `None` where it is not ours to deliver.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        self.why.as_ref().map(|why| why.as_str())
    }

    /// Name of the incarnation that holds it.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| owner.as_str())
    }

    /// Messages ready.
    #[must_use]
    pub fn ready(&self) -> Option<u64> {
        Some(self.ready).filter(|count| *count != NO_COUNT)
    }

    /// Messages in somebody's hand; four thousand million and more are that many.
    #[must_use]
    pub fn unacked(&self) -> Option<u64> {
        Some(self.unacked).filter(|count| *count != NO_FEW).map(u64::from)
    }

    /// Notifications delivered (2xx) from it, where that is recorded.
    #[must_use]
    pub fn delivered(&self) -> Option<u64> {
        Some(self.delivered).filter(|count| *count != NO_COUNT)
    }

    /// When its oldest message was published, where that is known.
    #[must_use]
    pub fn oldest_at(&self) -> Option<Timestamp> {
        time(self.oldest_at)
    }

    /// When its head is tried next.
    #[must_use]
    pub fn next_attempt_at(&self) -> Option<Timestamp> {
        time(self.next_attempt_at)
    }

    /// What an operator should mend.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.seldom.as_ref().map_or(&[], |seldom| &seldom.warnings)
    }

    /// What its arguments and the broker's policies will do to it in silence.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        self.seldom.as_ref().map_or(&[], |seldom| &seldom.findings)
    }

    /// Whether it waits until a person has its endpoint go on, as its reason says.
    #[must_use]
    pub fn waits_for_resumed_endpoint(&self) -> bool {
        self.why().is_some_and(|why| why.contains(ENDPOINT_RESUME))
    }

    /// Failed attempts of its head, and how many the schedule allows; `None`: it did not fail.
    #[must_use]
    pub fn attempts(&self) -> Option<(u32, u32)> {
        self.seldom.as_ref()?.attempts
    }

    /// How it moves; `None`: it does not, as far as this process or its daemon knows.
    #[must_use]
    pub fn moving(&self) -> Option<&Moving> {
        self.seldom.as_ref()?.moving.as_ref()
    }

    /// How long what waits takes at the rate of the last minute; `None`: it does not become less, or it stands still.
    #[must_use]
    pub fn time_to_empty(&self) -> Option<Duration> {
        if !matches!(self.state, Some(QueueState::Delivering | QueueState::RateLimited)) {
            return None;
        }
        self.moving()?.time_to_empty(self.depth().filter(|depth| *depth > 0)?)
    }

    /// Messages ready and in hand, where the first is known.
    #[must_use]
    pub fn depth(&self) -> Option<u64> {
        self.ready()
            .map(|ready| ready.saturating_add(self.unacked().unwrap_or(0)))
    }

    /// The same queue with what the broker says of it now.
    #[must_use]
    pub(super) fn counted(&self, ready: Option<u64>, unacked: Option<u64>, oldest_at: Option<Timestamp>) -> Self {
        Self {
            ready: ready.unwrap_or(NO_COUNT),
            unacked: pack_few(unacked),
            oldest_at: oldest_at.map_or(NO_TIME, Timestamp::micros),
            ..self.clone()
        }
    }
}

/// Where the execution begins in a name that ends with it, a dot and the hash of the URL.
fn place_in(name: &str, execution: &str) -> Option<u8> {
    let end = name.len().checked_sub(AFTER_EXECUTION)?;
    let from = end.checked_sub(execution.len())?;
    let place = u8::try_from(from).ok().filter(|from| *from != NOT_IN_NAME)?;
    (name.get(from..end) == Some(execution)).then_some(place)
}

fn pack_few(count: Option<u64>) -> u32 {
    count.map_or(NO_FEW, |count| u32::try_from(count).unwrap_or(NO_FEW).min(NO_FEW - 1))
}

fn time(micros: i64) -> Option<Timestamp> {
    Some(micros)
        .filter(|micros| *micros != NO_TIME)
        .map(Timestamp::from_micros)
}

/// An endpoint in a list.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EndpointRow {
    /// As it is stored.
    pub endpoint: Endpoint,
    /// Its queues.
    pub queues: u64,
    /// Messages that wait for it, where known.
    pub waiting: Option<u64>,
    /// When the oldest message that waits for it was published, where known.
    pub oldest_at: Option<Timestamp>,
    /// Notifications delivered to it since this observer began.
    pub delivered: u64,
    /// How fast it goes, where it is paced, and when nothing waits any more.
    pub pace: Option<String>,
    /// How it moves; `None`: it does not, as far as this process or its daemon knows.
    pub moving: Option<Moving>,
}

impl EndpointRow {
    /// Whether it is available, something waits for it, and nothing goes there until a person has it go on.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let pace = self.endpoint.pace.as_ref();
        self.endpoint.state == EndpointState::Available
            && self.waiting.is_some_and(|waiting| waiting > 0)
            && pace.is_some_and(Pace::waits_for_a_person)
    }

    /// How long what waits takes at the rate of the last minute; `None`: it does not become less, or nothing is sent to
    /// it. Its pace says more.
    #[must_use]
    pub fn time_to_empty(&self) -> Option<Duration> {
        if self.endpoint.paused().is_some() || self.endpoint.state != EndpointState::Available {
            return None;
        }
        self.moving?.time_to_empty(self.waiting.filter(|waiting| *waiting > 0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, execution: Option<&str>, count: Option<u64>) -> QueueRow {
        let at = count.map(|count| Timestamp::from_seconds(i64::try_from(count).unwrap_or(i64::MAX)));
        QueueRow::from(QueueFacts {
            execution: execution.map(|text| ExecutionId::parse(text).unwrap()),
            ready: count,
            unacked: count,
            delivered: count,
            oldest_at: at,
            next_attempt_at: at,
            ..QueueFacts::unknown(QueueName::parse(name).unwrap(), QueueKind::Delivery)
        })
    }

    #[test]
    fn what_goes_in_comes_out() {
        let hash = "0cc175b9c0f1b6a831c399e269772661";
        for (name, execution) in [
            (format!("redrive.run-17.{hash}"), Some("run-17")),
            (
                format!("redrive.{hash}.{hash}"),
                Some("an execution whose hash stands in the name"),
            ),
            (format!("a.b.c.{hash}"), Some("b.c")),
            ("short".to_owned(), Some("run-17")),
            (format!("redrive.run-17.{hash}"), None),
        ] {
            for count in [None, Some(0), Some(1), Some(1 << 40)] {
                let row = row(&name, execution, count);
                assert_eq!(row.execution(), execution, "{name}");
                assert_eq!((row.ready(), row.delivered()), (count, count));
                assert_eq!(row.unacked(), count.map(|count| count.min(u64::from(NO_FEW - 1))));
                let at = count.map(|count| Timestamp::from_seconds(i64::try_from(count).unwrap()));
                assert_eq!((row.oldest_at(), row.next_attempt_at()), (at, at));
            }
        }
    }

    #[test]
    fn what_stands_still_is_never_said_to_be_empty_soon() {
        let moving = Moving {
            out_milli: 1_000,
            ..Moving::default()
        };
        for (state, takes) in [
            (QueueState::Delivering, Some(Duration::from_secs(5))),
            (QueueState::RateLimited, Some(Duration::from_secs(5))),
            (QueueState::Paused, None),
            (QueueState::EndpointUnavailable, None),
        ] {
            let name = QueueName::parse("redrive.run-17.0cc175b9c0f1b6a831c399e269772661").unwrap();
            let row = QueueRow::from(QueueFacts {
                ready: Some(5),
                state: Some(state),
                moving: Some(moving),
                ..QueueFacts::unknown(name, QueueKind::Delivery)
            });
            assert_eq!(row.time_to_empty(), takes, "{state:?}");
        }
    }

    #[test]
    fn a_row_stays_small() {
        assert!(size_of::<QueueRow>() <= 104, "{}", size_of::<QueueRow>());
    }
}
