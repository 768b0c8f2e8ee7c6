//! Between the client's properties and a [`Message`]: lenient inwards, strict outwards.
//!
//! What comes in was written by anybody: every type of header value is taken, nested ones are shown as
//! bounded text, nothing here recurses over them (18,000 levels are possible, docs/rabbitmq.md, *Deep headers*). What
//! goes out never closes the connection: names and sizes that AMQP cannot carry are refused before.

use std::fmt::Write;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::protocol::basic::parse_properties;
use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable, LongString, ShortString};

use crate::broker::{DeliveryTag, Walked};
use crate::domain::message::{HEADER_DEPTH_MAX, HeaderValue, Message};

/// Levels of a nested header value that are shown.
const SHOWN_DEPTH: usize = 4;
/// Bytes of a nested header value that are shown.
const SHOWN_BYTES: usize = 1024;
/// Nesting that any thread's stack bears when it is dropped.
const DROPPED_DEPTH: usize = 100;
/// A stack that bears the deepest table that fits into a frame.
const DROP_STACK_BYTES: usize = 128 << 20;
/// One that bears its decoding, also in an unoptimised build.
const DECODE_STACK_BYTES: usize = 256 << 20;
/// Nesting that any thread's stack bears when it is decoded.
const DECODED_DEPTH: usize = 400;

/// AMQP's number for a message that survives a restart.
const PERSISTENT: u8 = 2;
const TRANSIENT: u8 = 1;

/// What was taken as the message at `position`.
pub(super) fn walked(delivery: Delivery, position: u64) -> Walked {
    Walked {
        tag: DeliveryTag(delivery.delivery_tag),
        position,
        redelivered: delivery.redelivered,
        exchange: delivery.exchange.as_str().to_owned(),
        routing_key: delivery.routing_key.as_str().to_owned(),
        message: received(delivery.properties, delivery.data),
    }
}

/// The message of these properties, which nobody has decoded yet, and `body`; else why they are none.
pub(super) fn came(properties: &[u8], body: impl Into<Bytes>) -> Result<Message, String> {
    Ok(received(decoded(properties)?, body))
}

/// The properties that these bytes are, all of them; else why they are none.
fn decoded(bytes: &[u8]) -> Result<BasicProperties, String> {
    // Each level of nesting has its kind: what has few such bytes is not deep.
    let levels = bytes.iter().filter(|byte| matches!(byte, b'F' | b'A')).count();
    if levels <= DECODED_DEPTH {
        return parsed(bytes);
    }
    std::thread::scope(|scope| {
        let deep = std::thread::Builder::new()
            .name("deep-headers".to_owned())
            .stack_size(DECODE_STACK_BYTES)
            .spawn_scoped(scope, || parsed(bytes));
        let failed = |why: &str| Err(format!("its headers cannot be read: {why}"));
        match deep.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(decoded)) => decoded,
            Ok(Err(_)) => failed("the reader ended"),
            Err(error) => failed(&error.to_string()),
        }
    })
}

