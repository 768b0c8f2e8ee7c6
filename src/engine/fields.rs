//! What a filter may name of queues, endpoints and retries: one table and one lookup for the commands,
//! the routes and the console.

use std::time::Duration;

use super::places::Places;
use super::row::EndpointRow;
use super::row::QueueRow;
use super::view::{QueueView, Retry};
use crate::domain::dead_letter::{DeadLetter, DeadQueueKind};
use crate::domain::endpoint::EndpointState;
use crate::domain::filter::{Field, FieldKind, FieldValue, Fields};
use crate::domain::mask::MaskRules;
use crate::domain::message::Message;
use crate::domain::queue::{QueueKind, QueueState};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

/// The fields that a filter over queues may name.
pub const QUEUE_FIELDS: &[Field] = &[
    Field::new("name", FieldKind::Text),
    Field::new("kind", FieldKind::Word(&QueueKind::NAMES)),
    Field::new("state", FieldKind::Word(&QueueState::WORDS)),
    Field::new("why", FieldKind::Text),
    Field::new("endpoint", FieldKind::Text),
    Field::new("url", FieldKind::Text),
    Field::new("execution", FieldKind::Text),
    Field::new("owner", FieldKind::Text),
    Field::new("depth", FieldKind::Number),
    Field::new("ready", FieldKind::Number),
    Field::new("unacked", FieldKind::Number),
    Field::new("age", FieldKind::Duration),
    Field::new("paused", FieldKind::Bool),
];

/// The fields that a filter over endpoints may name. `since` is how long it is in its state, or paused, `age` that
/// of the oldest message that waits for it.
pub const ENDPOINT_FIELDS: &[Field] = &[
    Field::new("endpoint", FieldKind::Text),
    Field::new("url", FieldKind::Text),
    Field::new("state", FieldKind::Word(&EndpointState::WORDS)),
    Field::new("since", FieldKind::Duration),
    Field::new("attempts", FieldKind::Number),
    Field::new("status", FieldKind::Number),
    Field::new("error", FieldKind::Text),
    Field::new("queues", FieldKind::Number),
    Field::new("waiting", FieldKind::Number),
    Field::new("depth", FieldKind::Number),
    Field::new("age", FieldKind::Duration),
];

/// The fields that a filter over retries may name. `due` is how long until it is tried; what waits for a
/// person is never due.
pub const RETRY_FIELDS: &[Field] = &[
    Field::new("queue", FieldKind::Text),
    Field::new("endpoint", FieldKind::Text),
    Field::new("url", FieldKind::Text),
    Field::new("message", FieldKind::Text),
    Field::new("phase", FieldKind::Text),
    Field::new("attempt", FieldKind::Number),
    Field::new("of", FieldKind::Number),
    Field::new("due", FieldKind::Duration),
];

/// The fields that a filter over dead letters may name. `age` is how long ago it failed last, `left` how long
/// until its own lifetime drops it, `place` and `what` the two halves of its fingerprint. `header.NAME` is a header of the
/// message, `body./POINTER` a value of its JSON body.
pub const DEAD_FIELDS: &[Field] = &[
    Field::new("id", FieldKind::Text),
    Field::new("home", FieldKind::Text),
    Field::new("queue", FieldKind::Text),
    Field::new("origin", FieldKind::Text),
    Field::new("message_id", FieldKind::Text),
    Field::new("message", FieldKind::Text),
    Field::new("endpoint", FieldKind::Text),
    Field::new("url", FieldKind::Text),
    Field::new("execution", FieldKind::Text),
    Field::new("reason", FieldKind::Text),
    Field::new("class", FieldKind::Text),
    Field::new("status", FieldKind::Number),
    Field::new("error", FieldKind::Text),
    Field::new("attempts", FieldKind::Number),
    Field::new("age", FieldKind::Duration),
    Field::new("left", FieldKind::Duration),
    Field::new("redriven", FieldKind::Number),
    Field::new("fingerprint", FieldKind::Text),
    Field::new("place", FieldKind::Text),
    Field::new("what", FieldKind::Text),
    Field::new("size", FieldKind::Number),
    Field::new("begins", FieldKind::Text),
    Field::new("header.", FieldKind::Text),
    Field::new("body.", FieldKind::Text),
];

