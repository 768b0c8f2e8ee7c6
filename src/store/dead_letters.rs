//! The index of dead letters: what was looked at in dead-letter queues, so that pages, groups and marks hold
//! still while messages have no identity of their own.
//!
//! A look at a queue holds its claim: one look at a time over all processes, with a generation that fences
//! what it writes. A claim whose holder stays silent ends by itself on the store's clock and can be taken.
//! Whoever takes messages out of such a queue (a run) holds the same claim, so that no look misses what is in
//! a hand at that moment.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use super::columns::{Columns, integer, named, number, number_optional, parsed, text, time_optional};
use crate::domain::dead_letter::{DeadLetter, DeadLetterId, Home};
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;

/// A dead-letter queue and the looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadQueue {
    /// Its name.
    pub name: QueueName,
    /// Of the newest look, begun or ended.
    pub generation: i64,
    /// Who looks, or takes messages out, at present.
    pub claimed_by: Option<String>,
    /// Messages that this look has seen so far.
    pub seen: u64,
    /// Messages that it will see, as far as was known when it began.
    pub expected: Option<u64>,
    /// When the last look ended.
    pub looked_at: Option<Timestamp>,
    /// Messages that the last whole look saw.
    pub messages: Option<u64>,
    /// How many looks there were.
    pub looks: u64,
    /// Why the last look did not succeed.
    pub problem: Option<String>,
}

/// The result of claiming a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadClaim {
    /// It is the caller's, under this generation.
    Claimed(i64),
    /// Somebody else has it.
    Busy(DeadQueue),
}

/// What ends a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLooked {
    /// Messages seen.
    pub messages: u64,
    /// Whether it saw all there were: then rows of others are removed.
    pub whole: bool,
    /// Why it did not succeed.
    pub problem: Option<String>,
}

/// A dead letter to keep, with the whole message where a look at it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadRow {
    /// The row.
    pub letter: DeadLetter,
    /// The message as bytes ([`crate::domain::message::encode`]).
    pub copy: Option<Vec<u8>>,
}

/// What dead letters are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeadSort {
    /// When they failed last, newest first.
    #[default]
    LastFailed,
    /// When they failed first, newest first.
    FirstFailed,
    /// How often they were tried, most first.
    Attempts,
    /// How often they were redriven, most first.
    Redriven,
    /// The largest first.
    Size,
    /// Their place in their queue.
    Position,
}

impl DeadSort {
    /// The expression to sort by, descending; a number in every row.
    pub(super) const fn expression(self) -> &'static str {
        match self {
            Self::LastFailed => "COALESCE(last_failed_at, 0)",
            Self::FirstFailed => "COALESCE(first_failed_at, 0)",
            Self::Attempts => "COALESCE(attempts, 0)",
            Self::Redriven => "redriven",
            Self::Size => "size_bytes",
            Self::Position => "(0 - position)",
        }
    }

    /// The value of a row, as the expression has it.
    #[must_use]
    pub fn value(self, letter: &DeadLetter) -> i64 {
        let stored = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        match self {
            Self::LastFailed => letter.last_failed_at.map_or(0, Timestamp::micros),
            Self::FirstFailed => letter.first_failed_at.map_or(0, Timestamp::micros),
            Self::Attempts => letter.attempts.map_or(0, stored),
            Self::Redriven => letter.redriven.into(),
            Self::Size => stored(letter.size_bytes),
            Self::Position => -stored(letter.position),
        }
    }
}

/// A text of a dead letter by which it can be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadText {
    /// The queue that it died in.
    Origin,
    /// Its message id.
    MessageId,
    /// Where it was to be delivered.
    Url,
    /// Of which execution it is.
    Execution,
    /// Why it died.
    Reason,
    /// The class of its last failure.
    Class,
    /// Host and path, or the origin queue.
    Place,
    /// Exact status, kind of error, or reason.
    What,
}

impl DeadText {
    pub(super) const fn column(self) -> &'static str {
        match self {
            Self::Origin => "origin",
            Self::MessageId => "message_id",
            Self::Url => "url",
            Self::Execution => "execution",
            Self::Reason => "reason",
            Self::Class => "class",
            Self::Place => "place",
            Self::What => "what",
        }
    }
}

