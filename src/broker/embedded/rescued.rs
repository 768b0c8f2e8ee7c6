//! A message taken out as an AMQP client would have sent it: its content header frame and its body.
//!
//! For the operator who wants the bytes of a message away from the head of its queue, and for a message whose row is
//! damaged, which is taken out as far as it can be read. Properties longer than AMQP can say are cut.

use async_trait::async_trait;

use super::{failure, tables};
use crate::broker::{BrokerError, Rescued, properties};
use crate::domain::message::Message;
use crate::sqlite::SqliteFile;

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

fn header_frame(message: &Message) -> Vec<u8> {
    properties::header(&properties::of(message), message.body.len())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lapin::protocol::basic::AMQPProperties;

    use super::*;
    use crate::domain::message::HeaderValue;

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
        assert_eq!(*read.delivery_mode(), Some(2));
        assert_eq!(read.headers().as_ref().unwrap().inner().len(), 2);
    }
}
