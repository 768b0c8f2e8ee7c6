//! A message taken out as an AMQP client would have sent it: its content header frame and its body.
//!
//! For the operator who wants the bytes of a message away from the head of its queue, and for a message whose row is
//! damaged, which is taken out as far as it can be read. Properties longer than AMQP can say are cut.

use async_trait::async_trait;

use super::{failure, tables};
use crate::broker::{BrokerError, Rescued};
use crate::domain::message::{HeaderValue, Message};
use crate::sqlite::SqliteFile;

const CLASS_BASIC: u16 = 60;
const FLAG_CONTENT_TYPE: u16 = 1 << 15;
const FLAG_CONTENT_ENCODING: u16 = 1 << 14;
const FLAG_HEADERS: u16 = 1 << 13;
const FLAG_DELIVERY_MODE: u16 = 1 << 12;
const FLAG_PRIORITY: u16 = 1 << 11;
const FLAG_CORRELATION_ID: u16 = 1 << 10;
const FLAG_REPLY_TO: u16 = 1 << 9;
const FLAG_EXPIRATION: u16 = 1 << 8;
const FLAG_MESSAGE_ID: u16 = 1 << 7;
const FLAG_TIMESTAMP: u16 = 1 << 6;
const FLAG_TYPE: u16 = 1 << 5;
const FLAG_USER_ID: u16 = 1 << 4;
const FLAG_APP_ID: u16 = 1 << 3;
const FLAG_CLUSTER_ID: u16 = 1 << 2;
const TRANSIENT: u8 = 1;
const PERSISTENT: u8 = 2;

pub(super) struct RescuedRow {
    file: SqliteFile,
    queue: i64,
    id: i64,
    header_frame: Vec<u8>,
    message: Message,
}

impl RescuedRow {
    pub(super) fn new(file: SqliteFile, queue: i64, stored: tables::Stored) -> Self {
        Self {
            file,
            queue,
            id: stored.id,
            header_frame: header_frame(&stored.message),
            message: stored.message,
        }
    }
}

#[async_trait]
impl Rescued for RescuedRow {
    fn header_frame(&self) -> &[u8] {
        &self.header_frame
    }

    fn body(&self) -> &[u8] {
        &self.message.body
    }

    async fn settle(self: Box<Self>) -> Result<(), BrokerError> {
        let (queue, id) = (self.queue, self.id);
        let deleted = self
            .file
            .write(move |connection| Box::pin(tables::message_delete(connection, queue, id)))
            .await
            .map_err(failure::write("rescue"))?;
        if deleted {
            return Ok(());
        }
        Err(BrokerError::Failed {
            operation: "rescue",
            detail: "the message is no longer in its queue".to_owned(),
        })
    }

    async fn release(self: Box<Self>) {}
}

