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
    /// Who.
    pub actor: String,
    /// For how long it is kept; for ever (until it is dropped) without.
    pub keep_for: Option<Duration>,
    /// When (ignored when it is put).
    pub at: Timestamp,
    /// Until when it is kept (ignored when it is put).
    pub until: Option<Timestamp>,
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
    /// After this letter.
    pub after: Option<String>,
    /// At most this many.
    pub limit: u32,
}
