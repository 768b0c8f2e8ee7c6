//! A message as bytes of ours, and back: for columns, journals and hashes.
//!
//! For each entry: length of the name, name, kind, length of the value, value; lengths are 32 bits, big
//! endian. Order and repeated names are kept. A list is the same without names. Equal messages have equal
//! bytes. Reading goes no deeper than [`HEADER_DEPTH_MAX`], whatever the bytes say.

use bytes::Bytes;

use super::{HEADER_DEPTH_MAX, HeaderValue, Message};

type Headers = Vec<(String, HeaderValue)>;

const TEXT: u8 = b't';
const INTEGER: u8 = b'i';
const BOOL: u8 = b'b';
const OTHER: u8 = b'o';
const I8: u8 = b'1';
const U8: u8 = b'2';
const I16: u8 = b'3';
const U16: u8 = b'4';
const I32: u8 = b'5';
const U32: u8 = b'6';
const FLOAT: u8 = b'f';
const DOUBLE: u8 = b'd';
const DECIMAL: u8 = b'D';
const TIMESTAMP: u8 = b'T';
const BYTES: u8 = b'x';
const ARRAY: u8 = b'A';
const TABLE: u8 = b'F';
const VOID: u8 = b'V';

const HEADERS: &str = "headers";
const BODY: &str = "body";

/// What is set aside for headers at first.
const PART_BYTES: usize = 512;

/// The whole message; `None` when a part is longer than 32 bits can say.
#[must_use]
pub fn encode(message: &Message) -> Option<Vec<u8>> {
    encode_without(message, &[])
}

/// The whole message but for the headers of these names.
#[must_use]
pub fn encode_without(message: &Message, left_out: &[&str]) -> Option<Vec<u8>> {
    let mut bytes = encode_headers(&properties(message))?;
    let kept = message
        .headers
        .iter()
        .filter(|(name, _)| !left_out.contains(&name.as_str()));
    let mut headers = Vec::with_capacity(PART_BYTES);
    for (name, value) in kept {
        put(&mut headers, name.as_bytes())?;
        put_value(&mut headers, value)?;
    }
    bytes.reserve(headers.len() + message.body.len() + PART_BYTES);
    put(&mut bytes, HEADERS.as_bytes())?;
    put_kind(&mut bytes, TABLE, &headers)?;
    put(&mut bytes, BODY.as_bytes())?;
    put_kind(&mut bytes, TEXT, &message.body)?;
    Some(bytes)
}

/// The message of [`encode`]; `None` when these bytes were not written by it.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Message> {
    let mut message = Message::default();
    // One level for the entry that holds the headers.
    for (name, value) in entries(bytes, HEADER_DEPTH_MAX + 2)? {
        match (name.as_str(), value) {
            (HEADERS, HeaderValue::Table(headers)) => message.headers = headers,
            (BODY, HeaderValue::Text(body)) => message.body = body,
            (name, value) => set(&mut message, name, &value)?,
        }
    }
    Some(message)
}

/// The properties without headers and body.
#[must_use]
pub fn encode_properties(message: &Message) -> Option<Vec<u8>> {
    encode_headers(&properties(message))
}

/// Puts the properties of [`encode_properties`] into `message`; `None` when these bytes were not written by it.
#[must_use]
pub fn decode_properties(bytes: &[u8], message: &mut Message) -> Option<()> {
    for (name, value) in entries(bytes, 1)? {
        set(message, &name, &value)?;
    }
    Some(())
}

/// `None` when a name or value is longer than 32 bits can say.
#[must_use]
pub fn encode_headers(headers: &[(String, HeaderValue)]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PART_BYTES);
    for (name, value) in headers {
        put(&mut bytes, name.as_bytes())?;
        put_value(&mut bytes, value)?;
    }
    Some(bytes)
}

/// `None` when these bytes were not written by [`encode_headers`].
#[must_use]
pub fn decode_headers(bytes: &[u8]) -> Option<Headers> {
    entries(bytes, HEADER_DEPTH_MAX + 1)
}

fn properties(message: &Message) -> Headers {
    let texts = [
        ("content_type", &message.content_type),
        ("content_encoding", &message.content_encoding),
        ("correlation_id", &message.correlation_id),
        ("reply_to", &message.reply_to),
        ("expiration", &message.expiration),
        ("message_id", &message.message_id),
        ("type", &message.kind),
        ("user_id", &message.user_id),
        ("app_id", &message.app_id),
        ("cluster_id", &message.cluster_id),
    ];
    let mut entries: Headers = Vec::new();
    for (name, text) in texts {
        entries.extend(text.as_deref().map(|text| (name.to_owned(), HeaderValue::text(text))));
    }
    if message.transient {
        entries.push(("transient".to_owned(), HeaderValue::Bool(true)));
    }
    let priority = message.priority.map(HeaderValue::U8);
    entries.extend(priority.map(|value| ("priority".to_owned(), value)));
    let timestamp = message.timestamp_s.map(HeaderValue::Timestamp);
    entries.extend(timestamp.map(|value| ("timestamp".to_owned(), value)));
    entries
}