/// Which dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadQuery {
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// Only of this group.
    pub fingerprint: Option<String>,
    /// Only those of which these are exactly that.
    pub exactly: Vec<(DeadText, String)>,
    /// In which order; equals by id.
    pub sort: DeadSort,
    /// Behind this value of the order and this id.
    pub after: Option<(i64, DeadLetterId)>,
    /// At most this many.
    pub limit: u32,
}

/// A group of dead letters that failed alike.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeadGroup {
    /// What they share.
    pub fingerprint: String,
    /// Host and path, or the origin queue.
    pub place: String,
    /// Exact status, kind of error, or reason.
    pub what: String,
    /// How many.
    pub count: u64,
    /// When the first of them failed first.
    pub first_failed_at: Option<Timestamp>,
    /// When the last of them failed last.
    pub last_failed_at: Option<Timestamp>,
    /// How many failed last since the later bound.
    pub recent: u64,
    /// How many failed last between the two bounds.
    pub before: u64,
}

/// Which groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadGroupQuery {
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// What failed since then is recent.
    pub recent_since: Timestamp,
    /// What failed since then, and is not recent, is what the recent ones are compared with.
    pub before_since: Timestamp,
    /// At most this many, the largest first.
    pub limit: u32,
}

/// The dead letters of one queue, as the looks at it saw them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadSpan {
    /// The queue; an event type for the event table.
    pub queue: QueueName,
    /// Where they live.
    pub home: Home,
    /// When the first of them failed first.
    pub first_failed_at: Option<Timestamp>,
    /// When the last of them failed last.
    pub last_failed_at: Option<Timestamp>,
}

/// How many dead letters of a queue died in the same queue first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadOrigin {
    /// The queue that they are in.
    pub queue: QueueName,
    /// The queue that they died in first (from outside).
    pub origin: String,
    /// How many.
    pub letters: u64,
}

/// Dead letters and the looks at their queues.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// Claims a queue for `hold`, when nobody else has it; makes its row where it is missing. What the same one
    /// claimed before is lost to it.
    async fn dead_claim(
        &self,
        queue: &QueueName,
        who: &str,
        expected: Option<u64>,
        hold: Duration,
    ) -> Result<DeadClaim, StoreError>;

    /// Keeps rows seen by the look of `generation` and holds its claim for `hold` from now; false when the
    /// claim is lost. With no rows it only holds.
    async fn dead_write(
        &self,
        queue: &QueueName,
        generation: i64,
        rows: &[DeadRow],
        hold: Duration,
    ) -> Result<bool, StoreError>;

    /// Ends a look and frees the claim; false when the claim was lost.
    async fn dead_finish(&self, queue: &QueueName, generation: i64, looked: &DeadLooked) -> Result<bool, StoreError>;

    /// Frees a claim without a look.
    async fn dead_free(&self, queue: &QueueName, generation: i64) -> Result<bool, StoreError>;

    /// Messages came or went by the hand of a run: what is known of a queue is old, however young the look at it is.
    async fn dead_stale(&self, queue: &QueueName) -> Result<(), StoreError>;

    /// Every queue that was looked at.
    async fn dead_queues(&self) -> Result<Vec<DeadQueue>, StoreError>;

    /// Forgets a queue that is gone, with its rows, unless somebody has its claim.
    async fn dead_queue_forget(&self, queue: &QueueName) -> Result<bool, StoreError>;

    /// A page of rows.
    async fn dead_letters(&self, query: &DeadQuery) -> Result<Vec<DeadLetter>, StoreError>;

    /// Groups, the largest first.
    async fn dead_groups(&self, query: &DeadGroupQuery) -> Result<Vec<DeadGroup>, StoreError>;

    /// Each queue that has rows, with the times of their failures.
    async fn dead_spans(&self) -> Result<Vec<DeadSpan>, StoreError>;

    /// Where the letters of the broker's queues and of the store died first: at most `limit`, those of most letters
    /// first.
    async fn dead_origins(&self, limit: u32) -> Result<Vec<DeadOrigin>, StoreError>;

    /// One row with its copy, where there is one.
    async fn dead_letter(&self, id: &DeadLetterId) -> Result<Option<DeadRow>, StoreError>;

    /// Removes rows whose messages were taken out; answers how many there were.
    async fn dead_letters_remove(&self, ids: &[DeadLetterId]) -> Result<u64, StoreError>;
}

