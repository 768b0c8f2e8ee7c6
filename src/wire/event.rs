//! Events, their types, subscriptions and claims: as they are printed, and as they are read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::domain::event::{Event as EventRow, EventError, EventType, NewEvent, Reference, due_time};
use crate::domain::time::Timestamp;
use crate::engine::events::{
    Claim as ClaimRow, EventCount, EventTypeRecord, EventsDone, Finished, HandledEvent as HandledRow, Processed,
    Pushed as PushedRow, Subscription as SubscriptionRow,
};

use super::plan::Asked;
use super::policy::PolicyKeys;
use super::problem::Problem;
use super::{Time, time, words};

/// An event.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Event {
    /// Its number.
    pub id: i64,
    /// The event type.
    pub r#type: String,
    /// `delayed` where it is dated, else empty.
    #[schemars(with = "words::EventSubtype")]
    pub subtype: &'static str,
    /// The type as it is shown, with the suffix of what is dated.
    pub shown_type: String,
    /// What it is about: unique within its type.
    pub reference: String,
    /// Not before this time.
    pub nbf: Option<Time>,
    /// When it was made.
    pub created_at: Option<Time>,
    /// When it was due first.
    pub first_at: Option<Time>,
    /// Attempts that were made.
    pub attempts: u32,
    /// Why it is there, or why it failed.
    pub reason: Option<String>,
    /// The state.
    #[schemars(with = "words::EventStatus")]
    pub state: &'static str,
    /// Counts its changes.
    pub revision: i64,
    /// Pushes that were merged into it.
    pub merged: u64,
    /// The payload when it is JSON; else `payload_base64` has it.
    #[schemars(with = "Option<Value>")]
    pub payload: Option<Box<RawValue>>,
    /// The payload when it is not JSON, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// What its handler keeps with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<Value>,
    /// When it expires.
    pub expires_at: Option<Time>,
    /// How often it was claimed.
    pub claim_count: u32,
    /// Its claims, oldest first.
    pub claim_history: Vec<String>,
    /// The type that it had before it died.
    pub origin: Option<String>,
    /// When it failed first.
    pub first_failed_at: Option<Time>,
    /// When it failed last.
    pub last_failed_at: Option<Time>,
    /// Who has it now.
    pub lease: Option<Lease>,
}

/// Who has an event.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "EventLease")]
pub struct Lease {
    /// The incarnation that handles it.
    pub owner: Option<i64>,
    /// The claim that holds it.
    pub claim_id: Option<String>,
    /// Whether the event was cancelled: it is gone when its handler has ended.
    pub cancelled: bool,
    /// Until when.
    pub until: Option<Time>,
}

impl From<&EventRow> for Event {
    fn from(row: &EventRow) -> Self {
        let payload = row.payload.as_deref();
        let json = payload.and_then(as_written);
        let text = |name: &EventType| name.as_str().to_owned();
        Self {
            id: row.id,
            r#type: text(&row.event_type),
            subtype: row.subtype.as_str(),
            shown_type: row.shown_type(),
            reference: row.reference.as_str().to_owned(),
            nbf: time(row.nbf),
            created_at: time(row.created_at),
            first_at: time(row.first_at),
            attempts: row.attempts,
            reason: row.reason.clone(),
            state: row.state.as_str(),
            revision: row.revision,
            merged: row.merged,
            payload_base64: payload.filter(|_| json.is_none()).map(|bytes| STANDARD.encode(bytes)),
            payload: json,
            properties: row.properties.as_deref().map(value_or_text),
            expires_at: row.expires_at.and_then(time),
            claim_count: row.claim_count,
            claim_history: row
                .claim_history
                .as_deref()
                .unwrap_or_default()
                .lines()
                .map(str::to_owned)
                .collect(),
            origin: row.origin.as_ref().map(text),
            first_failed_at: row.first_failed_at.and_then(time),
            last_failed_at: row.last_failed_at.and_then(time),
            lease: row.lease.as_ref().map(|lease| Lease {
                owner: lease.owner.map(|owner| owner.0),
                claim_id: lease.claim.clone().filter(|_| lease.owner.is_none()),
                cancelled: lease.is_cancelled(),
                until: time(lease.until),
            }),
        }
    }
}