fn set(message: &mut Message, name: &str, value: &HeaderValue) -> Option<()> {
    let place = match (name, value) {
        ("transient", HeaderValue::Bool(transient)) => {
            message.transient = *transient;
            return Some(());
        }
        ("priority", HeaderValue::U8(priority)) => {
            message.priority = Some(*priority);
            return Some(());
        }
        ("timestamp", HeaderValue::Timestamp(seconds)) => {
            message.timestamp_s = Some(*seconds);
            return Some(());
        }
        ("content_type", _) => &mut message.content_type,
        ("content_encoding", _) => &mut message.content_encoding,
        ("correlation_id", _) => &mut message.correlation_id,
        ("reply_to", _) => &mut message.reply_to,
        ("expiration", _) => &mut message.expiration,
        ("message_id", _) => &mut message.message_id,
        ("type", _) => &mut message.kind,
        ("user_id", _) => &mut message.user_id,
        ("app_id", _) => &mut message.app_id,
        ("cluster_id", _) => &mut message.cluster_id,
        _ => return None,
    };
    *place = Some(value.as_text()?.to_owned());
    Some(())
}

fn put_value(bytes: &mut Vec<u8>, value: &HeaderValue) -> Option<()> {
    match value {
        HeaderValue::Text(text) => put_kind(bytes, TEXT, text),
        HeaderValue::Integer(number) => put_kind(bytes, INTEGER, &number.to_be_bytes()),
        HeaderValue::I8(number) => put_kind(bytes, I8, &number.to_be_bytes()),
        HeaderValue::U8(number) => put_kind(bytes, U8, &number.to_be_bytes()),
        HeaderValue::I16(number) => put_kind(bytes, I16, &number.to_be_bytes()),
        HeaderValue::U16(number) => put_kind(bytes, U16, &number.to_be_bytes()),
        HeaderValue::I32(number) => put_kind(bytes, I32, &number.to_be_bytes()),
        HeaderValue::U32(number) => put_kind(bytes, U32, &number.to_be_bytes()),
        HeaderValue::Bool(flag) => put_kind(bytes, BOOL, &[u8::from(*flag)]),
        HeaderValue::Float(number) => put_kind(bytes, FLOAT, &number.to_be_bytes()),
        HeaderValue::Double(number) => put_kind(bytes, DOUBLE, &number.to_be_bytes()),
        HeaderValue::Decimal { scale, value } => {
            let mut decimal = vec![*scale];
            decimal.extend(value.to_be_bytes());
            put_kind(bytes, DECIMAL, &decimal)
        }
        HeaderValue::Timestamp(seconds) => put_kind(bytes, TIMESTAMP, &seconds.to_be_bytes()),
        HeaderValue::Bytes(value) => put_kind(bytes, BYTES, value),
        HeaderValue::Array(values) => {
            let mut list = Vec::new();
            for value in values {
                put_value(&mut list, value)?;
            }
            put_kind(bytes, ARRAY, &list)
        }
        HeaderValue::Table(entries) => put_kind(bytes, TABLE, &encode_headers(entries)?),
        HeaderValue::Void => put_kind(bytes, VOID, &[]),
        HeaderValue::Other(text) => put_kind(bytes, OTHER, text.as_bytes()),
    }
}

fn put_kind(bytes: &mut Vec<u8>, kind: u8, value: &[u8]) -> Option<()> {
    bytes.push(kind);
    put(bytes, value)
}

fn put(bytes: &mut Vec<u8>, value: &[u8]) -> Option<()> {
    bytes.extend_from_slice(&u32::try_from(value.len()).ok()?.to_be_bytes());
    bytes.extend_from_slice(value);
    Some(())
}

fn entries(mut bytes: &[u8], depth: usize) -> Option<Headers> {
    let mut headers = Vec::new();
    while !bytes.is_empty() {
        let name = String::from_utf8(take(&mut bytes)?.to_vec()).ok()?;
        headers.push((name, take_value(&mut bytes, depth)?));
    }
    Some(headers)
}

