//! Dead letters that no queue of the broker takes, whole (docs/protocols.md 32): too large for its limits, or with
//! headers that do not fit into a frame beside what is known of the failure.
//!
//! A letter is kept under its id, which follows from its decision: whoever carries the same decision out again, after
//! a crash, changes nothing. Letters are read without their bodies, which may be as large as a broker allows.

use async_trait::async_trait;
use bytes::Bytes;

use super::StoreError;
use super::columns::{Columns, number, parsed};
use crate::domain::dead_letter::DeadLetterId;

/// A dead letter to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewStoredLetter {
    /// Its id.
    pub id: DeadLetterId,
    /// The message without its body ([`crate::domain::message::encode`]).
    pub message: Bytes,
    /// The body.
    pub body: Bytes,
}

/// A dead letter that is kept, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLetter {
    /// Its place: the later it was kept, the greater.
    pub place: u64,
    /// Its id.
    pub id: DeadLetterId,
    /// The message without its body ([`crate::domain::message::encode`]).
    pub message: Bytes,
    /// Bytes of the body.
    pub bytes: u64,
}

/// Dead letters whose home is the store.
#[async_trait]
pub trait StoredLetters: Send + Sync {
    /// Keeps a letter; false when it is kept already: then nothing changes.
    async fn stored_letter_put(&self, letter: &NewStoredLetter) -> Result<bool, StoreError>;

    /// A page in the order of their places, after `after` (exclusive), at most `limit`.
    async fn stored_letters(&self, after: Option<u64>, limit: u32) -> Result<Vec<StoredLetter>, StoreError>;

    /// One of them.
    async fn stored_letter(&self, id: &DeadLetterId) -> Result<Option<StoredLetter>, StoreError>;

    /// The body of the one at this place.
    async fn stored_letter_body(&self, place: u64) -> Result<Option<Bytes>, StoreError>;

    /// How many there are.
    async fn stored_letters_count(&self) -> Result<u64, StoreError>;

    /// Takes letters out for good; answers how many there were.
    async fn stored_letters_drop(&self, places: &[u64]) -> Result<u64, StoreError>;
}

macro_rules! stored_letter_columns {
    () => {
        "place, letter, message, bytes"
    };
}
pub(super) use stored_letter_columns;

pub(super) fn stored_letter(row: &impl Columns) -> Result<StoredLetter, sqlx::Error> {
    Ok(StoredLetter {
        place: number(row, "place")?,
        id: parsed(row, "letter", |id| DeadLetterId::parse(id).ok_or(()))?,
        message: row.bytes("message")?.unwrap_or_default().into(),
        bytes: number(row, "bytes")?,
    })
}
