//! The columns of the event table, named once for both drivers, and how a row of either becomes an event.

use super::{Claim, EventCount, EventTypeRecord, HandledEvent, OutboxRow, OutboxWaiting, Subscription};
use crate::domain::event::{
    Event, EventLease, EventState, EventType, EventUid, HandlingRules, LeaseKey, Metadata, Reference, Subtype,
};
use crate::domain::id::IncarnationId;
use crate::domain::time::Timestamp;
use crate::domain::trace::TraceContext;
use crate::domain::url::EndpointUrl;
use crate::store::columns::{
    Columns, integer, micros, named, named_optional, number, number_optional, parsed, text, time, time_optional,
};

macro_rules! event_columns {
    () => {
        "id, type, subtype, reference, nbf, dated, created_at, first_at, attempts, reason, state, revision, merged, \
         payload, properties, expires_at, claim_count, claim_history, origin, first_failed_at, last_failed_at, lease_token, \
         lease_revision, lease_owner, lease_claim, lease_until, uid, trace"
    };
}
/// The assignments that end a lease.
macro_rules! lease_cleared {
    () => {
        "lease_token = NULL, lease_revision = NULL, lease_owner = NULL, lease_claim = NULL, lease_until = NULL"
    };
}
/// The assignments that cancel what a handler has in hand. Its lease stays, so that nothing of its reference begins
/// before the handler has ended, and is not prolonged: that tells the handler's process. What then stays of the row is
/// removed when the lease ends, unless the key was pushed meanwhile: an older program, which knows nothing of this,
/// removes it as expired.
macro_rules! cancelled {
    () => {
        "lease_claim = 'cancelled', expires_at = created_at"
    };
}
/// The assignments of a push onto a row that waits under its key, `e` being the row; its due time apart.
macro_rules! coalesced {
    () => {
        "payload = excluded.payload, reason = excluded.reason, properties = NULL, trace = excluded.trace, \
         first_at = CASE WHEN e.state = 2 OR e.revision = e.lease_revision THEN excluded.created_at \
            ELSE e.first_at END, \
         created_at = excluded.created_at, attempts = 0, claim_count = 0, claim_history = NULL, \
         first_failed_at = NULL, last_failed_at = NULL, expires_at = excluded.expires_at, \
         revision = e.revision + 1, merged = CASE WHEN e.state = 2 THEN 0 ELSE e.merged + 1 END, \
         state = CASE WHEN e.state = 2 THEN 0 ELSE e.state END, uid = excluded.uid"
    };
}
macro_rules! event_type_columns {
    () => {
        "name, document, created_at, updated_at"
    };
}
pub(in crate::store) use {cancelled, coalesced, event_columns, event_type_columns, lease_cleared};

pub(in crate::store) fn event(row: &impl Columns) -> Result<Event, sqlx::Error> {
    let subtype = named(row, "subtype", Subtype::from_name)?;
    let dated = time(row, "dated")?;
    Ok(Event {
        id: integer(row, "id")?,
        event_type: parsed(row, "type", EventType::parse)?,
        subtype,
        reference: parsed(row, "reference", Reference::parse)?,
        nbf: time(row, "nbf")?,
        dated: (subtype == Subtype::Delayed).then_some(dated),
        created_at: time(row, "created_at")?,
        first_at: time(row, "first_at")?,
        attempts: number(row, "attempts")?,
        reason: row.text("reason")?,
        state: state(row)?,
        revision: integer(row, "revision")?,
        merged: number(row, "merged")?,
        payload: row.bytes("payload")?.map(Into::into),
        properties: row.text("properties")?,
        expires_at: time_optional(row, "expires_at")?,
        claim_count: number(row, "claim_count")?,
        claim_history: row.text("claim_history")?,
        origin: named_optional(row, "origin", |name| EventType::parse(name).ok())?,
        first_failed_at: time_optional(row, "first_failed_at")?,
        last_failed_at: time_optional(row, "last_failed_at")?,
        lease: lease(row)?,
        uid: EventUid::of(text(row, "uid")?),
        trace: row.text("trace")?.as_deref().and_then(TraceContext::parse),
    })
}

/// Those of the rows that were taken which can be read. Another one keeps its lease until that ends, which counts as a
/// failure of it, and holds up none of the others.
pub(in crate::store) fn readable<R: Columns>(rows: &[R]) -> Vec<Event> {
    let read = |row: &R| match event(row) {
        Ok(event) => Some(event),
        Err(error) => {
            let id = row.integer("id").ok().flatten();
            tracing::error!(event = ?id, error = ?error, "an event cannot be read: it is not handled");
            None
        }
    };
    rows.iter().filter_map(read).collect()
}

fn lease(row: &impl Columns) -> Result<Option<EventLease>, sqlx::Error> {
    let Some(token) = row.integer("lease_token")? else {
        return Ok(None);
    };
    Ok(Some(EventLease {
        token,
        revision: integer(row, "lease_revision")?,
        owner: row.integer("lease_owner")?.map(IncarnationId),
        claim: row.text("lease_claim")?,
        until: time(row, "lease_until")?,
    }))
}

fn state(row: &impl Columns) -> Result<EventState, sqlx::Error> {
    let number = integer(row, "state")?;
    EventState::ALL
        .into_iter()
        .find(|state| state.number() == number)
        .ok_or_else(|| sqlx::Error::Decode("column state holds a value that this program does not know".into()))
}