/// AMQP 0-9-1, 4.2.6.1: class, weight, body size, property flags, properties in the order of the flags.
fn header_frame(message: &Message) -> Vec<u8> {
    let mut properties = Vec::new();
    let mut flags = FLAG_HEADERS | FLAG_DELIVERY_MODE;
    let mut text = |properties: &mut Vec<u8>, flag: u16, text: &Option<String>| {
        if let Some(text) = text {
            flags |= flag;
            put_short(properties, text);
        }
    };
    text(&mut properties, FLAG_CONTENT_TYPE, &message.content_type);
    text(&mut properties, FLAG_CONTENT_ENCODING, &message.content_encoding);
    put_long(&mut properties, &table(&message.headers));
    properties.push(if message.transient { TRANSIENT } else { PERSISTENT });
    properties.extend(message.priority);
    text(&mut properties, FLAG_CORRELATION_ID, &message.correlation_id);
    text(&mut properties, FLAG_REPLY_TO, &message.reply_to);
    text(&mut properties, FLAG_EXPIRATION, &message.expiration);
    text(&mut properties, FLAG_MESSAGE_ID, &message.message_id);
    properties.extend(message.timestamp_s.into_iter().flat_map(u64::to_be_bytes));
    text(&mut properties, FLAG_TYPE, &message.kind);
    text(&mut properties, FLAG_USER_ID, &message.user_id);
    text(&mut properties, FLAG_APP_ID, &message.app_id);
    text(&mut properties, FLAG_CLUSTER_ID, &message.cluster_id);
    if message.priority.is_some() {
        flags |= FLAG_PRIORITY;
    }
    if message.timestamp_s.is_some() {
        flags |= FLAG_TIMESTAMP;
    }
    let mut frame = Vec::with_capacity(14 + properties.len());
    frame.extend(CLASS_BASIC.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend((message.body.len() as u64).to_be_bytes());
    frame.extend(flags.to_be_bytes());
    frame.extend(properties);
    frame
}

fn table(headers: &[(String, HeaderValue)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in headers {
        put_short(&mut bytes, name);
        put_value(&mut bytes, value);
    }
    bytes
}

fn put_value(bytes: &mut Vec<u8>, value: &HeaderValue) {
    match value {
        HeaderValue::Text(text) => put_kind(bytes, b'S', text),
        HeaderValue::Other(text) => put_kind(bytes, b'S', text.as_bytes()),
        HeaderValue::Bytes(value) => put_kind(bytes, b'x', value),
        HeaderValue::Table(entries) => put_kind(bytes, b'F', &table(entries)),
        HeaderValue::Array(values) => {
            let mut list = Vec::new();
            for value in values {
                put_value(&mut list, value);
            }
            put_kind(bytes, b'A', &list);
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

fn put_kind(bytes: &mut Vec<u8>, kind: u8, value: &[u8]) {
    bytes.push(kind);
    put_long(bytes, value);
}

fn put_fixed(bytes: &mut Vec<u8>, kind: u8, value: &[u8]) {
    bytes.push(kind);
    bytes.extend(value);
}

fn put_short(bytes: &mut Vec<u8>, text: &str) {
    let end = text.floor_char_boundary(usize::from(u8::MAX));
    bytes.push(u8::try_from(end).unwrap_or(u8::MAX));
    bytes.extend(&text.as_bytes()[..end]);
}

fn put_long(bytes: &mut Vec<u8>, value: &[u8]) {
    let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    bytes.extend(length.to_be_bytes());
    bytes.extend(&value[..value.len().min(length as usize)]);
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lapin::protocol::basic::AMQPProperties;

    use super::*;

    #[test]
    fn the_frame_is_one_that_an_amqp_client_reads() {
        let message = Message {
            content_type: Some("text/plain".into()),
            message_id: Some("m1".into()),
            kind: Some("notification".into()),
            correlation_id: Some("c".into()),
            priority: Some(3),
            timestamp_s: Some(7),
            headers: vec![
                ("n".into(), HeaderValue::Integer(-3)),
                ("t".into(), HeaderValue::text("ü")),
            ],
            body: Bytes::from_static(b"body"),
            ..Message::default()
        };
        let frame = header_frame(&message);
        assert_eq!(frame[..12], [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]);
        let (rest, read): (_, AMQPProperties) = lapin::protocol::basic::parse_properties(&frame[12..]).unwrap();
        assert!(rest.is_empty());
        assert_eq!(read.content_type().as_ref().unwrap().as_str(), "text/plain");
        assert_eq!(read.message_id().as_ref().unwrap().as_str(), "m1");
        assert_eq!(read.kind().as_ref().unwrap().as_str(), "notification");
        assert_eq!(read.correlation_id().as_ref().unwrap().as_str(), "c");
        assert_eq!(*read.priority(), Some(3));
        assert_eq!(*read.timestamp(), Some(7));
        assert_eq!(*read.delivery_mode(), Some(PERSISTENT));
        assert_eq!(read.headers().as_ref().unwrap().inner().len(), 2);
    }
}
