//! Messages saved from queues that expire, with what brings them back; and what the janitor last saw of such queues.
//!
//! Promises: a message is durable here before it is settled at its source. Who takes or puts back holds the save by
//! a living incarnation; what a dead one left is told from that, and taken over. The last two windows of a save that
//! broke off may still be in their queue: they are numbered, so that whoever goes on can compare.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use super::columns::{Columns, named, number, number_optional, parsed, text, time, time_optional};
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::named::named;
use crate::domain::time::Timestamp;

/// What goes within this time is counted.
pub const SOON: Duration = Duration::from_hours(1);

/// Saved messages.
#[async_trait]
pub trait Saves: Send + Sync {
    /// Begins to take the messages of a queue, unless somebody does, or did and died.
    async fn save_begin(&self, new: &NewSave) -> Result<SaveBegun, StoreError>;

    /// Keeps the next messages of a save, durably; false when it is not `owner`'s.
    async fn save_keep(&self, save: &str, owner: IncarnationId, window: &SaveWindow) -> Result<bool, StoreError>;

    /// Everything that was kept is out of its queue; a save of nothing is forgotten. False when it is not `owner`'s.
    async fn save_end(&self, save: &str, owner: IncarnationId) -> Result<bool, StoreError>;

    /// Takes a save that nobody alive works on, to put it back or to end what a dead one left.
    async fn save_take(&self, save: &str, owner: IncarnationId) -> Result<SaveTaken, StoreError>;

    /// Gives it back, as restored when nothing of it is left.
    async fn save_free(&self, save: &str, owner: IncarnationId) -> Result<(), StoreError>;

    /// One.
    async fn save_get(&self, save: &str) -> Result<Option<SaveRecord>, StoreError>;

    /// Newest first.
    async fn saves(&self, query: &SaveQuery) -> Result<Vec<SaveRecord>, StoreError>;

    /// Those that a dead one left in the middle, oldest first.
    async fn saves_left(&self, limit: u32) -> Result<Vec<SaveRecord>, StoreError>;

    /// Messages of a save in their order, behind place `after`.
    async fn saved_messages(&self, save: &str, after: Option<u64>, limit: u32)
    -> Result<Vec<SavedMessage>, StoreError>;

    /// The messages of its last two windows, in their order.
    async fn saved_last(&self, save: &str) -> Result<Vec<SavedMessage>, StoreError>;

    /// Forgets messages that were put back; false when the save is not `owner`'s.
    async fn saved_drop(&self, save: &str, owner: IncarnationId, places: &[u64]) -> Result<bool, StoreError>;
}

/// What the janitor knows of queues with a lifetime.
#[async_trait]
pub trait Lifetimes: Send + Sync {
    /// Makes `incarnation` the janitor, if nobody alive is: the number of its next sweep.
    async fn janitor_take(&self, incarnation: IncarnationId) -> Result<Option<i64>, StoreError>;

    /// Notes what a sweep saw, some hundreds at once.
    async fn lifetimes_note(&self, sweep: i64, seen: &[LifetimeRecord]) -> Result<(), StoreError>;

    /// The sweep saw all there are: those that it did not see are forgotten, and answered.
    async fn lifetimes_swept(&self, sweep: i64) -> Result<Vec<LifetimeRecord>, StoreError>;

    /// The last whole sweep.
    async fn lifetimes_sweep(&self) -> Result<Option<LifetimesSweep>, StoreError>;

    /// What is lost first comes first: those with messages by the time that is left, then the others.
    async fn lifetimes(&self, query: &LifetimeQuery) -> Result<Vec<LifetimeRecord>, StoreError>;

    /// One of them.
    async fn lifetime_get(&self, queue: &QueueName) -> Result<Option<LifetimeRecord>, StoreError>;

    /// A queue is gone, or its time begins anew: what was known of it.
    async fn lifetime_forget(&self, queue: &QueueName) -> Result<Option<LifetimeRecord>, StoreError>;

    /// `owner` is about to unbind a queue, to purge it.
    async fn unbinding_note(&self, queue: &QueueName, owner: IncarnationId) -> Result<(), StoreError>;

    /// Whether nobody took that over.
    async fn unbinding_holds(&self, queue: &QueueName, owner: IncarnationId) -> Result<bool, StoreError>;

