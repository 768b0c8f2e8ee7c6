//! What a filter may name of attempts, and such a filter in a process that others ask.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::paging::LIMIT_MAX;
use super::sieve::{self, Question, Sieve};
use super::view::{AttemptView, Page};
use super::{Engine, EngineError};
use crate::ambient::Clock;
use crate::domain::attempt::Attempt;
use crate::domain::filter::{Field, FieldKind, FieldValue, Fields, Filter, TooLarge};
use crate::domain::outcome::OutcomeClass;
use crate::domain::time::Timestamp;

/// The fields that a filter over attempts may name. `outcome` is what an attempt amounts to, `number` its number among
/// those of its message, `took` how long it lasted, `age` the time since it began, `counted` whether it counts against the
/// schedule.
pub const ATTEMPT_FIELDS: &[Field] = &[
    Field::new("outcome", FieldKind::Word(&OUTCOMES)),
    Field::new("status", FieldKind::Number),
    Field::new("number", FieldKind::Number),
    Field::new("took", FieldKind::Duration),
    Field::new("age", FieldKind::Duration),
    Field::new("queue", FieldKind::Text),
    Field::new("url", FieldKind::Text),
    Field::new("message", FieldKind::Text),
    Field::new("error", FieldKind::Text),
    Field::new("response", FieldKind::Text),
    Field::new("counted", FieldKind::Bool),
];

const OUTCOMES: [&str; OutcomeClass::ALL.len()] = {
    let mut names = [""; OutcomeClass::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = OutcomeClass::ALL[at].as_str();
        at += 1;
    }
    names
};

/// A filter over attempts.
#[derive(Clone, Debug)]
pub struct AttemptFilter(Filter);

impl AttemptFilter {
    /// Reads an expression over [`ATTEMPT_FIELDS`].
    ///
    /// # Errors
    /// The place where it is wrong, and what was expected there.
    pub fn parse(source: &str) -> Result<Self, EngineError> {
        sieve::read(source, ATTEMPT_FIELDS).map(Self)
    }

    /// Whether an attempt fits, as seen at `now`: for the process of whoever wrote the filter. What others sent is an
    /// [`AttemptSieve`].
    #[must_use]
    pub fn fits(&self, attempt: &Attempt, now: Timestamp) -> bool {
        self.0.matches(&AtMoment { attempt, now })
    }
}

/// A filter over attempts that somebody sent to this process: it computes within the bounds of all such filters, and
/// compares what whoever made it may see.
#[derive(Debug)]
pub struct AttemptSieve {
    sieve: Sieve,
    clock: Clock,
    /// When it was asked last, as uptime.
    asked_at: Duration,
    /// Of a stream, for as long as it is open.
    _turn: Option<OwnedSemaphorePermit>,
}

impl AttemptSieve {
    /// Of whom this is called for.
    #[must_use]
    pub fn new(filter: AttemptFilter, engine: &Engine) -> Self {
        let core = &engine.0.core;
        Self {
            sieve: core.sieve(Some(filter.0)),
            clock: core.clock.clone(),
            asked_at: core.clock.uptime(),
            _turn: None,
        }
    }

    /// The same for a stream.
    ///
    /// # Errors
    /// There are too many streams with a filter.
    pub fn of_stream(filter: AttemptFilter, engine: &Engine) -> Result<Self, EngineError> {
        let streams = Arc::clone(&engine.0.core.sieves.streams);
        let turn = streams.try_acquire_owned().map_err(|_| EngineError::Busy {
            why: "as many streams with a filter are open as there may be".to_owned(),
        })?;
        Ok(Self {
            _turn: Some(turn),
            ..Self::new(filter, engine)
        })
    }

    /// The attempts that fit, as seen at `now`.
    ///
    /// # Errors
    /// The filter computes for too long, or those of others do.
    pub async fn keep(&mut self, attempts: Vec<AttemptView>, now: Timestamp) -> Result<Vec<AttemptView>, EngineError> {
        self.sieve.keep(attempts, is_in(now)).await
    }

    /// Whether an attempt that just came fits; it may compute for longer, the longer it is asked.
    ///
    /// # Errors
    /// As above.
    pub async fn has(&mut self, attempt: &Attempt, now: Timestamp) -> Result<bool, EngineError> {
        let asked_at = self.clock.uptime();
        self.sieve.refill(asked_at.saturating_sub(self.asked_at));
        self.asked_at = asked_at;
        let marks = self.sieve.ask(std::slice::from_ref(attempt), is_in(now)).await?;
        Ok(marks == [true])
    }
}

fn is_in(now: Timestamp) -> impl Fn(&Question<'_>, &Attempt) -> Result<bool, TooLarge> {
    move |filter, attempt| filter.matches(&AtMoment { attempt, now })
}

/// How many of the newest attempts are read where `limit` are wanted: a filter looks at as many as a page may have.
#[must_use]
pub fn read_for(filter: Option<&AttemptFilter>, limit: u32) -> u32 {
    if filter.is_some() { LIMIT_MAX } else { limit }
}

/// The newest `limit` attempts of a page that fit.
#[must_use]
pub fn fitting<'a>(filter: Option<&AttemptFilter>, page: &'a Page<AttemptView>, limit: u32) -> Vec<&'a AttemptView> {
    let fits = |attempt: &&AttemptView| filter.is_none_or(|filter| filter.fits(attempt, page.taken_at));
    page.items.iter().filter(fits).take(limit as usize).collect()
}

struct AtMoment<'a> {
    attempt: &'a Attempt,
    now: Timestamp,
}

impl Fields for AtMoment<'_> {
    fn field(&self, name: &str) -> FieldValue<'_> {
        field(self.attempt, name, self.now)
    }
}

/// What a field of [`ATTEMPT_FIELDS`] says of an attempt, as seen at `now`.
#[must_use]
pub fn field<'a>(attempt: &'a Attempt, name: &str, now: Timestamp) -> FieldValue<'a> {
    let text = |text: &'static str| FieldValue::Text(Cow::Borrowed(text));
    match name {
        "outcome" => text(attempt.class.as_str()),
        "status" => attempt
            .status
            .map_or(FieldValue::Missing, |status| FieldValue::Number(status.into())),
        "number" => FieldValue::Number(attempt.number.into()),
        "took" => FieldValue::Duration(std::time::Duration::from_millis(attempt.duration_ms)),
        "age" => FieldValue::Duration(now.since(attempt.started_at)),
        "queue" => FieldValue::Text(Cow::Borrowed(attempt.queue.as_str())),
        "url" => FieldValue::Text(Cow::Borrowed(attempt.url.as_str())),
        "message" => FieldValue::Text(Cow::Borrowed(attempt.message_id.as_str())),
        "error" => attempt
            .error
            .as_deref()
            .map_or(FieldValue::Missing, |error| FieldValue::Text(Cow::Borrowed(error))),
        "response" => attempt.response.as_deref().map_or(FieldValue::Missing, |bytes| {
            FieldValue::Text(String::from_utf8_lossy(bytes))
        }),
        "counted" => FieldValue::Bool(attempt.counted),
        _ => FieldValue::Missing,
    }
}
