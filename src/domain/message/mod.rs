//! A broker message as data: what any AMQP client may have sent, kept so that it can be sent on unchanged.
//!
//! Nothing here trusts the content; `notification` decides whether a message is one of ours. Left out: the
//! order of headers on the wire (AMQP tables have none) and the difference between no headers and an empty
//! table.

#[cfg(test)]
pub(crate) mod arbitrary;
mod codec;
mod shown;

use std::str::FromStr;

use bytes::Bytes;

use super::as_text;
use super::time::Timestamp;

pub use codec::{decode, decode_headers, decode_properties, encode, encode_headers, encode_properties, encode_without};

/// Levels of nesting that are kept of a header's value; what is deeper becomes [`HeaderValue::Other`].
pub const HEADER_DEPTH_MAX: usize = 32;

/// A header's value with its AMQP type.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum HeaderValue {
    /// A string of bytes (AMQP long strings are bytes, not text).
    Text(#[serde(with = "as_text::mostly_text")] Bytes),
    /// 64 bits, signed.
    Integer(i64),
    /// 8 bits, signed.
    I8(i8),
    /// 8 bits.
    U8(u8),
    /// 16 bits, signed.
    I16(i16),
    /// 16 bits.
    U16(u16),
    /// 32 bits, signed.
    I32(i32),
    /// 32 bits.
    U32(u32),
    /// A boolean.
    Bool(bool),
    /// 32 bits, floating.
    Float(f32),
    /// 64 bits, floating.
    Double(f64),
    /// `value / 10^scale`.
    Decimal {
        /// Digits after the point.
        scale: u8,
        /// All digits.
        value: u32,
    },
    /// Seconds since the Unix epoch, as sent: any 64 bits.
    Timestamp(u64),
    /// A byte array, which only RabbitMQ has.
    Bytes(#[serde(with = "as_text::mostly_text")] Bytes),
    /// A list.
    Array(Vec<HeaderValue>),
    /// A nested table.
    Table(#[serde(with = "as_text::headers")] Vec<(String, HeaderValue)>),
    /// Nothing.
    Void,
    /// Nested too deeply to be kept: rendered (bounded) for people. It cannot be sent on as it was.
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
        self.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The bytes of a string or byte array.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&Bytes> {
        if let Self::Text(bytes) | Self::Bytes(bytes) = self {
            Some(bytes)
        } else {
            None
        }
    }

    /// The value of any integer type.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::I8(number) => Some(i64::from(*number)),
            Self::U8(number) => Some(i64::from(*number)),
            Self::I16(number) => Some(i64::from(*number)),
            Self::U16(number) => Some(i64::from(*number)),
            Self::I32(number) => Some(i64::from(*number)),
            Self::U32(number) => Some(i64::from(*number)),
            Self::Text(_)
            | Self::Bool(_)
            | Self::Float(_)
            | Self::Double(_)
            | Self::Decimal { .. }
            | Self::Timestamp(_)
            | Self::Bytes(_)
            | Self::Array(_)
            | Self::Table(_)
            | Self::Void
            | Self::Other(_) => None,
        }
    }

    /// What a text says as a value of this kind. Refused, with the kind, where it says none: a receiver that expects a
    /// number would fail on a text.
    ///
    /// # Errors
    /// What this is, for people.
    pub fn of_this_kind(&self, text: &str) -> Result<Self, &'static str> {
        fn parsed<T: FromStr>(
            text: &str,
            of: fn(T) -> HeaderValue,
            what: &'static str,
        ) -> Result<HeaderValue, &'static str> {
            text.parse().map(of).map_err(|_| what)
        }
        match self {
            Self::Text(_) | Self::Void => Ok(Self::text(text)),
            Self::Bytes(_) => Ok(Self::Bytes(Bytes::copy_from_slice(text.as_bytes()))),
            Self::Integer(_) => parsed(text, Self::Integer, "an integer of 64 bits"),
            Self::I8(_) => parsed(text, Self::I8, "an integer of 8 bits"),
            Self::U8(_) => parsed(text, Self::U8, "an unsigned integer of 8 bits"),
            Self::I16(_) => parsed(text, Self::I16, "an integer of 16 bits"),
            Self::U16(_) => parsed(text, Self::U16, "an unsigned integer of 16 bits"),
            Self::I32(_) => parsed(text, Self::I32, "an integer of 32 bits"),
            Self::U32(_) => parsed(text, Self::U32, "an unsigned integer of 32 bits"),
            Self::Bool(_) => parsed(text, Self::Bool, "true or false"),
            Self::Float(_) => parsed(text, Self::Float, "a number"),
            Self::Double(_) => parsed(text, Self::Double, "a number"),
            Self::Timestamp(_) => parsed(text, Self::Timestamp, "a time, in seconds since 1970"),
            Self::Decimal { .. } => Err("a decimal, which cannot be written"),
            Self::Array(_) => Err("a list, which cannot be written"),
            Self::Table(_) => Err("a table, which cannot be written"),
            Self::Other(_) => Err("nested too deeply to be written"),
        }
    }

    /// The elements of a list.
    #[must_use]
    pub fn as_array(&self) -> Option<&[HeaderValue]> {
        if let Self::Array(values) = self {
            Some(values)
        } else {
            None
        }
    }

    /// The entries of a table.
    #[must_use]
    pub fn as_table(&self) -> Option<&[(String, HeaderValue)]> {
        if let Self::Table(entries) = self {
            Some(entries)
        } else {
            None
        }
    }

    /// What is directly in it; the values of an array have empty names.
    pub fn inside(&self) -> impl Iterator<Item = (&str, &Self)> {
        let (values, entries): (&[Self], &[(String, Self)]) = match self {
            Self::Array(values) => (values, &[]),
            Self::Table(entries) => (&[], entries),
            Self::Text(_)
            | Self::Integer(_)
            | Self::I8(_)
            | Self::U8(_)
            | Self::I16(_)
            | Self::U16(_)
            | Self::I32(_)
            | Self::U32(_)
            | Self::Bool(_)
            | Self::Float(_)
            | Self::Double(_)
            | Self::Decimal { .. }
            | Self::Timestamp(_)
            | Self::Bytes(_)
            | Self::Void
            | Self::Other(_) => (&[], &[]),
        };
        let named = entries.iter().map(|(name, value)| (name.as_str(), value));
        values.iter().map(|value| ("", value)).chain(named)
    }

    /// Whether nothing of it was cut when it was read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !matches!(self, Self::Other(_)) && self.inside().all(|(_, value)| value.is_whole())
    }
}

