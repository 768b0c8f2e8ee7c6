//! The properties of a message as AMQP 0-9-1 writes them (4.2.6.1): what goes to a broker, and what is taken out for a
//! person.

use crate::domain::message::{HeaderValue, Message};

/// Which properties there are.
pub(super) mod flags {
    pub(in super::super) const CONTENT_TYPE: u16 = 1 << 15;
    pub(in super::super) const CONTENT_ENCODING: u16 = 1 << 14;
    pub(in super::super) const HEADERS: u16 = 1 << 13;
    pub(in super::super) const DELIVERY_MODE: u16 = 1 << 12;
    pub(in super::super) const PRIORITY: u16 = 1 << 11;
    pub(in super::super) const CORRELATION_ID: u16 = 1 << 10;
    pub(in super::super) const REPLY_TO: u16 = 1 << 9;
    pub(in super::super) const EXPIRATION: u16 = 1 << 8;
    pub(in super::super) const MESSAGE_ID: u16 = 1 << 7;
    pub(in super::super) const TIMESTAMP: u16 = 1 << 6;
    pub(in super::super) const TYPE: u16 = 1 << 5;
    pub(in super::super) const USER_ID: u16 = 1 << 4;
    pub(in super::super) const APP_ID: u16 = 1 << 3;
    pub(in super::super) const CLUSTER_ID: u16 = 1 << 2;
}

const TRANSIENT: u8 = 1;
/// A message that survives a restart of its broker.
pub(super) const PERSISTENT: u8 = 2;

const CLASS_BASIC: u16 = 60;

/// What a header frame holds: class, weight, the size of the body, and the properties in their wire form.
pub(super) fn header(properties: &[u8], body_bytes: usize) -> Vec<u8> {
    let mut header = Vec::with_capacity(12 + properties.len());
    header.extend(CLASS_BASIC.to_be_bytes());
    header.extend([0, 0]);
    header.extend((body_bytes as u64).to_be_bytes());
    header.extend(properties);
    header
}

/// Their flags, and then they themselves in the order of the flags. Texts and names of headers over 255 bytes are cut:
/// AMQP cannot say them.
pub(super) fn of(message: &Message) -> Vec<u8> {
    let mut bytes = vec![0; 2];
    let mut set = flags::DELIVERY_MODE;
    let mut text = |bytes: &mut Vec<u8>, flag: u16, text: &Option<String>| {
        if let Some(text) = text {
            set |= flag;
            put_short(bytes, text);
        }
    };
    text(&mut bytes, flags::CONTENT_TYPE, &message.content_type);
    text(&mut bytes, flags::CONTENT_ENCODING, &message.content_encoding);
    if !message.headers.is_empty() {
        put_table(&mut bytes, &message.headers);
    }
    // Persistent unless it came otherwise: what is confirmed survives a restart of the broker.
    bytes.push(if message.transient { TRANSIENT } else { PERSISTENT });
    bytes.extend(message.priority);
    text(&mut bytes, flags::CORRELATION_ID, &message.correlation_id);
    text(&mut bytes, flags::REPLY_TO, &message.reply_to);
    text(&mut bytes, flags::EXPIRATION, &message.expiration);
    text(&mut bytes, flags::MESSAGE_ID, &message.message_id);
    bytes.extend(message.timestamp_s.into_iter().flat_map(u64::to_be_bytes));
    text(&mut bytes, flags::TYPE, &message.kind);
    text(&mut bytes, flags::USER_ID, &message.user_id);
    text(&mut bytes, flags::APP_ID, &message.app_id);
    text(&mut bytes, flags::CLUSTER_ID, &message.cluster_id);
    for (flag, is_set) in [
        (flags::HEADERS, !message.headers.is_empty()),
        (flags::PRIORITY, message.priority.is_some()),
        (flags::TIMESTAMP, message.timestamp_s.is_some()),
    ] {
        set |= if is_set { flag } else { 0 };
    }
    bytes[..2].copy_from_slice(&set.to_be_bytes());
    bytes
}

fn put_table(bytes: &mut Vec<u8>, headers: &[(String, HeaderValue)]) {
    put_sized(bytes, |bytes| {
        for (name, value) in headers {
            put_short(bytes, name);
            put_value(bytes, value);
        }
    });
}

/// Its depth is that of what was kept, so recursion is bounded.
fn put_value(bytes: &mut Vec<u8>, value: &HeaderValue) {
    match value {
        HeaderValue::Text(text) => put_long(bytes, b'S', text),
        HeaderValue::Other(text) => put_long(bytes, b'S', text.as_bytes()),
        HeaderValue::Bytes(value) => put_long(bytes, b'x', value),
        HeaderValue::Table(entries) => {
            bytes.push(b'F');
            put_table(bytes, entries);
        }
        HeaderValue::Array(values) => {
            bytes.push(b'A');
            put_sized(bytes, |bytes| {
                for value in values {
                    put_value(bytes, value);
                }
            });
        }
        HeaderValue::Integer(number) => put_fixed(bytes, b'l', &number.to_be_bytes()),
        HeaderValue::I8(number) => put_fixed(bytes, b'b', &number.to_be_bytes()),
        HeaderValue::U8(number) => put_fixed(bytes, b'B', &number.to_be_bytes()),
        HeaderValue::I16(number) => put_fixed(bytes, b's', &number.to_be_bytes()),
        HeaderValue::U16(number) => put_fixed(bytes, b'u', &number.to_be_bytes()),
        HeaderValue::I32(number) => put_fixed(bytes, b'I', &number.to_be_bytes()),
        HeaderValue::U32(number) => put_fixed(bytes, b'i', &number.to_be_bytes()),
        HeaderValue::Bool(flag) => put_fixed(bytes, b't', &[u8::from(*flag)]),
        HeaderValue::Float(number) => put_fixed(bytes, b'f', &number.to_be_bytes()),
        HeaderValue::Double(number) => put_fixed(bytes, b'd', &number.to_be_bytes()),
        HeaderValue::Decimal { scale, value } => {
            put_fixed(bytes, b'D', &[*scale]);
            bytes.extend(value.to_be_bytes());
        }
        HeaderValue::Timestamp(seconds) => put_fixed(bytes, b'T', &seconds.to_be_bytes()),
        HeaderValue::Void => bytes.push(b'V'),
    }
}

fn put_fixed(bytes: &mut Vec<u8>, kind: u8, value: &[u8]) {
    bytes.push(kind);
    bytes.extend(value);
}

fn put_long(bytes: &mut Vec<u8>, kind: u8, value: &[u8]) {
    bytes.push(kind);
    put_sized(bytes, |bytes| bytes.extend(value));
}

/// What `put` writes, behind its length. No message of ours is as long as a length cannot say.
fn put_sized(bytes: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let at = bytes.len();
    bytes.extend([0; 4]);
    put(bytes);
    let length = u32::try_from(bytes.len() - at - 4).unwrap_or(u32::MAX);
    bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn put_short(bytes: &mut Vec<u8>, text: &str) {
    let end = text.floor_char_boundary(usize::from(u8::MAX));
    bytes.push(u8::try_from(end).unwrap_or(u8::MAX));
    bytes.extend(&text.as_bytes()[..end]);
}
