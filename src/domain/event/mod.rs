//! Events: what the rows of the event table are, what may be pushed, and what follows from a failure.
//!
//! One row stands for one (type, reference) that is due now, and for one (type, `delayed`, reference, date) that
//! is dated. A push of a key that waits replaces what waits (coalescing) and raises the row's revision; a lease
//! remembers the revision that it was taken at, so that every finish can tell whether the row is still the one
//! that was handled.

#[cfg(test)]
pub(crate) mod fixture;
mod metadata;
mod reason;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::as_text;
use super::id::{EVENT_ID_PREFIX, IncarnationId};
use super::named::named;
use super::naming::hex;
use super::time::Timestamp;
use super::trace::TraceContext;

pub use metadata::{Coalescing, DeadLettering, HEADERS, Metadata, SECRET, SubscriptionOptions};
pub use reason::{due_time, message_reason, next_change_reason, retry_reason, rfc3339};

/// A payload has at most this many bytes.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// A reason has at most this many bytes; the rest is cut off.
pub const REASON_BYTES_MAX: usize = 4096;
/// Events of one push at most.
pub const BATCH_MAX: usize = 1000;
/// How far ahead an event may be dated.
pub const DATED_MAX: Duration = Duration::from_hours(24 * 365 * 100);
/// The shortest and longest lifetime of an event that has one, in seconds.
pub const LIFETIME_S: std::ops::RangeInclusive<u64> = 60..=1_209_600;
/// The shortest and longest lease and grace of a claim, in seconds.
pub const CLAIM_S: std::ops::RangeInclusive<u64> = 60..=43_200;
/// Events of one claim.
pub const CLAIM_EVENTS: std::ops::RangeInclusive<u32> = 1..=20;

/// What is wrong with something that was given, by its field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EventError {
    /// The field at fault, as the caller wrote it.
    pub field: String,
    /// For an unknown key: the known one that was probably meant.
    pub nearest: Option<String>,
    /// What is wrong and what is possible, with the field.
    pub message: String,
}

impl EventError {
    /// `field` and what is wrong with it.
    #[must_use]
    pub fn of(field: &str, problem: &str) -> Self {
        Self {
            field: field.to_owned(),
            nearest: None,
            message: format!("{field} {problem}"),
        }
    }

    /// The same, of the element `index` of a batch.
    #[must_use]
    pub fn in_element(self, index: usize) -> Self {
        Self {
            field: format!("events[{index}].{}", self.field),
            message: format!("events[{index}].{}", self.message),
            nearest: self.nearest,
        }
    }
}