    /// The queue is gone, or bound again.
    async fn unbinding_forget(&self, queue: &QueueName) -> Result<(), StoreError>;

    /// Queues that dead ones may have left unbound; they are `owner`'s now.
    async fn unbinding_take(&self, owner: IncarnationId, limit: u32) -> Result<Vec<QueueName>, StoreError>;
}

/// Why messages were saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum SaveCause {
    /// A person or service asked for it.
    Asked,
    /// Their queue was purged.
    Purge,
    /// Their queue was about to expire.
    Expiry,
}

named! {
    /// As stored and printed.
    SaveCause {
        Self::Asked => "save",
        Self::Purge => "purge",
        Self::Expiry => "expiry",
    }
}

impl SaveCause {
    fn parse(text: &str) -> Option<Self> {
        [Self::Asked, Self::Purge, Self::Expiry]
            .into_iter()
            .find(|cause| cause.as_str() == text)
    }
}

/// Where a save stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum SaveState {
    /// Its messages are being taken out of their queue.
    Taking,
    /// They are here and nowhere else.
    Kept,
    /// They were put back.
    Restored,
}

named! {
    /// As stored and printed.
    SaveState {
        Self::Taking => "taking",
        Self::Kept => "kept",
        Self::Restored => "restored",
    }
}

impl SaveState {
    fn parse(text: &str) -> Option<Self> {
        [Self::Taking, Self::Kept, Self::Restored]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

/// A save to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSave {
    /// Its id; ids sort by time.
    pub id: String,
    /// From where.
    pub queue: QueueName,
    /// The queue's arguments as JSON text, to declare it again with.
    pub arguments: String,
    /// Why.
    pub cause: SaveCause,
    /// Who.
    pub actor: String,
    /// Why, in the actor's words.
    pub reason: Option<String>,
    /// For how long it is kept.
    pub keep_for: Duration,
    /// Who works on it.
    pub owner: IncarnationId,
}

/// The result of beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaveBegun {
    /// It is begun.
    Begun,
    /// Somebody alive takes the messages of that queue.
    Busy,
    /// Somebody who died left this one in the middle: it has to be ended first.
    Left(String),
}

/// The result of taking a save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaveTaken {
    /// It is the caller's.
    Taken(Box<SaveRecord>),
    /// Somebody alive works on it.
    Busy,
    /// There is none of that id.
    Missing,
}

/// Messages that are kept in one transaction, before they are settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaveWindow {
    /// Counts from 0.
    pub number: u64,
    /// The messages.
    pub messages: Vec<SavedMessage>,
}

/// A saved message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedMessage {
    /// Its place in its queue, from 0.
    pub place: u64,
    /// With which others it was settled.
    pub window: u64,
    /// Encoded whole.
    pub message: Vec<u8>,
    /// Bytes of its body.
    pub bytes: u64,
    /// The exchange that it came through; empty for the default one.
    pub exchange: String,
    /// The key that it came with.
    pub routing_key: String,
}

/// A save.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SaveRecord {
    /// Its id.
    pub id: String,
    /// From where.
    pub queue: QueueName,
    /// The queue's arguments as JSON text.
    pub arguments: String,
    /// Why.
    pub cause: SaveCause,
    /// Where it stands.
    pub state: SaveState,
    /// Who.
    pub actor: String,
    /// Why, in the actor's words.
    pub reason: Option<String>,
    /// Messages that were saved.
    pub messages: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Messages that are still here.
    pub left: u64,
    /// When.
    pub at: Timestamp,
    /// Until when they are kept.
    pub until: Timestamp,
}

/// Which saves.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SaveQuery {
    /// Before this id.
    pub before: Option<String>,
    /// Only from this queue.
    pub queue: Option<QueueName>,
    /// At most this many.
    pub limit: u32,
}

