//! What a filter may name of events.

use std::borrow::Cow;

use super::groups::group_of;
use crate::domain::event::{Event, EventState};
use crate::domain::filter::{Field, FieldKind, FieldValue, Fields};
use crate::domain::time::Timestamp;
use crate::engine::places::Places;

/// The fields that a filter over events may name. `age` is the time since the last push, `due` how long until it
/// is tried, `overdue` how long ago it could have been; `error` is the last failure's; `group` those that are there
/// for the same reason; `body./POINTER` a value of its JSON payload.
pub const EVENT_FIELDS: &[Field] = &[
    Field::new("id", FieldKind::Number),
    Field::new("type", FieldKind::Text),
    Field::new("subtype", FieldKind::Text),
    Field::new("reference", FieldKind::Text),
    Field::new("state", FieldKind::Word(&EventState::NAMES)),
    Field::new("reason", FieldKind::Text),
    Field::new("error", FieldKind::Text),
    Field::new("payload", FieldKind::Text),
    Field::new("attempts", FieldKind::Number),
    Field::new("revision", FieldKind::Number),
    Field::new("merged", FieldKind::Number),
    Field::new("claims", FieldKind::Number),
    Field::new("claim", FieldKind::Text),
    Field::new("origin", FieldKind::Text),
    Field::new("nbf", FieldKind::Time),
    Field::new("created_at", FieldKind::Time),
    Field::new("age", FieldKind::Duration),
    Field::new("due", FieldKind::Duration),
    Field::new("overdue", FieldKind::Duration),
    Field::new("ttl", FieldKind::Duration),
    Field::new("dead", FieldKind::Bool),
    Field::new("group", FieldKind::Text),
    Field::new("body.", FieldKind::Text),
];

/// An event at a moment.
pub(super) struct AtMoment<'a> {
    event: &'a Event,
    now: Timestamp,
    places: Places<'a>,
}

impl<'a> AtMoment<'a> {
    pub(super) fn of(event: &'a Event, now: Timestamp) -> Self {
        Self {
            event,
            now,
            places: Places::of_body(event.payload.as_deref().unwrap_or_default()),
        }
    }
}

impl Fields for AtMoment<'_> {
    fn field(&self, name: &str) -> FieldValue<'_> {
        let (event, now) = (self.event, self.now);
        match name {
            "id" => number(event.id),
            "type" => text(event.event_type.as_str()),
            "subtype" => text(event.subtype.as_str()),
            "reference" => text(event.reference.as_str()),
            "state" => text(event.state.as_str()),
            "reason" => optional(event.reason.as_deref()),
            "error" => optional(event.reason.as_deref().and_then(error_of)),
            "payload" => event.payload.as_deref().map_or(FieldValue::Missing, |bytes| {
                FieldValue::Text(String::from_utf8_lossy(bytes))
            }),
            "attempts" => number(event.attempts.into()),
            "revision" => number(event.revision),
            "merged" => number(i64::try_from(event.merged).unwrap_or(i64::MAX)),
            "claims" => number(event.claim_count.into()),
            "claim" => optional(event.lease.as_ref().and_then(|lease| lease.claim.as_deref())),
            "origin" => optional(event.origin.as_ref().map(crate::domain::event::EventType::as_str)),
            "nbf" => FieldValue::Time(event.nbf),
            "created_at" => FieldValue::Time(event.created_at),
            "age" => FieldValue::Duration(now.since(event.created_at)),
            "due" => FieldValue::Duration(event.nbf.since(now)),
            "overdue" => FieldValue::Duration(now.since(event.nbf)),
            "ttl" => event
                .expires_at
                .map_or(FieldValue::Missing, |at| FieldValue::Duration(at.since(now))),
            "dead" => FieldValue::Bool(event.is_dead_letter()),
            "group" => FieldValue::Text(Cow::Owned(group_of(event))),
            _ => FieldValue::Missing,
        }
    }

    fn at(&self, family: &str, place: &str) -> FieldValue<'_> {
        self.places.at(family, place)
    }
}

/// The error in a reason of the form `retry: failed_at=… error=…`.
pub(super) fn error_of(reason: &str) -> Option<&str> {
    let (_, error) = reason.strip_prefix("retry: ")?.split_once("error=")?;
    Some(error)
}

fn text(text: &str) -> FieldValue<'_> {
    FieldValue::Text(Cow::Borrowed(text))
}

fn optional(found: Option<&str>) -> FieldValue<'_> {
    found.map_or(FieldValue::Missing, text)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts and ids that people compare are far below 2^52"
)]
fn number(number: i64) -> FieldValue<'static> {
    FieldValue::Number(number as f64)
}
