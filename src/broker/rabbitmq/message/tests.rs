//! What is read is what another client reads, and what is written is read.

use lapin::BasicProperties;
use lapin::protocol::basic::parse_properties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use proptest::prelude::*;

use super::*;
use crate::domain::message::arbitrary;

/// The properties as another client reads them.
fn theirs(bytes: &[u8]) -> Option<Message> {
    let (rest, read): (_, BasicProperties) = parse_properties(bytes).ok()?;
    let text = |value: &Option<ShortString>| value.as_ref().map(|value| value.as_str().to_owned());
    let message = Message {
        content_type: text(read.content_type()),
        content_encoding: text(read.content_encoding()),
        transient: *read.delivery_mode() != Some(PERSISTENT),
        priority: *read.priority(),
        correlation_id: text(read.correlation_id()),
        reply_to: text(read.reply_to()),
        expiration: text(read.expiration()),
        message_id: text(read.message_id()),
        timestamp_s: *read.timestamp(),
        kind: text(read.kind()),
        user_id: text(read.user_id()),
        app_id: text(read.app_id()),
        cluster_id: text(read.cluster_id()),
        headers: read.headers().as_ref().map(their_entries).unwrap_or_default(),
        body: Bytes::new(),
    };
    rest.is_empty().then_some(message)
}

fn their_entries(table: &FieldTable) -> Vec<(String, HeaderValue)> {
    let entry = |(name, value): (&ShortString, &AMQPValue)| (name.as_str().to_owned(), their_value(value));
    table.into_iter().map(entry).collect()
}

fn their_value(value: &AMQPValue) -> HeaderValue {
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
        AMQPValue::FieldArray(array) => HeaderValue::Array(array.as_slice().iter().map(their_value).collect()),
        AMQPValue::FieldTable(table) => HeaderValue::Table(their_entries(table)),
    }
}

fn read(bytes: &[u8]) -> Result<Message, String> {
    came(bytes, Bytes::new())
}

fn a_message() -> impl Strategy<Value = Message> {
    let text = || prop::option::of("[a-zä]{0,3}");
    let texts = (text(), text(), text(), text(), text());
    let more = (text(), text(), text(), text(), text());
    let headers = prop::collection::vec(
        ("[a-c]{0,2}", arbitrary::nested(arbitrary::plain(), "[a-c]{0,2}", 3)),
        0..4,
    );
    let numbers = (
        any::<bool>(),
        prop::option::of(any::<u8>()),
        prop::option::of(any::<u64>()),
    );
    (texts, more, headers, numbers).prop_map(|(texts, more, headers, (transient, priority, timestamp_s))| Message {
        content_type: texts.0,
        content_encoding: texts.1,
        correlation_id: texts.2,
        reply_to: texts.3,
        expiration: texts.4,
        message_id: more.0,
        kind: more.1,
        user_id: more.2,
        app_id: more.3,
        cluster_id: more.4,
        headers,
        transient,
        priority,
        timestamp_s,
        body: Bytes::new(),
    })
}

proptest! {
    #[test]
    fn messages_are_read_as_another_client_reads_them(message in a_message(), at in any::<prop::sample::Index>(), other in any::<u8>()) {
        let mut bytes = properties::of(&message);
        prop_assert_eq!(read(&bytes).ok(), theirs(&bytes));
        // And so they are where a byte of them is another one, or where they are cut.
        let at = at.index(bytes.len());
        bytes[at] = other;
        prop_assert_eq!(format!("{:?}", read(&bytes).ok()), format!("{:?}", theirs(&bytes)));
        prop_assert_eq!(format!("{:?}", read(&bytes[..at]).ok()), format!("{:?}", theirs(&bytes[..at])));
    }
}

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
fn properties_are_read_on_any_stack_and_only_as_a_whole() {
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let reading = small.spawn(|| {
        for levels in [0, 1, 10, 18_000] {
            let message = read(&nested(levels)).unwrap();
            assert_eq!(message.headers.len(), levels.min(1), "{levels} levels");
        }
    });
    reading.unwrap().join().unwrap();
    for (bytes, why) in [
        (b"\x80\0\x02\xff\xfe".as_slice(), "content type is not UTF-8"),
        (b"\0\0more", "go on behind their end"),
        (b"\x80\0\x02x", "cut"),
        (b"\x20\0\0\0\0\x03\x01aq", "unknown kind 'q'"),
        (b"\x20\0\0\0\0\x03\x01\xffV", "header's name is not UTF-8"),
        (b"", "cut"),
    ] {
        let said = read(bytes).unwrap_err();
        assert!(said.contains(why), "{bytes:?}: {said}");
    }
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
    assert_eq!(
        theirs(&properties).unwrap(),
        Message {
            body: Bytes::new(),
            ..message.clone()
        }
    );
    assert_eq!(came(&properties, message.body.clone()).unwrap(), message);
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

/// A header value in its wire form.
fn wire(value: &HeaderValue) -> Vec<u8> {
    let message = Message {
        headers: vec![("h".to_owned(), value.clone())],
        ..Message::default()
    };
    // Behind the flags, the length of the table and the name; before the delivery mode.
    let bytes = properties::of(&message);
    bytes[8..bytes.len() - 1].to_vec()
}

fn shown_of(value: &HeaderValue) -> String {
    let bytes = wire(value);
    shown(raw(&mut Arguments::after(&bytes, 0).unwrap()).unwrap()).unwrap()
}

#[test]
fn nested_values_are_shown_in_bounds() {
    let mut value = HeaderValue::I32(1);
    for _ in 0..50 {
        value = HeaderValue::Table(vec![("k".to_owned(), value)]);
    }
    assert_eq!(shown_of(&value), r#"{"k": {"k": {"k": {"k": {…}}}}}"#);
    let wide = HeaderValue::Array(vec![HeaderValue::Void; 5000]);
    assert!(shown_of(&wide).len() <= SHOWN_BYTES + 4);
    let short = HeaderValue::Array(vec![HeaderValue::Void, HeaderValue::Bool(true)]);
    assert_eq!(shown_of(&short), "[null, true]");
}

#[test]
fn what_is_nested_too_deeply_is_shown_and_cannot_be_sent_on() {
    let nested = |levels: usize| {
        let mut value = HeaderValue::Void;
        for _ in 0..levels {
            value = HeaderValue::Array(vec![value]);
        }
        let message = Message {
            headers: vec![("h".to_owned(), value)],
            ..Message::default()
        };
        read(&properties::of(&message)).unwrap()
    };
    assert!(nested(HEADER_DEPTH_MAX).is_whole());
    assert!(!nested(HEADER_DEPTH_MAX + 1).is_whole());
    assert!(!nested(500).is_whole());
}
