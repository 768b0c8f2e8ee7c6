//! Between the client's properties and a [`Message`]: lenient inwards, strict outwards.
//!
//! What comes in was written by anybody: every type of header value is taken, nested ones are shown as
//! bounded text, nothing here recurses over them (18,000 levels are possible, reliability.md F4). What
//! goes out never closes the connection: names and sizes that AMQP cannot carry are refused before.

use std::fmt::Write;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};

use crate::domain::message::{HeaderValue, Message};
use crate::domain::time::Timestamp;

/// Levels of a nested header value that are shown.
const SHOWN_DEPTH: usize = 4;
/// Bytes of a nested header value that are shown.
const SHOWN_BYTES: usize = 1024;
/// Nesting that any thread's stack bears when it is dropped.
const DROPPED_DEPTH: usize = 100;
/// A stack that bears the deepest table that fits into a frame.
const DROP_STACK_BYTES: usize = 128 << 20;

/// The message that came with `properties` and `body`.
pub(super) fn received(properties: BasicProperties, body: Vec<u8>) -> Message {
    let text = |value: &Option<ShortString>| value.as_ref().map(|value| value.as_str().to_owned());
    let message = Message {
        content_type: text(properties.content_type()),
        message_id: text(properties.message_id()),
        kind: text(properties.kind()),
        timestamp: properties.timestamp().map(seconds),
        headers: properties.headers().as_ref().map(headers).unwrap_or_default(),
        body: Bytes::from(body),
    };
    dispose(properties);
    message
}

/// The properties that a message is published with, or why it cannot be: `frame_max` bounds them all.
pub(super) fn published(message: &Message, frame_max: usize) -> Result<BasicProperties, String> {
    // Persistent: what is confirmed survives a restart of the broker.
    let mut properties = BasicProperties::default().with_delivery_mode(2);
    let mut size = 256;
    if let Some(content_type) = &message.content_type {
        properties = properties.with_content_type(short("content_type", content_type)?);
    }
    if let Some(id) = &message.message_id {
        properties = properties.with_message_id(short("message_id", id)?);
    }
    if let Some(kind) = &message.kind {
        properties = properties.with_type(short("type", kind)?);
    }
    if let Some(timestamp) = message.timestamp {
        properties = properties.with_timestamp(u64::try_from(timestamp.seconds()).unwrap_or(0));
    }
    if !message.headers.is_empty() {
        let mut table = FieldTable::default();
        for (name, value) in &message.headers {
            let value = header_value(value);
            size += name.len()
                + 16
                + if let AMQPValue::LongString(text) = &value {
                    text.len()
                } else {
                    0
                };
            table.insert(short("header name", name)?, value);
        }
        properties = properties.with_headers(table);
    }
    // A header frame over the limit closes the whole connection.
    if frame_max > 0 && size + 3 * 256 > frame_max {
        return Err(format!(
            "headers of {size} bytes do not fit into a frame of {frame_max}"
        ));
    }
    Ok(properties)
}

fn short(what: &str, text: &str) -> Result<ShortString, String> {
    ShortString::try_new(text).map_err(|_| format!("{what} is longer than 255 bytes"))
}

fn header_value(value: &HeaderValue) -> AMQPValue {
    match value {
        HeaderValue::Text(bytes) => AMQPValue::LongString(LongString::from(bytes.to_vec())),
        HeaderValue::Integer(number) => AMQPValue::LongLongInt(*number),
        HeaderValue::Bool(flag) => AMQPValue::Boolean(*flag),
        HeaderValue::Other(text) => AMQPValue::LongString(LongString::from(text.as_bytes())),
    }
}

/// A broker's timestamp, which is any 64 bits.
fn seconds(seconds: u64) -> Timestamp {
    Timestamp::from_seconds(i64::try_from(seconds).unwrap_or(i64::MAX))
}

fn headers(table: &FieldTable) -> Vec<(String, HeaderValue)> {
    table
        .into_iter()
        .map(|(name, value)| (name.as_str().to_owned(), taken(value)))
        .collect()
}

