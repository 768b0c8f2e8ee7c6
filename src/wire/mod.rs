//! The JSON shapes that command line and HTTP API both print and read (docs/contract.md, *Documents*).
//!
//! Promises: exactly the keys of the contract (more may be added); times are RFC 3339 in UTC, spans
//! are seconds with the unit in the name, an unknown number is `null`, never zero. Nothing here is a
//! domain type: each shape is made from one at the edge. Left out on purpose: statuses, exit codes
//! and tables, which belong to the two fronts.

pub mod attach;
pub mod dead;
pub mod document;
pub mod endpoint;
pub mod event;
pub mod expiring;
pub mod handover;
pub mod input;
pub mod job;
pub mod json;
pub mod notification;
pub mod plan;
pub mod policy;
pub mod problem;
pub mod publish;
pub mod queue;
pub mod rate;
pub mod record;
pub mod run;
pub mod set_out;
pub mod stream;
pub mod words;

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::domain::time::Timestamp;
use crate::engine::view::{self, Page};

/// A page of a list.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "{T}List")]
pub struct List<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// Where the next page begins; opaque.
    pub next_cursor: Option<String>,
    /// When it was read.
    pub taken_at: Option<Time>,
    /// What could not be read, so that there may be more than this, or numbers are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Unread>,
}

/// A list that has no pages.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "{T}List")]
pub struct Whole<T> {
    /// All items.
    pub items: Vec<T>,
    /// When it was read.
    pub taken_at: Option<Time>,
}

impl<T> Whole<T> {
    /// The shapes of what was read at a time.
    pub fn of(items: impl IntoIterator<Item = T>, at: Timestamp) -> Self {
        Self {
            items: items.into_iter().collect(),
            taken_at: time(at),
        }
    }
}

impl<T> List<T> {
    /// The only page of what was read at a time.
    pub fn only(items: impl IntoIterator<Item = T>, at: Timestamp) -> Self {
        Self {
            items: items.into_iter().collect(),
            next_cursor: None,
            taken_at: time(at),
            problems: Vec::new(),
        }
    }

    /// The shape of a page.
    pub fn of<V>(page: &Page<V>) -> Self
    where
        T: for<'a> From<&'a V>,
    {
        Self {
            items: page.items.iter().map(T::from).collect(),
            next_cursor: page.next_cursor.clone(),
            taken_at: time(page.taken_at),
            problems: unread(&page.problems),
        }
    }
}

/// What an answer lacks.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Unread {
    /// Where it would have come from: `broker`, `management`, `store`, `queue NAME`.
    pub source: String,
    /// Why it could not be read.
    pub reason: String,
    /// Since when this process cannot read it.
    pub since: Option<Time>,
}

impl From<&view::Unread> for Unread {
    fn from(unread: &view::Unread) -> Self {
        Self {
            source: unread.source.name(),
            reason: unread.reason.clone(),
            since: time(unread.since),
        }
    }
}

/// The shapes of what an answer lacks.
#[must_use]
pub fn unread(problems: &[view::Unread]) -> Vec<Unread> {
    problems.iter().map(Unread::from).collect()
}

/// Bytes as text where they are UTF-8, else in base64: exactly one of the two.
#[must_use]
pub fn text_or_base64(bytes: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

/// Of a document any key of which may be left out, in both directions.
pub(crate) fn nothing_is_required(schema: &mut Schema) {
    let _ = schema.remove("required");
}

/// A point in time as RFC 3339 in UTC.
#[derive(Clone, Debug, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
pub struct Time(String);

impl Deref for Time {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<Time> for String {
    fn from(time: Time) -> Self {
        time.0
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

/// A point in time as RFC 3339 in UTC; `None` where that cannot say it (year 10,000 and later).
#[must_use]
pub fn time(at: Timestamp) -> Option<Time> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.micros()) * 1_000)
        .ok()
        .and_then(|at| at.format(&Rfc3339).ok())
        .map(Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rfc_3339_in_utc_or_unknown() {
        assert_eq!(
            time(Timestamp::from_seconds(0)).as_deref(),
            Some("1970-01-01T00:00:00Z")
        );
        assert_eq!(
            time(Timestamp::from_micros(1_700_000_000_250_000)).as_deref(),
            Some("2023-11-14T22:13:20.25Z")
        );
        assert_eq!(time(Timestamp::from_micros(i64::MAX)), None);
    }

    #[test]
    fn a_page_keeps_its_cursor_and_its_age() {
        let page = Page {
            items: vec![1_u8, 2],
            next_cursor: Some("x".to_owned()),
            taken_at: Timestamp::from_seconds(0),
            problems: Vec::new(),
        };
        let json = serde_json::to_value(List::<Number>::of(&page)).unwrap();
        let expected = serde_json::json!({
            "items": [1, 2], "next_cursor": "x", "taken_at": "1970-01-01T00:00:00Z"
        });
        assert_eq!(json, expected);
    }

    #[derive(Serialize)]
    struct Number(u8);

    impl From<&u8> for Number {
        fn from(number: &u8) -> Self {
            Self(*number)
        }
    }
}