/// The fields that a filter over queues of dead letters may name. `age` is how long ago the first of them failed first,
/// `fed_by` the names of the queues and exchanges that they come from.
pub const DEAD_QUEUE_FIELDS: &[Field] = &[
    Field::new("name", FieldKind::Text),
    Field::new("queue", FieldKind::Text),
    Field::new("kind", FieldKind::Word(&DeadQueueKind::NAMES)),
    Field::new("letters", FieldKind::Number),
    Field::new("consumed", FieldKind::Bool),
    Field::new("age", FieldKind::Duration),
    Field::new("fed_by", FieldKind::Text),
    Field::new("problem", FieldKind::Text),
];

/// A dead letter as a filter sees it.
#[derive(Debug)]
pub(super) struct DeadFields<'a> {
    /// The letter.
    letter: &'a DeadLetter,
    message: Option<&'a Message>,
    /// What is hidden of the begin of a message, for everybody.
    rules: &'a MaskRules,
    /// What time it is.
    now: Timestamp,
    places: Places<'a>,
}

impl<'a> DeadFields<'a> {
    /// The letter, with its message where it is at hand.
    pub(super) fn of(
        letter: &'a DeadLetter,
        message: Option<&'a Message>,
        rules: &'a MaskRules,
        now: Timestamp,
    ) -> Self {
        Self {
            letter,
            message,
            rules,
            now,
            places: Places::of(message),
        }
    }
}

impl Fields for DeadFields<'_> {
    fn field(&self, name: &str) -> FieldValue<'_> {
        let letter = self.letter;
        match name {
            "id" => text(Some(letter.id.as_str())),
            "home" => text(Some(letter.home.as_str())),
            "queue" => text(Some(letter.queue.as_str())),
            "origin" => text(letter.origin.as_deref()),
            "message_id" | "message" => text(letter.message_id.as_deref()),
            "endpoint" | "url" => text(letter.url.as_deref()),
            "execution" => text(letter.execution.as_deref()),
            "reason" => text(Some(&letter.reason)),
            "class" => text(letter.class.as_deref()),
            "status" => count(letter.status.map(u64::from)),
            "error" => text(letter.error.as_deref()),
            "attempts" => count(letter.attempts),
            "age" => span(letter.last_failed_at.map(|at| self.now.since(at))),
            "left" => span(letter.expires_at.map(|at| at.since(self.now))),
            "redriven" => count(Some(letter.redriven.into())),
            "fingerprint" => text(Some(&letter.fingerprint)),
            "place" => text(Some(&letter.place)),
            "what" => text(Some(&letter.what)),
            "size" => count(Some(letter.size_bytes)),
            "begins" => match (&letter.begins, self.message) {
                (Some(begins), _) => text(Some(begins)),
                // One that is not from the index: the same as the index would have.
                (None, Some(message)) => match self.rules.begins(&message.body) {
                    Some(begins) => FieldValue::Text(begins.into()),
                    None => FieldValue::Missing,
                },
                (None, None) => FieldValue::Missing,
            },
            _ => FieldValue::Missing,
        }
    }

    fn at(&self, family: &str, place: &str) -> FieldValue<'_> {
        self.places.at(family, place)
    }
}

/// What a filter can ask of a queue, wherever it is kept.
struct QueueValues<'a> {
    name: &'a str,
    kind: QueueKind,
    state: Option<QueueState>,
    why: Option<&'a str>,
    url: Option<&'a EndpointUrl>,
    execution: Option<&'a str>,
    owner: Option<&'a str>,
    ready: Option<u64>,
    unacked: Option<u64>,
    depth: Option<u64>,
    age: Option<Duration>,
    paused: bool,
}

impl<'a> QueueValues<'a> {
    #[inline]
    fn field(&self, name: &str) -> FieldValue<'a> {
        match name {
            "name" => text(Some(self.name)),
            "kind" => text(Some(self.kind.as_str())),
            "state" => self
                .state
                .map_or(FieldValue::Missing, |state| FieldValue::Words(state.words())),
            "why" => text(self.why),
            "endpoint" | "url" => text(self.url.map(EndpointUrl::as_str)),
            "execution" => text(self.execution),
            "owner" => text(self.owner),
            "depth" => count(self.depth),
            "ready" => count(self.ready),
            "unacked" => count(self.unacked),
            "age" => span(self.age),
            "paused" => FieldValue::Bool(self.paused),
            _ => FieldValue::Missing,
        }
    }
}

