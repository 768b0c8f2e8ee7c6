//! What a filter may name of attempts.

use std::borrow::Cow;

use super::EngineError;
use super::paging::LIMIT_MAX;
use super::shown::Shown;
use super::view::{AttemptView, Page};
use crate::domain::attempt::Attempt;
use crate::domain::filter::{Field, FieldKind, FieldValue, Fields, Filter};
use crate::domain::mask::MaskRules;
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
        let filter = Filter::parse(source, ATTEMPT_FIELDS);
        Ok(Self(filter.map_err(|error| EngineError::of_filter(&error))?))
    }

    /// Whether an attempt fits, as seen at `now`. With `masks` it is compared as it is shown where they hide something:
    /// nobody finds out by a filter what is hidden from him.
    #[must_use]
    pub fn fits(&self, attempt: &Attempt, now: Timestamp, masks: Option<&MaskRules>) -> bool {
        let row = AtMoment { attempt, now };
        match masks {
            Some(masks) => self.0.matches(&Shown { row: &row, masks }),
            None => self.0.matches(&row),
        }
    }
}

/// How many of the newest attempts are read where `limit` are wanted: a filter looks at as many as a page may have.
#[must_use]
pub fn read_for(filter: Option<&AttemptFilter>, limit: u32) -> u32 {
    if filter.is_some() { LIMIT_MAX } else { limit }
}

/// The newest `limit` attempts of a page that fit; `masks` as [`AttemptFilter::fits`] has it.
#[must_use]
pub fn fitting<'a>(
    filter: Option<&AttemptFilter>,
    page: &'a Page<AttemptView>,
    limit: u32,
    masks: Option<&MaskRules>,
) -> Vec<&'a AttemptView> {
    let fits = |attempt: &&AttemptView| filter.is_none_or(|filter| filter.fits(attempt, page.taken_at, masks));
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
