//! What tells messages with one id apart (docs/protocols.md 31): a hash over everything that their publisher said.
//!
//! Ids come from publishers, who may use one twice: for another state of the same thing, or for the same message once
//! more. A head, a decision, a settled mark and a copy are therefore bound to the fingerprint too. Left out is what
//! brokers and looks change: how often a message was delivered.

use sha2::{Digest, Sha256};

use super::death::COUNTING_HEADERS;
use super::message::{HeaderValue, Message, encode_headers};

/// Half of a SHA-256 over id, type, content type, timestamp, headers and body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// The fingerprint of this message: the same at each of its deliveries.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        let mut digest = Sha256::new();
        part(
            &mut digest,
            message.message_id.as_deref().unwrap_or_default().as_bytes(),
        );
        match message.timestamp_s {
            Some(seconds) => part(&mut digest, &seconds.to_be_bytes()),
            None => part(&mut digest, b""),
        }
        content(&mut digest, message);
        let mut half = [0; 16];
        half.copy_from_slice(&digest.finalize()[..16]);
        Self(half)
    }

    /// As stored.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// What was stored; `None` when it is no fingerprint.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

/// SHA-256 over type, content type, headers and body: names a message that came without an id.
#[must_use]
pub fn content_digest(message: &Message) -> [u8; 32] {
    let mut digest = Sha256::new();
    content(&mut digest, message);
    digest.finalize().into()
}

fn content(digest: &mut Sha256, message: &Message) {
    part(digest, message.kind.as_deref().unwrap_or_default().as_bytes());
    part(digest, message.content_type.as_deref().unwrap_or_default().as_bytes());
    for (name, value) in &message.headers {
        if COUNTING_HEADERS.contains(&name.as_str()) {
            continue;
        }
        part(digest, name.as_bytes());
        match value {
            HeaderValue::Text(bytes) => part(digest, bytes),
            HeaderValue::Bool(truth) => part(digest, &[u8::from(*truth)]),
            HeaderValue::Other(text) => part(digest, text.as_bytes()),
            HeaderValue::Integer(_)
            | HeaderValue::I8(_)
            | HeaderValue::U8(_)
            | HeaderValue::I16(_)
            | HeaderValue::U16(_)
            | HeaderValue::I32(_)
            | HeaderValue::U32(_) => part(digest, &value.as_integer().unwrap_or_default().to_be_bytes()),
            HeaderValue::Float(_)
            | HeaderValue::Double(_)
            | HeaderValue::Decimal { .. }
            | HeaderValue::Timestamp(_)
            | HeaderValue::Bytes(_)
            | HeaderValue::Array(_)
            | HeaderValue::Table(_)
            | HeaderValue::Void => {
                let encoded = encode_headers(&[(String::new(), value.clone())]);
                part(digest, &encoded.unwrap_or_default());
            }
        }
    }
    part(digest, &message.body);
}

/// Bytes with their length before them, so that no two lists of parts read alike.
fn part(digest: &mut Sha256, bytes: &[u8]) {
    digest.update(bytes.len().to_be_bytes());
    digest.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        Message {
            message_id: Some("n-1".to_owned()),
            timestamp_s: Some(1_000),
            headers: vec![("a".to_owned(), HeaderValue::text("b"))],
            body: bytes::Bytes::from_static(b"body"),
            ..Message::default()
        }
    }

    #[test]
    fn everything_that_a_publisher_says_tells_messages_with_one_id_apart() {
        let one = Fingerprint::of(&message());
        let others = [
            Message {
                body: bytes::Bytes::from_static(b"other"),
                ..message()
            },
            Message {
                timestamp_s: Some(1_001),
                ..message()
            },
            Message {
                timestamp_s: None,
                ..message()
            },
            Message {
                kind: Some("end".to_owned()),
                ..message()
            },
            message().with_headers(vec![("a".to_owned(), HeaderValue::text("c"))]),
            Message {
                message_id: None,
                ..message()
            },
        ];
        for other in others {
            assert_ne!(Fingerprint::of(&other), one, "{other:?}");
        }
    }

    #[test]
    fn deliveries_of_one_message_have_one_fingerprint() {
        let mut again = message();
        for name in COUNTING_HEADERS {
            again.headers.push((name.to_owned(), HeaderValue::Integer(3)));
        }
        assert_eq!(Fingerprint::of(&again), Fingerprint::of(&message()));
        let stored = Fingerprint::of(&again);
        assert_eq!(Fingerprint::from_bytes(stored.as_bytes()), Some(stored));
        assert_eq!(Fingerprint::from_bytes(b"short"), None);
    }
}
