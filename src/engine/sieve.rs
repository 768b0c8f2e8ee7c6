//! A filter that somebody sent, asked of many rows: a regular expression over them can be any amount of work.
//!
//! Promises: the rows are asked beside the runtime's other work, by a few at a time, and one filter takes no more of
//! the processor than its budget; past that is an error that says how to ask for less. Who goes meanwhile is not
//! worked for longer than one lot.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::{EngineError, Inner};
use crate::ambient::{self, Clock};
use crate::domain::filter::Filter;

/// How long one filter may compute, over all its rows.
const BUDGET: Duration = Duration::from_secs(1);
/// How long it waits for the filters of others, at one time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Rows between two filters' turns.
const LOT: usize = 1_000;

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
    clock: Clock,
    turns: Arc<Semaphore>,
    used: Duration,
}

impl Inner {
    pub(super) fn sieve(&self, filter: Option<Filter>) -> Sieve {
        Sieve {
            filter,
            clock: self.clock.clone(),
            turns: Arc::clone(&self.sieves.0),
            used: Duration::ZERO,
        }
    }
}

impl Sieve {
    pub(super) const fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// The rows that are in.
    pub(super) async fn keep<T, M>(&mut self, mut rows: Vec<T>, is_in: M) -> Result<Vec<T>, EngineError>
    where
        T: Send + Sync,
        M: Fn(&Filter, &T) -> bool + Sync,
    {
        let mut marks = self.ask(&rows, is_in).await?.into_iter();
        rows.retain(|_| marks.next().unwrap_or(true));
        Ok(rows)
    }

    /// Which of the rows are in, one mark a row; none where all are.
    pub(super) async fn ask<T, M>(&mut self, rows: &[T], is_in: M) -> Result<Vec<bool>, EngineError>
    where
        T: Sync,
        M: Fn(&Filter, &T) -> bool + Sync,
    {
        let Some(filter) = &self.filter else {
            return Ok(Vec::new());
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
                    marks.push(is_in(filter, row));
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
