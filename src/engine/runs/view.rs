//! Runs and edited dead letters, for people.

use std::time::Duration;

use bytes::Bytes;

use super::json_patch::JsonPatch;
use crate::domain::as_text;
use crate::domain::id::QueueName;
use crate::domain::message::Message;
use crate::domain::run::{Phase, RunCounts, RunState};
use crate::domain::time::Timestamp;
use crate::store::{ItemRecord, RunRecord};

/// A run, for people.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RunView {
    /// As it is in the store.
    pub record: RunRecord,
    /// How long it still takes, as far as one can tell.
    pub eta: Option<Duration>,
    /// Name of the incarnation that works on it.
    pub owner: Option<String>,
    /// When this was read (store clock).
    pub taken_at: Timestamp,
}

impl RunView {
    /// Where it stands.
    #[must_use]
    pub const fn state(&self) -> RunState {
        self.record.state
    }

    /// What it does.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let ago = self.taken_at.since(self.record.updated_at);
        Phase::of(self.record.state, self.record.note.as_deref(), ago)
    }

    /// Outcomes so far.
    #[must_use]
    pub const fn counts(&self) -> RunCounts {
        self.record.counts
    }
}

/// A run with a page of its items.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RunDetail {
    /// The run.
    pub run: RunView,
    /// Its items, in their order.
    pub items: Vec<ItemRecord>,
    /// Where the next page begins.
    pub next_after: Option<u64>,
}

/// What becomes of a dead letter's message.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Edit {
    /// The new body.
    #[serde(rename = "body_base64", default, with = "as_text::maybe_bytes")]
    pub body: Option<Bytes>,
    /// The new content type.
    pub content_type: Option<String>,
    /// Headers that are set, or removed.
    pub headers: Vec<(String, Option<String>)>,
}

/// What is changed in each of many dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Patch {
    /// In its body, which has to be JSON then.
    pub operations: Option<JsonPatch>,
    /// The new content type.
    pub content_type: Option<String>,
    /// Headers that are set, or removed.
    pub headers: Vec<(String, Option<String>)>,
}

/// A dead letter as it will be sent.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EditedLetter {
    /// Its id.
    pub id: String,
    /// Where it is.
    pub queue: QueueName,
    /// As it is.
    pub original: Message,
    /// As it would be sent until now: as it is, or as somebody edited it.
    pub before: Message,
    /// As it will be sent.
    pub edited: Message,
}