macro_rules! event_text {
    ($(#[$meta:meta])* $name:ident, $field:literal, $bytes_max:literal, $shown_max:literal) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text`.
            ///
            /// # Errors
            /// What is wrong with it.
            pub fn parse(text: &str) -> Result<Self, EventError> {
                if text.is_empty() {
                    return Err(EventError::of($field, "must not be empty"));
                }
                if text.len() > $bytes_max {
                    return Err(EventError::of($field, concat!("must be at most ", $shown_max, " bytes")));
                }
                if text.chars().any(char::is_control) {
                    return Err(EventError::of($field, "must not contain control characters"));
                }
                Ok(Self(text.into()))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

event_text! {
    /// The name of an event type, which works as a queue of its own.
    EventType, "type", 255, "255"
}
event_text! {
    /// What an event is about: the key that pushes coalesce on.
    Reference, "reference", 1024, "1,024"
}

/// Whether an event is due as soon as it is there, or dated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Subtype {
    /// Due now: one per (type, reference).
    Immediate,
    /// Dated by its pusher: one per (type, reference, date).
    Delayed,
}

named! {
    /// As stored and printed.
    Subtype {
        Self::Immediate => "",
        Self::Delayed => "delayed",
    }
}

impl Subtype {
    /// The subtype of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Immediate, Self::Delayed]
            .into_iter()
            .find(|subtype| subtype.as_str() == name)
    }
}

/// What an event is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum EventState {
    /// It waits for its time, or for a handler.
    Ready,
    /// It is being handled, or claimed.
    Leased,
    /// Nobody tries it again by itself.
    Dead,
    /// It waits for a person.
    Held,
}

named! {
    /// As printed.
    EventState {
        Self::Ready => "ready",
        Self::Leased => "leased",
        Self::Dead => "dead",
        Self::Held => "held",
    }
}

impl EventState {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Ready, Self::Leased, Self::Dead, Self::Held];

    /// As stored.
    #[must_use]
    pub const fn number(self) -> i64 {
        match self {
            Self::Ready => 0,
            Self::Leased => 1,
            Self::Dead => 2,
            Self::Held => 3,
        }
    }

    /// The state of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// What is pushed.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct NewEvent {
    /// The type.
    pub event_type: EventType,
    /// The key.
    pub reference: Reference,
    /// With it the event is dated.
    pub nbf: Option<Timestamp>,
    /// Why it is there.
    pub reason: Option<String>,
    /// What is handed to the handler, byte for byte.
    #[serde(with = "super::as_text::maybe_bytes")]
    pub payload: Option<Bytes>,
    /// How long it lives when nobody handles it; for ever without.
    pub lifetime: Option<Duration>,
    /// The trace of whoever pushed it.
    pub trace: Option<TraceContext>,
}

impl NewEvent {
    /// Whether it is dated.
    #[must_use]
    pub const fn subtype(&self) -> Subtype {
        match self.nbf {
            Some(_) => Subtype::Delayed,
            None => Subtype::Immediate,
        }
    }

    /// The bounds that its parts do not check by themselves.
    ///
    /// # Errors
    /// The first field that is out of bounds.
    pub fn check(&self, now: Timestamp) -> Result<(), EventError> {
        if self
            .payload
            .as_ref()
            .is_some_and(|payload| payload.len() > PAYLOAD_BYTES_MAX)
        {
            return Err(EventError::of("payload", "must be at most 1,048,576 bytes"));
        }
        if let Some(nbf) = self.nbf {
            check_due("nbf", nbf, now)?;
        }
        if self
            .reason
            .as_ref()
            .is_some_and(|reason| reason.len() > REASON_BYTES_MAX)
        {
            return Err(EventError::of("reason", "must be at most 4,096 bytes"));
        }
        let lives = self.lifetime.map(|span| span.as_secs());
        if lives.is_some_and(|seconds| !LIFETIME_S.contains(&seconds)) {
            return Err(EventError::of("ttl", "must be 60 to 1,209,600 seconds"));
        }
        let ends = self.lifetime.map(|span| now.plus(span));
        if self.nbf.zip(ends).is_some_and(|(due, ends)| ends <= due) {
            let problem =
                "counts from now and would remove the event before it is due: give one that ends after nbf, or none";
            return Err(EventError::of("ttl", problem));
        }
        Ok(())
    }

    /// What pushes coalesce on.
    #[must_use]
    pub fn key(&self) -> (&str, &str, Option<Timestamp>) {
        (self.event_type.as_str(), self.reference.as_str(), self.nbf)
    }
}

/// What is past is due at once; what is nonsense is refused.
///
/// # Errors
/// The field, for a time before 1970 or more than a hundred years ahead.
pub fn check_due(field: &str, at: Timestamp, now: Timestamp) -> Result<(), EventError> {
    if at > now.plus(DATED_MAX) {
        return Err(EventError::of(field, "must be within a hundred years from now"));
    }
    if at < Timestamp::EPOCH {
        return Err(EventError::of(field, "must not be before 1970"));
    }
    Ok(())
}

