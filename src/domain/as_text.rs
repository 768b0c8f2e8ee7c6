//! How data of the domain is written where it goes to another process of redrive: names as their text, bytes in base64.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::event::{EventType, Reference};
use super::id::{ExecutionId, NotificationId, QueueName};
use super::url::EndpointUrl;

/// Types that are a checked text.
macro_rules! as_text {
    ($($type:ty),+ $(,)?) => {
        $(
            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str(self.as_str())
                }
            }

            impl<'de> Deserialize<'de> for $type {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    let text = Cow::<str>::deserialize(deserializer)?;
                    Self::parse(&text).map_err(de::Error::custom)
                }
            }
        )+
    };
}

as_text!(
    EndpointUrl,
    EventType,
    ExecutionId,
    NotificationId,
    QueueName,
    Reference
);

/// A word that the program itself has. `serde` would borrow what is written as `&str`, and this outlives what it is read
/// from.
pub type Word = &'static str;

/// Words that the program itself has: the same few in every process.
pub mod word {
    use super::{BTreeSet, Cow, Deserialize, Deserializer, Mutex, PoisonError, de};

    /// More than there are.
    const WORDS_MAX: usize = 1_000;
    const WORD_BYTES_MAX: usize = 200;
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

    /// A word that is kept for as long as the process lives; a sender of too many is refused.
    ///
    /// # Errors
    /// It is no text, too long, or one too many.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(word) = known.get(&*text) {
            return Ok(word);
        }
        if known.len() >= WORDS_MAX || text.len() > WORD_BYTES_MAX {
            return Err(de::Error::custom("it has words that this program does not know"));
        }
        let word: &'static str = Box::leak(text.into_owned().into_boxed_str());
        known.insert(word);
        Ok(word)
    }
}

/// Bytes that are mostly text: as text where they are, else in base64. What hides values in documents can look into them.
pub mod mostly_text {
    use ::bytes::Bytes;
    use serde::Serialize as _;

    use super::{Deserialize, Deserializer, Serializer};

    #[derive(serde::Serialize, Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Other {
            #[serde(with = "super::bytes")]
            base64: Bytes,
        },
    }

    /// As text, or as an object with base64.
    ///
    /// # Errors
    /// Those of the serialiser.
    pub fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Written::Other { base64: bytes.clone() }.serialize(serializer),
        }
    }

    /// Of either.
    ///
    /// # Errors
    /// It is neither.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        Ok(match Written::deserialize(deserializer)? {
            Written::Text(text) => Bytes::from(text),
            Written::Other { base64 } => base64,
        })
    }
}

/// Headers, each with the keys `name` and `value`. A value that was hidden on the way is a text.
pub mod headers {
    use serde::Serialize as _;

    use super::super::message::HeaderValue;
    use super::{Deserialize, Deserializer, Serializer};

    #[derive(serde::Serialize)]
    struct Given<'a> {
        name: &'a str,
        value: &'a HeaderValue,
    }

    #[derive(Deserialize)]
    struct Taken {
        name: String,
        value: Shown,
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Shown {
        Whole(HeaderValue),
        Hidden(String),
    }

    /// As a list.
    ///
    /// # Errors
    /// Those of the serialiser.
    pub fn serialize<S: Serializer>(headers: &[(String, HeaderValue)], serializer: S) -> Result<S::Ok, S::Error> {
        let given: Vec<Given<'_>> = headers.iter().map(|(name, value)| Given { name, value }).collect();
        given.serialize(serializer)
    }

    /// Of such a list.
    ///
    /// # Errors
    /// It is none.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, HeaderValue)>, D::Error> {
        let taken: Vec<Taken> = Vec::deserialize(deserializer)?;
        let header = |one: Taken| match one.value {
            Shown::Whole(value) => (one.name, value),
            Shown::Hidden(text) => (one.name, HeaderValue::text(&text)),
        };
        Ok(taken.into_iter().map(header).collect())
    }
}

/// Bytes that may not be there, in base64.
pub mod maybe_bytes {
    use ::bytes::Bytes;
    use serde::Serialize as _;

    use super::{Deserialize, Deserializer, Serializer};

    #[derive(serde::Serialize, Deserialize)]
    struct There(#[serde(with = "super::bytes")] Bytes);

    /// As text, or nothing.
    ///
    /// # Errors
    /// Those of the serialiser.
    pub fn serialize<S: Serializer>(bytes: &Option<impl AsRef<[u8]>>, serializer: S) -> Result<S::Ok, S::Error> {
        let there = bytes
            .as_ref()
            .map(|bytes| There(Bytes::copy_from_slice(bytes.as_ref())));
        there.serialize(serializer)
    }

    /// Of either.
    ///
    /// # Errors
    /// It is no base64.
    pub fn deserialize<'de, D: Deserializer<'de>, B: From<Bytes>>(deserializer: D) -> Result<Option<B>, D::Error> {
        let there: Option<There> = Option::deserialize(deserializer)?;
        Ok(there.map(|there| B::from(there.0)))
    }
}

/// Bytes, in base64.
pub mod bytes {
    use ::bytes::Bytes;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::{Cow, Deserialize, Deserializer, Serializer, de};

    /// As text.
    ///
    /// # Errors
    /// Those of the serialiser.
    pub fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    /// Of such a text.
    ///
    /// # Errors
    /// It is no base64.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        STANDARD.decode(&*text).map(Bytes::from).map_err(de::Error::custom)
    }
}
