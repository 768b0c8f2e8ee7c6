//! Messages that are kept for a while: what was discarded, what a person edited, and the originals of that.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;

/// Messages that are kept for a while.
#[async_trait]
pub trait KeptMessages: Send + Sync {
    /// Keeps a message; one of the same letter and kind is replaced.
    async fn kept_put(&self, kept: &[KeptMessage]) -> Result<(), StoreError>;

    /// One that is kept.
    async fn kept_get(&self, letter: &str, kind: KeptKind) -> Result<Option<KeptMessage>, StoreError>;

    /// By letter, after `after` (exclusive), at most `limit`; of one run where asked.
    async fn kept_list(&self, query: &KeptQuery) -> Result<Vec<KeptMessage>, StoreError>;

    /// Forgets one.
    async fn kept_drop(&self, letter: &str, kind: KeptKind) -> Result<bool, StoreError>;
}

/// Why a message is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeptKind {
    /// It was discarded and can be restored.
    Discarded,
    /// A person edited it: what is sent instead of the original.
    Edited,
    /// The original of an edited one that was sent.
    Original,
}

impl KeptKind {
    /// As stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Discarded => "discarded",
            Self::Edited => "edited",
            Self::Original => "original",
        }
    }

    /// The kind of that word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Discarded, Self::Edited, Self::Original]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

/// A message that the store keeps for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptMessage {
    /// The dead letter's id.
    pub letter: String,
    /// Why it is kept.
    pub kind: KeptKind,
    /// Where it was.
    pub queue: QueueName,
    /// Encoded whole.
    pub message: Vec<u8>,
    /// The run that did it.
    pub run: Option<String>,
    /// Its place in that run; 0 where it has none.
    pub ordinal: u64,
    /// Who.
    pub actor: String,
    /// For how long it is kept; for ever (until it is dropped) without.
    pub keep_for: Option<Duration>,
    /// When (ignored when it is put).
    pub at: Timestamp,
    /// Until when it is kept (ignored when it is put).
    pub until: Option<Timestamp>,
}

/// Where a kept message stands among the others: in the order in which they were kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptPlace {
    /// When it was kept.
    pub at: Timestamp,
    /// Its place in the run that did it.
    pub ordinal: u64,
    /// The dead letter's id.
    pub letter: String,
}

impl KeptMessage {
    /// Its place among the others.
    #[must_use]
    pub fn place(&self) -> KeptPlace {
        KeptPlace {
            at: self.at,
            ordinal: self.ordinal,
            letter: self.letter.clone(),
        }
    }
}

/// Which kept messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptQuery {
    /// Why they are kept.
    pub kind: KeptKind,
    /// Only of this run.
    pub run: Option<String>,
    /// Only these letters; all when empty.
    pub letters: Vec<String>,
    /// After this one.
    pub after: Option<KeptPlace>,
    /// At most this many.
    pub limit: u32,
}
