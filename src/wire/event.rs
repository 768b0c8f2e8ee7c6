//! Events, their types, subscriptions and claims: as they are printed, and as they are read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::domain::event::{Event as EventRow, EventError, EventType, NewEvent, Reference, due_time};
use crate::domain::time::Timestamp;
use crate::engine::events::{
    Claim as ClaimRow, EventCount, EventTypeRecord, EventsDone, Processed, Pushed as PushedRow,
    Subscription as SubscriptionRow, shown_options,
};

use super::plan::Asked;
use super::problem::Problem;
use super::time;

/// An event.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the keys are those of docs/contract.md")]
pub struct Event {
    pub id: i64,
    pub r#type: String,
    pub subtype: &'static str,
    /// The type as it is shown, with the suffix of what is dated.
    pub shown_type: String,
    pub reference: String,
    pub nbf: Option<String>,
    pub created_at: Option<String>,
    pub first_at: Option<String>,
    pub attempts: u32,
    pub reason: Option<String>,
    pub state: &'static str,
    pub revision: i64,
    pub merged: u64,
    /// The payload when it is JSON; else `payload_base64` has it.
    pub payload: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<Value>,
    pub expires_at: Option<String>,
    pub claim_count: u32,
    pub claim_history: Vec<String>,
    pub origin: Option<String>,
    pub first_failed_at: Option<String>,
    pub last_failed_at: Option<String>,
    pub lease: Option<Lease>,
}

/// Who has an event.
#[derive(Clone, Debug, Serialize)]
pub struct Lease {
    /// The incarnation that handles it.
    pub owner: Option<i64>,
    /// The claim that holds it.
    pub claim_id: Option<String>,
    /// Until when.
    pub until: Option<String>,
}

impl From<&EventRow> for Event {
    fn from(row: &EventRow) -> Self {
        let payload = row.payload.as_deref();
        let json: Option<Value> = payload.and_then(|bytes| serde_json::from_slice(bytes).ok());
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
                claim_id: lease.claim.clone(),
                until: time(lease.until),
            }),
        }
    }
}

fn value_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// A pushed event.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the keys are the event's")]
pub struct Pushed {
    pub id: i64,
    pub r#type: String,
    pub subtype: &'static str,
    pub reference: String,
    pub revision: i64,
    /// `new`, `coalesced` or `revived`.
    pub result: &'static str,
}

impl Pushed {
    /// What was pushed, and what came of it.
    #[must_use]
    pub fn of(event: &NewEvent, pushed: PushedRow) -> Self {
        Self {
            id: pushed.id,
            r#type: event.event_type.as_str().to_owned(),
            subtype: if event.nbf.is_some() { "delayed" } else { "" },
            reference: event.reference.as_str().to_owned(),
            revision: pushed.revision,
            result: pushed.how.as_str(),
        }
    }
}

/// How many events there are, by type and state.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the keys are the event's")]
pub struct Count {
    pub r#type: String,
    pub state: &'static str,
    pub count: u64,
    pub due: u64,
    pub first_nbf: Option<String>,
    pub oldest_created_at: Option<String>,
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
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "its name, its metadata as written, and when")]
pub struct Type {
    pub name: String,
    pub metadata: Value,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
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
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the keys are those of docs/contract.md")]
pub struct Subscription {
    pub id: i64,
    pub r#type: String,
    pub url: String,
    pub options: Value,
    pub created_at: Option<String>,
}

impl From<&SubscriptionRow> for Subscription {
    fn from(row: &SubscriptionRow) -> Self {
        Self {
            id: row.id,
            r#type: row.event_type.as_str().to_owned(),
            url: row.url.as_str().to_owned(),
            options: value_or_text(&shown_options(&row.options)),
            created_at: time(row.created_at),
        }
    }
}

/// A claim.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the keys are those of docs/contract.md")]
pub struct Claim {
    pub id: String,
    pub r#type: String,
    pub expires_at: Option<String>,
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

/// What came of a command about events, as one document: one event asked for answers an object.
#[must_use]
pub fn done(done: &EventsDone, asked: Asked) -> Value {
    match done {
        EventsDone::Changed { events, skipped } => {
            if let (Asked::One, [one], []) = (asked, events.as_slice(), skipped.as_slice()) {
                return shape(&Event::from(one));
            }
            let skipped: Vec<Value> = skipped
                .iter()
                .map(|(id, why)| serde_json::json!({"id": id, "why": why}))
                .collect();
            let events: Vec<Event> = events.iter().map(Event::from).collect();
            serde_json::json!({"events": events, "skipped": skipped})
        }
        EventsDone::Type(record) => shape(&Type::from(record)),
        EventsDone::Subscribed(row) => shape(&Subscription::from(row)),
        EventsDone::Unsubscribed(row) => {
            let mut gone = shape(&Subscription::from(row));
            gone["removed"] = Value::Bool(true);
            gone
        }
    }
}

/// How many events ended how; every way has its key.
#[must_use]
pub fn processed(processed: &Processed) -> Value {
    let mut counts = serde_json::Map::new();
    for how in [
        "done",
        "requeued",
        "retried",
        "dead",
        "released",
        "superseded",
        "gone",
        "stale",
    ] {
        counts.insert(how.to_owned(), Value::from(0));
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
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PushInput {
    reference: String,
    #[serde(default)]
    nbf: Option<Value>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    payload: Option<Box<RawValue>>,
    #[serde(default)]
    payload_base64: Option<String>,
    #[serde(default)]
    ttl: Option<u64>,
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

/// A due time, as RFC 3339 or seconds since 1970.
///
/// # Errors
/// What is wrong with it.
pub fn due(text: &str) -> Result<Timestamp, Problem> {
    due_time(text).map_err(Problem::from)
}

impl From<EventError> for Problem {
    fn from(error: EventError) -> Self {
        Self {
            nearest: error.nearest.map(Into::into),
            ..Self::field(&error.field, error.message)
        }
    }
}
