//! A filter that somebody sent, asked of many rows: a regular expression over them can be any amount of work.
//!
//! Promises: the rows are asked beside the runtime's other work, by a few at a time, and one filter takes no more of
//! the processor than its budget; past that is an error that says how to ask for less. Who goes meanwhile is not
//! worked for longer than one lot. Who may only look asks of what he is shown: what the masks hide, nobody spells out.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::sight::Sight;
use super::{EngineError, Inner};
use crate::ambient::{self, Clock};
use crate::domain::filter::{Condition, FieldValue, Fields, Filter};
use crate::domain::mask::MaskRules;

/// How long one filter may compute, over all its rows.
const BUDGET: Duration = Duration::from_secs(1);
/// How long it waits for the filters of others, at one time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Rows between two filters' turns.
const LOT: usize = 1_000;
/// Texts of which nothing is ever hidden.
const PLAIN: [&str; 2] = ["type", "state"];

/// Whose filter computes.
#[derive(Debug)]
pub(super) struct Sieves(Arc<Semaphore>);

impl Default for Sieves {
    /// Half of the processors may compute filters.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self(Arc::new(Semaphore::new((processors / 2).max(1))))
    }
}

/// One filter, with what it used of its budget; without a filter every row is in.
#[derive(Debug)]
pub(super) struct Sieve {
    filter: Option<Filter>,
    /// What whoever asks does not see.
    masks: Option<Arc<MaskRules>>,
    clock: Clock,
    turns: Arc<Semaphore>,
    used: Duration,
}

/// A filter, as it is asked of one row.
#[derive(Debug)]
pub(super) struct Question<'a> {
    filter: &'a Filter,
    masks: Option<&'a MaskRules>,
}

/// A row as it is shown.
struct Shown<'a> {
    row: &'a dyn Fields,
    masks: &'a MaskRules,
}

impl Question<'_> {
    /// Whether the row is in.
    pub(super) fn matches(&self, row: &dyn Fields) -> bool {
        match self.masks {
            Some(masks) => self.filter.matches(&Shown { row, masks }),
            None => self.filter.matches(row),
        }
    }
}

impl Fields for Shown<'_> {
    fn field(&self, name: &str) -> FieldValue<'_> {
        match self.row.field(name) {
            FieldValue::Text(text) => {
                let shown = match self.masks.outward(&text).value {
                    Cow::Owned(shown) => Some(shown),
                    Cow::Borrowed(_) => None,
                };
                FieldValue::Text(shown.map_or(text, Cow::Owned))
            }
            plain @ (FieldValue::Missing
            | FieldValue::Words(_)
            | FieldValue::Number(_)
            | FieldValue::Duration(_)
            | FieldValue::Bool(_)) => plain,
        }
    }
}

impl Inner {
    pub(super) fn sieve(&self, filter: Option<Filter>) -> Sieve {
        Sieve {
            filter,
            masks: self.masks(),
            clock: self.clock.clone(),
            turns: Arc::clone(&self.sieves.0),
            used: Duration::ZERO,
        }
    }

    /// What whom this is done for does not see.
    pub(super) fn masks(&self) -> Option<Arc<MaskRules>> {
        match Sight::present() {
            Sight::Whole => None,
            Sight::Masked => Some(Arc::clone(&self.settings.masks)),
        }
    }
}

impl Sieve {
    pub(super) const fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// What a store can look up for it. A store compares what is there, and so nothing that may be hidden.
    pub(super) fn conditions(&self) -> Vec<Condition<'_>> {
        let mut conditions = self.filter.as_ref().map(Filter::conditions).unwrap_or_default();
        if self.masks.is_some() {
            conditions.retain(|condition| match condition {
                Condition::Is(field, _) | Condition::Contains(field, _) => PLAIN.contains(field),
                Condition::Holds(_) | Condition::AtLeast(..) | Condition::Longer(..) => true,
            });
        }
        conditions
    }

    /// The rows that are in.
    pub(super) async fn keep<T, M>(&mut self, mut rows: Vec<T>, is_in: M) -> Result<Vec<T>, EngineError>
    where
        T: Send + Sync,
        M: Fn(&Question<'_>, &T) -> bool + Sync,
    {
        let mut marks = self.ask(&rows, is_in).await?.into_iter();
        rows.retain(|_| marks.next().unwrap_or(true));
        Ok(rows)
    }

    /// Which of the rows are in, one mark a row; none where all are.
    pub(super) async fn ask<T, M>(&mut self, rows: &[T], is_in: M) -> Result<Vec<bool>, EngineError>
    where
        T: Sync,
        M: Fn(&Question<'_>, &T) -> bool + Sync,
    {
        let Some(filter) = &self.filter else {
            return Ok(Vec::new());
        };
        let question = Question {
            filter,
            masks: self.masks.as_deref(),
        };
        let mut marks = Vec::with_capacity(rows.len());
        for lot in rows.chunks(LOT) {
            let waiting = tokio::time::timeout(PATIENCE, self.turns.acquire()).await;
            let Ok(Ok(turn)) = waiting else {
                return Err(EngineError::Busy {
                    why: "the filters of others are computed at present".to_owned(),
                });
            };
            let began = self.clock.uptime();
            let left = BUDGET.saturating_sub(self.used);
            let clock = &self.clock;
            let is_over = || clock.uptime().saturating_sub(began) > left;
            let asked = ambient::beside(|| {
                for row in lot {
                    if is_over() {
                        return false;
                    }
                    marks.push(is_in(&question, row));
                }
                true
            });
            drop(turn);
            self.used += self.clock.uptime().saturating_sub(began);
            if !asked {
                return Err(too_dear(filter));
            }
        }
        Ok(marks)
    }
}

fn too_dear(filter: &Filter) -> EngineError {
    EngineError::Invalid {
        field: "filter".to_owned(),
        message: format!(
            "the filter {:?} takes more than {} s of the processor over all rows: narrow it to one queue, group, state \
             or endpoint, or write plain text instead of a regular expression",
            crate::domain::text::show(filter.as_str(), 80),
            BUDGET.as_secs()
        ),
    }
}
