//! The small names that travel between systems: checked once, then trusted.
//!
//! A value of these types is always valid; each `parse` says what is wrong and how to mend it.

use std::fmt;
use std::sync::Arc;

use super::time::Timestamp;

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct IdError {
    /// The field that is wrong.
    pub field: &'static str,
    /// What is wrong with it and what it may be.
    pub problem: String,
}

macro_rules! text_id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

text_id! {
    /// The id of a notification: 1 to 255 visible ASCII characters, the same over all its attempts.
    NotificationId
}

/// What the ids of the notifications of events begin with.
pub const EVENT_ID_PREFIX: &str = "event-";
/// What the ids of test requests begin with.
pub const TEST_ID_PREFIX: &str = "test-";

impl NotificationId {
    /// Whether it begins as an id that is made here: a publisher chooses none of these, or a receiver would take what
    /// is sent later under it for a repetition.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        [EVENT_ID_PREFIX, TEST_ID_PREFIX]
            .iter()
            .any(|prefix| self.as_str().starts_with(prefix))
    }

    /// When it was made, where redrive made it (a UUID of version 7), or something that makes ids alike.
    #[must_use]
    pub fn made_at(&self) -> Option<Timestamp> {
        let text = self.as_str();
        let is_hyphen = |at: usize| [8, 13, 18, 23].contains(&at);
        let fits = |(at, byte): (usize, u8)| {
            if is_hyphen(at) {
                byte == b'-'
            } else {
                byte.is_ascii_hexdigit()
            }
        };
        if text.len() != 36 || !text.bytes().enumerate().all(fits) || text.get(14..15) != Some("7") {
            return None;
        }
        let millis = i64::from_str_radix(&format!("{}{}", text.get(..8)?, text.get(9..13)?), 16).ok()?;
        Some(Timestamp::from_micros(millis * 1000))
    }

    /// That of a message whose name does not matter.
    #[must_use]
    pub fn unnamed() -> Self {
        Self("unnamed".into())
    }

    /// Checks `text`.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        if text.is_empty() || text.len() > 255 || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(IdError {
                field: "id",
                problem: "must be 1 to 255 visible ASCII characters without spaces".to_owned(),
            });
        }
        Ok(Self(text.into()))
    }
}

text_id! {
    /// What the notifications of one sequence belong to: 1 to 1,024 bytes without control characters.
    ExecutionId
}

impl ExecutionId {
    /// Checks `text`.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let problem = if text.is_empty() {
            "must not be empty"
        } else if text.len() > 1024 {
            "must be at most 1,024 bytes"
        } else if text.chars().any(char::is_control) {
            "must not contain control characters"
        } else {
            return Ok(Self(text.into()));
        };
        Err(IdError {
            field: "execution_id",
            problem: problem.to_owned(),
        })
    }
}

text_id! {
    /// The name of a broker queue, as the broker has it: at most 255 bytes of UTF-8, otherwise anything.
    QueueName
}

impl QueueName {
    /// Checks the only thing that the broker refuses.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        if text.is_empty() || text.len() > 255 {
            return Err(IdError {
                field: "queue",
                problem: "must be 1 to 255 bytes".to_owned(),
            });
        }
        Ok(Self(text.into()))
    }
}

impl QueueName {
    /// A name that is short enough by its form: some 51 bytes.
    pub(super) fn of_job(name: &str) -> Self {
        Self(name.into())
    }
}

text_id! {
    /// What a store is told by from every other one, also from one with the same address: a UUID, made with its schema.
    StoreId
}

impl StoreId {
    /// Checks `text`: 36 characters, lower-case hexadecimal digits and hyphens.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b) || b == b'-';
        if text.len() != 36 || !text.bytes().all(is_digit) {
            return Err(IdError {
                field: "store identity",
                problem: "must be a UUID in lower case".to_owned(),
            });
        }
        Ok(Self(text.into()))
    }
}

macro_rules! number_id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number_id! {
    /// One start of a daemon (or of any process that takes messages of a delivery queue).
    IncarnationId
}
number_id! {
    /// The fencing number of a lease: never goes back for a queue (docs/protocols.md 5).
    Epoch
}
number_id! {
    /// Raised by every change of an endpoint's state; an outcome counts only under the one it began with.
    EndpointEpoch
}