/// A batch is applied wholly or refused wholly: the first element that is wrong, or is there twice.
///
/// # Errors
/// The field, with the index of its element.
pub fn check_batch(events: &[NewEvent], now: Timestamp) -> Result<(), EventError> {
    if events.is_empty() {
        return Err(EventError::of("events", "must not be empty"));
    }
    if events.len() > BATCH_MAX {
        return Err(EventError::of("events", "must be at most 1,000 in one push"));
    }
    let mut keys = std::collections::HashMap::new();
    for (index, event) in events.iter().enumerate() {
        event.check(now).map_err(|error| error.in_element(index))?;
        if let Some(earlier) = keys.insert(event.key(), index) {
            let problem = format!("is that of events[{earlier}] too: a key may be once in a batch");
            return Err(EventError::of("reference", &problem).in_element(index));
        }
    }
    Ok(())
}

/// A row of the event table.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Event {
    /// Never used twice by a store; one that was restored counts again from there (what goes out has an id of its own).
    pub id: i64,
    /// The type.
    pub event_type: EventType,
    /// Due now, or dated.
    pub subtype: Subtype,
    /// The key.
    pub reference: Reference,
    /// Not handled before.
    pub nbf: Timestamp,
    /// The date that is part of its key, where it is dated.
    #[serde(default)]
    pub dated: Option<Timestamp>,
    /// When what it holds was pushed.
    pub created_at: Timestamp,
    /// When its key began to wait.
    pub first_at: Timestamp,
    /// Failures since the last push.
    pub attempts: u32,
    /// Why it is there (from outside).
    pub reason: Option<String>,
    /// What it is doing.
    pub state: EventState,
    /// Raised by every push.
    pub revision: i64,
    /// Pushes that were folded into this row.
    pub merged: u64,
    /// The exact bytes (from outside).
    #[serde(rename = "payload_base64", default, with = "as_text::maybe_bytes")]
    pub payload: Option<Bytes>,
    /// What else is known of a message that could not be decoded, as JSON (from outside).
    pub properties: Option<String>,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// Claims since the last push.
    pub claim_count: u32,
    /// The last claims, a line each.
    pub claim_history: Option<String>,
    /// The type that it was moved from, for a dead letter of a claimed type.
    pub origin: Option<EventType>,
    /// Its first failure since the last push.
    pub first_failed_at: Option<Timestamp>,
    /// Its last failure.
    pub last_failed_at: Option<Timestamp>,
    /// Who has it.
    pub lease: Option<EventLease>,
    /// What the ids of its notifications are made from. No attached process is told.
    #[serde(skip)]
    pub uid: EventUid,
    /// The trace of whoever pushed it last.
    pub trace: Option<TraceContext>,
}

/// Random, made by the store at each push, so that nobody knows the id of a notification before it is sent and no
/// other store makes the same one. It is never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EventUid(String);

impl EventUid {
    /// As the store keeps it.
    #[must_use]
    pub const fn of(text: String) -> Self {
        Self(text)
    }

    /// For what is made of it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for EventUid {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("EventUid(..)")
    }
}

impl Event {
    /// The id of what it sends to one subscription: the same however often it is made of one push, and another one for
    /// each subscription, each push and each store.
    #[must_use]
    pub fn notification_id(&self, subscription: i64) -> String {
        let id = format!("{EVENT_ID_PREFIX}{}-{}-{subscription}", self.id, self.revision);
        let hash = Sha256::digest(format!("{}/{id}", self.uid.expose()));
        format!("{id}-{}", hex(&hash[..8]))
    }

    /// The type as it is shown: `hr-import-delayed` for what is dated.
    #[must_use]
    pub fn shown_type(&self) -> String {
        match self.subtype {
            Subtype::Immediate => self.event_type.as_str().to_owned(),
            Subtype::Delayed => format!("{}-delayed", self.event_type.as_str()),
        }
    }