/// JSON as it was pushed, every digit of it, on one line: a line break can only stand between its parts. Not what other
/// readers of JSON refuse, such as 1e400: all of an answer would be lost to them.
fn as_written(payload: &[u8]) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(payload).ok()?.trim_ascii();
    serde_json::from_str::<Value>(text).ok()?;
    RawValue::from_string(text.replace(['\n', '\r'], " ")).ok()
}

fn value_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// An event that was handled, as its type remembers it (`_history_ttl`).
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HandledEvent {
    /// Its number.
    pub id: i64,
    /// What it was about.
    pub reference: String,
    /// Its revision when it was handled.
    pub revision: i64,
    /// Attempts that were made.
    pub attempts: u32,
    /// Why it was there.
    pub reason: Option<String>,
    /// When it was made.
    pub created_at: Option<Time>,
    /// When it was done.
    pub handled_at: Option<Time>,
}

impl From<&HandledRow> for HandledEvent {
    fn from(row: &HandledRow) -> Self {
        Self {
            id: row.id,
            reference: row.reference.as_str().to_owned(),
            revision: row.revision,
            attempts: row.attempts,
            reason: row.reason.clone(),
            created_at: time(row.created_at),
            handled_at: time(row.handled_at),
        }
    }
}

/// A pushed event.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Pushed {
    /// Its number.
    pub id: i64,
    /// The event type.
    pub r#type: String,
    /// `delayed` where it is dated, else empty.
    #[schemars(with = "words::EventSubtype")]
    pub subtype: &'static str,
    /// What it is about: unique within its type.
    pub reference: String,
    /// Counts its changes.
    pub revision: i64,
    /// `new`, `coalesced` or `revived`.
    #[schemars(with = "words::PushResult")]
    pub result: &'static str,
}

impl Pushed {
    /// What was pushed, and what came of it.
    #[must_use]
    pub fn of(event: &NewEvent, pushed: PushedRow) -> Self {
        Self {
            id: pushed.id,
            r#type: event.event_type.as_str().to_owned(),
            subtype: event.subtype().as_str(),
            reference: event.reference.as_str().to_owned(),
            revision: pushed.revision,
            result: pushed.how.as_str(),
        }
    }
}

/// How many events there are, by type and state.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "EventCount")]
pub struct Count {
    /// The event type.
    pub r#type: String,
    /// The state.
    #[schemars(with = "words::EventStatus")]
    pub state: &'static str,
    /// How many there are.
    pub count: u64,
    /// Of them, those that are due.
    pub due: u64,
    /// When the first of them is due.
    pub first_nbf: Option<Time>,
    /// When the oldest one was made.
    pub oldest_created_at: Option<Time>,
}

impl From<&EventCount> for Count {
    fn from(count: &EventCount) -> Self {
        Self {
            r#type: count.event_type.as_str().to_owned(),
            state: count.state.as_str(),
            count: count.count,
            due: count.due,
            first_nbf: time(count.first_nbf),
            oldest_created_at: time(count.oldest),
        }
    }
}

/// A type.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "EventType")]
pub struct Type {
    /// Its name.
    pub name: String,
    /// As it was written.
    pub metadata: Value,
    /// When it was made.
    pub created_at: Option<Time>,
    /// When it changed last.
    pub updated_at: Option<Time>,
}

impl From<&EventTypeRecord> for Type {
    fn from(record: &EventTypeRecord) -> Self {
        Self {
            name: record.name.as_str().to_owned(),
            metadata: value_or_text(&record.document),
            created_at: time(record.created_at),
            updated_at: time(record.updated_at),
        }
    }
}

/// A subscription.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Subscription {
    /// Its number.
    pub id: i64,
    /// The event type.
    pub r#type: String,
    /// Where its events go.
    pub url: String,
    /// As they were written.
    pub options: Value,
    /// When it was made.
    pub created_at: Option<Time>,
}