fn taken(value: &AMQPValue) -> HeaderValue {
    match value {
        AMQPValue::Boolean(flag) => HeaderValue::Bool(*flag),
        AMQPValue::ShortShortInt(number) => HeaderValue::Integer((*number).into()),
        AMQPValue::ShortShortUInt(number) => HeaderValue::Integer((*number).into()),
        AMQPValue::ShortInt(number) => HeaderValue::Integer((*number).into()),
        AMQPValue::ShortUInt(number) => HeaderValue::Integer((*number).into()),
        AMQPValue::LongInt(number) => HeaderValue::Integer((*number).into()),
        AMQPValue::LongUInt(number) => HeaderValue::Integer((*number).into()),
        AMQPValue::LongLongInt(number) => HeaderValue::Integer(*number),
        AMQPValue::ShortString(text) => HeaderValue::text(text.as_str()),
        AMQPValue::LongString(text) => HeaderValue::Text(Bytes::copy_from_slice(text.as_bytes())),
        AMQPValue::ByteArray(bytes) => HeaderValue::Text(Bytes::copy_from_slice(bytes.as_slice())),
        AMQPValue::Float(_)
        | AMQPValue::Double(_)
        | AMQPValue::DecimalValue(_)
        | AMQPValue::FieldArray(_)
        | AMQPValue::Timestamp(_)
        | AMQPValue::FieldTable(_)
        | AMQPValue::Void => HeaderValue::Other(shown(value)),
    }
}

/// A piece of text still to be written, or a value still to be shown.
enum Part<'a> {
    Text(String),
    Value(&'a AMQPValue, usize),
}

/// `value` as text in the manner of JSON, cut in depth and length. A stack of its own, no recursion.
pub(super) fn shown(value: &AMQPValue) -> String {
    let mut text = String::new();
    let mut stack = vec![Part::Value(value, 0)];
    while let Some(part) = stack.pop() {
        match part {
            Part::Text(part) => text.push_str(&part),
            Part::Value(AMQPValue::FieldTable(table), depth) if depth < SHOWN_DEPTH => {
                stack.push(Part::Text("}".into()));
                for (position, (name, value)) in table
                    .into_iter()
                    .enumerate()
                    .take(SHOWN_BYTES)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .rev()
                {
                    stack.push(Part::Value(value, depth + 1));
                    let comma = if position == 0 { "" } else { ", " };
                    stack.push(Part::Text(format!("{comma}{:?}: ", name.as_str())));
                }
                stack.push(Part::Text("{".into()));
            }
            Part::Value(AMQPValue::FieldArray(array), depth) if depth < SHOWN_DEPTH => {
                stack.push(Part::Text("]".into()));
                for (position, value) in array.as_slice().iter().enumerate().take(SHOWN_BYTES).rev() {
                    stack.push(Part::Value(value, depth + 1));
                    stack.push(Part::Text(if position == 0 { "" } else { ", " }.into()));
                }
                stack.push(Part::Text("[".into()));
            }
            Part::Value(value, _) => leaf(&mut text, value),
        }
        if text.len() > SHOWN_BYTES {
            let cut = text.floor_char_boundary(SHOWN_BYTES);
            text.truncate(cut);
            text.push('…');
            break;
        }
    }
    text
}

fn leaf(text: &mut String, value: &AMQPValue) {
    // Writing to a string cannot fail.
    let _ = match value {
        AMQPValue::FieldTable(_) => write!(text, "{{…}}"),
        AMQPValue::FieldArray(_) => write!(text, "[…]"),
        AMQPValue::Void => write!(text, "null"),
        AMQPValue::Float(number) => write!(text, "{number}"),
        AMQPValue::Double(number) => write!(text, "{number}"),
        AMQPValue::Timestamp(seconds) => write!(text, "timestamp {seconds}"),
        AMQPValue::DecimalValue(decimal) => write!(text, "{} / 10^{}", decimal.value, decimal.scale),
        AMQPValue::Boolean(_)
        | AMQPValue::ShortShortInt(_)
        | AMQPValue::ShortShortUInt(_)
        | AMQPValue::ShortInt(_)
        | AMQPValue::ShortUInt(_)
        | AMQPValue::LongInt(_)
        | AMQPValue::LongUInt(_)
        | AMQPValue::LongLongInt(_)
        | AMQPValue::ShortString(_)
        | AMQPValue::LongString(_)
        | AMQPValue::ByteArray(_) => match taken(value) {
            HeaderValue::Text(bytes) => {
                let bytes = bytes.slice(..bytes.len().min(SHOWN_BYTES));
                write!(text, "{:?}", String::from_utf8_lossy(&bytes))
            }
            HeaderValue::Integer(number) => write!(text, "{number}"),
            HeaderValue::Bool(flag) => write!(text, "{flag}"),
            HeaderValue::Other(other) => write!(text, "{other}"),
        },
    };
}