pub(in crate::store) fn event_count(row: &impl Columns) -> Result<EventCount, sqlx::Error> {
    Ok(EventCount {
        event_type: parsed(row, "type", EventType::parse)?,
        state: state(row)?,
        count: number(row, "count")?,
        due: number(row, "due")?,
        first_nbf: time(row, "first_nbf")?,
        first_ready_at: time(row, "first_ready_at")?,
        oldest: time(row, "oldest")?,
    })
}

pub(in crate::store) fn handled_event(row: &impl Columns) -> Result<HandledEvent, sqlx::Error> {
    Ok(HandledEvent {
        id: integer(row, "id")?,
        reference: parsed(row, "reference", Reference::parse)?,
        revision: integer(row, "revision")?,
        attempts: number(row, "attempts")?,
        reason: row.text("reason")?,
        created_at: time(row, "created_at")?,
        handled_at: time(row, "handled_at")?,
    })
}

pub(in crate::store) fn event_type_record(row: &impl Columns) -> Result<EventTypeRecord, sqlx::Error> {
    Ok(EventTypeRecord {
        name: parsed(row, "name", EventType::parse)?,
        document: text(row, "document")?,
        created_at: time(row, "created_at")?,
        updated_at: time(row, "updated_at")?,
    })
}

pub(in crate::store) fn subscription(row: &impl Columns) -> Result<Subscription, sqlx::Error> {
    Ok(Subscription {
        id: integer(row, "id")?,
        event_type: parsed(row, "type", EventType::parse)?,
        url: parsed(row, "url", EndpointUrl::parse)?,
        options: text(row, "options")?,
        created_at: time(row, "created_at")?,
    })
}

pub(in crate::store) fn outbox_row(row: &impl Columns) -> Result<OutboxRow, sqlx::Error> {
    Ok(OutboxRow {
        id: integer(row, "id")?,
        notification: text(row, "notification")?,
        queue: text(row, "queue")?,
        message: row.bytes("message")?.unwrap_or_default().into(),
        // Only how long it waits follows from it: whatever stands there, one row does not hold up all others.
        attempts: u32::try_from(integer(row, "attempts")?.max(0)).unwrap_or(u32::MAX),
        created_at: time(row, "created_at")?,
    })
}

pub(in crate::store) fn outbox_waiting(row: &impl Columns) -> Result<OutboxWaiting, sqlx::Error> {
    Ok(OutboxWaiting {
        count: number(row, "count")?,
        oldest: time_optional(row, "oldest")?,
        error: row.text("error")?,
    })
}

/// A lease that ran out.
pub(in crate::store) struct Lost {
    pub(in crate::store) key: LeaseKey,
    pub(in crate::store) event_type: EventType,
    pub(in crate::store) attempts: u32,
    pub(in crate::store) owner: Option<i64>,
}

pub(in crate::store) fn lost(row: &impl Columns) -> Result<Lost, sqlx::Error> {
    Ok(Lost {
        key: LeaseKey {
            id: integer(row, "id")?,
            token: integer(row, "lease_token")?,
            revision: integer(row, "lease_revision")?,
        },
        event_type: parsed(row, "type", EventType::parse)?,
        attempts: number(row, "attempts")?,
        owner: row.integer("lease_owner")?,
    })
}

/// The rules of a type's row over the configured ones.
pub(in crate::store) fn rules(row: &impl Columns, configured: HandlingRules) -> Result<HandlingRules, sqlx::Error> {
    let span = |column| {
        let found: Option<u64> = number_optional(row, column)?;
        Ok::<_, sqlx::Error>(found.map(std::time::Duration::from_micros))
    };
    let metadata = Metadata {
        cutoff: number_optional(row, "cutoff")?,
        backoff_base: span("backoff_base")?,
        backoff_cap: span("backoff_cap")?,
        ..Metadata::default()
    };
    Ok(metadata.rules(configured))
}

/// What the metadata of a type says, in the order of the columns of both drivers' statements: claims, type and
/// lifetime of dead letters, window and its maximum, cutoff, base and cap, history.
pub(in crate::store) struct TypeColumns {
    pub(in crate::store) numbers: [Option<i64>; 8],
    pub(in crate::store) target: Option<String>,
}

impl TypeColumns {
    pub(in crate::store) fn of(metadata: &Metadata) -> Self {
        let span = |span: Option<std::time::Duration>| span.map(micros);
        let dead = &metadata.dead_lettering;
        Self {
            numbers: [
                dead.max_claim_count.map(i64::from),
                span(dead.lifetime),
                span(metadata.coalescing.map(|coalescing| coalescing.window)),
                span(metadata.coalescing.map(|coalescing| coalescing.maximum)),
                metadata.cutoff.map(i64::from),
                span(metadata.backoff_base),
                span(metadata.backoff_cap),
                span(metadata.history),
            ],
            target: dead.event_type.as_ref().map(|target| target.as_str().to_owned()),
        }
    }
}

/// The claim that these events are held by; none without events.
pub(in crate::store) fn claim_of(id: &str, events: Vec<Event>) -> Option<Claim> {
    let expires_at = events
        .iter()
        .filter_map(|event| Some(event.lease.as_ref()?.until))
        .min()?;
    Some(Claim {
        id: id.to_owned(),
        expires_at,
        events,
    })
}

/// The history of claims with one more, at most the last twenty.
pub(in crate::store) fn claims_with(history: Option<&str>, claim: &str, at: Timestamp) -> String {
    let line = format!("{} {claim}", crate::domain::event::rfc3339(at));
    let earlier: Vec<&str> = history.unwrap_or_default().lines().collect();
    let kept = earlier.len().saturating_sub(19);
    let mut lines = earlier.into_iter().skip(kept).map(str::to_owned).collect::<Vec<_>>();
    lines.push(line);
    lines.join("\n")
}
