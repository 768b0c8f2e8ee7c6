//! What a dead letter looks like when it is sent again: without the marks of its death, with ours.
//!
//! What is taken off goes into the journal as text for people.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::domain::error_queue::{is_mark, unwrapped};
use crate::domain::message::{HeaderValue, Message};
use crate::domain::storable::{Storable, storable};

/// How often the message was redriven.
pub const REDRIVEN: &str = "x-redrive-redriven";
/// The run that redrove it last.
pub const RUN: &str = "x-redrive-run";

/// Headers that say how it died; the broker would count on.
const DROPPED: [&str; 5] = ["x-death", "x-delivery-count", "x-acquired-count", REDRIVEN, RUN];
/// The same, by their beginning.
const DROPPED_PREFIXES: [&str; 3] = ["x-first-death-", "x-last-death-", "x-redrive-dead-"];
/// How the document is called that a framework wrapped a message into.
pub(super) const WRAPPER: &str = "(wrapper)";
/// Bytes of one dropped value that the journal keeps.
const SHOWN_MAX: usize = 2048;

fn is_dropped(name: &str) -> bool {
    DROPPED.contains(&name) || is_mark(name) || DROPPED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether only a message that is sent again goes without this; one that is moved or put back keeps it.
pub(super) fn marks_a_death(name: &str) -> bool {
    is_dropped(name) || name == WRAPPER
}

/// The names of what is taken off a message that is sent again.
pub(super) fn dropped_names(message: &Message) -> BTreeSet<&str> {
    let headers = message.headers.iter().map(|(name, _)| name.as_str());
    let taken_off = storable(message).taken_off.into_iter().map(|(name, _)| name);
    headers.filter(|name| is_dropped(name)).chain(taken_off).collect()
}

/// How often a message was redriven before.
pub(super) fn redriven(message: &Message) -> u64 {
    message
        .header_integer(REDRIVEN)
        .map_or(0, |count| u64::try_from(count).unwrap_or(0))
}

/// The message as `run` sends it again from this queue, out of the wrapper that its framework put it into, and what was
/// taken off.
pub(super) fn redriven_message(queue: &str, message: &Message, run: &str) -> (Message, Option<String>) {
    let inside = unwrapped(queue, message);
    let wrapper = inside.as_ref().map(|_| HeaderValue::Bytes(message.body.clone()));
    let message = inside.as_ref().unwrap_or(message);
    let count = redriven(message) + 1;
    let (mut sent, dropped) = stripped(message, wrapper);
    let count = HeaderValue::Integer(i64::try_from(count).unwrap_or(i64::MAX));
    sent.headers.push((REDRIVEN.to_owned(), count));
    sent.headers.push((RUN.to_owned(), HeaderValue::text(run)));
    (sent, dropped)
}

/// The message as it is moved, or put back: as it is, but for what would send it elsewhere, or lose it.
pub(super) fn moved_message(message: &Message) -> (Message, Option<String>) {
    let Storable { message, taken_off } = storable(message);
    let dropped = taken_off.iter().map(|(name, value)| ((*name).to_owned(), shown(value)));
    (message, journal(dropped.collect()))
}

fn stripped(message: &Message, wrapper: Option<HeaderValue>) -> (Message, Option<String>) {
    let Storable {
        message: mut sent,
        taken_off,
    } = storable(message);
    let mut dropped: Map<String, Value> = Map::new();
    if let Some(wrapper) = wrapper {
        dropped.insert(WRAPPER.to_owned(), shown(&wrapper));
    }
    for (name, value) in taken_off {
        dropped.insert(name.to_owned(), shown(&value));
    }
    sent.headers.retain(|(name, value)| {
        let drops = is_dropped(name);
        if drops {
            dropped.insert(name.clone(), shown(value));
        }
        !drops
    });
    (sent, journal(dropped))
}

fn journal(dropped: Map<String, Value>) -> Option<String> {
    (!dropped.is_empty()).then(|| Value::Object(dropped).to_string())
}

/// A header's value as JSON for people.
pub(super) fn shown(value: &HeaderValue) -> Value {
    match value {
        HeaderValue::Text(bytes) | HeaderValue::Bytes(bytes) => {
            let end = bytes.len().min(SHOWN_MAX);
            let text = String::from_utf8_lossy(&bytes[..end]);
            if end < bytes.len() {
                json!(format!("{text}… ({} bytes)", bytes.len()))
            } else {
                json!(text)
            }
        }
        HeaderValue::Bool(flag) => json!(flag),
        HeaderValue::Float(number) => json!(number),
        HeaderValue::Double(number) => json!(number),
        HeaderValue::Timestamp(seconds) => json!(seconds),
        HeaderValue::Decimal { scale, value } => json!(format!("{value}/10^{scale}")),
        HeaderValue::Array(values) => Value::Array(values.iter().map(shown).collect()),
        HeaderValue::Table(entries) => Value::Object(
            entries
                .iter()
                .map(|(name, value)| (name.clone(), shown(value)))
                .collect(),
        ),
        HeaderValue::Void => Value::Null,
        HeaderValue::Other(text) => json!(text),
        HeaderValue::Integer(_)
        | HeaderValue::I8(_)
        | HeaderValue::U8(_)
        | HeaderValue::I16(_)
        | HeaderValue::U16(_)
        | HeaderValue::I32(_)
        | HeaderValue::U32(_) => json!(value.as_integer()),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_value_that_the_journal_cuts_off_says_how_long_it_was() {
        let long = shown(&HeaderValue::text(&"x".repeat(SHOWN_MAX + 1)));
        assert!(long.as_str().unwrap().ends_with("x… (2049 bytes)"), "{long}");
        assert_eq!(shown(&HeaderValue::text("x")), "x");
    }

    fn letter() -> Message {
        let text = |name: &str| (name.to_owned(), HeaderValue::text("x"));
        let mut headers = vec![
            text("x-death"),
            text("x-first-death-queue"),
            text("CC"),
            text("mine"),
            text("x-redrive-url"),
        ];
        headers.push(text("x-redrive-dead-reason"));
        headers.push((REDRIVEN.to_owned(), HeaderValue::I32(2)));
        Message {
            expiration: Some("5".to_owned()),
            priority: Some(3),
            user_id: Some("u".to_owned()),
            transient: true,
            message_id: Some("m".to_owned()),
            body: Bytes::from_static(b"body"),
            headers,
            ..Message::default()
        }
    }

    fn names(message: &Message) -> Vec<&str> {
        message.headers.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn the_marks_of_death_go_and_the_count_grows() {
        let (sent, dropped) = redriven_message("dead", &letter(), "run-1");
        assert_eq!(names(&sent), ["mine", "x-redrive-url", REDRIVEN, RUN]);
        assert_eq!(sent.header(REDRIVEN), Some(&HeaderValue::Integer(3)));
        assert_eq!(sent.header_text(RUN), Some("run-1"));
        assert_eq!((sent.expiration, sent.priority, sent.user_id), (None, None, None));
        assert!(!sent.transient);
        assert_eq!((sent.message_id.as_deref(), &sent.body[..]), (Some("m"), &b"body"[..]));
        let dropped: Value = serde_json::from_str(&dropped.unwrap()).unwrap();
        assert_eq!(dropped["expiration"], "5");
        assert_eq!(dropped["CC"], "x");
        assert_eq!(dropped[REDRIVEN], 2);
    }

    #[test]
    fn what_is_moved_keeps_its_history_but_is_not_copied_elsewhere() {
        let (sent, dropped) = moved_message(&letter());
        assert!(names(&sent).contains(&"x-death") && !names(&sent).contains(&"CC"));
        let dropped: Value = serde_json::from_str(&dropped.unwrap()).unwrap();
        assert_eq!((&dropped["CC"], &dropped["x-death"]), (&json!("x"), &Value::Null));
    }
}