/// A queue with a lifetime as it was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifetimeRecord {
    /// Its name.
    pub name: QueueName,
    /// Whether it is a quorum queue.
    pub quorum: bool,
    /// How long it lives unused; `None`: for ever.
    pub lifetime_ms: Option<u64>,
    /// The lifetime that it was declared with.
    pub argument_ms: Option<u64>,
    /// Whether an operator policy says its lifetime.
    pub by_operator: bool,
    /// Consumers.
    pub consumers: Option<u64>,
    /// Messages in it.
    pub messages: Option<u64>,
    /// Bytes of them.
    pub bytes: Option<u64>,
    /// Since when nobody uses it.
    pub unused_since: Option<Timestamp>,
    /// When it goes.
    pub expires_at: Option<Timestamp>,
    /// When it was seen.
    pub seen_at: Timestamp,
}

/// Which queues with a lifetime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LifetimeQuery {
    /// Where to begin.
    pub offset: u64,
    /// At most this many.
    pub limit: u32,
}

/// A whole sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifetimesSweep {
    /// When it ended.
    pub at: Timestamp,
    /// Queues that it saw.
    pub queues: u64,
    /// Of those, the ones that go within an hour with messages in them.
    pub soon: u64,
    /// The messages in them.
    pub soon_messages: u64,
}

macro_rules! save_columns {
    () => {
        "s.id, s.queue, s.arguments, s.cause, s.state, s.actor, s.reason, s.messages, s.bytes, s.at, s.until"
    };
}
macro_rules! saved_columns {
    () => {
        "place, win, message, bytes, exchange, routing_key"
    };
}
macro_rules! lifetime_columns {
    () => {
        "name, quorum, lifetime_ms, argument_ms, by_operator, consumers, messages, bytes, unused_since, expires_at, \
         seen_at"
    };
}
/// What is lost first comes first.
macro_rules! lifetime_order {
    () => {
        "expires_at IS NULL, COALESCE(messages = 0, false), expires_at, name"
    };
}
pub(super) use {lifetime_columns, lifetime_order, save_columns, saved_columns};

/// A row of [`save_columns`] with the number of messages that are left.
pub(super) fn save_record(row: &impl Columns) -> Result<SaveRecord, sqlx::Error> {
    Ok(SaveRecord {
        id: text(row, "id")?,
        queue: parsed(row, "queue", QueueName::parse)?,
        arguments: text(row, "arguments")?,
        cause: named(row, "cause", SaveCause::parse)?,
        state: named(row, "state", SaveState::parse)?,
        actor: text(row, "actor")?,
        reason: row.text("reason")?,
        messages: number(row, "messages")?,
        bytes: number(row, "bytes")?,
        left: number(row, "remaining")?,
        at: time(row, "at")?,
        until: time(row, "until")?,
    })
}

pub(super) fn saved_message(row: &impl Columns) -> Result<SavedMessage, sqlx::Error> {
    Ok(SavedMessage {
        place: number(row, "place")?,
        window: number(row, "win")?,
        message: row.bytes("message")?.unwrap_or_default(),
        bytes: number(row, "bytes")?,
        exchange: text(row, "exchange")?,
        routing_key: text(row, "routing_key")?,
    })
}

pub(super) fn unbinding(row: &impl Columns) -> Result<QueueName, sqlx::Error> {
    parsed(row, "queue", QueueName::parse)
}

pub(super) fn lifetime_record(row: &impl Columns) -> Result<LifetimeRecord, sqlx::Error> {
    Ok(LifetimeRecord {
        name: parsed(row, "name", QueueName::parse)?,
        quorum: row.flag("quorum")?,
        lifetime_ms: number_optional(row, "lifetime_ms")?,
        argument_ms: number_optional(row, "argument_ms")?,
        by_operator: row.flag("by_operator")?,
        consumers: number_optional(row, "consumers")?,
        messages: number_optional(row, "messages")?,
        bytes: number_optional(row, "bytes")?,
        unused_since: time_optional(row, "unused_since")?,
        expires_at: time_optional(row, "expires_at")?,
        seen_at: time(row, "seen_at")?,
    })
}

/// The row of a whole sweep; none before the first.
pub(super) fn lifetimes_sweep(row: &impl Columns) -> Result<Option<LifetimesSweep>, sqlx::Error> {
    let Some(at) = time_optional(row, "swept_at")? else {
        return Ok(None);
    };
    Ok(Some(LifetimesSweep {
        at,
        queues: number(row, "queues")?,
        soon: number(row, "soon")?,
        soon_messages: number(row, "soon_messages")?,
    }))
}