/// A message with all its properties.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Message {
    /// MIME type of the body.
    pub content_type: Option<String>,
    /// Encoding of the body: `gzip`, …
    pub content_encoding: Option<String>,
    /// Not persistent: lost with a restart of the broker. What came without a delivery mode is that too.
    pub transient: bool,
    /// Priority.
    pub priority: Option<u8>,
    /// What this answers.
    pub correlation_id: Option<String>,
    /// Where an answer goes.
    pub reply_to: Option<String>,
    /// Time to live in milliseconds, as text.
    pub expiration: Option<String>,
    /// The id given by the publisher.
    pub message_id: Option<String>,
    /// When it was created, in seconds since the Unix epoch, as sent: any 64 bits.
    pub timestamp_s: Option<u64>,
    /// AMQP `type`.
    pub kind: Option<String>,
    /// The user who published it: the broker refuses a publish in another user's name.
    pub user_id: Option<String>,
    /// The publishing application.
    pub app_id: Option<String>,
    /// A deprecated property of AMQP, kept as it came.
    pub cluster_id: Option<String>,
    /// Headers in the order received.
    #[serde(with = "as_text::headers")]
    pub headers: Vec<(String, HeaderValue)>,
    /// The body, byte for byte.
    #[serde(rename = "body_base64", with = "as_text::bytes")]
    pub body: Bytes,
}

impl Message {
    /// The same with other headers: those that it has, which may be large, are not copied first.
    #[must_use]
    pub fn with_headers(&self, headers: Vec<(String, HeaderValue)>) -> Self {
        Self {
            content_type: self.content_type.clone(),
            content_encoding: self.content_encoding.clone(),
            transient: self.transient,
            priority: self.priority,
            correlation_id: self.correlation_id.clone(),
            reply_to: self.reply_to.clone(),
            expiration: self.expiration.clone(),
            message_id: self.message_id.clone(),
            timestamp_s: self.timestamp_s,
            kind: self.kind.clone(),
            user_id: self.user_id.clone(),
            app_id: self.app_id.clone(),
            cluster_id: self.cluster_id.clone(),
            headers,
            body: self.body.clone(),
        }
    }

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

    /// The first header of that exact name, when it is an integer of any width.
    #[must_use]
    pub fn header_integer(&self, name: &str) -> Option<i64> {
        self.header(name).and_then(HeaderValue::as_integer)
    }

    /// When its publisher says that it was created; the end of time for what is past it.
    #[must_use]
    pub fn created_at(&self) -> Option<Timestamp> {
        let seconds = |seconds: u64| Timestamp::from_seconds(i64::try_from(seconds).unwrap_or(i64::MAX));
        self.timestamp_s.map(seconds)
    }

    /// Whether it can be sent on unchanged: nothing of its headers was cut when it was read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.headers.iter().all(|(_, value)| value.is_whole())
    }
}

/// A point in time as the property `timestamp` has it; what is before 1970 becomes 1970.
#[must_use]
pub fn timestamp_s(at: Timestamp) -> u64 {
    u64::try_from(at.seconds()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_a_value_of_the_kind_that_was_there() {
        for (was, text, becomes) in [
            (HeaderValue::I32(5), "7", HeaderValue::I32(7)),
            (HeaderValue::U8(5), "255", HeaderValue::U8(255)),
            (HeaderValue::Bool(true), "false", HeaderValue::Bool(false)),
            (HeaderValue::Double(1.5), "2.25", HeaderValue::Double(2.25)),
            (HeaderValue::Timestamp(5), "6", HeaderValue::Timestamp(6)),
            (
                HeaderValue::Bytes(Bytes::new()),
                "a",
                HeaderValue::Bytes(Bytes::from_static(b"a")),
            ),
            (HeaderValue::text("a"), "7", HeaderValue::text("7")),
            (HeaderValue::Void, "7", HeaderValue::text("7")),
        ] {
            assert_eq!(was.of_this_kind(text), Ok(becomes), "{was:?}");
        }
        for (was, text) in [
            (HeaderValue::I32(5), "yes"),
            (HeaderValue::U8(5), "256"),
            (HeaderValue::Bool(true), "1"),
            (HeaderValue::Array(Vec::new()), "[]"),
        ] {
            assert!(was.of_this_kind(text).is_err(), "{was:?}");
        }
    }
}