impl Fields for QueueView {
    fn field(&self, name: &str) -> FieldValue<'_> {
        QueueValues {
            name: self.name.as_str(),
            kind: self.kind,
            state: self.state,
            why: self.why.as_ref().map(|why| why.text.as_str()),
            url: self.url.as_ref(),
            execution: self.execution.as_ref().map(AsRef::as_ref),
            owner: self.owner.as_deref(),
            ready: self.ready,
            unacked: self.unacked,
            depth: self.depth(),
            age: self.oldest_age,
            paused: self.paused.is_some(),
        }
        .field(name)
    }
}

impl QueueRow {
    /// The value of a field at `now`; anything unknown is missing.
    // Inlined, a filter reads nothing of a row but what it asks for: the name is elsewhere in memory.
    #[inline]
    #[must_use]
    pub fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        QueueValues {
            name: self.name.as_str(),
            kind: self.kind,
            state: self.state,
            why: self.why(),
            url: self.url.as_deref(),
            execution: self.execution(),
            owner: self.owner(),
            ready: self.ready(),
            unacked: self.unacked(),
            depth: self.depth(),
            age: self.oldest_at().map(|at| now.since(at)),
            paused: self.paused,
        }
        .field(name)
    }
}

impl EndpointRow {
    /// The value of a field at `now`; anything unknown is missing.
    #[must_use]
    pub fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        match name {
            "endpoint" | "url" => text(Some(self.endpoint.url.as_str())),
            "state" => FieldValue::Words(self.endpoint.words()),
            "since" => span(Some(now.since(self.endpoint.shown_since()))),
            "attempts" => count(Some(self.endpoint.attempts.into())),
            "status" => count(self.endpoint.last_status.map(u64::from)),
            "error" => text(self.endpoint.last_error.as_deref()),
            "queues" => count(Some(self.queues)),
            "waiting" | "depth" => count(self.waiting),
            "age" => span(self.oldest_at.map(|at| now.since(at))),
            _ => FieldValue::Missing,
        }
    }
}

impl Retry {
    /// The value of a field at `now`; anything unknown is missing.
    #[must_use]
    pub fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        match name {
            "queue" => text(self.queue.as_ref().map(AsRef::as_ref)),
            "endpoint" | "url" => text(self.url.as_ref().map(EndpointUrl::as_str)),
            "message" => text(self.message.as_ref().map(AsRef::as_ref)),
            "phase" => text(self.phase.map(crate::domain::policy::Phase::as_str)),
            "attempt" => count(Some(self.attempt.into())),
            "of" => count(self.of.map(u64::from)),
            "due" => span(self.at.map(|at| at.since(now))),
            _ => FieldValue::Missing,
        }
    }
}

pub(super) fn text(text: Option<&str>) -> FieldValue<'_> {
    text.map_or(FieldValue::Missing, |text| FieldValue::Text(text.into()))
}

#[expect(clippy::cast_precision_loss, reason = "a filter compares depths, not ids")]
pub(super) fn count(number: Option<u64>) -> FieldValue<'static> {
    number.map_or(FieldValue::Missing, |number| FieldValue::Number(number as f64))
}

pub(super) fn span(span: Option<Duration>) -> FieldValue<'static> {
    span.map_or(FieldValue::Missing, FieldValue::Duration)
}

#[cfg(test)]
mod words {
    use std::collections::BTreeSet;

    use super::*;

    /// Every state that a row can be in may be asked for.
    #[test]
    fn are_those_that_rows_have() {
        use QueueState as Q;
        let states = [
            Q::Delivering,
            Q::Empty,
            Q::WaitingRetry,
            Q::EndpointUnavailable,
            Q::Parked,
            Q::EndpointDisabled,
            Q::Paused,
            Q::RateLimited,
            Q::Unowned,
            Q::BrokerBlocked,
            Q::Refused,
            Q::Quarantined,
            Q::Ended,
        ];
        let words: BTreeSet<&str> = states.iter().flat_map(|state| state.words()).copied().collect();
        assert_eq!(words, QueueState::WORDS.iter().copied().collect());
    }
}