    /// The state as lists show it: one that was cancelled in hand is there until its handler has ended.
    #[must_use]
    pub fn shown_state(&self) -> &'static str {
        match &self.lease {
            Some(lease) if lease.is_cancelled() => "cancelled",
            Some(_) | None => self.state.as_str(),
        }
    }

    /// Whether nobody tries it again by itself: past the cutoff, or moved by claims.
    #[must_use]
    pub fn is_dead_letter(&self) -> bool {
        self.state == EventState::Dead || self.origin.is_some()
    }

    /// What a finish is guarded by; none for an event that nobody has.
    #[must_use]
    pub fn lease_key(&self) -> Option<LeaseKey> {
        self.lease.as_ref().map(|lease| LeaseKey {
            id: self.id,
            token: lease.token,
            revision: lease.revision,
        })
    }
}

/// Who has an event, and until when.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EventLease {
    /// Never used twice.
    pub token: i64,
    /// The row's revision when it was taken.
    pub revision: i64,
    /// The process that handles it; none for a claim.
    pub owner: Option<IncarnationId>,
    /// The claim that has it; for a handler none, until the event is cancelled.
    pub claim: Option<String>,
    /// It ends then, if nobody renews it.
    pub until: Timestamp,
}

impl EventLease {
    /// Whether its event was cancelled, and only the end of its handler is waited for.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        self.owner.is_some() && self.claim.is_some()
    }
}

/// What every finish is guarded by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseKey {
    /// The event.
    pub id: i64,
    /// The lease.
    pub token: i64,
    /// The row's revision when the lease was taken.
    pub revision: i64,
}

/// How failures are followed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandlingRules {
    /// Failures that make a dead letter.
    pub cutoff: u32,
    /// How long to wait between them.
    pub backoff: Backoff,
}

/// Delays that double from `base` to `cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay.
    pub base: Duration,
    /// The longest delay.
    pub cap: Duration,
}

/// What follows from a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// It is tried again after the delay.
    Retry {
        /// Failures so far, this one included.
        attempts: u32,
        /// How long to wait.
        delay: Duration,
        /// Why, as the event's history says it.
        reason: String,
    },
    /// It is a dead letter.
    Dead {
        /// Failures so far, this one included.
        attempts: u32,
        /// Why.
        reason: String,
    },
}

impl Backoff {
    /// The delay after the `failures`-th failure in a row (from 1).
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(63);
        let micros = self.base.as_micros().saturating_mul(1_u128 << doublings);
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)).min(self.cap)
    }
}

impl HandlingRules {
    /// The one decision about a failed attempt of an event that had `attempts` failures before: of a handler that
    /// failed, in the store's transaction too, and of a lease that was lost.
    #[must_use]
    pub fn after_failure(&self, attempts: u32, error: &str, now: Timestamp) -> AfterFailure {
        let (attempts, reason) = (attempts.saturating_add(1), retry_reason(now, error));
        if attempts >= self.cutoff {
            return AfterFailure::Dead { attempts, reason };
        }
        AfterFailure::Retry {
            attempts,
            delay: self.backoff.delay(attempts),
            reason,
        }
    }

    /// Whether an event is picked for handling.
    #[must_use]
    pub fn picks(&self, attempts: u32, nbf: Timestamp, now: Timestamp) -> bool {
        attempts < self.cutoff && nbf <= now
    }
}

