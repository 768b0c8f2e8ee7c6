//! A message taken out as an AMQP client would have sent it: its content header frame and its body.
//!
//! Nothing in these tables is undecodable, so this is for the operator who wants the bytes of a
//! message away from the head of its queue. Properties longer than AMQP can say are cut.

use async_trait::async_trait;

use super::{failure, tables};
use crate::broker::{BrokerError, Rescued};
use crate::domain::message::{HeaderValue, Message};
use crate::sqlite::SqliteFile;

const CLASS_BASIC: u16 = 60;
const FLAG_CONTENT_TYPE: u16 = 1 << 15;
const FLAG_HEADERS: u16 = 1 << 13;
const FLAG_DELIVERY_MODE: u16 = 1 << 12;
const FLAG_MESSAGE_ID: u16 = 1 << 7;
const FLAG_TIMESTAMP: u16 = 1 << 6;
const FLAG_TYPE: u16 = 1 << 5;
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
    if let Some(text) = &message.content_type {
        flags |= FLAG_CONTENT_TYPE;
        put_short(&mut properties, text);
    }
    put_long(&mut properties, &table(&message.headers));
    properties.push(PERSISTENT);
    if let Some(text) = &message.message_id {
        flags |= FLAG_MESSAGE_ID;
        put_short(&mut properties, text);
    }
    if let Some(timestamp) = message.timestamp {
        flags |= FLAG_TIMESTAMP;
        properties.extend(timestamp.seconds().to_be_bytes());
    }
    if let Some(text) = &message.kind {
        flags |= FLAG_TYPE;
        put_short(&mut properties, text);
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
        match value {
            HeaderValue::Text(text) => {
                bytes.push(b'S');
                put_long(&mut bytes, text);
            }
            HeaderValue::Integer(number) => {
                bytes.push(b'l');
                bytes.extend(number.to_be_bytes());
            }
            HeaderValue::Bool(flag) => bytes.extend([b't', u8::from(*flag)]),
            HeaderValue::Other(text) => {
                bytes.push(b'S');
                put_long(&mut bytes, text.as_bytes());
            }
        }
    }
    bytes
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
    use crate::domain::time::Timestamp;

    #[test]
    fn the_frame_is_one_that_an_amqp_client_reads() {
        let message = Message {
            content_type: Some("text/plain".into()),
            message_id: Some("m1".into()),
            kind: Some("notification".into()),
            timestamp: Some(Timestamp::from_seconds(7)),
            headers: vec![
                ("n".into(), HeaderValue::Integer(-3)),
                ("t".into(), HeaderValue::text("ü")),
            ],
            body: Bytes::from_static(b"body"),
        };
        let frame = header_frame(&message);
        assert_eq!(frame[..12], [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]);
        let (rest, read): (_, AMQPProperties) = lapin::protocol::basic::parse_properties(&frame[12..]).unwrap();
        assert!(rest.is_empty());
        assert_eq!(read.content_type().as_ref().unwrap().as_str(), "text/plain");
        assert_eq!(read.message_id().as_ref().unwrap().as_str(), "m1");
        assert_eq!(read.kind().as_ref().unwrap().as_str(), "notification");
        assert_eq!(*read.timestamp(), Some(7));
        assert_eq!(*read.delivery_mode(), Some(PERSISTENT));
        assert_eq!(read.headers().as_ref().unwrap().inner().len(), 2);
    }
}
