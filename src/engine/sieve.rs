//! A filter that somebody sent, asked of many rows: a regular expression over them can be any amount of work.
//!
//! Promises: the rows are asked beside the runtime's other work, by a few at a time, and one filter takes no more of
//! the processor than its budget; past that is an error that says how to ask for less. Who goes meanwhile is not
//! worked for longer than one lot. Who may only look asks of what he is shown: what the masks hide, nobody spells out.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::shown::Shown;
use super::sight::Sight;
use super::{EngineError, core::Core};
use crate::ambient;
use crate::domain::filter::{Condition, Field, Fields, Filter, TooLarge};
use crate::domain::mask::MaskRules;

/// How long one filter may compute, over all its rows, of a processor's time.
const BUDGET: Duration = Duration::from_secs(1);
/// One that is asked of what comes may also compute for this part of the time that passes: a twentieth.
const SHARE: u32 = 20;
/// How long it waits for the filters of others, at one time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Rows between two filters' turns.
const LOT: usize = 1_000;
/// Texts of which nothing is ever hidden.
const PLAIN: [&str; 2] = ["type", "state"];

/// Reads a filter. The regular expressions in it are compiled beside the runtime's other work.
pub(super) fn read(text: &str, fields: &[Field]) -> Result<Filter, EngineError> {
    ambient::beside(|| Filter::parse(text, fields)).map_err(|error| EngineError::of_filter(&error))
}

/// One filter, with what it used of its budget; without a filter every row is in.
#[derive(Debug)]
pub(super) struct Sieve {
    filter: Option<Filter>,
    /// What the configuration hides.
    rules: Arc<MaskRules>,
    /// What whoever asks does not see.
    masks: Option<Arc<MaskRules>>,
    turns: Arc<Semaphore>,
    patience: Duration,
    budget: Duration,
    /// More than its budget, where the last row took longer than what was left.
    used: Duration,
}

/// A filter, as it is asked of one row.
#[derive(Debug)]
pub(super) struct Question<'a> {
    filter: &'a Filter,
    /// What the configuration hides.
    pub(super) rules: &'a MaskRules,
    masks: Option<&'a MaskRules>,
}

impl Question<'_> {
    /// Whether the row is in.
    pub(super) fn matches(&self, row: &dyn Fields) -> Result<bool, TooLarge> {
        match self.masks {
            Some(masks) => self.filter.ask(&Shown { row, masks }),
            None => self.filter.ask(row),
        }
    }
}

impl Core {
    pub(super) fn sieve(&self, filter: Option<Filter>) -> Sieve {
        Sieve {
            filter,
            rules: Arc::clone(&self.settings.masks),
            masks: self.masks(),
            turns: Arc::clone(&self.sieves.filters),
            patience: PATIENCE,
            budget: BUDGET,
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

impl Core {
    /// A turn to make a list of everything, which takes as much memory as there are rows. To be held until it is cut.
    pub(super) async fn whole_list(&self) -> Result<SemaphorePermit<'_>, EngineError> {
        turn(
            &self.sieves.whole,
            PATIENCE,
            "the whole lists of others are made at present",
        )
        .await
    }

    /// A turn to read a page with bodies in it, to be held while it is read.
    pub(super) async fn page_with_bodies(&self) -> Result<SemaphorePermit<'_>, EngineError> {
        turn(&self.sieves.bodies, PATIENCE, "the pages of others are read at present").await
    }
}

async fn turn<'a>(turns: &'a Semaphore, patience: Duration, why: &str) -> Result<SemaphorePermit<'a>, EngineError> {
    match ambient::timeout(patience, turns.acquire()).await {
        Ok(Ok(turn)) => Ok(turn),
        Ok(Err(_)) | Err(_) => Err(EngineError::Busy { why: why.to_owned() }),
    }
}

impl Sieve {
    pub(super) const fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// So much time passed since it was asked last.
    pub(super) fn refill(&mut self, passed: Duration) {
        self.used = self.used.saturating_sub(passed / SHARE);
    }