impl Default for HandlingRules {
    fn default() -> Self {
        Self {
            cutoff: 20,
            backoff: Backoff {
                base: Duration::from_secs(225),
                cap: Duration::from_hours(12),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTORS: &str = include_str!("../../../tests/vectors/event_backoff.json");

    fn event(reference: &str, nbf: Option<Timestamp>) -> NewEvent {
        NewEvent {
            event_type: EventType::parse("t").unwrap(),
            reference: Reference::parse(reference).unwrap(),
            nbf,
            reason: None,
            payload: None,
            lifetime: None,
            trace: None,
        }
    }

    #[test]
    fn what_the_ids_are_made_of_is_told_to_no_other_process() {
        let event = Event {
            uid: EventUid::of("5ecret".to_owned()),
            ..fixture::event(1)
        };
        let told = serde_json::to_string(&event).unwrap();
        assert!(!told.contains("uid") && !told.contains("5ecret"), "{told}");
        let read: Event = serde_json::from_str(&told).unwrap();
        assert_eq!(read.reference, event.reference);
    }

    #[test]
    fn delays_and_picks_are_those_of_the_vectors() {
        let vectors: serde_json::Value = serde_json::from_str(VECTORS).unwrap();
        let rules = HandlingRules::default();
        for (index, delay) in vectors["delays_s"].as_array().unwrap().iter().enumerate() {
            let failures = u32::try_from(index + 1).unwrap();
            assert_eq!(
                rules.backoff.delay(failures).as_secs(),
                delay.as_u64().unwrap(),
                "{failures}"
            );
        }
        let now = Timestamp::from_seconds(1_000_000);
        for case in vectors["pick"].as_array().unwrap() {
            let attempts = u32::try_from(case["attempts"].as_u64().unwrap()).unwrap();
            let nbf = Timestamp::from_seconds(now.seconds() + case["nbf_offset_s"].as_i64().unwrap());
            assert_eq!(
                rules.picks(attempts, nbf, now),
                case["picked"].as_bool().unwrap(),
                "{case}"
            );
        }
    }

    #[test]
    fn the_cutoff_makes_a_dead_letter_and_no_delay_overflows() {
        let rules = HandlingRules::default();
        let now = Timestamp::from_seconds(1_000_000);
        let reason = retry_reason(now, "no luck");
        let dead = AfterFailure::Dead {
            attempts: 20,
            reason: reason.clone(),
        };
        assert_eq!(rules.after_failure(19, "no luck", now), dead);
        let first = AfterFailure::Retry {
            attempts: 1,
            delay: Duration::from_secs(225),
            reason,
        };
        assert_eq!(rules.after_failure(0, "no luck", now), first);
        assert_eq!(rules.backoff.delay(u32::MAX), rules.backoff.cap);
    }

    #[test]
    fn a_key_twice_in_a_batch_is_refused_with_its_element() {
        let now = Timestamp::from_seconds(1_000_000);
        let twice = [event("a", None), event("b", None), event("a", None)];
        let error = check_batch(&twice, now).unwrap_err();
        assert_eq!(error.field, "events[2].reference");
        let dated = [
            event("a", None),
            event("a", Some(now)),
            event("a", Some(now.plus(Duration::from_secs(1)))),
        ];
        check_batch(&dated, now).unwrap();
    }

    #[test]
    fn nonsense_is_refused_with_its_field() {
        let now = Timestamp::from_seconds(1_000_000);
        assert_eq!(EventType::parse("").unwrap_err().field, "type");
        assert_eq!(Reference::parse("a\nb").unwrap_err().field, "reference");
        let far = event("a", Some(Timestamp::from_micros(i64::MAX)));
        assert_eq!(far.check(now).unwrap_err().field, "nbf");
        let large = NewEvent {
            payload: Some(vec![0; PAYLOAD_BYTES_MAX + 1].into()),
            ..event("a", None)
        };
        assert_eq!(large.check(now).unwrap_err().field, "payload");
    }

    #[test]
    fn a_lifetime_that_ends_before_the_event_is_due_is_refused() {
        let now = Timestamp::from_seconds(1_000_000);
        let minute = Duration::from_mins(1);
        let due_in = |span: Duration| NewEvent {
            lifetime: Some(minute),
            ..event("a", Some(now.plus(span)))
        };
        due_in(Duration::from_secs(59)).check(now).unwrap();
        let refused = due_in(minute).check(now).unwrap_err();
        assert_eq!(refused.field, "ttl");
        assert!(refused.message.contains("before it is due"), "{refused}");
    }
}