impl From<&SubscriptionRow> for Subscription {
    fn from(row: &SubscriptionRow) -> Self {
        Self {
            id: row.id,
            r#type: row.event_type.as_str().to_owned(),
            url: row.url.as_str().to_owned(),
            options: value_or_text(&row.options),
            created_at: time(row.created_at),
        }
    }
}

/// A claim.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Claim {
    /// Its id.
    pub id: String,
    /// The event type.
    pub r#type: String,
    /// Until when it holds.
    pub expires_at: Option<Time>,
    /// The events that it holds.
    pub events: Vec<Event>,
}

impl Claim {
    /// A claim on events of a type.
    #[must_use]
    pub fn of(event_type: &EventType, claim: &ClaimRow) -> Self {
        Self {
            id: claim.id.clone(),
            r#type: event_type.as_str().to_owned(),
            expires_at: time(claim.expires_at),
            events: claim.events.iter().map(Event::from).collect(),
        }
    }
}

/// What became of several events.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct EventsChanged {
    /// As they are now.
    pub events: Vec<Event>,
    /// Those that were left as they are.
    pub skipped: Vec<EventSkipped>,
}

/// An event that was left as it is.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct EventSkipped {
    /// Its number.
    pub id: i64,
    /// Why.
    pub why: String,
}

/// A subscription that is gone.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Unsubscribed {
    /// As it was.
    #[serde(flatten)]
    pub subscription: Subscription,
    /// Always true.
    pub removed: bool,
}

/// What became of what a claim held.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct EventFinished {
    /// The event's reference.
    pub reference: String,
    /// What came of it.
    #[schemars(with = "words::FinishResult")]
    pub result: &'static str,
}

/// Events that a claim gave back.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Released {
    /// The claim's id.
    pub id: String,
    /// How many it held.
    pub released: u64,
}

/// What came of a command about events, as one document: one event asked for answers an object.
#[must_use]
pub fn done(done: &EventsDone, asked: Asked) -> Value {
    match done {
        EventsDone::Changed { events, skipped } => {
            if let (Asked::One, [one], []) = (asked, events.as_slice(), skipped.as_slice()) {
                return shape(&Event::from(one));
            }
            let skipped = skipped.iter().map(|(id, why)| EventSkipped {
                id: *id,
                why: why.clone(),
            });
            shape(&EventsChanged {
                events: events.iter().map(Event::from).collect(),
                skipped: skipped.collect(),
            })
        }
        EventsDone::Type(record) => shape(&Type::from(record)),
        EventsDone::Subscribed(row) => shape(&Subscription::from(row)),
        EventsDone::Unsubscribed(row) => shape(&Unsubscribed {
            subscription: Subscription::from(row),
            removed: true,
        }),
    }
}

/// How many events ended how; every way has its key.
#[must_use]
pub fn processed(processed: &Processed) -> Value {
    let mut counts = serde_json::Map::new();
    for how in Finished::ALL {
        counts.insert(how.as_str().to_owned(), Value::from(0));
    }
    for (how, count) in &processed.ended {
        counts.insert(how.as_str().to_owned(), Value::from(*count));
    }
    Value::Object(counts)
}

fn shape(shape: &impl Serialize) -> Value {
    serde_json::to_value(shape).unwrap_or_default()
}

/// An event as it is pushed over HTTP.
#[derive(Debug, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewEvent")]
pub struct PushInput {
    /// What it is about: unique within its type.
    reference: String,
    /// Not before this time: RFC 3339, or seconds since 1970; null: now.
    #[serde(default)]
    nbf: Option<Value>,
    /// Why it is there.
    #[serde(default)]
    reason: Option<String>,
    /// Any JSON, which is kept as it is written.
    #[serde(default)]
    payload: Option<Box<RawValue>>,
    /// Or any bytes, in base64.
    #[serde(default)]
    payload_base64: Option<String>,
    /// For how many seconds it is of use.
    #[serde(default)]
    ttl: Option<u64>,
}