    /// Whether it asks for what only the whole message has.
    pub(super) fn asks_for_places(&self) -> bool {
        self.filter.as_ref().is_some_and(Filter::asks_for_places)
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
        M: Fn(&Question<'_>, &T) -> Result<bool, TooLarge> + Sync,
    {
        let mut marks = self.ask(&rows, is_in).await?.into_iter();
        rows.retain(|_| marks.next().unwrap_or(true));
        Ok(rows)
    }

    /// Which of the rows are in, one mark a row; none where all are.
    pub(super) async fn ask<T, M>(&mut self, rows: &[T], is_in: M) -> Result<Vec<bool>, EngineError>
    where
        T: Sync,
        M: Fn(&Question<'_>, &T) -> Result<bool, TooLarge> + Sync,
    {
        let Some(filter) = &self.filter else {
            return Ok(Vec::new());
        };
        let question = Question {
            filter,
            rules: &self.rules,
            masks: self.masks.as_deref(),
        };
        let mut marks = Vec::with_capacity(rows.len());
        for lot in rows.chunks(LOT) {
            let turn = turn(
                &self.turns,
                self.patience,
                "the filters of others are computed at present",
            )
            .await?;
            let left = self.budget.saturating_sub(self.used);
            let (asked, used) = ambient::beside(|| {
                // The processor's time of this thread: a machine that is busy otherwise makes no filter dearer.
                let began = ambient::processor_time();
                let used = || ambient::processor_time().saturating_sub(began);
                let mut asked = Ok(());
                for row in lot {
                    asked = if used() > left {
                        Err(too_dear(filter))
                    } else {
                        let mark = is_in(&question, row).map_err(|too_large| not_told(filter, too_large));
                        mark.map(|mark| marks.push(mark))
                    };
                    if asked.is_err() {
                        break;
                    }
                }
                (asked, used())
            });
            drop(turn);
            self.used = self.used.saturating_add(used);
            asked?;
            // Whoever asked may have gone.
            tokio::task::yield_now().await;
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

fn not_told(filter: &Filter, too_large: TooLarge) -> EngineError {
    EngineError::Invalid {
        field: "filter".to_owned(),
        message: format!(
            "the filter {:?} depends on {too_large}: leave out what is so large by another condition of the filter, or \
             write plain text instead of a regular expression",
            crate::domain::text::show(filter.as_str(), 80),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fields::QUEUE_FIELDS;

    fn sieve(turns: usize) -> Sieve {
        Sieve {
            filter: Some(Filter::parse("depth > 0", QUEUE_FIELDS).unwrap()),
            rules: Arc::new(MaskRules::usual()),
            masks: None,
            turns: Arc::new(Semaphore::new(turns)),
            patience: Duration::from_millis(20),
            budget: Duration::from_millis(50),
            used: Duration::ZERO,
        }
    }

    /// Takes so much of the processor's time.
    fn compute(span: Duration) {
        let began = ambient::processor_time();
        while ambient::processor_time().saturating_sub(began) < span {
            std::hint::black_box(());
        }
    }

    #[tokio::test]
    async fn the_rows_of_all_lots_are_in_one_budget() {
        let mut sieve = sieve(1);
        let rows = vec![(); LOT];
        let dear = |_: &Question<'_>, (): &()| {
            compute(Duration::from_micros(20));
            Ok(true)
        };
        sieve.ask(&rows, dear).await.unwrap();
        sieve.ask(&rows, dear).await.unwrap();
        let refused = sieve.ask(&rows, dear).await.unwrap_err();
        assert!(
            matches!(&refused, EngineError::Invalid { field, .. } if field == "filter"),
            "{refused:?}"
        );
    }

    #[tokio::test]
    async fn a_filter_over_what_comes_has_a_part_of_the_time_and_never_more_than_its_budget() {
        let mut sieve = sieve(1);
        let dear = |_: &Question<'_>, (): &()| {
            compute(Duration::from_millis(60));
            Ok(true)
        };
        sieve.ask(&[()], dear).await.unwrap();
        // What was too much is taken from what comes.
        sieve.refill(Duration::from_millis(20));
        sieve.ask(&[()], dear).await.unwrap_err();
        sieve.refill(Duration::from_secs(1));
        sieve.ask(&[()], dear).await.unwrap();
        sieve.refill(Duration::from_hours(1));
        assert_eq!(sieve.used, Duration::ZERO);
    }

    #[tokio::test]
    async fn time_that_the_filter_does_not_compute_is_not_counted() {
        let mut sieve = sieve(1);
        sieve.budget = Duration::from_millis(5);
        let (_sender, nothing) = std::sync::mpsc::channel::<()>();
        let nothing = std::sync::Mutex::new(nothing);
        let waits = |_: &Question<'_>, (): &()| {
            let waited = nothing.lock().unwrap().recv_timeout(Duration::from_millis(10));
            Ok(waited.is_err())
        };
        assert_eq!(sieve.ask(&[(), (), ()], waits).await.unwrap().len(), 3);
    }

    #[tokio::test]
    async fn who_waits_too_long_for_the_filters_of_others_is_told_so() {
        let mut waiting = sieve(0);
        let refused = waiting.ask(&[()], |_, ()| Ok(true)).await.unwrap_err();
        assert!(matches!(refused, EngineError::Busy { .. }), "{refused:?}");
    }

    #[tokio::test]
    async fn the_rows_that_are_in_are_kept_in_order() {
        let kept = sieve(1).keep((0..2_500).collect(), |_, row| Ok(row % 1_000 == 7)).await;
        assert_eq!(kept.unwrap(), [7, 1_007, 2_007]);
    }
}
