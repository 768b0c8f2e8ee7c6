//! A broker message as data: what any AMQP client may have sent, kept leniently.
//!
//! Nothing here trusts the content; `notification` decides whether a message is one of ours.

use bytes::Bytes;

use super::time::Timestamp;

/// A header's value, reduced to what the product reads; the rest is kept as text to show.
#[derive(Clone, Debug, PartialEq)]
pub enum HeaderValue {
    /// A string of bytes (AMQP long strings are bytes, not text).
    Text(Bytes),
    /// Any integer type.
    Integer(i64),
    /// A boolean.
    Bool(bool),
    /// Anything else, rendered (bounded) for people.
    Other(String),
}

impl HeaderValue {
    /// A text value.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// The value as UTF-8 text, when it is that.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(bytes) => std::str::from_utf8(bytes).ok(),
            Self::Integer(_) | Self::Bool(_) | Self::Other(_) => None,
        }
    }
}

/// A message with the properties that the product reads or writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// MIME type of the body.
    pub content_type: Option<String>,
    /// The id given by the publisher.
    pub message_id: Option<String>,
    /// AMQP `type`.
    pub kind: Option<String>,
    /// When it was created, to the second on the wire.
    pub timestamp: Option<Timestamp>,
    /// Headers in the order received.
    pub headers: Vec<(String, HeaderValue)>,
    /// The body, byte for byte.
    pub body: Bytes,
}

impl Message {
    /// The first header of that exact name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&HeaderValue> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The first header of that exact name, when it is UTF-8 text.
    #[must_use]
    pub fn header_text(&self, name: &str) -> Option<&str> {
        self.header(name).and_then(HeaderValue::as_text)
    }
}