fn parsed(bytes: &[u8]) -> Result<BasicProperties, String> {
    match parse_properties(bytes) {
        Ok(([], properties)) => Ok(properties),
        Ok(_) => Err("its properties go on behind their end".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The message that came with `properties` and `body`.
pub(super) fn received(properties: BasicProperties, body: impl Into<Bytes>) -> Message {
    let text = |value: &Option<ShortString>| value.as_ref().map(|value| value.as_str().to_owned());
    let message = Message {
        content_type: text(properties.content_type()),
        content_encoding: text(properties.content_encoding()),
        transient: *properties.delivery_mode() != Some(PERSISTENT),
        priority: *properties.priority(),
        correlation_id: text(properties.correlation_id()),
        reply_to: text(properties.reply_to()),
        expiration: text(properties.expiration()),
        message_id: text(properties.message_id()),
        timestamp_s: *properties.timestamp(),
        kind: text(properties.kind()),
        user_id: text(properties.user_id()),
        app_id: text(properties.app_id()),
        cluster_id: text(properties.cluster_id()),
        headers: properties.headers().as_ref().map(headers).unwrap_or_default(),
        body: body.into(),
    };
    dispose(properties);
    message
}

/// The properties that a message is published with, or why it cannot be: `frame_max` bounds them all.
pub(super) fn published(message: &Message, frame_max: usize) -> Result<BasicProperties, String> {
    // Persistent unless it came otherwise: what is confirmed survives a restart of the broker.
    let mode = if message.transient { TRANSIENT } else { PERSISTENT };
    let mut properties = BasicProperties::default().with_delivery_mode(mode);
    if let Some(priority) = message.priority {
        properties = properties.with_priority(priority);
    }
    if let Some(seconds) = message.timestamp_s {
        properties = properties.with_timestamp(seconds);
    }
    let mut size = 256;
    for (name, text, with) in texts(message) {
        if let Some(text) = text {
            properties = with(properties, short(name, text)?);
            size += text.len() + 1;
        }
    }
    if !message.headers.is_empty() {
        size += entries_size(&message.headers);
        properties = properties.with_headers(table(&message.headers)?);
    }
    // A header frame over the limit closes the whole connection.
    if frame_max > 0 && size > frame_max {
        return Err(format!(
            "headers of {size} bytes do not fit into a frame of {frame_max}"
        ));
    }
    Ok(properties)
}

type With = fn(BasicProperties, ShortString) -> BasicProperties;

/// The properties that are short strings, with what sets them.
fn texts(message: &Message) -> [(&'static str, Option<&str>, With); 10] {
    [
        (
            "content_type",
            message.content_type.as_deref(),
            BasicProperties::with_content_type,
        ),
        (
            "content_encoding",
            message.content_encoding.as_deref(),
            BasicProperties::with_content_encoding,
        ),
        (
            "correlation_id",
            message.correlation_id.as_deref(),
            BasicProperties::with_correlation_id,
        ),
        ("reply_to", message.reply_to.as_deref(), BasicProperties::with_reply_to),
        (
            "expiration",
            message.expiration.as_deref(),
            BasicProperties::with_expiration,
        ),
        (
            "message_id",
            message.message_id.as_deref(),
            BasicProperties::with_message_id,
        ),
        ("type", message.kind.as_deref(), BasicProperties::with_type),
        ("user_id", message.user_id.as_deref(), BasicProperties::with_user_id),
        ("app_id", message.app_id.as_deref(), BasicProperties::with_app_id),
        (
            "cluster_id",
            message.cluster_id.as_deref(),
            BasicProperties::with_cluster_id,
        ),
    ]
}

fn short(what: &str, text: &str) -> Result<ShortString, String> {
    ShortString::try_new(text).map_err(|_| format!("{what} is longer than 255 bytes"))
}

fn table(entries: &[(String, HeaderValue)]) -> Result<FieldTable, String> {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert(short("header name", name)?, given(value)?);
    }
    Ok(table)
}

/// Its depth is the one that was kept, so recursion is bounded.
fn given(value: &HeaderValue) -> Result<AMQPValue, String> {
    Ok(match value {
        HeaderValue::Text(bytes) => AMQPValue::LongString(LongString::from(bytes.to_vec())),
        HeaderValue::Integer(number) => AMQPValue::LongLongInt(*number),
        HeaderValue::I8(number) => AMQPValue::ShortShortInt(*number),
        HeaderValue::U8(number) => AMQPValue::ShortShortUInt(*number),
        HeaderValue::I16(number) => AMQPValue::ShortInt(*number),
        HeaderValue::U16(number) => AMQPValue::ShortUInt(*number),
        HeaderValue::I32(number) => AMQPValue::LongInt(*number),
        HeaderValue::U32(number) => AMQPValue::LongUInt(*number),
        HeaderValue::Bool(flag) => AMQPValue::Boolean(*flag),
        HeaderValue::Float(number) => AMQPValue::Float(*number),
        HeaderValue::Double(number) => AMQPValue::Double(*number),
        HeaderValue::Decimal { scale, value } => AMQPValue::DecimalValue(DecimalValue {
            scale: *scale,
            value: *value,
        }),
        HeaderValue::Timestamp(seconds) => AMQPValue::Timestamp(*seconds),
        HeaderValue::Bytes(bytes) => AMQPValue::ByteArray(bytes.to_vec().into()),
        HeaderValue::Array(values) => {
            let values: Result<Vec<_>, _> = values.iter().map(given).collect();
            AMQPValue::FieldArray(FieldArray::from(values?))
        }
        HeaderValue::Table(entries) => AMQPValue::FieldTable(table(entries)?),
        HeaderValue::Void => AMQPValue::Void,
        HeaderValue::Other(text) => AMQPValue::LongString(LongString::from(text.as_bytes())),
    })
}

/// Bytes of a table on the wire, at most.
fn entries_size(entries: &[(String, HeaderValue)]) -> usize {
    let entry = |(name, value): &(String, HeaderValue)| name.len() + 1 + size(value);
    entries.iter().map(entry).sum()
}

fn size(value: &HeaderValue) -> usize {
    const FIXED: usize = 9;
    FIXED
        + match value {
            HeaderValue::Text(bytes) | HeaderValue::Bytes(bytes) => bytes.len(),
            HeaderValue::Other(text) => text.len(),
            HeaderValue::Array(values) => values.iter().map(size).sum(),
            HeaderValue::Table(entries) => entries_size(entries),
            HeaderValue::Integer(_)
            | HeaderValue::I8(_)
            | HeaderValue::U8(_)
            | HeaderValue::I16(_)
            | HeaderValue::U16(_)
            | HeaderValue::I32(_)
            | HeaderValue::U32(_)
            | HeaderValue::Bool(_)
            | HeaderValue::Float(_)
            | HeaderValue::Double(_)
            | HeaderValue::Decimal { .. }
            | HeaderValue::Timestamp(_)
            | HeaderValue::Void => 0,
        }
}

fn headers(table: &FieldTable) -> Vec<(String, HeaderValue)> {
    entries(table, HEADER_DEPTH_MAX)
}

fn entries(table: &FieldTable, levels: usize) -> Vec<(String, HeaderValue)> {
    table
        .into_iter()
        .map(|(name, value)| (name.as_str().to_owned(), taken(value, levels)))
        .collect()
}

/// The value as it is, as far as `levels` of nesting go.
fn taken(value: &AMQPValue, levels: usize) -> HeaderValue {
    match value {
        AMQPValue::Boolean(flag) => HeaderValue::Bool(*flag),
        AMQPValue::ShortShortInt(number) => HeaderValue::I8(*number),
        AMQPValue::ShortShortUInt(number) => HeaderValue::U8(*number),
        AMQPValue::ShortInt(number) => HeaderValue::I16(*number),
        AMQPValue::ShortUInt(number) => HeaderValue::U16(*number),
        AMQPValue::LongInt(number) => HeaderValue::I32(*number),
        AMQPValue::LongUInt(number) => HeaderValue::U32(*number),
        AMQPValue::LongLongInt(number) => HeaderValue::Integer(*number),
        AMQPValue::Float(number) => HeaderValue::Float(*number),
        AMQPValue::Double(number) => HeaderValue::Double(*number),
        AMQPValue::DecimalValue(decimal) => HeaderValue::Decimal {
            scale: decimal.scale,
            value: decimal.value,
        },
        AMQPValue::ShortString(text) => HeaderValue::text(text.as_str()),
        AMQPValue::LongString(text) => HeaderValue::Text(Bytes::copy_from_slice(text.as_bytes())),
        AMQPValue::ByteArray(bytes) => HeaderValue::Bytes(Bytes::copy_from_slice(bytes.as_slice())),
        AMQPValue::Timestamp(seconds) => HeaderValue::Timestamp(*seconds),
        AMQPValue::Void => HeaderValue::Void,
        AMQPValue::FieldArray(array) if levels > 0 => {
            HeaderValue::Array(array.as_slice().iter().map(|value| taken(value, levels - 1)).collect())
        }
        AMQPValue::FieldTable(table) if levels > 0 => HeaderValue::Table(entries(table, levels - 1)),
        AMQPValue::FieldArray(_) | AMQPValue::FieldTable(_) => HeaderValue::Other(shown(value)),
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
        AMQPValue::Boolean(flag) => write!(text, "{flag}"),
        AMQPValue::ShortShortInt(number) => write!(text, "{number}"),
        AMQPValue::ShortShortUInt(number) => write!(text, "{number}"),
        AMQPValue::ShortInt(number) => write!(text, "{number}"),
        AMQPValue::ShortUInt(number) => write!(text, "{number}"),
        AMQPValue::LongInt(number) => write!(text, "{number}"),
        AMQPValue::LongUInt(number) => write!(text, "{number}"),
        AMQPValue::LongLongInt(number) => write!(text, "{number}"),
        AMQPValue::ShortString(string) => bytes_shown(text, string.as_str().as_bytes()),
        AMQPValue::LongString(string) => bytes_shown(text, string.as_bytes()),
        AMQPValue::ByteArray(bytes) => bytes_shown(text, bytes.as_slice()),
    };
}

fn bytes_shown(text: &mut String, bytes: &[u8]) -> std::fmt::Result {
    let bytes = &bytes[..bytes.len().min(SHOWN_BYTES)];
    write!(text, "{:?}", String::from_utf8_lossy(bytes))
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

    /// Properties of which only the headers are set: a table in a table, so many times.
    fn nested(levels: usize) -> Vec<u8> {
        let mut table = Vec::new();
        for _ in 0..levels {
            let mut outer = vec![1, b'a', b'F'];
            outer.extend(u32::try_from(table.len()).unwrap().to_be_bytes());
            outer.append(&mut table);
            table = outer;
        }
        let mut bytes = vec![0x20, 0];
        bytes.extend(u32::try_from(table.len()).unwrap().to_be_bytes());
        bytes.append(&mut table);
        bytes
    }

    #[test]
    fn properties_are_decoded_on_any_stack_and_only_as_a_whole() {
        let small = std::thread::Builder::new().stack_size(2 << 20);
        let decoding = small.spawn(|| {
            for levels in [0, 10, DECODED_DEPTH, 18_000] {
                let message = received(decoded(&nested(levels)).unwrap(), Vec::new());
                assert_eq!(message.headers.len(), levels.min(1), "{levels} levels");
            }
        });
        decoding.unwrap().join().unwrap();
        assert!(decoded(b"\x80\0\x02\xff\xfe").is_err(), "no UTF-8");
        assert!(decoded(b"\0\0more").is_err(), "there is more");
        assert!(decoded(b"\x80\0\x02x").is_err(), "it is cut");
    }

    fn table_of(name: &str, value: AMQPValue) -> FieldTable {
        let mut table = FieldTable::default();
        table.insert(ShortString::from(name), value);
        table
    }

    #[test]
    fn what_is_published_is_received_equal() {
        let message = Message {
            content_type: Some("text/plain".into()),
            content_encoding: Some("gzip".into()),
            priority: Some(9),
            correlation_id: Some("c".into()),
            reply_to: Some("r".into()),
            expiration: Some("60000".into()),
            message_id: Some("7".into()),
            kind: Some("end".into()),
            timestamp_s: Some(u64::MAX),
            user_id: Some("u".into()),
            app_id: Some("a".into()),
            cluster_id: Some("k".into()),
            headers: vec![
                ("a".into(), HeaderValue::Text(Bytes::from_static(b"\xff"))),
                ("b".into(), HeaderValue::Integer(i64::MIN)),
                ("c".into(), HeaderValue::Bool(false)),
                (
                    "d".into(),
                    HeaderValue::Array(vec![HeaderValue::U8(1), HeaderValue::Void]),
                ),
                (
                    "e".into(),
                    HeaderValue::Table(vec![("f".into(), HeaderValue::Decimal { scale: 2, value: 7 })]),
                ),
            ],
            body: Bytes::from_static(b"\0"),
            transient: false,
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
            value = AMQPValue::FieldTable(table_of("k", value));
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
    fn what_is_nested_too_deeply_is_shown_and_cannot_be_sent_on() {
        let nested = |levels: usize| {
            let mut value = AMQPValue::Void;
            for _ in 0..levels {
                value = AMQPValue::FieldArray(FieldArray::from(vec![value]));
            }
            received(
                BasicProperties::default().with_headers(table_of("h", value)),
                Vec::new(),
            )
        };
        assert!(nested(HEADER_DEPTH_MAX).is_whole());
        assert!(!nested(HEADER_DEPTH_MAX + 1).is_whole());
        assert!(!nested(1000).is_whole());
    }
}