/// Drops properties, on a stack that bears it when they are nested deeply.
fn dispose(properties: BasicProperties) {
    if properties
        .headers()
        .as_ref()
        .is_none_or(|table| !deeper_than(table, DROPPED_DEPTH))
    {
        return;
    }
    tracing::warn!("a message with deeply nested headers was read");
    let spawned = std::thread::Builder::new()
        .name("deep-headers".to_owned())
        .stack_size(DROP_STACK_BYTES)
        .spawn(move || drop(properties));
    if let Err(error) = spawned {
        tracing::error!(%error, "no thread to drop deeply nested headers on");
    }
}

fn deeper_than(table: &FieldTable, limit: usize) -> bool {
    let mut stack: Vec<(&AMQPValue, usize)> = table.into_iter().map(|(_, value)| (value, 1)).collect();
    while let Some((value, depth)) = stack.pop() {
        if depth > limit {
            return true;
        }
        if let AMQPValue::FieldTable(table) = value {
            stack.extend(table.into_iter().map(|(_, value)| (value, depth + 1)));
        } else if let AMQPValue::FieldArray(array) = value {
            stack.extend(array.as_slice().iter().map(|value| (value, depth + 1)));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use lapin::types::FieldArray;

    use super::*;

    fn table(name: &str, value: AMQPValue) -> FieldTable {
        let mut table = FieldTable::default();
        table.insert(ShortString::from(name), value);
        table
    }

    #[test]
    fn what_is_published_is_received_equal() {
        let message = Message {
            content_type: Some("text/plain".into()),
            message_id: Some("7".into()),
            kind: Some("end".into()),
            timestamp: Some(Timestamp::from_seconds(5)),
            headers: vec![
                ("a".into(), HeaderValue::Text(Bytes::from_static(b"\xff"))),
                ("b".into(), HeaderValue::Integer(i64::MIN)),
                ("c".into(), HeaderValue::Bool(false)),
            ],
            body: Bytes::from_static(b"\0"),
        };
        let properties = published(&message, 131_072).unwrap();
        assert_eq!(*properties.delivery_mode(), Some(2));
        assert_eq!(received(properties, message.body.to_vec()), message);
    }

    #[test]
    fn what_amqp_cannot_carry_is_refused_with_its_name() {
        let long = "x".repeat(256);
        for (message, part) in [
            (
                Message {
                    message_id: Some(long.clone()),
                    ..Message::default()
                },
                "message_id",
            ),
            (
                Message {
                    content_type: Some(long.clone()),
                    ..Message::default()
                },
                "content_type",
            ),
            (
                Message {
                    headers: vec![(long, HeaderValue::Bool(true))],
                    ..Message::default()
                },
                "header name",
            ),
            (
                Message {
                    headers: vec![("h".into(), HeaderValue::text(&"x".repeat(131_072)))],
                    ..Message::default()
                },
                "frame",
            ),
        ] {
            let refused = published(&message, 131_072).unwrap_err();
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn nested_values_are_shown_in_bounds() {
        let mut value = AMQPValue::LongInt(1);
        for _ in 0..50 {
            value = AMQPValue::FieldTable(table("k", value));
        }
        assert_eq!(shown(&value), r#"{"k": {"k": {"k": {"k": {…}}}}}"#);
        let wide = AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::Void; 5000]));
        assert!(shown(&wide).len() <= SHOWN_BYTES + 4);
        assert_eq!(
            shown(&AMQPValue::FieldArray(FieldArray::from(vec![
                AMQPValue::Void,
                AMQPValue::Boolean(true)
            ]))),
            "[null, true]"
        );
    }

    #[test]
    fn the_largest_timestamp_is_taken() {
        assert_eq!(seconds(u64::MAX), Timestamp::from_seconds(i64::MAX));
    }
}