macro_rules! dead_letter_columns {
    () => {
        "id, home, queue, position, origin, message_id, url, execution, reason, class, status, error, attempts, \
         first_failed_at, last_failed_at, expires_at, redriven, fingerprint, place, what, size_bytes, redelivered, begins"
    };
}
macro_rules! dead_queue_columns {
    () => {
        "name, generation, claimed_by, claimed_until, seen, expected, looked_at, messages, looks, problem"
    };
}
/// What a conflict with an earlier look changes.
macro_rules! dead_letter_updated {
    () => {
        "generation = excluded.generation, position = excluded.position, attempts = excluded.attempts, \
         last_failed_at = excluded.last_failed_at, expires_at = excluded.expires_at, \
         redelivered = excluded.redelivered, begins = excluded.begins, copy = COALESCE(excluded.copy, dead_letters.copy)"
    };
}
pub(super) use {dead_letter_columns, dead_letter_updated, dead_queue_columns};

pub(super) fn dead_letter(row: &impl Columns) -> Result<DeadLetter, sqlx::Error> {
    Ok(DeadLetter {
        id: parsed(row, "id", |id| DeadLetterId::parse(id).ok_or(()))?,
        home: named(row, "home", Home::from_name)?,
        queue: parsed(row, "queue", QueueName::parse)?,
        position: number(row, "position")?,
        origin: row.text("origin")?,
        message_id: row.text("message_id")?,
        url: row.text("url")?,
        execution: row.text("execution")?,
        reason: text(row, "reason")?,
        class: row.text("class")?,
        status: number_optional(row, "status")?,
        error: row.text("error")?,
        attempts: number_optional(row, "attempts")?,
        first_failed_at: time_optional(row, "first_failed_at")?,
        last_failed_at: time_optional(row, "last_failed_at")?,
        expires_at: time_optional(row, "expires_at")?,
        redriven: number(row, "redriven")?,
        fingerprint: text(row, "fingerprint")?,
        place: text(row, "place")?,
        what: text(row, "what")?,
        size_bytes: number(row, "size_bytes")?,
        redelivered: row.flag("redelivered")?,
        begins: row.text("begins")?,
        broker: None,
    })
}

/// A queue's row at `now`; a claim that ended by itself is none.
pub(super) fn dead_queue(row: &impl Columns, now: Timestamp) -> Result<DeadQueue, sqlx::Error> {
    let until = time_optional(row, "claimed_until")?;
    Ok(DeadQueue {
        name: parsed(row, "name", QueueName::parse)?,
        generation: integer(row, "generation")?,
        claimed_by: row
            .text("claimed_by")?
            .filter(|_| until.is_some_and(|until| until > now)),
        seen: number(row, "seen")?,
        expected: number_optional(row, "expected")?,
        looked_at: time_optional(row, "looked_at")?,
        messages: number_optional(row, "messages")?,
        looks: number(row, "looks")?,
        problem: row.text("problem")?,
    })
}

pub(super) fn dead_group(row: &impl Columns) -> Result<DeadGroup, sqlx::Error> {
    Ok(DeadGroup {
        fingerprint: text(row, "fingerprint")?,
        place: text(row, "place")?,
        what: text(row, "what")?,
        count: number(row, "letters")?,
        first_failed_at: time_optional(row, "first_failed_at")?,
        last_failed_at: time_optional(row, "last_failed_at")?,
        recent: number(row, "recent")?,
        before: number(row, "earlier")?,
    })
}

pub(super) fn dead_span(row: &impl Columns) -> Result<DeadSpan, sqlx::Error> {
    Ok(DeadSpan {
        queue: parsed(row, "queue", QueueName::parse)?,
        home: named(row, "home", Home::from_name)?,
        first_failed_at: time_optional(row, "first_failed_at")?,
        last_failed_at: time_optional(row, "last_failed_at")?,
    })
}

pub(super) fn dead_origin(row: &impl Columns) -> Result<DeadOrigin, sqlx::Error> {
    Ok(DeadOrigin {
        queue: parsed(row, "queue", QueueName::parse)?,
        origin: text(row, "origin")?,
        letters: number(row, "letters")?,
    })
}