fn list(mut bytes: &[u8], depth: usize) -> Option<Vec<HeaderValue>> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        values.push(take_value(&mut bytes, depth)?);
    }
    Some(values)
}

fn take_value(bytes: &mut &[u8], depth: usize) -> Option<HeaderValue> {
    let (kind, rest) = bytes.split_first()?;
    *bytes = rest;
    let value = take(bytes)?;
    let depth = depth.checked_sub(1)?;
    Some(match *kind {
        TEXT => HeaderValue::Text(Bytes::copy_from_slice(value)),
        INTEGER => HeaderValue::Integer(i64::from_be_bytes(value.try_into().ok()?)),
        I8 => HeaderValue::I8(i8::from_be_bytes(value.try_into().ok()?)),
        U8 => HeaderValue::U8(u8::from_be_bytes(value.try_into().ok()?)),
        I16 => HeaderValue::I16(i16::from_be_bytes(value.try_into().ok()?)),
        U16 => HeaderValue::U16(u16::from_be_bytes(value.try_into().ok()?)),
        I32 => HeaderValue::I32(i32::from_be_bytes(value.try_into().ok()?)),
        U32 => HeaderValue::U32(u32::from_be_bytes(value.try_into().ok()?)),
        BOOL => HeaderValue::Bool(*value.first()? != 0),
        FLOAT => HeaderValue::Float(f32::from_be_bytes(value.try_into().ok()?)),
        DOUBLE => HeaderValue::Double(f64::from_be_bytes(value.try_into().ok()?)),
        DECIMAL => HeaderValue::Decimal {
            scale: *value.first()?,
            value: u32::from_be_bytes(value.get(1..)?.try_into().ok()?),
        },
        TIMESTAMP => HeaderValue::Timestamp(u64::from_be_bytes(value.try_into().ok()?)),
        BYTES => HeaderValue::Bytes(Bytes::copy_from_slice(value)),
        ARRAY => HeaderValue::Array(list(value, depth)?),
        TABLE => HeaderValue::Table(entries(value, depth)?),
        VOID => HeaderValue::Void,
        OTHER => HeaderValue::Other(String::from_utf8(value.to_vec()).ok()?),
        _ => return None,
    })
}

fn take<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (value, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::message::arbitrary::{nested, plain};

    fn value() -> impl Strategy<Value = HeaderValue> {
        let leaf = prop_oneof![15 => plain(), 1 => any::<String>().prop_map(HeaderValue::Other)];
        nested(leaf, any::<String>(), 4)
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_the_same(
            headers in prop::collection::vec((any::<String>(), value()), 0..8),
            texts in prop::array::uniform10(any::<Option<String>>()),
            transient in any::<bool>(),
            priority in any::<Option<u8>>(),
            timestamp_s in any::<Option<u64>>(),
            body in any::<Vec<u8>>(),
        ) {
            prop_assert_eq!(decode_headers(&encode_headers(&headers).unwrap()), Some(headers.clone()));
            let [content_type, content_encoding, correlation_id, reply_to, expiration, message_id, kind, user_id, app_id, cluster_id] = texts;
            let message = Message {
                content_type, content_encoding, transient, priority, correlation_id, reply_to, expiration,
                message_id, timestamp_s, kind, user_id, app_id, cluster_id, headers, body: body.into(),
            };
            let names: Vec<String> = message.headers.iter().step_by(2).map(|(name, _)| name.clone()).collect();
            let left_out: Vec<&str> = names.iter().map(String::as_str).collect();
            let kept = message.headers.iter().filter(|(name, _)| !names.contains(name)).cloned().collect();
            prop_assert_eq!(
                decode(&encode_without(&message, &left_out).unwrap()),
                Some(message.with_headers(kept))
            );
            prop_assert_eq!(decode(&encode(&message).unwrap()), Some(message));
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes in any::<Vec<u8>>()) {
            if let Some(headers) = decode_headers(&bytes) {
                // A NaN is not equal to itself, its bytes are.
                let again = encode_headers(&headers).unwrap();
                prop_assert_eq!(encode_headers(&decode_headers(&again).unwrap()).unwrap(), again);
            }
        }
    }

    #[test]
    fn bytes_that_nest_without_end_are_refused() {
        let mut bytes = Vec::new();
        for _ in 0..1000 {
            let mut outer = vec![ARRAY];
            put(&mut outer, &bytes).unwrap();
            bytes = outer;
        }
        let mut entry = Vec::new();
        put(&mut entry, b"deep").unwrap();
        entry.extend(bytes);
        assert_eq!(decode_headers(&entry), None);
    }
}