/// An event, or several of one type.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "a description: each element is read by itself")]
pub enum NewEvents {
    /// One event.
    One(PushInput),
    /// Several: all of them, or none.
    Several {
        /// The events.
        events: Vec<PushInput>,
    },
}

/// What became of several.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PushedList {
    /// In the order in which they were given.
    pub items: Vec<Pushed>,
}

/// The keys of a type's metadata that have a meaning; others are kept.
#[derive(JsonSchema, Deserialize)]
#[schemars(rename = "Metadata", transform = super::nothing_is_required)]
#[allow(
    dead_code,
    reason = "a description: the reader of metadata names the key that is wrong"
)]
pub struct MetadataKeys {
    /// How often an event may be claimed.
    _max_claim_count: Option<u32>,
    /// The type that its dead events become.
    _dead_letter_queue: String,
    /// How long those live, in seconds.
    _dead_letter_queue_messages_ttl: Option<u64>,
    /// The retry policy of its events.
    _retry_policy: Option<PolicyKeys>,
    /// Failures after which an event is a dead letter.
    _cutoff: Option<u64>,
    /// Seconds before the first retry.
    _backoff_base: Option<u64>,
    /// Seconds before a retry, at most.
    _backoff_cap: Option<u64>,
    /// For how many seconds pushes of one reference are merged.
    _coalesce_window: Option<u64>,
    /// For how many seconds that goes on, at most.
    _coalesce_window_max: Option<u64>,
    /// How long what is done is remembered, in seconds.
    _history_ttl: Option<u64>,
}

impl PushInput {
    /// As an event of a type. The payload keeps its exact source bytes.
    ///
    /// # Errors
    /// The field that is wrong.
    pub fn event(self, event_type: &EventType) -> Result<NewEvent, EventError> {
        let payload = match (self.payload, self.payload_base64) {
            (None, None) => None,
            (Some(json), None) => Some(json.get().to_owned().into()),
            (None, Some(text)) => Some(
                STANDARD
                    .decode(text)
                    .map_err(|_| EventError::of("payload_base64", "is not base64"))?
                    .into(),
            ),
            (Some(_), Some(_)) => return Err(EventError::of("payload_base64", "and payload exclude each other")),
        };
        Ok(NewEvent {
            event_type: event_type.clone(),
            reference: Reference::parse(&self.reference)?,
            nbf: self.nbf.as_ref().map(nbf).transpose()?.flatten(),
            reason: self.reason,
            payload,
            lifetime: self.ttl.map(std::time::Duration::from_secs),
            trace: None,
        })
    }
}

/// A due time from JSON: text or a number; null is none.
fn nbf(value: &Value) -> Result<Option<Timestamp>, EventError> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => due_time(text).map(Some),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            due_time(&other.to_string()).map(Some)
        }
    }
}

/// The name of a type.
///
/// # Errors
/// What is wrong with it.
pub fn event_type(text: &str) -> Result<EventType, Problem> {
    EventType::parse(text).map_err(Problem::from)
}

/// What an event is about.
///
/// # Errors
/// What is wrong with it.
pub fn reference(text: &str) -> Result<Reference, Problem> {
    Reference::parse(text).map_err(Problem::from)
}

/// A due time, as RFC 3339 or seconds since 1970, that was given as `field`.
///
/// # Errors
/// What is wrong with it.
pub fn due(field: &str, text: &str) -> Result<Timestamp, Problem> {
    due_time(text).map_err(|error| Problem::from(error).named(field))
}

/// The same where it was given in JSON, as text or as a number.
///
/// # Errors
/// What is wrong with it, or that it is missing.
pub fn due_json(field: &str, value: Option<&Value>) -> Result<Timestamp, Problem> {
    match value {
        Some(Value::String(text)) => due(field, text),
        Some(other) => due(field, &other.to_string()),
        None => Err(Problem::field(
            field,
            format!("{field} is missing: a time as RFC 3339 or seconds since 1970"),
        )),
    }
}

impl From<EventError> for Problem {
    fn from(error: EventError) -> Self {
        Self {
            nearest: error.nearest.map(Into::into),
            ..Self::field(&error.field, error.message)
        }
    }
}
